import type { Clock, Log, SystemStore } from '@relay/core';

const everyMs = 60_000;
const piece = 100;

export interface HousekeepingOptions {
  readonly store: Pick<SystemStore, 'sweepMemories'>;
  readonly clock: Clock;
  readonly log: Log;
}

/** Clears away what has expired, now and then, a little at a time. */
export class Housekeeping {
  readonly #options: HousekeepingOptions;
  readonly #stopped = new AbortController();
  #work: Promise<void> = Promise.resolve();

  constructor(options: HousekeepingOptions) {
    this.#options = options;
  }

  start(): void {
    this.#work = this.#keep();
  }

  async stop(): Promise<void> {
    this.#stopped.abort();
    await this.#work;
  }

  async #keep(): Promise<void> {
    const { clock, log } = this.#options;
    while (!this.#stopped.signal.aborted) {
      try {
        await this.#sweep();
      } catch (error) {
        // What cannot be cleared away now is as good as gone: nobody is shown it.
        log.warn('Expired memories could not be cleared away', { error: String(error) });
      }
      await clock.sleep(everyMs, this.#stopped.signal);
    }
  }

  async #sweep(): Promise<void> {
    const { store, clock } = this.#options;
    let swept = piece;
    while (swept === piece && !this.#stopped.signal.aborted) {
      swept = await store.sweepMemories(clock.now(), piece);
    }
  }
}
