/** The open streams by key. A revoked or expired key closes the streams that it opened. */
import { type SystemStore, Ticker } from '@relay/core';
import { type Caller, isValidKey } from '../http/auth.ts';

const checkKeysMs = 500;

interface KeyStreams {
  readonly tenantId: string;
  readonly close: Set<() => void>;
}

/** Other nodes notice a revocation at their next check. */
export class OpenStreams {
  readonly #store: SystemStore;
  readonly #byKey = new Map<string, KeyStreams>();
  readonly #keys = new Ticker<string>(checkKeysMs, () => void this.checkKeys());
  #checking = false;

  constructor(store: SystemStore) {
    this.#store = store;
  }

  get size(): number {
    return [...this.#byKey.values()].reduce((sum, { close }) => sum + close.size, 0);
  }

  /** Returns the function that removes the stream. A caller without a key is not tracked. */
  add({ actor, tenantId }: Pick<Caller, 'actor' | 'tenantId'>, close: () => void): () => void {
    if (actor.type !== 'key') return () => undefined;
    const streams = this.#byKey.get(actor.id) ?? { tenantId, close: new Set() };
    this.#byKey.set(actor.id, streams);
    streams.close.add(close);
    this.#keys.add(actor.id);
    return () => {
      streams.close.delete(close);
      if (streams.close.size === 0 && this.#byKey.get(actor.id) === streams) this.#remove(actor.id);
    };
  }

  closeByKey(keyId: string): void {
    const streams = this.#byKey.get(keyId);
    this.#remove(keyId);
    for (const close of streams?.close ?? []) close();
  }

  stop(): void {
    this.#keys.clear();
  }

  /** Closes the streams of invalid keys. Never rejects; skipped while a check is running. */
  async checkKeys(): Promise<void> {
    if (this.#checking) return;
    this.#checking = true;
    try {
      for (const [id, { tenantId }] of this.#byKey) {
        const key = await this.#store.tenant(tenantId).readKey(id);
        if (!isValidKey(key)) this.closeByKey(id);
      }
    } catch {
      // The store is unavailable: the next check retries.
    } finally {
      this.#checking = false;
    }
  }

  #remove(keyId: string): void {
    this.#byKey.delete(keyId);
    this.#keys.delete(keyId);
  }
}
