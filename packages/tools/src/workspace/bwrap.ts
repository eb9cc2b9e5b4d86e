/**
 * A command inside bubblewrap: it can write to the workspace and read the rest of the disk, except
 * for folders of Relay, of other tenants and of other services, which are hidden. It sees no other
 * processes, and no network unless that is allowed.
 */
import { spawnSync } from 'node:child_process';
import type { CommandLine } from './process-group.ts';

export interface Sandbox {
  readonly kind: 'bwrap';
  readonly network: boolean;
  /** Folders that the command does not see. */
  readonly hidden: () => readonly string[];
}

/** A server that runs as root would pass on its capabilities, for example to remount the disk. */
const isolation = ['--unshare-all', '--cap-drop', 'ALL'];
const readOnlyRoot = ['--ro-bind', '/', '/', '--dev', '/dev', '--proc', '/proc'];
const kernelSettings = ['/proc/sys', '/proc/sysrq-trigger', '/proc/mtrr'];

export function inBubblewrap(root: string, line: CommandLine, sandbox: Sandbox): CommandLine {
  const { network, hidden } = sandbox;
  const args = [
    '--die-with-parent',
    '--new-session',
    ...isolation,
    ...(network ? ['--share-net'] : []),
    ...readOnlyRoot,
    // Root can write kernel settings like other files, even without capabilities.
    ...kernelSettings.flatMap((path) => ['--ro-bind-try', path, path]),
    // Sockets of services in `/run`, such as Docker's, can be used even on a read-only file system.
    ...['/tmp', '/run'].flatMap((folder) => ['--tmpfs', folder]),
    ...(network ? ['--ro-bind-try', '/run/systemd/resolve', '/run/systemd/resolve'] : []),
    ...hidden().flatMap((folder) => ['--tmpfs', folder]),
  ];
  const command = ['--bind', root, root, '--chdir', line.cwd, '--', line.file, ...line.args];
  return { ...line, file: 'bwrap', args: [...args, ...command], cwd: root };
}

/** Why bubblewrap cannot be used here; undefined if it can. */
export function bubblewrapProblem(): string | undefined {
  const trial = [...isolation, ...readOnlyRoot, 'true'];
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
