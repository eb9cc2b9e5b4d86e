import { describe, expect, it } from 'vitest';
import { suggestedRule } from '../../src/permission/grants.ts';

describe('a suggested rule', () => {
  const tool = {
    derivePermission: (input: Record<string, unknown>) => {
      const { path } = input as { path: string };
      input['path'] = 'changed';
      return { tool: 'read', params: { path: path.toUpperCase() } };
    },
  };

  it('is what the tool suggests, and the call is not changed', () => {
    const params = { path: 'a' };
    expect(suggestedRule(tool, params)).toEqual({ tool: 'read', params: { path: 'A' } });
    expect(params).toEqual({ path: 'a' });
  });

  it.each([[{}], [null], ['text'], [undefined]])(
    'is undefined for %j, where the tool throws',
    (params) => {
      expect(suggestedRule(tool, params)).toBeUndefined();
    },
  );

  it('is undefined without a tool, or if the tool suggests nothing', () => {
    expect(suggestedRule(undefined, { path: 'a' })).toBeUndefined();
    expect(suggestedRule({}, { path: 'a' })).toBeUndefined();
  });
});
