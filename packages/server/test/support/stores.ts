/** For suites that run on both databases: `npm test` runs them on SQLite, `npm run test:faults` on PostgreSQL. */
import type { SystemStore } from '@relay/core';
import { createMemoryStore, openPostgresStore } from '@relay/store';
import { createDatabase } from '../../../../test/support/postgres.ts';

type OpenStore = () => Promise<SystemStore>;

const openPostgres: OpenStore = async () => {
  const database = await createDatabase();
  const store = await openPostgresStore({ url: database.url });
  const close = store.close.bind(store);
  return Object.assign(store, {
    async close() {
      await close();
      await database.drop();
    },
  });
};

/** How to open an empty store. To close it also deletes its database. */
export const stores: Readonly<Record<string, OpenStore>> =
  process.env['TEST_STORE'] === 'postgres'
    ? { PostgreSQL: openPostgres }
    : { SQLite: async () => createMemoryStore() };
