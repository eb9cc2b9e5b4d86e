import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { SystemStore } from '@relay/core';
import { ids } from './compose.ts';
import { issueBootstrapKey } from './keys.ts';

/**
 * The first start makes the tenant `default` and shows its key once. Where nobody is watching, it
 * goes into a file that only the owner can read, and never into a log.
 */
export async function showFirstKey(
  store: SystemStore,
  options: { dataDir: string; terminal: boolean },
): Promise<string[]> {
  if ((await store.findTenant('default')) !== undefined) return [];
  // Of several nodes that start together on a new store, one shows it.
  if (!(await store.writeNote('first-key', ids.next(), { ifAbsent: true }))) return [];
  const { apiKey } = await issueBootstrapKey(store, ids, 'default');
  if (options.terminal) {
    return ['Your API key, shown only this once:', '', `  ${apiKey}`, ''];
  }
  const file = join(options.dataDir, 'first-key');
  writeFileSync(file, `${apiKey}\n`, { mode: 0o600 });
  return [`The first API key is in ${file}`];
}
