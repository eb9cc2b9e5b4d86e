/**
 * Units stored by many runs at once, each waiting for its own, on a PostgreSQL that syncs: grouped
 * into one transaction as they come, against one transaction a unit on several connections.
 */
import { Client } from 'pg';
import { openPostgresDriver } from '../packages/store/src/drivers/postgres/driver.ts';
import type { SqlDriver, Statement } from '../packages/store/src/drivers/driver.ts';
import { startPostgres } from '../test/support/postgres-server.ts';
import { compare, show } from './measure.ts';

const unitsPerRun = 40;

/** What an append does: the fence, and a row of the journal. */
function unitOf(run: number, seq: number): Statement[] {
  return [
    {
      sql: 'UPDATE bench_runs SET last_seq = ? WHERE id = ? AND last_seq = ? AND epoch = 1',
      params: [seq, `run-${run}`, seq - 1],
      expect: 1,
    },
    {
      sql: 'INSERT INTO bench_events (run_id, last_seq, payload) VALUES (?, ?, ?)',
      params: [`run-${run}`, seq, JSON.stringify({ type: 'text.appended', text: 'x'.repeat(300) })],
    },
  ];
}

async function fresh(url: string, runs: number): Promise<void> {
  const client = new Client({ connectionString: url });
  await client.connect();
  await client.query('DROP TABLE IF EXISTS bench_runs, bench_events');
  await client.query(
    'CREATE TABLE bench_runs (id TEXT PRIMARY KEY, last_seq BIGINT, epoch BIGINT) WITH (fillfactor = 50)',
  );
  await client.query(
    'CREATE TABLE bench_events (run_id TEXT, last_seq BIGINT, payload TEXT, PRIMARY KEY (run_id, last_seq))',
  );
  await client.query(
    `INSERT INTO bench_runs SELECT 'run-' || n, 0, 1 FROM generate_series(0, $1::int - 1) n`,
    [runs],
  );
  await client.end();
}

async function measured(url: string, runs: number, drivers: readonly SqlDriver[]): Promise<number> {
  await fresh(url, runs);
  const began = performance.now();
  await Promise.all(
    Array.from({ length: runs }, async (_, run) => {
      const driver = drivers[run % drivers.length];
      for (let seq = 1; seq <= unitsPerRun; seq += 1) {
        const result = await driver?.transact(unitOf(run, seq), { run: `run-${run}` });
        if (!result?.ok) throw new Error('not stored');
      }
    }),
  );
  return (runs * unitsPerRun) / ((performance.now() - began) / 1000);
}

export async function benchPostgres(rounds: number): Promise<void> {
  const postgres = await startPostgres({ durable: true });
  const { url } = postgres;
  const lanes = (count: number, maxUnits: number) =>
    Promise.all(
      Array.from({ length: count }, () =>
        openPostgresDriver({ url, maxUnits, writers: 1, readers: 1 }),
      ),
    );
  const ways: Record<string, SqlDriver[]> = {
    'a transaction a unit, 1 connection': await lanes(1, 1),
    'a transaction a unit, 8 connections': await lanes(8, 1),
    'a transaction a unit, 32 connections': await lanes(32, 1),
    'grouped, 1 connection': await lanes(1, 60),
    'grouped, 2 connections': await lanes(2, 60),
    'grouped, 4 connections': await lanes(4, 60),
    'grouped, 8 connections': await lanes(8, 60),
  };
  try {
    for (const runs of [1, 16, 256]) {
      const contenders = Object.entries(ways).map(([name, drivers]) => ({
        name,
        run: () => measured(url, runs, drivers),
      }));
      show(`PostgreSQL: ${runs} runs at once`, await compare(contenders, rounds), 'units/s');
    }
  } finally {
    await Promise.all(
      Object.values(ways)
        .flat()
        .map((driver) => driver.close()),
    );
    await postgres.stop();
  }
}
