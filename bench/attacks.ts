/**
 * Hostile requests to a real server: how long `/health` takes meanwhile, and how the requests are
 * answered. `node bench/attacks.ts [--rounds 5] [--only text]`
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { TestServer } from '../test/support/server.ts';
import { quantile } from './measure.ts';
import type { Probe } from './processes/health-probe.ts';

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '5' },
    only: { type: 'string', default: '' },
  },
});
const rounds = Number(values.rounds);

const workspace = mkdtempSync(join(tmpdir(), 'relay-attacks-'));
const server = new TestServer({ RELAY_WORKSPACE: workspace, RELAY_LOG_LEVEL: 'error' });
const probe = fork(fileURLToPath(new URL('processes/health-probe.ts', import.meta.url)));

/** Returns the status codes, by what was answered. */
type Attack = (round: number) => Promise<readonly (number | string)[]>;

const explain = '/v1/permissions/explain';
const megabyte = 1024 * 1024;

async function post(path: string, body: string | object): Promise<number> {
  const response = await server.request(path, { method: 'POST', body });
  await response.text();
  return response.status;
}

/** Neither a wildcard nor a literal text rules a value out early. */
const slowPattern = (n: number) => `*a${'?'.repeat(120)}${'b?'.repeat(1 + (n % 20))}b`;
const rulesOf = (count: number, patternOf: (n: number) => string, tool = 'bash') =>
  Array.from({ length: count }, (_, n) => ({ tool, params: { command: patternOf(n) } }));

function explaining(command: unknown, denylist: object[], tool = 'bash'): object {
  return { tool, params: { command }, permissions: { denylist, allowlist: [{ tool: 'bash' }] } };
}

/** The same character each round would be found in a cache. */
const texts = (length: number, round: number) => `${round}${'ab'.repeat(length / 2)}b`;

/** Runs whose model calls a tool with these arguments. The run is not followed. */
async function startRun(name: string, input: object, permissions: object): Promise<number> {
  const body = {
    model: 'demo',
    input: `use ${name} ${JSON.stringify(input)}`,
    tools: [{ name, kind: 'builtin' }],
    permissions,
  };
  const response = await server.request('/v1/runs', { method: 'POST', body });
  await response.text();
  return response.status;
}

/** A run that waits for the result of a function, and the path to post it to. */
async function waitingCall(): Promise<string> {
  const body = {
    model: 'demo',
    input: 'use look {}',
    tools: [
      { name: 'look', kind: 'function', description: 'Look', inputSchema: { type: 'object' } },
    ],
    permissions: { allowlist: [{ tool: 'look' }] },
  };
  const response = await server.request('/v1/runs', { method: 'POST', body });
  let text = '';
  for await (const chunk of response.body ?? []) {
    text += Buffer.from(chunk).toString();
    const call = /"type":"tool_call"[^}]*?"id":"([^"]+)"/.exec(text)?.[1];
    const run = /"type":"run","id":"([^"]+)"/.exec(text)?.[1];
    if (call !== undefined && run !== undefined) return `/v1/runs/${run}/tool-results/${call}`;
  }
  throw new Error(`The run made no call: ${text.slice(0, 500)}`);
}

async function openFeeds(count: number): Promise<number[]> {
  const over = new AbortController();
  const opened = Array.from({ length: count }, async () => {
    const { status } = await server.request('/v1/feed', { signal: over.signal });
    return status;
  });
  const statuses = await Promise.all(opened);
  over.abort();
  return statuses;
}

const unknownKey = (n: number) => `relay_live_${String(n).padStart(43, 'A')}`;
const itemsOf = (item: string, chars: number) =>
  Array.from({ length: chars / (item.length + 1) }, () => item).join(',');
const attacks: Readonly<Record<string, Attack>> = {
  'nothing (pause of 300 ms)': async () => {
    await pause(300);
    return [];
  },
  'explain: 688 KB, 200 slow rules': async (round) => [
    await post(explain, explaining(texts(660_000, round), rulesOf(200, slowPattern, 'bash'))),
  ],
  'explain: 200 deny rules × 300 KB': async (round) => [
    await post(
      explain,
      explaining(
        texts(300_000, round),
        rulesOf(200, (n) => `program-${n} *x`),
      ),
    ),
  ],
  'explain: 500 rules × 1 MB': async (round) => [
    await post(
      explain,
      explaining(
        texts(950_000, round),
        rulesOf(480, (n) => `*${n}*b*${round}`),
      ),
    ),
  ],
  'explain: 501 rules': async () => [
    await post(
      explain,
      explaining(
        'ls',
        rulesOf(501, (n) => `x${n}`),
      ),
    ),
  ],
  'explain: 35 new patterns of 900 characters': async (round) => [
    await post(
      explain,
      explaining(
        'ls',
        rulesOf(35, (n) => `${round}-${n}${'*a'.repeat(450)}`),
      ),
    ),
  ],
  'explain: 64 KB of $(': async (round) => [
    await post(
      explain,
      explaining(
        `${'$('.repeat(32_000)}${round}`,
        rulesOf(3, (n) => `rm${n} *`),
      ),
    ),
  ],
  'explain: 30 KB of npm options': async (round) => [
    await post(
      explain,
      explaining(
        `${'npm --a x '.repeat(3_000)}${round}`,
        rulesOf(3, (n) => `rm${n} *`),
      ),
    ),
  ],
  'explain: 1 MB of numbers': async () => [
    await post(explain, `{"tool":"calculator","params":{"command":[${itemsOf('1', 1_000_000)}]}}`),
  ],
  'deep JSON': async () => [await post('/v1/runs', '['.repeat(megabyte - 10))],
  'one object with 80,000 keys, and a duplicate': async () => {
    const keys = Array.from({ length: 80_000 }, (_, n) => `"${n}k":1`).join(',');
    return [await post('/v1/runs', `{${keys},"0k":2}`)];
  },
  'a run with 1 MB of messages': async () => [
    await post(
      '/v1/runs',
      `{"model":"nope","input":[${itemsOf('{"role":"user","content":"a"}', 1_000_000)}]}`,
    ),
  ],
  'tool result: 9 MB of numbers': async () => [
    await post(await waitingCall(), `{"output":[${itemsOf('1', 9_000_000)}]}`),
  ],
  'tool result: 9 MB of small objects': async () => [
    await post(await waitingCall(), `{"output":[${itemsOf('{"a":1}', 9_000_000)}]}`),
  ],
  '3,000 feeds of one key': async () => openFeeds(3_000),
  '1,500 unknown keys': async () => {
    const statuses: number[] = [];
    for (let n = 0; n < 1_500; n += 50) {
      const batch = Array.from({ length: 50 }, async (_, at) => {
        const headers = { authorization: `Bearer ${unknownKey(n + at)}` };
        const response = await server.request('/v1/runs', { keyless: true, headers });
        await response.text();
        return response.status;
      });
      statuses.push(...(await Promise.all(batch)));
    }
    return statuses;
  },
  'run: 60 KB command of $(': async (round) => {
    const command = `${'$('.repeat(30_000)}${round}`;
    const permissions = { denylist: rulesOf(100, (n) => `rm${n} *`), headless: true };
    return [await startRun('bash', { command }, permissions)];
  },
  'run: 60 KB command of words': async (round) => {
    const command = Array.from({ length: 12_000 }, (_, n) => `w${n}${round}`).join(' ');
    const permissions = { denylist: rulesOf(100, (n) => `rm${n} *`), headless: true };
    return [await startRun('bash', { command }, permissions)];
  },
  'run: 900 KB of tiny arguments': async (round) => {
    const command = Array.from({ length: 400_000 }, () => round);
    return [await startRun('bash', { command }, { headless: true })];
  },
};

async function measure(name: string, attack: Attack): Promise<void> {
  probe.send({ url: server.url } satisfies Probe);
  const statuses = new Map<number | string, number>();
  for (let round = 0; round < rounds; round += 1) {
    for (const status of await attack(round)) statuses.set(status, (statuses.get(status) ?? 0) + 1);
    await pause(50);
  }
  probe.send({} satisfies Probe);
  const [times] = (await once(probe, 'message')) as [number[]];
  const ms = (time: number) => `${time.toFixed(time < 10 ? 1 : 0)} ms`;
  const counts = [...statuses].map(([status, count]) => `${count} × ${status}`);
  const max = times.reduce((most, time) => Math.max(most, time), 0);
  const health = [quantile(times, 0.5), quantile(times, 0.99), max].map(ms);
  console.log(`| ${name} | ${health.join(' | ')} | ${counts.join(', ')} |`);
}

try {
  await server.start();
  console.log('| attack | p50 | p99 | max | answers |\n|---|---|---|---|---|');
  for (const [name, attack] of Object.entries(attacks)) {
    if (name.includes(values.only)) await measure(name, attack);
  }
} finally {
  probe.disconnect();
  await server.dispose();
  rmSync(workspace, { recursive: true, force: true });
}
