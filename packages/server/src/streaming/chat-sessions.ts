/**
 * A chat session is a connection. When that is gone, the session is over and its run is canceled,
 * unless runs may go on alone. The connection is stored so that a crash does not hide its end.
 */
import { cancelRun, type Control } from '@relay/core';
import type { Config } from '../config/config.ts';

export interface ChatSession {
  readonly tenantId: string;
  readonly id: string;
  readonly runId: string;
}

interface Chats {
  readonly control: Control;
  readonly config: Config;
}

const disconnected = {
  reason: 'The chat connection was closed',
  by: { type: 'system', id: 'disconnect', name: 'disconnect' },
} as const;

/** In this order: after a crash in between, the next start still finds the connection. */
async function endSession({ control, config }: Chats, session: ChatSession): Promise<void> {
  const { tenantId, id, runId } = session;
  if (config.disconnect === 'cancel') await cancelRun(control, { tenantId, runId }, disconnected);
  await control.engine.store.tenant(tenantId).closeConnection(id);
}

const retryMs = 1_000;

/** The connection is gone, and that has to be stored: a store that fails is asked again. */
export async function hangUp(
  chats: Chats & { isStopping: () => boolean },
  session: ChatSession,
): Promise<void> {
  const { clock, log } = chats.control.engine;
  // A server that shuts down leaves the session to its successor, which finds it orphaned.
  while (!chats.isStopping()) {
    try {
      await endSession(chats, session);
      return;
    } catch (error) {
      log.warn('A chat could not be hung up yet', { runId: session.runId, error });
      await clock.sleep(retryMs);
    }
  }
}

/** Chats whose process died have lost their connection. Ends with them, or when it shall stop. */
export async function hangUpOrphans(chats: Chats, signal?: AbortSignal): Promise<void> {
  const { store, settings, clock } = chats.control.engine;
  for (;;) {
    const orphans = await store.orphanedConnections(settings.node, clock.now());
    if (orphans.length === 0) return;
    for (const session of orphans) {
      if (signal?.aborted === true) return;
      await endSession(chats, session);
    }
  }
}
