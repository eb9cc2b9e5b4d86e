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
  endOf,
  finished,
  journal,
  lastOf,
  ofType,
  openFixture,
  resultsIn,
  untilStored,
} from './fixture.ts';

const free = { allowedByDefault: true } as const;
const answer = [text('Done.'), finish()];

describe('tool calls', () => {
  test('have their results in the order of the calls, whatever order they finish in', async () => {
    const { boot } = await openFixture();
    const tools = ['a', 'b', 'c'].map((name) =>
      createRecordingTool({ name, ...free, execute: () => ({ context: `from ${name}` }) }),
    );
    for (const tool of tools) tool.hold();
    const model = createScriptedModel([
      [...tools.map(({ name }) => toolCall(`call_${name}`, name, {})), finish()],
      answer,
    ]);
    const kernel = await boot({ model, tools });
    const run = await ask(kernel);
    await until(async () => tools.every(({ executions }) => executions.length === 1), 'all three');
    for (const [count, tool] of tools.toReversed().entries()) {
      tool.release();
      await untilStored(kernel, run.id, { type: 'tool.completed', count: count + 1 });
    }
    const events = await finished(kernel, run.id);
    const ended = ofType(events, 'tool.completed').map(({ name }) => name);
    expect(ended).toEqual(['c', 'b', 'a']);
    expect(resultsIn(lastOf(model.requests))).toEqual(['from a', 'from b', 'from c']);
  });

  test('with an id that the provider repeats get distinct ids, and both ids are kept', async () => {
    const { boot } = await openFixture();
    const look = createRecordingTool({
      name: 'look',
      ...free,
      execute: (input) => ({ context: JSON.stringify(input) }),
    });
    const model = createScriptedModel([
      [toolCall('call_1', 'look', { n: 1 }), toolCall('call_1', 'look', { n: 2 }), finish()],
      [toolCall('call_1', 'look', { n: 3 }), finish()],
      answer,
    ]);
    const kernel = await boot({ model, tools: [look] });
    const run = await ask(kernel);
    const called = ofType(await finished(kernel, run.id), 'tool.called');
    const ids = called.map(({ toolCallId }) => toolCallId);
    expect(ids[0]).toBe('call_1');
    expect(new Set(ids).size).toBe(3);
    expect(called.map(({ providerCallId }) => providerCallId)).toEqual([
      undefined,
      'call_1',
      'call_1',
    ]);
    expect(look.executions.map(({ toolCallId }) => toolCallId)).toEqual(ids);
    expect(new Set(look.executions.map(({ idempotencyKey }) => idempotencyKey)).size).toBe(3);
    expect(resultsIn(lastOf(model.requests))).toEqual(['{"n":1}', '{"n":2}', '{"n":3}']);
  });

  test('with an id that an earlier run of the conversation used get distinct ids too', async () => {
    const { boot } = await openFixture();
    const look = createRecordingTool({ name: 'look', ...free });
    const model = createScriptedModel([[toolCall('call_1', 'look', {}), finish()], answer]);
    const kernel = await boot({ model, tools: [look] });
    const first = await ask(kernel);
    await finished(kernel, first.id);
    const second = await ask(kernel, { conversationId: first.conversationId });
    const [called] = ofType(await finished(kernel, second.id), 'tool.called');
    expect(called).toMatchObject({ providerCallId: 'call_1' });
    expect(called?.toolCallId).not.toBe('call_1');
  });

  test.each([
    ['empty', ''],
    ['longer than we store', 'x'.repeat(5000)],
    ['as long as we store, twice', 'y'.repeat(200)],
  ])('get an id of ours where the provider’s is %s', async (_what, id) => {
    const { boot } = await openFixture();
    const look = createRecordingTool({ name: 'look', ...free });
    const calls = [toolCall(id, 'look', {}), toolCall(id, 'look', {})];
    const kernel = await boot({
      model: createScriptedModel([[...calls, finish()], answer]),
      tools: [look],
    });
    const run = await ask(kernel);
    const called = ofType(await finished(kernel, run.id), 'tool.called');
    expect(new Set(called.map(({ toolCallId }) => toolCallId)).size).toBe(2);
    for (const { toolCallId } of called) {
      expect(toolCallId.length).toBeGreaterThan(0);
      expect(toolCallId.length).toBeLessThanOrEqual(256);
    }
    expect(look.executions).toHaveLength(2);
  });

  test('take empty arguments as an object without any', async () => {
    const { boot } = await openFixture();
    const look = createRecordingTool({ name: 'look', ...free });
    const model = createScriptedModel([[toolCall('call_1', 'look', ''), finish()], answer]);
    const kernel = await boot({ model, tools: [look] });
    const run = await ask(kernel);
    await finished(kernel, run.id);
    expect(look.executions.map(({ input }) => input)).toEqual([{}]);
  });

  test('of tools that the run does not have go back as errors', async () => {
    const { boot } = await openFixture();
    const look = createRecordingTool({ name: 'look', ...free });
    const pay = createRecordingTool({ name: 'pay', ...free });
    const model = createScriptedModel([
      [
        toolCall('call_1', 'no-such-tool', {}),
        toolCall('call_2', 'pay', {}),
        toolCall('call_3', 'look', {}),
        finish(),
      ],
      answer,
    ]);
    const kernel = await boot({ model, tools: [look, pay] });
    const run = await ask(kernel, { tools: ['look'] });
    const events = await finished(kernel, run.id);
    expect(ofType(events, 'tool.failed')).toMatchObject([
      { name: 'no-such-tool', code: 'unknown_tool' },
      { name: 'pay', code: 'unknown_tool' },
    ]);
    expect(pay.executions).toEqual([]);
    expect(look.executions).toHaveLength(1);
    const [first] = resultsIn(lastOf(model.requests));
    expect(JSON.parse(String(first))).toMatchObject({ status: 'error', code: 'unknown_tool' });
    expect(endOf(events)).toMatchObject({ status: 'completed', output: 'Done.' });
  });

  test('show their progress while they run, and none after their end', async () => {
    const { boot } = await openFixture();
    const go = Promise.withResolvers<void>();
    let late: (text: string) => void = () => undefined;
    const look = createRecordingTool({
      name: 'look',
      ...free,
      async execute(_input, { progress }) {
        late = progress;
        progress('one');
        progress('two');
        await go.promise;
        progress('three');
        return { context: 'seen' };
      },
    });
    const held = createRecordingTool({ name: 'held', ...free });
    held.hold();
    const model = createScriptedModel([
      [toolCall('call_1', 'look', {}), toolCall('call_2', 'held', {}), finish()],
      answer,
    ]);
    const kernel = await boot({ model, tools: [look, held] });
    const run = await ask(kernel);
    await untilStored(kernel, run.id, { type: 'tool.progressed', count: 2 });
    go.resolve();
    await untilStored(kernel, run.id, { type: 'tool.completed' });
    late('too late');
    held.release();
    const events = await finished(kernel, run.id);
    late('much too late');
    const shown = ofType(events, 'tool.progressed');
    expect(shown.map(({ content }) => content)).toEqual(['one', 'two', 'three']);
    expect(shown.every(({ toolCallId }) => toolCallId === 'call_1')).toBe(true);
    const [completed] = ofType(events, 'tool.completed');
    expect(shown.at(-1)?.seq).toBeLessThan(completed?.seq ?? 0);
    expect(await journal(kernel, run.id)).toEqual(events);
    expect(resultsIn(lastOf(model.requests))[0]).toBe('seen');
  });

  test('get what the caller handed along for tools, which the model does not see', async () => {
    const { boot } = await openFixture();
    const seen: unknown[] = [];
    const look = createRecordingTool({
      name: 'look',
      ...free,
      execute(_input, { context, runId }) {
        seen.push(context, runId);
        return { result: 1 };
      },
    });
    const model = createScriptedModel([[toolCall('call_1', 'look', {}), finish()], answer]);
    const kernel = await boot({ model, tools: [look] });
    const run = await ask(kernel, { context: { userId: 'ada-7' } });
    await finished(kernel, run.id);
    expect(seen).toEqual([{ userId: 'ada-7' }, run.id]);
    expect(JSON.stringify(model.requests)).not.toContain('ada-7');
  });

  test('let programs read the result and the model the context', async () => {
    const { boot } = await openFixture();
    const both = createRecordingTool({
      name: 'both',
      ...free,
      execute: () => ({ context: 'in words', result: { n: 1 } }),
    });
    const bare = createRecordingTool({ name: 'bare', ...free, execute: () => ({ result: [2] }) });
    const model = createScriptedModel([
      [toolCall('call_1', 'both', {}), toolCall('call_2', 'bare', {}), finish()],
      answer,
    ]);
    const kernel = await boot({ model, tools: [both, bare] });
    const run = await ask(kernel);
    const events = await finished(kernel, run.id);
    expect(ofType(events, 'tool.completed').map(({ result }) => result)).toEqual([{ n: 1 }, [2]]);
    expect(resultsIn(lastOf(model.requests))).toEqual(['in words', '{"result":[2]}']);
  });
});
