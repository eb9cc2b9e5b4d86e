import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { defineTool } from './define-tool.ts';
import { createToolContext } from './testing/tool-context.ts';

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
  it('is careful unless it is told otherwise', () => {
    expect(define()).toMatchObject({
      name: 'order',
      description: 'Orders things.',
      allowedByDefault: false,
      idempotent: false,
      onUnknown: 'ask',
    });
    expect(define()).not.toHaveProperty('derivePermission');
    const told = { allowedByDefault: true, idempotent: true, onUnknown: 'fail' } as const;
    expect(define(told)).toMatchObject(told);
  });

  it('shows models a JSON schema of what it takes, not of what it gets', () => {
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

  it('executes what its schema made of the input', async () => {
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

  it('hands its context to the execution', async () => {
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

  it('may propose a rule for "always"', () => {
    const tool = define({
      derivePermission: ({ title }) => ({ tool: 'order', params: { title: String(title) } }),
    });
    expect(tool.derivePermission?.({ title: 'A' })).toEqual({
      tool: 'order',
      params: { title: 'A' },
    });
  });

  it.each(['a', 'send_note', 'Read-File', '9', 'x'.repeat(64)])('may be named %s', (name) => {
    expect(define({ name }).name).toBe(name);
  });

  it.each(['', ' ', 'a b', 'a.b', 'ünder', 'a\n', 'x'.repeat(65), 'constructor', '__proto__'])(
    'may not be named %j',
    (name) => {
      expect(() => define({ name })).toThrow(TypeError);
    },
  );

  it('must take an object', () => {
    for (const wrong of [z.string(), z.array(z.string()), z.union([z.object({}), z.string()])]) {
      const make = () =>
        defineTool({ name: 'odd', description: '', schema: wrong, execute: () => ({}) });
      expect(make).toThrow('The tool odd must take an object');
    }
  });
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
    expect(issuesFor({ title: 3 })).toEqual([
      { path: 'title', message: 'Invalid input: expected string, received number' },
    ]);
  });

  it('name each parameter that there is not', () => {
    expect(issuesFor({ title: 'A', items: [{ name: 'x', size: 1 }], sum: 1, tax: 2 })).toEqual([
      { path: 'items[0].size', message: 'There is no such parameter' },
      { path: 'sum', message: 'There is no such parameter' },
      { path: 'tax', message: 'There is no such parameter' },
    ]);
  });

  it('are reported in short', () => {
    const issues = issuesFor({ title: 'A', items: Array.from({ length: 500 }, () => 3) });
    expect(issues).toHaveLength(21);
    expect(issues.at(-1)).toEqual({ path: '', message: 'and 480 more' });
  });

  it('may be refused by a schema that fails itself', () => {
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
