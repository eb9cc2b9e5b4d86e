import type { StandardSchema } from '@relay/protocol/wire';
import { describe, expect, expectTypeOf, test } from 'vitest';
import {
  clientContext,
  declarationOf,
  defineTool,
  parseInput,
  type ToolContext,
} from '../../src/tools/tool.ts';

const context: ToolContext = clientContext({
  signal: new AbortController().signal,
  runId: 'run-1',
  toolCallId: 'call-1',
  idempotencyKey: 'run-1:call-1',
});

interface User {
  readonly id: string;
}

const userJson = {
  type: 'object',
  properties: { id: { type: 'string' } },
  required: ['id'],
} as const;

type Props = StandardSchema<User, User & { readonly seen: true }>['~standard'];

/** A Standard Schema that may support the conversion to JSON Schema. */
function userSchema(jsonSchema?: Props['jsonSchema']): StandardSchema<User, User & { seen: true }> {
  return {
    '~standard': {
      version: 1,
      vendor: 'test',
      ...(jsonSchema === undefined ? {} : { jsonSchema }),
      validate(value) {
        const { id } = (value ?? {}) as Partial<User>;
        if (typeof id === 'string') return { value: { id, seen: true } };
        return {
          issues: [
            { message: 'Must be a string', path: ['user', { key: 'id' }] },
            { message: 'Bad' },
          ],
        };
      },
    },
  };
}

const execute = () => null;

test('defineTool refuses a misspelt field, and fields that only a server has', () => {
  const misspelt = { name: 'refund', schema: userJson, execute, needsAproval: true };
  expect(() => defineTool(misspelt)).toThrow(
    'The tool refund: Unknown field needsAproval; did you mean needsApproval?',
  );
  const previewed = { name: 'refund', schema: userJson, execute, preview: execute };
  expect(() => defineTool(previewed)).toThrow(
    'The tool refund has preview, so a client cannot run it: put it into relay.config.ts',
  );
});

describe('defineTool with a Standard Schema', () => {
  test('declares the JSON Schema of the schema, and what decides about approvals', () => {
    const targets: string[] = [];
    const schema = userSchema({
      input: ({ target }) => {
        targets.push(target);
        return { $schema: 'https://json-schema.org/draft/2020-12/schema', ...userJson };
      },
    });
    const tool = defineTool({
      name: 'get_user',
      description: 'Finds a user',
      schema,
      timeoutMs: 5000,
      needsApproval: true,
      kinds: { id: 'path' },
      sensitive: ['id'],
      execute,
    });
    expect(declarationOf(tool)).toEqual({
      name: 'get_user',
      kind: 'function',
      description: 'Finds a user',
      inputSchema: userJson,
      timeoutMs: 5000,
      needsApproval: true,
      kinds: { id: 'path' },
      sensitive: ['id'],
    });
    expect(targets).toEqual(['draft-2020-12']);
  });

  test('declares draft-07 if the library supports nothing newer', () => {
    const schema = userSchema({
      input: ({ target }) => {
        if (target !== 'draft-07') throw new Error('Unknown target');
        return userJson;
      },
    });
    expect(defineTool({ name: 'a', schema, execute }).inputSchema).toEqual(userJson);
  });

  test('requires inputSchema if the library cannot convert its schema', () => {
    expect(() => defineTool({ name: 'get_user', schema: userSchema(), execute })).toThrow(
      'The test schema of the tool get_user cannot be converted to JSON Schema; pass inputSchema too',
    );
    const schema = userSchema();
    const withSchema = defineTool({ name: 'a', schema, inputSchema: userJson, execute });
    expect(withSchema.inputSchema).toEqual(userJson);
  });

  test('executes with the parsed, typed input', async () => {
    const tool = defineTool({
      name: 'get_user',
      schema: userSchema(),
      inputSchema: userJson,
      execute(input, { idempotencyKey }) {
        expectTypeOf(input).toEqualTypeOf<User & { seen: true }>();
        return { ...input, idempotencyKey };
      },
    });
    const input = parseInput(tool, { id: 'u_1', more: 1 });
    expect(await tool.execute(input, context)).toEqual({
      result: { id: 'u_1', seen: true, idempotencyKey: 'run-1:call-1' },
    });
  });

  test('rejects invalid input with the path of the field', () => {
    const schema = userSchema();
    const tool = defineTool({ name: 'get_user', schema, inputSchema: userJson, execute });
    expect(() => parseInput(tool, {})).toThrow('Invalid input: user.id: Must be a string; Bad');
  });

  test('rejects a schema that validates asynchronously', () => {
    const schema: StandardSchema = {
      '~standard': { version: 1, vendor: 'test', validate: async (value) => ({ value }) },
    };
    const tool = defineTool({ name: 'a', schema, inputSchema: userJson, execute });
    expect(() => parseInput(tool, { id: 'u_1' })).toThrow('validates asynchronously');
  });

  test('accepts a schema that is a function', () => {
    const schema = Object.assign(() => {}, userSchema({ input: () => userJson }));
    expect(defineTool({ name: 'a', schema, execute }).inputSchema).toEqual(userJson);
  });
});

describe('defineTool with a JSON Schema', () => {
  test('infers the parameters; the server validates them', async () => {
    const tool = defineTool({
      name: 'book',
      schema: {
        type: 'object',
        properties: {
          room: { enum: ['a', 'b'] },
          nights: { type: 'integer' },
          guests: { type: 'array', items: { type: 'string' } },
        },
        required: ['room', 'guests'],
      },
      execute(input) {
        expectTypeOf(input).toEqualTypeOf<{
          room: 'a' | 'b';
          guests: string[];
          nights?: number;
        }>();
        return input.guests.length;
      },
    });
    expect(await tool.execute(parseInput(tool, { room: 'a', guests: ['Ada'] }), context)).toEqual({
      result: 1,
    });
  });

  test('takes an object of unknown fields if the compiler does not know the schema', () => {
    const schema: Readonly<Record<string, unknown>> = userJson;
    defineTool({
      name: 'a',
      schema,
      execute: (input) => expectTypeOf(input).toEqualTypeOf<Record<string, unknown>>(),
    });
  });

  test('must describe an object', () => {
    expect(() => defineTool({ name: 'a', schema: { type: 'string' }, execute })).toThrow(
      'The tool a must take an object',
    );
  });
});

describe('what a tool returns', () => {
  test.each([
    [undefined, { result: null }],
    ['text', { result: 'text' }],
    [{}, { result: {} }],
    [[1], { result: [1] }],
    [{ result: 1, more: 2 }, { result: { result: 1, more: 2 } }],
    [{ context: 'for the model' }, { context: 'for the model' }],
    [
      { context: 'for the model', result: 7 },
      { context: 'for the model', result: 7 },
    ],
  ])('%j is %j', async (returned, output) => {
    const tool = defineTool({ name: 'a', schema: userJson, execute: () => returned });
    expect(await tool.execute({ id: 'u_1' }, context)).toEqual(output);
  });
});

describe('a tool that needs the server', () => {
  test.each(['resolvePaths', 'preview', 'delegates', 'needsMemory', 'needsSession'])(
    'is refused with %s',
    (field) => {
      const tool = { ...defineTool({ name: 'a', schema: userJson, execute }), [field]: () => {} };
      expect(() => declarationOf(tool)).toThrow(
        `The tool a has ${field}, so a client cannot run it: put it into relay.config.ts`,
      );
    },
  );

  test('fails if it uses a part of the context that a client does not have', () => {
    expect(() => Reflect.get(context, 'ask')).toThrow(
      'A client has no context.ask: run this tool in the server',
    );
  });
});
