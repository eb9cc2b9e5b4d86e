/** A real server on SQLite, or on a PostgreSQL database of its own in the project `faults-postgres`. */
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import type { SystemStore } from '@relay/core';
import { createMemoryStore, openPostgresStore } from '@relay/store';
import type { TestContext } from 'vitest';
import { createDatabase, type TestDatabase } from '../support/postgres.ts';
import { TestServer } from '../support/server.ts';

const isPostgres = process.env['TEST_STORE'] === 'postgres';

type Values = readonly (string | number | null)[];

export class StoreServer extends TestServer {
  #database: TestDatabase | undefined;

  override async start(env: Readonly<Record<string, string>> = {}): Promise<this> {
    if (isPostgres) this.#database ??= await createDatabase();
    return super.start(env);
  }

  protected override environment(env: Readonly<Record<string, string>>): NodeJS.ProcessEnv {
    return super.environment({ ...this.#storeEnv(), ...env });
  }

  override async dispose(): Promise<void> {
    await super.dispose();
    await this.#database?.drop();
  }

  /** Past the server. Parameters are written as `?`. */
  async sql(text: string, values: Values = []): Promise<readonly Record<string, unknown>[]> {
    if (this.#database !== undefined) {
      let n = 0;
      return this.#database.sql(
        text.replaceAll('?', () => `$${(n += 1)}`),
        values,
      );
    }
    const database = new DatabaseSync(join(this.dataDir, 'relay.db'), { timeout: 5_000 });
    try {
      return database.prepare(text).all(...values);
    } finally {
      database.close();
    }
  }

  /** After kill -9 another node waits until the leases of the dead one have expired. */
  #storeEnv(): Readonly<Record<string, string>> {
    if (this.#database === undefined) return {};
    return {
      RELAY_DATABASE_URL: this.#database.url,
      RELAY_MASTER_KEY: 'ab'.repeat(32),
      RELAY_LEASE_TTL_MS: '1500',
    };
  }
}

/** A store without a server. Tests that run at the same time get one each. */
export async function openTestStore({
  onTestFinished,
}: Pick<TestContext, 'onTestFinished'>): Promise<SystemStore> {
  if (!isPostgres) return createMemoryStore();
  const database = await createDatabase();
  const store = await openPostgresStore({ url: database.url });
  await database.stopClock();
  onTestFinished(async () => {
    await store.close();
    await database.drop();
  });
  return store;
}
