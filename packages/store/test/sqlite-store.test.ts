import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { storeContract } from './contract/index.ts';
import { openSqliteStore } from '../src/index.ts';

storeContract('the SQLite store', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'relay-store-'));
  let store = await openSqliteStore({ dir });
  return {
    store,
    reopen: async () => {
      await store.close();
      store = await openSqliteStore({ dir });
      return store;
    },
    dispose: async () => {
      await store.close();
      rmSync(dir, { recursive: true, force: true });
    },
  };
});
