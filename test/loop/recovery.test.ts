/** A process dies, another one goes on: from every phase, and never with a silent second run. */
import type { Tool } from '@relay/core';
import {
  createRecordingTool,
  createScriptedModel,
  finish,
  ManualClock,
  text,
  toolCall,
} from '@relay/core/testing';
import type { StoredEvent } from '@relay/protocol';
import { describe, expect, test } from 'vitest';
import { ask, until } from '../support/kernel.ts';
import {
  createStreamingModel,
  decide,
  endOf,
  finished,
  journal,
  lastOf,
  ofType,
  openFixture,
  resultsIn,
  untilAsked,
  untilStored,
} from './fixture.ts';
import { mortal } from './stores.ts';

const answer = [text('Done.'), finish()];
const pay = (n: number) => toolCall(`call_${n}`, 'pay', { amount: n });

/** What a reader has who follows `turn.discarded`: the tokens that still count. */
function readByFollower(events: readonly StoredEvent[]): string {
  let shown: { seq: number; text: string }[] = [];
  for (const event of events) {
    if (event.type === 'text.appended') shown.push(event);
    if (event.type === 'turn.discarded') shown = shown.filter(({ seq }) => seq <= event.after);
  }
  return shown.map((piece) => piece.text).join('');
}

describe('after a crash', () => {
  test('a run that was only created is begun', async () => {
    const { boot, bootWithoutCleanup, store } = await openFixture();
    const model = createScriptedModel([answer]);
    const doomed = mortal(store);
    const settings = { maxActiveRuns: 0 };
    const first = await bootWithoutCleanup({ store: doomed.store, model, settings });
    const run = await ask(first);
    expect(await journal(first, run.id)).toHaveLength(1);
    doomed.kill();
    const kernel = await boot({ model, restarted: true });
    const events = await finished(kernel, run.id);
    expect(ofType(events, 'run.started')).toHaveLength(1);
    expect(ofType(events, 'agent.started')).toHaveLength(1);
    expect(endOf(events)).toMatchObject({ status: 'completed', output: 'Done.' });
  });

  test('a partial answer is discarded, and the model is called again', async () => {
    const { boot, bootWithoutCleanup, store } = await openFixture();
    const tool = createRecordingTool({ name: 'look', allowedByDefault: true });
    const never = new Promise<never>(() => undefined);
    const begun = createStreamingModel(
      () => [[text('Let me look. '), toolCall('call_1', 'look', {}), finish()]],
      async function* () {
        yield [text('I see ')];
        yield [text('half a ca')];
        yield await never;
      },
    );
    const doomed = mortal(store);
    const first = await bootWithoutCleanup({ store: doomed.store, model: begun, tools: [tool] });
    const run = await ask(first);
    await untilStored(first, run.id, { type: 'text.appended', count: 3 });
    doomed.kill();
    const model = createStreamingModel(() => [[text('A whole cat.'), finish()]]);
    const kernel = await boot({ model, tools: [tool], restarted: true });
    const events = await finished(kernel, run.id);
    const started = ofType(events, 'turn.started')[1];
    expect(ofType(events, 'turn.discarded')).toMatchObject([
      { reason: 'crash', turn: 2, after: started?.seq, textId: started?.textId },
    ]);
    expect(readByFollower(events)).toBe('Let me look. A whole cat.');
    expect(endOf(events).output).toBe('A whole cat.');
    expect(JSON.stringify(lastOf(model.requests).messages)).not.toContain('half');
    expect(resultsIn(lastOf(model.requests))).toHaveLength(1);
    expect(tool.executions).toHaveLength(1);
    // What the model said in vain is not counted as a retry of the provider.
    expect(ofType(events, 'run.summarized')[0]?.trust.retryAttempts).toBe(0);
  });

  test('a suspended run stays suspended, and is answered later', async () => {
    const { boot, bootWithoutCleanup, store } = await openFixture();
    const tool = createRecordingTool({ name: 'pay' });
    const model = createScriptedModel([[pay(1), finish()], answer]);
    const doomed = mortal(store);
    const first = await bootWithoutCleanup({ store: doomed.store, model, tools: [tool] });
    const run = await ask(first);
    const [approval] = await untilAsked(first, run.id);
    doomed.kill();
    const before = await journal({ ...first, store }, run.id);
    const clock = new ManualClock(Date.now());
    const kernel = await boot({ model, tools: [tool], clock, restarted: true });
    await clock.advance(3_000);
    expect(await journal(kernel, run.id)).toEqual(before);
    expect(kernel.control.supervisor.activeRuns).toBe(0);
    await decide(kernel, approval?.approvalId);
    await finished(kernel, run.id);
    expect(tool.executions).toHaveLength(1);
    expect(model.requests).toHaveLength(2);
  });

  test('a decision that was acknowledged and not yet applied counts', async () => {
    const { boot, bootWithoutCleanup, store } = await openFixture();
    const tool = createRecordingTool({ name: 'pay' });
    const model = createScriptedModel([[pay(1), finish()], answer]);
    const doomed = mortal(store);
    const first = await bootWithoutCleanup({ store: doomed.store, model, tools: [tool] });
    const run = await ask(first);
    const [approval] = await untilAsked(first, run.id);
    // Acknowledged by another process, which was about to wake the run.
    doomed.kill();
    const other = await boot({ model, tools: [tool], clock: new ManualClock(Date.now()) });
    await other.stop();
    expect(await decide(other, approval?.approvalId)).toMatchObject({ kind: 'decided' });
    expect(tool.executions).toEqual([]);
    const kernel = await boot({ model, tools: [tool], restarted: true });
    const events = await finished(kernel, run.id);
    expect(ofType(events, 'approval.decided')).toHaveLength(1);
    expect(tool.executions).toHaveLength(1);
  });

  test('a turn with a call done, a call running and a call asked about is put together', async () => {
    const { boot, bootWithoutCleanup, store } = await openFixture();
    const free = { allowedByDefault: true };
    const done = createRecordingTool({ name: 'done', ...free });
    const slow = createRecordingTool({ name: 'slow', ...free, idempotent: true });
    const tool = createRecordingTool({ name: 'pay' });
    slow.hold();
    const tools = [done, slow, tool];
    const calls = [toolCall('call_d', 'done', {}), toolCall('call_s', 'slow', {}), pay(1)];
    const model = createScriptedModel([[...calls, finish()], answer]);
    const doomed = mortal(store);
    const first = await bootWithoutCleanup({ store: doomed.store, model, tools });
    const run = await ask(first);
    await untilStored(first, run.id, { type: 'tool.completed' });
    doomed.kill();
    slow.release();
    const kernel = await boot({ model, tools, restarted: true });
    const [approval] = await untilAsked(kernel, run.id);
    await decide(kernel, approval?.approvalId);
    const events = await finished(kernel, run.id);
    expect(done.executions).toHaveLength(1);
    expect(slow.executions).toHaveLength(2);
    expect(tool.executions).toHaveLength(1);
    expect(ofType(events, 'approval.requested')).toHaveLength(1);
    const read = resultsIn(lastOf(model.requests)).map((each) => JSON.parse(String(each)));
    expect(read.map(({ result }) => result.ran)).toEqual(['done', 'slow', 'pay']);
  });
});

/** A process dies while its tool runs; the tool of the next process is `after`. */
async function crashInTool(options: Partial<Pick<Tool, 'idempotent' | 'onUnknown'>>) {
  const fixture = await openFixture();
  const made = { name: 'pay', allowedByDefault: true, ...options };
  const before = createRecordingTool(made);
  const after = createRecordingTool(made);
  before.hold();
  const model = createScriptedModel([[pay(7), finish()], answer]);
  const doomed = mortal(fixture.store);
  const first = await fixture.bootWithoutCleanup({ store: doomed.store, model, tools: [before] });
  const run = await ask(first);
  await until(async () => before.executions.length === 1, 'the tool');
  doomed.kill();
  const clock = new ManualClock(Date.now());
  const settings = { approvalTtlMs: 60_000 };
  const kernel = await fixture.boot({ model, tools: [after], clock, settings, restarted: true });
  return { kernel, run, before, after, model, clock };
}

describe('a tool that ran when its process died', () => {
  test('runs again with the same key if it is idempotent', async () => {
    const { kernel, run, before, after } = await crashInTool({ idempotent: true });
    const events = await finished(kernel, run.id);
    expect(after.executions).toEqual(before.executions);
    expect(ofType(events, 'tool.started').map(({ idempotencyKey }) => idempotencyKey)).toEqual([
      `${run.id}:call_7`,
      `${run.id}:call_7`,
    ]);
    expect(ofType(events, 'approval.requested')).toEqual([]);
  });

  test('requests an approval of its outcome if it is not, and runs again only if a person says so', async () => {
    const { kernel, run, after } = await crashInTool({});
    const [approval] = await untilAsked(kernel, run.id);
    expect(approval).toMatchObject({ kind: 'outcome', tool: 'pay', params: { amount: 7 } });
    expect(after.executions).toEqual([]);
    await decide(kernel, approval?.approvalId, { outcome: 'rerun' });
    const events = await finished(kernel, run.id);
    expect(after.executions).toMatchObject([{ idempotencyKey: `${run.id}:call_7` }]);
    expect(ofType(events, 'tool.started')).toMatchObject([
      {},
      { approvalId: approval?.approvalId },
    ]);
    expect(endOf(events).status).toBe('completed');
  });

  test.each([{ paid: 7 }, null, 'paid', 0, false])(
    'takes a person’s word for its result: %j',
    async (output) => {
      const { kernel, run, after, model } = await crashInTool({});
      const [approval] = await untilAsked(kernel, run.id);
      await decide(kernel, approval?.approvalId, { outcome: 'completed', output });
      const events = await finished(kernel, run.id);
      expect(after.executions).toEqual([]);
      expect(ofType(events, 'tool.completed')).toMatchObject([{ result: output }]);
      const [read] = resultsIn(lastOf(model.requests));
      expect(JSON.parse(String(read))).toEqual({ result: output });
    },
  );

  test('is a tool error if a person denies, and the run continues', async () => {
    const { kernel, run, after, model } = await crashInTool({});
    const [approval] = await untilAsked(kernel, run.id);
    await decide(kernel, approval?.approvalId, { approved: false, reason: 'Lost' });
    const events = await finished(kernel, run.id);
    expect(after.executions).toEqual([]);
    expect(ofType(events, 'tool.failed')).toMatchObject([
      {
        code: 'tool_failed',
        error: expect.stringMatching(/a person answered that it failed: Lost$/),
      },
    ]);
    const [read] = resultsIn(lastOf(model.requests));
    expect(JSON.parse(String(read))).toMatchObject({ status: 'error', code: 'tool_failed' });
    expect(endOf(events).status).toBe('completed');
  });

  test('is a tool error if the approval expires', async () => {
    const { kernel, run, after, clock } = await crashInTool({});
    await untilAsked(kernel, run.id);
    await clock.advance(60_000);
    kernel.control.supervisor.wake({ tenantId: kernel.tenantId, runId: run.id });
    const events = await finished(kernel, run.id);
    expect(after.executions).toEqual([]);
    const error = expect.stringContaining('may have taken effect');
    expect(ofType(events, 'tool.failed')).toMatchObject([{ code: 'outcome_unknown', error }]);
  });

  test('is a tool error at once if it is made so', async () => {
    const { kernel, run, after } = await crashInTool({ onUnknown: 'fail' });
    const events = await finished(kernel, run.id);
    expect(after.executions).toEqual([]);
    expect(ofType(events, 'approval.requested')).toEqual([]);
    expect(ofType(events, 'tool.failed')).toMatchObject([{ code: 'outcome_unknown' }]);
    expect(endOf(events)).toMatchObject({ status: 'completed', output: 'Done.' });
  });
});
