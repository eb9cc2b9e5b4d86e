/** Stores on PostgreSQL. Databases are emptied and used again: a new one costs more than most tests. */
import type { SystemStore } from '@relay/core';
import { openPostgresStore } from '@relay/store';
import { createDatabase, type TestDatabase } from './postgres.ts';

const free: TestDatabase[] = [];

export interface PostgresStore {
  readonly store: SystemStore;
  readonly url: string;
  /** Makes the database free. The store must be closed. */
  readonly dispose: () => Promise<void>;
}

/** An empty one, on a database that believes its callers what time it is. */
export async function openEmptyPostgres(): Promise<PostgresStore> {
  const found = free.pop();
  const database = found ?? (await createDatabase());
  const { url } = database;
  // PostgreSQL ends the transaction of a process that stands still for 2 s, as on a machine that is busy.
  const store = await openPostgresStore({ url }).catch(() => openPostgresStore({ url }));
  if (found === undefined) await database.stopClock();
  return {
    store,
    url,
    dispose: async () => {
      await database.empty();
      free.push(database);
    },
  };
}

/** To be called at the end of a file that uses them. */
export async function dropDatabases(): Promise<void> {
  await Promise.all(free.splice(0).map((database) => database.drop()));
}
