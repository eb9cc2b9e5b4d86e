/**
 * Recalling from a namespace of 10,000 memories, by words and by vectors of 1,536 numbers, on both
 * databases, and what 20,000 memories of another tenant change. The time of a provider is not in it.
 * The baseline is the same question in a namespace of 100, which is about what the sample costs.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { SystemStore, TenantStore } from '@relay/core';
import { openPostgresStore, openSqliteStore } from '@relay/store';
import { startPostgres } from '../test/support/postgres-server.ts';
import { quantile } from './measure.ts';

const questions = 20;
const vocabulary = 8_000;
const dimensions = 1_536;
const model = 'bench';

let state = 7;
function chance(): number {
  state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fffffff;
  return state / 0x80000000;
}

/** The n-th most frequent word comes about 1/n as often as the first, as in any language. */
function word(): string {
  return `w${Math.floor(10 * (vocabulary / 10 + 1) ** chance() - 10).toString(36)}q`;
}

function textOf(words: number): string {
  return `Relay ${Array.from({ length: words }, word).join(' ')}`;
}

/** Texts have subjects, and what all of them share. */
const subjects = Array.from({ length: 200 }, () => randomVector());

function randomVector(): Float32Array {
  return Float32Array.from({ length: dimensions }, () => 2 * chance() - 1);
}

function meaning(): Float32Array {
  const subject = subjects[Math.floor(chance() * subjects.length)] ?? randomVector();
  return subject.map((value, place) => value + 0.3 * (subjects[0]?.[place] ?? 0) + chance() - 0.5);
}

let made = 0;
async function addOne(tenant: TenantStore, namespace: string, means: boolean): Promise<void> {
  made += 1;
  const memoryId = `01900000-0000-7000-8000-${made.toString(16).padStart(12, '0')}`;
  await tenant.addMemory({
    id: memoryId,
    namespace,
    text: textOf(60 + Math.floor(chance() * 80)),
    runId: null,
    source: 'api',
    createdAt: made,
    expiresAt: null,
  });
  if (means)
    await tenant.vectors.put({ memoryId, model, vector: meaning(), at: 1e12 + made * 60_000 });
}

interface Filling {
  readonly namespace: string;
  readonly count: number;
  readonly means: boolean;
}

async function fill(tenant: TenantStore, { namespace, count, means }: Filling): Promise<void> {
  for (let done = 0; done < count; done += 250) {
    const size = Math.min(250, count - done);
    await Promise.all(Array.from({ length: size }, () => addOne(tenant, namespace, means)));
  }
}

type Ask = (tenant: TenantStore, namespace: string) => Promise<unknown>;

const speaking =
  (words: number): Ask =>
  (tenant, namespace) =>
    tenant.searchMemories({ namespace, query: textOf(words), limit: 5, now: 0 });

const near: Ask = (tenant, namespace) =>
  tenant.vectors.nearest({ namespace, model, vector: meaning(), limit: 10, floor: 0.2, now: 0 });

const asks: Readonly<Record<string, Ask>> = {
  'words, a short question': speaking(6),
  'words, one of 120': speaking(120),
  meaning: near,
};

/** Milliseconds of each question, on the clock and of this process's CPU. */
interface Times {
  readonly clock: number[];
  readonly cpu: number[];
}

async function timed(times: Times, ask: () => Promise<unknown>): Promise<void> {
  const used = process.cpuUsage();
  const began = performance.now();
  await ask();
  times.clock.push(performance.now() - began);
  const { user, system } = process.cpuUsage(used);
  times.cpu.push((user + system) / 1_000);
}

async function compareSizes(title: string, tenant: TenantStore, rounds: number): Promise<void> {
  console.log(`\n${title}: ms a question (CPU here, best, p50, p95; p50 against 100 memories)`);
  for (const [name, ask] of Object.entries(asks)) {
    const [small, large]: [Times, Times] = [noTimes(), noTimes()];
    for (let n = 0; n < rounds * questions; n += 1) {
      await timed(small, () => ask(tenant, 'small'));
      await timed(large, () => ask(tenant, 'large'));
    }
    line(name, large, small);
  }
  // As after every run: one more is there than when it was last asked.
  const grown = noTimes();
  for (let n = 0; n < questions; n += 1) {
    await addOne(tenant, 'large', true);
    await timed(grown, () => near(tenant, 'large'));
  }
  line('meaning, with one more each time', grown, noTimes());
}

function noTimes(): Times {
  return { clock: [], cpu: [] };
}

function line(name: string, { clock, cpu }: Times, baseline: Times): void {
  const ratio = quantile(clock, 0.5) / quantile(baseline.clock, 0.5);
  const mean = cpu.reduce((sum, each) => sum + each, 0) / cpu.length;
  const figures = [mean, ...[0, 0.5, 0.95].map((q) => quantile(clock, q))];
  const shown = figures.map((value) => value.toFixed(2).padStart(8)).join('');
  console.log(`  ${name.padEnd(34)} ${shown}   ${Number.isNaN(ratio) ? '' : ratio.toFixed(2)}`);
}

async function benchOn(name: string, store: SystemStore, rounds: number): Promise<void> {
  const tenant = store.tenant('one');
  await fill(tenant, { namespace: 'small', count: 100, means: true });
  await fill(tenant, { namespace: 'large', count: 10_000, means: true });
  const began = performance.now();
  await near(tenant, 'large');
  const first = (performance.now() - began).toFixed(1);
  await compareSizes(
    `Memories on ${name}, 10,000 of them (the first by meaning: ${first} ms)`,
    tenant,
    rounds,
  );
  await fill(store.tenant('two'), { namespace: 'large', count: 20_000, means: false });
  await compareSizes(`Memories on ${name}, beside a tenant with 20,000`, tenant, rounds);
}

export async function benchMemories(rounds: number): Promise<void> {
  const dir = mkdtempSync(join(tmpdir(), 'relay-bench-'));
  const store = await openSqliteStore({ dir });
  try {
    await benchOn('SQLite', store, rounds);
  } finally {
    await store.close();
    rmSync(dir, { recursive: true, force: true });
  }
  const server = await startPostgres();
  try {
    const shared = await openPostgresStore({ url: server.url });
    await benchOn('PostgreSQL', shared, rounds);
    await shared.close();
  } finally {
    await server.stop();
  }
}
