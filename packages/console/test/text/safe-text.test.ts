import fc from 'fast-check';
import { createElement } from 'react';
import { renderToStaticMarkup } from 'react-dom/server';
import { describe, expect, it } from 'vitest';
import { cutAt, piecesOf } from '../../src/text/marks.ts';
import { SafeText } from '../../src/text/safe-text.tsx';

const render = (text: string, maxLength?: number) =>
  renderToStaticMarkup(
    createElement(SafeText, { text, ...(maxLength === undefined ? {} : { maxLength }) }),
  );

describe('Marks', () => {
  it('show characters that change the direction, are invisible or control something', () => {
    expect(piecesOf('a\u202eb\u200bc\x1b[0m\u00a0')).toEqual([
      'a',
      {
        label: 'U+202E RLO',
        about: 'Changes the direction of the text after it',
        count: 1,
      },
      'b',
      { label: 'U+200B ZWSP', about: 'Invisible character', count: 1 },
      'c',
      { label: 'U+001B ESC', about: 'Control character', count: 1 },
      '[0m',
      { label: 'U+00A0 NBSP', about: 'Looks like a space, but is not one', count: 1 },
    ]);
  });

  it('leave ordinary writing alone', () => {
    for (const text of ['plain\n\ttext', 'café', '👩‍👩‍👧 ok', 'שלום עולם', 'می‌خواهم']) {
      expect(piecesOf(text)).toEqual([text]);
    }
  });

  it('stand for white space that would push the rest out of sight', () => {
    const about = 'White space that would push the rest out of sight';
    expect(piecesOf(`ls${'\n'.repeat(3_000)}rm -rf /`)).toEqual([
      'ls',
      { label: 'line break', about, count: 3_000 },
      '\nrm -rf /',
    ]);
    expect(piecesOf(`ls${' \t\n'.repeat(50)}x`)).toEqual([
      'ls \t',
      { label: 'line break', about, count: 50 },
      '\nx',
    ]);
    expect(piecesOf(`ls${' '.repeat(500)}; rm -rf /`)).toEqual([
      'ls',
      { label: 'space', about, count: 500 },
      '; rm -rf /',
    ]);
    for (const text of [`a${'\n'.repeat(9)}b`, `a\n${' '.repeat(99)}b`]) {
      expect(piecesOf(text)).toEqual([text]);
    }
    const many = piecesOf(`${'\n'.repeat(10)}x`.repeat(2_000));
    expect(many.filter((piece) => typeof piece === 'object').length).toBeLessThanOrEqual(500);
  });

  it('count the same character that follows itself', () => {
    const pieces = piecesOf(`a${'\u200b'.repeat(100_000)}b`);
    expect(pieces).toHaveLength(3);
    expect(pieces[1]).toMatchObject({ label: 'U+200B ZWSP', count: 100_000 });
  });

  it('are bounded in number, and what has none is escaped', () => {
    const pieces = piecesOf('\u200b\u202e'.repeat(50_000));
    expect(pieces.filter((piece) => typeof piece === 'object').length).toBeLessThanOrEqual(500);
    expect(pieces.at(-1)).toMatch(/^(?:\\u\{20(?:0b|2e)\}){99500}$/);
  });
});

describe('SafeText', () => {
  it('never writes a character that misleads into the page', () => {
    const misleading = fc.constantFrom('\u202e', '\u2066', '\u200b', '\u0000', '\x1b', '\ufeff');
    const text = fc.array(fc.oneof(misleading, fc.string()), { maxLength: 50 });
    fc.assert(
      fc.property(text, (parts) => {
        expect(render(parts.join(''))).not.toMatch(/[\p{Cf}[\p{Cc}--[\n\t]]]/v);
      }),
    );
  });

  it('folds long text, and says how long it is', () => {
    const html = render('x'.repeat(1_000_000), 300);
    expect(html.length).toBeLessThan(2_000);
    expect(html).toContain('999,700 of 1,000,000 characters are not shown');
    expect(html).toContain('Show the next 100,000');
  });

  it('cuts between characters, not within one', () => {
    expect(cutAt('ab'.repeat(100), 50)).toBe(50);
    expect(cutAt('👍'.repeat(100), 51)).toBe(50);
    expect(cutAt(`${'a'.repeat(40)}e\u0301 more`, 41)).toBe(40);
    expect(cutAt('abc', 10)).toBe(3);
  });
});
