/**
 * The open streams, and responses that wait for a run. A revoked or expired key, or a session token that was
 * replaced, closes those that it opened; a server that stops ends all of them.
 */
import { type SystemStore, Ticker } from '@relay/core';
import { type Caller, isValidKey } from '../http/auth.ts';

const checkKeysMs = 500;

/** Why a stream is closed before its run has ended. */
export type CloseReason = 'revoked' | 'stopping';
type Close = (reason: CloseReason) => void;

type StreamCaller = Pick<Caller, 'actor' | 'tenantId' | 'session'>;

interface KeyStreams {
  readonly tenantId: string;
  readonly close: Set<Close>;
}

/** Other nodes notice a revocation at their next check. */
export class OpenStreams {
  readonly #store: SystemStore;
  readonly #all = new Set<Close>();
  readonly #byKey = new Map<string, KeyStreams>();
  /** By the session and the hash of its token. */
  readonly #bySession = new Map<string, Map<string, Set<Close>>>();
  #stopping = false;
  readonly #keys = new Ticker<string>(checkKeysMs, () => void this.checkKeys());
  #checking = false;

  constructor(store: SystemStore) {
    this.#store = store;
  }

  get size(): number {
    return this.#all.size;
  }

  /** Returns the function that removes the stream. */
  add(caller: StreamCaller, close: Close): () => void {
    this.#all.add(close);
    const { session } = caller;
    const removeFromCaller =
      session === undefined ? this.#addToKey(caller, close) : this.#addToSession(session, close);
    if (this.#stopping) close('stopping');
    return () => {
      this.#all.delete(close);
      removeFromCaller();
    };
  }

  #addToSession({ id, tokenHash }: NonNullable<Caller['session']>, close: Close): () => void {
    const tokens = this.#bySession.get(id) ?? new Map<string, Set<Close>>();
    this.#bySession.set(id, tokens);
    const streams = tokens.get(tokenHash) ?? new Set();
    tokens.set(tokenHash, streams.add(close));
    return () => {
      streams.delete(close);
      if (streams.size === 0) tokens.delete(tokenHash);
      if (tokens.size === 0 && this.#bySession.get(id) === tokens) this.#bySession.delete(id);
    };
  }

  /** After a change of a session: closes the streams of tokens that no longer open it. Never rejects. */
  async checkSession(sessionId: string): Promise<void> {
    for (const [hash, streams] of this.#bySession.get(sessionId) ?? []) {
      try {
        if ((await this.#store.sessions.findToken(hash)) !== undefined) continue;
      } catch {
        // The store is unavailable: the next change of the session retries.
        continue;
      }
      for (const close of streams) close('revoked');
    }
  }

  #addToKey({ actor, tenantId }: StreamCaller, close: Close): () => void {
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
    for (const close of streams?.close ?? []) {
      this.#all.delete(close);
      close('revoked');
    }
  }

  /** Ends all streams, and those that are opened from now on. Their clients can continue elsewhere. */
  stop(): void {
    this.#stopping = true;
    this.#keys.clear();
    for (const close of this.#all) close('stopping');
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
