import type { Clock } from '../ports/index.ts';

/** Timers count in 31 bits. */
const longestMs = 2 ** 31 - 1;

/** The time that everybody has; timers are all it takes from the world. */
export const systemClock: Clock = {
  // Looked up each time, for programs that replace time in their tests.
  now: () => Date.now(),
  sleep: (ms, signal) =>
    new Promise((resolve) => {
      const wake = (): void => {
        clearTimeout(timer);
        signal?.removeEventListener('abort', wake);
        resolve();
      };
      const timer = setTimeout(wake, Math.min(ms, longestMs));
      signal?.addEventListener('abort', wake);
      if (signal?.aborted === true) wake();
    }),
};
