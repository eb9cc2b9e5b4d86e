import type { Clock } from '../ports/index.ts';

/** The longest delay of a timer: 31 bits. */
const longestMs = 2 ** 31 - 1;

/** The system time and its timers. */
export const systemClock: Clock = {
  // `Date` is read at each call, because programs replace it in their tests.
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
