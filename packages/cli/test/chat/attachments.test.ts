import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { quotedReference, withAttachments } from '../../src/chat/attachments.ts';

const cwd = mkdtempSync(join(tmpdir(), 'relay-attachments-'));
afterAll(() => rmSync(cwd, { recursive: true, force: true }));
mkdirSync(join(cwd, 'src'));
writeFileSync(join(cwd, 'src/main.ts'), 'let a = 1;');
writeFileSync(join(cwd, 'two words.txt'), 'both\n');
writeFileSync(join(cwd, 'dot.png'), Buffer.from([0x89, 0x50]));
writeFileSync(join(cwd, 'program'), Buffer.from([0, 1, 2]));
writeFileSync(join(cwd, 'long.log'), 'x'.repeat(300 * 1024));

const sent = (text: string, pasted: readonly string[] = []) =>
  withAttachments(text, { cwd, pasted });

describe('@file in a message', () => {
  test('attaches the file with its path', () => {
    expect(sent('Review @src/main.ts, and @"two words.txt".')).toEqual({
      content: [
        { type: 'text', text: 'Review @src/main.ts, and @"two words.txt".' },
        { type: 'text', text: '\n\n<file path="src/main.ts">\nlet a = 1;\n</file>' },
        { type: 'text', text: '\n\n<file path="two words.txt">\nboth\n</file>' },
      ],
      files: [
        { path: 'src/main.ts', bytes: 10 },
        { path: 'two words.txt', bytes: 5 },
      ],
    });
    expect(sent('What is on @dot.png?').content).toContainEqual({
      type: 'image',
      mediaType: 'image/png',
      data: 'iVA=',
    });
  });

  test.each([
    'Ask @ada, or mail ada@example.com',
    'npm install @types/node @relay/sdk',
    'the folder @src',
    'an @ alone',
  ])('leaves text alone: %s', (text) => {
    expect(sent(text)).toEqual({ content: text, files: [] });
  });

  test('is the whole argument of a command line if that is a file', () => {
    expect(quotedReference('@two words.txt', cwd)).toBe('@"two words.txt"');
    for (const word of ['@src/main.ts', '@ada, two words.txt', 'two words.txt']) {
      expect(quotedReference(word, cwd)).toBe(word);
    }
  });

  test('attaches nothing from pasted text', () => {
    const pasted = 'read @src/main.ts';
    expect(sent(`Look: ${pasted}`, [pasted]).files).toEqual([]);
    expect(sent(`${pasted}, please explain`, [pasted]).files).toEqual([]);
    expect(sent('read @src/main.ts', ['read @src/ma']).files).toEqual([]);
    expect(sent('@"two words.txt"', ['@"two wor']).files).toEqual([]);
    expect(sent(`Look: @src/main.ts`, ['src/main.ts']).files).toHaveLength(1);
    expect(sent('an @ and @src/main.ts', ['an @ and ']).files).toHaveLength(1);
  });

  test('keeps a word as text after a backslash', () => {
    expect(sent('see \\@src/main.ts')).toEqual({ content: 'see @src/main.ts', files: [] });
  });

  test.each([
    ['@src/missing.ts', 'No such file: src/missing.ts'],
    ['@./missing', 'No such file: ./missing'],
    ['@./src', './src is a folder; only files can be attached'],
    ['@program', 'program is not a text, an image or a PDF, and cannot be attached'],
    ['@long.log', 'long.log has 300 KB; a text can have at most 256 KB'],
  ])('rejects %s', (text, error) => {
    expect(() => sent(text)).toThrow(error);
  });
});
