import { describe, expect, it } from 'vitest';
import { effectiveScopes, rolesHeld, scopes, scopesOfRole } from '../../src/schemas/roles.ts';

describe('rolesHeld', () => {
  it.each([
    ['all scopes', [...scopes], ['admin', 'approver', 'operator', 'viewer']],
    ['read', ['read'], ['viewer']],
    ['runs, which includes reading', ['runs'], ['operator', 'viewer']],
    ['approve, which includes reading', ['approve'], ['approver', 'viewer']],
    ['runs and approve', ['runs', 'approve'], ['approver', 'operator', 'viewer']],
    ['admin alone, which is not the whole role', ['admin'], ['viewer']],
    ['worker alone, which does not include reading', ['worker'], []],
    ['no scopes', [], []],
  ])('names the roles of a key with %s', (_name, given, held) => {
    expect(rolesHeld(given)).toEqual(held);
  });

  it.each(Object.entries(scopesOfRole))('holds %s with its own scopes first', (role, given) => {
    expect(rolesHeld(given)[0]).toBe(role);
  });
});

describe('effectiveScopes', () => {
  it('adds reading to runs, approve and admin, and not to worker', () => {
    for (const scope of ['runs', 'approve', 'admin']) {
      expect([...effectiveScopes([scope])]).toEqual([scope, 'read']);
    }
    expect([...effectiveScopes(['worker'])]).toEqual(['worker']);
  });
});
