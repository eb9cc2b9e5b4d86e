import { chmodSync, lstatSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { makeFolder, type TestFolder } from '../support/folder.ts';
import { createToolContext } from '../support/tool-context.ts';
import { createPatch } from '../../src/workspace/patch.ts';

let folder: TestFolder;
beforeEach(() => {
  folder = makeFolder();
});
afterEach(() => folder.remove());

const patch = (input: object, more: object = {}) =>
  createPatch(folder).execute(input, createToolContext(more));
const text = (path: string): string => readFileSync(join(folder.root, path), 'utf8');

describe('patch', () => {
  it('changes a file, and says what has changed', async () => {
    folder.write('a.ts', 'one\ntwo\nthree\n');
    const edits = [{ old: 'two\n', new: '2\n2½\n' }];
    expect(await patch({ path: 'a.ts', edits })).toEqual({
      context: 'Changed a.ts (+2 −1 lines).',
      result: { path: 'a.ts', created: false, added: 2, removed: 1 },
    });
    expect(text('a.ts')).toBe('one\n2\n2½\nthree\n');
  });

  it('makes a file with the folders above it', async () => {
    const made = await patch({ path: 'x/y/new.ts', edits: [{ old: '', new: 'hi\n' }] });
    expect(made.result).toEqual({ path: 'x/y/new.ts', created: true, added: 1, removed: 0 });
    expect(text('x/y/new.ts')).toBe('hi\n');
  });

  it('takes a diff', async () => {
    folder.write('a.ts', 'one\ntwo\n');
    await patch({ path: 'a.ts', diff: '@@ -1,2 +1,2 @@\n one\n-two\n+2\n' });
    expect(text('a.ts')).toBe('one\n2\n');
  });

  it('changes nothing and leaves nothing behind if anything does not fit', async () => {
    folder.write('a.ts', 'one\n');
    const edits = [
      { old: 'one', new: '1' },
      { old: 'none', new: '0' },
    ];
    await expect(patch({ path: 'a.ts', edits })).rejects.toThrow('edits[1]');
    expect(text('a.ts')).toBe('one\n');
    expect(readdirSync(folder.root)).toEqual(['a.ts']);
  });

  it('keeps line ends and the mark at the beginning, which read does not show', async () => {
    folder.write('dos.txt', '\ufeffone\r\ntwo\r\nthree\r\n');
    await patch({ path: 'dos.txt', edits: [{ old: 'one\ntwo\n', new: '1\n2\n2½\n' }] });
    expect(text('dos.txt')).toBe('\ufeff1\r\n2\r\n2½\r\nthree\r\n');
    await patch({ path: 'dos.txt', diff: '@@ -1,2 +1,1 @@\n-1\n-2\n+12\n' });
    expect(text('dos.txt')).toBe('\ufeff12\r\n2½\r\nthree\r\n');
    await patch({ path: 'dos.txt', edits: [{ old: 'three\r\n', new: 'three\n' }] });
    expect(text('dos.txt')).toBe('\ufeff12\r\n2½\r\nthree\n');
    await expect(patch({ path: 'dos.txt', edits: [{ old: '12\n2½', new: 'x' }] })).rejects.toThrow(
      'does not hold',
    );
  });

  it.each(['.git/config', '.git/hooks/pre-commit', 'sub/.git/config', '.GIT/config', '.gitconfig'])(
    'does not change what git runs: %s',
    async (path) => {
      folder.write('sub/x', '');
      const input = { path, edits: [{ old: '', new: '[core]\n' }] };
      await expect(patch(input)).rejects.toThrow("git's own");
      expect(await createPatch(folder).locate?.(input)).toMatchObject({ ok: false });
      expect(readdirSync(folder.root)).toEqual(['sub']);
    },
  );

  it('changes files whose names only begin like those of git', async () => {
    for (const path of ['.gitignore', '.github/x.yml', 'a.git', 'sub/.gitconfig']) {
      expect((await patch({ path, edits: [{ old: '', new: 'x\n' }] })).result).toMatchObject({
        created: true,
      });
    }
  });

  it('keeps the rights of a file', async () => {
    folder.write('run.sh', 'a\n');
    chmodSync(join(folder.root, 'run.sh'), 0o750);
    await patch({ path: 'run.sh', edits: [{ old: 'a', new: 'b' }] });
    expect(statSync(join(folder.root, 'run.sh')).mode & 0o777).toBe(0o750);
  });

  it('changes what a link leads to inside, and leaves the link', async () => {
    folder.write('real.ts', 'a\n');
    folder.link('link.ts', 'real.ts');
    await patch({ path: 'link.ts', edits: [{ old: 'a', new: 'b' }] });
    expect(text('real.ts')).toBe('b\n');
    expect(lstatSync(join(folder.root, 'link.ts')).isSymbolicLink()).toBe(true);
  });

  it('touches nothing outside', async () => {
    folder.link('out', '../outside');
    folder.link('secret', '../outside/secret.txt');
    folder.link('new', '../outside/new.txt');
    const edits = [{ old: 'secret', new: 'gone' }];
    for (const path of ['out/secret.txt', 'secret', '../outside/secret.txt']) {
      await expect(patch({ path, edits })).rejects.toThrow();
    }
    const make = [{ old: '', new: 'x' }];
    for (const path of ['out/new.txt', 'new', '../outside/new.txt', 'out/deep/new.txt']) {
      await expect(patch({ path, edits: make })).rejects.toThrow();
    }
    expect(readdirSync(folder.outside)).toEqual(['secret.txt']);
    expect(readFileSync(join(folder.outside, 'secret.txt'), 'utf8')).toBe('secret\n');
  });

  it('refuses a path that leads elsewhere than when it was allowed', async () => {
    folder.write('a', 'a');
    folder.write('b', 'a');
    folder.link('link', 'b');
    const resolvedPaths = { path: join(folder.root, 'a') };
    await expect(
      patch({ path: 'link', edits: [{ old: 'a', new: 'x' }] }, { resolvedPaths }),
    ).rejects.toThrow('leads elsewhere');
    expect(text('b')).toBe('a');
  });

  it('refuses what is no text, a folder, and the workspace itself', async () => {
    folder.write('x.bin', Buffer.from([0, 1, 2]));
    folder.write('dir/x', '');
    const edits = [{ old: 'a', new: 'b' }];
    await expect(patch({ path: 'x.bin', edits })).rejects.toThrow('not text');
    await expect(patch({ path: 'dir', edits })).rejects.toThrow('not a file');
    await expect(patch({ path: '.', edits })).rejects.toThrow('a folder');
  });

  it('makes changes of one file one after the other', async () => {
    folder.write('n', Array.from({ length: 10 }, (_, n) => `<${n}>`).join('\n'));
    const tool = createPatch(folder);
    const changes = Array.from({ length: 10 }, (_, n) =>
      tool.execute({ path: 'n', edits: [{ old: `<${n}>`, new: `[${n}]` }] }, createToolContext()),
    );
    await Promise.all(changes);
    expect(text('n')).toBe(Array.from({ length: 10 }, (_, n) => `[${n}]`).join('\n'));
  });

  it('does not overwrite what somebody else has changed meanwhile', async () => {
    folder.write('a', 'a\n');
    const path = join(folder.root, 'a');
    let looks = 0;
    const signal = new AbortController().signal;
    // The second look at the signal comes when the new text lies ready.
    const spying = new Proxy(signal, {
      get(target, name) {
        if (name === 'throwIfAborted' && (looks += 1) === 2) writeFileSync(path, 'somebody else\n');
        const value: unknown = Reflect.get(target, name);
        return typeof value === 'function' ? value.bind(target) : value;
      },
    });
    await expect(
      patch({ path: 'a', edits: [{ old: 'a', new: 'b' }] }, { signal: spying }),
    ).rejects.toThrow('changed by somebody else');
    expect(text('a')).toBe('somebody else\n');
    expect(readdirSync(folder.root)).toEqual(['a']);
  });

  it('takes edits or a diff, not both and not neither', () => {
    const tool = createPatch(folder);
    expect(tool.validate({ path: 'a' }).ok).toBe(false);
    expect(tool.validate({ path: 'a', edits: [{ old: '', new: '' }], diff: 'x' }).ok).toBe(false);
    expect(tool.validate({ path: 'a', diff: 'x' }).ok).toBe(true);
  });

  it('asks about an unknown outcome, and proposes the file it is about', () => {
    const tool = createPatch(folder);
    expect(tool).toMatchObject({ idempotent: false, onUnknown: 'ask', allowedByDefault: false });
    expect(tool.derivePermission?.({ path: 'src/a.ts' })).toEqual({
      tool: 'patch',
      params: { path: 'src/a.ts' },
    });
    for (const path of ['../a', 'a*', '.git/config', '/etc/x']) {
      expect(tool.derivePermission?.({ path })).toBeUndefined();
    }
  });
});
