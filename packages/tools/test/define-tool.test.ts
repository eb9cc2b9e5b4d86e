import { describe, expect, expectTypeOf, it } from 'vitest';
import { z } from 'zod';
import {
  defineDelegatingTool,
  defineTool,
  type DelegatingToolDefinition,
  type ToolDefinition,
} from '../src/define-tool.ts';
import { createToolContext } from './support/tool-context.ts';

const schema = z.strictObject({
  title: z.string().min(1),
  items: z.array(z.strictObject({ name: z.string(), count: z.int().default(1) })).optional(),
});

function define(more: Partial<Parameters<typeof defineTool<typeof schema>>[0]> = {}) {
  return defineTool({
    name: 'order',
    description: 'Orders things.',
    schema,
    execute: (input) => ({ result: input }),
    ...more,
  });
}

describe('a defined tool', () => {
  it('has safe defaults', () => {
    expect(define()).toMatchObject({
      name: 'order',
      description: 'Orders things.',
      allowedByDefault: false,
      idempotent: false,
      onUnknown: 'ask',
    });
    expect(define()).not.toHaveProperty('derivePermission');
    const options = { allowedByDefault: true, idempotent: true, onUnknown: 'fail' } as const;
    expect(define(options)).toMatchObject(options);
  });

  it('has no misspelt field: it would run unasked', () => {
    const misspelt = { idempotent: true, needsAproval: true };
    expect(() => define(misspelt)).toThrow(
      'The tool order: Unknown field needsAproval; did you mean needsApproval?',
    );
    const other = { idempotent: true, colour: 'red' };
    expect(() => define(other)).toThrow(/Unknown field colour$/);
  });

  it('can demand a person for each call, but not be allowed by default too', () => {
    expect(define({ needsApproval: true })).toMatchObject({
      needsApproval: true,
      allowedByDefault: false,
    });
    expect(() => define({ needsApproval: true, allowedByDefault: true })).toThrow(
      'The tool order has needsApproval and allowedByDefault: use one of them',
    );
  });

  it('describes the input of its schema to models, not the output', () => {
    expect(define().inputSchema).toEqual({
      type: 'object',
      additionalProperties: false,
      required: ['title'],
      properties: {
        title: { type: 'string', minLength: 1 },
        items: {
          type: 'array',
          items: {
            type: 'object',
            additionalProperties: false,
            required: ['name'],
            properties: {
              name: { type: 'string' },
              count: expect.objectContaining({ type: 'integer', default: 1 }),
            },
          },
        },
      },
    });
  });

  it('executes with the output of its schema', async () => {
    const tool = define();
    const validation = tool.validate({ title: 'A', items: [{ name: 'x' }] });
    expect(validation).toEqual({
      ok: true,
      value: { title: 'A', items: [{ name: 'x', count: 1 }] },
    });
    const output = await tool.execute({ title: 'A' }, createToolContext());
    expect(output).toEqual({ result: { title: 'A' } });
  });

  it('rejects, rather than throws, when it fails', async () => {
    const tool = define({
      execute: () => {
        throw new Error('Sold out');
      },
    });
    const call = tool.execute({ title: 'A' }, createToolContext());
    await expect(call).rejects.toThrow('Sold out');
  });

  it('passes its context to the execution', async () => {
    const seen: unknown[] = [];
    const tool = define({
      execute: (_, { runId, progress }) => {
        progress('half');
        return { context: runId };
      },
    });
    const context = createToolContext({ runId: 'r7', progress: (line) => seen.push(line) });
    expect(await tool.execute({ title: 'A' }, context)).toEqual({ context: 'r7' });
    expect(seen).toEqual(['half']);
  });

  it('may suggest a rule for "always"', () => {
    const tool = define({
      derivePermission: ({ title }) => ({ tool: 'order', params: { title } }),
    });
    expect(tool.derivePermission?.({ title: 'A' })).toEqual({
      tool: 'order',
      params: { title: 'A' },
    });
  });

  it.each(['a', 'send_note', 'Read-File', '9', 'x'.repeat(64)])('may be named %s', (name) => {
    expect(define({ name }).name).toBe(name);
  });

  it.each([
    '',
    ' ',
    'a b',
    'a.b',
    'ünder',
    'a\n',
    'x'.repeat(65),
    'constructor',
    '__proto__',
    'handoff',
  ])('may not be named %j', (name) => {
    expect(() => define({ name })).toThrow(TypeError);
  });

  it('declares the kinds of its parameters, if there are any', () => {
    expect(define({ kinds: { title: 'path' } }).kinds).toEqual({ title: 'path' });
    expect(define()).not.toHaveProperty('kinds');
  });

  it('executes its own code, without a sub-agent', () => {
    expect(define()).not.toHaveProperty('delegates');
  });

  it('may spawn sub-agents', async () => {
    const tool = define({
      execute: async ({ title }, { spawn }) => {
        const { output } = await spawn({ prompt: `About ${title}`, agent: 'writer' });
        return { context: output };
      },
    });
    const asked: unknown[] = [];
    const usage = { inputTokens: 1, outputTokens: 1 };
    const context = createToolContext({
      spawn: async (task) => {
        asked.push(task);
        return { agentId: 'a', agent: 'writer', reason: 'completed', output: 'Done', usage };
      },
    });
    expect(await tool.execute({ title: 'A' }, context)).toEqual({ context: 'Done' });
    expect(asked).toEqual([{ prompt: 'About A', agent: 'writer' }]);
  });

  it('must take an object', () => {
    for (const wrong of [z.string(), z.array(z.string()), z.union([z.object({}), z.string()])]) {
      const make = () =>
        defineTool({ name: 'odd', description: '', schema: wrong, execute: () => ({}) });
      expect(make).toThrow('The tool odd must take an object');
    }
  });
});

describe('a definition of a tool', () => {
  it('has the type of its schema', () => {
    defineTool({
      name: 'typed',
      description: '',
      schema: z.object({ path: z.string(), depth: z.int().default(1) }),
      execute: (input) => {
        expectTypeOf(input).toEqualTypeOf<{ path: string; depth: number }>();
        return {};
      },
      derivePermission: (input) => {
        expectTypeOf(input.depth).toEqualTypeOf<number>();
        return { tool: 'typed' };
      },
    });
  });

  it('can be declared first, with destructured input, and defined later', async () => {
    const definition: ToolDefinition = {
      name: 'list',
      description: 'Lists a folder.',
      schema: z.object({ path: z.string(), all: z.boolean().default(false) }),
      kinds: { path: 'path' },
      execute: async ({ path, all }) => ({ context: `${path}${all ? ' and all' : ''}` }),
      derivePermission: ({ path }) => ({ tool: 'list', params: { path } }),
    };
    const tool = defineTool(definition);
    const checked = tool.validate({ path: '/tmp' });
    expect(checked).toEqual({ ok: true, value: { path: '/tmp', all: false } });
    expect(await tool.execute({ path: '/tmp' }, createToolContext())).toEqual({ context: '/tmp' });
    expect(tool.derivePermission?.({ path: '/tmp' })).toEqual({
      tool: 'list',
      params: { path: '/tmp' },
    });
  });

  it('can be in a list with definitions of other schemas', () => {
    const one = { description: '', execute: () => ({}) };
    const all: ToolDefinition[] = [
      { ...one, name: 'a', schema: z.object({ x: z.string() }) },
      { ...one, name: 'b', schema: z.object({ y: z.number() }), idempotent: true },
    ];
    expect(all.map((each) => defineTool(each).name)).toEqual(['a', 'b']);
  });

  it('cannot both be executed and delegate', () => {
    expectTypeOf<ToolDefinition>().not.toHaveProperty('delegates');
    expectTypeOf<DelegatingToolDefinition>().not.toHaveProperty('execute');
  });
});

describe('a tool that only delegates', () => {
  const research = defineDelegatingTool({
    name: 'research',
    description: 'Finds things out.',
    schema: z.strictObject({ question: z.string().min(1), depth: z.int().default(2) }),
    kinds: { question: 'url' },
    delegates: ({ question, depth }) => ({ prompt: question, maxIterations: depth }),
  });

  it('creates a task from the output of its schema', () => {
    const checked = research.validate({ question: 'Why?' });
    expect(checked).toEqual({ ok: true, value: { question: 'Why?', depth: 2 } });
    expect(research.delegates?.(checked.ok ? checked.value : undefined)).toEqual({
      prompt: 'Why?',
      maxIterations: 2,
    });
  });

  it('is described, validated and permitted like any other', () => {
    expect(research).toMatchObject({
      name: 'research',
      allowedByDefault: false,
      kinds: { question: 'url' },
      inputSchema: { type: 'object', required: ['question'] },
    });
    expect(research.validate({}).ok).toBe(false);
    expect(() => defineDelegatingTool({ ...definition(), name: 'a b' })).toThrow(TypeError);
    expect(() => defineDelegatingTool({ ...definition(), schema: z.string() })).toThrow(
      'must take an object',
    );
  });

  it('has no unknown outcome after a crash, because its sub-agent is in the journal', () => {
    expect(research).toMatchObject({ idempotent: true, onUnknown: 'fail' });
  });

  it('is never executed', async () => {
    const call = research.execute({ question: 'Why?' }, createToolContext());
    await expect(call).rejects.toThrow('research is executed by a sub-agent');
  });

  function definition(): DelegatingToolDefinition {
    return {
      name: 'x',
      description: '',
      schema: z.object({}),
      delegates: () => ({ prompt: 'x' }),
    };
  }
});

describe('arguments that do not fit', () => {
  const issuesFor = (input: unknown) => {
    const validation = define().validate(input);
    return validation.ok ? [] : validation.issues;
  };
  const paths = (input: unknown) => issuesFor(input).map(({ path }) => path);

  it('are reported with their paths', () => {
    expect(paths({})).toEqual(['title']);
    expect(paths({ title: 3 })).toEqual(['title']);
    expect(paths({ title: 'A', items: [{ name: 'x' }, { name: 4 }] })).toEqual(['items[1].name']);
    expect(paths({ title: 'A', items: [3] })).toEqual(['items[0]']);
    expect(paths({ title: '', items: [{}] })).toEqual(['title', 'items[0].name']);
    expect(paths('text')).toEqual(['']);
    expect(paths(null)).toEqual(['']);
  });

  it('say what is wrong', () => {
    expect(issuesFor({ title: 3 })).toEqual([{ path: 'title', message: 'Must be a string' }]);
  });

  it('report each unknown parameter', () => {
    expect(issuesFor({ title: 'A', items: [{ name: 'x', size: 1 }], sum: 1, tax: 2 })).toEqual([
      { path: 'items[0].size', message: 'There is no such parameter' },
      { path: 'sum', message: 'There is no such parameter' },
      { path: 'tax', message: 'There is no such parameter' },
    ]);
  });

  it('are reported up to a limit', () => {
    const issues = issuesFor({ title: 'A', items: Array.from({ length: 500 }, () => 3) });
    expect(issues).toHaveLength(21);
    expect(issues.at(-1)).toEqual({ path: '', message: 'and 480 more' });
  });

  it('are refused if the schema throws', () => {
    const broken = z.object({ a: z.string() }).refine(() => {
      throw new Error('Broken rule');
    });
    const slow = z.object({ a: z.string() }).refine(async () => true);
    for (const wrong of [broken, slow]) {
      const tool = defineTool({ name: 't', description: '', schema: wrong, execute: () => ({}) });
      const validation = tool.validate({ a: 'x' });
      expect(validation.ok).toBe(false);
    }
  });

  it('never touch a prototype', () => {
    const loose = defineTool({
      name: 'loose',
      description: '',
      schema: z.looseObject({}),
      execute: (input) => ({ result: input }),
    });
    loose.validate(JSON.parse('{"__proto__":{"polluted":true}}'));
    expect(({} as Record<string, unknown>)['polluted']).toBeUndefined();
    expect(paths(JSON.parse('{"title":"A","__proto__":{"x":1}}'))).toEqual(['__proto__']);
  });
});
