import { BackgroundLoop, type Clock, type Log, type SystemStore } from '@relay/core';
import { deliveryTimeoutMs } from './webhook-deliverer.ts';

const intervalMs = 60_000;
const batchSize = 100;
const deliveriesKeptMs = 7 * 24 * 60 * 60_000;

export interface HousekeepingOptions {
  readonly store: Pick<SystemStore, 'sweepMemories' | 'pruneRuns' | 'deliveries'>;
  /** How long a conversation is kept after its last run has ended. Undefined: forever. */
  readonly retentionMs?: number | undefined;
  /** Files outside the store. */
  readonly outputs?: { sweep(): Promise<void> };
  readonly clock: Clock;
  readonly log: Log;
}

/** Periodically deletes expired memories, conversations, outputs and deliveries, in small batches. */
export class Housekeeping {
  readonly #options: HousekeepingOptions;
  readonly #loop: BackgroundLoop;

  constructor(options: HousekeepingOptions) {
    const { clock, log } = options;
    this.#options = options;
    this.#loop = new BackgroundLoop({
      clock,
      intervalMs,
      step: (signal) => this.#deleteExpired(signal),
      // Reads skip expired rows, so a late deletion is harmless.
      onError: (error) => log.warn('Failed to delete expired data', { error: String(error) }),
    });
  }

  start(): void {
    this.#loop.start();
  }

  stop(): Promise<void> {
    return this.#loop.stop();
  }

  async #deleteExpired(signal: AbortSignal): Promise<void> {
    await this.#sweepMemories(signal);
    await this.#prune(signal);
    await this.#options.outputs?.sweep();
    await this.#sweepDeliveries(signal);
  }

  /** Several nodes may prune at once. */
  async #prune(signal: AbortSignal): Promise<void> {
    const { store, clock, retentionMs } = this.#options;
    if (retentionMs === undefined) return;
    const before = clock.now() - retentionMs;
    let pruned = 1;
    while (pruned > 0 && !signal.aborted) {
      pruned = await store.pruneRuns(before, batchSize);
    }
  }

  /** A late attempt may still succeed within its claim; finished deliveries are kept for a week. */
  async #sweepDeliveries(signal: AbortSignal): Promise<void> {
    const { store, clock } = this.#options;
    const now = clock.now();
    const limits = {
      giveUpBefore: now - deliveryTimeoutMs - 60 * 60_000,
      forgetBefore: now - deliveriesKeptMs,
      limit: batchSize,
    };
    let swept = 1;
    while (swept > 0 && !signal.aborted) swept = await store.deliveries.sweep(limits);
  }

  async #sweepMemories(signal: AbortSignal): Promise<void> {
    const { store, clock } = this.#options;
    let swept = batchSize;
    while (swept === batchSize && !signal.aborted) {
      swept = await store.sweepMemories(clock.now(), batchSize);
    }
  }
}
