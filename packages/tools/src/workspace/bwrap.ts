/**
 * A command inside bubblewrap: the workspace can be written to, the rest of the disk is there to be
 * read, and what belongs to Relay, to other tenants or to other services is not there at all. It sees
 * no other processes, and no network unless it is let.
 */
import { spawnSync } from 'node:child_process';
import type { CommandLine } from './process-group.ts';

export interface Sandbox {
  readonly kind: 'bwrap';
  readonly network: boolean;
  /** Folders that are not there for the command. */
  readonly hidden: () => readonly string[];
}

const kernelSettings = ['/proc/sys', '/proc/sysrq-trigger', '/proc/mtrr'];

export function inBubblewrap(root: string, line: CommandLine, sandbox: Sandbox): CommandLine {
  const { network, hidden } = sandbox;
  const args = [
    '--die-with-parent',
    '--new-session',
    '--unshare-all',
    // A server that runs as root would hand its rights on: to mount the disk anew, and write to it.
    '--cap-drop',
    'ALL',
    ...(network ? ['--share-net'] : []),
    '--ro-bind',
    '/',
    '/',
    '--dev',
    '/dev',
    '--proc',
    '/proc',
    // To root, the settings of the kernel are files like others, capabilities or not.
    ...kernelSettings.flatMap((path) => ['--ro-bind-try', path, path]),
    '--tmpfs',
    '/tmp',
    // Sockets of services (Docker's among them) can be used even where nothing can be written.
    '--tmpfs',
    '/run',
    ...(network ? ['--ro-bind-try', '/run/systemd/resolve', '/run/systemd/resolve'] : []),
    ...hidden().flatMap((folder) => ['--tmpfs', folder]),
    '--bind',
    root,
    root,
    '--chdir',
    line.cwd,
    '--',
  ];
  return { ...line, file: 'bwrap', args: [...args, line.file, ...line.args], cwd: root };
}

/** Why bubblewrap cannot be used here, in a sentence; undefined if it can. */
export function bubblewrapProblem(): string | undefined {
  const trial = [
    '--unshare-all',
    '--cap-drop',
    'ALL',
    '--ro-bind',
    '/',
    '/',
    '--dev',
    '/dev',
    '--proc',
    '/proc',
    'true',
  ];
  const { error, status, stderr } = spawnSync('bwrap', trial, {
    encoding: 'utf8',
    timeout: 10_000,
  });
  if (error !== undefined && 'code' in error && error.code === 'ENOENT') {
    return 'bubblewrap is not installed (no bwrap on the PATH)';
  }
  if (status === 0) return undefined;
  const why = stderr?.trim().split('\n')[0] ?? error?.message;
  return `bubblewrap does not work here: ${why === undefined || why === '' ? `it ended with ${status}` : why}`;
}
