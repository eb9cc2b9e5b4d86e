/**
 * How long a server that was killed takes until it drives all its runs again: from the start of the
 * process, and from its first answer. `node bench/restart.ts [runs]`
 */
import { DatabaseSync } from 'node:sqlite';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { TestServer } from '../test/support/server.ts';

const count = Number(process.argv[2] ?? 1_000);
const server = new TestServer({
  RELAY_MAX_ACTIVE_RUNS: String(count),
  RELAY_LOG_LEVEL: 'warn',
});

/** Runs that are held, and how often the one that was taken up least was. */
function held(): { runs: number; epoch: number } {
  const db = new DatabaseSync(join(server.dataDir, 'relay.db'), { readOnly: true });
  try {
    const sql = `SELECT COUNT(*) AS runs, MIN(epoch) AS epoch FROM runs WHERE lease_owner IS NOT NULL`;
    return db.prepare(sql).get() as { runs: number; epoch: number };
  } finally {
    db.close();
  }
}

async function start(): Promise<void> {
  const body = { model: 'demo', input: 'slow 3600000' };
  const response = await server.request('/v1/runs', { body });
  await response.body?.cancel();
}

await server.start();
for (let left = count; left > 0; left -= 50) {
  await Promise.all(Array.from({ length: Math.min(50, left) }, start));
}
while (held().runs < count) await pause(50);
await server.kill();
const began = performance.now();
await server.start();
const listening = performance.now();
while (held().runs < count || held().epoch < 2) await pause(5);
const resumed = performance.now();
console.log(
  `${count} runs: ${Math.round(resumed - listening)} ms after the first answer, ` +
    `${Math.round(resumed - began)} ms after the start of the process`,
);
await server.dispose();
