/**
 * The states of an invocation, and how it ends.
 *
 *   (waiting) ──▶ running ──▶ completed | failed
 *       └─────────────────────▶ denied
 *
 * - The intent is stored before the handler starts (E2), with the events of the caller's and the exposing
 *   session (`invoke-action.ts`), and ends once, by compare-and-set.
 * - A handler that is not idempotent is started once. If a crash hides what it did, the invocation is
 *   `failed`, code `outcome_unknown`; an idempotent one is started again, with the same key.
 */
import {
  canonicalJson,
  defined,
  type ErrorCode,
  RelayError,
  type SessionEvent,
} from '@relay/protocol';
import type { Engine } from '../../engine.ts';
import type {
  InvocationError,
  InvocationRecord,
  SessionChange,
  SessionRef,
  TenantStore,
} from '../../ports/index.ts';
import { type Action, actionOf, problemWithOutput } from '../../sessions/actions.ts';

export type InvocationEngine = Pick<
  Engine,
  | 'store'
  | 'clock'
  | 'ids'
  | 'digest'
  | 'settings'
  | 'audit'
  | 'redact'
  | 'invocations'
  | 'onInvocation'
  | 'onApproval'
>;

/** Throws `not_found`. */
export async function readInvocation(store: TenantStore, id: string): Promise<InvocationRecord> {
  const invocation = await store.actions.readInvocation(id);
  if (invocation === undefined) throw new RelayError('not_found', 'No such invocation');
  return invocation;
}

/** One event for each of these sessions. */
export function eventFor(
  sessionIds: readonly (string | null | undefined)[],
  at: number,
  event: SessionEvent,
): SessionChange[] {
  const ids = new Set(sessionIds.filter((id) => id !== null && id !== undefined));
  return Array.from(ids, (sessionId) => ({ sessionId, at, events: [event] }));
}

/** What a handler has returned, or why there is nothing. */
export type InvocationResult =
  | { readonly output: unknown }
  | { readonly error: string; readonly code?: ErrorCode; readonly retryable?: boolean | undefined };

/** Of an output in characters, as of a request. */
const maxOutputChars = 1024 * 1024;

/** Ends an invocation that runs, unless it has ended. The invocation after it. */
export async function endInvocation(
  engine: InvocationEngine,
  tenantId: string,
  invocationId: string,
  result: InvocationResult,
): Promise<InvocationRecord> {
  const store = engine.store.tenant(tenantId);
  /** Sessions that have ended: their journals take no more events. */
  const gone = new Set<string>();
  for (;;) {
    const invocation = await readInvocation(store, invocationId);
    if (invocation.status !== 'running') return invocation;
    const action = await actionOf(engine.invocations?.own, store, invocation);
    const ending = endingOf(engine, action, result);
    const { id, action: name, by, sessionId } = invocation;
    const at = engine.clock.now();
    const error = 'error' in ending ? ending.error : undefined;
    const named = { action: name, invocationId: id };
    const event: SessionEvent =
      error === undefined
        ? { type: 'action.completed', ...named, durationMs: at - invocation.at }
        : {
            type: 'action.failed',
            ...named,
            error: error.message,
            ...defined({ retryable: error.retryable }),
          };
    const to = error === undefined ? 'completed' : 'failed';
    const ids = [by.type === 'session' ? by.id : null, sessionId];
    const outcome = await store.sessions.change({
      changes: eventFor(ids, at, event).filter((change) => !gone.has(change.sessionId)),
      invocationChanges: [{ id, from: ['running'], to, at, ...ending }],
    });
    if (outcome.kind === 'gone') gone.add(outcome.sessionId);
    if (outcome.kind !== 'committed') continue;
    const ended = await readInvocation(store, invocationId);
    engine.onInvocation?.(tenantId, ended);
    engine.invocations?.changed(invocationId);
    return ended;
  }
}

type Ending = { readonly output: unknown } | { readonly error: InvocationError };

/** An output that does not match its schema is an error. Nothing that is stored contains a key (E8). */
function endingOf(
  { redact = (text) => text }: InvocationEngine,
  action: Action | undefined,
  result: InvocationResult,
): Ending {
  if ('error' in result) {
    const { error, code = 'action_failed', retryable } = result;
    return { error: { code, message: redact(error), ...defined({ retryable }) } };
  }
  const invalid = (message: string): Ending => ({ error: { code: 'output_invalid', message } });
  const text = JSON.stringify(result.output ?? null);
  if (text.length > maxOutputChars) return invalid(`The output is larger than ${maxOutputChars}`);
  const output = JSON.parse(redact(text)) as unknown;
  const problem = problemWithOutput(action, output);
  return problem === undefined ? { output } : invalid(problem);
}

/**
 * The result that the program of the exposing session reports. The same result again changes nothing.
 * Throws `receipt_conflict` if the invocation has ended otherwise, and `not_found` if it is another's.
 */
export async function recordResult(
  engine: InvocationEngine,
  { tenantId, sessionId }: SessionRef,
  invocationId: string,
  result: InvocationResult,
): Promise<InvocationRecord> {
  const store = engine.store.tenant(tenantId);
  const before = await readInvocation(store, invocationId);
  if (before.sessionId !== sessionId) throw new RelayError('not_found', 'No such invocation');
  if (before.status === 'waiting') {
    throw new RelayError('receipt_conflict', 'The invocation is not running');
  }
  const after = await endInvocation(engine, tenantId, invocationId, result);
  const action = await actionOf(engine.invocations?.own, store, after);
  const ending = endingOf(engine, action, result);
  const stored = after.error === null ? { output: after.output } : { error: after.error };
  if (canonicalJson(stored) === canonicalJson(ending)) return after;
  throw new RelayError(
    'receipt_conflict',
    `The invocation has ended before, as ${after.status}${after.error === null ? '' : `: ${after.error.code}`}`,
  );
}
