import type { NewAudit, TenantChange, TenantStore } from '@relay/core';
import { RelayError } from '@relay/protocol';
import type { TenantSettings } from '../jobs/budgets.ts';

const attempts = 20;

/** Changes some of a tenant's settings, and leaves alone what somebody else changes at the same time. */
export async function changeSettings(
  store: TenantStore,
  settings: TenantSettings,
  also: Pick<TenantChange, 'pausedAt'> & { readonly audit?: readonly NewAudit[] } = {},
): Promise<void> {
  const { audit, ...change } = also;
  for (let attempt = 0; attempt < attempts; attempt += 1) {
    const { settings: expectedSettings } = await store.readTenant();
    const changed = { ...(expectedSettings as TenantSettings), ...settings };
    if (await store.updateTenant({ ...change, settings: changed, expectedSettings }, audit)) return;
  }
  throw new RelayError('storage_failed', 'The settings of this tenant are being changed by others');
}
