import { createDatabase } from '../../../test/support/postgres.ts';
import { storeContract } from './contract/index.ts';
import { openPostgresStore } from '../src/index.ts';

storeContract('the PostgreSQL store', async () => {
  const database = await createDatabase();
  let store = await openPostgresStore({ url: database.url });
  await database.stopClock();
  return {
    store,
    reopen: async () => {
      await store.close();
      store = await openPostgresStore({ url: database.url });
      return store;
    },
    dispose: async () => {
      await store.close();
      await database.drop();
    },
  };
});
