/** Whatever is wrong with a call or a tool is an error that the model reads; the run goes on. */
import type { Tool } from '@relay/core';
import {
  createRecordingTool,
  createScriptedModel,
  finish,
  type RecordingTool,
  text,
  toolCall,
} from '@relay/core/testing';
import { describe, expect, test } from 'vitest';
import { ask } from '../support/kernel.ts';
import { endOf, finished, lastOf, ofType, openFixture, resultsIn } from './fixture.ts';

function nested(depth: number): string {
  return `{"a":${'['.repeat(depth)}${']'.repeat(depth)}}`;
}

/** One call, and what became of it: the run must complete in any case. */
async function callOnce(tool: RecordingTool, input: unknown = {}) {
  const { boot } = await openFixture();
  const model = createScriptedModel([
    [toolCall('call_1', tool.name, input), finish()],
    [text('Went on.'), finish()],
  ]);
  const kernel = await boot({ model, tools: [tool] });
  const run = await ask(kernel);
  const events = await finished(kernel, run.id);
  expect(endOf(events)).toMatchObject({ status: 'completed', output: 'Went on.' });
  expect(kernel.warnings).toEqual([]);
  const [read] = resultsIn(lastOf(model.requests));
  return { events, read: JSON.parse(String(read)) as unknown };
}

describe('a call that does not fit', () => {
  test.each([
    ['cut short', '{"a": 1'],
    ['text', 'at once'],
    ['a list', '[{"a": 1}]'],
    ['a string', '"a"'],
    ['a number', '7'],
    ['null', 'null'],
    ['nested a hundred deep', nested(100)],
    ['nested a hundred thousand deep', nested(100_000)],
    ['unbalanced brackets without end', '['.repeat(200_000)],
  ])('because its arguments are %s goes back, and the tool never runs', async (_what, json) => {
    const pay = createRecordingTool({ name: 'pay', allowedByDefault: true });
    const { events, read } = await callOnce(pay, json);
    expect(pay.executions).toEqual([]);
    expect(ofType(events, 'tool.failed')).toMatchObject([{ code: 'tool_input_invalid' }]);
    expect(ofType(events, 'tool.started')).toEqual([]);
    expect(ofType(events, 'approval.requested')).toEqual([]);
    expect(read).toMatchObject({ status: 'error', code: 'tool_input_invalid' });
  });

  test('takes arguments that are deep but not too deep', async () => {
    const look = createRecordingTool({ name: 'look', allowedByDefault: true });
    const { events } = await callOnce(look, nested(60));
    expect(look.executions).toHaveLength(1);
    expect(ofType(events, 'tool.completed')).toHaveLength(1);
  });

  test('the model reads the invalid fields of the tool’s schema', async () => {
    const pay = createRecordingTool({
      name: 'pay',
      allowedByDefault: true,
      validate: () => ({ ok: false, issues: [{ path: 'amount', message: 'Not a number' }] }),
    });
    const { read } = await callOnce(pay, { amount: 'much' });
    expect(pay.executions).toEqual([]);
    expect(read).toMatchObject({
      code: 'tool_input_invalid',
      error: expect.stringContaining('amount: Not a number'),
    });
  });

  test('with names that objects inherit is taken literally', async () => {
    const look = createRecordingTool({ name: 'look', allowedByDefault: true });
    await callOnce(look, '{"__proto__": {"admin": true}, "constructor": 1}');
    const input = look.executions[0]?.input as Record<string, unknown>;
    expect(Object.keys(input)).toEqual(['__proto__', 'constructor']);
    expect(Object.getPrototypeOf(input)).toBe(Object.prototype);
  });
});

const cycle: { self?: unknown } = {};
cycle.self = cycle;

describe('a tool that fails', () => {
  test.each<[string, () => never, string]>([
    ['an error', () => fail(new Error('No money')), 'No money'],
    ['text', () => fail('No luck'), 'No luck'],
    ['nothing', () => fail(undefined), 'undefined'],
  ])('by throwing %s is a tool error', async (_what, execute, message) => {
    const pay = createRecordingTool({ name: 'pay', allowedByDefault: true, execute });
    const { events, read } = await callOnce(pay);
    expect(pay.executions).toHaveLength(1);
    expect(ofType(events, 'tool.failed')).toMatchObject([{ code: 'tool_failed', error: message }]);
    expect(read).toEqual({ status: 'error', error: message, code: 'tool_failed' });
  });

  test.each<[string, () => never]>([
    ['an object that has no text', () => fail(Object.create(null))],
    ['an error with more than text', () => fail(Object.assign(new Error('x'), { message: [7n] }))],
  ])('by throwing %s is a tool error', async (_what, execute) => {
    const pay = createRecordingTool({ name: 'pay', allowedByDefault: true, execute });
    const { events } = await callOnce(pay);
    expect(ofType(events, 'tool.failed')).toMatchObject([
      { code: 'tool_failed', error: expect.any(String) },
    ]);
  });

  test('before it even has a promise is a tool error', async () => {
    const pay: RecordingTool = {
      ...createRecordingTool({ name: 'pay', allowedByDefault: true }),
      execute: () => fail(new Error('At once')),
    };
    const { events } = await callOnce(pay);
    expect(ofType(events, 'tool.failed')).toMatchObject([
      { code: 'tool_failed', error: 'At once' },
    ]);
  });

  test('while it checks its arguments is a tool error', async () => {
    const validate: Tool['validate'] = () => fail(new Error('Schema broken'));
    const pay = createRecordingTool({ name: 'pay', allowedByDefault: true, validate });
    const { events } = await callOnce(pay);
    expect(pay.executions).toEqual([]);
    expect(ofType(events, 'tool.failed')).toHaveLength(1);
  });

  test.each<[string, unknown]>([
    ['a BigInt', { n: 1n }],
    ['a cycle', cycle],
    ['what throws when it is written', { toJSON: () => fail(new Error('Unwritable')) }],
    ['nesting without reason', JSON.parse(nested(100))],
  ])('by a result that is no JSON (%s) is a tool error', async (_what, result) => {
    const pay = createRecordingTool({
      name: 'pay',
      allowedByDefault: true,
      execute: () => ({ result }),
    });
    const { events, read } = await callOnce(pay);
    expect(pay.executions).toHaveLength(1);
    expect(ofType(events, 'tool.failed')).toMatchObject([{ code: 'tool_failed' }]);
    expect(read).toMatchObject({ status: 'error', code: 'tool_failed' });
  });

  test('by a context that is no text is a tool error', async () => {
    const pay = createRecordingTool({
      name: 'pay',
      allowedByDefault: true,
      execute: () => ({ context: cycle as unknown as string }),
    });
    const { events } = await callOnce(pay);
    expect(ofType(events, 'tool.failed')).toMatchObject([{ code: 'tool_failed' }]);
  });

  test('by returning nothing at all is a tool error', async () => {
    const pay: RecordingTool = {
      ...createRecordingTool({ name: 'pay', allowedByDefault: true }),
      execute: async () => undefined as never,
    };
    const { events } = await callOnce(pay);
    expect(ofType(events, 'tool.failed')).toMatchObject([{ code: 'tool_failed' }]);
  });

  test('leaves its siblings alone', async () => {
    const { boot } = await openFixture();
    const bad = createRecordingTool({
      name: 'bad',
      allowedByDefault: true,
      execute: () => fail(new Error('No')),
    });
    const good = createRecordingTool({ name: 'good', allowedByDefault: true });
    const model = createScriptedModel([
      [toolCall('call_1', 'bad', {}), toolCall('call_2', 'good', {}), finish()],
      [text('Went on.'), finish()],
    ]);
    const kernel = await boot({ model, tools: [bad, good] });
    const run = await ask(kernel);
    const events = await finished(kernel, run.id);
    expect(ofType(events, 'tool.completed')).toMatchObject([{ name: 'good' }]);
    expect(ofType(events, 'run.summarized')[0]?.trust).toMatchObject({
      toolFailures: 1,
      confidence: 0.5,
      evidenceCitations: [{ toolCallId: 'call_2', tool: 'good' }],
    });
  });
});

function fail(value: unknown): never {
  throw value;
}

describe('the attachments of a result', () => {
  const image = { type: 'image', mediaType: 'image/png', data: 'aGk=' } as const;

  test('are journaled, and the model gets them after the text', async () => {
    const { boot } = await openFixture();
    const draw = createRecordingTool({
      name: 'draw',
      allowedByDefault: true,
      execute: () => ({ context: 'A chart', attachments: [image] }),
    });
    const model = createScriptedModel([
      [toolCall('call_1', 'draw'), finish()],
      [text('Nice.'), finish()],
    ]);
    const kernel = await boot({ model, tools: [draw] });
    const run = await ask(kernel);
    const events = await finished(kernel, run.id);
    expect(ofType(events, 'tool.completed')).toMatchObject([{ attachments: [image] }]);
    expect(resultsIn(lastOf(model.requests))).toEqual([[{ type: 'text', text: 'A chart' }, image]]);
  });

  test('that are invalid are an error of the tool', async () => {
    const draw = createRecordingTool({
      name: 'draw',
      allowedByDefault: true,
      execute: () => ({ context: 'A chart', attachments: [{ ...image, data: '<svg>' }] }),
    });
    const { read } = await callOnce(draw);
    expect(read).toMatchObject({
      status: 'error',
      error: 'An attachment of the tool’s output is invalid: data: Must be base64',
    });
  });
});
