/**
 * What becomes of a session without a request, at its `dueAt` and on any node: commands that were not
 * answered fail, a program without a stream is offline, and the messages for an offline session expire.
 */
import type { Engine } from '../../engine.ts';
import type { SessionRecord, SessionRef } from '../../ports/index.ts';
import { stepsOf } from '../../sessions/consequences.ts';
import { timesOut } from '../../sessions/modes.ts';
import { changeSession, expiringDeliveries, lostAtOf, maxCommands } from './change-session.ts';
import { answered } from './lifecycle.ts';

type AttendingEngine = Pick<Engine, 'store' | 'clock' | 'settings'>;

/** Until nothing is due any more. */
export async function attendSession(engine: AttendingEngine, ref: SessionRef): Promise<void> {
  let version: number | undefined;
  for (;;) {
    const session = await attendOnce(engine, ref);
    const { dueAt } = session;
    if (dueAt === null || dueAt > engine.clock.now() || session.version === version) return;
    version = session.version;
  }
}

function attendOnce(engine: AttendingEngine, ref: SessionRef): Promise<SessionRecord> {
  return changeSession(engine, ref, async (view) => {
    const { store, session, state, now } = view;
    if (session.releasedAt !== null) return undefined;
    const late = (await store.sessions.openCommands(session.id, maxCommands)).find(
      ({ answerBy }) => answerBy <= now,
    );
    // One at a time: the next one is due at once.
    if (late !== undefined) {
      const error = 'The program did not answer in time';
      return answered(view, late, { ok: false, error, timedOut: true });
    }
    const lostAt = lostAtOf(session, state);
    if (lostAt !== undefined && lostAt <= now) return { inputs: [{ type: 'lose' }] };
    if (!timesOut(state)) return {};
    const expiring = await expiringDeliveries(view, engine.settings.deliveryTtlMs);
    const expired = expiring.filter(({ expiresAt }) => expiresAt <= now);
    return stepsOf(
      expired.map(({ entry }) => entry),
      { type: 'expire' },
    );
  });
}
