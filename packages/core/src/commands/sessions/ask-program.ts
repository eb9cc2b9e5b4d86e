/** A command to the program of a session whose answer the request waits for. */
import { RelayError } from '@relay/protocol';
import type { Engine } from '../../engine.ts';
import type { NewAuditEntry, NewSessionCommand, SessionRecord } from '../../ports/index.ts';
import { Signal } from '../../runtime/signal.ts';
import { changeSession, maxCommands, noSuchSession } from './change-session.ts';
import { newCommand } from './lifecycle.ts';

export interface ProgramQuestion extends Pick<NewSessionCommand, 'command' | 'args'> {
  /** Throws if the session, as it is now, cannot be asked. */
  readonly check: (session: SessionRecord) => void;
  readonly audit?: readonly NewAuditEntry[];
}

const pollMs = 1_000;

/**
 * What the program answers, on whichever node it is. Throws `session_conflict`, `command_failed` and
 * `command_timed_out`: without an answer, the command fails in time.
 */
export async function askProgram(
  engine: Engine,
  { id: sessionId, tenantId }: SessionRecord,
  { command, args, check, audit = [] }: ProgramQuestion,
): Promise<unknown> {
  const { clock, store } = engine;
  const { sessions } = store.tenant(tenantId);
  const id = engine.ids.next();
  const changed = new Signal();
  const stop = store.listen((hint) => {
    if (hint.kind === 'all' || (hint.kind === 'session' && hint.sessionId === sessionId)) {
      changed.notify();
    }
  });
  try {
    await changeSession(engine, { tenantId, sessionId }, async (view) => {
      check(view.session);
      const open = await sessions.openCommands(sessionId, maxCommands);
      const asked = newCommand(view, open, { id, command, args });
      return { write: { commands: [asked], audit } };
    });
    for (;;) {
      const asked = await sessions.readCommand(sessionId, id);
      if (asked === undefined) throw noSuchSession();
      const { answer, answerBy } = asked;
      if (answer?.ok === true) return answer.result;
      if (answer !== null) {
        const code = answer.at < answerBy ? 'command_failed' : 'command_timed_out';
        throw new RelayError(code, answer.error ?? 'The program gave no reason');
      }
      await changed.waitFor({ clock, ms: pollMs });
    }
  } finally {
    stop();
  }
}
