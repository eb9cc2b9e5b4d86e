import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Engine, SystemStore } from '@relay/core';
import { ids } from '../compose.ts';
import { issueBootstrapKey } from './keys.ts';

/**
 * The first start makes the tenant `default` and shows its key once. Where nobody is watching, it
 * goes into a file that only the owner can read, and never into a log.
 */
export async function showFirstKey(
  store: SystemStore,
  options: { dataDir: string; terminal: boolean; audit: Engine['audit'] },
): Promise<string[]> {
  const tenant = await store.findTenant('default');
  const keys = tenant === undefined ? [] : await store.tenant(tenant.id).listKeys({ limit: 1 });
  if (keys.length > 0) return [];
  // Of several nodes that start together on a new store, one shows it.
  if (!(await store.writeMetadata('first-key', ids.next(), { ifAbsent: true }))) return [];
  const { apiKey } = await issueBootstrapKey(store, ids, {
    tenant: 'default',
    by: 'first start',
    audit: options.audit,
  });
  if (options.terminal) {
    return ['Your API key, shown only this once:', '', `  ${apiKey}`, ''];
  }
  const file = join(options.dataDir, 'first-key');
  writeFileSync(file, `${apiKey}\n`, { mode: 0o600 });
  return [`The first API key is in ${file}`];
}
