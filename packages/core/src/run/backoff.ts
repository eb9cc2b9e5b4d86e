const baseMs = 250;
const maxMs = 30_000;

/** A provider that asks for more patience than this is treated as having failed. */
export const maxRetryAfterMs = 60_000;

/** Exponential with jitter, and never sooner than the provider asked for. */
export function backoffMs(attempt: number, retryAfterMs = 0): number {
  const ceiling = Math.min(maxMs, baseMs * 2 ** (attempt - 1));
  return Math.max(retryAfterMs, ceiling * (0.5 + Math.random() / 2));
}
