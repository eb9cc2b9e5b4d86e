/** Function tools: a client runs them, and the run waits for its results without a process. */
import { claimToolCall, postToolResult } from '@relay/core';
import {
  createRecordingTool,
  createScriptedModel,
  finish,
  ManualClock,
  text,
  toolCall,
} from '@relay/core/testing';
import type { FunctionTool } from '@relay/protocol';
import { agentTool } from '@relay/tools';
import { describe, expect, test } from 'vitest';
import {
  type AskOptions,
  ask,
  type Kernel,
  openClientCalls,
  until,
  untilStatus,
} from '../support/kernel.ts';
import { createScriptedAgents, delegate, says } from './scripted-agents.ts';
import {
  appendWith,
  createStreamingModel,
  endOf,
  finished,
  journal,
  lastOf,
  ofType,
  openFixture,
  resultsIn,
  stopRun,
  untilAsked,
  untilStored,
} from './fixture.ts';
import { wrapStore } from './stores.ts';

const lookup: FunctionTool = {
  name: 'lookup',
  description: 'Finds a user',
  inputSchema: {
    type: 'object',
    properties: { id: { type: 'string' } },
    required: ['id'],
    additionalProperties: false,
  },
};
const functions: AskOptions = { tools: ['lookup'], functions: [lookup] };
const call = (n: number, input: unknown = { id: `u_${n}` }) =>
  toolCall(`call_${n}`, 'lookup', input);
const answer = [text('Done.'), finish()];
const timeoutMs = 60_000;

async function waitingForClient(calls = [call(1)]) {
  const fixture = await openFixture();
  const clock = new ManualClock();
  const model = createScriptedModel([[...calls, finish()], answer]);
  const settings = { toolResultTimeoutMs: timeoutMs };
  const kernel = await fixture.boot({ model, clock, settings });
  const run = await ask(kernel, functions);
  await parked(kernel, run.id);
  return { ...fixture, kernel, clock, model, run };
}

async function parked(kernel: Kernel, runId: string): Promise<void> {
  await untilStatus(kernel, runId, 'waiting');
  await until(async () => kernel.control.supervisor.activeRuns === 0, 'the run to be suspended');
}

function bring(kernel: Kernel, runId: string, result: Result) {
  const { toolCallId = 'call_1', output, failed = false } = result;
  const ref = { tenantId: kernel.tenantId, runId, toolCallId };
  return postToolResult(kernel.control, ref, { output, failed });
}

interface Result {
  readonly toolCallId?: string;
  readonly output: unknown;
  readonly failed?: boolean;
}

describe('a function tool', () => {
  test('is offered to the model, and waits for its client without anything in memory', async () => {
    const { kernel, model, run } = await waitingForClient();
    expect(lastOf(model.requests).tools).toEqual([
      { name: 'lookup', description: 'Finds a user', inputSchema: lookup.inputSchema },
    ]);
    const events = await journal(kernel, run.id);
    const [started] = openClientCalls(events);
    expect(started).toMatchObject({
      via: 'client',
      input: { id: 'u_1' },
      rule: { list: 'builtin' },
    });
    expect(started?.resultBy).toBe(
      new Date(kernel.control.engine.clock.now() + timeoutMs).toISOString(),
    );
    expect(ofType(events, 'run.suspended')).toMatchObject([{ approvalIds: [] }]);
  });

  test('passes its result to the model, and the run continues', async () => {
    const { kernel, model, run } = await waitingForClient();
    expect(await bring(kernel, run.id, { output: { name: 'Ada' } })).toBe('accepted');
    const events = await finished(kernel, run.id);
    expect(ofType(events, 'tool.completed')).toMatchObject([{ result: { name: 'Ada' } }]);
    expect(resultsIn(lastOf(model.requests))).toEqual(['{"result":{"name":"Ada"}}']);
    expect(endOf(events)).toMatchObject({ status: 'completed', output: 'Done.' });
    const { tenantId, store } = kernel;
    expect(await store.tenant(tenantId).readInbox(run.id)).toEqual([]);
  });

  test('takes one result: the same again is a repetition, also after the end, another a conflict', async () => {
    const { kernel, run } = await waitingForClient();
    expect(await bring(kernel, run.id, { output: { a: 1, b: [2] } })).toBe('accepted');
    expect(await bring(kernel, run.id, { output: { b: [2], a: 1 } })).toBe('duplicate');
    expect(await bring(kernel, run.id, { output: { a: 1, b: [3] } })).toBe('conflict');
    await finished(kernel, run.id);
    expect(await bring(kernel, run.id, { output: { a: 1, b: [2] } })).toBe('duplicate');
    expect(await bring(kernel, run.id, { output: null })).toBe('conflict');
    expect(await bring(kernel, run.id, { output: { a: 1, b: [2] }, failed: true })).toBe(
      'conflict',
    );
  });

  test('counts once, however many clients post a result at the same time', async () => {
    const { kernel, run } = await waitingForClient();
    const outcomes = await Promise.all(
      Array.from({ length: 50 }, (_, n) => bring(kernel, run.id, { output: n })),
    );
    expect(outcomes.filter((outcome) => outcome === 'accepted')).toHaveLength(1);
    expect(outcomes.filter((outcome) => outcome === 'conflict')).toHaveLength(49);
    const events = await finished(kernel, run.id);
    expect(ofType(events, 'tool.completed')).toMatchObject([
      { result: outcomes.indexOf('accepted') },
    ]);
  });

  test('rejects the result of an unknown call', async () => {
    const { kernel, run } = await waitingForClient();
    expect(await bring(kernel, run.id, { toolCallId: 'call_9', output: 1 })).toBe('missing');
    expect(await bring(kernel, kernel.tenantId, { output: 1 })).toBe('missing');
  });

  test('passes the error of the function to the model', async () => {
    const { kernel, model, run } = await waitingForClient([call(1), call(2)]);
    await bring(kernel, run.id, { output: 'No such user', failed: true });
    await bring(kernel, run.id, { toolCallId: 'call_2', output: { code: 7 }, failed: true });
    const events = await finished(kernel, run.id);
    expect(ofType(events, 'tool.failed')).toMatchObject([
      { error: 'No such user', code: 'tool_failed' },
      { error: '{"code":7}', code: 'tool_failed' },
    ]);
    expect(String(resultsIn(lastOf(model.requests))[0])).toContain('No such user');
  });

  test('continues when the last of several results is posted, in any order', async () => {
    const { kernel, model, run } = await waitingForClient([call(1), call(2), call(3)]);
    await bring(kernel, run.id, { toolCallId: 'call_3', output: 3 });
    await untilStored(kernel, run.id, { type: 'tool.completed' });
    await parked(kernel, run.id);
    expect(model.requests).toHaveLength(1);
    await bring(kernel, run.id, { toolCallId: 'call_1', output: 1 });
    await bring(kernel, run.id, { toolCallId: 'call_2', output: null });
    await finished(kernel, run.id);
    const read = resultsIn(lastOf(model.requests)).map((each) => JSON.parse(String(each)));
    expect(read).toEqual([{ result: 1 }, { result: null }, { result: 3 }]);
  });

  test('fails at its deadline, and accepts no result afterwards', async () => {
    const { kernel, clock, model, run } = await waitingForClient();
    await clock.advance(timeoutMs - 1);
    kernel.control.supervisor.wake({ tenantId: kernel.tenantId, runId: run.id });
    await parked(kernel, run.id);
    await clock.advance(1);
    expect(await bring(kernel, run.id, { output: 'late' })).toBe('missing');
    kernel.control.supervisor.wake({ tenantId: kernel.tenantId, runId: run.id });
    const events = await finished(kernel, run.id);
    expect(ofType(events, 'tool.failed')).toMatchObject([{ code: 'tool_timed_out' }]);
    expect(String(resultsIn(lastOf(model.requests))[0])).toContain('tool_timed_out');
    expect(endOf(events).status).toBe('completed');
    expect(await bring(kernel, run.id, { output: 'late' })).toBe('missing');
  });

  test('times out without a wake-up', async () => {
    const { kernel, clock, run } = await waitingForClient();
    const events = await until(async () => {
      await clock.advance(10_000);
      const found = await journal(kernel, run.id);
      return found.at(-1)?.type === 'run.ended' && found;
    }, 'the end');
    expect(ofType(events, 'tool.failed')).toMatchObject([{ code: 'tool_timed_out' }]);
  });

  test('has the time that it was declared with', async () => {
    const { boot } = await openFixture();
    const clock = new ManualClock();
    const kernel = await boot({ model: createScriptedModel([[call(1), finish()], answer]), clock });
    const run = await ask(kernel, {
      tools: ['lookup'],
      functions: [{ ...lookup, timeoutMs: 500 }],
    });
    await parked(kernel, run.id);
    const [started] = openClientCalls(await journal(kernel, run.id));
    expect(started?.resultBy).toBe(new Date(clock.now() + 500).toISOString());
  });

  test('keeps a result that was stored just before its time ran out', async () => {
    const { boot, store } = await openFixture();
    const clock = new ManualClock();
    const began = clock.now();
    const posts: boolean[] = [];
    const watched = wrapStore(store, async (stored) => {
      const append = appendWith(stored, 'tool.failed');
      if (append !== undefined && posts.length === 0) {
        const { runId } = append;
        const command = { kind: 'result', toolCallId: 'call_1' } as const;
        posts.push(
          await store.tenant(kernel.tenantId).postResult({
            runId,
            toolCallId: 'call_1',
            at: began,
            result: { digest: 'd', failed: false, output: 'just in time' },
            queued: { id: 'mail', command },
          }),
        );
        kernel.control.supervisor.wake({ tenantId: kernel.tenantId, runId });
      }
      return stored.go();
    });
    const model = createScriptedModel([[call(1), finish()], answer]);
    const settings = { toolResultTimeoutMs: timeoutMs };
    const kernel = await boot({ store: watched, model, clock, settings });
    const run = await ask(kernel, functions);
    await parked(kernel, run.id);
    const events = await until(async () => {
      await clock.advance(20_000);
      const found = await journal(kernel, run.id);
      return found.at(-1)?.type === 'run.ended' && found;
    }, 'the end');
    expect(posts).toEqual([true]);
    expect(ofType(events, 'tool.failed')).toEqual([]);
    expect(ofType(events, 'tool.completed')).toMatchObject([{ result: 'just in time' }]);
  });

  test('is not offered to clients if a rule denies it', async () => {
    const { boot } = await openFixture();
    const model = createScriptedModel([[call(1), finish()], answer]);
    const kernel = await boot({ model });
    const denylist = [{ tool: 'lookup', params: { id: 'u_*' } }];
    const run = await ask(kernel, { ...functions, permissions: { denylist } });
    const events = await finished(kernel, run.id);
    expect(ofType(events, 'tool.started')).toEqual([]);
    expect(ofType(events, 'tool.denied')).toHaveLength(1);
    expect(await bring(kernel, run.id, { output: 1 })).toBe('missing');
  });

  test('is not run with arguments that do not fit its schema', async () => {
    const { boot } = await openFixture();
    const model = createScriptedModel([[call(1, { id: 7 }), finish()], answer]);
    const kernel = await boot({ model });
    const run = await ask(kernel, functions);
    const events = await finished(kernel, run.id);
    expect(ofType(events, 'tool.started')).toEqual([]);
    expect(ofType(events, 'tool.failed')).toMatchObject([
      { code: 'tool_input_invalid', error: 'Invalid arguments: id: Must be string' },
    ]);
  });

  test('ends with its run when that is canceled, and says that its outcome is unknown', async () => {
    const { kernel, run } = await waitingForClient();
    await stopRun(kernel, run.id);
    const events = await finished(kernel, run.id);
    expect(endOf(events).status).toBe('canceled');
    expect(ofType(events, 'tool.failed')).toMatchObject([{ code: 'outcome_unknown' }]);
    expect(await bring(kernel, run.id, { output: 1 })).toBe('missing');
  });

  test('ends with the time of its run', async () => {
    const { boot } = await openFixture();
    const clock = new ManualClock();
    const model = createScriptedModel([[call(1), finish()], answer]);
    const kernel = await boot({ model, clock });
    const run = await ask(kernel, { ...functions, limits: { timeMs: 5_000 } });
    await parked(kernel, run.id);
    const events = await until(async () => {
      await clock.advance(1_000);
      const found = await journal(kernel, run.id);
      return found.at(-1)?.type === 'run.ended' && found;
    }, 'the end');
    expect(ofType(events, 'limit.reached')).toMatchObject([{ limit: 'time' }]);
    expect(ofType(events, 'tool.failed')).toMatchObject([{ name: 'lookup', via: 'client' }]);
    expect(endOf(events)).toMatchObject({ status: 'completed', limit: 'time' });
  });

  test('accepts no result after it has timed out', async () => {
    const { boot } = await openFixture();
    const clock = new ManualClock();
    const closing = Promise.withResolvers<void>();
    const model = createStreamingModel(
      () => [[call(1), finish()]],
      async function* lastWords() {
        await closing.promise;
        yield answer;
      },
    );
    const kernel = await boot({ model, clock });
    const run = await ask(kernel, { ...functions, limits: { timeMs: 5_000 } });
    await parked(kernel, run.id);
    await until(async () => {
      await clock.advance(1_000);
      return ofType(await journal(kernel, run.id), 'tool.failed').length === 1;
    }, 'the call to be given up');
    const ref = { tenantId: kernel.tenantId, runId: run.id, toolCallId: 'call_1' };
    expect(await claimToolCall(kernel.control, ref)).toEqual({ kind: 'missing' });
    expect(await bring(kernel, run.id, { output: { paid: true } })).toBe('missing');
    closing.resolve();
    await finished(kernel, run.id);
  });

  test('waits beside a server tool and an approval', async () => {
    const { boot } = await openFixture();
    const tools = [
      createRecordingTool({ name: 'pay' }),
      createRecordingTool({ name: 'look', allowedByDefault: true }),
    ];
    const pay = toolCall('call_p', 'pay', {});
    const look = toolCall('call_l', 'look', {});
    const model = createScriptedModel([[call(1), pay, look, finish()], answer]);
    const kernel = await boot({ model, tools });
    const run = await ask(kernel, { tools: ['pay', 'look', 'lookup'], functions: [lookup] });
    const [approval] = await untilAsked(kernel, run.id, 1);
    expect(await bring(kernel, run.id, { output: 1 })).toBe('accepted');
    await untilStored(kernel, run.id, { type: 'tool.completed', count: 2 });
    expect(model.requests).toHaveLength(1);
    await stopRun(kernel, run.id);
    const events = await finished(kernel, run.id);
    expect(ofType(events, 'approval.closed')).toMatchObject([{ approvalId: approval?.approvalId }]);
  });

  test('is there for a sub-agent that inherits the tools of its parent', async () => {
    const { boot } = await openFixture();
    const model = createScriptedAgents({
      Begin: [[delegate('call_a', 'Find Ada'), finish()], answer],
      'Find Ada': [[call(1), finish()], says('Found.')],
    });
    const kernel = await boot({ model, tools: [agentTool] });
    const run = await ask(kernel, { tools: ['agent', 'lookup'], functions: [lookup] });
    await parked(kernel, run.id);
    const [started] = openClientCalls(await journal(kernel, run.id));
    expect(started?.parentId).toBeDefined();
    await bring(kernel, run.id, { output: 'Ada' });
    expect(endOf(await finished(kernel, run.id)).output).toBe('Done.');
  });

  test('lets one client at a time work on a call', async () => {
    const { kernel, clock, run } = await waitingForClient();
    const ref = { tenantId: kernel.tenantId, runId: run.id, toolCallId: 'call_1' };
    const first = await claimToolCall(kernel.control, ref);
    if (first.kind !== 'claimed') throw new Error('It was not claimed');
    expect(first.until).toBe(clock.now() + 30_000);
    expect(await claimToolCall(kernel.control, ref)).toEqual({ kind: 'taken' });
    await clock.advance(29_000);
    expect(await claimToolCall(kernel.control, ref, first.claimId)).toMatchObject({
      kind: 'claimed',
      claimId: first.claimId,
      until: clock.now() + 30_000,
      claimedBefore: false,
    });
    await clock.advance(30_000);
    const second = await claimToolCall(kernel.control, ref);
    const takenOver = { kind: 'claimed', until: clock.now() + 1_000, claimedBefore: true };
    expect(second).toMatchObject(takenOver);
    if (second.kind !== 'claimed') throw new Error('It was not claimed');
    expect(await claimToolCall(kernel.control, ref, second.claimId)).toMatchObject(takenOver);
    const lost = { ...ref, toolCallId: 'call_9' };
    expect(await claimToolCall(kernel.control, lost)).toEqual({ kind: 'missing' });
  });
});
