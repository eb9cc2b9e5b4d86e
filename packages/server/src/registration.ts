/**
 * The servers that run on this machine: one small file per process, so that the CLI finds a server and its
 * data folder from any folder. The files contain no secret, and only their owner can read them. A file whose
 * process is gone, as after `kill -9`, is ignored and deleted by the next reader.
 */
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { startTimeOf } from '@relay/processes';

export interface RegisteredServer {
  readonly pid: number;
  /** An address that programs on this machine can use. */
  readonly url: string;
  readonly dataDir: string;
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
 * Registers this process until it exits. A home that cannot be written to, as in many containers, is no
 * error: the CLI then needs `--url` or `RELAY_URL`.
 */
export function registerServer(
  env: Environment,
  server: Pick<RegisteredServer, 'url' | 'dataDir'>,
): void {
  const { pid } = process;
  const registration: Registration = {
    pid,
    url: reachableUrl(server.url),
    dataDir: server.dataDir,
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
    return;
  }
  process.once('exit', () => remove(path));
}

/** An address that means all interfaces is none that a client should use. */
function reachableUrl(url: string): string {
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
  let registration: Partial<Registration>;
  try {
    registration = JSON.parse(readFileSync(path, 'utf8')) as Partial<Registration>;
  } catch {
    return [];
  }
  const { pid, url, dataDir, startedAt, processStart = 0 } = registration;
  if (pid === undefined || url === undefined || dataDir === undefined || startedAt === undefined) {
    return [];
  }
  if (isRunning(pid, processStart)) return [{ pid, url, dataDir, startedAt }];
  remove(path);
  return [];
}

function isRunning(pid: number, processStart: number): boolean {
  try {
    process.kill(pid, 0);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ESRCH') return false;
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
