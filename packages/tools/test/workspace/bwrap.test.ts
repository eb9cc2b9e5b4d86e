import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { requires } from '../../../../test/support/requires.ts';
import { makeFolder, type TestFolder } from '../support/folder.ts';
import { createToolContext } from '../support/tool-context.ts';
import { createBash } from '../../src/workspace/bash.ts';
import { bubblewrapProblem, inBubblewrap } from '@relay/processes';

const line = { file: 'bash', args: ['-c', 'ls'], cwd: '/ws/src', env: { A: 'b' } };

const limits = { memoryBytes: 2 * 1024 ** 3, processes: 500 };

describe('a command line for bubblewrap', () => {
  const protectedPaths = {
    mounted: ['/ws/.git'],
    readOnly: ['/ws/.git/config', '/ws/.envrc'],
    missing: ['/ws/.envrc'],
  };
  const of = (network: boolean, byRule = true) =>
    inBubblewrap(
      line,
      { commands: 'all', network, ...limits },
      {
        root: '/ws',
        home: '/data/home',
        hidden: ['/data', '/other'],
        ...(byRule ? { protectedPaths } : {}),
      },
    );

  it('wraps the command with its limits, and starts in the workspace', () => {
    const { file, args, cwd, env } = of(false);
    expect({ file, cwd, env }).toEqual({ file: 'bwrap', cwd: '/ws', env: { A: 'b' } });
    expect(args.slice(-6)).toEqual(['2097152', '500', '/.envrc\n', 'bash', '-c', 'ls']);
    expect(args.join(' ')).toContain('--chdir /ws/src -- bash');
  });

  it('makes the disk readable, hides folders, and then binds the workspace', () => {
    const text = of(false).args.join(' ');
    const order = [
      '--ro-bind / /',
      '--tmpfs /data',
      '--tmpfs /other',
      '--tmpfs /data/home',
      '--bind /ws /ws',
      '--bind /ws/.git /ws/.git',
      '--ro-bind /ws/.git/config /ws/.git/config',
    ];
    const places = order.map((part) => text.indexOf(part));
    expect(places).toEqual(places.toSorted((a, b) => a - b));
    expect(places.every((place) => place >= 0)).toBe(true);
    expect(of(false, false).args.join(' ')).toContain('--bind /data/home /data/home');
  });

  it('has a network unless that is switched off', () => {
    expect(of(false).args).toContain('--unshare-all');
    expect(of(false).args).not.toContain('--share-net');
    expect(of(true).args).toContain('--share-net');
  });
});

describe('a command inside bubblewrap', requires('sandbox', await bubblewrapProblem()), () => {
  let folder: TestFolder;
  beforeEach(() => {
    folder = makeFolder();
    mkdirSync(join(folder.outside, 'data'));
    writeFileSync(join(folder.outside, 'data/key'), 'secret');
  });
  afterEach(() => folder.remove());

  const bash = async (
    command: string,
    network = false,
    more: Parameters<typeof createToolContext>[0] = {},
  ) => {
    const tool = createBash({
      root: folder.root,
      outputs: join(folder.outside, 'data/outputs'),
      home: join(folder.outside, 'data/home'),
      env: process.env,
      hidden: () => [join(folder.outside, 'data')],
      sandbox: { commands: 'all', network, ...limits },
    });
    const { result } = await tool.execute({ command }, createToolContext(more));
    return result as { exitCode: number; stdout: string; stderr: string };
  };

  /** The name is computed: a command that names a hidden folder does not start. */
  const nameOfData = () => `x=${folder.outside}/da; export d=\${x}ta`;

  it('writes in the workspace', async () => {
    expect(await bash('pwd; echo hi > x')).toMatchObject({
      exitCode: 0,
      stdout: `${folder.root}\n`,
    });
    expect(readFileSync(join(folder.root, 'x'), 'utf8')).toBe('hi\n');
  });

  it('writes nowhere else', async () => {
    const { exitCode } = await bash(`echo x > /usr/relay-was-here || echo x > /etc/relay-was-here`);
    expect(exitCode).not.toBe(0);
    expect(existsSync('/usr/relay-was-here') || existsSync('/etc/relay-was-here')).toBe(false);
  });

  it('cannot fill the memory with files', async () => {
    const { stdout } = await bash(
      `${nameOfData()}; for f in /tmp /dev/shm /run "$d"; do stat -f -c '%b %S' "$f"; done; ` +
        'echo x 2>&- > /dev/x || echo read-only',
    );
    const sizes = stdout.trim().split('\n');
    expect(sizes.pop()).toBe('read-only');
    const bytes = sizes.map((size) => size.split(' ').reduce((all, each) => all * Number(each), 1));
    expect(bytes).toEqual([limits.memoryBytes, limits.memoryBytes, 4096, 4096]);
  });

  it('does not see hidden folders', async () => {
    const { stdout } = await bash(`${nameOfData()}; cat $d/key; ls -A $d`);
    expect(stdout).toBe('home\n');
  });

  it('cannot undo the protection, even if the server runs as root', async () => {
    const undo = 'umount $d; umount -l $d; mount -o remount,rw,bind /';
    const { stdout } = await bash(
      `${nameOfData()}; { ${undo}; unshare -Urm bash -c '${undo}'; } >/dev/null 2>&1; ls $d/key; ` +
        `(echo x > ${folder.outside}/escaped) 2>/dev/null; grep CapEff /proc/self/status`,
    );
    expect(stdout).toBe('CapEff:\t0000000000000000\n');
    expect(existsSync(join(folder.outside, 'escaped'))).toBe(false);
  });

  it('cannot change the settings of the kernel', async () => {
    const settings = '/proc/sys/kernel/core_pattern /proc/sys/kernel/hostname /proc/sysrq-trigger';
    const { stdout } = await bash(
      `for f in ${settings}; do [ -w $f ] && echo $f; done; grep -c . /proc/sys/kernel/osrelease`,
    );
    expect(stdout).toBe('1\n');
  });

  it('sees no other processes', async () => {
    const { stdout } = await bash(
      `ls /proc | grep -c '^[0-9]'; p=/proc/${process.pid}; cat $p/environ`,
    );
    expect(Number(stdout.split('\n')[0])).toBeLessThan(10);
    expect(stdout.split('\n')[1]).toBe('');
  });

  it('reaches the network only if that is allowed', async () => {
    const server = createServer((_request, response) => response.end('hello'));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as AddressInfo;
    const command = `exec 3<>/dev/tcp/127.0.0.1/${port} && echo reached`;
    try {
      expect((await bash(command)).stdout).toBe('');
      expect((await bash(command, true)).stdout).toBe('reached\n');
    } finally {
      server.closeAllConnections();
      server.close();
    }
  });
});
