import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { applyDiff } from '../../src/workspace/edits.ts';
import { unifiedDiff } from '../../src/workspace/unified-diff.ts';

const before = 'one\ntwo\nthree\nfour\n';

describe('a unified diff', () => {
  it('changes, adds and removes lines', () => {
    const diff = '--- a/x\n+++ b/x\n@@ -1,4 +1,4 @@\n one\n-two\n+2\n three\n-four\n+4\n+5\n';
    expect(applyDiff(before, diff)).toBe('one\n2\nthree\n4\n5\n');
  });

  it('applies where its lines are, if there is only one such position', () => {
    expect(applyDiff(before, '@@ -40,1 +40,1 @@\n-three\n+3\n')).toBe('one\ntwo\n3\nfour\n');
    expect(() => applyDiff('a\nb\na\n', '@@ -9 +9 @@\n-a\n+x\n')).toThrow('more than one position');
    expect(applyDiff('a\nb\na\n', '@@ -3 +3 @@\n-a\n+x\n')).toBe('a\nb\nx\n');
  });

  it('does not depend on the line counts in its header', () => {
    expect(applyDiff(before, '@@ -1,99 +1,1 @@\n one\n-two\n')).toBe('one\nthree\nfour\n');
  });

  it('creates a file, and refuses anything else if there is none', () => {
    expect(applyDiff(undefined, '--- /dev/null\n+++ b/x\n@@ -0,0 +1,2 @@\n+a\n+b\n')).toBe(
      'a\nb\n',
    );
    expect(() => applyDiff(undefined, '@@ -1 +1 @@\n-a\n+b\n')).toThrow('no such file');
  });

  it('handles files without a final line break', () => {
    const mark = '\\ No newline at end of file';
    expect(applyDiff('a\nb', `@@ -1,2 +1,2 @@\n a\n-b\n${mark}\n+c\n${mark}\n`)).toBe('a\nc');
    expect(applyDiff('a\nb', `@@ -1,2 +1,2 @@\n a\n-b\n${mark}\n+c\n`)).toBe('a\nc\n');
    expect(applyDiff('a\nb\n', `@@ -1,2 +1,2 @@\n a\n-b\n+c\n${mark}\n`)).toBe('a\nc');
    expect(applyDiff('a\nb', '@@ -1,2 +1,2 @@\n-a\n+c\n b\n')).toBe('c\nb');
  });

  it.each([
    ['no hunk', 'hello'],
    ['does not contain these lines', '@@ -1 +1 @@\n-zero\n+0\n'],
    ['must start with', '@@ -1 +1 @@\none\n'],
    ['cannot delete', '--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-one\n'],
    ['more than one file', '@@ -1 +1 @@\n-one\n+1\ndiff --git a/y b/y\n'],
  ])('is refused: %s', (message, diff) => {
    expect(() => applyDiff(before, diff)).toThrow(message);
  });
});

const line = fc.constantFrom('a', 'b', 'c', '', '-x', '+y', ' z', '@@ -1 +1 @@x', '\\');
const textOf = (maxLength: number) =>
  fc
    .tuple(fc.array(line, { maxLength }), fc.boolean())
    .map(([lines, open]) => (lines.length === 0 ? '' : lines.join('\n') + (open ? '' : '\n')));
const text = textOf(12);

describe('the diff that an approver sees', () => {
  it('leads from the file as it is to the file as it will be', () => {
    const long = textOf(60);
    fc.assert(
      fc.property(long, long, (old, now) => {
        if (old === now) return;
        expect(applyDiff(old, unifiedDiff('x', old, now).text)).toBe(now);
      }),
      { numRuns: 1_000 },
    );
  });
});

describe('what diff -u writes', () => {
  let folder = '';
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'relay-diff-'));
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  it('leads from the one text to the other', { timeout: 60_000 }, () => {
    const [one, two] = [join(folder, 'one'), join(folder, 'two')];
    fc.assert(
      fc.property(text, text, (old, now) => {
        if (old === now) return;
        writeFileSync(one, old);
        writeFileSync(two, now);
        expect(applyDiff(old, diffOf(one, two))).toBe(now);
      }),
      { numRuns: 150 },
    );
  });
});

/** It ends with 1 where there is a difference. */
function diffOf(one: string, two: string): string {
  try {
    return execFileSync('diff', ['-u', one, two], { encoding: 'utf8' });
  } catch (error) {
    return (error as { stdout: string }).stdout;
  }
}
