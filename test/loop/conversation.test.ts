import {
  createRecordingTool,
  createScriptedModel,
  finish,
  text,
  toolCall,
} from '@relay/core/testing';
import { type Message, textOf } from '@relay/protocol';
import { describe, expect, test } from 'vitest';
import { ask } from '../support/kernel.ts';
import {
  createStreamingModel,
  finished,
  lastOf,
  openFixture,
  stopRun,
  untilStored,
} from './fixture.ts';

const user = (content: string): Message => ({ role: 'user', content });
const saying = (content: string) => createStreamingModel(() => [[text(content), finish()]]);
const said = (messages: readonly Message[]) => messages.map(({ content }) => textOf(content));

describe('a conversation', () => {
  test('is what the next run continues, with its tool calls and results', async () => {
    const { boot } = await openFixture();
    const look = createRecordingTool({
      name: 'look',
      allowedByDefault: true,
      execute: () => ({ context: 'a cat' }),
    });
    const model = createScriptedModel([
      [text('Let me see. '), toolCall('call_1', 'look', { at: 'it' }), finish()],
      [text('It is a cat.'), finish()],
    ]);
    const kernel = await boot({ model, tools: [look] });
    const first = await ask(kernel, { messages: [user('What is it?')] });
    await finished(kernel, first.id);
    const second = await ask(kernel, {
      conversationId: first.conversationId,
      messages: [user('Sure?')],
      tools: [],
    });
    await finished(kernel, second.id);
    const call = { name: 'look', arguments: '{"at":"it"}' };
    expect(model.requests[2]?.messages).toEqual([
      user('What is it?'),
      {
        role: 'assistant',
        content: 'Let me see. ',
        tool_calls: [{ id: 'call_1', type: 'function', function: call }],
      },
      { role: 'tool', tool_call_id: 'call_1', content: 'a cat' },
      { role: 'assistant', content: 'It is a cat.' },
      user('Sure?'),
    ]);
  });

  test('is left out if the messages are the whole prompt, and starts again with them', async () => {
    const { boot } = await openFixture();
    const model = saying('Yes.');
    const kernel = await boot({ model });
    const { id, conversationId } = await ask(kernel, { messages: [user('First')] });
    await finished(kernel, id);
    const whole = await ask(kernel, {
      conversationId,
      prompt: 'complete',
      messages: [user('Whole')],
    });
    await finished(kernel, whole.id);
    expect(said(lastOf(model.requests).messages)).toEqual(['Whole']);
    const next = await ask(kernel, { conversationId, messages: [user('Next')] });
    await finished(kernel, next.id);
    expect(said(lastOf(model.requests).messages)).toEqual(['Whole', 'Yes.', 'Next']);
  });

  test('does not hold the system text, which reaches the model first', async () => {
    const { boot } = await openFixture();
    const model = saying('Yes.');
    const kernel = await boot({ model });
    const first = await ask(kernel, { system: 'Be brief.', messages: [user('First')] });
    await finished(kernel, first.id);
    expect(lastOf(model.requests).messages).toEqual([
      { role: 'system', content: 'Be brief.' },
      user('First'),
    ]);
    const { conversationId } = first;
    const second = await ask(kernel, { conversationId, messages: [user('Second')] });
    await finished(kernel, second.id);
    expect(said(lastOf(model.requests).messages)).toEqual(['First', 'Yes.', 'Second']);
    const third = await ask(kernel, {
      conversationId,
      system: 'Be long.',
      messages: [user('Third')],
    });
    await finished(kernel, third.id);
    expect(said(lastOf(model.requests).messages)).toEqual([
      'Be long.',
      'First',
      'Yes.',
      'Second',
      'Yes.',
      'Third',
    ]);
  });

  test('contains all runs that overlap, in the order of their ends', async () => {
    const { boot } = await openFixture();
    const gates = Array.from({ length: 6 }, () => Promise.withResolvers<void>());
    const begun = new Set<number>();
    const model = createStreamingModel(async function* ({ messages }) {
      const question = textOf(messages.at(-1)?.content ?? '');
      const which = Number(question.slice(1));
      begun.add(which);
      yield [text('Answer ')];
      await gates[which]?.promise;
      yield [text(`to ${question}`), finish()];
    });
    const kernel = await boot({ model });
    const conversationId = '01900000-0000-7000-9000-000000000001';
    const asked = (which: number) => ask(kernel, { conversationId, messages: [user(`Q${which}`)] });
    const runs = await Promise.all([0, 1, 2, 3, 4].map(asked));
    await Promise.all(runs.map(({ id }) => untilStored(kernel, id, { type: 'text.appended' })));
    expect(begun.size).toBe(5);
    expect(model.requests.every(({ messages }) => messages.length === 1)).toBe(true);
    const order = [3, 0, 4, 2, 1];
    for (const which of order) {
      gates[which]?.resolve();
      await finished(kernel, runs[which]?.id ?? '');
    }
    gates[5]?.resolve();
    await finished(kernel, (await asked(5)).id);
    expect(said(lastOf(model.requests).messages)).toEqual([
      ...order.flatMap((which) => [`Q${which}`, `Answer to Q${which}`]),
      'Q5',
    ]);
  });

  test('holds the partial text of a canceled run, because the user has read it', async () => {
    const { boot } = await openFixture();
    const model = createStreamingModel(
      async function* (_request, signal) {
        yield [text('I would begin by ')];
        await new Promise((resolve) => signal.addEventListener('abort', resolve));
      },
      () => [[text('Fine.'), finish()]],
    );
    const kernel = await boot({ model });
    const { id, conversationId } = await ask(kernel, { messages: [user('How?')] });
    await untilStored(kernel, id, { type: 'text.appended' });
    await stopRun(kernel, id);
    await finished(kernel, id);
    const next = await ask(kernel, { conversationId, messages: [user('Stop.')] });
    await finished(kernel, next.id);
    expect(said(lastOf(model.requests).messages)).toEqual(['How?', 'I would begin by ', 'Stop.']);
  });

  test('is the same for a node that has just started', async () => {
    const { boot } = await openFixture();
    const kernel = await boot({ model: saying('Yes.') });
    const { id, conversationId } = await ask(kernel, { messages: [user('First')] });
    await finished(kernel, id);
    const second = await ask(kernel, { conversationId, messages: [user('Second')] });
    await finished(kernel, second.id);
    await kernel.stop();
    const model = saying('IdleFrames yes.');
    const later = await boot({ model, restarted: true });
    const third = await ask(later, { conversationId, messages: [user('Third')] });
    await finished(later, third.id);
    expect(said(lastOf(model.requests).messages)).toEqual([
      'First',
      'Yes.',
      'Second',
      'Yes.',
      'Third',
    ]);
  });

  test('of another tenant is another one, although its id is the same', async () => {
    const { boot, store } = await openFixture();
    const model = saying('Secret.');
    const kernel = await boot({ model });
    const { id, conversationId } = await ask(kernel, { messages: [user('Mine')] });
    await finished(kernel, id);
    const other = await store.ensureTenant({ id: conversationId, name: 'other', at: 0 });
    const stranger = { ...kernel, tenantId: other.id };
    const run = await ask(stranger, { conversationId, messages: [user('Theirs')] });
    await finished(stranger, run.id);
    expect(said(lastOf(model.requests).messages)).toEqual(['Theirs']);
  });
});
