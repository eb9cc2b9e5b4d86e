/** A run whose transcript begins with that of another: it points there, and leaves the other alone. */
import { type ForkPoint, forkPoint, type ModelRequest } from '@relay/core';
import {
  createRecordingTool,
  createScriptedModel,
  finish,
  text,
  toolCall,
} from '@relay/core/testing';
import { type Message, RelayError, type StoredEvent } from '@relay/protocol';
import { describe, expect, test } from 'vitest';
import { type AskOptions, ask, type Kernel, untilStatus } from '../support/kernel.ts';
import { transcriptOf } from '../support/transcript.ts';
import {
  createStreamingModel,
  finished,
  journal,
  lastOf,
  ofType,
  openFixture,
  untilAsked,
  untilStored,
} from './fixture.ts';
import { mortal, wrapStore } from './stores.ts';

const user = (content: string): Message => ({ role: 'user', content });

/** Looks once, then answers; after that it answers to whatever it is asked. */
const script = () =>
  createScriptedModel([
    ({ messages }) =>
      messages.some(({ role }) => role === 'tool')
        ? [text(`Heard ${messages.length}.`), finish()]
        : [text('Let me look. '), toolCall('call_1', 'look', { at: 'it' }), finish()],
    ({ messages }) => [text(`Seen ${messages.length}.`), finish()],
  ]);

async function fixture() {
  const opened = await openFixture();
  const tool = createRecordingTool({ name: 'look', allowedByDefault: true });
  const model = script();
  const kernel = await opened.boot({ model, tools: [tool] });
  return { ...opened, kernel, tool, model };
}

async function pointIn(kernel: Kernel, runId: string, seq?: number): Promise<ForkPoint> {
  const store = kernel.store.tenant(kernel.tenantId);
  const source = await store.readRunHead(runId);
  if (source === undefined) throw new Error('There is no such run');
  return forkPoint(kernel.control.engine, store, {
    source,
    ...(seq === undefined ? {} : { seq }),
  });
}

async function fork(
  kernel: Kernel,
  runId: string,
  { seq, ...request }: AskOptions & { seq?: number } = {},
) {
  const point = await pointIn(kernel, runId, seq);
  return ask(kernel, {
    messages: [],
    parentRunId: runId,
    forkedFrom: { runId, seq: point.seq },
    ...request,
  });
}

const refusal = (promise: Promise<unknown>) =>
  promise.then(
    () => expect.unreachable('It was not refused'),
    (error: unknown) => error as RelayError,
  );

/** What is read, without instructions. */
const said = ({ messages }: ModelRequest) => messages.filter(({ role }) => role !== 'system');
const seqOf = (events: readonly StoredEvent[], type: string) =>
  events.find((event) => event.type === type)?.seq ?? 0;

describe('a fork', () => {
  test('of an ended run reads its whole transcript and the new messages', async () => {
    const { kernel, model } = await fixture();
    const source = await ask(kernel);
    const events = await finished(kernel, source.id);
    const run = await fork(kernel, source.id, { messages: [user('And now?')] });
    const own = await finished(kernel, run.id);
    expect(said(lastOf(model.requests))).toEqual([...transcriptOf(events), user('And now?')]);
    expect(own[0]).toMatchObject({
      type: 'run.created',
      parentRunId: source.id,
      forkedFrom: { runId: source.id, seq: events.length },
      messages: [user('And now?')],
      history: 0,
    });
    expect(own.length).toBeLessThan(events.length);
    expect(run.conversationId).not.toBe(source.conversationId);
    expect(await journal(kernel, source.id)).toEqual(events);
  });

  test('is possible at every boundary and nowhere else, and reads exactly what came before', async () => {
    const { kernel, model } = await fixture();
    const source = await ask(kernel);
    const events = await finished(kernel, source.id);
    const started = ofType(events, 'turn.started').map(({ seq }) => seq);
    const settled = [
      seqOf(events, 'tool.completed'),
      ofType(events, 'turn.completed')[1]?.seq ?? 0,
    ];
    const isInside = (seq: number) =>
      started.some((from, turn) => seq >= from && seq < (settled[turn] ?? 0));
    let boundaries = 0;
    for (const { seq } of events) {
      if (isInside(seq)) {
        const error = await refusal(pointIn(kernel, source.id, seq));
        expect(error, String(seq)).toMatchObject({ code: 'not_a_boundary', status: 409 });
        expect(error.message).toContain('; fork at seq ');
        continue;
      }
      boundaries += 1;
      const run = await fork(kernel, source.id, { seq, messages: [user('Well?')] });
      await finished(kernel, run.id);
      const asked = model.requests.findLast(
        ({ messages }) => messages.findLast(({ role }) => role === 'user')?.content === 'Well?',
      );
      const upTo = transcriptOf(events.filter((event) => event.seq <= seq));
      expect(said(asked ?? lastOf([])).slice(0, upTo.length), String(seq)).toEqual(upTo);
      expect(said(asked ?? lastOf([]))[upTo.length], String(seq)).toEqual(user('Well?'));
    }
    expect(boundaries).toBeGreaterThan(4);
    const error = await refusal(pointIn(kernel, source.id, events.length + 1));
    expect(error).toMatchObject({ code: 'not_a_boundary' });
  });

  test('says whether it needs a new message', async () => {
    const { kernel } = await fixture();
    const source = await ask(kernel);
    const events = await finished(kernel, source.id);
    expect((await pointIn(kernel, source.id)).needsInput).toBe(true);
    const afterTool = seqOf(events, 'tool.completed');
    expect((await pointIn(kernel, source.id, afterTool)).needsInput).toBe(false);
    expect((await pointIn(kernel, source.id, 1)).needsInput).toBe(false);
  });

  test('of a run that failed in the middle of an answer takes it up before that answer', async () => {
    const { boot } = await openFixture();
    const tool = createRecordingTool({ name: 'look', allowedByDefault: true });
    const model = createStreamingModel(
      () => [[toolCall('call_1', 'look', {}), finish()]],
      function* () {
        yield [text('Half an ans')];
        throw new Error('The line is dead');
      },
      () => [[text('A whole answer.'), finish()]],
    );
    const kernel = await boot({ model, tools: [tool] });
    const source = await ask(kernel);
    const events = await finished(kernel, source.id);
    expect(events.at(-1)).toMatchObject({ type: 'run.ended', status: 'failed' });
    const point = await pointIn(kernel, source.id);
    expect(point).toMatchObject({ seq: ofType(events, 'turn.started')[1]!.seq - 1 });
    expect(point.needsInput).toBe(false);
    const run = await fork(kernel, source.id);
    const own = await finished(kernel, run.id);
    expect(own.at(-1)).toMatchObject({ status: 'completed', output: 'A whole answer.' });
    expect(JSON.stringify(said(lastOf(model.requests)))).not.toContain('Half');
    expect(tool.executions).toHaveLength(1);
  });

  test('of a run that waits begins before what is being asked, and both go their own ways', async () => {
    const { boot } = await openFixture();
    const tool = createRecordingTool({ name: 'look' });
    const kernel = await boot({ model: script(), tools: [tool] });
    const source = await ask(kernel);
    await untilAsked(kernel, source.id);
    const before = await journal(kernel, source.id);
    const run = await fork(kernel, source.id);
    await untilAsked(kernel, run.id);
    expect(await journal(kernel, source.id)).toEqual(before);
    const own = await journal(kernel, run.id);
    expect(ofType(own, 'approval.requested')[0]?.approvalId).not.toBe(
      ofType(before, 'approval.requested')[0]?.approvalId,
    );
  });

  test('of a running run reads what is stored so far', async () => {
    const { boot } = await openFixture();
    const tool = createRecordingTool({ name: 'look', allowedByDefault: true });
    const model = script();
    const kernel = await boot({ model, tools: [tool] });
    tool.hold();
    const source = await ask(kernel);
    await untilStored(kernel, source.id, { type: 'tool.started' });
    const [begun] = ofType(await journal(kernel, source.id), 'turn.started');
    expect((await pointIn(kernel, source.id)).seq).toBe((begun?.seq ?? 0) - 1);
    tool.release();
    await finished(kernel, source.id);
  });

  test('can be forked, and continued as a conversation of its own', async () => {
    const { kernel, model } = await fixture();
    const source = await ask(kernel);
    await finished(kernel, source.id);
    const first = await fork(kernel, source.id, { messages: [user('One')] });
    await finished(kernel, first.id);
    const second = await fork(kernel, first.id, { messages: [user('Two')] });
    await finished(kernel, second.id);
    const words = () =>
      said(lastOf(model.requests))
        .filter(({ role }) => role === 'user')
        .map(({ content }) => content);
    expect(words()).toEqual(['Begin', 'One', 'Two']);
    const { conversationId } = second;
    const next = await ask(kernel, { conversationId, messages: [user('Three')] });
    await finished(kernel, next.id);
    expect(words()).toEqual(['Begin', 'One', 'Two', 'Three']);
    const other = await ask(kernel, {
      conversationId: source.conversationId,
      messages: [user('Beside')],
    });
    await finished(kernel, other.id);
    expect(words()).toEqual(['Begin', 'Beside']);
  });

  test('reads the same after a restart, from the store alone', async () => {
    const { kernel, boot } = await fixture();
    const source = await ask(kernel);
    await finished(kernel, source.id);
    const first = await fork(kernel, source.id, { messages: [user('One')] });
    await finished(kernel, first.id);
    await kernel.stop();
    const model = script();
    const later = await boot({ model, tools: [], restarted: true });
    const { conversationId } = first;
    const next = await ask(later, { conversationId, messages: [user('Two')] });
    await finished(later, next.id);
    const words = said(lastOf(model.requests)).filter(({ role }) => role === 'user');
    expect(words.map(({ content }) => content)).toEqual(['Begin', 'One', 'Two']);
  });

  test('survives the death of its process in the middle of its answer', async () => {
    const { store, bootWithoutCleanup, boot } = await openFixture();
    const dying = mortal(store);
    const tools = [createRecordingTool({ name: 'look', allowedByDefault: true })];
    const first = await bootWithoutCleanup({ store: dying.store, model: script(), tools });
    const source = await ask(first);
    await finished({ ...first, store }, source.id);
    const doomed = await bootWithoutCleanup({
      store: dying.store,
      model: createStreamingModel(async function* () {
        yield [text('Half')];
        await new Promise(() => undefined);
      }),
      tools,
    });
    const run = await fork(doomed, source.id, { messages: [user('Go on')] });
    await untilStored({ ...doomed, store }, run.id, { type: 'text.appended' });
    dying.kill();
    const model = script();
    const second = await boot({ model, tools, restarted: true });
    await finished(second, run.id);
    const words = said(lastOf(model.requests)).filter(({ role }) => role === 'user');
    expect(words.map(({ content }) => content)).toEqual(['Begin', 'Go on']);
  });

  test('continues as the agent that took over the conversation', async () => {
    const { boot } = await openFixture();
    const agents = [{ name: 'expert', instructions: 'You know.', model: 'wise', tools: ['look'] }];
    const model = createScriptedModel([
      [toolCall('call_h', 'handoff', { agent: 'expert' }), finish()],
      [text('I know.'), finish()],
    ]);
    const models = { wise: model };
    const tools = [createRecordingTool({ name: 'look' })];
    const kernel = await boot({ model, models, agents, tools });
    const source = await ask(kernel, { handoffs: ['expert'], tools: [] });
    await untilStatus(kernel, source.id, 'completed', 'failed');
    expect(await pointIn(kernel, source.id)).toMatchObject({
      agent: 'expert',
      model: 'wise',
      profile: { system: 'You know.', tools: ['look'] },
    });
    expect(await pointIn(kernel, source.id, 1)).toMatchObject({
      agent: 'assistant',
      model: 'scripted',
    });
  });

  test('does not carry what an input guardrail refused past it', async () => {
    const { boot } = await openFixture();
    const model = script();
    const refuse = {
      name: 'no-begin',
      check: (words: string) =>
        words.includes('Begin')
          ? ({ ok: false, reason: 'not so' } as const)
          : ({ ok: true } as const),
    };
    const agents = [{ name: 'assistant', guardrails: { input: [refuse] } }];
    const kernel = await boot({ model, agents });
    const source = await ask(kernel);
    await untilStatus(kernel, source.id, 'failed');
    for (const messages of [[], [user('Go on')]]) {
      const run = await fork(kernel, source.id, { messages });
      const row = await untilStatus(kernel, run.id, 'completed', 'failed');
      expect(row.error).toMatchObject({ code: 'guardrail_tripped' });
    }
    expect(model.requests).toEqual([]);
  });

  test('fails clearly if what it was forked from cannot be read, and no tool runs', async () => {
    const opened = await openFixture();
    const tool = createRecordingTool({ name: 'look', allowedByDefault: true });
    const first = await opened.boot({ model: script(), tools: [tool] });
    const source = await ask(first);
    await finished(first, source.id);
    const ran = tool.executions.length;
    let broken = false;
    const store = wrapStore(opened.store, async (call) => {
      if (broken && call.method === 'readPage' && call.args[0] === source.id) {
        throw new RelayError('journal_corrupt', 'The journal is damaged');
      }
      return call.go();
    });
    await first.stop();
    const kernel = await opened.boot({ store, model: script(), tools: [tool], restarted: true });
    const point = await pointIn(kernel, source.id);
    broken = true;
    const run = await ask(kernel, {
      messages: [user('Go on')],
      forkedFrom: { runId: source.id, seq: point.seq },
    });
    const row = await untilStatus(kernel, run.id, 'failed');
    expect(row.error).toMatchObject({ code: 'journal_corrupt' });
    expect(tool.executions).toHaveLength(ran);
  });
});
