/** Calls of a harness, whose code may throw anything, or never answer. */
import type { Clock } from '@relay/core';

const maxReasonChars = 1_000;

/** Rejects if the work takes longer. */
export async function within<Value>(
  clock: Clock,
  ms: number,
  work: () => Promise<Value>,
): Promise<Value> {
  const over = new AbortController();
  const timeout = clock.sleep(ms, over.signal).then((): never => {
    throw new Error(`It did not answer within ${ms} ms`);
  });
  try {
    return await Promise.race([(async () => work())(), timeout]);
  } finally {
    over.abort();
  }
}

/** Why it failed, in words of bounded length. */
export function messageOf(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  return text === '' ? 'no reason was given' : text.slice(0, maxReasonChars);
}
