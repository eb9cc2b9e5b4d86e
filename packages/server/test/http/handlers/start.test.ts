import { createRecordingTool, createScriptedModel } from '@relay/core/testing';
import { createModelRegistry } from '@relay/models';
import { type Permissions, RelayError } from '@relay/protocol';
import { createToolRegistry } from '@relay/tools';
import { describe, expect, it } from 'vitest';
import type { ApiRequest } from '../../../src/http/handlers/handler.ts';
import {
  chooseModel,
  choosePermissions,
  chooseTools,
  toolsOfAgent,
} from '../../../src/http/handlers/runs/start.ts';

const models = createModelRegistry([
  { id: 'scripted', provider: 'test', model: createScriptedModel([]) },
]);
const tools = createToolRegistry(['one', 'two'].map((name) => createRecordingTool({ name })));

interface Setting {
  readonly scopes?: readonly string[];
  readonly defaultModel?: string;
}

function callWith({ scopes = ['runs', 'approve'], defaultModel }: Setting = {}): ApiRequest {
  return {
    caller: { tenantId: 'tenant-1', scopes: new Set(scopes) },
    context: {
      config: { defaultModel },
      control: { engine: { models: () => models, tools: () => tools } },
    },
  } as unknown as ApiRequest;
}

function refusal(choose: () => unknown): RelayError {
  try {
    choose();
  } catch (error) {
    expect(error).toBeInstanceOf(RelayError);
    return error as RelayError;
  }
  throw new Error('It was accepted');
}

async function refusalOf(choosing: Promise<unknown>): Promise<RelayError> {
  const error = await choosing.catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(RelayError);
  return error as RelayError;
}

describe('the model', () => {
  it('is the requested one, else the default of the server', async () => {
    expect(await chooseModel(callWith(), 'scripted', 'missing')).toBe('scripted');
    expect(await chooseModel(callWith({ defaultModel: 'scripted' }), undefined, 'missing')).toBe(
      'scripted',
    );
  });

  it('is required where the server has no default', async () => {
    const missing = 'model and input are required';
    const error = await refusalOf(chooseModel(callWith(), undefined, missing));
    expect(error.code).toBe('invalid_request');
    expect(error.message).toBe('model and input are required');
    expect(error.details).toEqual([{ path: 'model', message: 'Required' }]);
  });

  it.each(['nope', 'SCRIPTED', 'constructor', '__proto__', 'toString', ' scripted'])(
    'is refused if no provider offers %j',
    async (name) => {
      const error = await refusalOf(chooseModel(callWith(), name, 'missing'));
      expect(error.code).toBe('unknown_model');
      expect(error.status).toBe(400);
      expect(error.details?.[0]?.path).toBe('model');
    },
  );

  it('is refused by name if the default model is unknown', async () => {
    const call = callWith({ defaultModel: 'gone' });
    const error = await refusalOf(chooseModel(call, undefined, 'x'));
    expect(error.code).toBe('unknown_model');
    expect(error.message).toContain('gone');
  });
});

describe('the tools', () => {
  it('are all tools of the tenant by default, and none for an empty list', () => {
    expect(toolsOfAgent(callWith(), undefined)).toEqual(['one', 'two']);
    expect(toolsOfAgent(callWith(), [])).toEqual([]);
  });

  it('are the named ones, in their order', () => {
    expect(chooseTools(callWith(), ['two', 'one'])).toEqual(['two', 'one']);
  });

  it.each(['three', 'ONE', 'constructor', 'hasOwnProperty', '__proto__', 'one '])(
    'do not include %j',
    (name) => {
      const error = refusal(() => chooseTools(callWith(), ['one', name]));
      expect(error.code).toBe('unknown_tool');
      expect(error.status).toBe(400);
      expect(error.details?.[0]?.path).toMatch(/^tools\[1\]/);
    },
  );

  it('may not be listed twice', () => {
    const error = refusal(() => chooseTools(callWith(), ['one', 'two', 'one']));
    expect(error.code).toBe('invalid_request');
    expect(error.details?.[0]?.path).toMatch(/^tools\[2\]/);
  });

  it('are a copy of the list of the request', () => {
    const wanted = ['one'];
    expect(chooseTools(callWith(), wanted)).not.toBe(wanted);
  });
});

describe('the permissions', () => {
  const widening: [string, Permissions][] = [
    ['an allowlist', { allowlist: [{ tool: 'one' }] }],
    ['an allow-once', { allowOnce: [{ tool: 'one' }] }],
    ['both, with a denial', { allowlist: [{ tool: 'one' }], denylist: [{ tool: 'two' }] }],
  ];
  const narrowing: [string, Permissions][] = [
    ['none', {}],
    ['a denylist', { denylist: [{ tool: 'one', params: { path: 'src/*' } }] }],
    ['a denial of one call', { deny: [{ toolCallId: 'call_1' }] }],
    ['lists that allow nothing', { allowlist: [], allowOnce: [] }],
  ];

  it.each(widening)(
    'that allow calls by %s require the scope approve',
    async (_what, permissions) => {
      const error = await refusalOf(choosePermissions(callWith({ scopes: ['runs'] }), permissions));
      expect(error.code).toBe('approve_scope_required');
      expect(error.status).toBe(403);
      expect(await choosePermissions(callWith(), permissions)).toEqual(permissions);
    },
  );

  it.each(narrowing)('that only deny do not require it: %s', async (_what, permissions) => {
    expect(await choosePermissions(callWith({ scopes: ['runs'] }), permissions)).toEqual(
      permissions,
    );
  });

  it('are empty if left out', async () => {
    expect(await choosePermissions(callWith({ scopes: ['runs'] }), undefined)).toEqual({});
  });

  it.each([
    ['empty', ''],
    ['negated', '!rm *'],
    ['a negated group', '!(rm) *'],
    ['an unclosed bracket', '[a'],
    ['an unclosed brace', '{a,b'],
    ['too long', 'a'.repeat(1025)],
    ['a numeric range', '{1..100000}'],
  ])('are refused with the path of a pattern that is %s', async (_what, pattern) => {
    for (const list of ['allowlist', 'allowOnce', 'denylist'] as const) {
      const permissions = { [list]: [{ tool: 'one' }, { tool: 'one', params: { path: pattern } }] };
      const error = await refusalOf(choosePermissions(callWith(), permissions));
      expect(error.code).toBe('invalid_pattern');
      expect(error.status).toBe(400);
      expect(error.details).toHaveLength(1);
      expect(error.details?.[0]?.path).toBe(`permissions.${list}[1].params.path`);
      expect(error.message).toContain(`permissions.${list}[1].params.path: `);
    }
  });

  it('are refused with the paths of all bad patterns', async () => {
    const permissions: Permissions = {
      allowlist: [{ tool: 'one', params: { a: '', b: 'fine', 'c d': '!x' } }],
      denylist: [{ tool: 'two', params: { path: '[' } }],
    };
    const error = await refusalOf(choosePermissions(callWith(), permissions));
    expect(error.details?.map(({ path }) => path)).toEqual([
      'permissions.allowlist[0].params.a',
      'permissions.allowlist[0].params["c d"]',
      'permissions.denylist[0].params.path',
    ]);
  });
});
