/**
 * A command inside bubblewrap: it can write to the workspace and read the rest of the disk, except
 * for folders of Relay, of other tenants and of other services, which are hidden. It sees no other
 * processes, and no network if that is switched off. In the workspace, files that programs outside
 * the sandbox run or take settings from are read-only.
 */
import { execFile, type ExecFileException, spawnSync } from 'node:child_process';
import { lstat, mkdir, open, rm, rmdir } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { isWithin, realPathOf } from './paths.ts';
import type { CommandLine } from './process-group.ts';

export interface Sandbox {
  /** Which commands run in it: those that a rule allowed, or all. */
  readonly commands: 'allowed-by-rule' | 'all';
  readonly network: boolean;
  /** The most memory of one process, as its own data. */
  readonly memoryBytes: number;
  /** The most processes and threads; not enforced by Linux if the server runs as root. */
  readonly processes: number;
}

export interface SandboxView {
  readonly root: string;
  readonly home: string;
  /** Folders that the command does not see. */
  readonly hidden: readonly string[];
  /**
   * For a command that a rule allowed: what it must not change in the workspace. Its home folder is not
   * kept either. Undefined: a person approved the command.
   */
  readonly protectedPaths?: Omit<ProtectedPaths, 'release'>;
  /** The command makes sandboxes of its own. Default: as root it cannot. */
  readonly isNesting?: boolean;
  /** The command has a terminal of its own, which it keeps. Default: it gets none, also not the server's. */
  readonly hasTerminal?: boolean;
}

/** A server that runs as root would pass on its capabilities, for example to remount the disk. */
const isolation = ['--unshare-all', '--cap-drop', 'ALL'];
/** Without the capability, root is not mapped into a further user namespace. It has no effect outside of its own. */
const nesting = ['--unshare-user', '--cap-add', 'CAP_SETFCAP'];
const readOnlyRoot = ['--ro-bind', '/', '/', '--dev', '/dev', '--proc', '/proc'];
const kernelSettings = ['/proc/sys', '/proc/sysrq-trigger', '/proc/mtrr'];
/** Closes what the server itself inherited. A lower limit that is already in force stays. */
const prepare =
  'for f in /proc/self/fd/*; do f=${f##*/}; ((f > 2)) && eval "exec $f>&-"; done; ' +
  'ulimit -d "$1" 2>/dev/null; ulimit -u "$2" 2>/dev/null; ' +
  // What stands for missing files is not new to git.
  'if [ -n "$3" ]; then mkdir -p ~/.config/git; printf %s "$3" > ~/.config/git/ignore; fi; ' +
  'shift 3; exec "$@"';

export function inBubblewrap(line: CommandLine, sandbox: Sandbox, view: SandboxView): CommandLine {
  const { network, memoryBytes, processes } = sandbox;
  const { root, home, hidden, protectedPaths } = view;
  const { isNesting = false, hasTerminal = false } = view;
  const args = [
    '--die-with-parent',
    ...(hasTerminal ? [] : ['--new-session']),
    ...isolation,
    ...(isNesting ? nesting : []),
    ...(network ? ['--share-net'] : []),
    ...readOnlyRoot,
    // Root can write kernel settings like other files, even without capabilities.
    ...kernelSettings.flatMap((path) => ['--ro-bind-try', path, path]),
    // Sockets of services in `/run`, such as Docker's, can be used even on a read-only file system.
    // `ulimit` does not count files in memory.
    ...temporary('/tmp', memoryBytes),
    ...temporary('/dev/shm', memoryBytes),
    '--remount-ro',
    '/dev',
    ...temporary('/run'),
    ...(network ? ['--ro-bind-try', '/run/systemd/resolve', '/run/systemd/resolve'] : []),
    ...hidden.flatMap((folder) => temporary(folder)),
    ...(protectedPaths === undefined ? ['--bind', home, home] : temporary(home, memoryBytes)),
    // The home of the operator would show them again.
    ...hidden.filter((folder) => isWithin(home, folder)).flatMap((folder) => temporary(folder)),
    '--bind',
    root,
    root,
    // A folder that is a mount point itself cannot be renamed and replaced.
    ...(protectedPaths?.mounted ?? []).flatMap((path) => ['--bind', path, path]),
    ...(protectedPaths?.readOnly ?? []).flatMap((path) => ['--ro-bind', path, path]),
  ];
  const limited = ['bash', '--noprofile', '--norc', '-c', prepare, 'bash'];
  const ignored = protectedPaths?.missing.map((path) => `${path.slice(root.length)}\n`).join('');
  const settings = [String(Math.floor(memoryBytes / 1024)), String(processes), ignored ?? ''];
  const command = ['--chdir', line.cwd, '--', ...limited, ...settings, line.file, ...line.args];
  return { ...line, file: 'bwrap', args: [...args, ...command], cwd: root };
}

/** An empty folder in memory. By default it has no room for more than mount points. */
function temporary(folder: string, bytes = 4096): string[] {
  return [...(limitsSizes() ? ['--size', String(bytes)] : []), '--tmpfs', folder];
}

const execute = promisify(execFile);

let sizes: boolean | undefined;

/** Bubblewrap before 0.7 cannot limit the size of a folder in memory. */
function limitsSizes(): boolean {
  sizes ??= /--size/.test(spawnSync('bwrap', ['--help'], { encoding: 'utf8' }).stdout ?? '');
  return sizes;
}

export interface ProtectedPaths {
  readonly mounted: readonly string[];
  readonly readOnly: readonly string[];
  /** Of those, the ones that do not exist outside the sandbox. */
  readonly missing: readonly string[];
  /** After the command: deletes the empty files and folders that stood for missing ones. */
  release(): Promise<void>;
}

/** Paths that commands use as mount points, although there was nothing, and how many do. */
const placeholders = new Map<string, number>();
let lastChange: Promise<unknown> = Promise.resolve();

/** One after the other: a placeholder must not be deleted while another command takes it over. */
function inTurn<Value>(change: () => Promise<Value>): Promise<Value> {
  const changing = lastChange.then(change);
  lastChange = changing.catch(() => undefined);
  return changing;
}

/**
 * What sandboxed commands must not change: settings and hooks of git, and the settings of the
 * workspace itself for direnv, VS Code and npm. A missing one must not be created either: an empty one
 * stands for it meanwhile.
 * @param repositories Folders with a `.git`, besides the workspace.
 */
export async function protectPaths(
  root: string,
  repositories: readonly string[],
): Promise<ProtectedPaths> {
  const mounted: string[] = [];
  const readOnly: string[] = [];
  const missing: string[] = [];
  const held: string[] = [];
  /** False if there is something. */
  const standIn = async (path: string, kind: 'file' | 'folder'): Promise<boolean> => {
    if (!(await inTurn(() => hold(path, kind)))) return false;
    held.push(path);
    readOnly.push(path);
    missing.push(path);
    return true;
  };
  const protect = async (path: string): Promise<void> => {
    if ((await kindOf(path)) === undefined) return;
    const real = await realPathOf(path);
    if (isWithin(root, real)) readOnly.push(real);
  };
  const protectAlways = async (path: string, kind: 'file' | 'folder'): Promise<void> => {
    if (!(await standIn(path, kind))) await protect(path);
  };
  for (const folder of new Set([root, ...repositories])) {
    const git = join(folder, '.git');
    if (!isWithin(root, folder) || (await standIn(git, 'folder'))) continue;
    if ((await kindOf(git)) !== 'folder') {
      await protect(git);
      continue;
    }
    mounted.push(git);
    await protectAlways(join(git, 'config'), 'file');
    await protectAlways(join(git, 'hooks'), 'folder');
    for (const name of ['config.worktree', 'info', 'modules']) await protect(join(git, name));
  }
  for (const name of ['.envrc', '.npmrc']) await protectAlways(join(root, name), 'file');
  await protectAlways(join(root, '.vscode'), 'folder');
  return {
    mounted,
    readOnly,
    missing,
    async release() {
      await Promise.all(held.map((path) => inTurn(() => releasePlaceholder(path))));
    },
  };
}

async function kindOf(path: string): Promise<'folder' | 'other' | undefined> {
  const found = await lstat(path).catch(() => undefined);
  return found?.isDirectory() === true ? 'folder' : found && 'other';
}

/** Whether an empty file or folder stands for a missing one; each holder releases it. */
async function hold(path: string, kind: 'file' | 'folder'): Promise<boolean> {
  if (!placeholders.has(path)) {
    try {
      await (kind === 'folder' ? mkdir(path) : open(path, 'wx').then((file) => file.close()));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
      throw error;
    }
  }
  placeholders.set(path, (placeholders.get(path) ?? 0) + 1);
  return true;
}

async function releasePlaceholder(path: string): Promise<void> {
  const left = (placeholders.get(path) ?? 1) - 1;
  if (left > 0) {
    placeholders.set(path, left);
    return;
  }
  placeholders.delete(path);
  const found = await lstat(path).catch(() => undefined);
  // What another program wrote into it meanwhile stays.
  if (found?.isDirectory() === true) await rmdir(path).catch(() => undefined);
  else if (found?.isFile() === true && found.size === 0) await rm(path, { force: true });
}

let tried: Promise<string | undefined> | undefined;

/** Why bubblewrap cannot be used here; undefined if it can. It is tried once, and never rejects. */
export function bubblewrapProblem(): Promise<string | undefined> {
  return (tried ??= tryBubblewrap());
}

async function tryBubblewrap(): Promise<string | undefined> {
  try {
    await execute('bwrap', [...isolation, ...readOnlyRoot, 'true'], { timeout: 10_000 });
    return undefined;
  } catch (error) {
    const { code, signal, stderr = '' } = error as ExecFileException & { stderr?: string };
    if (code === 'ENOENT') return 'bubblewrap is not installed (no bwrap on the PATH)';
    const [why = ''] = stderr.trim().split('\n');
    return `bubblewrap does not work here: ${why === '' ? `it ended with ${code ?? signal}` : why}`;
  }
}
