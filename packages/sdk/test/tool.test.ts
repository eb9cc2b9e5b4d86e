import { describe, expect, expectTypeOf, test } from 'vitest';
import { type StandardSchema, tool, type ToolContext } from '../src/tool.ts';

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

/** A schema of some library, which says itself as JSON Schema or does not. */
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
          issues: [{ message: 'Must be text', path: ['user', { key: 'id' }] }, { message: 'Bad' }],
        };
      },
    },
  };
}

describe('a tool with a Standard Schema', () => {
  test('is declared by what the schema says of itself', () => {
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

  test('is declared in the older draft where the library knows no newer one', () => {
    const schema = userSchema({
      input: ({ target }) => {
        if (target !== 'draft-07') throw new Error('Unknown target');
        return userJson;
      },
    });
    expect(tool({ name: 'a', schema, run: () => null }).declaration.inputSchema).toEqual(userJson);
  });

  test('needs to be told its JSON Schema where the library knows none', () => {
    expect(() => tool({ name: 'get_user', schema: userSchema(), run: () => null })).toThrow(
      'The schema of the tool get_user (test) cannot say itself as JSON Schema: pass inputSchema too',
    );
    const told = tool({ name: 'a', schema: userSchema(), inputSchema: userJson, run: () => null });
    expect(told.declaration.inputSchema).toEqual(userJson);
  });

  test('gets what the schema makes of the input, and its type', async () => {
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

  test('is not run on what does not fit, and says where', async () => {
    let ran = false;
    const { call } = tool({
      name: 'get_user',
      schema: userSchema(),
      inputSchema: userJson,
      run: () => (ran = true),
    });
    await expect(call({}, context)).rejects.toThrow(
      'The input does not fit: user.id: Must be text; Bad',
    );
    expect(ran).toBe(false);
  });

  test('may be a function, as those of some libraries are', () => {
    const schema = Object.assign(() => {}, userSchema({ input: () => userJson }));
    expect(tool({ name: 'a', schema, run: () => null }).declaration.inputSchema).toEqual(userJson);
  });
});

describe('a tool with a JSON Schema', () => {
  test('is declared by it, and left to the server to check', async () => {
    const { declaration, call } = tool({
      name: 'get_user',
      schema: userJson,
      run: (input: User) => input.id,
    });
    expect(declaration).toEqual({ name: 'get_user', kind: 'function', inputSchema: userJson });
    expect(await call({ id: 'u_1' }, context)).toBe('u_1');
  });

  test('gets an object of anything unless it says more', () => {
    tool({
      name: 'a',
      schema: userJson,
      run(input) {
        expectTypeOf(input).toEqualTypeOf<Record<string, unknown>>();
      },
    });
  });
});
