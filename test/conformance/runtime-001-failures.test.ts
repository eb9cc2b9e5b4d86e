/** 001: retries, and what keeps a run from being executed twice. */
import type { Model } from '@relay/core';
import {
  createRecordingTool,
  createScriptedModel,
  finish,
  ManualClock,
  text,
  toolCall,
} from '@relay/core/testing';
import type { Script } from '@relay/models/testing';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { allFrames } from '../support/frames.ts';
import { ask, bootKernel, journalOf, until, untilStatus } from '../support/kernel.ts';
import { decide, post, resume, say, typesOf } from './runtime-client.ts';
import { refuses, says, type Scripted, startScriptedProcess } from './scripted.ts';
import { openTestStore, type StoreServer } from './store-server.ts';
import { verifies } from './verifies.ts';

let scripted: Scripted<StoreServer>;
beforeAll(async () => {
  scripted = await startScriptedProcess();
});
afterAll(() => scripted.dispose());

const body = { model: 'gpt-4o-mini' };

/** Plays turns, and says when the provider was asked for each. */
function playTimed(...turns: readonly Script[]): number[] {
  const times: number[] = [];
  scripted.play(
    ...turns.map((turn): Script => (response, request) => {
      times.push(performance.now());
      return turn(response, request);
    }),
  );
  return times;
}

function gapsOf(times: readonly number[]): number[] {
  return times.slice(1).map((time, index) => time - (times[index] ?? 0));
}

/** A refusal that says how long to wait. */
function busy(seconds: number): Script {
  return (response) => {
    response.writeHead(429, { 'content-type': 'application/json', 'retry-after': String(seconds) });
    response.end('{"error":{"message":"Too many requests"}}');
  };
}

describe('a transient failure of the provider', () => {
  test.each([429, 500, 503])('is retried, and the run succeeds: %i', async (status) => {
    verifies('001:failure:retry-transient');
    scripted.play(refuses(status), says('Here ', 'I am.'));
    const { reader } = await say(scripted.server, 'Hello', { body });
    const data = (await reader.rest()).map((frame) => frame.data);
    expect(scripted.asked()).toHaveLength(2);
    expect(data.at(-1)).toMatchObject({ type: 'done', status: 'succeeded' });
    const deltas = data.flatMap(({ type, content }) => (type === 'text_delta' ? [content] : []));
    expect(deltas.join('')).toBe('Here I am.');
    expect(typesOf(data)).not.toContain('error');
    expect(data.find(({ type }) => type === 'agent_summary')?.['trust']).toMatchObject({
      retryAttempts: 1,
    });
  });

  test('is retried after a pause that grows from time to time', async () => {
    verifies('001:failure:retry-backoff');
    const times = playTimed(refuses(503), refuses(503), refuses(503), says('At last.'));
    const { reader } = await say(scripted.server, 'Hello', { body });
    expect((await reader.rest()).at(-1)?.data).toMatchObject({ status: 'succeeded' });
    const gaps = gapsOf(times);
    expect(gaps).toHaveLength(3);
    // Half to all of 250 ms, then twice that, and twice that again.
    for (const [index, gap] of gaps.entries()) {
      expect(gap).toBeGreaterThanOrEqual(125 * 2 ** index - 5);
    }
  });

  test('is retried no sooner than the provider asks for', async () => {
    verifies('001:failure:retry-backoff');
    const times = playTimed(busy(1), says('Now.'));
    const { reader } = await say(scripted.server, 'Hello', { body });
    expect((await reader.rest()).at(-1)?.data).toMatchObject({ status: 'succeeded' });
    expect(gapsOf(times)[0]).toBeGreaterThanOrEqual(990);
  });

  test('that persists is reported, and a permanent one is not retried', async () => {
    verifies('001:failure:retry-transient', '001:failure:done-after-failure');
    for (const [status, attempts] of [
      [503, 4],
      [400, 1],
      [401, 1],
    ] as const) {
      scripted.play(...Array.from({ length: 9 }, () => refuses(status)));
      const { reader } = await say(scripted.server, 'Hello', { body });
      const types = typesOf((await reader.rest()).map(({ data }) => data));
      expect(types.slice(-4)).toEqual(['error', 'agent_progress', 'agent_summary', 'done']);
      expect(scripted.asked()).toHaveLength(attempts);
    }
  });
});

describe('a run', () => {
  test('is executed by one node only, however many resume it', async () => {
    verifies('001:failure:run-lease');
    const store = await openTestStore({ onTestFinished });
    const gate = Promise.withResolvers<void>();
    const tool = createRecordingTool({ name: 'pay', allowedByDefault: true });
    const scriptOf = createScriptedModel([
      [toolCall('call_1', 'pay', { amount: 7 }), finish()],
      [text('Paid.'), finish()],
    ]);
    const model: Model = {
      async *stream(request, signal) {
        await gate.promise;
        yield* scriptOf.stream(request, signal);
      },
    };
    const nodes = await Promise.all(
      [0, 1, 2].map(() => bootKernel({ store, model, tools: [tool] })),
    );
    onTestFinished(async () => void (await Promise.all(nodes.map((node) => node.stop()))));
    const [first] = nodes;
    if (first === undefined) throw new Error('There is no node');
    const run = await ask(first);
    const ref = { tenantId: run.tenantId, runId: run.id };
    for (const { control } of nodes) control.supervisor.wake(ref);
    const others = nodes.slice(1).map(({ control }) => control.supervisor);
    await until(async () => others.every(({ activeRuns }) => activeRuns === 0), 'the others');
    expect(first.control.supervisor.activeRuns).toBe(1);
    gate.resolve();
    const record = await untilStatus(first, run.id, 'completed');
    // The lease was taken once, when the run was made.
    expect(record.epoch).toBe(1);
    expect(tool.executions).toHaveLength(1);
    expect(scriptOf.requests).toHaveLength(2);
    const types = (await journalOf(store, ref)).map(({ type }) => type);
    expect(types.filter((type) => type === 'run.started')).toHaveLength(1);
  });

  test('is taken over when its lease expires, and the first executor can do no more', async () => {
    verifies('001:failure:run-lease');
    const store = await openTestStore({ onTestFinished });
    const pay = createRecordingTool({ name: 'pay', allowedByDefault: true });
    const script = [
      [toolCall('call_1', 'pay', { amount: 7 }), finish()],
      [text('Paid.'), finish()],
    ];
    const gate = Promise.withResolvers<void>();
    const slow = createScriptedModel(script);
    const asleep: Model = {
      async *stream(request, signal) {
        await gate.promise;
        yield* slow.stream(request, signal);
      },
    };
    const other = createScriptedModel(script);
    // The first one's time stands still: it renews no lease and does not know that it has lost it.
    const clocks = [new ManualClock(), new ManualClock()] as const;
    const settings = { leaseTtlMs: 10_000 };
    const options = { store, tools: [pay], settings };
    const first = await bootKernel({ ...options, model: asleep, clock: clocks[0] });
    const second = await bootKernel({ ...options, model: other, clock: clocks[1] });
    onTestFinished(async () => void (await Promise.all([first.stop(), second.stop()])));
    const run = await ask(first, { tools: ['pay'] });
    const ref = { tenantId: run.tenantId, runId: run.id };
    // While the lease lasts the run cannot be taken.
    second.control.supervisor.wake(ref);
    await until(async () => second.control.supervisor.activeRuns === 0, 'the refusal');
    expect(other.requests).toEqual([]);
    await clocks[1].advance(settings.leaseTtlMs + 1);
    second.control.supervisor.wake(ref);
    await untilStatus(second, run.id, 'completed');
    expect(pay.executions).toHaveLength(1);
    // The first one gets its answer now: its call of the tool is not stored, and not executed.
    gate.resolve();
    await until(async () => first.control.supervisor.activeRuns === 0, 'the first executor');
    expect(slow.requests).toHaveLength(1);
    expect(pay.executions).toHaveLength(1);
    const types = (await journalOf(store, ref)).map(({ type }) => type);
    expect(types.filter((type) => type === 'tool.started')).toHaveLength(1);
    expect(types.filter((type) => type === 'run.ended')).toHaveLength(1);
  });

  test('is persisted once, however often it is asked for, also after kill -9', async () => {
    verifies('001:failure:idempotent-persistence');
    const headers = { 'idempotency-key': 'order-7' };
    const message = 'use send_note {"to":"ann","text":"ordered"}';
    const wish = { body: { model: 'demo', message }, headers };
    const send = () => post(scripted.server, '/api/chat', wish);
    const runIdOf = (response: Response) => response.headers.get('x-run-id');
    const answers = await Promise.all(Array.from({ length: 10 }, send));
    const runIds = new Set(answers.map(runIdOf));
    expect(runIds.size).toBe(1);
    const [runId] = runIds;
    await until(
      async () => (await resume(scripted.server, runId)).body['status'] === 'waiting',
      'the question',
    );
    await scripted.server.kill();
    for (const { body: rest } of answers) await rest?.cancel().catch(() => undefined);
    await scripted.server.start();
    const again = await send();
    expect(runIdOf(again)).toBe(runId);
    expect(again.headers.get('idempotent-replayed')).toBe('true');
    await decide(scripted.server, { runId, toolCallId: 'call_1', action: 'approve' });
    const frames = await allFrames(again);
    expect(frames.at(-1)?.data).toMatchObject({ type: 'done', status: 'succeeded' });
    expect(await allFrames(await send())).toEqual(frames);
    const sent = scripted.server.notes.filter((each) => each.text === 'ordered');
    expect(sent).toHaveLength(1);
    const other = { ...wish, body: { model: 'demo', message: 'say 1' } };
    expect((await post(scripted.server, '/api/chat', other)).status).toBe(422);
    const list = await scripted.server.request('/v1/runs?limit=200');
    const { runs } = (await list.json()) as { runs: { input: string }[] };
    expect(runs.filter(({ input }) => input === message)).toHaveLength(1);
  });
});
