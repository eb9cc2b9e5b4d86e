/**
 * Many long answers at once on a real server: how many runs complete, the peak memory of the process,
 * and how long `/health` takes, next to a server without runs that is asked at the same time.
 *
 * `node bench/large-answers.ts [--runs 200] [--chars 3900000] [--kill]`. With `--kill` the server is
 * killed when a quarter of the runs have completed, and restarted on the same folder. Variables such as
 * RELAY_RUN_MEMORY_MB and NODE_OPTIONS apply to the server.
 */
import { fork } from 'node:child_process';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { TestServer } from '../test/support/server.ts';
import { quantile } from './measure.ts';
import type { Load, LoadReport } from './processes/large-answers.ts';

const { values } = parseArgs({
  options: {
    runs: { type: 'string', default: '200' },
    chars: { type: 'string', default: '3900000' },
    kill: { type: 'boolean', default: false },
  },
});
const runs = Number(values.runs);
const chars = Number(values.chars);

const load = fork(fileURLToPath(new URL('processes/large-answers.ts', import.meta.url)), {
  env: { PATH: process.env['PATH'] },
});
const idle = new TestServer({ NODE_OPTIONS: '' });
const server = new TestServer({
  RELAY_PRIVATE_NETWORKS: '127.0.0.0/8',
  RELAY_LOG_LEVEL: 'warn',
  RELAY_MAX_ANSWER_CHARS: String(Math.max(chars, 4 * 1024 * 1024)),
});

let completed = 0;
let failed = 0;
const port = await new Promise<number>((resolve) => {
  load.on('message', (report: LoadReport) => {
    if ('port' in report) resolve(report.port);
    else if (report.isCompleted) completed += 1;
    else failed += 1;
  });
});

/** Asks `/health` every 20 ms until the signal, and returns how long each answer took. */
async function probe(target: TestServer, signal: AbortSignal): Promise<number[]> {
  const times: number[] = [];
  while (!signal.aborted) {
    const before = performance.now();
    await (await target.request('/health', { keyless: true })).text();
    times.push(performance.now() - before);
    await pause(20);
  }
  return times;
}

async function measure(name: string, finished: () => Promise<boolean> | boolean): Promise<void> {
  const before = performance.now();
  const over = new AbortController();
  const probes = [probe(server, over.signal), probe(idle, over.signal)];
  while (!(await finished())) await pause(100);
  over.abort();
  const [loaded = [], baseline = []] = await Promise.all(probes);
  const health = (times: readonly number[]) =>
    `p50 ${ms(quantile(times, 0.5))}, p99 ${ms(quantile(times, 0.99))}, max ${ms(Math.max(...times))}`;
  console.log(
    `${name}: ${Math.round((performance.now() - before) / 1000)} s, ` +
      `peak memory ${Math.round(server.peakMemoryBytes / 1024 / 1024)} MB\n` +
      `  /health ${health(loaded)}\n  idle    ${health(baseline)}`,
  );
}

function ms(time: number): string {
  return `${Math.round(time)} ms`;
}

/** Runs in the store, by their status. */
function counts(): Record<string, number> {
  const db = new DatabaseSync(join(server.dataDir, 'relay.db'), { readOnly: true });
  try {
    const rows = db.prepare('SELECT status, COUNT(*) AS runs FROM runs GROUP BY status').all();
    return Object.fromEntries(rows.map(({ status, runs: count }) => [status, Number(count)]));
  } finally {
    db.close();
  }
}

try {
  await Promise.all([idle.start(), server.start()]);
  const body = { apiKey: 'sk-0123456789abcdef', baseUrl: `http://127.0.0.1:${port}/v1` };
  await server.request('/v1/credentials/openai', { method: 'PUT', body });
  load.send({ url: server.url, apiKey: server.apiKey, runs, chars } satisfies Load);
  const name = `${runs} runs of ${chars} characters`;
  if (values.kill) {
    await measure(name, () => (counts()['completed'] ?? 0) >= runs / 4);
    await server.kill();
    console.log('  killed:', counts());
    await server.start();
    const isOver = () => {
      const { completed: ended = 0, failed: lost = 0 } = counts();
      return ended + lost === runs;
    };
    await measure('Resumed', isOver);
  } else {
    await measure(name, () => completed + failed === runs);
    console.log(`  streams: ${completed} completed, ${failed} failed`);
  }
  console.log('  runs:', counts());
} finally {
  load.disconnect();
  await Promise.all([server.dispose(), idle.dispose()]);
}
