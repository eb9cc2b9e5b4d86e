/**
 * Creates the vectors of memories: of new ones at once; after a crash or a failure, and for memories
 * from before embeddings were enabled, by a periodic scan.
 *
 *   waiting ──claim for minutes──▶ claimed ──vector──▶ stored with its model
 *      ▲                             ├─ a batch fails: released
 *      └─────────────────────────────┴─ a single memory fails, or a crash: the claim expires
 *
 * - A run never waits for it: a memory is stored first, and is found by its words meanwhile.
 * - Tenants take turns, one batch each, a few tenants at a time: a provider that fails or is slow
 *   delays only its own tenant.
 * - The reason for a failed batch is unknown: one text, too many texts, or the provider itself. So the
 *   next batch is half as large, down to one memory. A memory that fails alone backs off longer each
 *   time. After a success batches grow again.
 */
import {
  BackgroundLoop,
  type Embedder,
  type Embedders,
  type Engine,
  type MemoryText,
  ProviderFailure,
} from '@relay/core';
import type { StoredEvent } from '@relay/protocol';

const scanIntervalMs = 60_000;
const maxBatch = 64;
const batchGrowth = 8;
const maxBusyTenants = 8;
const minBackoffMs = 5_000;
const maxBackoffMs = 10 * 60_000;
/** After this many consecutive rejections of single memories, the cause is the provider. */
const maxRejections = 3;
const minTextChars = 500;
const pageSize = 200;

export interface EmbeddingWorkerOptions extends Pick<Engine, 'store' | 'clock' | 'log'> {
  readonly embedders: Embedders;
  readonly provider: string;
}

/** Recent results of a tenant's provider. */
interface BatchState {
  readonly batchSize: number;
  readonly rejections: number;
  /** Consecutive failures with a backoff. */
  readonly failures: number;
  readonly backoffUntil: number;
}

const initialState: BatchState = {
  batchSize: maxBatch,
  rejections: 0,
  failures: 0,
  backoffUntil: 0,
};

export class EmbeddingWorker {
  readonly #options: EmbeddingWorkerOptions;
  readonly #loop: BackgroundLoop;
  /** Tenants that may have memories without vectors. */
  readonly #waiting = new Set<string>();
  readonly #busy = new Map<string, Promise<void>>();
  /** Only of tenants with recent failures. */
  readonly #batchStates = new Map<string, BatchState>();
  #scanAt = 0;

  constructor(options: EmbeddingWorkerOptions) {
    const { clock, log } = options;
    this.#options = options;
    const onError = (error: unknown) =>
      log.warn('Failed to look for memories without vectors', { error: String(error) });
    this.#loop = new BackgroundLoop({
      clock,
      intervalMs: scanIntervalMs,
      step: async () => {
        if (clock.now() >= this.#scanAt) {
          this.#scanAt = clock.now() + scanIntervalMs;
          await this.#scan().catch(onError);
        }
        this.#begin();
        return Math.max(1, this.#scanAt - clock.now());
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

  publish(events: readonly StoredEvent[], tenantId: string): void {
    if (events.some(({ type }) => type === 'memory.stored')) this.memoryAdded(tenantId);
  }

  memoryAdded(tenantId: string): void {
    this.#waiting.add(tenantId);
    this.#loop.wake();
  }

  async #scan(): Promise<void> {
    const { store, provider } = this.#options;
    for (let after = ''; !this.#loop.signal.aborted;) {
      const found = await store.sealedCredentials({ after, limit: pageSize });
      for (const each of found) if (each.provider === provider) this.#waiting.add(each.tenantId);
      const last = found.at(-1);
      if (last === undefined || found.length < pageSize) return;
      after = last.id;
    }
  }

  #begin(): void {
    for (const tenantId of this.#waiting) {
      if (this.#loop.signal.aborted || this.#busy.size >= maxBusyTenants) return;
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

  /** Returns whether there may be more. */
  async #embedSome(tenantId: string): Promise<boolean> {
    const { store, clock, embedders } = this.#options;
    const state = this.#batchStates.get(tenantId) ?? initialState;
    if (clock.now() < state.backoffUntil) return false;
    let claimed: readonly MemoryText[] = [];
    try {
      const embedder = await embedders.of(tenantId);
      if (embedder === undefined) return false;
      const { vectors } = store.tenant(tenantId);
      const { model } = embedder;
      claimed = await vectors.claim({ model, now: clock.now(), limit: state.batchSize });
      await this.#embed(tenantId, embedder, claimed);
      if (claimed.length > 0) this.#onSuccess(tenantId, state);
      return claimed.length >= state.batchSize;
    } catch (error) {
      const isOver = this.#loop.signal.aborted;
      if (isOver || claimed.length > 1) await this.#release(tenantId, claimed);
      if (isOver) return false;
      return this.#onFailure(tenantId, state, claimed, error);
    }
  }

  #onSuccess(tenantId: string, state: BatchState): void {
    const batchSize = Math.min(maxBatch, state.batchSize + batchGrowth);
    if (state.batchSize >= maxBatch) this.#batchStates.delete(tenantId);
    else this.#batchStates.set(tenantId, { ...initialState, batchSize });
  }

  /** Returns whether to continue at once, with a smaller batch or with other memories. */
  #onFailure(
    tenantId: string,
    state: BatchState,
    claimed: readonly MemoryText[],
    error: unknown,
  ): boolean {
    const { clock, log } = this.#options;
    const isRejection = error instanceof ProviderFailure && !error.retryable;
    const isSingle = claimed.length === 1;
    const rejections = state.rejections + (isSingle && isRejection ? 1 : 0);
    const batchSize =
      claimed.length === 0 ? state.batchSize : Math.max(1, Math.floor(claimed.length / 2));
    if (isRejection && claimed.length > 0 && rejections < maxRejections) {
      if (isSingle) {
        const memoryId = claimed[0]?.id;
        log.warn('Failed to embed a memory', { tenantId, memoryId, error: String(error) });
      }
      this.#batchStates.set(tenantId, { ...state, batchSize, rejections });
      return true;
    }
    const failures = state.failures + 1;
    const backoffUntil = clock.now() + Math.min(minBackoffMs * 2 ** (failures - 1), maxBackoffMs);
    this.#batchStates.set(tenantId, { batchSize, rejections, failures, backoffUntil });
    log.warn('Failed to embed the memories of a tenant', { tenantId, error: String(error) });
    return false;
  }

  /** If this fails as well, the claims expire. */
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
    for (const [index, { id: memoryId }] of memories.entries()) {
      const vector = vectors[index];
      if (vector === undefined) continue;
      await store.tenant(tenantId).vectors.put({ memoryId, model, vector, at: clock.now() });
    }
  }
}

/** The first half of a single text that is too long for the provider. */
function shortened(error: unknown, memories: readonly MemoryText[]): MemoryText | undefined {
  const [only] = memories;
  if (only === undefined || memories.length > 1 || only.text.length <= minTextChars)
    return undefined;
  if (!(error instanceof ProviderFailure) || !error.contextExceeded) return undefined;
  return { ...only, text: only.text.slice(0, only.text.length / 2) };
}
