/** A database that is filled faster than a server could: rows are inserted in bulk, without syncing. */
import { rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
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
  /** Without the indexes that are not needed to insert much; they are made afterwards. */
  withoutIndexes(fill: () => Promise<void>): Promise<void>;
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
  let kept: DatabaseSync | undefined;
  const open = () => {
    const db = new DatabaseSync(path);
    db.exec('PRAGMA synchronous = OFF; PRAGMA cache_size = -1000000; PRAGMA threads = 2');
    return db;
  };
  const use = <Value>(work: (db: DatabaseSync) => Value): Value => {
    const db = kept ?? open();
    try {
      return work(db);
    } finally {
      if (db !== kept) db.close();
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
        db.exec('BEGIN');
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
    async withoutIndexes(fill) {
      const db = open();
      kept = db;
      // Without a journal, what is stored is written once.
      db.exec('PRAGMA journal_mode = OFF');
      await fillWithout(
        "SELECT name, sql FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL",
        { query: async (sql) => db.prepare(sql).all(), fill },
      );
      db.exec('PRAGMA journal_mode = WAL');
      db.close();
      kept = undefined;
    },
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
  // PostgreSQL reads what it copies from a file, as a user of its own.
  const file = join(tmpdir(), `relay-scale-${process.pid}.csv`);
  return {
    name: 'PostgreSQL',
    server,
    signer,
    withStore,
    query: async (sql) => (await client.query<Row>(sql)).rows,
    async insert(rows) {
      await client.query('BEGIN; SET LOCAL synchronous_commit = off');
      for (const [table, all] of rows) {
        const columns = Object.keys(all[0] ?? {});
        writeFileSync(file, all.map((row) => csvOf(row, columns)).join(''));
        await client.query(`COPY ${table} (${columns.join(', ')}) FROM '${file}' (FORMAT csv)`);
      }
      await client.query('COMMIT');
    },
    async withoutIndexes(fill) {
      await client.query(`SET maintenance_work_mem = '1GB'`);
      await fillWithout(
        `SELECT indexname AS name, indexdef AS sql FROM pg_indexes
          WHERE schemaname = 'public' AND indexname NOT IN (SELECT conname FROM pg_constraint)`,
        { query: async (sql) => (await client.query<Row>(sql)).rows, fill },
      );
    },
    async settle() {
      await client.query('VACUUM ANALYZE');
      await client.query('CHECKPOINT');
    },
    async dispose() {
      await server.dispose();
      await client.end();
      await postgres.stop();
      rmSync(file, { force: true });
    },
  };
}

/** What is not quoted is NULL. */
function csvOf(row: Row, columns: readonly string[]): string {
  const values = columns.map((column) => {
    const value = row[column] ?? null;
    return value === null ? '' : `"${String(value).replaceAll('"', '""')}"`;
  });
  return `${values.join()}\n`;
}

/** `indexes`: selects the name and the definition of each. */
async function fillWithout(
  indexes: string,
  { query, fill }: { query: Database['query']; fill: () => Promise<void> },
): Promise<void> {
  const dropped = await query(indexes);
  for (const { name } of dropped) await query(`DROP INDEX ${String(name)}`);
  await fill();
  for (const { sql } of dropped) await query(String(sql));
}
