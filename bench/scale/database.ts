/** A database that is filled faster than a server could: rows are inserted in bulk, without syncing. */
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import type { SystemStore } from '@relay/core';
import { readConfig } from '@relay/server';
import { openStore } from '../../packages/server/src/config/open-store.ts';
import { masterKeys } from '../../packages/server/src/secrets/master-key.ts';
import { rowAuthenticator } from '../../packages/server/src/secrets/row-authenticator.ts';
import { RowSigner } from '../../packages/store/src/codec/signed-table.ts';
import type { Row } from '../../packages/store/src/drivers/driver.ts';
import { Client, types } from 'pg';
import { startPostgres } from '../../test/support/postgres-server.ts';
import { TestServer } from '../../test/support/server.ts';

export type Rows = Map<string, Row[]>;

export interface Database {
  readonly name: 'SQLite' | 'PostgreSQL';
  /** Not started. */
  readonly server: TestServer;
  readonly signer: RowSigner;
  query(sql: string): Promise<readonly Row[]>;
  /** By table. */
  insert(rows: Rows): Promise<void>;
  /** After much was inserted: what a database does by itself after a while. */
  settle(): Promise<void>;
  readonly withStore: <Value>(use: (store: SystemStore) => Promise<Value>) => Promise<Value>;
  dispose(): Promise<void>;
}

const numeric = new Set([types.builtins.INT8, types.builtins.FLOAT8]);
const masterKey = 'ab'.repeat(32);
const entry = 'test/support/servers/measured.ts';
const common = {
  RELAY_MASTER_KEY: masterKey,
  RELAY_LOG_LEVEL: 'error',
};

function access(server: TestServer, env: Readonly<Record<string, string>>) {
  const config = readConfig({ ...env, RELAY_DATA_DIR: server.dataDir }, server.dataDir);
  return {
    signer: new RowSigner(rowAuthenticator(masterKeys(config))),
    withStore: async <Value>(use: (store: SystemStore) => Promise<Value>): Promise<Value> => {
      const { store, close } = await openStore(config, 'shared');
      try {
        return await use(store);
      } finally {
        await close();
      }
    },
  };
}

export async function sqliteDatabase(): Promise<Database> {
  const server = new TestServer(common, entry);
  const path = join(server.dataDir, 'relay.db');
  const { signer, withStore } = access(server, common);
  const use = <Value>(work: (db: DatabaseSync) => Value): Value => {
    const db = new DatabaseSync(path);
    try {
      return work(db);
    } finally {
      db.close();
    }
  };
  return {
    name: 'SQLite',
    server,
    signer,
    withStore,
    query: async (sql) => use((db) => db.prepare(sql).all() as Row[]),
    insert: async (rows) =>
      use((db) => {
        db.exec('PRAGMA synchronous = OFF; PRAGMA cache_size = -1000000; BEGIN');
        for (const [table, all] of rows) {
          const columns = Object.keys(all[0] ?? {});
          const values = columns.map(() => '?').join(', ');
          const insert = db.prepare(
            `INSERT INTO ${table} (${columns.join(', ')}) VALUES (${values})`,
          );
          for (const row of all) insert.run(...columns.map((column) => row[column] ?? null));
        }
        db.exec('COMMIT');
      }),
    settle: async () => use((db) => db.exec('PRAGMA wal_checkpoint(TRUNCATE)')),
    dispose: () => server.dispose(),
  };
}

export async function postgresDatabase(): Promise<Database> {
  const postgres = await startPostgres({ durable: true });
  const env = { ...common, RELAY_DATABASE_URL: postgres.url };
  const server = new TestServer(env, entry);
  const client = new Client({
    connectionString: postgres.url,
    types: { getTypeParser: (type) => (numeric.has(type) ? Number : String) },
  });
  await client.connect();
  const { signer, withStore } = access(server, env);
  return {
    name: 'PostgreSQL',
    server,
    signer,
    withStore,
    query: async (sql) => (await client.query<Row>(sql)).rows,
    async insert(rows) {
      await client.query('BEGIN; SET LOCAL synchronous_commit = off');
      for (const [table, all] of rows) {
        const columns = Object.keys(all[0] ?? {}).join(', ');
        await client.query(
          `INSERT INTO ${table} (${columns})
            SELECT ${columns} FROM json_populate_recordset(NULL::${table}, $1)`,
          [JSON.stringify(all)],
        );
      }
      await client.query('COMMIT');
    },
    async settle() {
      await client.query('VACUUM ANALYZE');
      await client.query('CHECKPOINT');
    },
    async dispose() {
      await server.dispose();
      await client.end();
      await postgres.stop();
    },
  };
}
