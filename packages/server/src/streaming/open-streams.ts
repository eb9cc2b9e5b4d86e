/**
 * Which streams are open by which key. A key that is revoked or has expired must not go on reading:
 * here at once, and on every other node at its next look.
 */
import type { KeyRecord, SystemStore } from '@relay/core';
import type { Caller } from '../http/auth.ts';

const lookMs = 500;

interface Opened {
  readonly tenantId: string;
  readonly close: Set<() => void>;
}

export class OpenStreams {
  readonly #store: SystemStore;
  readonly #byKey = new Map<string, Opened>();
  #timer: NodeJS.Timeout | undefined;
  #looking = false;

  constructor(store: SystemStore) {
    this.#store = store;
  }

  get size(): number {
    return [...this.#byKey.values()].reduce((sum, { close }) => sum + close.size, 0);
  }

  /** Returns what to call when the stream is over. Who came without a key has none to lose. */
  add({ as, tenantId }: Pick<Caller, 'as' | 'tenantId'>, close: () => void): () => void {
    if (as.type !== 'key') return () => undefined;
    const opened = this.#byKey.get(as.id) ?? { tenantId, close: new Set() };
    this.#byKey.set(as.id, opened);
    opened.close.add(close);
    this.#timer ??= setInterval(() => void this.#look(), lookMs).unref();
    return () => {
      opened.close.delete(close);
      if (opened.close.size === 0 && this.#byKey.get(as.id) === opened) this.#forget(as.id);
    };
  }

  closeOf(keyId: string): void {
    const opened = this.#byKey.get(keyId);
    this.#forget(keyId);
    for (const close of opened?.close ?? []) close();
  }

  /** Somebody says that keys have changed. */
  look(): void {
    if (this.#byKey.size > 0) void this.#look();
  }

  #forget(keyId: string): void {
    this.#byKey.delete(keyId);
    if (this.#byKey.size === 0) this.stop();
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  /** One look at a time, however slow the store is. It never throws. */
  async #look(): Promise<void> {
    if (this.#looking) return;
    this.#looking = true;
    try {
      for (const [id, { tenantId }] of this.#byKey) {
        const key = await this.#store.tenant(tenantId).readKey(id);
        if (!isValid(key)) this.closeOf(id);
      }
    } catch {
      // The store does not answer: the next look will tell.
    } finally {
      this.#looking = false;
    }
  }
}

function isValid(key: KeyRecord | undefined): boolean {
  if (key === undefined || key.revokedAt !== null) return false;
  return key.expiresAt === null || key.expiresAt > Date.now();
}
