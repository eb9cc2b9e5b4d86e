/** Which processes bear a mark in their environment. Elsewhere than on Linux nobody can say. */
import { readFileSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';

export interface Bearers {
  readonly pids: readonly number[];
  /** Some process shows no environment just now, as one does that is turning into another program. */
  readonly unclear: boolean;
}

type Look = 'bears' | 'unclear' | 'other';

const isLinux = process.platform === 'linux';
const kernelThread = 0x20_0000;

/** @param since When the first that could bear it began, as the system counts. */
export async function bearersOf(mark: string, since: number): Promise<Bearers> {
  if (!isLinux) return { pids: [], unclear: false };
  const names = await readdir('/proc').catch(() => []);
  const pids = names.filter((name) => /^\d+$/.test(name)).map(Number);
  const looks = await Promise.all(pids.map((pid) => look(pid, mark, since)));
  return {
    pids: pids.filter((_, index) => looks[index] === 'bears'),
    unclear: looks.includes('unclear'),
  };
}

/** When a process began, in the system's ticks; 0 if that cannot be told. */
export function beginOf(pid: number | undefined): number {
  if (!isLinux || pid === undefined) return 0;
  try {
    return statusIn(readFileSync(`/proc/${pid}/stat`, 'utf8')).beganAt;
  } catch {
    return 0;
  }
}

async function look(pid: number, mark: string, since: number): Promise<Look> {
  if (pid === process.pid) return 'other';
  try {
    const environment = await readFile(`/proc/${pid}/environ`);
    if (environment.length > 0) return environment.includes(mark) ? 'bears' : 'other';
    const { state, flags, beganAt } = statusIn(await readFile(`/proc/${pid}/stat`, 'utf8'));
    const isDead = state === 'Z' || state === 'X';
    return isDead || (flags & kernelThread) !== 0 || beganAt < since ? 'other' : 'unclear';
  } catch {
    // It has ended, or is somebody else's.
    return 'other';
  }
}

/** The name in parentheses may hold anything, so that one counts from behind it. */
function statusIn(stat: string): { state: string; flags: number; beganAt: number } {
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return { state: fields[0] ?? '', flags: Number(fields[6]), beganAt: Number(fields[19]) };
}
