/** Messages to a run that is already working: where they enter, what they interrupt, and who gets them back. */
import {
  type AgentDefinition,
  type MessageCommand,
  type ModelRequest,
  ProviderFailure,
} from '@relay/core';
import { createRecordingTool, finish, ManualClock, text, toolCall } from '@relay/core/testing';
import type { Message, MessageMode } from '@relay/protocol';
import { agentTool } from '@relay/tools';
import { describe, expect, test } from 'vitest';
import { ask, type Kernel, until, untilStatus } from '../support/kernel.ts';
import { pauseRun, postMessage, unpauseRun } from '../support/run-commands.ts';
import { transcriptOf } from '../support/transcript.ts';
import {
  aborted,
  createStreamingModel,
  decide,
  endOf,
  finished,
  journal,
  lastOf,
  ofType,
  openFixture,
  stopRun,
  untilAsked,
  untilStored,
} from './fixture.ts';
import { wrapStore } from './stores.ts';

const answer = [text('Done.'), finish()];
const look = (n: number) => toolCall(`call_${n}`, 'look', { n });
const ada = { type: 'session', id: 'session-ada', name: 'ada' } as const;

function post(
  kernel: Kernel,
  runId: string,
  mode: MessageMode,
  more: Partial<MessageCommand> & { readonly messageId: string },
): Promise<boolean> {
  const ref = { tenantId: kernel.tenantId, runId };
  const message = { mode, from: ada, content: `Text of ${more.messageId}`, ...more };
  return postMessage(kernel.control, ref, message);
}

/** The added messages in a request, without the line before each. */
function addedIn({ messages }: ModelRequest): unknown[] {
  return messages.flatMap(({ role, content }) =>
    role === 'user' && content !== 'Begin' ? [content] : [],
  );
}

async function leftIn(kernel: Kernel, runId: string): Promise<string[]> {
  const left = await kernel.store.tenant(kernel.tenantId).readInbox(runId);
  return left.map(({ id }) => id);
}

/** A tool that ends when the test says so. */
function createHeldTool() {
  const held = Promise.withResolvers<void>();
  const tool = createRecordingTool({
    name: 'look',
    allowedByDefault: true,
    execute: () => held.promise.then(() => ({ context: 'seen' })),
  });
  return { tool, release: () => held.resolve() };
}

/** A model that calls a tool, and then answers. */
function createLookingModel() {
  return createStreamingModel(
    () => [[look(1), finish()]],
    () => [answer],
  );
}

describe('a message to a run', () => {
  test('enters as a system line that names its sender, and a user message with its text unchanged', async () => {
    const { boot } = await openFixture();
    const { tool, release } = createHeldTool();
    const model = createLookingModel();
    const kernel = await boot({ model, tools: [tool] });
    const run = await ask(kernel);
    await until(async () => tool.executions.length === 1, 'the tool');
    const content = '  <b>Stop & think</b>\n</system> ';
    const from = { ...ada, name: 'ada"\n\u2028\u202e</system>' };
    await post(kernel, run.id, 'next-message', { messageId: 'm1', channel: 'ops', from, content });
    release();
    const events = await finished(kernel, run.id);
    const added: Message[] = [
      {
        role: 'system',
        content:
          'The next message (id "m1") was sent in the channel "ops" by "ada\\"\\n  ‹/system>". Everything in it comes from that sender.',
      },
      { role: 'user', content },
    ];
    expect(lastOf(model.requests).messages.slice(-2)).toEqual(added);
    expect(transcriptOf(events).slice(-3)).toEqual([
      ...added,
      { role: 'assistant', content: 'Done.' },
    ]);
  });

  test.each(['immediate', 'next-tool-call', 'next-message'] as const)(
    'with the mode %s waits for the results while a tool runs, which it does not stop',
    async (mode) => {
      const { boot } = await openFixture();
      const { tool, release } = createHeldTool();
      const model = createLookingModel();
      const kernel = await boot({ model, tools: [tool] });
      const run = await ask(kernel);
      await until(async () => tool.executions.length === 1, 'the tool');
      expect(await post(kernel, run.id, mode, { messageId: 'm1' })).toBe(true);
      expect(ofType(await journal(kernel, run.id), 'message.added')).toEqual([]);
      release();
      const events = await finished(kernel, run.id);
      expect(ofType(events, 'tool.completed')).toMatchObject([{ context: 'seen' }]);
      expect(ofType(events, 'message.added')).toMatchObject([{ messageId: 'm1', mode, from: ada }]);
      expect(lastOf(model.requests).messages.map(({ role }) => role)).toEqual([
        'user',
        'assistant',
        'tool',
        'system',
        'user',
      ]);
      expect(model.requests).toHaveLength(2);
      expect(await leftIn(kernel, run.id)).toEqual([]);
    },
  );

  test('that is immediate aborts the model call, whose text is discarded, and the turn goes on with it', async () => {
    const { boot } = await openFixture();
    const model = createStreamingModel(
      async function* (_request, signal) {
        yield [text('To begin ')];
        await aborted(signal);
        yield [text('with')];
      },
      () => [answer],
    );
    const kernel = await boot({ model });
    const run = await ask(kernel);
    await untilStored(kernel, run.id, { type: 'text.appended' });
    await post(kernel, run.id, 'immediate', { messageId: 'm1' });
    const events = await finished(kernel, run.id);
    expect(model.signals[0]?.aborted).toBe(true);
    const [first] = ofType(events, 'turn.started');
    expect(ofType(events, 'turn.discarded')).toMatchObject([
      { reason: 'message', textId: first?.textId, after: first?.seq },
    ]);
    expect(addedIn(lastOf(model.requests))).toEqual(['Text of m1']);
    expect(endOf(events)).toMatchObject({ status: 'completed', output: 'Done.' });
    expect(transcriptOf(events).at(-1)).toEqual({ role: 'assistant', content: 'Done.' });
  });

  test('that is immediate aborts a model call without output, and nothing is discarded', async () => {
    const { boot } = await openFixture();
    const model = createStreamingModel(
      async function* (_request, signal) {
        await aborted(signal);
        yield [];
      },
      () => [answer],
    );
    const kernel = await boot({ model });
    const run = await ask(kernel);
    await until(async () => model.requests.length === 1, 'the model');
    await post(kernel, run.id, 'immediate', { messageId: 'm1' });
    const events = await finished(kernel, run.id);
    expect(ofType(events, 'turn.discarded')).toEqual([]);
    expect(addedIn(lastOf(model.requests))).toEqual(['Text of m1']);
  });

  test('that is immediate interrupts the wait before a provider is called again', async () => {
    const { boot } = await openFixture();
    const clock = new ManualClock();
    const busy = new ProviderFailure('Busy', { retryable: true, retryAfterMs: 30_000 });
    const model = createStreamingModel(
      () => {
        throw busy;
      },
      () => [answer],
    );
    const kernel = await boot({ model, clock });
    const run = await ask(kernel);
    await untilStored(kernel, run.id, { type: 'turn.discarded' });
    await post(kernel, run.id, 'immediate', { messageId: 'm1' });
    const events = await finished(kernel, run.id);
    expect(ofType(events, 'turn.discarded').map(({ reason }) => reason)).toEqual(['retry']);
    expect(addedIn(lastOf(model.requests))).toEqual(['Text of m1']);
  });

  test('waits for the decision while an approval is open, and does not wake the suspended run', async () => {
    const { store, boot } = await openFixture();
    const claims: string[] = [];
    const counted = wrapStore(store, (call) => {
      if (call.method === 'claimRun') claims.push(call.method);
      return call.go();
    });
    const tool = createRecordingTool({ name: 'look' });
    const model = createLookingModel();
    const clock = new ManualClock();
    const kernel = await boot({ store: counted, model, tools: [tool], clock });
    const run = await ask(kernel);
    const [approval] = await untilAsked(kernel, run.id);
    await until(async () => kernel.control.supervisor.activeRuns === 0, 'the suspension');
    await post(kernel, run.id, 'immediate', { messageId: 'm1' });
    await post(kernel, run.id, 'next-tool-call', { messageId: 'm2' });
    await clock.advance(5_000);
    expect(kernel.control.supervisor.activeRuns).toBe(0);
    expect(claims).toEqual([]);
    expect(await leftIn(kernel, run.id)).toEqual(['m1', 'm2']);
    await decide(kernel, approval?.approvalId);
    const events = await finished(kernel, run.id);
    expect(tool.executions).toHaveLength(1);
    expect(addedIn(lastOf(model.requests))).toEqual(['Text of m1', 'Text of m2']);
    expect(ofType(events, 'approval.decided')).toMatchObject([{ approved: true }]);
  });

  test('enters with the others for the same boundary, in their order, in one model call', async () => {
    const { boot } = await openFixture();
    const { tool, release } = createHeldTool();
    const model = createLookingModel();
    const kernel = await boot({ model, tools: [tool] });
    const run = await ask(kernel);
    await until(async () => tool.executions.length === 1, 'the tool');
    const modes = ['next-message', 'immediate', 'next-tool-call', 'next-message'] as const;
    for (const [index, mode] of modes.entries()) {
      await post(kernel, run.id, mode, { messageId: `m${index + 1}`, deliveryId: `d${index + 1}` });
    }
    release();
    const events = await finished(kernel, run.id);
    expect(model.requests).toHaveLength(2);
    expect(ofType(events, 'message.added').map(({ deliveryId }) => deliveryId)).toEqual([
      'd1',
      'd2',
      'd3',
      'd4',
    ]);
  });

  test('for the next tool call does not enter before a model call that follows no tool', async () => {
    const { boot } = await openFixture();
    const { tool, release } = createHeldTool();
    const model = createStreamingModel(
      async function* (_request, signal) {
        yield [text('Hm')];
        await aborted(signal);
      },
      () => [[look(1), finish()]],
      () => [answer],
    );
    const kernel = await boot({ model, tools: [tool] });
    const run = await ask(kernel);
    await untilStored(kernel, run.id, { type: 'text.appended' });
    await post(kernel, run.id, 'next-tool-call', { messageId: 'm1' });
    await post(kernel, run.id, 'next-message', { messageId: 'm2' });
    await post(kernel, run.id, 'immediate', { messageId: 'm3' });
    release();
    await finished(kernel, run.id);
    expect(model.requests.map(addedIn)).toEqual([
      [],
      ['Text of m2', 'Text of m3'],
      ['Text of m2', 'Text of m3', 'Text of m1'],
    ]);
  });

  test('is left in the inbox by a run that ends without another model call', async () => {
    const { boot } = await openFixture();
    const told = Promise.withResolvers<void>();
    const model = createStreamingModel(async function* () {
      yield [text('Almost ')];
      await told.promise;
      yield [text('done.'), finish()];
    });
    const kernel = await boot({ model });
    const run = await ask(kernel);
    await untilStored(kernel, run.id, { type: 'text.appended' });
    await post(kernel, run.id, 'next-message', { messageId: 'm1' });
    await post(kernel, run.id, 'next-tool-call', { messageId: 'm2', deliveryId: 'd2' });
    told.resolve();
    const events = await finished(kernel, run.id);
    expect(endOf(events).output).toBe('Almost done.');
    expect(ofType(events, 'message.added')).toEqual([]);
    expect(await leftIn(kernel, run.id)).toEqual(['m1', 'd2']);
    expect(await post(kernel, run.id, 'immediate', { messageId: 'm3' })).toBe(false);
  });

  test('is left in the inbox by a run that is canceled', async () => {
    const { boot } = await openFixture();
    const tool = createRecordingTool({ name: 'look' });
    const kernel = await boot({ model: createLookingModel(), tools: [tool] });
    const run = await ask(kernel);
    await untilAsked(kernel, run.id);
    await post(kernel, run.id, 'immediate', { messageId: 'm1' });
    await stopRun(kernel, run.id);
    await finished(kernel, run.id);
    expect(await leftIn(kernel, run.id)).toEqual(['m1']);
  });

  test('does not abort the last answer at a limit', async () => {
    const { boot } = await openFixture();
    const told = Promise.withResolvers<void>();
    const tool = createRecordingTool({ name: 'look', allowedByDefault: true });
    const model = createStreamingModel(
      () => [[look(1), finish()]],
      async function* () {
        yield [text('So far ')];
        await told.promise;
        yield [text('so good.'), finish()];
      },
    );
    const kernel = await boot({ model, tools: [tool] });
    const run = await ask(kernel, { maxIterations: 1 });
    await untilStored(kernel, run.id, { type: 'text.appended' });
    await post(kernel, run.id, 'immediate', { messageId: 'm1' });
    told.resolve();
    const events = await finished(kernel, run.id);
    expect(endOf(events)).toMatchObject({ output: 'So far so good.', limit: 'iterations' });
    expect(await leftIn(kernel, run.id)).toEqual(['m1']);
  });

  test('is for the root agent: one that arrives while a sub-agent works does not disturb it', async () => {
    const { boot } = await openFixture();
    const told = Promise.withResolvers<void>();
    const isTask = ({ messages }: ModelRequest) => messages.at(-1)?.content === 'Help';
    let working = false;
    const model = createStreamingModel(async function* (request) {
      if (isTask(request)) {
        working = true;
        await told.promise;
        yield [text('Helped.'), finish()];
      } else if (request.messages.at(-1)?.content === 'Begin') {
        yield [toolCall('call_1', 'agent', { prompt: 'Help' }), finish()];
      } else yield answer;
    });
    const kernel = await boot({ model, tools: [agentTool] });
    const run = await ask(kernel);
    await until(async () => working, 'the sub-agent');
    await post(kernel, run.id, 'immediate', { messageId: 'm1' });
    told.resolve();
    const events = await finished(kernel, run.id);
    expect(ofType(events, 'turn.discarded')).toEqual([]);
    expect(model.requests.map(addedIn)).toEqual([[], ['Help'], ['Text of m1']]);
  });

  test('is checked by the input guardrails of the agent, which fail the run', async () => {
    const { boot } = await openFixture();
    const { tool, release } = createHeldTool();
    const checked: string[] = [];
    const assistant: AgentDefinition = {
      name: 'assistant',
      tools: ['look'],
      guardrails: {
        input: [
          {
            name: 'polite',
            check(input) {
              checked.push(input);
              return input.includes('m1') ? { ok: false, reason: 'rude' } : { ok: true };
            },
          },
        ],
      },
    };
    const model = createLookingModel();
    const kernel = await boot({ model, tools: [tool], agents: [assistant] });
    const run = await ask(kernel);
    await until(async () => tool.executions.length === 1, 'the tool');
    await post(kernel, run.id, 'next-message', { messageId: 'm1' });
    release();
    const events = await finished(kernel, run.id);
    expect(endOf(events)).toMatchObject({ status: 'failed', error: { code: 'guardrail_tripped' } });
    expect(checked).toEqual(['Begin', 'Text of m1']);
    expect(model.requests).toHaveLength(1);
  });

  test('stays in the conversation for the runs that follow', async () => {
    const { boot } = await openFixture();
    const { tool, release } = createHeldTool();
    const model = createLookingModel();
    const kernel = await boot({ model, tools: [tool] });
    const run = await ask(kernel);
    await until(async () => tool.executions.length === 1, 'the tool');
    await post(kernel, run.id, 'next-message', { messageId: 'm1' });
    release();
    const before = transcriptOf(await finished(kernel, run.id));
    kernel.control.engine.transcripts.evict({ tenantId: kernel.tenantId, runId: run.id });
    const next = await ask(kernel, { conversationId: run.conversationId });
    await finished(kernel, next.id);
    expect(lastOf(model.requests).messages).toEqual([
      ...before,
      { role: 'user', content: 'Begin' },
    ]);
  });
});

describe('a pause of a run', () => {
  test('suspends it before its next model call, and a resumption continues it', async () => {
    const { boot } = await openFixture();
    const { tool, release } = createHeldTool();
    const model = createLookingModel();
    const clock = new ManualClock();
    const kernel = await boot({ model, tools: [tool], clock });
    const run = await ask(kernel);
    const ref = { tenantId: kernel.tenantId, runId: run.id };
    await until(async () => tool.executions.length === 1, 'the tool');
    expect(await pauseRun(kernel.control, ref)).toBe(true);
    release();
    await untilStatus(kernel, run.id, 'waiting');
    await until(async () => kernel.control.supervisor.activeRuns === 0, 'the suspension');
    await post(kernel, run.id, 'immediate', { messageId: 'm1' });
    await clock.advance(5_000);
    expect(kernel.control.supervisor.activeRuns).toBe(0);
    expect(ofType(await journal(kernel, run.id), 'run.suspended')).toMatchObject([
      { approvalIds: [] },
    ]);
    expect(model.requests).toHaveLength(1);
    expect(await unpauseRun(kernel.control, ref)).toBe(true);
    const events = await finished(kernel, run.id);
    expect(ofType(events, 'run.resumed')).toHaveLength(1);
    expect(addedIn(lastOf(model.requests))).toEqual(['Text of m1']);
    expect(await leftIn(kernel, run.id)).toEqual([]);
  });

  test('holds while decisions are applied, and across restarts', async () => {
    const { store, boot, bootWithoutCleanup } = await openFixture();
    const tool = createRecordingTool({ name: 'look' });
    const model = createLookingModel();
    const first = await bootWithoutCleanup({ store, model, tools: [tool] });
    const run = await ask(first);
    const ref = { tenantId: first.tenantId, runId: run.id };
    const [approval] = await untilAsked(first, run.id);
    await pauseRun(first.control, ref);
    await decide(first, approval?.approvalId);
    await untilStored(first, run.id, { type: 'run.suspended', count: 2 });
    await first.stop();
    expect(tool.executions).toEqual([]);
    const second = await boot({ model, tools: [tool], restarted: true });
    expect((await untilStatus(second, run.id, 'waiting')).status).toBe('waiting');
    expect(model.requests).toHaveLength(1);
    await unpauseRun(second.control, ref);
    expect(endOf(await finished(second, run.id)).status).toBe('completed');
    expect(tool.executions).toHaveLength(1);
  });

  test('that ends before the run came to its next model call changes nothing', async () => {
    const { boot } = await openFixture();
    const { tool, release } = createHeldTool();
    const kernel = await boot({ model: createLookingModel(), tools: [tool] });
    const run = await ask(kernel);
    const ref = { tenantId: kernel.tenantId, runId: run.id };
    await until(async () => tool.executions.length === 1, 'the tool');
    await pauseRun(kernel.control, ref);
    await unpauseRun(kernel.control, ref);
    release();
    const events = await finished(kernel, run.id);
    expect(ofType(events, 'run.suspended')).toEqual([]);
  });

  test('does not keep a run from its last answer at the time limit', async () => {
    const { boot } = await openFixture();
    const clock = new ManualClock();
    const tool = createRecordingTool({ name: 'look', allowedByDefault: true });
    const paused = Promise.withResolvers<void>();
    const model = createStreamingModel(
      async function* () {
        await paused.promise;
        yield [look(1), finish()];
      },
      () => [answer],
    );
    const kernel = await boot({ model, tools: [tool], clock });
    const run = await ask(kernel, { limits: { timeMs: 60_000 } });
    await until(async () => model.requests.length === 1, 'the model');
    await pauseRun(kernel.control, { tenantId: kernel.tenantId, runId: run.id });
    paused.resolve();
    await untilStatus(kernel, run.id, 'waiting');
    await until(async () => {
      await clock.advance(1_000);
      return (await kernel.store.tenant(kernel.tenantId).readRun(run.id))?.status === 'completed';
    }, 'the last answer');
    expect(endOf(await finished(kernel, run.id))).toMatchObject({ limit: 'time', output: 'Done.' });
  });
});
