/** Waits; rejects with the signal's reason when it is aborted. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted === true) {
      reject(signal.reason as Error);
      return;
    }
    const onAbort = () => {
      clearTimeout(timer);
      reject(signal?.reason as Error);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', onAbort);
      resolve();
    }, ms);
    signal?.addEventListener('abort', onAbort, { once: true });
  });
}

const minDelayMs = 250;
const maxDelayMs = 10_000;

/**
 * Exponential backoff with jitter in the upper half, so that the clients of a restarted server do not
 * reconnect all at once. Never shorter than the server's `Retry-After`.
 */
export function backoff(attempt: number, retryAfterMs = 0): number {
  const delay = Math.min(maxDelayMs, minDelayMs * 2 ** Math.min(attempt, 16));
  return Math.max(retryAfterMs, delay / 2 + Math.random() * (delay / 2));
}

export function anyOf(...signals: readonly (AbortSignal | undefined)[]): AbortSignal {
  return AbortSignal.any(signals.filter((signal) => signal !== undefined));
}
