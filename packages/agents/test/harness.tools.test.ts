/** What a tool gets, what it may bring, and what the model reads of it. */
import { createScriptedModel, finish, text, toolCall } from '@relay/core/testing';
import { describe, expect, expectTypeOf, test } from 'vitest';
import { z } from 'zod';
import {
  calculator,
  createAgentHarness,
  createDeterministicHarness,
  defineTool,
  type ScriptedEvent,
  type Tool,
  type ToolDefinition,
  type ToolOutput,
} from '../src/index.ts';
import {
  bash,
  messages,
  only,
  outputsOf,
  readAll,
  says,
  shell,
  turns,
} from './support/fixtures.ts';

const permissions = { allowlist: [{ tool: 'bash' }, { tool: 'give' }] };

function call(id: string, name: string, input: Record<string, unknown> = {}): ScriptedEvent {
  return { type: 'tool_call', id, name, input };
}

/** One call of a tool, and what the model reads of it then. */
async function reading(output: () => ToolOutput | Promise<ToolOutput>) {
  const tool: ToolDefinition = {
    name: 'give',
    description: 'Gives something',
    schema: z.object({}),
    execute: output,
  };
  const model = createScriptedModel([
    [toolCall('c1', 'give'), finish()],
    [text('Done'), finish()],
  ]);
  const agent = createAgentHarness({ harness: model });
  const events = await readAll(agent.invoke({ messages, tools: [tool], permissions }));
  const read = model.requests[1]?.messages.at(-1);
  return { event: only(events, 'tool_result')[0]?.output, read: read?.content };
}

test('a misspelt field of a tool is an error, and the tool does not run', async () => {
  const misspelt = {
    name: 'give',
    description: 'Gives something',
    schema: z.object({}),
    execute: () => expect.unreachable(),
    needsAproval: true,
  };
  const agent = createAgentHarness({ harness: createScriptedModel([]) });
  const events = async () => readAll(agent.invoke({ messages, tools: [misspelt], permissions }));
  await expect(events()).rejects.toThrow(
    'The tool give: Unknown field needsAproval; did you mean needsApproval?',
  );
});

describe('the context of a tool', () => {
  test('identifies the run, the agent and the call', async () => {
    const { tool, contexts } = shell();
    const harness = createDeterministicHarness(turns([bash('tc-1', 'ls')], [says('Done')]));
    const agent = createAgentHarness({ harness });
    const events = await readAll(agent.invoke({ messages, tools: [tool], permissions }));
    const [context] = contexts;
    const { runId, agentId } = only(events, 'harness_start')[0] ?? {};
    expect(context).toMatchObject({
      runId,
      agentId,
      toolCallId: 'tc-1',
      idempotencyKey: `${runId}:tc-1`,
    });
    expect(context?.signal.aborted).toBe(false);
    expect(context?.progress).toBeTypeOf('function');
    expect(context?.spawn).toBeTypeOf('function');
  });

  test('has the context of the program by reference', async () => {
    const connection = { open: new Map([['a', () => 1]]) };
    const { tool, contexts } = shell();
    const model = createScriptedModel([
      [toolCall('c1', 'bash', { command: 'ls' }), finish()],
      [text('Done'), finish()],
    ]);
    const agent = createAgentHarness({ harness: model });
    await readAll(agent.invoke({ messages, tools: [tool], permissions, context: { connection } }));
    expect(contexts[0]?.context['connection']).toBe(connection);
    expect(JSON.stringify(model.requests)).not.toContain('connection');
  });

  test('is passed to a tool that is an instance of a class', async () => {
    class Notes implements Tool {
      readonly name = 'notes';
      readonly description = 'Takes notes';
      readonly inputSchema = { type: 'object' };
      readonly idempotent = false;
      readonly onUnknown = 'ask';
      seen: unknown;
      get allowedByDefault() {
        return true;
      }
      validate(value: unknown) {
        return { ok: true, value } as const;
      }
      async execute(_input: unknown, { context }: { context: unknown }) {
        this.seen = context;
        return { context: 'noted' };
      }
    }
    const notes = new Notes();
    const harness = createDeterministicHarness(turns([call('tc-1', 'notes')], [says('Done')]));
    const context = { who: 'me' };
    await readAll(createAgentHarness({ harness }).invoke({ messages, tools: [notes], context }));
    expect(notes.seen).toEqual({ who: 'me' });
  });
});

describe('the output of a tool', () => {
  test('is a context for the model and a result for programs', async () => {
    expect(await reading(() => ({ context: 'For the model', result: { code: 0 } }))).toEqual({
      event: { context: 'For the model', result: { code: 0 } },
      read: 'For the model',
    });
  });

  test('can be only a context, also an empty one', async () => {
    expect(await reading(() => ({ context: 'Text' }))).toEqual({
      event: { context: 'Text' },
      read: 'Text',
    });
    expect((await reading(() => ({ context: '' }))).read).toBe('');
  });

  test.each([[[1, 2, 3]], [null], [0], ['text'], [{ deep: { list: [] } }]])(
    'may be the result %j alone, which the model reads as JSON',
    async (result) => {
      const { event, read } = await reading(() => ({ result }));
      expect(event).toEqual({ result });
      expect(read).toBe(JSON.stringify({ context: undefined, result }));
    },
  );

  test('can be a plain value, which is the result', async () => {
    const plain = (value: unknown) => reading(() => value as ToolOutput);
    expect((await plain({ context: 7 })).event).toEqual({ result: { context: 7 } });
    expect(await plain({})).toEqual({ event: { result: {} }, read: '{"result":{}}' });
    expect(await plain('text')).toEqual({ event: { result: 'text' }, read: '{"result":"text"}' });
    expect(await plain(undefined)).toEqual({ event: { result: null }, read: '{"result":null}' });
  });

  test('can be an error: the model reads it, and the run continues', async () => {
    const { event, read } = await reading(() => Promise.reject(new Error('No such file')));
    const output = { status: 'error', error: 'No such file', code: 'tool_failed' };
    expect(event).toEqual(output);
    expect(read).toBe(JSON.stringify(output));
  });

  test.each([
    ['a cycle', () => ({ result: cyclic() })],
    ['thrown, whatever it is', () => Promise.reject(Object.create(null))],
  ])('is an error of the tool if it is %s', async (_what, output) => {
    const { event } = await reading(output);
    expect(event).toMatchObject({ status: 'error', code: 'tool_failed' });
  });

  function cyclic(): unknown {
    const value: Record<string, unknown> = {};
    value['self'] = value;
    return value;
  }
});

describe('progress', () => {
  test('is emitted while the tool runs, and not after', async () => {
    const { tool, contexts } = shell(async (_command, { progress }) => {
      progress('half');
      progress('nearly');
      return { context: 'done' };
    });
    const harness = createDeterministicHarness(turns([bash('tc-1', 'ls')], [says('Done')]));
    const agent = createAgentHarness({ harness });
    const events = await readAll(agent.invoke({ messages, tools: [tool], permissions }));
    expect(only(events, 'tool_progress')).toMatchObject([
      { toolCallId: 'tc-1', name: 'bash', content: 'half' },
      { toolCallId: 'tc-1', name: 'bash', content: 'nearly' },
    ]);
    const result = events.findIndex(({ type }) => type === 'tool_result');
    expect(events.findLastIndex(({ type }) => type === 'tool_progress')).toBeLessThan(result);
    contexts[0]?.progress('after the end');
    expect(only(events, 'tool_progress')).toHaveLength(2);
  });
});

describe('an invalid call', () => {
  test('of an unknown tool is an error for the model', async () => {
    const harness = createDeterministicHarness(turns([call('tc-1', 'nothing')], [says('Sorry')]));
    const events = await readAll(createAgentHarness({ harness }).invoke({ messages }));
    expect(outputsOf(events)).toEqual({
      'tc-1': { status: 'error', error: 'There is no tool named nothing', code: 'unknown_tool' },
    });
    expect(events.at(-1)).toMatchObject({ reason: 'completed' });
  });

  test('with invalid arguments is neither relayed nor run', async () => {
    const { tool, ran } = shell();
    const wrong = [{}, { command: 7 }, { command: 'ls', more: 1 }];
    const harness = createDeterministicHarness(
      turns(
        wrong.map((input, index) => call(`tc-${index}`, 'bash', input)),
        [says('Sorry')],
      ),
    );
    const agent = createAgentHarness({ harness });
    const events = await readAll(agent.invoke({ messages, tools: [tool] }));
    expect(only(events, 'relay')).toEqual([]);
    for (const output of Object.values(outputsOf(events))) {
      expect(output).toMatchObject({ status: 'error', code: 'tool_input_invalid' });
    }
    expect(ran).toEqual([]);
  });
});

describe('a tool definition', () => {
  test('applies defaults before the relay, so that the call runs as shown', async () => {
    const inputs: unknown[] = [];
    const tool = defineTool({
      name: 'list',
      description: 'Lists',
      schema: z.object({ limit: z.number().default(10), path: z.string() }),
      execute: (input) => {
        expectTypeOf(input).toEqualTypeOf<{ limit: number; path: string }>();
        inputs.push(input);
        return { result: input.limit };
      },
    });
    const harness = createDeterministicHarness(
      turns([call('tc-1', 'list', { path: '/' })], [says('Done')]),
    );
    const agent = createAgentHarness({ harness });
    const events = await readAll(agent.invoke({ messages, tools: [tool] }), { approved: true });
    expect(only(events, 'relay')[0]?.params).toEqual({ limit: 10, path: '/' });
    expect(inputs).toEqual([{ limit: 10, path: '/' }]);
  });

  test('can be allowed by default, like the calculator', async () => {
    const harness = createDeterministicHarness(
      turns([call('tc-1', 'calculator', { a: 6, b: 7, op: '*' })], [says('Done')]),
    );
    const agent = createAgentHarness({ harness });
    const events = await readAll(agent.invoke({ messages, tools: [calculator] }));
    expect(only(events, 'relay')).toEqual([]);
    expect(outputsOf(events)['tc-1']).toMatchObject({ result: 42 });
  });

  test('can be used by an agent and an invocation as one tool', async () => {
    const { tool, ran } = shell();
    const agents = [{ name: 'clerk', tools: [tool] }];
    const harness = createDeterministicHarness(turns([bash('tc-1', 'ls')], [says('Done')]));
    const agent = createAgentHarness({ harness, agents });
    await readAll(agent.invoke({ messages, tools: [tool], agent: 'clerk', permissions }));
    expect(ran).toEqual(['ls']);
  });

  test('suggests a rule for calls like the relayed one', async () => {
    const { tool } = shell();
    const derivePermission = ({ command }: { command: string }) => ({
      tool: 'bash',
      params: { command: `${command.split(' ')[0]} *` },
    });
    const harness = createDeterministicHarness(turns([bash('tc-1', 'git push')], [says('Done')]));
    const agent = createAgentHarness({ harness });
    const tools = [{ ...tool, derivePermission }];
    const events = await readAll(agent.invoke({ messages, tools }), { approved: false });
    expect(only(events, 'relay')[0]?.suggestedRule).toEqual({
      tool: 'bash',
      params: { command: 'git *' },
    });
  });
});
