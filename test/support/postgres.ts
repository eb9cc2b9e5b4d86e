/** Databases for tests: each gets an empty one of its own, on a server that all share. */
import { randomUUID } from 'node:crypto';
import { request } from 'node:http';
import { Client } from 'pg';

export interface TestDatabase {
  readonly url: string;
  /** From now on the database believes its callers what time it is. */
  stopClock(): Promise<void>;
  /** Runs a statement on a separate connection. */
  sql(text: string, values?: readonly unknown[]): Promise<readonly Record<string, unknown>[]>;
  /** Removes all rows, and leaves the tables. */
  empty(): Promise<void>;
  drop(): Promise<void>;
}

/** On the server that all share, or on another one. */
export async function createDatabase(on?: string): Promise<TestDatabase> {
  const server = on ?? (await serverUrl());
  const name = `relay_${randomUUID().replaceAll('-', '')}`;
  await run(server, `CREATE DATABASE ${name} TEMPLATE template0 ENCODING 'UTF8'`);
  const url = new URL(server);
  url.pathname = `/${name}`;
  return {
    url: url.href,
    stopClock: async () => {
      await run(
        url.href,
        `CREATE OR REPLACE FUNCTION relay_now(client_time BIGINT) RETURNS BIGINT
          LANGUAGE sql AS 'SELECT client_time'`,
      );
    },
    sql: (text, values) => run(url.href, text, values),
    empty: async () => {
      // There are few rows: to truncate would make new files for all tables and indexes.
      await run(
        url.href,
        `DO $$ DECLARE name TEXT; BEGIN
          FOR name IN SELECT quote_ident(tablename) FROM pg_tables
            WHERE schemaname = 'public' AND tablename NOT LIKE 'migration%'
          LOOP EXECUTE 'DELETE FROM ' || name; END LOOP;
        END $$`,
      );
    },
    drop: async () => {
      await run(server, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`);
    },
  };
}

async function run(url: string, text: string, values: readonly unknown[] = []) {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    const { rows } = await client.query<Record<string, unknown>>(text, [...values]);
    return rows;
  } finally {
    await client.end();
  }
}

let known: Promise<string> | undefined;

function serverUrl(): Promise<string> {
  known ??= findServer();
  return known;
}

async function findServer(): Promise<string> {
  const given = process.env['RELAY_TEST_DATABASE_URL'];
  if (given !== undefined) return given;
  const socketPath = process.env['RELAY_TEST_POSTGRES'];
  if (socketPath === undefined) throw new Error('This test is not run by vitest');
  return new Promise((resolve, reject) => {
    const asking = request({ socketPath, path: '/' }, (response) => {
      let text = '';
      response.on('data', (chunk: Buffer) => (text += chunk.toString()));
      response.on('end', () =>
        response.statusCode === 200 ? resolve(text) : reject(new Error(text)),
      );
    });
    asking.once('error', reject);
    asking.end();
  });
}
