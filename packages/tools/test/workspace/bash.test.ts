import { existsSync, readdirSync, readFileSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { requiresLinux } from '../../../../test/support/requires.ts';
import { makeFolder, type TestFolder } from '../support/folder.ts';
import { createToolContext } from '../support/tool-context.ts';
import { type BashOptions, createBash } from '../../src/workspace/bash.ts';

let folder: TestFolder;
beforeEach(() => {
  folder = makeFolder();
});
afterEach(() => folder.remove());

const tool = (more: Partial<BashOptions> = {}) =>
  createBash({
    root: folder.root,
    outputs: join(folder.outside, 'outputs'),
    home: join(folder.outside, 'home'),
    env: { ...process.env, RELAY_MASTER_KEY: 'very-secret', OPENAI_API_KEY: 'very-secret' },
    ...more,
  });
const bash = async (input: object, more: object = {}) => {
  const { context, result } = await tool().execute(input, createToolContext(more));
  return { context, result: result as Record<string, unknown> };
};

/** Processes that have this text in their command line. */
function running(text: string): string[] {
  return readdirSync('/proc').filter((pid) => {
    try {
      return /^\d+$/.test(pid) && readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(text);
    } catch {
      return false;
    }
  });
}

async function until(look: () => boolean): Promise<void> {
  while (!look()) await new Promise((resolve) => setTimeout(resolve, 5));
}

/** A number that no other process has in its command line. */
const unique = (): string => `${100_000 + Math.floor(Math.random() * 900_000)}.${Date.now()}`;

describe('bash', () => {
  it('runs in the workspace, and reports its exit code', async () => {
    expect(await bash({ command: 'pwd; echo oh >&2; exit 3' })).toEqual({
      context: `${folder.root}\nstderr:\noh\nExit code 3.`,
      result: { exitCode: 3, stdout: `${folder.root}\n`, stderr: 'oh\n' },
    });
    expect((await bash({ command: 'kill -9 $$' })).result).toMatchObject({
      exitCode: null,
      signal: 'SIGKILL',
    });
  });

  it('runs in a folder of the workspace, and in no other', async () => {
    folder.write('src/x', '');
    expect((await bash({ command: 'ls', cwd: 'src' })).result['stdout']).toBe('x\n');
    await expect(bash({ command: 'ls', cwd: '..' })).rejects.toThrow('outside');
    folder.link('out', '../outside');
    await expect(bash({ command: 'ls', cwd: 'out' })).rejects.toThrow('outside');
    await expect(bash({ command: 'ls', cwd: 'none' })).rejects.toThrow();
    const resolvedPaths = { cwd: folder.root };
    await expect(bash({ command: 'ls', cwd: 'src' }, { resolvedPaths })).rejects.toThrow(
      'now resolves to a different path',
    );
  });

  it('shows an approver the folder and the sandbox, and runs only so', async () => {
    folder.write('src/x', '');
    const sandbox = { network: true, memoryBytes: 2 ** 32, processes: 100 };
    const previewed = (commands?: 'all' | 'allowed-by-rule') =>
      tool(commands === undefined ? {} : { sandbox: { ...sandbox, commands } }).preview?.(
        { command: 'ls', cwd: 'src' },
        { cwd: join(folder.root, 'src') },
      );
    const src = join(folder.root, 'src');
    const none = await previewed();
    expect(none?.execution).toEqual({ folder: src, sandboxed: false });
    expect((await previewed('allowed-by-rule'))?.execution).toEqual(none?.execution);
    const all = await previewed('all');
    expect(all?.execution).toEqual({ folder: src, sandboxed: true });
    const run = (digest = '') => bash({ command: 'ls', cwd: 'src' }, { previewDigest: digest });
    expect((await run(none?.digest)).result['stdout']).toBe('x\n');
    await expect(run(all?.digest)).rejects.toThrow('the sandbox, was changed after');
  });

  it('starts in the folder that was allowed, even if its path is replaced meanwhile', async () => {
    folder.write('src/x', '');
    const swap = () => {
      renameSync(join(folder.root, 'src'), join(folder.root, 'moved'));
      folder.link('src', '../outside');
    };
    const signal = Object.assign(new AbortController().signal, { throwIfAborted: swap });
    const { result } = await bash({ command: 'pwd -P', cwd: 'src' }, { signal });
    expect(result['stdout']).toBe(`${folder.root}/moved\n`);
  });

  it('explains why a folder is refused', async () => {
    folder.write('file', '');
    await expect(bash({ command: 'ls', cwd: 'none' })).rejects.toThrow('There is no folder none');
    await expect(bash({ command: 'ls', cwd: 'file' })).rejects.toThrow('file is not a folder');
  });

  it('has no secrets in its environment, and no input', async () => {
    const { result } = await bash({ command: 'env; cat; echo end' });
    expect(result['stdout']).not.toContain('very-secret');
    expect(result['stdout']).toContain(`HOME=${join(folder.outside, 'home')}\n`);
    expect(result['stdout']).toMatch(/end\n$/);
  });

  it('runs a command that starts with a dash', async () => {
    expect((await bash({ command: '-x' })).result).toMatchObject({ exitCode: 127 });
    expect((await bash({ command: 'echo "$0" "$#"' })).result['stdout']).toBe('bash 0\n');
  });

  it('keeps long output in a file, and names it', async () => {
    const { context, result } = await bash({ command: 'seq 1 20000' });
    const whole = Array.from({ length: 20_000 }, (_, n) => `${n + 1}\n`).join('');
    expect(result['stdoutFile']).toBe('outputs/run/call_1.stdout');
    expect(readFileSync(join(folder.outside, 'outputs/run/call_1.stdout'), 'utf8')).toBe(whole);
    expect(context).toContain(`all ${whole.length} bytes are kept in outputs/run/call_1.stdout`);
    expect(context?.length).toBeLessThan(30_000);
    expect(context).toMatch(/^1\n2\n/);
    expect(context).toContain('\n20000\n');
  });

  it('writes no file outside the folder, whatever the id of the call', async () => {
    await bash({ command: 'seq 1 20000' }, { toolCallId: '../../x/../y' });
    const [file, ...others] = readdirSync(join(folder.outside, 'outputs/run'));
    expect(file).toMatch(/^______x____y\.[\da-f]{16}\.stdout$/);
    expect(others).toEqual([]);
  });

  it('keeps the outputs of calls with similar ids apart', async () => {
    const long = 'c'.repeat(100);
    const ids = ['a.b', 'a_b', 'a/b', `${long}1`, `${long}2`];
    const files = new Set<unknown>();
    for (const toolCallId of ids) {
      files.add((await bash({ command: 'seq 1 20000' }, { toolCallId })).result['stdoutFile']);
    }
    expect(files.size).toBe(ids.length);
  });

  it('stops a command with too much output', { timeout: 60_000 }, async () => {
    const { context, result } = await bash({ command: 'yes', timeoutMs: 60_000 });
    expect(context).toContain('Stopped because of too much output.');
    expect(result['exitCode']).toBeNull();
  });

  it('publishes its output while it runs', async () => {
    const published: string[] = [];
    await bash(
      { command: 'echo one; echo two >&2' },
      { progress: (text: string) => published.push(text) },
    );
    expect(published.join('')).toMatch(/one\n/);
    expect(published.join('')).toMatch(/two\n/);
  });

  it('is stopped after its timeout with all that it started, and keeps its output', async () => {
    const n = unique();
    const { context, result } = await bash({
      command: `echo before; sleep ${n} & sleep ${n}`,
      timeoutMs: 300,
    });
    expect(result).toMatchObject({ timedOut: true, stdout: 'before\n', signal: 'SIGTERM' });
    expect(context).toContain('Stopped after 300 ms.');
    expect(running(n)).toEqual([]);
  });

  it('kills processes that ignore SIGTERM', { timeout: 20_000 }, async () => {
    const n = unique();
    const command = `trap '' TERM; echo up; while :; do sleep ${n}; done`;
    const { result } = await bash({ command, timeoutMs: 300 });
    expect(result).toMatchObject({ timedOut: true, signal: 'SIGKILL' });
    expect(running(n)).toEqual([]);
  });

  it('is canceled with all that it started', async () => {
    const n = unique();
    const controller = new AbortController();
    const done = bash(
      { command: `sleep ${n} | sleep ${n} & (sleep ${n}); wait` },
      { signal: controller.signal },
    );
    await until(() => running(`sleep\0${n}`).length >= 3);
    controller.abort(new Error('Stopped by ann'));
    await expect(done).rejects.toThrow('Stopped by ann');
    expect(running(n)).toEqual([]);
  });

  it('starts nothing if it is already canceled', async () => {
    const signal = AbortSignal.abort(new Error('Stopped'));
    await expect(bash({ command: 'touch x' }, { signal })).rejects.toThrow('Stopped');
    expect(existsSync(join(folder.root, 'x'))).toBe(false);
  });

  it('leaves nothing behind, not even what has left its group', requiresLinux(), async () => {
    const n = unique();
    const { result } = await bash({
      command: `sleep ${n} & setsid sleep ${n} & (setsid nohup sleep ${n} >/dev/null 2>&1 &) ; echo done`,
    });
    expect(result).toMatchObject({ exitCode: 0, stdout: 'done\n' });
    await until(() => running(n).length === 0);
  });

  it(
    'finds what is forking or turning into another program just when it looks',
    requiresLinux(),
    async () => {
      const n = unique();
      const chain = 'nohup env nice env nohup env nice env setsid env nice env';
      await Promise.all(
        Array.from({ length: 12 }, () =>
          bash({ command: `(setsid ${chain} sleep ${n} >/dev/null 2>&1 &)` }),
        ),
      );
      expect(running(n)).toEqual([]);
    },
  );

  it.each([
    [{ command: 'git status -s' }, { command: 'git status -s' }],
    [
      { command: 'ls', cwd: 'src' },
      { command: 'ls', cwd: 'src' },
    ],
  ])('suggests for %j: %j', (input, params) => {
    expect(tool().derivePermission?.(input)).toEqual({ tool: 'bash', params });
  });

  // Case 18.
  it.each(['rm -rf ./tmp/*', 'sudo ls', 'node x.js', 'ls; rm x', 'bash -c ls'])(
    'suggests nothing for %s',
    (command) => {
      expect(tool().derivePermission?.({ command })).toBeUndefined();
    },
  );

  it('is neither idempotent nor allowed by default', () => {
    expect(tool()).toMatchObject({
      idempotent: false,
      onUnknown: 'ask',
      allowedByDefault: false,
      kinds: { command: 'command', cwd: 'path' },
      sensitive: ['command', 'cwd'],
    });
  });
});
