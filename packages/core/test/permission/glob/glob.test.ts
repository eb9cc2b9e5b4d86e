import { describe, expect, it } from 'vitest';
import { checkPattern, compileGlob } from '../../../src/permission/glob/glob.ts';

const matches = (pattern: string, value: string): boolean => compileGlob(pattern).matches(value);
const stops = (pattern: string, value: string): boolean =>
  compileGlob(pattern, 'deny').matches(value);

describe('a glob matches the patterns that 002 documents', () => {
  it.each([
    ['ls*', ['ls', 'ls -la', 'ls /tmp'], ['cat', 'l', 'als']],
    ['*.txt', ['file.txt', 'data.txt', 'dir/data.txt'], ['.txt', 'file.txt.gz', 'txt']],
    ['src/**/*.ts', ['src/a.ts', 'src/a/b.ts', 'src/a/b/c.ts'], ['lib/a.ts', 'src/a.js', 'src.ts']],
    ['{read,write}', ['read', 'write'], ['readwrite', 'rea', 'read,write']],
    [
      'file[0-9].txt',
      ['file0.txt', 'file1.txt', 'file9.txt'],
      ['file.txt', 'file10.txt', 'filea.txt'],
    ],
    ['cat *', ['cat a', 'cat a b', 'cat '], ['cat', 'catx']],
    ['/app/data/**', ['/app/data', '/app/data/x', '/app/data/x/y'], ['/app/database', '/app']],
    ['ls /app/data*', ['ls /app/data', 'ls /app/data/x'], ['ls /app', 'ls  /app/data']],
    [
      '@(ls|cat|grep|find|head|tail) *',
      ['ls x', 'cat x', 'grep -r a .', 'find .', 'head -1 x', 'tail x'],
      ['rm x', 'ls', 'lscat x'],
    ],
    ['rm -rf /tmp/cache', ['rm -rf /tmp/cache'], ['rm -rf /tmp/cache/', 'rm -rf /tmp']],
    ['100', ['100'], ['1000', '10']],
  ])('%s', (pattern, yes, no) => {
    expect(checkPattern(pattern)).toBeUndefined();
    expect(yes.filter((value) => !matches(pattern, value))).toEqual([]);
    expect(no.filter((value) => matches(pattern, value))).toEqual([]);
  });
});

describe('a glob reads the rest of its syntax', () => {
  it.each([
    ['a?c', ['abc', 'a c'], ['ac', 'abbc', 'a/c']],
    ['[a-c]x', ['ax', 'cx'], ['dx', 'x']],
    ['[!a-c]x', ['dx', '-x'], ['ax', '/x']],
    ['[^a-c]x', ['dx', '^x'], ['bx']],
    ['[]a]', [']', 'a'], ['[']],
    ['[!]a]', ['b'], [']', 'a']],
    ['[a-]', ['a', '-'], ['b']],
    ['[a\\-c]', ['a', '-', 'c'], ['b']],
    ['[[:alpha:][:digit:]_]', ['x', 'X', '7', '_'], ['-', ' ']],
    ['[![:space:]]', ['x'], [' ', '\t', '\n']],
    ['{a,b{c,d}}e', ['ae', 'bce', 'bde'], ['be', 'ce']],
    ['{a,}b', ['ab', 'b'], ['aab']],
    ['a{b}c', ['a{b}c'], ['abc']],
    ['echo ${HOME}/{}', ['echo ${HOME}/{}'], ['echo HOME/']],
    ['?(a|b)c', ['c', 'ac', 'bc'], ['abc']],
    ['*(a|b)c', ['c', 'abbac'], ['xc']],
    ['+(a|b)c', ['ac', 'babc'], ['c']],
    ['@(a|+(b|cc))', ['a', 'b', 'bccb'], ['ab', 'bc']],
    ['**/x', ['x', 'a/x', 'a/b/x', '/x'], ['ax', '.a/x']],
    ['a/**/**/b', ['a/b', 'a/x/b', 'a/x/y/b'], ['ab', 'a/xb']],
    ['\\*\\?\\[a\\]', ['*?[a]'], ['xya']],
    ['a|b', ['a|b'], ['a', 'b']],
    ['app/[id]/*', ['app/[id]/page', 'app/i/page'], ['app/id/page']],
  ])('%s', (pattern, yes, no) => {
    expect(checkPattern(pattern)).toBeUndefined();
    expect(yes.filter((value) => !matches(pattern, value))).toEqual([]);
    expect(no.filter((value) => matches(pattern, value))).toEqual([]);
  });

  it('counts an emoji as one character for ?, classes and ranges', () => {
    expect(matches('a?b', 'a😀b')).toBe(true);
    expect(matches('a??b', 'a😀b')).toBe(false);
    expect(matches('[😀-😂]', '😁')).toBe(true);
    expect(matches('[^😀]', '😀')).toBe(false);
    expect(matches('😀*', '😀😀')).toBe(true);
    expect(matches('*?', '\ud83d')).toBe(true);
  });

  it('keeps every wildcard of an allow rule on one line', () => {
    for (const end of ['\n', '\r', '\u2028', '\u2029']) {
      for (const pattern of ['ls*', 'ls**', 'ls?rm x', 'ls[^a]rm x', 'ls[!a]*', 'ls@(*)', '*']) {
        expect(matches(pattern, `ls${end}rm x`)).toBe(false);
      }
    }
    expect(matches('a\nb*', 'a\nbc')).toBe(true);
  });

  it('gives no hidden name to a wildcard of an allow rule', () => {
    expect(matches('*', '.env')).toBe(false);
    expect(matches('src/*', 'src/.env')).toBe(false);
    expect(matches('src/?env', 'src/.env')).toBe(false);
    expect(matches('cat *', 'cat /home/.ssh/id')).toBe(false);
    expect(matches('/app/**', '/app/x/.git/config')).toBe(false);
    expect(matches('**', 'x/.git/config')).toBe(false);
    expect(matches('.*', '.env')).toBe(true);
  });

  it('matches the text of the pattern itself, and never an empty value', () => {
    expect(matches('@(ls|cat) *', '@(ls|cat) *')).toBe(true);
    expect(matches('*', '')).toBe(false);
    expect(matches('{a,}', '')).toBe(false);
  });
});

describe('a deny rule reads its pattern widely', () => {
  it.each([
    ['rm *', 'rm -r /home/me/.ssh'],
    ['rm *', 'rm a\nb'],
    ['rm ?', 'rm /'],
    ['rm [^a]', 'rm /'],
    ['*', ''],
    ['*', '.env'],
    ['**/secret', '.git/secret'],
    ['/**/secret', '/secret'],
    ['a/**/*', 'a/.b/\n'],
  ])('%s stops %j', (pattern, value) => {
    expect(stops(pattern, value)).toBe(true);
  });

  it('still stops at literal text', () => {
    expect(stops('rm *', 'rmdir x')).toBe(false);
    expect(stops('@(rm|curl) *', 'ls rm x')).toBe(false);
  });

  it('stops everything when its pattern cannot be read, where an allow rule matches its text', () => {
    expect(stops('[a', 'x')).toBe(true);
    expect(matches('[a', 'x')).toBe(false);
    expect(matches('[a', '[a')).toBe(true);
  });
});

describe('a pattern is refused with a message', () => {
  it.each([
    ['', /empty/],
    ['!x', /negated/],
    ['!(a|b)', /negated/],
    ['a!(b)', /negated/],
    ['{a,!(b)}', /negated/],
    ['[a', /"\[" at character 1 is never closed/],
    ['ab[]', /"\[" at character 3 is never closed/],
    ['[[:alpha:]', /never closed/],
    ['{a,b', /"\{" at character 1 is never closed/],
    ['{a,{b}', /"\{" at character 1 is never closed/],
    ['x(a', /"\(" at character 2 is never closed/],
    ['@(a|b', /"\(" at character 2 is never closed/],
    ['{1..100000}', /range "\{1\.\.100000\}"/],
    ['{a..z}', /range/],
    ['x{-3..3..2}', /range/],
    ['{a,1..3}', /range/],
    ['[z-a]', /is reversed/],
    ['[[:nope:]]', /unknown/],
    ['a\\', /backslash/],
    ['x'.repeat(1_025), /1 KiB/],
    ['é'.repeat(513), /1 KiB/],
    [`${'@('.repeat(33)}a${')'.repeat(33)}`, /32 groups/],
    ['{a,}'.repeat(240), /too many alternatives/],
  ])('%j', (pattern, sentence) => {
    expect(checkPattern(pattern)).toMatch(sentence);
    expect(checkPattern(pattern)).toMatch(/\.$/);
  });

  it('but not at the limit, and not for a stray closing bracket', () => {
    for (const pattern of [
      'x'.repeat(1_024),
      'é'.repeat(512),
      'a)',
      'a]',
      'a}',
      '\\!x',
      'a!b',
      '{..}',
    ]) {
      expect(checkPattern(pattern)).toBeUndefined();
      expect(matches(pattern, pattern)).toBe(true);
    }
    expect(matches('[)]', ')')).toBe(true);
    expect(matches('a)*', 'a)b')).toBe(true);
  });

  it('also when it is no string at all', () => {
    expect(checkPattern(100 as unknown as string)).toMatch(/must be a string/);
    expect(matches(null as unknown as string, 'null')).toBe(false);
  });
});

describe('compiled globs are cached', () => {
  it('gives the same glob again, and forgets the oldest of too many', () => {
    const first = compileGlob('cached-*');
    expect(compileGlob('cached-*')).toBe(first);
    expect(compileGlob('cached-*', 'deny')).not.toBe(first);
    for (let index = 0; index < 5_000; index += 1) compileGlob(`filler-${index}-*`);
    expect(compileGlob('cached-*')).not.toBe(first);
  });
});
