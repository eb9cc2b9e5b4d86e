/**
 * The open streams, and responses that wait for a run. A revoked or expired key closes those that it opened,
 * those of its sign-ins to the console, and those of the sessions that it attached; a session token that was replaced closes its own. A server that
 * stops ends all of them.
 */
import { findKeyInForce, isValidKey, type SystemStore, Ticker } from '@relay/core';
import { type Caller, findSessionByToken } from '../http/auth.ts';

const checkKeysMs = 500;

/** Why a stream is closed before its run has ended. */
export type CloseReason = 'revoked' | 'stopping';
type Close = (reason: CloseReason) => void;

type StreamCaller = Pick<Caller, 'actor' | 'tenantId' | 'session' | 'signIn'>;

interface KeyStreams {
  readonly tenantId: string;
  readonly close: Set<Close>;
  /** Of the sessions that it attached. They go on with the key that replaces it. */
  readonly closeSessions: Set<Close>;
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
  /** Sessions whose tokens could not be checked, because the store is unavailable. */
  readonly #unchecked = new Ticker<string>(checkKeysMs, (ids) => {
    for (const id of ids) void this.checkSession(id);
  });

  constructor(store: SystemStore) {
    this.#store = store;
  }

  get size(): number {
    return this.#all.size;
  }

  /** Returns the function that removes the stream. */
  add(caller: StreamCaller, close: Close): () => void {
    this.#all.add(close);
    const removeFromSession = this.#addToSession(caller, close);
    const removeFromKey = this.#addToKey(caller, close);
    if (this.#stopping) close('stopping');
    return () => {
      this.#all.delete(close);
      removeFromSession();
      removeFromKey();
    };
  }

  /** A session that lives in this process, like one that the key attached. Returns what removes it. */
  addSession(tenantId: string, keyId: string | null, close: Close): () => void {
    return this.#addOf(tenantId, keyId, 'closeSessions', close);
  }

  #addToSession({ session }: StreamCaller, close: Close): () => void {
    if (session === undefined) return () => undefined;
    const { id, tokenHash } = session;
    const tokens = this.#bySession.get(id) ?? new Map<string, Set<Close>>();
    this.#bySession.set(id, tokens);
    const streams = tokens.get(tokenHash) ?? new Set();
    tokens.set(tokenHash, streams.add(close));
    // The token may have been replaced since the request was authenticated.
    void this.checkSession(id);
    return () => {
      streams.delete(close);
      if (streams.size === 0) tokens.delete(tokenHash);
      if (tokens.size === 0 && this.#bySession.get(id) === tokens) this.#bySession.delete(id);
    };
  }

  /** Closes the streams of tokens that no longer open the session. Never rejects. */
  async checkSession(sessionId: string): Promise<void> {
    let isChecked = true;
    for (const [hash, streams] of this.#bySession.get(sessionId) ?? []) {
      try {
        if ((await findSessionByToken(this.#store, hash)) !== undefined) continue;
      } catch {
        isChecked = false;
        continue;
      }
      for (const close of streams) close('revoked');
    }
    if (isChecked || this.#stopping) this.#unchecked.delete(sessionId);
    else this.#unchecked.add(sessionId);
  }

  /** The same of all sessions, if changes of theirs may have been missed. */
  checkSessions(): void {
    for (const id of this.#bySession.keys()) void this.checkSession(id);
  }

  #addToKey({ actor, session, signIn, tenantId }: StreamCaller, close: Close): () => void {
    if (session !== undefined) {
      return this.#addOf(tenantId, session.keyId, 'closeSessions', close);
    }
    const keyId = actor.type === 'key' ? actor.id : null;
    // A sign-in to the console ends by itself, or with the key that signed in.
    const removals = [keyId, signIn ?? null].map((id) => this.#addOf(tenantId, id, 'close', close));
    return () => removals.forEach((remove) => remove());
  }

  #addOf(
    tenantId: string,
    keyId: string | null,
    which: 'close' | 'closeSessions',
    close: Close,
  ): () => void {
    if (keyId === null) return () => undefined;
    const streams = this.#byKey.get(keyId) ?? {
      tenantId,
      close: new Set(),
      closeSessions: new Set(),
    };
    this.#byKey.set(keyId, streams);
    const opened = streams[which];
    opened.add(close);
    this.#keys.add(keyId);
    return () => {
      opened.delete(close);
      this.#removeIfUnused(keyId, streams);
    };
  }

  /** Those that the key itself opened. */
  closeByKey(keyId: string): void {
    this.#closeAll(keyId, 'close');
  }

  /** Those of the sessions that it attached. */
  closeSessionsOf(keyId: string): void {
    this.#closeAll(keyId, 'closeSessions');
  }

  #closeAll(keyId: string, which: 'close' | 'closeSessions'): void {
    const streams = this.#byKey.get(keyId);
    if (streams === undefined) return;
    const closed = [...streams[which]];
    streams[which].clear();
    this.#removeIfUnused(keyId, streams);
    for (const close of closed) {
      this.#all.delete(close);
      close('revoked');
    }
  }

  /** Ends all streams, and those that are opened from now on. Their clients can continue elsewhere. */
  stop(): void {
    this.#stopping = true;
    this.#keys.clear();
    this.#unchecked.clear();
    for (const close of this.#all) close('stopping');
  }

  /** Closes the streams of invalid keys. Never rejects; skipped while a check is running. */
  async checkKeys(): Promise<void> {
    if (this.#checking) return;
    this.#checking = true;
    try {
      for (const [id, { tenantId }] of this.#byKey) {
        const store = this.#store.tenant(tenantId);
        if (isValidKey(await store.readKey(id), Date.now())) continue;
        this.closeByKey(id);
        if (!this.#byKey.has(id)) continue;
        if ((await findKeyInForce(store, id, Date.now())) === undefined) this.closeSessionsOf(id);
      }
    } catch {
      // The store is unavailable: the next check retries.
    } finally {
      this.#checking = false;
    }
  }

  #removeIfUnused(keyId: string, streams: KeyStreams): void {
    if (streams.close.size > 0 || streams.closeSessions.size > 0) return;
    if (this.#byKey.get(keyId) !== streams) return;
    this.#byKey.delete(keyId);
    this.#keys.delete(keyId);
  }
}
