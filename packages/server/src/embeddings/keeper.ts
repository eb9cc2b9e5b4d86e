/**
 * Sees to it that every memory gets its vector: what was just remembered at once, what a crash or a
 * failure left behind at the next look around, and what was there before embeddings were switched on.
 *
 *   waiting ──claim──▶ claimed, for minutes nobody else's ──vector──▶ stored with its model
 *      ▲                   └─ failure or crash: the claim runs out ─┘
 *
 * - A run never waits for it: the memory is stored first, and is found by its words meanwhile.
 * - The memories of tenants are taken a batch at a time, in turns. A tenant whose provider fails rests
 *   for a while, and holds up nobody else.
 */
import {
  type Clock,
  type Embedder,
  type Embedders,
  type Log,
  type MemoryText,
  ProviderFailure,
  type SystemStore,
} from '@relay/core';

const everyMs = 60_000;
const batch = 64;
const firstRestMs = 5_000;
const longestRestMs = 10 * 60_000;
/** So many in a row that are refused one by one mean that it is not about them. */
const refusedInRow = 3;
const shortestText = 500;
const page = 200;

export interface KeeperOptions {
  readonly embedders: Embedders;
  /** Whose credential a tenant needs. */
  readonly provider: string;
  readonly store: SystemStore;
  readonly clock: Clock;
  readonly log: Log;
}

interface Rest {
  readonly failures: number;
  readonly until: number;
}

export class VectorKeeper {
  readonly #options: KeeperOptions;
  readonly #stopped = new AbortController();
  /** Tenants that may have something to do. */
  #waiting = new Set<string>();
  readonly #resting = new Map<string, Rest>();
  #nap = new AbortController();
  #work: Promise<void> = Promise.resolve();

  constructor(options: KeeperOptions) {
    this.#options = options;
  }

  start(): void {
    this.#work = this.#keep();
  }

  async stop(): Promise<void> {
    this.#stopped.abort();
    await this.#work;
  }

  remembered(tenantId: string): void {
    this.#waiting.add(tenantId);
    this.#nap.abort();
  }

  async #keep(): Promise<void> {
    const { clock, log } = this.#options;
    let lookAt = 0;
    while (!this.#stopped.signal.aborted) {
      try {
        if (clock.now() >= lookAt) {
          lookAt = clock.now() + everyMs;
          await this.#lookAround();
        }
        await this.#round();
      } catch (error) {
        log.warn('Memories could not be given vectors', { error: String(error) });
      }
      if (this.#waiting.size > 0) continue;
      this.#nap = new AbortController();
      const signal = AbortSignal.any([this.#stopped.signal, this.#nap.signal]);
      await clock.sleep(Math.max(1, lookAt - clock.now()), signal);
    }
  }

  /** All tenants with a credential: the others have nobody to send anything to. */
  async #lookAround(): Promise<void> {
    const { store, provider } = this.#options;
    for (let after = ''; !this.#stopped.signal.aborted;) {
      const found = await store.sealedCredentials({ after, limit: page });
      for (const each of found) if (each.provider === provider) this.#waiting.add(each.tenantId);
      const last = found.at(-1);
      if (last === undefined || found.length < page) return;
      after = last.id;
    }
  }

  /** One batch for each tenant that waits. */
  async #round(): Promise<void> {
    const waiting = this.#waiting;
    this.#waiting = new Set();
    for (const tenantId of waiting) {
      if (this.#stopped.signal.aborted) return;
      if (await this.#embedSome(tenantId)) this.#waiting.add(tenantId);
    }
  }

  /** Whether there may be more. */
  async #embedSome(tenantId: string): Promise<boolean> {
    const { store, clock, embedders, log } = this.#options;
    const rest = this.#resting.get(tenantId);
    if (rest !== undefined && clock.now() < rest.until) return false;
    try {
      const embedder = await embedders.of(tenantId);
      if (embedder === undefined) return false;
      const { vectors } = store.tenant(tenantId);
      const { model } = embedder;
      const claimed = await vectors.claim({ model, now: clock.now(), limit: batch });
      await this.#embed(tenantId, embedder, claimed);
      this.#resting.delete(tenantId);
      return claimed.length >= batch;
    } catch (error) {
      if (this.#stopped.signal.aborted) return false;
      const failures = (rest?.failures ?? 0) + 1;
      const ms = Math.min(firstRestMs * 2 ** (failures - 1), longestRestMs);
      this.#resting.set(tenantId, { failures, until: clock.now() + ms });
      log.warn('Memories of a tenant have no vectors yet', { tenantId, error: String(error) });
      return false;
    }
  }

  async #embed(
    tenantId: string,
    embedder: Embedder,
    memories: readonly MemoryText[],
  ): Promise<void> {
    const { store, clock } = this.#options;
    if (memories.length === 0) return;
    const { signal } = this.#stopped;
    let vectors: readonly Float32Array[];
    try {
      const texts = memories.map(({ text }) => text.toWellFormed());
      vectors = await embedder.embed(texts, { purpose: 'memory', signal });
    } catch (error) {
      const others = signal.aborted ? undefined : divided(error, memories);
      if (others === undefined) throw error;
      return this.#embedEach(tenantId, embedder, others);
    }
    for (const [place, { id: memoryId }] of memories.entries()) {
      const vector = vectors[place];
      if (vector === undefined) continue;
      const { model } = embedder;
      await store.tenant(tenantId).vectors.put({ memoryId, model, vector, at: clock.now() });
    }
  }

  /** One text that a provider refuses must not keep others from their vectors. */
  async #embedEach(
    tenantId: string,
    embedder: Embedder,
    memories: readonly MemoryText[],
  ): Promise<void> {
    let refused = 0;
    let last: unknown;
    for (const memory of memories) {
      try {
        await this.#embed(tenantId, embedder, [memory]);
        refused = 0;
      } catch (error) {
        last = error;
        refused += 1;
        const mayPass = !(error instanceof ProviderFailure) || error.retryable;
        if (mayPass || refused === refusedInRow) throw error;
      }
    }
    if (last !== undefined && memories.length === 1) throw last;
  }
}

/** What to try instead, one by one; undefined if there is nothing. */
function divided(
  error: unknown,
  memories: readonly MemoryText[],
): readonly MemoryText[] | undefined {
  if (!(error instanceof ProviderFailure) || error.retryable) return undefined;
  const [first] = memories;
  if (first === undefined || memories.length > 1) return memories;
  const isShort = first.text.length <= shortestText;
  if (!error.contextExceeded || isShort) return undefined;
  return [{ ...first, text: first.text.slice(0, first.text.length / 2) }];
}
