/**
 * A turn of a native session is a run. What the run stores changes the session in the same commit:
 *
 *   message.added       its delivery is delivered
 *   turn.started        what the root agent had not read is consumed: it is in this model call's context
 *   approval.…          the session waits for a person, or is blocked by an unknown outcome
 *   run.suspended       a requested pause takes effect
 *   run.ended           the session is idle, its usage grows, and what was never read has failed
 *
 * Everything here is a function of the events, of the run's states before and after them, and of the
 * session.
 */
import {
  defined,
  isEnded,
  type ReceivedMessage,
  type RunError,
  type SessionEvent,
  type StoredEvent,
  textOf,
} from '@relay/protocol';
import type { DeliveryChange, SessionChange, SessionRecord } from '../ports/index.ts';
import { answerOf } from '../run/state/agent.ts';
import {
  clientCalls,
  evolve,
  pendingApprovals,
  rootAgent,
  type RunState,
} from '../run/state/state.ts';
import {
  changedDelivery,
  decideDelivery,
  type DeliveryInput,
  type DeliveryState,
} from './delivery-machine.ts';
import type { DeferralReason } from './modes.ts';
import { decideSessionAll, type SessionInput, type SessionInputName } from './session-machine.ts';
import { type SessionState, statusOf, updatedUsage } from './state.ts';

/** A message that must wait for the turn. */
export interface DeferredMessage extends ReceivedMessage {
  readonly reason: DeferralReason;
}

/** Events of a run that are stored together. */
export interface TurnStep {
  readonly runId: string;
  readonly at: number;
  readonly events: readonly StoredEvent[];
  /** The states of the run before and after the events. */
  readonly before: RunState;
  readonly after: RunState;
  readonly deferred: readonly DeferredMessage[];
}

/** What is stored of a delivery; undefined: it is as the run left it. */
export type StoredDelivery = (deliveryId: string) => DeliveryState | undefined;

/** What a step of a run changes in the session whose turn the run is; undefined: nothing. */
export function sessionChangeOf(
  session: SessionRecord,
  step: TurnStep,
  storedDelivery: StoredDelivery = () => undefined,
): SessionChange | undefined {
  if (!step.events.some(isShown) && step.deferred.length === 0) return undefined;
  const { id: sessionId } = session;
  const { at } = step;
  const deliveries = new DeliveryChanges(storedDelivery);
  const events = [...eventsOfSteps(step, deliveries)];
  const isCondition = step.events.some(decidesStatus);
  if (!isCondition) {
    const isEmpty = events.length === 0 && deliveries.changes.length === 0;
    return isEmpty ? undefined : { sessionId, at, events, deliveries: deliveries.changes };
  }
  const { state, events: ofStatus } = statusAfter(session, step);
  const hasEnded = isEnded(step.after.status);
  const isReleased = state.lifecycle === 'released';
  return {
    sessionId,
    at,
    ifVersion: session.version,
    events: [...events, ...ofStatus],
    deliveries: deliveries.changes,
    progress: {
      status: statusOf(state),
      state,
      ...defined({
        activeRunId: hasEnded ? null : undefined,
        releasedAt: isReleased ? at : undefined,
        // What is in the queue may be the next turn.
        dueAt: hasEnded && session.queue.length > 0 && !isReleased ? at : undefined,
      }),
    },
  };
}

/** The session after a change that was stored. */
export function changedSession(session: SessionRecord, change: SessionChange): SessionRecord {
  return { ...session, ...change.progress, version: session.version + 1 };
}

/** Most commits of a run only add text, which the session shows as a whole. */
function isShown(event: StoredEvent): boolean {
  switch (event.type) {
    case 'message.added':
    case 'turn.started':
    case 'turn.completed':
    case 'tool.called':
    case 'tool.completed':
    case 'tool.failed':
    case 'tool.denied':
      return true;
    default:
      return decidesStatus(event);
  }
}

function decidesStatus({ type }: StoredEvent): boolean {
  return (
    type === 'run.suspended' ||
    type === 'run.resumed' ||
    type === 'run.ended' ||
    type === 'approval.requested' ||
    type === 'approval.decided' ||
    type === 'approval.expired' ||
    type === 'approval.closed'
  );
}

/** The deliveries that a step changes, each as often as its status changes. */
class DeliveryChanges {
  readonly changes: DeliveryChange[] = [];
  readonly #stored: StoredDelivery;
  /** Those that an earlier event of the step has changed. */
  readonly #known = new Map<string, DeliveryState>();

  constructor(stored: StoredDelivery) {
    this.#stored = stored;
  }

  /** The events of a change; none if what is stored has come further. */
  add(
    { messageId, deliveryId }: ReceivedMessage,
    assumed: { readonly status: DeliveryState['status']; readonly from?: DeliveryChange['from'] },
    input: DeliveryInput,
  ): readonly SessionEvent[] {
    if (deliveryId === undefined) return [];
    const known = this.#known.get(deliveryId) ?? this.#stored(deliveryId);
    const delivery = known ?? { id: deliveryId, messageId, status: assumed.status, ...untouched };
    const from = known === undefined ? assumed.from : undefined;
    const decision = decideDelivery(delivery, input);
    if (decision.kind !== 'accepted') return [];
    this.#known.set(deliveryId, changedDelivery(delivery, decision.change));
    this.changes.push({ ...decision.change, ...defined({ from }) });
    return decision.events;
  }
}

const untouched = { reason: null, availableAt: null, attempts: 0, isObservable: true } as const;

const pending = { status: 'accepted', from: ['accepted', 'deferred'] } as const;

function* eventsOfSteps(step: TurnStep, deliveries: DeliveryChanges): Iterable<SessionEvent> {
  const { runId, at, before, after, deferred } = step;
  for (const { reason, ...message } of deferred) {
    yield* deliveries.add(message, { status: 'accepted' }, { type: 'defer', now: at, reason });
  }
  let state = before;
  for (const event of step.events) {
    const { unread } = state;
    if (event.type === 'turn.started' && event.agentId === state.rootId) {
      for (const message of unread) {
        yield* deliveries.add(message, { status: 'delivered' }, { type: 'consume' });
      }
    }
    state = evolve(state, event);
    yield* eventsOf(event, runId);
    switch (event.type) {
      case 'message.added':
        yield* deliveries.add(event, pending, { type: 'deliver' });
        yield chunkOf(event, runId, { role: 'user', content: textOf(event.content) });
        break;
      case 'turn.completed': {
        if (event.agentId !== state.rootId) break;
        const content = answerOf(rootAgent(state));
        if (content !== '') yield chunkOf(event, runId, { role: 'agent', content });
        break;
      }
      case 'run.ended':
        for (const message of unread) {
          const reason = `turn ${event.status}`;
          const input = { type: 'fail', reason, retryable: true } as const;
          yield* deliveries.add(message, { status: 'delivered' }, input);
        }
        break;
      default:
        break;
    }
  }
  if (state.seq !== after.seq) throw new TypeError('The events do not lead to the state');
}

/** What a session's journal shows of its run's tools. */
function* eventsOf(event: StoredEvent, run: string): Iterable<SessionEvent> {
  switch (event.type) {
    case 'tool.called': {
      const { name: tool, input } = event;
      yield { type: 'tool.called', run, tool, input };
      break;
    }
    case 'tool.completed': {
      const { name: tool, context, result = context, durationMs } = event;
      yield { type: 'tool.completed', run, tool, ...defined({ output: result, durationMs }) };
      break;
    }
    case 'tool.failed': {
      const { name: tool, error } = event;
      yield { type: 'tool.failed', run, tool, error };
      break;
    }
    case 'tool.denied': {
      const { name: tool, reason, status } = event;
      yield { type: 'tool.failed', run, tool, error: reason ?? `The call was ${status}` };
      break;
    }
    default:
      break;
  }
}

export function chunkOf(
  { seq, at }: Pick<StoredEvent, 'seq' | 'at'>,
  runId: string,
  chunk: { readonly role: 'agent' | 'user'; readonly content: string },
): SessionEvent {
  return {
    type: 'transcript.chunk',
    chunk: { id: `${runId}:${seq}`, at, sequence: seq, ...chunk },
  };
}

function statusAfter(
  session: SessionRecord,
  { events, after }: TurnStep,
): { readonly state: SessionState; readonly events: readonly SessionEvent[] } {
  const { id: sessionId } = session;
  const before = session.state;
  const ended = events.findLast((event) => event.type === 'run.ended');
  if (ended === undefined) {
    const type = inputOf(after);
    const isHeld = type === 'hold' && before.lifecycle !== 'pausing';
    return decided(before, [{ type: isHeld ? 'work' : type, sessionId }]);
  }
  return endTurn(session, { usage: ended.usage, error: ended.error, status: ended.status });
}

/** The end of a session's turn: it is idle, or released if that was requested. */
export function endTurn(
  session: SessionRecord,
  ended: {
    readonly usage?: RunState['usage'];
    readonly error?: RunError | undefined;
    readonly status: 'completed' | 'failed' | 'canceled';
  },
): { readonly state: SessionState; readonly events: readonly SessionEvent[] } {
  const { id: sessionId } = session;
  const before = session.state;
  const { inputTokens = 0, outputTokens = 0, costUsd } = ended.usage ?? {};
  const total = {
    tokens: before.usage.tokens + inputTokens + outputTokens,
    ...defined({
      costUsd: costUsd === undefined ? before.usage.costUsd : costUsd + (before.usage.costUsd ?? 0),
    }),
  };
  const usage = updatedUsage(before.usage, total);
  const { code, message, retryable } = ended.error ?? {};
  const error =
    ended.status !== 'failed'
      ? undefined
      : { error: message ?? 'The turn has failed', ...defined({ code, retryable }) };
  const settle: SessionInput = { type: 'settle', sessionId, ...defined({ error }) };
  const finish: SessionInput = { type: 'finish', sessionId };
  const inputs = before.lifecycle === 'releasing' ? [settle, finish] : [settle];
  const { state, events } = decided({ ...before, usage }, inputs);
  return { state, events: [{ type: 'usage.updated', ...total }, ...events] };
}

function decided(state: SessionState, inputs: readonly SessionInput[]) {
  const decision = decideSessionAll(state, inputs);
  return decision.kind === 'accepted' ? decision : { state, events: [] };
}

/** What the state of a run means for its session. */
function inputOf(run: RunState): SessionInputName {
  const approvals = pendingApprovals(run);
  if (approvals.some(({ kind }) => kind === 'outcome')) return 'block';
  if (approvals.length > 0 || clientCalls(run).length > 0) return 'wait';
  return run.status === 'waiting' ? 'hold' : 'work';
}
