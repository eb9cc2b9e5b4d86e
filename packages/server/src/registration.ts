/**
 * The servers that run on this machine: one small file per process, so that the CLI finds a server and its
 * data folder from any folder. The files contain no secret, and only their owner can read them. A file whose
 * process is gone, as after `kill -9`, is ignored and deleted by the next reader.
 *
 * The CLI sends the key in a data folder to the URL of its registration. So a file counts only if this user
 * wrote it, and if its URL is an address of this machine.
 */
import {
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { isIP } from 'node:net';
import { homedir, networkInterfaces } from 'node:os';
import { isAbsolute, join } from 'node:path';
import { startTimeOf } from '@relay/processes';

export interface RegisteredServer {
  readonly pid: number;
  /** An address that programs on this machine can use. */
  readonly url: string;
  readonly dataDir: string;
  /** The folder that the server was started in, whose `.env` it reads. */
  readonly cwd: string;
  readonly startedAt: string;
}

interface Registration extends RegisteredServer {
  /** Distinguishes the process from a later one with the same pid; 0 if it is unknown. */
  readonly processStart: number;
}

type Environment = Readonly<Record<string, string | undefined>>;

function folderIn(env: Environment): string {
  const state = env['XDG_STATE_HOME']?.trim() ?? '';
  return join(state === '' ? join(homedir(), '.local', 'state') : state, 'relay', 'servers');
}

/**
 * Registers this process until it exits, or calls the result. A home that cannot be written to, as in many
 * containers, is no error: the CLI then needs a URL and a key.
 */
export function registerServer(
  env: Environment,
  server: Pick<RegisteredServer, 'url' | 'dataDir' | 'cwd'>,
): () => void {
  const { pid } = process;
  const registration: Registration = {
    pid,
    url: reachableUrl(server.url),
    dataDir: server.dataDir,
    cwd: server.cwd,
    startedAt: new Date().toISOString(),
    processStart: startTimeOf(pid),
  };
  const folder = folderIn(env);
  const path = join(folder, `${pid}.json`);
  const draft = join(folder, `${pid}.draft`);
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    writeFileSync(draft, `${JSON.stringify(registration)}\n`, { mode: 0o600 });
    renameSync(draft, path);
  } catch {
    return () => undefined;
  }
  const unregister = () => {
    process.off('exit', unregister);
    remove(path);
  };
  process.once('exit', unregister);
  return unregister;
}

/** An address that means all interfaces is none that a client should use. */
export function reachableUrl(url: string): string {
  const parsed = new URL(url);
  if (parsed.hostname === '0.0.0.0') parsed.hostname = '127.0.0.1';
  if (parsed.hostname === '[::]') parsed.hostname = '[::1]';
  return parsed.origin;
}

/** The earliest first. */
export function runningServers(env: Environment): RegisteredServer[] {
  const folder = folderIn(env);
  let names: string[];
  try {
    names = readdirSync(folder).filter((name) => /^\d+\.json$/.test(name));
  } catch {
    return [];
  }
  return names
    .flatMap((name) => readRunning(join(folder, name)))
    .toSorted((a, b) => a.startedAt.localeCompare(b.startedAt));
}

function readRunning(path: string): RegisteredServer[] {
  const registration = readRegistration(path);
  if (registration === undefined) return [];
  const { processStart, ...server } = registration;
  if (isRunning(server.pid, processStart)) return [server];
  remove(path);
  return [];
}

/** Undefined if it is another user's, or none. */
function readRegistration(path: string): Registration | undefined {
  let content: unknown;
  try {
    const { uid, mode } = lstatSync(path);
    // A symbolic link has all permissions.
    if (uid !== process.getuid?.() || (mode & 0o077) !== 0) return undefined;
    content = JSON.parse(readFileSync(path, 'utf8'));
  } catch {
    return undefined;
  }
  const { pid, url, dataDir, cwd, startedAt, processStart } = (content ?? {}) as Record<
    string,
    unknown
  >;
  const isValid =
    isWholeNumber(pid) &&
    pid > 0 &&
    isWholeNumber(processStart) &&
    typeof url === 'string' &&
    isOfThisMachine(url) &&
    typeof dataDir === 'string' &&
    isAbsolute(dataDir) &&
    typeof cwd === 'string' &&
    typeof startedAt === 'string';
  return isValid ? { pid, url, dataDir, cwd, startedAt, processStart } : undefined;
}

function isWholeNumber(value: unknown): value is number {
  return Number.isSafeInteger(value);
}

function isOfThisMachine(url: string): boolean {
  const { protocol, hostname, origin } = URL.canParse(url) ? new URL(url) : {};
  if (hostname === undefined || protocol !== 'http:' || origin !== url) return false;
  if (hostname === 'localhost' || hostname === '[::1]') return true;
  if (isIP(hostname) === 4 && hostname.startsWith('127.')) return true;
  const address = hostname.replace(/^\[(.*)\]$/, '$1');
  return Object.values(networkInterfaces()).some((each) =>
    each?.some((known) => known.address === address),
  );
}

function isRunning(pid: number, processStart: number): boolean {
  try {
    process.kill(pid, 0);
  } catch {
    // None, or one of another user, whose server is not in these files.
    return false;
  }
  const started = startTimeOf(pid);
  return started === 0 || processStart === 0 || started === processStart;
}

function remove(path: string): void {
  try {
    rmSync(path, { force: true });
  } catch {
    // Another user's, or on a file system that is read-only now.
  }
}
