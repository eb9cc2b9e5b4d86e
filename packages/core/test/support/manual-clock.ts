import type { Clock } from '../../src/ports/index.ts';

interface Sleeper {
  readonly due: number;
  readonly wake: () => void;
}

/** A clock that does not advance by itself. */
export class ManualClock implements Clock {
  #now: number;
  #sleepers: Sleeper[] = [];

  constructor(now = Date.parse('2026-01-01T00:00:00Z')) {
    this.#now = now;
  }

  /** How many wait for their time now. */
  get sleepers(): number {
    return this.#sleepers.length;
  }

  now(): number {
    return this.#now;
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    if (ms <= 0 || signal?.aborted === true) return Promise.resolve();
    return new Promise((resolve) => {
      const wake = (): void => {
        this.#sleepers = this.#sleepers.filter((each) => each !== sleeper);
        signal?.removeEventListener('abort', wake);
        resolve();
      };
      const sleeper = { due: this.#now + ms, wake };
      this.#sleepers.push(sleeper);
      signal?.addEventListener('abort', wake);
    });
  }

  /**
   * Wakes whoever is due, each at its own time and in order. Those who are woken do their work
   * before the clock goes on, so one who sleeps again is woken again if that is due too.
   */
  async advance(ms: number): Promise<void> {
    const end = this.#now + ms;
    for (;;) {
      const next = this.#next(end);
      if (next === undefined) break;
      this.#now = next.due;
      next.wake();
      await everythingElse();
    }
    this.#now = end;
  }

  #next(end: number): Sleeper | undefined {
    const due = this.#sleepers.filter((sleeper) => sleeper.due <= end);
    return due.toSorted((a, b) => a.due - b.due)[0];
  }
}

function everythingElse(): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, 0);
  });
}
