import {
  chmodSync,
  existsSync,
  lstatSync,
  readdirSync,
  readFileSync,
  statSync,
  writeFileSync,
} from 'node:fs';
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
  it('changes a file, and reports the changed lines', async () => {
    folder.write('a.ts', 'one\ntwo\nthree\n');
    const edits = [{ old: 'two\n', new: '2\n2½\n' }];
    expect(await patch({ filePath: 'a.ts', edits })).toEqual({
      context: 'Changed a.ts (+2 −1 lines).',
      result: { path: 'a.ts', created: false, added: 2, removed: 1 },
    });
    expect(text('a.ts')).toBe('one\n2\n2½\nthree\n');
  });

  it('creates a file and its parent folders', async () => {
    const made = await patch({ filePath: 'x/y/new.ts', edits: [{ old: '', new: 'hi\n' }] });
    expect(made.result).toEqual({ path: 'x/y/new.ts', created: true, added: 1, removed: 0 });
    expect(text('x/y/new.ts')).toBe('hi\n');
  });

  it('applies a diff', async () => {
    folder.write('a.ts', 'one\ntwo\n');
    await patch({ filePath: 'a.ts', diff: '@@ -1,2 +1,2 @@\n one\n-two\n+2\n' });
    expect(text('a.ts')).toBe('one\n2\n');
  });

  it('changes nothing and leaves no temporary file if an edit does not apply', async () => {
    folder.write('a.ts', 'one\n');
    const edits = [
      { old: 'one', new: '1' },
      { old: 'none', new: '0' },
    ];
    await expect(patch({ filePath: 'a.ts', edits })).rejects.toThrow('edits[1]');
    expect(text('a.ts')).toBe('one\n');
    expect(readdirSync(folder.root)).toEqual(['a.ts']);
  });

  it('keeps carriage returns and the byte order mark, which read does not show', async () => {
    folder.write('dos.txt', '\ufeffone\r\ntwo\r\nthree\r\n');
    await patch({ filePath: 'dos.txt', edits: [{ old: 'one\ntwo\n', new: '1\n2\n2½\n' }] });
    expect(text('dos.txt')).toBe('\ufeff1\r\n2\r\n2½\r\nthree\r\n');
    await patch({ filePath: 'dos.txt', diff: '@@ -1,2 +1,1 @@\n-1\n-2\n+12\n' });
    expect(text('dos.txt')).toBe('\ufeff12\r\n2½\r\nthree\r\n');
    await patch({ filePath: 'dos.txt', edits: [{ old: 'three\r\n', new: 'three\n' }] });
    expect(text('dos.txt')).toBe('\ufeff12\r\n2½\r\nthree\n');
    await expect(
      patch({ filePath: 'dos.txt', edits: [{ old: '12\n2½', new: 'x' }] }),
    ).rejects.toThrow('does not contain');
  });

  it.each([
    '.git/config',
    '.git/hooks/pre-commit',
    'sub/.git/config',
    '.GIT/config',
    'sub/.git',
    '.hg/hgrc',
  ])('refuses files that configure git: %s', async (filePath) => {
    folder.write('sub/x', '');
    const input = { filePath, edits: [{ old: '', new: '[core]\n' }] };
    await expect(patch(input)).rejects.toThrow('belongs to git');
    expect(await createPatch(folder).resolvePaths?.(input)).toMatchObject({ ok: false });
    expect(readdirSync(folder.root)).toEqual(['sub']);
  });

  it('changes files whose names only start like those of git', async () => {
    for (const filePath of [
      '.gitignore',
      '.github/x.yml',
      'a.git',
      'HEADER',
      'config',
      'hooks/x',
    ]) {
      expect((await patch({ filePath, edits: [{ old: '', new: 'x\n' }] })).result).toMatchObject({
        created: true,
      });
    }
  });

  it.each([
    '.npmrc',
    'sub/.NPMRC',
    '.config/git/config',
    '.cargo/config.toml',
    'sub/.ssh/authorized_keys',
    '.bashrc',
    '.profile',
    '.zshenv',
    '.envrc',
    '.vscode/tasks.json',
    '.gitattributes',
    'sub/.gitmodules',
    '.yarnrc.yml',
    'rust-toolchain.toml',
    '.en\u200bvrc',
    '.tool-versions',
    'mise.toml',
    '.mcp.json',
    '.claude/settings.json',
    '.pnpmfile.mjs',
    '.gradle/init.gradle',
    '.nvim.lua',
    'sub/HEAD',
    'bare/config',
    'bare/hooks/pre-commit',
  ])('needs a person for %s, whatever rule allows it', async (filePath) => {
    folder.write('bare/HEAD', 'ref: refs/heads/main\n');
    folder.write('bare/objects/x', '');
    const input = { filePath, edits: [{ old: '', new: 'x\n' }] };
    expect(await createPatch(folder).resolvePaths?.(input)).toMatchObject({
      ok: true,
      needsApproval: expect.stringContaining(filePath),
    });
    await expect(patch(input, { allowedBy: 'rule' })).rejects.toThrow(filePath);
    expect(existsSync(join(folder.root, filePath))).toBe(false);
    expect((await patch(input)).result).toMatchObject({ created: true });
  });

  it('needs a person if a link leads to such a file', async () => {
    folder.write('.npmrc', 'a=b\n');
    folder.link('notes.txt', '.npmrc');
    const input = { filePath: 'notes.txt', edits: [{ old: 'a', new: 'x' }] };
    await expect(patch(input, { allowedBy: 'rule' })).rejects.toThrow('.npmrc');
  });

  it('keeps the mode of a file', async () => {
    folder.write('run.sh', 'a\n');
    chmodSync(join(folder.root, 'run.sh'), 0o750);
    await patch({ filePath: 'run.sh', edits: [{ old: 'a', new: 'b' }] });
    expect(statSync(join(folder.root, 'run.sh')).mode & 0o777).toBe(0o750);
  });

  it('changes the target of a link inside the workspace, and keeps the link', async () => {
    folder.write('real.ts', 'a\n');
    folder.link('link.ts', 'real.ts');
    await patch({ filePath: 'link.ts', edits: [{ old: 'a', new: 'b' }] });
    expect(text('real.ts')).toBe('b\n');
    expect(lstatSync(join(folder.root, 'link.ts')).isSymbolicLink()).toBe(true);
  });

  it('changes nothing outside the workspace', async () => {
    folder.link('out', '../outside');
    folder.link('secret', '../outside/secret.txt');
    folder.link('new', '../outside/new.txt');
    const edits = [{ old: 'secret', new: 'gone' }];
    for (const filePath of ['out/secret.txt', 'secret', '../outside/secret.txt']) {
      await expect(patch({ filePath, edits })).rejects.toThrow();
    }
    const make = [{ old: '', new: 'x' }];
    for (const filePath of ['out/new.txt', 'new', '../outside/new.txt', 'out/deep/new.txt']) {
      await expect(patch({ filePath, edits: make })).rejects.toThrow();
    }
    expect(readdirSync(folder.outside)).toEqual(['secret.txt']);
    expect(readFileSync(join(folder.outside, 'secret.txt'), 'utf8')).toBe('secret\n');
  });

  it('refuses a path that resolves to another path than the approved one', async () => {
    folder.write('a', 'a');
    folder.write('b', 'a');
    folder.link('link', 'b');
    const resolvedPaths = { filePath: join(folder.root, 'a') };
    await expect(
      patch({ filePath: 'link', edits: [{ old: 'a', new: 'x' }] }, { resolvedPaths }),
    ).rejects.toThrow('now resolves to a different path');
    expect(text('b')).toBe('a');
  });

  it('refuses what is no text, a folder, and the workspace itself', async () => {
    folder.write('x.bin', Buffer.from([0, 1, 2]));
    folder.write('dir/x', '');
    const edits = [{ old: 'a', new: 'b' }];
    await expect(patch({ filePath: 'x.bin', edits })).rejects.toThrow('not text');
    await expect(patch({ filePath: 'dir', edits })).rejects.toThrow('not a file');
    await expect(patch({ filePath: '.', edits })).rejects.toThrow('a folder');
  });

  it('applies concurrent changes of one file one after the other', async () => {
    folder.write('n', Array.from({ length: 10 }, (_, n) => `<${n}>`).join('\n'));
    const tool = createPatch(folder);
    const changes = Array.from({ length: 10 }, (_, n) =>
      tool.execute(
        { filePath: 'n', edits: [{ old: `<${n}>`, new: `[${n}]` }] },
        createToolContext(),
      ),
    );
    await Promise.all(changes);
    expect(text('n')).toBe(Array.from({ length: 10 }, (_, n) => `[${n}]`).join('\n'));
  });

  it('does not overwrite a file that another program has changed meanwhile', async () => {
    folder.write('a', 'a\n');
    const path = join(folder.root, 'a');
    let checks = 0;
    const signal = new AbortController().signal;
    // The signal is checked for the second time when the temporary file is written.
    const spying = new Proxy(signal, {
      get(target, name) {
        if (name === 'throwIfAborted' && (checks += 1) === 2)
          writeFileSync(path, 'another program\n');
        const value: unknown = Reflect.get(target, name);
        return typeof value === 'function' ? value.bind(target) : value;
      },
    });
    await expect(
      patch({ filePath: 'a', edits: [{ old: 'a', new: 'b' }] }, { signal: spying }),
    ).rejects.toThrow('changed by another program');
    expect(text('a')).toBe('another program\n');
    expect(readdirSync(folder.root)).toEqual(['a']);
  });

  it('takes either edits or a diff', () => {
    const tool = createPatch(folder);
    expect(tool.validate({ filePath: 'a' }).ok).toBe(false);
    expect(tool.validate({ filePath: 'a', edits: [{ old: '', new: '' }], diff: 'x' }).ok).toBe(
      false,
    );
    expect(tool.validate({ filePath: 'a', diff: 'x' }).ok).toBe(true);
  });

  it('asks about an unknown outcome, and suggests a rule for the file', () => {
    const tool = createPatch(folder);
    expect(tool).toMatchObject({ idempotent: false, onUnknown: 'ask', allowedByDefault: false });
    expect(tool.derivePermission?.({ filePath: 'src/a.ts' })).toEqual({
      tool: 'patch',
      params: { filePath: 'src/a.ts' },
    });
    for (const filePath of ['../a', 'a*', '.git/config', '/etc/x']) {
      expect(tool.derivePermission?.({ filePath })).toBeUndefined();
    }
  });
});

describe('a preview of patch', () => {
  const preview = (input: object) => {
    const { filePath } = input as { filePath: string };
    const resolved = { filePath: join(folder.root, filePath) };
    return createPatch(folder).preview?.(input as Record<string, unknown>, resolved);
  };

  it('shows a new file', async () => {
    const shown = await preview({ filePath: 'x/new.ts', edits: [{ old: '', new: 'a\nb' }] });
    expect(shown?.diff).toBe(
      '--- /dev/null\n+++ x/new.ts\n@@ -0,0 +1,2 @@\n+a\n+b\n\\ No newline at end of file',
    );
    expect(readdirSync(folder.root)).toEqual([]);
  });

  it('shows a diff at the lines where it applies', async () => {
    folder.write('a.ts', `${Array.from({ length: 20 }, (_, at) => `line ${at}`).join('\n')}\n`);
    const diff = '@@ -2,1 +2,1 @@\n-line 10\n+line ten\n';
    const shown = await preview({ filePath: 'a.ts', diff });
    expect(shown?.diff).toContain(
      '@@ -8,7 +8,7 @@\n line 7\n line 8\n line 9\n-line 10\n+line ten',
    );
  });

  it('does not show carriage returns that end all lines', async () => {
    folder.write('dos.txt', 'one\r\ntwo\r\n');
    const shown = await preview({ filePath: 'dos.txt', edits: [{ old: 'two', new: '2' }] });
    expect(shown?.diff).toBe('--- dos.txt\n+++ dos.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+2');
  });

  it('says how much of a long change is not shown, and its digest covers that too', async () => {
    folder.write('a.txt', 'x\n');
    const lines = Array.from({ length: 1_000 }, (_, at) => `line ${at}`);
    const shown = await preview({
      filePath: 'a.txt',
      edits: [{ old: 'x', new: lines.join('\n') }],
    });
    expect(shown?.diff).toMatch(/\n… 602 more lines not shown$/);
    lines[999] = 'other';
    const other = await preview({
      filePath: 'a.txt',
      edits: [{ old: 'x', new: lines.join('\n') }],
    });
    expect(other?.diff).toBe(shown?.diff);
    expect(other?.digest).not.toBe(shown?.digest);
    const long = await preview({
      filePath: 'a.txt',
      edits: [{ old: 'x', new: 'y'.repeat(3_000) }],
    });
    expect(long?.diff).toMatch(/y … 1001 more characters not shown$/);
  });

  it('stays valid while only other parts of the file change', async () => {
    const lines = Array.from({ length: 20 }, (_, at) => `line ${at}`);
    folder.write('a.txt', `${lines.join('\n')}\n`);
    const input = { filePath: 'a.txt', edits: [{ old: 'line 15', new: 'fifteen' }] };
    const { digest } = (await preview(input)) ?? {};
    folder.write('a.txt', `before\n${lines.join('\n')}\n`);
    await patch(input, { previewDigest: digest });
    expect(text('a.txt')).toContain('fifteen');
    folder.write('a.txt', `${lines.with(14, 'changed').join('\n')}\n`);
    await expect(patch(input, { previewDigest: digest })).rejects.toThrow('was changed after');
    expect(text('a.txt')).toContain('line 15');
  });
});
