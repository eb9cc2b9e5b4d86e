import { describe, expect, it } from 'vitest';
import { scanIgnoringQuotes, scanShell } from '../../../src/permission/shell/scan.ts';
import { EXPANSION, type SimpleCommand } from '../../../src/permission/shell/words.ts';

const texts = (commands: readonly SimpleCommand[]): string[][] =>
  commands.map(({ words }) => words.map((word) => word.text.replaceAll(EXPANSION, '¤')));
const read = (source: string): string[][] => texts(scanShell(source).commands);
const blind = (source: string): string[][] => texts(scanIgnoringQuotes(source).commands);

describe('the scanner', () => {
  it.each([
    ['ls -la', [['ls', '-la']]],
    ['a;b&c|d&&e||f\ng', [['a'], ['b'], ['c'], ['d'], ['e'], ['f'], ['g']]],
    ['{ a; } ; ( b )', [['a'], ['b']]],
    ['! a ! b', [['a', '!', 'b']]],
    ['"a b"\'c d\'e\\ f', [['a bc de f']]],
    ['"\\a\\"\\$\\\\"', [['\\a"$\\']]],
    ["$'\\x61\\142\\u0063\\n'", [['abc\n']]],
    ['$"a"', [['a']]],
    ['a $x ${y} $1 $@ $? $', [['a', '¤', '¤', '¤', '¤', '$?', '$']]],
    ['a$(b c)d', [['b', 'c'], ['a¤d']]],
    ['"a $(b "c d") e"', [['b', 'c d'], ['a ¤ e']]],
    [
      'a `b c` d',
      [
        ['b', 'c'],
        ['a', '¤', 'd'],
      ],
    ],
    ['a <(b) >(c)', [['b'], ['c'], ['a', '¤', '¤']]],
    ['a >b 2>&1 <c c >>d e', [['a', 'c', 'e']]],
    ['>b a 3', [['a', '3']]],
    ['a 3>b', [['a']]],
    ['a {x}>b', [['a']]],
    ['a <<<b c', [['a', 'c']]],
    ['f() a', [['f¤'], ['a']]],
    ['f ( ) { a; }', [['f'], ['a']]],
    [
      'a=(b c) d',
      [
        ['b', 'c'],
        ['a=¤', 'd'],
      ],
    ],
    ['a #b\nc d#e', [['a'], ['c', 'd#e']]],
    ['a \\\n b', [['a', 'b']]],
    ['a\\\nb', [['ab']]],
    ['a "b\\\nc"', [['a', 'bc']]],
    ['a\u00a0#b', [['a\u00a0#b']]],
    ['a\0b', [['ab']]],
    ['', []],
    [' \t\n;', []],
  ])('reads %j', (source, expected) => {
    expect(read(source)).toEqual(expected);
  });

  it('reports the positions of words and commands', () => {
    const source = 'ls  "a b" >f; cat $x';
    const { commands } = scanShell(source);
    const words = commands.flatMap((command) => command.words);
    expect(words.map(({ start, end }) => source.slice(start, end))).toEqual([
      'ls',
      '"a b"',
      'cat',
      '$x',
    ]);
    expect(commands.map(({ end }) => end)).toEqual([12, 20]);
    expect(scanShell('ls $(a)').commands.map(({ end }) => end)).toEqual([6, undefined]);
  });

  it('marks words that change at run time', () => {
    const marks = (source: string) => {
      const { expands, globs, hasBraceOrTilde, quoted } = scanShell(source).commands[0]!.words[0]!;
      return { expands, globs, hasBraceOrTilde, quoted };
    };
    const none = { expands: false, globs: false, hasBraceOrTilde: false, quoted: false };
    expect(marks('a')).toEqual(none);
    expect(marks('$a')).toEqual({ ...none, expands: true });
    expect(marks('"$a"')).toEqual({ ...none, expands: true, quoted: true });
    expect(marks('a*')).toEqual({ ...none, globs: true });
    expect(marks('"a*"')).toEqual({ ...none, quoted: true });
    expect(marks('{a,b}')).toEqual({ ...none, hasBraceOrTilde: true });
    expect(marks('{}')).toEqual(none);
    expect(marks('~')).toEqual({ ...none, hasBraceOrTilde: true });
    expect(marks('a:~b')).toEqual({ ...none, hasBraceOrTilde: true });
    expect(marks('a~')).toEqual(none);
    expect(marks('\\~')).toEqual({ ...none, quoted: true });
  });

  it.each([
    'ls -la | cat "a b" \'c\' > f; echo $x ${y} $(a "b") `c` # it\'s',
    'for i in a; do b; done',
    'a \\\n  b',
    "echo 'a{b}' \"it's\"",
  ])('is sure of %j', (source) => {
    expect(scanShell(source).ambiguous).toBe(false);
  });

  it.each([
    'a <<E',
    'a <<-E',
    'a "b',
    "a 'b",
    'a $(b',
    'a `b',
    'a ${b',
    'a )',
    'a >',
    "$'a",
    "$'a\\'b'",
    '$((1))',
    '$[1]',
    '((1))',
    '[[ a ]]',
    'case a in b) c;; esac',
    '${a:-"b"}',
    '${ a; }',
    '`a "b"`',
    '`a \\` b`',
    "test -v 'a[$(b)]'",
    'test -v "a[\\$(b)]"',
    "a '`b`'",
    'a[1 + 2]=3',
    'a\rb',
    'a\u2003b',
    'a $\\\n(b)',
    'a <\\\n<E',
    '('.repeat(300),
  ])('doubts its reading of %j', (source) => {
    expect(scanShell(source).ambiguous).toBe(true);
  });

  it('stops at a maximum depth', () => {
    expect(scanShell('$('.repeat(200)).tooDeep).toBe(false);
    expect(scanShell('$('.repeat(300)).tooDeep).toBe(true);
  });
});

describe('the scan that ignores quotes', () => {
  it.each([
    [
      'a "b; c" d',
      [
        ['a', 'b'],
        ['c', 'd'],
      ],
    ],
    ["a 'b\nc'", [['a', 'b'], ['c']]],
    ['\'a\' "b"c \\d', [['a', 'bc', 'd']]],
    ['a # b; c', [['a', 'b'], ['c']]],
    ['a <<E\nb\nE', [['a'], ['b'], ['E']]],
    ['a ${b} $c d$@e', [['a', '¤'], ['b'], ['¤', 'd¤e']]],
    ["$'a' $b", [['a', '¤']]],
    ['a <(b) 2>&1 c', [['a'], ['b'], ['c']]],
    ['a\u00a0b\rc', [['a', 'b', 'c']]],
    ['a \\\nb', [['a'], ['b'], ['a', 'b']]],
    ['a\0b', [['ab']]],
  ])('finds in %j', (source, expected) => {
    expect(blind(source)).toEqual(expected);
  });
});
