/**
 * A marker in the environment of processes: it names the server process and the command that started
 * them. It finds descendants that left their process group, and those of a server that crashed.
 * Markers can be read on Linux only.
 */
import { readFileSync, readlinkSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';

export const markerVariable = 'RELAY_COMMAND';
/** One scan can miss a process that is just forking or executing another program. */
const scans = { cleanInARow: 2, most: 100, pauseMs: 5 };

interface ScanResult {
  readonly pids: readonly number[];
  /** A process shows no environment, as one does while it executes another program. */
  readonly isUncertain: boolean;
}

interface ProcessStatus {
  readonly state: string;
  readonly flags: number;
  /** In clock ticks since the system was started. */
  readonly startTime: number;
}

type ProcessMatch = 'marked' | 'uncertain' | 'other';

const isLinux = process.platform === 'linux';
const kernelThreadFlag = 0x20_0000;

/** Unique to this server process, even if its pid is reused. */
export function createMarker(commandId: string): string {
  return `${serverIdentity().join('.')}.${commandId}`;
}

/**
 * Kills all processes whose marker matches, and the processes that they start meanwhile.
 * @param since The start time of the first process that can have the marker.
 * @returns The number of processes that were killed.
 */
export async function killMarked(
  matches: (marker: string) => boolean,
  since: number,
): Promise<number> {
  const killed = new Set<number>();
  let clean = 0;
  for (let scan = 0; clean < scans.cleanInARow && scan < scans.most; scan += 1) {
    const { pids, isUncertain } = await scanProcesses(matches, since);
    for (const pid of pids) {
      killed.add(pid);
      kill(pid, 'SIGKILL');
    }
    clean = pids.length === 0 && !isUncertain ? clean + 1 : 0;
    if (clean === 0) await sleep(scans.pauseMs);
  }
  return killed.size;
}

/**
 * Kills the commands of servers that no longer run, as after `kill -9`, and returns how many processes
 * there were. Commands of running servers are left alone, and so are those of another pid namespace,
 * where the same pids belong to other processes.
 */
export async function killOrphanProcesses(): Promise<number> {
  const own = process.env[markerVariable];
  const [namespace] = serverIdentity();
  return killMarked((marker) => {
    const [theirs, pid, startTime] = marker.split('.');
    if (theirs !== namespace || marker === own || startTime === undefined) return false;
    return !isRunning(Number(pid), Number(startTime));
  }, Infinity);
}

/** For what this process starts with another environment: it belongs to the same command. */
export function ownMarker(): Record<string, string> {
  const own = process.env[markerVariable];
  return own === undefined ? {} : { [markerVariable]: own };
}

/** Kills the other processes of the command that this process belongs to. */
export async function killOwnProcesses(): Promise<void> {
  const own = process.env[markerVariable];
  if (own !== undefined) await killMarked((marker) => marker === own, startTimeOf(process.pid));
}

/**
 * How much memory the processes of each marker use, in bytes, without what they share with files. Empty
 * where markers cannot be read.
 */
export async function memoryByMarker(): Promise<Map<string, number>> {
  const memory = new Map<string, number>();
  await Promise.all(
    (await listProcesses()).map(async (pid) => {
      try {
        const marker = markerIn(await readFile(`/proc/${pid}/environ`));
        if (marker === undefined) return;
        const bytes = anonymousBytes(await readFile(`/proc/${pid}/status`, 'latin1'));
        memory.set(marker, (memory.get(marker) ?? 0) + bytes);
      } catch {
        // It has ended, or belongs to another user.
      }
    }),
  );
  return memory;
}

function anonymousBytes(status: string): number {
  return [...status.matchAll(/^Rss(?:Anon|Shmem):\s+(\d+) kB$/gm)].reduce(
    (sum, [, kilobytes]) => sum + Number(kilobytes) * 1024,
    0,
  );
}

export function kill(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // The process has ended.
  }
}

/** When a process started, in clock ticks; 0 if that is unknown. */
export function startTimeOf(pid: number | undefined): number {
  return (pid === undefined ? undefined : readStatus(pid))?.startTime ?? 0;
}

/** The pid namespace of this process, its pid and its start time. */
function serverIdentity(): readonly [string, number, number] {
  let namespace = '';
  try {
    namespace = readlinkSync('/proc/self/ns/pid').replace(/\D/g, '');
  } catch {
    // Not on Linux, where markers are not read.
  }
  return [namespace, process.pid, startTimeOf(process.pid)];
}

function isRunning(pid: number, startTime: number): boolean {
  const status = readStatus(pid);
  return status !== undefined && !hasExited(status) && status.startTime === startTime;
}

async function scanProcesses(
  matches: (marker: string) => boolean,
  since: number,
): Promise<ScanResult> {
  const pids = await listProcesses();
  const found = await Promise.all(pids.map((pid) => matchProcess(pid, matches, since)));
  return {
    pids: pids.filter((_, index) => found[index] === 'marked'),
    isUncertain: found.includes('uncertain'),
  };
}

async function listProcesses(): Promise<number[]> {
  if (!isLinux) return [];
  const names = await readdir('/proc').catch(() => []);
  return names.filter((name) => /^\d+$/.test(name)).map(Number);
}

async function matchProcess(
  pid: number,
  matches: (marker: string) => boolean,
  since: number,
): Promise<ProcessMatch> {
  if (pid === process.pid) return 'other';
  try {
    const environment = await readFile(`/proc/${pid}/environ`);
    if (environment.length > 0) {
      const marker = markerIn(environment);
      return marker !== undefined && matches(marker) ? 'marked' : 'other';
    }
    const status = parseStatus(await readFile(`/proc/${pid}/stat`, 'utf8'));
    const isKernelThread = (status.flags & kernelThreadFlag) !== 0;
    const isOther = hasExited(status) || isKernelThread || status.startTime < since;
    return isOther ? 'other' : 'uncertain';
  } catch {
    // It has ended, or belongs to another user.
    return 'other';
  }
}

function readStatus(pid: number): ProcessStatus | undefined {
  try {
    return isLinux ? parseStatus(readFileSync(`/proc/${pid}/stat`, 'utf8')) : undefined;
  } catch {
    return undefined;
  }
}

/** The name in parentheses can contain anything, so the fields are counted from its end. */
function parseStatus(stat: string): ProcessStatus {
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return { state: fields[0] ?? '', flags: Number(fields[6]), startTime: Number(fields[19]) };
}

/** A zombie, or dead. */
function hasExited({ state }: ProcessStatus): boolean {
  return state === 'Z' || state === 'X';
}

function markerIn(environment: Buffer): string | undefined {
  const name = `${markerVariable}=`;
  const at = environment.indexOf(name);
  if (at < 0 || (at > 0 && environment[at - 1] !== 0)) return undefined;
  const end = environment.indexOf(0, at);
  return environment.toString('latin1', at + name.length, end < 0 ? undefined : end);
}
