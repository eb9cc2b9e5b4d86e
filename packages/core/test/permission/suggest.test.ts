import { describe, expect, it } from 'vitest';
import { suggestedRule } from '../../src/permission/suggest.ts';

describe('a suggested rule', () => {
  const tool = {
    derivePermission: (input: Record<string, unknown>) => {
      const { path } = input as { path: string };
      input['path'] = 'changed';
      return { tool: 'read', params: { path: path.toUpperCase() } };
    },
  };

  it('is what the tool proposes, and leaves the call as it was', () => {
    const params = { path: 'a' };
    expect(suggestedRule(tool, params)).toEqual({ tool: 'read', params: { path: 'A' } });
    expect(params).toEqual({ path: 'a' });
  });

  it.each([[{}], [null], ['text'], [undefined]])(
    'is none for %j, if the tool fails at it',
    (params) => {
      expect(suggestedRule(tool, params)).toBeUndefined();
    },
  );

  it('is none where there is no tool, or one without proposals', () => {
    expect(suggestedRule(undefined, { path: 'a' })).toBeUndefined();
    expect(suggestedRule({}, { path: 'a' })).toBeUndefined();
  });
});
