/**
 * Processes that bear a mark in their environment: which command they belong to, and which server has
 * started it. Elsewhere than on Linux nobody can say.
 */
import { readFileSync, readlinkSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';

export const markName = 'RELAY_COMMAND';
/** Looks for them: one may be forking, or turning into another program. */
const looks = { calm: 2, most: 100, pauseMs: 5 };

interface Bearers {
  readonly pids: readonly number[];
  /** Some process shows no environment just now, as one does that is turning into another program. */
  readonly unclear: boolean;
}

interface Status {
  readonly state: string;
  readonly flags: number;
  readonly beganAt: number;
}

type Look = 'bears' | 'unclear' | 'other';

const isLinux = process.platform === 'linux';
const kernelThread = 0x20_0000;

/** A mark of this very process, wherever its number may be given again. */
export function markOf(commandId: string): string {
  return `${self().join('.')}.${commandId}`;
}

/**
 * Ends all that bear a mark which `isMeant`, and whatever they have become meanwhile.
 * @param since When the first that could bear it began, as the system counts.
 */
export async function endBearers(
  isMeant: (mark: string) => boolean,
  since: number,
): Promise<number> {
  const ended = new Set<number>();
  let calm = 0;
  for (let look = 0; calm < looks.calm && look < looks.most; look += 1) {
    const { pids, unclear } = await bearers(isMeant, since);
    for (const pid of pids) {
      ended.add(pid);
      kill(pid, 'SIGKILL');
    }
    calm = pids.length === 0 && !unclear ? calm + 1 : 0;
    if (calm === 0) await sleep(looks.pauseMs);
  }
  return ended.size;
}

/**
 * Ends the commands of servers that are gone, as `kill -9` leaves them behind, and says how many
 * processes these were. Those of a server that lives are its own affair, and so are those in another
 * container, where numbers mean other processes.
 */
export async function endOrphans(): Promise<number> {
  const own = process.env[markName];
  const [space] = self();
  return endBearers((mark) => {
    const [theirs, pid, beganAt] = mark.split('.');
    if (theirs !== space || mark === own || beganAt === undefined) return false;
    return !lives(Number(pid), Number(beganAt));
  }, Infinity);
}

export function kill(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // Nobody is left.
  }
}

/** Where our number counts, our number, and when we began. */
function self(): readonly [string, number, number] {
  let space = '';
  try {
    space = readlinkSync('/proc/self/ns/pid').replace(/\D/g, '');
  } catch {
    // Not on Linux: nobody will look for it.
  }
  return [space, process.pid, beginOf(process.pid)];
}

function lives(pid: number, beganAt: number): boolean {
  const status = statusOf(pid);
  return status !== undefined && !isDead(status) && status.beganAt === beganAt;
}

async function bearers(isMeant: (mark: string) => boolean, since: number): Promise<Bearers> {
  if (!isLinux) return { pids: [], unclear: false };
  const names = await readdir('/proc').catch(() => []);
  const pids = names.filter((name) => /^\d+$/.test(name)).map(Number);
  const found = await Promise.all(pids.map((pid) => look(pid, isMeant, since)));
  return {
    pids: pids.filter((_, index) => found[index] === 'bears'),
    unclear: found.includes('unclear'),
  };
}

/** When a process began, in the system's ticks; 0 if that cannot be told. */
export function beginOf(pid: number | undefined): number {
  return (pid === undefined ? undefined : statusOf(pid))?.beganAt ?? 0;
}

function statusOf(pid: number): Status | undefined {
  try {
    return isLinux ? statusIn(readFileSync(`/proc/${pid}/stat`, 'utf8')) : undefined;
  } catch {
    return undefined;
  }
}

async function look(pid: number, isMeant: (mark: string) => boolean, since: number): Promise<Look> {
  if (pid === process.pid) return 'other';
  try {
    const environment = await readFile(`/proc/${pid}/environ`);
    if (environment.length > 0) {
      const mark = markIn(environment);
      return mark !== undefined && isMeant(mark) ? 'bears' : 'other';
    }
    const status = statusIn(await readFile(`/proc/${pid}/stat`, 'utf8'));
    const { flags, beganAt } = status;
    return isDead(status) || (flags & kernelThread) !== 0 || beganAt < since ? 'other' : 'unclear';
  } catch {
    // It has ended, or is somebody else's.
    return 'other';
  }
}

/** The name in parentheses may hold anything, so that one counts from behind it. */
function statusIn(stat: string): Status {
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return { state: fields[0] ?? '', flags: Number(fields[6]), beganAt: Number(fields[19]) };
}

/** Ended, though nobody has asked how. */
function isDead({ state }: Status): boolean {
  return state === 'Z' || state === 'X';
}

function markIn(environment: Buffer): string | undefined {
  const name = `${markName}=`;
  const at = environment.indexOf(name);
  if (at < 0 || (at > 0 && environment[at - 1] !== 0)) return undefined;
  const end = environment.indexOf(0, at);
  return environment.toString('latin1', at + name.length, end < 0 ? undefined : end);
}
