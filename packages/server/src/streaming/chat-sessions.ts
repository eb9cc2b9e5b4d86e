/**
 * A closed chat connection ends its session and cancels the run, unless the configuration lets runs
 * continue. Chat connections are stored, so that their end survives a crash.
 */
import { cancelRun, type RunControl } from '@relay/core';
import type { Config } from '../config/config.ts';

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

interface EndingContext extends SessionContext {
  readonly isStopping: () => boolean;
  /** What a server waits for before it closes the store. */
  readonly endings: Set<Promise<void>>;
}

/** Ends the session of a closed connection; retries while the store fails. */
export function endChatSession(context: EndingContext, session: ChatSession): void {
  const ending = endWithRetries(context, session).finally(() => context.endings.delete(ending));
  context.endings.add(ending);
}

async function endWithRetries(context: EndingContext, session: ChatSession): Promise<void> {
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

/** Ends the sessions whose process died. Returns those that could not be ended. */
export async function endOrphanedChatSessions(
  context: SessionContext,
  signal?: AbortSignal,
): Promise<ChatSession[]> {
  const { store, settings, clock, log } = context.control.engine;
  const failed: ChatSession[] = [];
  for (let after = ''; ;) {
    const orphans = await store.orphanedConnections(settings.node, clock.now(), after);
    for (const session of orphans) {
      if (signal?.aborted === true) return failed;
      try {
        await closeSession(context, session);
      } catch (error) {
        if (failed.length === 0) {
          log.warn('A chat session of a dead process could not be closed', {
            runId: session.runId,
            error: String(error),
          });
        }
        failed.push(session);
      }
    }
    const last = orphans.at(-1);
    if (last === undefined) return failed;
    after = last.id;
  }
}
