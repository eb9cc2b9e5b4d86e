const baseMs = 250;

/** How long to wait after the n-th failure: exponential, with jitter, at most `maxMs`. */
export function exponentialBackoff(failures: number, maxMs: number): number {
  return Math.min(maxMs, baseMs * 2 ** (failures - 1)) * (0.5 + Math.random() / 2);
}
