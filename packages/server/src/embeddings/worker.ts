/**
 * Sees to it that every memory gets its vector: what was just remembered at once, what a crash or a
 * failure left behind at the next look around, and what was there before embeddings were switched on.
 *
 *   waiting ──claim──▶ claimed, for minutes nobody else's ──vector──▶ stored with its model
 *      ▲                   ├─ a batch fails: released ────┐
 *      └───────────────────┴─ one fails alone, or a crash: the claim runs out
 *
 * - A run never waits for it: the memory is stored first, and is found by its words meanwhile.
 * - The memories of tenants are taken a batch at a time, in turns, of a few tenants at once: a provider
 *   that fails, or takes minutes, holds up its own tenant.
 * - Why a batch failed is not known: a text that the provider does not take, too many at once, or
 *   nothing about them at all. So the next one is half as large, down to one; what fails alone waits
 *   longer each time, and with what goes well batches grow again.
 */
import {
  BackgroundLoop,
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
const growth = 8;
const tenantsAtOnce = 8;
const firstRestMs = 5_000;
const longestRestMs = 10 * 60_000;
/** So many in a row that are refused alone mean that it is not about them. */
const refusedInRow = 3;
const shortestText = 500;
const page = 200;

export interface EmbeddingWorkerOptions {
  readonly embedders: Embedders;
  /** Whose credential a tenant needs. */
  readonly provider: string;
  readonly store: SystemStore;
  readonly clock: Clock;
  readonly log: Log;
}

/** How a tenant's provider did lately. */
interface Pace {
  /** How many it is given at once. */
  readonly size: number;
  /** In a row, of those that were tried alone. */
  readonly refused: number;
  /** In a row, that it rested after. */
  readonly failures: number;
  readonly restUntil: number;
}

const full: Pace = { size: batch, refused: 0, failures: 0, restUntil: 0 };

export class EmbeddingWorker {
  readonly #options: EmbeddingWorkerOptions;
  readonly #loop: BackgroundLoop;
  /** Tenants that may have something to do. */
  readonly #waiting = new Set<string>();
  readonly #busy = new Map<string, Promise<void>>();
  /** Of those that are not at their best. */
  readonly #paces = new Map<string, Pace>();
  #lookAt = 0;

  constructor(options: EmbeddingWorkerOptions) {
    const { clock, log } = options;
    this.#options = options;
    const onError = (error: unknown) =>
      log.warn('Memories could not be given vectors', { error: String(error) });
    this.#loop = new BackgroundLoop({
      clock,
      intervalMs: everyMs,
      step: async () => {
        if (clock.now() >= this.#lookAt) {
          this.#lookAt = clock.now() + everyMs;
          await this.#lookAround().catch(onError);
        }
        this.#begin();
        return Math.max(1, this.#lookAt - clock.now());
      },
      onError,
    });
  }

  start(): void {
    this.#loop.start();
  }

  async stop(): Promise<void> {
    await this.#loop.stop();
    await Promise.all(this.#busy.values());
  }

  memoryAdded(tenantId: string): void {
    this.#waiting.add(tenantId);
    this.#loop.wake();
  }

  /** All tenants with a credential: the others have nobody to send anything to. */
  async #lookAround(): Promise<void> {
    const { store, provider } = this.#options;
    for (let after = ''; !this.#loop.signal.aborted;) {
      const found = await store.sealedCredentials({ after, limit: page });
      for (const each of found) if (each.provider === provider) this.#waiting.add(each.tenantId);
      const last = found.at(-1);
      if (last === undefined || found.length < page) return;
      after = last.id;
    }
  }

  #begin(): void {
    for (const tenantId of this.#waiting) {
      if (this.#loop.signal.aborted || this.#busy.size >= tenantsAtOnce) return;
      if (this.#busy.has(tenantId)) continue;
      this.#waiting.delete(tenantId);
      this.#busy.set(tenantId, this.#serve(tenantId));
    }
  }

  /** Never rejects. A tenant that has more to do goes to the end of the queue. */
  async #serve(tenantId: string): Promise<void> {
    const hasMore = await this.#embedSome(tenantId);
    this.#busy.delete(tenantId);
    if (hasMore) this.#waiting.add(tenantId);
    this.#loop.wake();
  }

  /** Whether there may be more. */
  async #embedSome(tenantId: string): Promise<boolean> {
    const { store, clock, embedders } = this.#options;
    const pace = this.#paces.get(tenantId) ?? full;
    if (clock.now() < pace.restUntil) return false;
    let claimed: readonly MemoryText[] = [];
    try {
      const embedder = await embedders.of(tenantId);
      if (embedder === undefined) return false;
      const { vectors } = store.tenant(tenantId);
      const { model } = embedder;
      claimed = await vectors.claim({ model, now: clock.now(), limit: pace.size });
      await this.#embed(tenantId, embedder, claimed);
      if (claimed.length > 0) this.#wentWell(tenantId, pace);
      return claimed.length >= pace.size;
    } catch (error) {
      const isOver = this.#loop.signal.aborted;
      if (isOver || claimed.length > 1) await this.#release(tenantId, claimed);
      if (isOver) return false;
      return this.#wentWrong({ tenantId, pace, claimed }, error);
    }
  }

  #wentWell(tenantId: string, { size }: Pace): void {
    if (size >= batch) this.#paces.delete(tenantId);
    else this.#paces.set(tenantId, { ...full, size: Math.min(batch, size + growth) });
  }

  /** Whether to go on at once, with fewer or with others. */
  #wentWrong(
    { tenantId, pace, claimed }: { tenantId: string; pace: Pace; claimed: readonly MemoryText[] },
    error: unknown,
  ): boolean {
    const { clock, log } = this.#options;
    const isRefusal = error instanceof ProviderFailure && !error.retryable;
    const isAlone = claimed.length === 1;
    const refused = pace.refused + (isAlone && isRefusal ? 1 : 0);
    const size = claimed.length === 0 ? pace.size : Math.max(1, Math.floor(claimed.length / 2));
    if (isRefusal && claimed.length > 0 && refused < refusedInRow) {
      const [only] = claimed;
      if (isAlone) {
        const fields = { tenantId, memoryId: only?.id, error: String(error) };
        log.warn('A memory has no vector yet', fields);
      }
      this.#paces.set(tenantId, { ...pace, size, refused });
      return true;
    }
    const failures = pace.failures + 1;
    const ms = Math.min(firstRestMs * 2 ** (failures - 1), longestRestMs);
    this.#paces.set(tenantId, { size, refused, failures, restUntil: clock.now() + ms });
    log.warn('Memories of a tenant have no vectors yet', { tenantId, error: String(error) });
    return false;
  }

  /** If this fails as well, the claims run out by themselves. */
  async #release(tenantId: string, claimed: readonly MemoryText[]): Promise<void> {
    const { vectors } = this.#options.store.tenant(tenantId);
    await vectors.release(claimed.map(({ id }) => id)).catch(() => undefined);
  }

  async #embed(
    tenantId: string,
    embedder: Embedder,
    memories: readonly MemoryText[],
  ): Promise<void> {
    const { store, clock } = this.#options;
    if (memories.length === 0) return;
    const { signal } = this.#loop;
    const { model } = embedder;
    let vectors: readonly Float32Array[];
    try {
      const texts = memories.map(({ text }) => text.toWellFormed());
      vectors = await embedder.embed(texts, { purpose: 'memory', signal });
    } catch (error) {
      const shorter = signal.aborted ? undefined : shortened(error, memories);
      if (shorter === undefined) throw error;
      return this.#embed(tenantId, embedder, [shorter]);
    }
    for (const [place, { id: memoryId }] of memories.entries()) {
      const vector = vectors[place];
      if (vector === undefined) continue;
      await store.tenant(tenantId).vectors.put({ memoryId, model, vector, at: clock.now() });
    }
  }
}

/** The beginning of the only text, if that is what the provider wants. */
function shortened(error: unknown, memories: readonly MemoryText[]): MemoryText | undefined {
  const [only] = memories;
  if (only === undefined || memories.length > 1 || only.text.length <= shortestText)
    return undefined;
  if (!(error instanceof ProviderFailure) || !error.contextExceeded) return undefined;
  return { ...only, text: only.text.slice(0, only.text.length / 2) };
}
