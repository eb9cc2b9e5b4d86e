/**
 * Release, pause, resume and cancel of sessions whose program carries them out: the command is stored, sent
 * by the session's stream, and takes effect with the program's answer. A command that is refused or not
 * answered in time has failed, and an `error` event says so.
 *
 * A session without a program to ask, because it is a person's, is offline or has failed, is released at once.
 */
import { type Decider, RelayError, type SessionCommand, type SessionEvent } from '@relay/protocol';
import type { Engine } from '../engine.ts';
import { auditRecordsOf } from '../governance/audit.ts';
import type {
  CommandAnswer,
  NewAuditEntry,
  SessionCommandRecord,
  SessionRecord,
  SessionRef,
} from '../ports/index.ts';
import { capabilityError, missingCapability } from '../sessions/capabilities.ts';
import { decideSession, type SessionInputName } from '../sessions/session-machine.ts';
import {
  changeSession,
  commandTimeoutMs,
  hasProgram,
  maxCommands,
  type SessionStep,
  type SessionView,
} from './change-session.ts';
import { withoutSecrets } from './record-receipt.ts';

export type LifecycleCommand = Extract<SessionCommand, 'release' | 'pause' | 'resume' | 'cancel'>;

type LifecycleEngine = Pick<Engine, 'store' | 'clock' | 'ids' | 'settings' | 'audit' | 'redact'>;

/** Throws `capability_missing`, or `session_conflict` if the status does not allow it. */
export function requestCommand(
  engine: LifecycleEngine,
  ref: SessionRef,
  command: LifecycleCommand,
  by: Decider,
): Promise<SessionRecord> {
  return changeSession(engine, ref, async (view) => {
    const { session, state, now } = view;
    requireProgram(session);
    if (command !== 'cancel') {
      const operation = { type: command } as const;
      const missing = missingCapability(session.capabilities, operation);
      if (missing !== undefined) throw capabilityError(session.handle, operation, missing);
    }
    const decision = decideSession(state, { type: command, sessionId: session.id });
    if (decision.kind === 'refused') throw new RelayError('session_conflict', decision.reason);
    if (decision.kind === 'same') return undefined;
    const audit = command === 'release' ? releaseEntry(engine, ref, session, by) : [];
    if (command === 'release' && !isReachable(view)) {
      const inputs: SessionStep['inputs'] = [{ type: 'release' }, { type: 'finish' }];
      return { inputs, write: { audit } };
    }
    const open = await view.store.sessions.openCommands(session.id, maxCommands);
    if (open.some((each) => each.command === command)) return undefined;
    if (open.length >= maxCommands) {
      throw new RelayError('session_conflict', `${maxCommands} commands wait for an answer`);
    }
    const asked = {
      id: engine.ids.next(),
      sessionId: session.id,
      command,
      args: {},
      at: now,
      answerBy: now + commandTimeoutMs,
    };
    return {
      inputs: command === 'release' ? [{ type: 'release' }] : [],
      write: { commands: [asked], audit },
    };
  });
}

function requireProgram(session: SessionRecord): void {
  if (hasProgram(session)) return;
  throw new RelayError(
    'session_conflict',
    `A session of the harness ${session.harness} takes no commands yet`,
  );
}

function isReachable({ session, state }: SessionView): boolean {
  const { lifecycle, connection } = state;
  return session.harness !== 'human' && connection === 'reachable' && lifecycle !== 'failed';
}

function releaseEntry(
  engine: LifecycleEngine,
  { tenantId, sessionId }: SessionRef,
  { handle }: SessionRecord,
  who: Decider,
): NewAuditEntry[] {
  const at = engine.clock.now();
  const what = { sessionId, handle };
  return auditRecordsOf(engine, tenantId, [
    { at, who, action: 'session.released', what, why: null },
  ]);
}

/** What an answer means for the session. */
const inputOfCommand = {
  release: 'finish',
  pause: 'hold',
  resume: 'resume',
  cancel: 'settle',
} as const satisfies Record<LifecycleCommand, SessionInputName>;

/** The same answer again is accepted; another one is a `receipt_conflict`. */
export function answerCommand(
  engine: LifecycleEngine,
  ref: SessionRef,
  commandId: string,
  given: Pick<CommandAnswer, 'ok' | 'result' | 'error'>,
): Promise<SessionRecord> {
  const answer = withoutSecrets(engine, given);
  return changeSession(engine, ref, async (view) => {
    const command = await view.store.sessions.readCommand(view.session.id, commandId);
    if (command === undefined) throw new RelayError('not_found', 'No such command');
    if (command.answer !== null) {
      if (command.answer.ok === answer.ok && command.answer.error === answer.error)
        return undefined;
      throw new RelayError('receipt_conflict', 'The command was answered before, or has timed out');
    }
    return answered(view, command, answer);
  });
}

/** The step with the answer of a command, given or not. */
export function answered(
  view: SessionView,
  { id, command }: SessionCommandRecord,
  answer: Pick<CommandAnswer, 'ok' | 'result' | 'error'> & { readonly timedOut?: boolean },
): SessionStep {
  const { session, state, now } = view;
  const { timedOut = false, ...given } = answer;
  const write = { answers: [{ id, sessionId: session.id, at: now, ...given }] };
  const input = isLifecycle(command) ? inputOfCommand[command] : undefined;
  if (given.ok) {
    // The session may have changed since it was asked, such as by a new attach.
    const isPossible =
      input !== undefined &&
      decideSession(state, { type: input, sessionId: session.id }).kind !== 'refused';
    return isPossible ? { inputs: [{ type: input }], write } : { write };
  }
  const error: Extract<SessionEvent, { type: 'error' }> = {
    type: 'error',
    error: `The command ${command} failed: ${given.error ?? 'no reason was given'}`,
    code: timedOut ? 'command_timed_out' : 'command_failed',
  };
  const { type: _, ...fields } = error;
  return command === 'release'
    ? { inputs: [{ type: 'fail', error: fields }], write }
    : { events: [error], write };
}

function isLifecycle(command: SessionCommand): command is LifecycleCommand {
  return command in inputOfCommand;
}
