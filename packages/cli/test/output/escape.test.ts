import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { cutTo, escapeUnsafe, escapeLine, widthOf, wrapTo } from '../../src/output/escape.ts';

describe('untrusted text', () => {
  test('cannot clear the screen, move the cursor, ring or retitle the window', () => {
    const hostile = '\u001B[2J\u001B[1;1Happroved\u0007\u001B]0;title\u0007\r\b\u009B31m';
    const shown = escapeUnsafe(hostile);
    expect(shown).toBe(
      '\\u{1b}[2J\\u{1b}[1;1Happroved\\u{7}\\u{1b}]0;title\\u{7}\\u{d}\\u{8}\\u{9b}31m',
    );
  });

  test('cannot hide text or reverse its direction', () => {
    expect(escapeUnsafe('a\u202Eb\u200Bc\u2066d\uFEFF\u{E0041}\uD800')).toBe(
      'a\\u{202e}b\\u{200b}c\\u{2066}d\\u{feff}\\u{e0041}\\u{d800}',
    );
  });

  test('is unchanged if it is harmless', () => {
    const text = 'Zeilen\n\tmit Tabs, Übung, 日本語, 👩 und ½';
    expect(escapeUnsafe(text)).toBe(text);
  });

  test('never contains a control character afterwards', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        const codes = Array.from(escapeUnsafe(text), (char) => char.codePointAt(0) ?? 0);
        const bad = codes.filter(
          (code) => code !== 9 && code !== 10 && (code < 32 || (code > 126 && code < 160)),
        );
        expect(bad).toEqual([]);
      }),
    );
  });

  test('is one line in a table cell', () => {
    expect(escapeLine('{\n  "a": 1\n}\tend')).toBe('{ "a": 1 } end');
  });
});

describe('the width of text', () => {
  test.each([
    ['abc', 3],
    ['日本', 4],
    ['e\u0301', 1],
    ['👍', 2],
    ['', 0],
  ])('%j takes %i columns', (text, width) => {
    expect(widthOf(text)).toBe(width);
  });

  test('is never exceeded by a cut', () => {
    fc.assert(
      fc.property(
        fc.string({ unit: 'grapheme' }),
        fc.integer({ min: 1, max: 40 }),
        (text, width) => {
          expect(widthOf(cutTo(text, width))).toBeLessThanOrEqual(width);
        },
      ),
    );
    expect(cutTo('abcdef', 4)).toBe('abc…');
    expect(cutTo('abcd', 4)).toBe('abcd');
  });

  test('is that of lines which are broken between words, unless a word is longer', () => {
    expect(wrapTo('one two three\nhttps://relay.example.com yes', 8)).toEqual([
      'one two',
      'three',
      'https://relay.example.com',
      'yes',
    ]);
    expect(wrapTo('  kept  as is', 40)).toEqual(['  kept  as is']);
  });
});
