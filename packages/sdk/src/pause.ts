/** Waits; rejects with the signal's reason as soon as it is aborted. */
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted === true) {
      reject(signal.reason as Error);
      return;
    }
    const give = () => {
      clearTimeout(timer);
      reject(signal?.reason as Error);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', give);
      resolve();
    }, ms);
    signal?.addEventListener('abort', give, { once: true });
  });
}

const firstMs = 250;
const longestMs = 10_000;

/**
 * How long to wait before the next attempt: twice as long each time, and at random within the upper
 * half, so that many clients of a server that went down do not come back all at once. Never sooner
 * than the server said.
 */
export function backoff(attempt: number, retryAfterMs = 0): number {
  const most = Math.min(longestMs, firstMs * 2 ** Math.min(attempt, 16));
  return Math.max(retryAfterMs, most / 2 + Math.random() * (most / 2));
}

/** Aborted as soon as one of them is. */
export function anyOf(...signals: readonly (AbortSignal | undefined)[]): AbortSignal {
  return AbortSignal.any(signals.filter((signal) => signal !== undefined));
}
