import type { NewAuditEntry, TenantChange, TenantStore } from '@relay/core';
import { type Budgets, RelayError } from '@relay/protocol';

export interface TenantSettings {
  readonly budgets?: Budgets;
  readonly workspace?: string;
}

const attempts = 20;

/**
 * Changes some of a tenant's settings by compare-and-set, so that concurrent changes are kept. A function
 * returns what changes in the settings as they are.
 */
export async function changeSettings(
  store: TenantStore,
  settings: TenantSettings | ((before: TenantSettings) => TenantSettings),
  also: Pick<TenantChange, 'pausedAt'> & { readonly audit?: readonly NewAuditEntry[] } = {},
): Promise<void> {
  const { audit, ...change } = also;
  for (let attempt = 0; attempt < attempts; attempt += 1) {
    const { settings: expectedSettings } = await store.readTenant();
    const before = expectedSettings as TenantSettings;
    const changed = {
      ...before,
      ...(typeof settings === 'function' ? settings(before) : settings),
    };
    if (await store.updateTenant({ ...change, settings: changed, expectedSettings }, audit)) return;
  }
  throw new RelayError('storage_failed', 'The tenant settings changed concurrently; try again');
}
