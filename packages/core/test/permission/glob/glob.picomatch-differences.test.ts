import picomatch from 'picomatch';
import { describe, expect, it } from 'vitest';
import { checkPattern, compileGlob } from '../../../src/permission/glob/glob.ts';

const theirs = (pattern: string, value: string): boolean =>
  picomatch.isMatch(value, pattern, { bash: true });

interface Oddity {
  readonly pattern: string;
  readonly value: string;
  readonly ours: boolean;
}

const differ: readonly Oddity[] = [
  { pattern: './run *', value: './run x', ours: true },
  { pattern: './run *', value: 'run x', ours: false },
  { pattern: '*|wc', value: 'rm', ours: false },
  { pattern: 'ls|cat /x', value: 'ls', ours: false },
  { pattern: 'a || b*', value: ' b; rm', ours: false },
  { pattern: '{a|b,c}', value: 'a', ours: false },
  { pattern: '[0-9]+', value: '42', ours: false },
  { pattern: '[0-9]+', value: '4+', ours: true },
  { pattern: '@(a|b)?', value: 'a', ours: false },
  { pattern: '@(a|b)?', value: 'ax', ours: true },
  { pattern: 'c++', value: 'c+++', ours: false },
  { pattern: 'print(1)', value: 'print1', ours: false },
  { pattern: 'print(1)*', value: 'print(1);', ours: true },
  { pattern: 'a\\d', value: 'a7', ours: false },
  { pattern: 'a\\d', value: 'ad', ours: true },
  { pattern: 'rm\\s*', value: 'rm x', ours: false },
  { pattern: '[\\w]', value: 'x', ours: false },
  { pattern: '"a"*', value: '"a"b', ours: true },
  { pattern: '"a"*', value: 'ab', ours: false },
  { pattern: '[!a]', value: 'b', ours: true },
  { pattern: '[!a]', value: 'a', ours: false },
  { pattern: 'a?b', value: 'a\nb', ours: false },
  { pattern: 'a[^x]b', value: 'a\nb', ours: false },
  { pattern: 'x[^[:digit:]]y', value: 'x/y', ours: false },
  { pattern: 'x?', value: 'x😀', ours: true },
  { pattern: 'x??', value: 'x😀', ours: false },
  { pattern: '@(?at|dog)', value: 'cat', ours: true },
  { pattern: '(?=rm)*', value: 'rm x', ours: false },
  { pattern: '+(a|aa)', value: 'aaa', ours: true },
  { pattern: '*(a|?)', value: 'ab', ours: true },
  { pattern: '{../a,b}', value: '../a', ours: true },
  { pattern: '{x**}', value: '{xy}', ours: true },
  { pattern: '^^*', value: '^^a', ours: true },
  { pattern: '$$*', value: '$$a', ours: true },
  { pattern: 'a.b[[:digit:]]', value: 'axb1', ours: false },
  { pattern: 'x[[:punct:]]', value: 'x\\', ours: true },
  { pattern: 'a/\0b', value: 'a/b', ours: false },
];

// Strange, but what 002 promises, and on the safe side for an allow rule.
const agree: readonly Oddity[] = [
  { pattern: 'ls*', value: 'ls ../..', ours: false },
  { pattern: '/app/**', value: '/app/.git/x', ours: true },
  { pattern: '/app/**', value: '/app/x/.git', ours: false },
  { pattern: 'ls /*', value: 'ls /a/.b', ours: true },
  { pattern: '*.txt', value: 'a.txt/', ours: true },
  { pattern: 'a/*.txt', value: 'a/b.txt/', ours: false },
  { pattern: 'file[0-9]', value: 'file1/', ours: true },
  { pattern: '[id]', value: '[id]', ours: true },
  { pattern: '[id]x', value: '[id]x', ours: true },
  { pattern: 'a/**/*', value: 'a', ours: true },
  { pattern: '/**/x', value: '/x', ours: false },
  { pattern: '*/**', value: 'a', ours: false },
  { pattern: '*.*', value: 'a.', ours: false },
  { pattern: '{*,x}', value: '.env', ours: true },
  { pattern: '{**/x,b}', value: 'x', ours: false },
  { pattern: '*', value: '', ours: false },
  { pattern: 'a*b[c]', value: 'a*b[c]', ours: true },
];

describe('where picomatch surprises', () => {
  it.each(differ)('$pattern against $value is $ours here and the opposite there', (oddity) => {
    expect(checkPattern(oddity.pattern)).toBeUndefined();
    expect(compileGlob(oddity.pattern).matches(oddity.value)).toBe(oddity.ours);
    expect(theirs(oddity.pattern, oddity.value)).toBe(!oddity.ours);
  });

  it.each(agree)('$pattern against $value is $ours, here as there', (oddity) => {
    expect(compileGlob(oddity.pattern).matches(oddity.value)).toBe(oddity.ours);
    expect(theirs(oddity.pattern, oddity.value)).toBe(oddity.ours);
  });

  it.each(['!x', '!(x)', '{1..3}', '[z-a]', '[[:x:]]', '(a', '[a', '{a', 'a\\'])(
    'refuses %s, which picomatch takes',
    (pattern) => {
      expect(checkPattern(pattern)).toBeDefined();
      expect(() => picomatch(pattern, { bash: true })).not.toThrow();
    },
  );
});
