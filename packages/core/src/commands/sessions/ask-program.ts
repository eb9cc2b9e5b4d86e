/** A command to the program of a session whose answer the request waits for. */
import { RelayError } from '@relay/protocol';
import type { Engine } from '../../engine.ts';
import type { NewAuditEntry, NewSessionCommand, SessionRecord } from '../../ports/index.ts';
import { waitUntil } from '../wait-until.ts';
import { changeSession, maxCommands, noSuchSession } from './change-session.ts';
import { newCommand } from './lifecycle.ts';

export interface ProgramQuestion extends Pick<NewSessionCommand, 'command' | 'args' | 'fork'> {
  /** Throws if the session, as it is now, cannot be asked. */
  readonly check: (session: SessionRecord) => void;
  readonly audit?: readonly NewAuditEntry[];
}

/**
 * What the program answers, on whichever node it is. Throws `session_conflict`, `command_failed` and
 * `command_timed_out`: without an answer, the command fails in time.
 */
export async function askProgram(
  engine: Engine,
  { id: sessionId, tenantId }: SessionRecord,
  { check, audit = [], ...question }: ProgramQuestion,
): Promise<unknown> {
  const { sessions } = engine.store.tenant(tenantId);
  const id = engine.ids.next();
  await changeSession(engine, { tenantId, sessionId }, async (view) => {
    check(view.session);
    const open = await sessions.openCommands(sessionId, maxCommands);
    const asked = newCommand(view, open, { id, ...question });
    return { write: { commands: [asked], audit } };
  });
  const answered = await waitUntil(engine, {
    concerns: (hint) => hint.kind === 'session' && hint.sessionId === sessionId,
    read: async () => {
      const asked = await sessions.readCommand(sessionId, id);
      if (asked === undefined) throw noSuchSession();
      const { answer, answerBy } = asked;
      return answer === null ? undefined : { ...answer, answerBy };
    },
  });
  if (answered?.ok === true) return answered.result;
  const isLate = answered === undefined || answered.at >= answered.answerBy;
  const code = isLate ? 'command_timed_out' : 'command_failed';
  throw new RelayError(code, answered?.error ?? 'The program gave no reason');
}
