/** For suites that run on both databases. */
import type { SystemStore } from '@relay/core';
import { createMemoryStore, openPostgresStore } from '@relay/store';
import { createDatabase } from '../../../../test/support/postgres.ts';

/** How to open an empty store of each kind. To close it also deletes its database. */
export const stores: Readonly<Record<string, () => Promise<SystemStore>>> = {
  SQLite: async () => createMemoryStore(),
  PostgreSQL: async () => {
    const database = await createDatabase();
    const store = await openPostgresStore({ url: database.url });
    const close = store.close.bind(store);
    return Object.assign(store, {
      async close() {
        await close();
        await database.drop();
      },
    });
  },
};
