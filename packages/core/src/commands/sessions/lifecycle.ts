/**
 * Release, pause, resume and cancel of sessions.
 *
 * - A program carries them out: the command is stored, sent by the session's stream, and takes effect with
 *   the program's answer. A command that is refused or not answered in time has failed, and an `error` event
 *   says so. A session without a program to ask, because it is a person's, is offline or has failed, is
 *   released at once.
 * - A native session changes at once, and the run that is its turn gets the command.
 */
import {
  type Decider,
  personOf,
  RelayError,
  type SessionCommand,
  type SessionEvent,
} from '@relay/protocol';
import type { Engine } from '../../engine.ts';
import { auditRecordsOf } from '../../governance/audit.ts';
import { findKeyInForce } from '../../permission/keys.ts';
import type {
  AuditEntry,
  CommandAnswer,
  NewAuditEntry,
  NewSessionCommand,
  RunCommand,
  SessionCommandRecord,
  SessionRecord,
  SessionRef,
} from '../../ports/index.ts';
import { keyIdOf } from '../../permission/approvers.ts';
import { requireCapability } from '../../sessions/capabilities.ts';
import { decideSession, type SessionInputName } from '../../sessions/session-machine.ts';
import {
  changeSession,
  commandTimeoutMs,
  maxCommands,
  offlineAfterMs,
  type SessionStep,
  type SessionView,
} from './change-session.ts';
import { createUnlessTaken } from './create.ts';
import { withoutSecrets } from './record-receipt.ts';
import type { RunControl } from '../start-run.ts';

export interface SessionCaller {
  readonly by: Decider;
  readonly isAdmin: boolean;
}

export type LifecycleCommand = Extract<SessionCommand, 'release' | 'pause' | 'resume' | 'cancel'>;

type LifecycleEngine = Pick<
  Engine,
  'store' | 'clock' | 'ids' | 'settings' | 'audit' | 'redact' | 'sessionDue'
>;

/** Asks the program of a session. Throws `capability_missing`, or `session_conflict`. */
export function requestCommand(
  engine: LifecycleEngine,
  ref: SessionRef,
  command: LifecycleCommand,
  by: Decider,
): Promise<SessionRecord> {
  const released = (session: SessionRecord) =>
    entryOf(engine, ref, session, { who: by, action: 'session.released' });
  return changeSession(engine, ref, async (view) => {
    const { session } = view;
    const isNew = changesSession(view, command);
    const open = await view.store.sessions.openCommands(session.id, maxCommands);
    // A pause that is not answered yet is ended by a resume, and the other way round.
    const asked = open.findLast((each) => each.command === command || isOpposite(each, command));
    if (asked === undefined ? !isNew : asked.command === command) return undefined;
    const audit = command === 'release' ? released(session) : [];
    if (command === 'release' && !isReachable(view)) {
      const inputs: SessionStep['inputs'] = [{ type: 'release' }, { type: 'finish' }];
      return { inputs, write: { audit } };
    }
    const question = newCommand(view, open, { id: engine.ids.next(), command, args: {} });
    return {
      inputs: command === 'release' ? [{ type: 'release' }] : [],
      write: { commands: [question], audit },
    };
  });
}

/** For the program of the session. Throws `session_conflict` if too many are open. */
export function newCommand(
  { session, now }: SessionView,
  open: readonly unknown[],
  asked: Pick<NewSessionCommand, 'id' | 'command' | 'args' | 'fork'>,
): NewSessionCommand {
  if (open.length >= maxCommands) {
    throw new RelayError('session_conflict', `${maxCommands} commands wait for an answer`);
  }
  return { ...asked, sessionId: session.id, at: now, answerBy: now + commandTimeoutMs };
}

/** Whether the command changes anything. Throws `capability_missing`, or `session_conflict`. */
function changesSession({ session, state }: SessionView, command: LifecycleCommand): boolean {
  if (command !== 'cancel') requireCapability(session, { type: command });
  const decision = decideSession(state, { type: command, sessionId: session.id });
  if (decision.kind === 'refused') throw new RelayError('session_conflict', decision.reason);
  return decision.kind === 'accepted';
}

const opposites: Partial<Record<SessionCommandRecord['command'], LifecycleCommand>> = {
  pause: 'resume',
  resume: 'pause',
};

function isOpposite({ command }: SessionCommandRecord, asked: LifecycleCommand): boolean {
  return opposites[command] === asked;
}

/**
 * Changes a native session, and stores the command for the run that is its turn in the same commit: a
 * release or a cancel ends the run, a pause suspends it after the running model call or tool. Throws as above.
 */
export async function commandNative(
  { engine, supervisor }: RunControl,
  ref: SessionRef,
  command: LifecycleCommand,
  { by, isAdmin }: SessionCaller,
): Promise<SessionRecord> {
  const released = (session: SessionRecord) =>
    entryOf(engine, ref, session, { who: by, action: 'session.released' });
  let runId: string | undefined;
  const session = await changeSession(engine, ref, async (view) => {
    runId = undefined;
    const isNew = changesSession(view, command);
    const isTakenOver =
      command === 'resume' &&
      (isAdmin || personOf(by) === view.session.owner) &&
      (await hasLostKey(view));
    if (isTakenOver) return takeover(engine, ref, view, { by, inputs: isNew ? ['resume'] : [] });
    if (!isNew) return undefined;
    const audit = command === 'release' ? released(view.session) : [];
    const { activeRunId } = view.session;
    if (activeRunId === null) {
      if (command === 'cancel') return undefined;
      const finish = command === 'release' ? [{ type: 'finish' } as const] : [];
      return { inputs: [{ type: command }, ...finish], write: { audit } };
    }
    runId = activeRunId;
    const queued = { id: engine.ids.next(), command: runCommandOf(command, by) };
    return {
      inputs: command === 'cancel' ? [] : [{ type: command }],
      write: { audit, runCommands: [{ runId: activeRunId, queued }] },
    };
  });
  if (runId === undefined) return session;
  const run = { tenantId: ref.tenantId, runId };
  if (command === 'pause') supervisor.notify(run);
  else supervisor.wake(run, command === 'resume' ? 'queued' : 'immediate');
  return session;
}

/** The key that its turns are counted for has ended: it is blocked until another key resumes it. */
async function hasLostKey({ store, session, now }: SessionView): Promise<boolean> {
  const { keyId, activeRunId } = session;
  if (keyId === null || activeRunId !== null) return false;
  return (await findKeyInForce(store, keyId, now)) === undefined;
}

function takeover(
  engine: LifecycleEngine,
  ref: SessionRef,
  { session, now }: SessionView,
  { by, inputs }: { readonly by: Decider; readonly inputs: readonly 'resume'[] },
): SessionStep {
  const audit = entryOf(engine, ref, session, { who: by, action: 'session.taken-over' });
  return {
    inputs: inputs.map((type) => ({ type })),
    redefine: { owner: personOf(by), keyId: keyIdOf(by) },
    dueAt: now,
    write: { audit },
  };
}

function runCommandOf(command: LifecycleCommand, by: Decider): RunCommand {
  switch (command) {
    case 'pause':
    case 'resume':
      return { kind: command };
    case 'release':
      return { kind: 'cancel', reason: 'The session was released', by };
    case 'cancel':
      return { kind: 'cancel', reason: 'The turn was canceled', by };
  }
}

/**
 * Releases a session at once, whatever its program does, and deletes it. Its deliveries have failed before
 * that, and the run that is its turn is canceled. False if it does not exist.
 */
export async function dropSession(
  { engine, supervisor }: RunControl,
  ref: SessionRef,
  { by, audit }: { readonly by: Decider; readonly audit: readonly NewAuditEntry[] },
): Promise<boolean> {
  const { tenantId, sessionId } = ref;
  let runId: string | null = null;
  await changeSession(engine, ref, ({ session }) => {
    runId = session.activeRunId;
    if (session.releasedAt !== null) return undefined;
    const queued = { id: engine.ids.next(), command: runCommandOf('release', by) };
    const runCommands = runId === null ? [] : [{ runId, queued }];
    return { inputs: [{ type: 'release' }, { type: 'finish' }], write: { runCommands } };
  });
  if (runId !== null) supervisor.wake({ tenantId, runId }, 'immediate');
  const at = engine.clock.now();
  return engine.store.tenant(tenantId).sessions.remove(sessionId, { at, audit });
}

function isReachable({ session, state }: SessionView): boolean {
  const { lifecycle, connection } = state;
  return session.harness !== 'human' && connection === 'reachable' && lifecycle !== 'failed';
}

function entryOf(
  engine: LifecycleEngine,
  { tenantId, sessionId }: SessionRef,
  { handle }: SessionRecord,
  entry: Pick<AuditEntry, 'who' | 'action'>,
): NewAuditEntry[] {
  const at = engine.clock.now();
  return auditRecordsOf(engine, tenantId, [
    { at, ...entry, what: { sessionId, handle }, why: null },
  ]);
}

/** What an answer means for the session. */
const inputOfCommand = {
  release: 'finish',
  pause: 'hold',
  resume: 'resume',
  cancel: 'settle',
} as const satisfies Record<LifecycleCommand, SessionInputName>;

/**
 * The same answer again is accepted; another one is a `receipt_conflict`. The session of a fork is stored with the
 * answer, unless its handle is taken.
 */
export async function answerCommand(
  engine: LifecycleEngine,
  ref: SessionRef,
  commandId: string,
  given: Pick<CommandAnswer, 'ok' | 'result' | 'error'>,
): Promise<SessionRecord> {
  const answer = withoutSecrets(engine, given);
  if (answer.ok) await answerFork(engine, ref, commandId, answer);
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

/** Nothing if the command is no fork, or was answered before. */
async function answerFork(
  engine: LifecycleEngine,
  { tenantId, sessionId }: SessionRef,
  commandId: string,
  given: Pick<CommandAnswer, 'ok' | 'result'>,
): Promise<void> {
  const { sessions } = engine.store.tenant(tenantId);
  const command = await sessions.readCommand(sessionId, commandId);
  const parent = await sessions.read(sessionId);
  if (command?.fork === undefined || command.answer !== null || parent === undefined) return;
  const { name, kind, harness, capabilities, labels } = parent;
  const { handle, by, sessionId: forkId } = command.fork;
  const now = engine.clock.now();
  await createUnlessTaken(engine, {
    tenantId,
    by,
    sessionId: forkId,
    action: 'session.created',
    definition: {
      handle,
      name,
      kind,
      harness,
      capabilities,
      labels,
      parentSessionId: sessionId,
    },
    begin: null,
    dueAt: now + offlineAfterMs,
    isForked: true,
    answer: { id: commandId, sessionId, at: now, ...given },
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

function isLifecycle(command: SessionCommandRecord['command']): command is LifecycleCommand {
  return command in inputOfCommand;
}
