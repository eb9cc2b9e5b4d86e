/** What a server costs that has a lot stored: measured over HTTP, at a real server process. */
import { setTimeout as pause } from 'node:timers/promises';
import { type Budget, defined } from '@relay/protocol';
import type { TestServer } from '../../test/support/server.ts';
import { quantile } from '../measure.ts';

const times = 100;

interface Held {
  readonly bytes: number;
  readonly cpuMs: number;
}

/** The memory of the server after a collection, and the CPU time that it has used. */
export async function held(server: TestServer): Promise<Held> {
  const seen = server.output.length;
  server.signal('SIGUSR2');
  const deadline = performance.now() + 60_000;
  while (performance.now() < deadline) {
    const found = /^holds (.*)\n/m.exec(server.output.slice(seen))?.[1];
    if (found !== undefined) return JSON.parse(found) as Held;
    await pause(10);
  }
  throw new Error(`The server does not say what it holds:\n${server.output}`);
}

export async function startToReady(server: TestServer): Promise<number> {
  const began = performance.now();
  await server.start();
  return performance.now() - began;
}

/** Milliseconds of CPU per second of a server that nobody uses. */
export async function idleCpu(server: TestServer, seconds = 6): Promise<number> {
  const before = await held(server);
  const began = performance.now();
  await pause(seconds * 1000);
  const after = await held(server);
  // Each of the two measurements collects garbage, of which half is in between.
  const collecting = await held(server);
  const used = after.cpuMs - before.cpuMs - (collecting.cpuMs - after.cpuMs);
  return Math.max(0, used) / ((performance.now() - began) / 1000);
}

/** The lower quartile: other load on the machine only adds to it. */
async function timeOf(work: () => Promise<unknown>, count = times): Promise<number> {
  const taken: number[] = [];
  for (let n = 0; n < count; n += 1) {
    const began = performance.now();
    await work();
    taken.push(performance.now() - began);
  }
  return quantile(taken, 0.25);
}

/** A JSON body or a stream, to its end. */
async function read(server: TestServer, path: string, body?: unknown): Promise<string> {
  const response = await server.request(path, body === undefined ? {} : { body });
  const text = await response.text();
  if (!response.ok) throw new Error(`${path}: ${response.status} ${text}`);
  return text;
}

export function page(server: TestServer, path: string): Promise<number> {
  return timeOf(() => read(server, path), 20);
}

const say = { model: 'demo', input: 'say 20' };

interface RunCost {
  readonly wallMs: number;
  readonly cpuMs: number;
}

const warmUps = 20;
export const runsMeasured = warmUps + times;

export function run(server: TestServer, over: object): Promise<number> {
  return timeOf(() => read(server, '/v1/runs', { ...say, ...over }), 1);
}

/** Whole runs, one at a time. */
export async function runs(server: TestServer, over: object = {}): Promise<RunCost> {
  const run = () => read(server, '/v1/runs', { ...say, ...over });
  for (let n = 0; n < warmUps; n += 1) await run();
  const before = await held(server);
  const collecting = await held(server);
  const wallMs = await timeOf(run);
  const after = await held(server);
  const collection = collecting.cpuMs - before.cpuMs;
  return { wallMs, cpuMs: (after.cpuMs - collecting.cpuMs - collection) / times };
}

/** Of the tenant, for all its runs. */
export async function setBudget(server: TestServer, tenant: Budget | undefined): Promise<void> {
  const body = { budgets: defined({ tenant }) };
  const response = await server.request('/v1/tenant', { method: 'PUT', body });
  if (!response.ok) throw new Error(`PUT /v1/tenant: ${response.status} ${await response.text()}`);
}

/** From a decision to the end of its run, of approvals from the middle of the list. */
export async function decisions(server: TestServer): Promise<number> {
  const list = await read(server, `/v1/approvals?status=pending&limit=${times}`);
  const { approvals } = JSON.parse(list) as { approvals: { id: string; runId: string }[] };
  const waiting = approvals.values();
  return timeOf(
    async () => {
      const next = waiting.next().value;
      if (next === undefined) throw new Error('There are too few approvals');
      await read(server, `/v1/approvals/${next.id}`, { approved: true });
      await read(server, `/v1/runs/${next.runId}/stream`);
    },
    Math.min(times, approvals.length),
  );
}
