import { posix } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decideCall, type RuleSet } from '../../src/permission/decide.ts';
import { allowsPath, deniesPath, isReadablePath, pathReadings } from '../../src/permission/path.ts';

const call = (filePath: unknown) => ({
  toolCallId: 'tc-1',
  name: 'read',
  arguments: { filePath },
});
const rules = (allow: string | undefined, deny?: string): RuleSet => ({
  permissions: {
    allowlist: [
      allow === undefined ? { tool: 'read' } : { tool: 'read', params: { filePath: allow } },
    ],
    denylist: deny === undefined ? [] : [{ tool: 'read', params: { filePath: deny } }],
  },
  usedOnce: [],
  grants: [],
  builtinAllow: false,
  kinds: { filePath: 'path' },
});
const on = (pattern: string, filePath: unknown): string =>
  decideCall(call(filePath), rules(pattern)).decision;

// Case 15.
describe('a path under a pattern', () => {
  it.each([
    ['src/**/*.ts', 'src/a.ts'],
    ['src/**/*.ts', 'src//a.ts'],
    ['src/**/*.ts', 'src/x/../a.ts'],
    ['src/**/*.ts', 'src/x/y/a.ts'],
    ['src/*.ts', 'src//a.ts'],
    ['./src/**', './src/a.ts'],
    ['src/**', 'src/x/'],
    ['src/**', 'src/a b/ü.ts'],
    ['/app/data/**', '/app/data/x'],
    ['/app/data/*', '/app/data/y/../x'],
    ['/app/data/**', '/app/data'],
    ['../shared/**', '../shared/a'],
    ['../../x/*', '../../x/a'],
    ['{/app,/srv}/**', '/srv/x'],
    ['@(/app|/srv)/**', '/app/x'],
    ['*', '/etc/passwd'],
    ['**', '/etc/passwd'],
  ])('%s allows %s', (pattern, path) => {
    expect(on(pattern, path)).toBe('allow');
  });

  it.each([
    ['src/**/*.ts', 'src/../../../../etc/passwd.ts'],
    ['src/**/*.ts', 'src/x/../../etc/a.ts'],
    ['src/**/*.ts', 'src/../lib/a.ts'],
    ['src/**', 'src/..'],
    ['src/**', 'src/a/../../x'],
    ['/app/data/**', '/app/data-other/x'],
    ['/app/data/**', '/app/data/../../etc/x'],
    ['/app/data/**', '/app/data/../data-other/x'],
    ['/app/data/**', '/app/data/x\0.ts'],
    ['/app/data/**', '/app/data/x\n'],
    ['/app/data/**', '/app/data/..\\..\\etc\\x'],
    ['src/*', 'src/..\\..\\x'],
    ['*.ts', '/etc/a.ts'],
    ['**/*.ts', '/etc/a.ts'],
    ['*/x', '../x'],
    ['..*', '../x'],
    ['../*', '../../x'],
    ['../*', '../a/../../x'],
    ['../*/x', '../../../x'],
    ['*', '~/x'],
    ['*', '~root'],
    ['*', ''],
    ['src/**', 'src/\ud800'],
  ])('%s does not allow %j', (pattern, path) => {
    expect(on(pattern, path)).toBe('ask');
  });

  it('allows nothing that the text of the rule does not', () => {
    expect(on('src/a.ts', 'src/a.ts')).toBe('allow');
    expect(on('src/a.ts', 'src//a.ts')).toBe('ask');
    expect(on('src/**', 'src/x/../a.ts')).toBe('ask'); // `**` does not run over a `/.`
  });

  it('never matches if it is not a scalar', () => {
    for (const value of [['src/a.ts'], { path: 'src/a.ts' }, null]) {
      expect(on('**', value)).toBe('ask');
    }
  });
});

describe('a path under a deny pattern', () => {
  it.each([
    ['/etc/**', '/etc/passwd'],
    ['/etc/**', '/tmp/../etc/passwd'],
    ['/etc/**', '//etc//./passwd'],
    ['/etc/**', '/etc'],
    ['/etc/**', '/etc/../etc/passwd'],
    ['/etc/*', '/etc\\passwd'],
    ['/etc/passwd', '/etc/passwd/'],
    ['/etc/passwd', '/etc/passwd\0.ts'],
    ['secret/**', './secret/x'],
    ['./secret/**', 'secret/x'],
    ['./secret/**', 'a/../secret/x'],
    ['a/../b', 'a/../b'],
    ['**/.env', 'app/x/../.env'],
  ])('%s denies %j, however it is written', (deny, path) => {
    expect(decideCall(call(path), rules(undefined, deny)).decision).toBe('deny');
    expect(decideCall(call(path), rules('**', deny)).decision).toBe('deny');
  });

  it('is asked under a rule of the whole tool if it cannot be read', () => {
    const look = (path: unknown) => decideCall(call(path), rules(undefined, '/etc/**')).decision;
    expect(look('src/a.ts')).toBe('allow');
    expect(look('~/x')).toBe('ask');
    expect(look('a\\b')).toBe('ask');
    expect(look(['/etc/passwd'])).toBe('ask');
    expect(decideCall(call('~/x'), rules(undefined)).decision).toBe('allow');
  });
});

describe('whatever the path', () => {
  const part = fc.constantFrom(
    '..',
    '.',
    '',
    'src',
    'a.ts',
    'x',
    '.git',
    '...',
    'src..',
    '\0',
    '\\',
  );
  const path = fc.array(part, { maxLength: 12 }).map((parts) => parts.join('/'));

  it('a folder is not left: what is allowed begins with it once it is resolved', () => {
    fc.assert(
      fc.property(path, (text) => {
        if (on('src/**', text) !== 'allow') return;
        const resolved = posix.resolve('/root', text);
        expect(resolved === '/root/src' || resolved.startsWith('/root/src/')).toBe(true);
      }),
      { numRuns: 5_000 },
    );
  });

  it('nothing throws, and nothing unreadable is allowed', () => {
    const text = fc.oneof(path, fc.string({ unit: 'binary' }));
    fc.assert(
      fc.property(text, text, (pattern, value) => {
        deniesPath(pattern, pathReadings(value));
        if (allowsPath(pattern, value)) expect(isReadablePath(value)).toBe(true);
      }),
      { numRuns: 1_000 },
    );
  });
});
