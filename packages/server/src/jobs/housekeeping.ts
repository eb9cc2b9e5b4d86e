import type { Clock, Log, SystemStore } from '@relay/core';
import { deliveryTimeoutMs } from '../webhooks/deliverer.ts';

const everyMs = 60_000;
const piece = 100;
const deliveriesKeptMs = 7 * 24 * 60 * 60_000;

export interface HousekeepingOptions {
  readonly store: Pick<SystemStore, 'sweepMemories' | 'pruneRuns' | 'deliveries'>;
  /** How long a conversation is kept after its last run has ended. Left out: for ever. */
  readonly retentionMs?: number | undefined;
  /** What lies beside the store. */
  readonly outputs?: { sweep(): Promise<void> };
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
        await this.#prune();
        await this.#options.outputs?.sweep();
        await this.#sweepDeliveries();
      } catch (error) {
        // What has expired is as good as gone: nobody is shown it. The rest waits for the next time.
        log.warn('What has expired could not be cleared away', { error: String(error) });
      }
      await clock.sleep(everyMs, this.#stopped.signal);
    }
  }

  /** Several nodes may do so at once: each finds what the others have left. */
  async #prune(): Promise<void> {
    const { store, clock, retentionMs } = this.#options;
    if (retentionMs === undefined) return;
    const before = clock.now() - retentionMs;
    let pruned = 1;
    while (pruned > 0 && !this.#stopped.signal.aborted) {
      pruned = await store.pruneRuns(before, piece);
    }
  }

  /** An attempt that is late by a claim may still end; what is over is shown for a week. */
  async #sweepDeliveries(): Promise<void> {
    const { store, clock } = this.#options;
    const now = clock.now();
    const by = {
      giveUpBefore: now - deliveryTimeoutMs - 60 * 60_000,
      forgetBefore: now - deliveriesKeptMs,
      limit: piece,
    };
    let swept = 1;
    while (swept > 0 && !this.#stopped.signal.aborted) swept = await store.deliveries.sweep(by);
  }

  async #sweep(): Promise<void> {
    const { store, clock } = this.#options;
    let swept = piece;
    while (swept === piece && !this.#stopped.signal.aborted) {
      swept = await store.sweepMemories(clock.now(), piece);
    }
  }
}
