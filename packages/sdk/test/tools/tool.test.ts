import { describe, expect, expectTypeOf, test } from 'vitest';
import { type StandardSchema, tool, type ToolContext } from '../../src/tools/tool.ts';

const context: ToolContext = {
  signal: new AbortController().signal,
  runId: 'run-1',
  toolCallId: 'call-1',
  idempotencyKey: 'run-1:call-1',
};

interface User {
  readonly id: string;
}

const userJson = { type: 'object', properties: { id: { type: 'string' } }, required: ['id'] };

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

describe('tool with a Standard Schema', () => {
  test('is declared with the JSON Schema of its schema', () => {
    const targets: string[] = [];
    const schema = userSchema({
      input: ({ target }) => {
        targets.push(target);
        return userJson;
      },
    });
    const { declaration } = tool({
      name: 'get_user',
      description: 'Finds a user',
      schema,
      timeoutMs: 5000,
      run: () => null,
    });
    expect(declaration).toEqual({
      name: 'get_user',
      kind: 'function',
      description: 'Finds a user',
      inputSchema: userJson,
      timeoutMs: 5000,
    });
    expect(targets).toEqual(['draft-2020-12']);
  });

  test('is declared in draft-07 if the library supports nothing newer', () => {
    const schema = userSchema({
      input: ({ target }) => {
        if (target !== 'draft-07') throw new Error('Unknown target');
        return userJson;
      },
    });
    expect(tool({ name: 'a', schema, run: () => null }).declaration.inputSchema).toEqual(userJson);
  });

  test('requires inputSchema if the library cannot convert its schema', () => {
    expect(() => tool({ name: 'get_user', schema: userSchema(), run: () => null })).toThrow(
      'The test schema of the tool get_user cannot be converted to JSON Schema; pass inputSchema too',
    );
    const withSchema = tool({
      name: 'a',
      schema: userSchema(),
      inputSchema: userJson,
      run: () => null,
    });
    expect(withSchema.declaration.inputSchema).toEqual(userJson);
  });

  test('receives the parsed, typed input', async () => {
    const { call } = tool({
      name: 'get_user',
      schema: userSchema(),
      inputSchema: userJson,
      run(input, { idempotencyKey }) {
        expectTypeOf(input).toEqualTypeOf<User & { seen: true }>();
        return { ...input, idempotencyKey };
      },
    });
    expect(await call({ id: 'u_1', more: 1 }, context)).toEqual({
      id: 'u_1',
      seen: true,
      idempotencyKey: 'run-1:call-1',
    });
  });

  test('rejects invalid input with the path of the field', async () => {
    let ran = false;
    const { call } = tool({
      name: 'get_user',
      schema: userSchema(),
      inputSchema: userJson,
      run: () => (ran = true),
    });
    await expect(call({}, context)).rejects.toThrow(
      'Invalid input: user.id: Must be a string; Bad',
    );
    expect(ran).toBe(false);
  });

  test('accepts a schema that is a function', () => {
    const schema = Object.assign(() => {}, userSchema({ input: () => userJson }));
    expect(tool({ name: 'a', schema, run: () => null }).declaration.inputSchema).toEqual(userJson);
  });
});

describe('tool with a JSON Schema', () => {
  test('is declared with it, and validated by the server', async () => {
    const { declaration, call } = tool({
      name: 'get_user',
      schema: userJson,
      run: (input: User) => input.id,
    });
    expect(declaration).toEqual({ name: 'get_user', kind: 'function', inputSchema: userJson });
    expect(await call({ id: 'u_1' }, context)).toBe('u_1');
  });

  test('receives an object by default', () => {
    tool({
      name: 'a',
      schema: userJson,
      run(input) {
        expectTypeOf(input).toEqualTypeOf<Record<string, unknown>>();
      },
    });
  });
});
