/** What tools ask people while they run: answered once, and not lost with any process. */
import { type Append, type Question, type ToolContext, ToolSuspended } from '@relay/core';
import {
  createRecordingTool,
  createScriptedModel,
  finish,
  ManualClock,
  text,
  toolCall,
} from '@relay/core/testing';
import { RelayError } from '@relay/protocol';
import { describe, expect, expectTypeOf, test } from 'vitest';
import { z } from 'zod';
import { ask, type Kernel, openApprovals, until } from '../support/kernel.ts';
import {
  decide,
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
import { untilAsleep } from './time-limit-fixture.ts';
import { mortal, wrapStore } from './stores.ts';

const size: Question = {
  prompt: 'Which size?',
  schema: { type: 'object', properties: { size: { enum: ['S', 'M'] } }, required: ['size'] },
};
const colour: Question = { prompt: 'Which colour?', schema: { type: 'string', minLength: 1 } };

const script = () =>
  createScriptedModel([
    [toolCall('call_1', 'order', { what: 'shirt' }), finish()],
    [text('Ordered.'), finish()],
  ]);

type Execute = (context: ToolContext) => Promise<unknown>;

function createOrder(idempotent: boolean, execute: Execute, onUnknown?: 'fail') {
  return createRecordingTool({
    name: 'order',
    allowedByDefault: true,
    idempotent,
    ...(onUnknown === undefined ? {} : { onUnknown }),
    execute: async (_input, context) => ({ result: await execute(context) }),
  });
}

const askBoth: Execute = async ({ ask: askPerson }) => ({
  size: await askPerson(size),
  colour: await askPerson(colour),
});

async function fixture(options: { idempotent: boolean; execute?: Execute }) {
  const opened = await openFixture();
  const clock = new ManualClock();
  const tool = createOrder(options.idempotent, options.execute ?? askBoth);
  const model = script();
  const settings = { approvalTtlMs: 60_000 };
  const kernel = await opened.boot({ model, tools: [tool], clock, settings });
  const run = await ask(kernel);
  return { ...opened, kernel, clock, tool, model, run, settings };
}

/** The question that is open now. */
async function asked(kernel: Kernel, runId: string, prompt: string) {
  return until(async () => {
    const [open] = openApprovals(await journal(kernel, runId));
    return open?.question?.prompt === prompt && open;
  }, prompt);
}

const statusOf = async ({ store, tenantId }: Kernel, runId: string) =>
  (await store.tenant(tenantId).readRun(runId))?.status;

describe('a question of a tool', () => {
  test('with the schema of a library gets an answer of its type, with defaults', async () => {
    const schema = z.object({ size: z.enum(['S', 'M']), count: z.int().default(2) });
    const { kernel, run } = await fixture({
      idempotent: true,
      execute: async ({ ask: askPerson }) => {
        const answer = await askPerson({ prompt: 'Which size?', schema });
        expectTypeOf(answer).toEqualTypeOf<{ size: 'S' | 'M'; count: number }>();
        return answer;
      },
    });
    const { approvalId, question } = await asked(kernel, run.id, 'Which size?');
    expect(question?.schema).toMatchObject({ type: 'object', required: ['size'] });
    await decide(kernel, approvalId, { input: { size: 'M' } });
    const events = await finished(kernel, run.id);
    expect(ofType(events, 'tool.completed')).toMatchObject([{ result: { size: 'M', count: 2 } }]);
  });

  test.each([
    ['that may run again', true],
    ['that may not', false],
  ])('%s brings it the answer of a person', async (_what, idempotent) => {
    const { kernel, run, model, tool, store } = await fixture({ idempotent });
    const first = await asked(kernel, run.id, 'Which size?');
    expect(first).toMatchObject({
      kind: 'question',
      tool: 'order',
      toolCallId: 'call_1',
      params: { what: 'shirt' },
      question: { nth: 1, ...size },
    });
    expect(await store.tenant(kernel.tenantId).readApproval(first.approvalId)).toMatchObject({
      kind: 'question',
      status: 'pending',
      question: size,
    });
    await decide(kernel, first.approvalId, { input: { size: 'M' } });
    const second = await asked(kernel, run.id, 'Which colour?');
    await decide(kernel, second.approvalId, { input: 'red' });
    const events = await finished(kernel, run.id);
    const result = { size: { size: 'M' }, colour: 'red' };
    expect(ofType(events, 'tool.completed')).toMatchObject([{ result }]);
    expect(ofType(events, 'approval.decided').map(({ answer }) => answer)).toEqual([
      { size: 'M' },
      'red',
    ]);
    expect(resultsIn(lastOf(model.requests))).toEqual([JSON.stringify({ result })]);
    expect(new Set(tool.executions.map(({ idempotencyKey }) => idempotencyKey)).size).toBe(1);
    expect(tool.executions).toHaveLength(idempotent ? 3 : 1);
  });

  test('ends the attempt of a tool that may run again, so that its finally runs', async () => {
    const ended: unknown[] = [];
    let released = 0;
    const { kernel, run } = await fixture({
      idempotent: true,
      execute: async ({ ask: askPerson }) => {
        try {
          return await askPerson(colour);
        } catch (error) {
          ended.push(error);
          throw error;
        } finally {
          released += 1;
        }
      },
    });
    const approval = await asked(kernel, run.id, 'Which colour?');
    await until(async () => kernel.control.supervisor.activeRuns === 0, 'the run to be suspended');
    await until(async () => released === 1, 'the tool to release what it holds');
    expect(ended).toEqual([expect.any(ToolSuspended)]);
    await decide(kernel, approval.approvalId, { input: 'red' });
    const events = await finished(kernel, run.id);
    expect(released).toBe(2);
    expect(ofType(events, 'tool.failed')).toEqual([]);
    expect(ofType(events, 'tool.completed')).toMatchObject([{ result: 'red' }]);
  });

  test('of an idempotent tool suspends the run: nothing stays in memory', async () => {
    const { kernel, run } = await fixture({ idempotent: true });
    const [approval] = await untilAsked(kernel, run.id);
    await until(async () => kernel.control.supervisor.activeRuns === 0, 'the run to be suspended');
    const [suspended] = ofType(await journal(kernel, run.id), 'run.suspended');
    expect(suspended?.approvalIds).toEqual([approval?.approvalId]);
  });

  test('of any other tool keeps the run active, and is answered there', async () => {
    const { kernel, run } = await fixture({ idempotent: false });
    await asked(kernel, run.id, 'Which size?');
    expect(await statusOf(kernel, run.id)).toBe('running');
    await stopRun(kernel, run.id);
    const events = await finished(kernel, run.id);
    expect(ofType(events, 'approval.closed')).toHaveLength(1);
  });

  test('is refused an answer that does not fit, and stays open', async () => {
    const { kernel, run } = await fixture({ idempotent: true });
    const { approvalId } = await asked(kernel, run.id, 'Which size?');
    for (const input of [{ size: 'XL' }, {}, 'M', null, []]) {
      await expect(decide(kernel, approvalId, { input })).rejects.toMatchObject({
        code: 'invalid_request',
        details: [{ path: expect.stringMatching(/^input/) }],
      });
    }
    await expect(decide(kernel, approvalId)).rejects.toMatchObject({ code: 'invalid_request' });
    const always = decide(kernel, approvalId, { input: { size: 'M' }, always: true });
    await expect(always).rejects.toMatchObject({ code: 'invalid_request' });
    expect(await asked(kernel, run.id, 'Which size?')).toMatchObject({ approvalId });
    const input = { size: 'S' };
    expect(await decide(kernel, approvalId, { input })).toMatchObject({ kind: 'decided' });
    expect(await decide(kernel, approvalId, { input })).toMatchObject({ kind: 'duplicate' });
    expect(await decide(kernel, approvalId, { input: { size: 'M' } })).toMatchObject({
      kind: 'conflict',
    });
  });

  test.each([true, false])('that is declined is an error of the tool (%s)', async (idempotent) => {
    const { kernel, run } = await fixture({ idempotent });
    const { approvalId } = await asked(kernel, run.id, 'Which size?');
    await decide(kernel, approvalId, { approved: false, reason: 'None of your business' });
    const events = await finished(kernel, run.id);
    expect(ofType(events, 'tool.failed')).toMatchObject([{ error: 'None of your business' }]);
    expect(ofType(events, 'run.ended')).toMatchObject([{ status: 'completed' }]);
  });

  test('that is declined can be taken by the tool as an answer too', async () => {
    const execute: Execute = ({ ask: askPerson }) =>
      askPerson(size).catch((error: unknown) => (error as RelayError).code);
    const { kernel, run } = await fixture({ idempotent: true, execute });
    const { approvalId } = await asked(kernel, run.id, 'Which size?');
    await decide(kernel, approvalId, { approved: false });
    const events = await finished(kernel, run.id);
    expect(ofType(events, 'tool.completed')).toMatchObject([{ result: 'question_declined' }]);
  });

  test.each([true, false])('without an answer warns, and expires (%s)', async (idempotent) => {
    const { kernel, run, clock } = await fixture({ idempotent });
    const { approvalId } = await asked(kernel, run.id, 'Which size?');
    if (idempotent) await untilAsked(kernel, run.id);
    else await until(async () => clock.sleepers === 3, 'the loop to wait');
    const look = async (ms: number) => {
      await clock.advance(ms);
      kernel.control.supervisor.wake({ tenantId: kernel.tenantId, runId: run.id });
    };
    await look(54_000);
    await untilStored(kernel, run.id, { type: 'approval.expiring' });
    if (!idempotent) await until(async () => clock.sleepers === 3, 'the loop to wait again');
    await look(6_000);
    const events = await finished(kernel, run.id);
    expect(ofType(events, 'approval.expired')).toMatchObject([{ approvalId }]);
    expect(ofType(events, 'approval.expiring')).toHaveLength(1);
    expect(ofType(events, 'tool.failed')).toMatchObject([
      { error: 'The approval expired without a decision' },
    ]);
  });

  test('is asked once although the process dies: the tool runs again and gets its answer', async () => {
    const { store, boot, bootWithoutCleanup } = await openFixture();
    const tool = createOrder(true, askBoth);
    const dying = mortal(store);
    const first = await bootWithoutCleanup({ store: dying.store, model: script(), tools: [tool] });
    const run = await ask(first);
    const { approvalId } = await asked({ ...first, store }, run.id, 'Which size?');
    dying.kill();
    const second = await boot({ model: script(), tools: [tool], restarted: true });
    await decide(second, approvalId, { input: { size: 'S' } });
    const next = await asked(second, run.id, 'Which colour?');
    await second.stop();
    const third = await boot({ model: script(), tools: [tool], restarted: true });
    await decide(third, next.approvalId, { input: 'blue' });
    const events = await finished(third, run.id);
    expect(ofType(events, 'approval.requested')).toHaveLength(2);
    expect(ofType(events, 'tool.completed')).toMatchObject([
      { result: { size: { size: 'S' }, colour: 'blue' } },
    ]);
  });

  test('of a tool that may not run again is closed by a crash, and its outcome is asked about', async () => {
    const { store, boot, bootWithoutCleanup } = await openFixture();
    const tool = createOrder(false, askBoth);
    const dying = mortal(store);
    const first = await bootWithoutCleanup({ store: dying.store, model: script(), tools: [tool] });
    const run = await ask(first);
    const { approvalId } = await asked({ ...first, store }, run.id, 'Which size?');
    dying.kill();
    const second = await boot({ model: script(), tools: [tool], restarted: true });
    const [outcome] = await untilAsked(second, run.id);
    expect(outcome).toMatchObject({ kind: 'outcome', toolCallId: 'call_1' });
    expect(await store.tenant(second.tenantId).readApproval(approvalId)).toMatchObject({
      status: 'closed',
    });
    const late = await decide(second, approvalId, { input: { size: 'S' } });
    expect(late).toMatchObject({ kind: 'conflict' });
    const always = decide(second, outcome?.approvalId, {
      outcome: 'completed',
      output: 'It was ordered',
      always: true,
    });
    await expect(always).rejects.toMatchObject({
      code: 'invalid_request',
      details: [{ path: 'always' }],
    });
    await decide(second, outcome?.approvalId, { outcome: 'completed', output: 'It was ordered' });
    await finished(second, run.id);
    expect(tool.executions).toHaveLength(1);
  });

  test('keeps an answer that was given during a stop; another attempt asks only what is open', async () => {
    const { boot } = await openFixture();
    const tool = createOrder(false, askBoth);
    const model = script();
    const settings = { graceMs: 300, stopTimeoutMs: 300 };
    const first = await boot({ model, tools: [tool], settings });
    const run = await ask(first);
    const shown = await asked(first, run.id, 'Which size?');
    const stopped = first.stop();
    const answered = await decide(first, shown.approvalId, { input: { size: 'S' } });
    expect(answered).toMatchObject({ kind: 'decided' });
    await stopped;
    const rerun = async (kernel: Kernel) => {
      const [outcome] = await untilAsked(kernel, run.id);
      expect(outcome?.kind).toBe('outcome');
      await decide(kernel, outcome?.approvalId, { outcome: 'rerun' });
      return asked(kernel, run.id, 'Which colour?');
    };
    const second = await boot({ model, tools: [tool], settings, restarted: true });
    const closed = await rerun(second);
    await second.stop();
    const third = await boot({ model, tools: [tool], settings, restarted: true });
    const again = await rerun(third);
    await decide(third, again.approvalId, { input: 'blue' });
    const events = await finished(third, run.id);
    expect(ofType(events, 'approval.closed')).toMatchObject([{ approvalId: closed.approvalId }]);
    expect(ofType(events, 'tool.completed')).toMatchObject([
      { result: { size: { size: 'S' }, colour: 'blue' } },
    ]);
  });

  test('can be one of several at once: the tool runs again when all are answered', async () => {
    const execute: Execute = ({ ask: askPerson }) =>
      Promise.all([askPerson(size), askPerson(colour)]);
    const { kernel, run, tool } = await fixture({ idempotent: true, execute });
    const approvals = await untilAsked(kernel, run.id, 2);
    const [first, second] = approvals.toSorted(
      (a, b) => (a.question?.nth ?? 0) - (b.question?.nth ?? 0),
    );
    await decide(kernel, second?.approvalId, { input: 'green' });
    await untilAsked(kernel, run.id, 1);
    expect(tool.executions).toHaveLength(1);
    await decide(kernel, first?.approvalId, { input: { size: 'S' } });
    const events = await finished(kernel, run.id);
    expect(ofType(events, 'tool.completed')).toMatchObject([{ result: [{ size: 'S' }, 'green'] }]);
    expect(tool.executions).toHaveLength(2);
  });

  test('ends the attempt that asked it: later output of that attempt is ignored', async () => {
    const [suspended, finishedLate] = [
      Promise.withResolvers<void>(),
      Promise.withResolvers<void>(),
    ];
    let attempts = 0;
    const execute: Execute = async ({ ask: askPerson, progress, spawn }) => {
      attempts += 1;
      try {
        await askPerson(size);
      } catch {
        await suspended.promise;
        progress('from the suspended attempt');
        await spawn({ prompt: 'Work' }).catch(() => undefined);
        finishedLate.resolve();
        return 'late';
      }
      suspended.resolve();
      await finishedLate.promise;
      progress('from the second attempt');
      return 'ordered';
    };
    // Another call keeps the run active, so that both attempts belong to it.
    const slow = createRecordingTool({ name: 'slow', allowedByDefault: true });
    slow.hold();
    const model = createScriptedModel([
      [toolCall('call_1', 'order', {}), toolCall('call_2', 'slow', {}), finish()],
      [text('Ordered.'), finish()],
    ]);
    const { boot } = await openFixture();
    const kernel = await boot({ model, tools: [createOrder(true, execute), slow] });
    const run = await ask(kernel);
    const { approvalId } = await asked(kernel, run.id, 'Which size?');
    await decide(kernel, approvalId, { input: { size: 'S' } });
    await untilStored(kernel, run.id, { type: 'tool.completed' });
    slow.release();
    const events = await finished(kernel, run.id);
    expect(attempts).toBe(2);
    expect(ofType(events, 'tool.completed')).toMatchObject([
      { result: 'ordered' },
      { name: 'slow' },
    ]);
    expect(ofType(events, 'tool.progressed')).toMatchObject([
      { content: 'from the second attempt' },
    ]);
    expect(ofType(events, 'agent.started')).toHaveLength(1);
  });

  test('that the tool did not wait for is closed by its end', async () => {
    const enough = Promise.withResolvers<string>();
    const execute: Execute = ({ ask: askPerson }) => {
      void askPerson(size).catch(() => undefined);
      return enough.promise;
    };
    const { kernel, run } = await fixture({ idempotent: false, execute });
    await asked(kernel, run.id, 'Which size?');
    enough.resolve('without it');
    const events = await finished(kernel, run.id);
    expect(ofType(events, 'approval.closed')).toHaveLength(1);
    expect(ofType(events, 'tool.completed')).toMatchObject([{ result: 'without it' }]);
  });

  test('fails the call if a later attempt asks another question in its position', async () => {
    let times = 0;
    const execute: Execute = ({ ask: askPerson }) => askPerson((times += 1) === 1 ? size : colour);
    const { kernel, run } = await fixture({ idempotent: true, execute });
    const { approvalId } = await asked(kernel, run.id, 'Which size?');
    await decide(kernel, approvalId, { input: { size: 'S' } });
    const events = await finished(kernel, run.id);
    expect(ofType(events, 'tool.failed')).toMatchObject([
      { error: expect.stringContaining('differs') },
    ]);
  });

  test.each<[string, Question]>([
    ['an empty prompt', { prompt: '', schema: {} }],
    ['a prompt that is endless', { prompt: 'x'.repeat(10_001), schema: {} }],
    ['a schema that is none', { prompt: 'Well?', schema: { type: 'nothing' } }],
    [
      'a schema that lies elsewhere',
      { prompt: 'Well?', schema: { $ref: 'https://example.com/schema.json' } },
    ],
    ['no schema', { prompt: 'Well?' } as unknown as Question],
  ])('with %s is an error of the tool, and nobody is asked', async (_what, question) => {
    const execute: Execute = ({ ask: askPerson }) => askPerson(question);
    const { kernel, run } = await fixture({ idempotent: true, execute });
    const events = await finished(kernel, run.id);
    expect(ofType(events, 'tool.failed')).toHaveLength(1);
    expect(ofType(events, 'approval.requested')).toEqual([]);
  });

  test.each([true, false])('is closed when its run is canceled (%s)', async (idempotent) => {
    const { kernel, run, store } = await fixture({ idempotent });
    const { approvalId } = await asked(kernel, run.id, 'Which size?');
    await stopRun(kernel, run.id);
    const events = await finished(kernel, run.id);
    expect(ofType(events, 'run.ended')).toMatchObject([{ status: 'canceled' }]);
    expect(await store.tenant(kernel.tenantId).readApproval(approvalId)).toMatchObject({
      status: 'closed',
    });
  });

  test('is not waited for by a tool whose run was canceled while it was being stored', async () => {
    const opened = await openFixture();
    const heard: unknown[] = [];
    let stopped: AbortSignal | undefined;
    const tool = createOrder(false, ({ ask: askPerson, signal }) => {
      stopped = signal;
      return askPerson(size).catch((error: unknown) => heard.push((error as RelayError).code));
    });
    const store = wrapStore(opened.store, async (call) => {
      const asks =
        call.method === 'append' && ((call.args[0] as Append).approvals ?? []).length > 0;
      if (asks) {
        const { runId } = call.args[0] as Append;
        await stopRun(kernel, runId);
        await until(async () => stopped?.aborted, 'the tool to be stopped');
      }
      return call.go();
    });
    const settings = { graceMs: 60_000 };
    const kernel = await opened.boot({ store, model: script(), tools: [tool], settings });
    const events = await finished(kernel, (await ask(kernel)).id);
    expect(heard).toEqual(['run_canceled']);
    expect(ofType(events, 'approval.closed')).toHaveLength(1);
  });

  test('is not waited for any more when the time of its run is over', async () => {
    const { boot } = await openFixture();
    const clock = new ManualClock();
    const heard: unknown[] = [];
    const tool = createOrder(false, async ({ ask: askPerson }) => {
      const declined = (error: unknown) => heard.push((error as RelayError).code);
      await askPerson(size).catch(declined);
      await askPerson(colour).catch(declined);
    });
    const kernel = await boot({ model: script(), tools: [tool], clock });
    const run = await ask(kernel, { limits: { timeMs: 10_000 } });
    await asked(kernel, run.id, 'Which size?');
    await untilAsleep(clock);
    await clock.advance(10_000);
    const events = await finished(kernel, run.id);
    expect(heard).toEqual(['limit_reached', 'limit_reached']);
    expect(ofType(events, 'approval.requested')).toHaveLength(1);
    expect(ofType(events, 'approval.closed')).toHaveLength(1);
    expect(ofType(events, 'tool.completed')).toHaveLength(1);
  });

  test('leaves a sibling alone that is at work meanwhile', async () => {
    const { boot } = await openFixture();
    const order = createOrder(true, ({ ask: askPerson }) => askPerson(colour));
    const slow = createRecordingTool({ name: 'slow', allowedByDefault: true });
    slow.hold();
    const model = createScriptedModel([
      [toolCall('call_1', 'order', {}), toolCall('call_2', 'slow', {}), finish()],
      [text('Done.'), finish()],
    ]);
    const kernel = await boot({ model, tools: [order, slow] });
    const run = await ask(kernel);
    const { approvalId } = await asked(kernel, run.id, 'Which colour?');
    await decide(kernel, approvalId, { input: 'red' });
    await untilStored(kernel, run.id, { type: 'tool.completed' });
    slow.release();
    const events = await finished(kernel, run.id);
    expect(ofType(events, 'tool.completed').map(({ name }) => name)).toEqual(['order', 'slow']);
    expect(slow.executions).toHaveLength(1);
  });
});
