import { afterAll } from 'vitest';
import { dropDatabases, openEmptyPostgres } from '../../../test/support/postgres-stores.ts';
import { storeContract } from './contract/store-contract.ts';
import { openPostgresStore } from '../src/index.ts';

afterAll(dropDatabases);

storeContract('the PostgreSQL store', async () => {
  const { store: first, url, dispose } = await openEmptyPostgres();
  let store = first;
  return {
    store,
    reopen: async () => {
      await store.close();
      store = await openPostgresStore({ url });
      return store;
    },
    dispose: async () => {
      await store.close();
      await dispose();
    },
  };
});
