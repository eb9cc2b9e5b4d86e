import { BackgroundLoop, type Clock, type Log, type SystemStore } from '@relay/core';
import { deliveryTimeoutMs } from '../webhooks/deliverer.ts';

const intervalMs = 60_000;
const piece = 100;
const deliveriesKeptMs = 7 * 24 * 60 * 60_000;

export interface HousekeepingOptions {
  readonly store: Pick<SystemStore, 'deleteExpiredMemories' | 'pruneRuns' | 'deliveries'>;
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
  readonly #loop: BackgroundLoop;

  constructor(options: HousekeepingOptions) {
    const { clock, log } = options;
    this.#options = options;
    this.#loop = new BackgroundLoop({
      clock,
      intervalMs,
      step: (signal) => this.#clear(signal),
      // What has expired is not shown any more. The rest waits for the next step.
      onError: (error) =>
        log.warn('What has expired could not be cleared away', { error: String(error) }),
    });
  }

  start(): void {
    this.#loop.start();
  }

  stop(): Promise<void> {
    return this.#loop.stop();
  }

  async #clear(signal: AbortSignal): Promise<void> {
    await this.#sweep(signal);
    await this.#prune(signal);
    await this.#options.outputs?.sweep();
    await this.#sweepDeliveries(signal);
  }

  /** Several nodes may do so at once: each finds what the others have left. */
  async #prune(signal: AbortSignal): Promise<void> {
    const { store, clock, retentionMs } = this.#options;
    if (retentionMs === undefined) return;
    const before = clock.now() - retentionMs;
    let pruned = 1;
    while (pruned > 0 && !signal.aborted) {
      pruned = await store.pruneRuns(before, piece);
    }
  }

  /** An attempt that is late by a claim may still end; what is over is shown for a week. */
  async #sweepDeliveries(signal: AbortSignal): Promise<void> {
    const { store, clock } = this.#options;
    const now = clock.now();
    const by = {
      failBefore: now - deliveryTimeoutMs - 60 * 60_000,
      deleteBefore: now - deliveriesKeptMs,
      limit: piece,
    };
    let swept = 1;
    while (swept > 0 && !signal.aborted) swept = await store.deliveries.sweep(by);
  }

  async #sweep(signal: AbortSignal): Promise<void> {
    const { store, clock } = this.#options;
    let swept = piece;
    while (swept === piece && !signal.aborted) {
      swept = await store.deleteExpiredMemories(clock.now(), piece);
    }
  }
}
