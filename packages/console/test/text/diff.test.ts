import { diffLines, diffWordsWithSpace } from 'diff';
import fc from 'fast-check';
import { createElement } from 'react';
import { renderToStaticMarkup } from 'react-dom/server';
import { describe, expect, it } from 'vitest';
import { Diff } from '../../src/text/diff.tsx';
import { foldUnchanged, linesOfChanges, parseDiff, wordsOf } from '../../src/text/diff-lines.ts';

const unified = `--- a/x.ts
+++ b/x.ts
@@ -10,4 +10,4 @@ function f() {
 same
-const a = 1;
+const a = 2;
 other
--- a list item
+-- a list item
@@ -50 +50,2 @@
 end
+last
\\ No newline at end of file`;

describe('A unified diff', () => {
  it('has the numbers of its lines', () => {
    expect(parseDiff(unified)).toEqual([
      { kind: 'file', text: '--- a/x.ts' },
      { kind: 'file', text: '+++ b/x.ts' },
      { kind: 'part', text: '@@ -10,4 +10,4 @@ function f() {' },
      { kind: 'same', text: 'same', before: 10, after: 10 },
      { kind: 'removed', text: 'const a = 1;', before: 11, counterpart: 'const a = 2;' },
      { kind: 'added', text: 'const a = 2;', after: 11, counterpart: 'const a = 1;' },
      { kind: 'same', text: 'other', before: 12, after: 12 },
      { kind: 'removed', text: '-- a list item', before: 13, counterpart: '-- a list item' },
      { kind: 'added', text: '-- a list item', after: 13, counterpart: '-- a list item' },
      { kind: 'part', text: '@@ -50 +50,2 @@' },
      { kind: 'same', text: 'end', before: 50, after: 50 },
      { kind: 'added', text: 'last', after: 51 },
      { kind: 'note', text: '\\ No newline at end of file' },
    ]);
  });

  it('shows every line of any text', () => {
    const line = fc.oneof(
      fc.constantFrom(
        '@@ -1,2 +1,3 @@',
        '--- a',
        '+++ b',
        '+x',
        '-y',
        ' z',
        '',
        '\\ note',
        'diff x',
      ),
      fc.string(),
    );
    fc.assert(
      fc.property(
        fc.array(
          line.filter((each) => !each.includes('\n')),
          { minLength: 1 },
        ),
        (lines) => {
          const text = lines.join('\n');
          const expected = text.endsWith('\n') ? lines.slice(0, -1) : lines;
          const signs = { added: '+', removed: '-', same: ' ' };
          const shown = parseDiff(text).map((each) =>
            each.kind in signs ? `${signs[each.kind as 'same']}${each.text}` : each.text,
          );
          // A line of a part without its space is an empty one.
          expect(shown.map((each) => (each === ' ' ? '' : each))).toEqual(
            expected.map((each) => (each === ' ' ? '' : each)),
          );
        },
      ),
    );
  });

  it('marks added and removed lines by a sign, and hidden characters', () => {
    const html = renderToStaticMarkup(createElement(Diff, { text: '@@ -1 +1 @@\n-a\n+a\u202eb' }));
    expect(html).toContain('Lines added: 1, removed: 1');
    expect(html).toMatch(/−<\/td>.*\+<\/td>/);
    expect(html).toContain('U+202E RLO');
  });

  it('shows the first lines of a very long one', () => {
    const html = renderToStaticMarkup(
      createElement(Diff, { text: `@@ -0,0 +1,50000 @@\n${'+line\n'.repeat(50_000)}` }),
    );
    expect(html.match(/<tr/g)).toHaveLength(300);
    expect(html).toContain('more lines are not shown');
  });
});

describe('A comparison', () => {
  it('gives back both texts', () => {
    const text = fc
      .array(fc.constantFrom('a', 'b', 'c', ''), { minLength: 1 })
      .map((each) => each.join('\n'));
    fc.assert(
      fc.property(text, text, (before, after) => {
        const lines = linesOfChanges(diffLines(before, after));
        const side = (kind: 'added' | 'removed') =>
          lines.flatMap((line) => (line.kind === 'same' || line.kind === kind ? [line.text] : []));
        expect(side('removed')).toEqual(withoutLast(before));
        expect(side('added')).toEqual(withoutLast(after));
      }),
    );
  });

  it('folds long unchanged regions, and loses no line', () => {
    const before = Array.from({ length: 100 }, (_, at) => `line ${at}\n`).join('');
    const lines = linesOfChanges(diffLines(before, before.replace('line 50', 'line fifty')));
    const rows = foldUnchanged(lines);
    expect(rows.filter(({ kind }) => kind === 'fold')).toHaveLength(2);
    expect(rows.length).toBeLessThan(15);
    expect(rows.flatMap((row) => (row.kind === 'fold' ? row.lines : [row]))).toEqual(lines);
  });

  it('says so if only one of the texts ends with a line break', () => {
    const kinds = (before: string, after: string) =>
      linesOfChanges(diffLines(before, after)).map(({ kind }) => kind);
    expect(kinds('a\n', 'a')).toContain('note');
    expect(kinds('a', 'b')).not.toContain('note');
  });

  it('marks the words of a line that differ, unless most of it does', () => {
    const words = (before: string, after: string) =>
      wordsOf(diffWordsWithSpace(before, after), 'added').filter(({ isChanged }) => isChanged);
    expect(words('const a = 1;', 'const a = 2;')).toEqual([{ text: '2', isChanged: true }]);
    expect(words('completely different', 'nothing alike')).toEqual([]);
  });
});

function withoutLast(text: string): string[] {
  if (text === '') return [];
  return (text.endsWith('\n') ? text.slice(0, -1) : text).split('\n');
}
