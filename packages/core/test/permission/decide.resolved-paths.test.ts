import { describe, expect, it } from 'vitest';
import { decideCall, type RuleSet } from '../../src/permission/decide.ts';

const root = '/srv/ws';
const on = (
  path: string,
  leadsTo: string,
  rules: { allow?: object; deny?: object; exact?: object },
): string => {
  const set: RuleSet = {
    permissions: {
      allowlist: rules.allow === undefined ? [] : [{ tool: 'read', ...rules.allow }],
      denylist: rules.deny === undefined ? [] : [{ tool: 'read', ...rules.deny }],
    },
    usedOnce: [],
    grants:
      rules.exact === undefined
        ? []
        : [{ id: 'g', tool: 'read', exact: rules.exact as Record<string, unknown> }],
    builtinAllow: false,
    kinds: { path: 'path' },
    sensitive: ['path'],
    resolvedPaths: { root, paths: { path: leadsTo } },
  };
  return decideCall({ toolCallId: 't', name: 'read', arguments: { path } }, set).decision;
};
const under = (path: string) => ({ params: { path } });

describe('a resolved path', () => {
  it.each([
    ['src/a.ts', '/srv/ws/src/a.ts', 'src/**', 'allow'],
    ['/srv/ws/src/a.ts', '/srv/ws/src/a.ts', '/srv/ws/src/**', 'allow'],
    ['src/link', '/srv/ws/src/deep/a.ts', 'src/**', 'allow'],
    ['src/link', '/srv/ws/secret/key', 'src/**', 'ask'],
    ['/srv/ws/src/link', '/srv/ws/secret/key', '/srv/ws/src/**', 'ask'],
    ['src/link', '/srv/ws/src-other/key', 'src/**', 'ask'],
    ['src/link', '/srv/ws', 'src/**', 'ask'],
    ['src/link', '/etc/passwd', 'src/**', 'ask'],
  ])('%s that leads to %s under an allow of %s: %s', (path, leadsTo, pattern, decision) => {
    expect(on(path, leadsTo, { allow: under(pattern) })).toBe(decision);
  });

  it.each([
    ['src/link', '/srv/ws/secret/key', 'secret/**'],
    ['src/link', '/srv/ws/secret/key', '/srv/ws/secret/**'],
    ['src/link', '/srv/ws/secret', 'secret/**'],
    ['src/link', '/srv/ws/a/.env', '**/.env'],
    ['link', '/srv/ws/a/.env', '**/.env'],
  ])('%s that leads to %s is denied by %s, whatever allows it', (path, leadsTo, pattern) => {
    expect(on(path, leadsTo, { allow: {}, deny: under(pattern) })).toBe('deny');
    expect(on(path, leadsTo, { exact: { path }, deny: under(pattern) })).toBe('deny');
  });

  it('is allowed by a rule of the whole tool, wherever it leads', () => {
    expect(on('src/link', '/srv/ws/secret/key', { allow: {} })).toBe('allow');
  });

  it('is allowed by an exact rule only if no link leads elsewhere', () => {
    const exact = { path: './src//a.ts' };
    expect(on('./src//a.ts', '/srv/ws/src/a.ts', { exact })).toBe('allow');
    expect(on('./src//a.ts', '/srv/ws/secret/key', { exact })).toBe('ask');
    const absolute = { path: '/srv/ws/a' };
    expect(on('/srv/ws/a', '/srv/ws/a', { exact: absolute })).toBe('allow');
    expect(on('/srv/ws/a', '/srv/ws/b', { exact: absolute })).toBe('ask');
  });

  it('must be named by every rule with parameters', () => {
    const { decision } = decideCall(
      { toolCallId: 't', name: 'read', arguments: { path: 'a', limit: 5 } },
      {
        permissions: { allowlist: [{ tool: 'read', params: { limit: '5' } }] },
        usedOnce: [],
        grants: [],
        builtinAllow: false,
        kinds: { path: 'path' },
        sensitive: ['path'],
      },
    );
    expect(decision).toBe('ask');
  });
});
