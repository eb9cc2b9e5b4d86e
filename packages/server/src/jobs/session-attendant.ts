/**
 * Attends to sessions that are due: see `attend-session.ts` in the core. Any node may do it, and several at
 * once; of two changes of one session, one is decided again. The cost is that of the due sessions.
 */
import { BackgroundLoop, closeOrphanedStream, type Engine } from '@relay/core';
import { type HarnessRegistry } from '../sessions/harnesses.ts';

const intervalMs = 1_000;
const batchSize = 100;

export function createSessionAttendant(engine: Engine, harnesses: HarnessRegistry): BackgroundLoop {
  const { clock, log } = engine;
  return new BackgroundLoop({
    clock,
    intervalMs,
    step: async (signal) => {
      await closeOrphans(engine, signal);
      await attendDue(engine, harnesses, signal);
    },
    onError: (error) => log.warn('Failed to attend to sessions', { error: String(error) }),
  });
}

async function attendDue(
  engine: Engine,
  harnesses: HarnessRegistry,
  signal: AbortSignal,
): Promise<void> {
  const { store, clock } = engine;
  const failed = new Set<string>();
  for (;;) {
    const due = await store.sessions.due(clock.now(), batchSize);
    const left = due.filter(({ sessionId }) => !failed.has(sessionId));
    for (const ref of left) {
      if (signal.aborted) return;
      if (!(await attend(engine, harnesses, ref))) failed.add(ref.sessionId);
    }
    if (left.length === 0) return;
  }
}

/** One session that fails does not keep the others waiting. */
async function attend(
  engine: Engine,
  harnesses: HarnessRegistry,
  ref: { readonly tenantId: string; readonly sessionId: string },
): Promise<boolean> {
  const { store, clock, log } = engine;
  try {
    const session = await store.tenant(ref.tenantId).sessions.read(ref.sessionId);
    const harness = session === undefined ? undefined : harnesses.get(session.harness);
    if (harness === undefined) return false;
    await harness.attend(engine, ref);
    const next = await store.tenant(ref.tenantId).sessions.read(ref.sessionId);
    return (next?.dueAt ?? Infinity) > clock.now() || next?.version !== session?.version;
  } catch (error) {
    log.warn('Failed to attend to a session', { ...ref, error: String(error) });
    return false;
  }
}

/** The streams of nodes that died. */
async function closeOrphans(engine: Engine, signal: AbortSignal): Promise<void> {
  const { store, clock, settings } = engine;
  let after = '';
  while (!signal.aborted) {
    const page = { after, limit: batchSize };
    const orphans = await store.sessions.orphans(settings.node, clock.now(), page);
    for (const { stream, ...ref } of orphans) await closeOrphanedStream(engine, ref, stream.id);
    const last = orphans.at(-1);
    if (last === undefined || orphans.length < batchSize) return;
    after = last.sessionId;
  }
}
