import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, renameSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { isWithin } from '@relay/processes';
import { makeFolder, type TestFolder } from '../support/folder.ts';
import {
  openFolder,
  openResolved,
  PathRefused,
  resolveInWorkspace,
  resolvePaths,
} from '../../src/workspace/paths.ts';

let folder: TestFolder;
beforeEach(() => {
  folder = makeFolder();
  folder.write('src/a.ts', 'a\n');
  folder.write('src/deep/b.ts', 'b\n');
});
afterEach(() => folder.remove());

describe('a path in a workspace', () => {
  it.each([
    ['src/a.ts', 'src/a.ts'],
    ['./src//a.ts', 'src/a.ts'],
    ['src/deep/../a.ts', 'src/a.ts'],
    ['src/nowhere/../a.ts', 'src/a.ts'],
    ['.', ''],
    ['src/', 'src'],
    ['new/folder/file.ts', 'new/folder/file.ts'],
    ['../ws/src/a.ts', 'src/a.ts'],
    ['..a', '..a'],
    ['~/x', '~/x'],
    ['a\\b', 'a\\b'],
  ])('resolves %s to %s', async (path, resolved) => {
    expect(await resolveInWorkspace(folder.root, path)).toBe(join(folder.root, resolved));
  });

  it('may be absolute if it lies inside', async () => {
    const path = join(folder.root, 'src/a.ts');
    expect(await resolveInWorkspace(folder.root, path)).toBe(path);
  });

  it.each([
    '..',
    '../outside/secret.txt',
    'src/../../outside',
    '/etc/passwd',
    '/',
    '../ws-other/x',
  ])('%s is refused: it lies outside', async (path) => {
    await expect(resolveInWorkspace(folder.root, path)).rejects.toThrow('outside the workspace');
  });

  it('is refused if it contains NUL', async () => {
    await expect(resolveInWorkspace(folder.root, 'src/a.ts\0.png')).rejects.toThrow('NUL');
  });

  it('resolves links', async () => {
    folder.link('to-a', 'src/a.ts');
    folder.link('to-deep', join(folder.root, 'src/deep'));
    expect(await resolveInWorkspace(folder.root, 'to-a')).toBe(join(folder.root, 'src/a.ts'));
    expect(await resolveInWorkspace(folder.root, 'to-deep/b.ts')).toBe(
      join(folder.root, 'src/deep/b.ts'),
    );
    expect(await resolveInWorkspace(folder.root, 'to-deep/new')).toBe(
      join(folder.root, 'src/deep/new'),
    );
  });

  it.each([
    ['a link to a file outside', '../outside/secret.txt', 'link'],
    ['a link to a folder outside', '../outside', 'link/secret.txt'],
    ['a link to a folder outside, and a new file', '../outside', 'link/new.txt'],
    ['a link to outside and a path back', '../outside', 'link/../../ws-x'],
    ['a link to the root folder', '/', 'link/etc/passwd'],
    ['a dangling link to outside', '../outside/new.txt', 'link'],
    ['a dangling link inside', 'nothing', 'link'],
    ['a link to itself', 'link', 'link'],
  ])('is refused: %s', async (_what, target, path) => {
    folder.link('link', target);
    await expect(resolveInWorkspace(folder.root, path)).rejects.toThrow(PathRefused);
    expect(await resolvePaths(folder.root, { path })).toMatchObject({ ok: false });
  });

  it('is refused below a file', async () => {
    await expect(resolveInWorkspace(folder.root, 'src/a.ts/x')).rejects.toThrow(
      'a file, not a folder',
    );
  });

  it('never resolves to outside the workspace', async () => {
    folder.link('out', '../outside');
    folder.link('up', '..');
    folder.link('in', 'src');
    const part = fc.constantFrom(
      '..',
      '.',
      '',
      'src',
      'a.ts',
      'out',
      'up',
      'in',
      'ws',
      'x',
      'secret.txt',
    );
    const path = fc.array(part, { minLength: 1, maxLength: 8 }).map((parts) => parts.join('/'));
    await fc.assert(
      fc.asyncProperty(path, async (text) => {
        const resolved = await resolveInWorkspace(folder.root, text).catch(() => undefined);
        if (resolved !== undefined) expect(isWithin(folder.root, resolved)).toBe(true);
      }),
      { numRuns: 500 },
    );
  });
});

describe('a resolved path', () => {
  it('is not opened if it has become a link', async () => {
    const resolved = await resolveInWorkspace(folder.root, 'src/a.ts');
    folder.link('src/a.ts', '../../outside/secret.txt');
    await expect(openResolved(resolved)).rejects.toMatchObject({ code: 'ELOOP' });
  });

  it('is not opened if a parent folder has become a link', async () => {
    const resolved = await resolveInWorkspace(folder.root, 'src/a.ts');
    renameSync(join(folder.root, 'src'), join(folder.root, 'old'));
    symlinkSync('old', join(folder.root, 'src'));
    await expect(openResolved(resolved)).rejects.toThrow('changed while it was opened');
  });

  it('does not block if it is a pipe', async () => {
    execFileSync('mkfifo', [join(folder.root, 'pipe')]);
    const handle = await openResolved(await resolveInWorkspace(folder.root, 'pipe'));
    expect((await handle.stat()).isFIFO()).toBe(true);
    await handle.close();
  });

  it('is created as a folder, with its parents', async () => {
    const resolved = join(folder.root, 'x/y/z');
    await (await openFolder(resolved)).close();
    await (await openFolder(resolved)).close();
    mkdirSync(join(resolved, 'there'));
  });

  it('is not created through a link', async () => {
    folder.link('x', '../outside');
    await expect(openFolder(join(folder.root, 'x/y'))).rejects.toThrow();
    expect(readFileSync(join(folder.outside, 'secret.txt'), 'utf8')).toBe('secret\n');
  });
});
