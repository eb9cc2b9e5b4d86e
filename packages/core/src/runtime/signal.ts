/**
 * Wakes waiters, like a condition variable: `notify` wakes those that wait now and is not remembered.
 * So check the condition, then wait, without an `await` in between.
 */
import type { Clock } from '../ports/index.ts';

export interface Timeout {
  readonly clock: Clock;
  readonly ms: number;
  readonly signal?: AbortSignal | undefined;
}

export class Signal {
  #waiting: (() => void)[] = [];

  /** Whether a caller waits for it now. */
  get isAwaited(): boolean {
    return this.#waiting.length > 0;
  }

  notify(): void {
    const waiting = this.#waiting;
    if (waiting.length === 0) return;
    this.#waiting = [];
    for (const wake of waiting) wake();
  }

  /** Resolves at the next `notify`. */
  wait(): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting.push(resolve);
    });
  }

  /** Resolves at the next `notify`, after `ms`, or when the signal is aborted. It never rejects. */
  async waitFor({ clock, ms, signal }: Timeout): Promise<'notified' | 'timeout' | 'aborted'> {
    if (signal?.aborted === true) return 'aborted';
    const wake = new AbortController();
    let outcome: 'notified' | 'timeout' | 'aborted' = 'timeout';
    const end = (how: typeof outcome) => {
      outcome = how;
      wake.abort();
    };
    const notify = () => end('notified');
    const abort = () => end('aborted');
    this.#waiting.push(notify);
    signal?.addEventListener('abort', abort);
    await clock.sleep(ms, wake.signal);
    this.#waiting = this.#waiting.filter((waiting) => waiting !== notify);
    signal?.removeEventListener('abort', abort);
    return outcome;
  }
}
