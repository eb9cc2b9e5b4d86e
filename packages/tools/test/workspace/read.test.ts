import { join } from 'node:path';
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
  it('gives lines with their numbers to the model and their text to programs', async () => {
    folder.write('a.txt', 'one\ntwo\r\nthree');
    expect(await read({ path: 'a.txt' })).toEqual({
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

  it('reads a part, and says where to go on', async () => {
    folder.write('a.txt', 'one\ntwo\nthree\nfour\n');
    const { context, result } = await read({ path: 'a.txt', offset: 2, limit: 2 });
    expect(context).toBe('     2\ttwo\n     3\tthree\n(it goes on; read on with offset 4)');
    expect(result).toMatchObject({ firstLine: 2, lines: 2, more: true });
    expect((await read({ path: 'a.txt', offset: 4 })).result).toMatchObject({
      text: 'four',
      more: false,
    });
    expect((await read({ path: 'a.txt', offset: 9 })).context).toBe('(it has fewer than 9 lines)');
  });

  it('says that a file is empty', async () => {
    folder.write('a.txt', '');
    expect((await read({ path: 'a.txt' })).context).toBe('(an empty file)');
  });

  it('cuts long lines and long files, and says so', async () => {
    folder.write('long', `${'x'.repeat(100_000)}\nshort\n`);
    expect((await read({ path: 'long' })).context).toMatch(
      /x … \(cut\)\n {5}2\tshort\n\(1 long lines are cut\)$/,
    );
    folder.write('many', 'y\n'.repeat(300_000));
    const { result } = await read({ path: 'many' });
    expect(result).toMatchObject({ lines: 2_000, more: true });
    folder.write('wide', `${'z'.repeat(1_999)}\n`.repeat(2_000));
    const wide = (await read({ path: 'wide' })).result as { lines: number; more: boolean };
    expect(wide.more).toBe(true);
    expect(wide.lines).toBeLessThan(200);
  });

  it('keeps characters whole that lie across two pieces', async () => {
    folder.write('a.txt', `${'x'.repeat(64 * 1024 - 1)}\n`.slice(1) + 'ü世\n');
    expect((await read({ path: 'a.txt', offset: 2 })).result).toMatchObject({ text: 'ü世' });
  });

  it.each([
    ['NUL', Buffer.from('abc\0def')],
    ['bytes that are no text', Buffer.from([0xff, 0xfe, 0x41, 0x42])],
    ['half a character at its end', Buffer.from([0x41, 0xe4, 0xb8])],
  ])('shows nothing of a file with %s', async (_what, bytes) => {
    folder.write('x.bin', bytes);
    const { context, result } = await read({ path: 'x.bin' });
    expect(context).toBe(`x.bin is not text: ${bytes.length} bytes, which are not shown.`);
    expect(result).toEqual({ path: 'x.bin', kind: 'binary', size: bytes.length });
  });

  it('lists a folder', async () => {
    folder.write('b/x', '');
    folder.write('a', '');
    folder.link('c', 'a');
    expect(await read({ path: '.' })).toEqual({
      context: 'a\nb/\nc@',
      result: { path: '.', kind: 'folder', entries: ['a', 'b/', 'c@'] },
    });
  });

  it('refuses what is not there, lies outside or is changed since it was allowed', async () => {
    await expect(read({ path: 'none' })).rejects.toThrow('There is no file none');
    await expect(read({ path: '../outside/secret.txt' })).rejects.toThrow('outside');
    await expect(read({ path: '/dev/zero' })).rejects.toThrow('outside');
    folder.write('a', 'a');
    folder.write('b', 'b');
    folder.link('link', 'b');
    await expect(read({ path: 'link' }, { path: join(folder.root, 'a') })).rejects.toThrow(
      'leads elsewhere than when it was allowed',
    );
  });

  it.each([
    ['src/x/a.ts', { path: 'src/x/*' }],
    ['README.md', { path: 'README.md' }],
  ])('proposes for %s: %j', (path, params) => {
    expect(createRead(folder).derivePermission?.({ path })).toEqual({ tool: 'read', params });
  });

  it.each(['../x', '/etc/passwd', 'a*b', '.env', 'src/../x', 'src/.git/config'])(
    'proposes nothing for %s',
    (path) => {
      expect(createRead(folder).derivePermission?.({ path })).toBeUndefined();
    },
  );

  it('can be run again, and is asked about', () => {
    expect(createRead(folder)).toMatchObject({
      idempotent: true,
      allowedByDefault: false,
      kinds: { path: 'path' },
      sensitive: ['path'],
    });
  });
});
