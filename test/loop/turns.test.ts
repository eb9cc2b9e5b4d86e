import {
  createRecordingTool,
  createScriptedModel,
  finish,
  text,
  toolCall,
} from '@relay/core/testing';
import { describe, expect, test } from 'vitest';
import { ask, until } from '../support/kernel.ts';
import {
  createStreamingModel,
  endOf,
  finished,
  lastOf,
  ofType,
  openFixture,
  resultsIn,
  publishedToTheEnd,
  untilStored,
} from './fixture.ts';

describe('a turn', () => {
  test('streams the text piece by piece, in order', async () => {
    const { boot } = await openFixture();
    const pieces = ['One ', '', 'two ', '\u{1F600}', '\ud800', ' \u0000 three.'];
    const model = createScriptedModel([[...pieces.map(text), finish()]]);
    const kernel = await boot({ model });
    const run = await ask(kernel);
    const events = await finished(kernel, run.id);
    const texts = ofType(events, 'text.appended');
    expect(texts.map((event) => event.text)).toEqual(pieces);
    expect(new Set(texts.map(({ textId }) => textId)).size).toBe(1);
    expect(endOf(events)).toMatchObject({ status: 'completed', output: pieces.join('') });
    expect(await publishedToTheEnd(kernel)).toEqual(events);
  });

  test('shows its text while the model is still speaking', async () => {
    const { boot } = await openFixture();
    const more = Promise.withResolvers<void>();
    const model = createStreamingModel(async function* () {
      yield [text('First. ')];
      await more.promise;
      yield [text('Second.'), finish()];
    });
    const kernel = await boot({ model });
    const run = await ask(kernel);
    const early = await untilStored(kernel, run.id, { type: 'text.appended' });
    expect(early.map((event) => event.text)).toEqual(['First. ']);
    await until(
      async () => ofType(kernel.published, 'text.appended').length === 1,
      'it to be shown',
    );
    more.resolve();
    expect(endOf(await finished(kernel, run.id)).output).toBe('First. Second.');
  });

  test('takes a piece with many events in their order, as one commit can hold them', async () => {
    const { boot } = await openFixture();
    const words = Array.from({ length: 5000 }, (_, n) => `${n} `);
    const model = createStreamingModel(() => [words.map(text), [finish()]]);
    const kernel = await boot({ model });
    const run = await ask(kernel);
    const events = await finished(kernel, run.id);
    expect(ofType(events, 'text.appended').map((event) => event.text)).toEqual(words);
    expect(endOf(events).output).toBe(words.join(''));
  });

  test('keeps what the model thinks apart from what it says', async () => {
    const { boot } = await openFixture();
    const model = createScriptedModel([
      [{ type: 'reasoning', text: 'Hm.' }, text('Yes.'), finish()],
      [text('Next.'), finish()],
    ]);
    const kernel = await boot({ model });
    const first = await ask(kernel);
    const events = await finished(kernel, first.id);
    expect(ofType(events, 'reasoning.appended')).toMatchObject([{ text: 'Hm.' }]);
    expect(endOf(events).output).toBe('Yes.');
    const { conversationId } = first;
    const second = await ask(kernel, { conversationId });
    await finished(kernel, second.id);
    expect(JSON.stringify(lastOf(model.requests).messages)).not.toContain('Hm.');
  });

  test('is followed by another one with the results, until the model calls nothing', async () => {
    const { boot } = await openFixture();
    const look = createRecordingTool({
      name: 'look',
      allowedByDefault: true,
      execute: (input) => ({ context: `saw ${JSON.stringify(input)}` }),
    });
    const model = createScriptedModel([
      [text('Looking. '), toolCall('call_1', 'look', { at: 1 }), finish()],
      [toolCall('call_2', 'look', { at: 2 }), finish()],
      [text('Seen both.'), finish()],
    ]);
    const kernel = await boot({ model, tools: [look] });
    const run = await ask(kernel);
    const events = await finished(kernel, run.id);
    expect(look.executions.map(({ input }) => input)).toEqual([{ at: 1 }, { at: 2 }]);
    expect(model.requests).toHaveLength(3);
    expect(lastOf(model.requests).messages.map(({ role }) => role)).toEqual([
      'user',
      'assistant',
      'tool',
      'assistant',
      'tool',
    ]);
    expect(resultsIn(lastOf(model.requests))).toEqual(['saw {"at":1}', 'saw {"at":2}']);
    expect(ofType(events, 'turn.completed').map(({ turn }) => turn)).toEqual([1, 2, 3]);
    expect(endOf(events)).toMatchObject({
      status: 'completed',
      output: 'Seen both.',
      usage: { inputTokens: 9, outputTokens: 6 },
    });
  });

  test('offers the model the tools of the run, and only those', async () => {
    const { boot } = await openFixture();
    const tools = ['look', 'pay', 'wait'].map((name) => createRecordingTool({ name }));
    const model = createScriptedModel([[finish()]]);
    const kernel = await boot({ model, tools });
    const run = await ask(kernel, { tools: ['wait', 'look', 'unheard-of'] });
    await finished(kernel, run.id);
    expect(lastOf(model.requests).tools.map(({ name }) => name)).toEqual(['wait', 'look']);
  });

  test('without any output completes the run', async () => {
    const { boot } = await openFixture();
    const kernel = await boot({ model: createScriptedModel([[finish()]]) });
    const run = await ask(kernel);
    expect(endOf(await finished(kernel, run.id))).toMatchObject({
      status: 'completed',
      output: '',
    });
  });
});

describe('the limit of turns', () => {
  const tireless = (id: number) => [
    text(`Again ${id}. `),
    toolCall(`call_${id}`, 'look', {}),
    finish(),
  ];
  const lookTool = () => createRecordingTool({ name: 'look', allowedByDefault: true });

  test('ends a run with `limit` after one more call without tools', async () => {
    const { boot } = await openFixture();
    const look = lookTool();
    const model = createScriptedModel([tireless(1), tireless(2), [text('What I have.'), finish()]]);
    const kernel = await boot({ model, tools: [look] });
    const run = await ask(kernel, { maxIterations: 2 });
    const events = await finished(kernel, run.id);
    expect(look.executions).toHaveLength(2);
    expect(model.requests.map(({ tools }) => tools.length)).toEqual([1, 1, 0]);
    expect(lastOf(model.requests).messages.at(-1)).toMatchObject({
      role: 'system',
      content: expect.stringContaining('limit'),
    });
    expect(ofType(events, 'agent.ended')).toMatchObject([{ reason: 'limit', iterations: 3 }]);
    expect(endOf(events)).toMatchObject({ status: 'completed', output: 'What I have.' });
  });

  test('holds although the model calls tools in that last call', async () => {
    const { boot } = await openFixture();
    const look = lookTool();
    const model = createScriptedModel([tireless(1), tireless(2), tireless(3)]);
    const kernel = await boot({ model, tools: [look] });
    const run = await ask(kernel, { maxIterations: 1 });
    const events = await finished(kernel, run.id);
    expect(look.executions).toHaveLength(1);
    expect(model.requests).toHaveLength(2);
    expect(ofType(events, 'tool.called')).toHaveLength(1);
    expect(ofType(events, 'agent.ended')).toMatchObject([{ reason: 'limit' }]);
    expect(endOf(events)).toMatchObject({ status: 'completed', output: 'Again 2. ' });
  });

  test('does not apply to a run that answers in its last allowed turn', async () => {
    const { boot } = await openFixture();
    const model = createScriptedModel([tireless(1), [text('Done.'), finish()]]);
    const kernel = await boot({ model, tools: [lookTool()] });
    const run = await ask(kernel, { maxIterations: 2 });
    const events = await finished(kernel, run.id);
    expect(ofType(events, 'agent.ended')).toMatchObject([{ reason: 'completed' }]);
    expect(JSON.stringify(model.requests)).not.toContain('limit of turns');
  });

  test('leaves its own instruction out of the conversation', async () => {
    const { boot } = await openFixture();
    const model = createScriptedModel([tireless(1), [text('Short.'), finish()]]);
    const kernel = await boot({ model, tools: [lookTool()] });
    const first = await ask(kernel, { maxIterations: 1 });
    await finished(kernel, first.id);
    const second = await ask(kernel, { conversationId: first.conversationId, maxIterations: 5 });
    await finished(kernel, second.id);
    const asked = model.requests[2];
    expect(asked?.messages.filter(({ role }) => role === 'system')).toEqual([]);
    expect(JSON.stringify(asked?.messages)).toContain('Short.');
  });
});
