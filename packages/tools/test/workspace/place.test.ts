import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, renameSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { makeFolder, type TestFolder } from '../support/folder.ts';
import { locateIn } from '../../src/workspace/resolved-paths.ts';
import {
  findPlace,
  isWithin,
  openFolder,
  openPlace,
  PlaceRefused,
} from '../../src/workspace/place.ts';

let folder: TestFolder;
beforeEach(() => {
  folder = makeFolder();
  folder.write('src/a.ts', 'a\n');
  folder.write('src/deep/b.ts', 'b\n');
});
afterEach(() => folder.remove());

// Case 15.
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
  ])('%s is %s', async (path, place) => {
    expect(await findPlace(folder.root, path)).toBe(join(folder.root, place));
  });

  it('may be absolute, if it lies there', async () => {
    const path = join(folder.root, 'src/a.ts');
    expect(await findPlace(folder.root, path)).toBe(path);
  });

  it.each([
    '..',
    '../outside/secret.txt',
    'src/../../outside',
    '/etc/passwd',
    '/',
    '../ws-other/x',
  ])('%s is refused: it lies outside', async (path) => {
    await expect(findPlace(folder.root, path)).rejects.toThrow('outside the workspace');
  });

  it('is refused if it holds NUL', async () => {
    await expect(findPlace(folder.root, 'src/a.ts\0.png')).rejects.toThrow('NUL');
  });

  it('is where its links lead', async () => {
    folder.link('to-a', 'src/a.ts');
    folder.link('to-deep', join(folder.root, 'src/deep'));
    expect(await findPlace(folder.root, 'to-a')).toBe(join(folder.root, 'src/a.ts'));
    expect(await findPlace(folder.root, 'to-deep/b.ts')).toBe(join(folder.root, 'src/deep/b.ts'));
    expect(await findPlace(folder.root, 'to-deep/new')).toBe(join(folder.root, 'src/deep/new'));
  });

  it.each([
    ['a link to a file outside', '../outside/secret.txt', 'link'],
    ['a link to a folder outside', '../outside', 'link/secret.txt'],
    ['a link to a folder outside, and a new file', '../outside', 'link/new.txt'],
    ['a link that leads out and a path that comes back', '../outside', 'link/../../ws-x'],
    ['a link to the root of all', '/', 'link/etc/passwd'],
    ['a link that leads nowhere', '../outside/new.txt', 'link'],
    ['a link that leads nowhere inside', 'nothing', 'link'],
    ['a link in a circle', 'link', 'link'],
  ])('is refused: %s', async (_what, target, path) => {
    folder.link('link', target);
    await expect(findPlace(folder.root, path)).rejects.toThrow(PlaceRefused);
    expect(await locateIn(folder.root, { path })).toMatchObject({ ok: false });
  });

  it('is refused below a file', async () => {
    await expect(findPlace(folder.root, 'src/a.ts/x')).rejects.toThrow('a file, not a folder');
  });

  it('never leaves the workspace, whatever it is', async () => {
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
        const place = await findPlace(folder.root, text).catch(() => undefined);
        if (place !== undefined) expect(isWithin(folder.root, place)).toBe(true);
      }),
      { numRuns: 500 },
    );
  });
});

describe('a place that was found', () => {
  it('is not opened once it is a link', async () => {
    const place = await findPlace(folder.root, 'src/a.ts');
    folder.link('src/a.ts', '../../outside/secret.txt');
    await expect(openPlace(place)).rejects.toMatchObject({ code: 'ELOOP' });
  });

  it('is not opened once a folder above it is a link', async () => {
    const place = await findPlace(folder.root, 'src/a.ts');
    renameSync(join(folder.root, 'src'), join(folder.root, 'old'));
    symlinkSync('old', join(folder.root, 'src'));
    await expect(openPlace(place)).rejects.toThrow('changed while it was opened');
  });

  it('is not waited for if it is a pipe', async () => {
    execFileSync('mkfifo', [join(folder.root, 'pipe')]);
    const handle = await openPlace(await findPlace(folder.root, 'pipe'));
    expect((await handle.stat()).isFIFO()).toBe(true);
    await handle.close();
  });

  it('is made as a folder, with those above it', async () => {
    const place = join(folder.root, 'x/y/z');
    await (await openFolder(place)).close();
    await (await openFolder(place)).close();
    mkdirSync(join(place, 'there'));
  });

  it('is not made through a link', async () => {
    folder.link('x', '../outside');
    await expect(openFolder(join(folder.root, 'x/y'))).rejects.toThrow();
    expect(readFileSync(join(folder.outside, 'secret.txt'), 'utf8')).toBe('secret\n');
  });
});
