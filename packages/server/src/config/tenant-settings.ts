import type { NewAuditEntry, TenantChange, TenantStore } from '@relay/core';
import { type Budgets, RelayError } from '@relay/protocol';

export interface TenantSettings {
  readonly budgets?: Budgets;
  readonly workspace?: string;
}

const attempts = 20;

/** Changes some of a tenant's settings by compare-and-set, so that concurrent changes are kept. */
export async function changeSettings(
  store: TenantStore,
  settings: TenantSettings,
  also: Pick<TenantChange, 'pausedAt'> & { readonly audit?: readonly NewAuditEntry[] } = {},
): Promise<void> {
  const { audit, ...change } = also;
  for (let attempt = 0; attempt < attempts; attempt += 1) {
    const { settings: expectedSettings } = await store.readTenant();
    const changed = { ...(expectedSettings as TenantSettings), ...settings };
    if (await store.updateTenant({ ...change, settings: changed, expectedSettings }, audit)) return;
  }
  throw new RelayError('storage_failed', 'The tenant settings changed concurrently; try again');
}
