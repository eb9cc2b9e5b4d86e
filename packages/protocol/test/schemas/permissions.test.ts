import { describe, expect, it } from 'vitest';
import {
  relayResponseSchema,
  permissionsSchema,
  toolPermissionSchema,
} from '../../src/schemas/permissions.ts';

function accepts(schema: { safeParse(value: unknown): { success: boolean } }, value: unknown) {
  return schema.safeParse(value).success;
}

describe('permission rule', () => {
  it.each([
    [{ tool: 'bash' }],
    [{ tool: 'bash', params: {} }],
    [{ tool: 'bash', params: { command: 'ls*' } }],
    [{ tool: 'read', params: { filePath: 'src/**/*.ts', limit: '100' } }],
  ])('accepts %j', (rule) => {
    expect(toolPermissionSchema.parse(rule)).toEqual(rule);
  });

  it.each([
    ['has no tool', { params: { command: 'ls*' } }],
    ['has an empty tool', { tool: '' }],
    ['has a tool that is no text', { tool: 1 }],
    ['has a pattern that is no text', { tool: 'read', params: { limit: 100 } }],
    ['has a list of patterns', { tool: 'bash', params: ['ls*'] }],
    ['has a key that is unknown', { tool: 'bash', param: { command: 'ls*' } }],
    ['is only a name', 'bash'],
    ['is null', null],
  ])('is rejected if it %s', (_what, rule) => {
    expect(accepts(toolPermissionSchema, rule)).toBe(false);
  });

  it('never loses a constrained parameter when parsed', () => {
    const rule: unknown = JSON.parse('{"tool":"bash","params":{"__proto__":"ls*"}}');
    const read = toolPermissionSchema.safeParse(rule);
    expect(read.success ? Object.keys(read.data.params ?? {}) : ['__proto__']).toEqual([
      '__proto__',
    ]);
  });
});

describe('permissions', () => {
  it('can be empty', () => {
    expect(permissionsSchema.parse({})).toEqual({});
  });

  it('accept allowlist, allowOnce and denylist rules, and denials of single calls', () => {
    const permissions = {
      allowlist: [{ tool: 'bash', params: { command: 'ls*' } }],
      allowOnce: [{ tool: 'read' }],
      deny: [{ toolCallId: 'call_1', reason: 'Not this one' }, { toolCallId: 'call_2' }],
      denylist: [{ tool: 'bash', params: { command: 'rm*' } }],
    };
    expect(permissionsSchema.parse(permissions)).toEqual(permissions);
  });

  it.each([
    ['a list under a misspelt name, which would silently allow or deny nothing', { allowList: [] }],
    ['a rule that is not in a list', { allowlist: { tool: 'bash' } }],
    ['a denial without a call', { deny: [{ reason: 'no' }] }],
    ['a denial with an empty call', { deny: [{ toolCallId: '' }] }],
    ['a denial with a key that is unknown', { deny: [{ toolCallId: 'c', tool: 'bash' }] }],
    ['a list of rules', [{ tool: 'bash' }]],
  ])('are rejected with %s', (_what, permissions) => {
    expect(accepts(permissionsSchema, permissions)).toBe(false);
  });
});

describe('approval response', () => {
  it.each([
    [{ approved: true }],
    [{ approved: true, always: true }],
    [{ approved: true, always: false }],
    [{ approved: true, input: { path: '/tmp' } }],
    [{ approved: true, input: 'red' }],
    [{ approved: true, input: null }],
    [{ approved: false }],
    [{ approved: false, reason: 'This operation could delete important files' }],
  ])('accepts %j', (response) => {
    expect(relayResponseSchema.parse(response)).toEqual(response);
  });

  it.each([
    [{}],
    [{ approved: 'true' }],
    [{ approved: 'false' }],
    [{ approved: 1 }],
    [{ approved: 0 }],
    [{ approved: null }],
    [{ approved: [true] }],
    [{ approved: true, always: 'true' }],
    [{ approved: true, reason: 'a reason belongs to a denial' }],
    [{ approved: false, always: true }],
    [{ approved: false, input: 'red' }],
    [{ approved: false, reason: 7 }],
    [{ approved: true, scope: 'tenant' }],
    [null],
    [true],
    ['approved'],
    [[{ approved: true }]],
  ])('rejects %j', (response) => {
    expect(accepts(relayResponseSchema, response)).toBe(false);
  });
});
