/**
 * How long a server that was killed takes until it drives all its runs again, on SQLite and on
 * PostgreSQL. `node bench/restart.ts [runs]`
 *
 * Counted are runs whose lease the new process has taken (their epoch has risen). A server without any
 * runs is started five times before, for what of the time is only Node and loading. On PostgreSQL a killed node's
 * leases have to run out first, because nobody can know that it is dead; that wait is not counted.
 */
import { DatabaseSync } from 'node:sqlite';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { Client } from 'pg';
import { startPostgres } from '../test/support/postgres-server.ts';
import { TestServer } from '../test/support/server.ts';
import { median } from './measure.ts';

const count = Number(process.argv[2] ?? 1_000);
const leaseMs = 3_000;

interface Held {
  readonly runs: number;
  /** How often the one that was taken up least was. */
  readonly epoch: number;
}

const heldSql =
  'SELECT COUNT(*) AS runs, MIN(epoch) AS epoch FROM runs WHERE lease_owner IS NOT NULL';

interface Scene {
  readonly name: string;
  readonly server: TestServer;
  readonly held: () => Promise<Held>;
  /** What has to pass after a kill. */
  readonly waitMs: number;
}

async function start(server: TestServer): Promise<void> {
  const body = { model: 'demo', input: 'slow 3600000' };
  const response = await server.request('/v1/runs', { body });
  await response.body?.cancel();
}

async function starting(server: TestServer): Promise<number> {
  const began = performance.now();
  await server.start();
  return performance.now() - began;
}

async function measure({ name, server, held, waitMs }: Scene): Promise<void> {
  await server.start();
  const starts: number[] = [];
  for (let round = 0; round < 5; round += 1) {
    await server.kill();
    starts.push(await starting(server));
  }
  const empty = median(starts);
  for (let left = count; left > 0; left -= 50) {
    await Promise.all(Array.from({ length: Math.min(50, left) }, () => start(server)));
  }
  while ((await held()).runs < count) await pause(50);
  await server.kill();
  await pause(waitMs);
  const began = performance.now();
  const listening = await starting(server);
  for (;;) {
    const { runs, epoch } = await held();
    if (runs >= count && epoch >= 2) break;
    await pause(5);
  }
  const resumed = performance.now() - began;
  const ms = (time: number) => `${Math.round(time)} ms`;
  console.log(
    `${name}, ${count} runs: all resumed ${ms(resumed)} after the start of the process, ` +
      `${ms(resumed - listening)} after its first answer; ` +
      `a start without runs takes ${ms(empty)}, so ${ms(resumed - empty)} are the runs'`,
  );
  await server.dispose();
}

const common = { RELAY_MAX_ACTIVE_RUNS: String(count), RELAY_LOG_LEVEL: 'warn' };
const embedded = new TestServer(common);
await measure({
  name: 'SQLite',
  server: embedded,
  waitMs: 0,
  held: async () => {
    const db = new DatabaseSync(join(embedded.dataDir, 'relay.db'), { readOnly: true });
    try {
      return db.prepare(heldSql).get() as unknown as Held;
    } finally {
      db.close();
    }
  },
});

const postgres = await startPostgres({ durable: true });
const client = new Client({ connectionString: postgres.url });
try {
  await client.connect();
  await measure({
    name: 'PostgreSQL',
    server: new TestServer({
      ...common,
      RELAY_DATABASE_URL: postgres.url,
      RELAY_MASTER_KEY: 'ab'.repeat(32),
      RELAY_LEASE_TTL_MS: String(leaseMs),
    }),
    waitMs: leaseMs,
    held: async () => {
      const { rows } = await client.query<{ runs: string; epoch: string }>(heldSql);
      return { runs: Number(rows[0]?.runs), epoch: Number(rows[0]?.epoch) };
    },
  });
} finally {
  await client.end();
  await postgres.stop();
}
