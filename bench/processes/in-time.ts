import { setTimeout as pause } from 'node:timers/promises';

const deadlineMs = 60_000;

/** Waits much longer than `what` should take, so that a benchmark fails instead of hanging. */
export async function inTime<Result>(what: string, awaited: Promise<Result>): Promise<Result> {
  const isOver = new AbortController();
  const late = pause(deadlineMs, undefined, { signal: isOver.signal }).then(() => {
    throw new Error(`${what}: nothing happened for ${deadlineMs / 1000} s`);
  });
  try {
    return await Promise.race([awaited, late]);
  } finally {
    isOver.abort();
  }
}
