/**
 * What ends with a connection, and what ends one. A revoked or expired key closes the streams that it
 * opened. A closed chat connection ends its session and cancels the run, unless the configuration lets
 * runs continue. Chat connections are stored, so that their end survives a crash.
 */
import { cancelRun, type RunControl, type SystemStore, Ticker } from '@relay/core';
import type { Config } from '../config/config.ts';
import { type Caller, isValidKey } from '../http/auth.ts';

const checkKeysMs = 500;

interface KeyStreams {
  readonly tenantId: string;
  readonly close: Set<() => void>;
}

/** The open streams by key. Other nodes notice a revocation at their next check. */
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
  add({ as, tenantId }: Pick<Caller, 'as' | 'tenantId'>, close: () => void): () => void {
    if (as.type !== 'key') return () => undefined;
    const streams = this.#byKey.get(as.id) ?? { tenantId, close: new Set() };
    this.#byKey.set(as.id, streams);
    streams.close.add(close);
    this.#keys.add(as.id);
    return () => {
      streams.close.delete(close);
      if (streams.close.size === 0 && this.#byKey.get(as.id) === streams) this.#remove(as.id);
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

interface ChatSession {
  readonly tenantId: string;
  readonly id: string;
  readonly runId: string;
}

interface SessionContext {
  readonly control: RunControl;
  readonly config: Config;
}

const disconnected = {
  reason: 'The chat connection was closed',
  by: { type: 'system', id: 'disconnect', name: 'disconnect' },
} as const;

/** Cancel first: after a crash in between, the next start still finds the connection. */
async function closeSession(
  { control, config }: SessionContext,
  { tenantId, id, runId }: ChatSession,
): Promise<void> {
  if (config.disconnect === 'cancel') await cancelRun(control, { tenantId, runId }, disconnected);
  await control.engine.store.tenant(tenantId).closeConnection(id);
}

const retryMs = 1_000;

/** Ends the session of a closed connection; retries while the store fails. */
export async function endChatSession(
  context: SessionContext & { isStopping: () => boolean },
  session: ChatSession,
): Promise<void> {
  const { clock, log } = context.control.engine;
  // A server that shuts down leaves the session to the next one, which finds it orphaned.
  while (!context.isStopping()) {
    try {
      await closeSession(context, session);
      return;
    } catch (error) {
      log.warn('A chat session could not be closed; retrying', { runId: session.runId, error });
      await clock.sleep(retryMs);
    }
  }
}

/** Ends the sessions whose process died. */
export async function endOrphanedChatSessions(
  context: SessionContext,
  signal?: AbortSignal,
): Promise<void> {
  const { store, settings, clock } = context.control.engine;
  for (;;) {
    const orphans = await store.orphanedConnections(settings.node, clock.now());
    if (orphans.length === 0) return;
    for (const session of orphans) {
      if (signal?.aborted === true) return;
      await closeSession(context, session);
    }
  }
}
