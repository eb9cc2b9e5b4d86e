import { join } from 'node:path';
import { decideCall, declaredBy } from '@relay/core';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { makeFolder, type TestFolder } from '../support/folder.ts';
import { createToolContext } from '../support/tool-context.ts';
import { createRead } from '../../src/workspace/read.ts';

let folder: TestFolder;
beforeEach(() => {
  folder = makeFolder();
});
afterEach(() => folder.remove());

const read = (input: object, resolvedPaths?: Record<string, string>) =>
  createRead(folder).execute(
    input,
    createToolContext(resolvedPaths === undefined ? {} : { resolvedPaths }),
  );

describe('read', () => {
  it('returns numbered lines as context and the text as result', async () => {
    folder.write('a.txt', 'one\ntwo\r\nthree');
    expect(await read({ filePath: 'a.txt' })).toEqual({
      context: '     1\tone\n     2\ttwo\n     3\tthree',
      result: {
        path: 'a.txt',
        kind: 'text',
        text: 'one\ntwo\nthree',
        firstLine: 1,
        lines: 3,
        more: false,
      },
    });
  });

  it('reads a range of lines, and says where to continue', async () => {
    folder.write('a.txt', 'one\ntwo\nthree\nfour\n');
    const { context, result } = await read({ filePath: 'a.txt', offset: 2, limit: 2 });
    expect(context).toBe('     2\ttwo\n     3\tthree\n(more lines follow; continue with offset 4)');
    expect(result).toMatchObject({ firstLine: 2, lines: 2, more: true });
    expect((await read({ filePath: 'a.txt', offset: 4 })).result).toMatchObject({
      text: 'four',
      more: false,
    });
    expect((await read({ filePath: 'a.txt', offset: 9 })).context).toBe(
      '(the file has fewer than 9 lines)',
    );
  });

  it('says that a file is empty', async () => {
    folder.write('a.txt', '');
    expect((await read({ filePath: 'a.txt' })).context).toBe('(an empty file)');
  });

  it('cuts long lines and long files, and notes it', async () => {
    folder.write('long', `${'x'.repeat(100_000)}\nshort\n`);
    expect((await read({ filePath: 'long' })).context).toMatch(
      /x … \(cut\)\n {5}2\tshort\n\(1 long lines are cut\)$/,
    );
    folder.write('many', 'y\n'.repeat(300_000));
    const { result } = await read({ filePath: 'many' });
    expect(result).toMatchObject({ lines: 2_000, more: true });
    folder.write('wide', `${'z'.repeat(1_999)}\n`.repeat(2_000));
    const wide = (await read({ filePath: 'wide' })).result as { lines: number; more: boolean };
    expect(wide.more).toBe(true);
    expect(wide.lines).toBeLessThan(200);
  });

  it('decodes characters that are split between two chunks', async () => {
    folder.write('a.txt', `${'x'.repeat(64 * 1024 - 1)}\n`.slice(1) + 'ü世\n');
    expect((await read({ filePath: 'a.txt', offset: 2 })).result).toMatchObject({ text: 'ü世' });
  });

  it.each([
    ['NUL', Buffer.from('abc\0def')],
    ['bytes that are no text', Buffer.from([0xff, 0xfe, 0x41, 0x42])],
    ['half a character at its end', Buffer.from([0x41, 0xe4, 0xb8])],
  ])('shows nothing of a file with %s', async (_what, bytes) => {
    folder.write('x.bin', bytes);
    const { context, result } = await read({ filePath: 'x.bin' });
    expect(context).toBe(`x.bin is not text: ${bytes.length} bytes, which are not shown.`);
    expect(result).toEqual({ path: 'x.bin', kind: 'binary', size: bytes.length });
  });

  it('lists a folder', async () => {
    folder.write('b/x', '');
    folder.write('a', '');
    folder.link('c', 'a');
    expect(await read({ filePath: '.' })).toEqual({
      context: 'a\nb/\nc@',
      result: { path: '.', kind: 'folder', entries: ['a', 'b/', 'c@'] },
    });
  });

  it('refuses paths that do not exist, lie outside, or lead elsewhere than when they were allowed', async () => {
    await expect(read({ filePath: 'none' })).rejects.toThrow('There is no file none');
    await expect(read({ filePath: '../outside/secret.txt' })).rejects.toThrow('outside');
    await expect(read({ filePath: '/dev/zero' })).rejects.toThrow('outside');
    folder.write('a', 'a');
    folder.write('b', 'b');
    folder.link('link', 'b');
    await expect(read({ filePath: 'link' }, { filePath: join(folder.root, 'a') })).rejects.toThrow(
      'now resolves to a different path',
    );
  });

  it.each([
    ['src/x/a.ts', { filePath: 'src/x/*' }],
    ['README.md', { filePath: 'README.md' }],
  ])('suggests for %s: %j', (filePath, params) => {
    expect(createRead(folder).derivePermission?.({ filePath })).toEqual({ tool: 'read', params });
  });

  it.each(['../x', '/etc/passwd', 'a*b', '.env', 'src/../x', 'src/.git/config'])(
    'suggests nothing for %s',
    (filePath) => {
      expect(createRead(folder).derivePermission?.({ filePath })).toBeUndefined();
    },
  );

  it.each([
    [{ filePath: 'src/x/a.ts', limit: 100 }, 'allow'],
    [{ filePath: 'src/x/a.ts', limit: 99 }, 'ask'],
    [{ filePath: 'src/x/a.ts' }, 'ask'],
    [{ filePath: 'src/../a.ts', limit: 100 }, 'ask'],
    [{ filePath: 'lib/a.ts', limit: 100 }, 'ask'],
  ])('is allowed by a rule about filePath and limit: %j → %s', (input, decision) => {
    const rule = { tool: 'read', params: { filePath: 'src/**/*.ts', limit: '100' } };
    const call = { toolCallId: 'c', name: 'read', arguments: input };
    const rules = { permissions: { allowlist: [rule] }, usedOnce: [], grants: [] };
    const declared = declaredBy(createRead(folder));
    expect(decideCall(call, { ...rules, builtinAllow: false, ...declared }).decision).toBe(
      decision,
    );
  });

  it('is idempotent, and not allowed by default', () => {
    expect(createRead(folder)).toMatchObject({
      idempotent: true,
      allowedByDefault: false,
      kinds: { filePath: 'path' },
      sensitive: ['filePath'],
    });
  });
});
