/**
 * What the events of a run mean for the session whose turn it is. Both functions are pure. Their result is
 * stored in the commit of the run's events, so that run and session cannot disagree.
 *
 * - `turnStepOf` reads a batch of events: tool calls, finished answers, messages taken and read, usage, and
 *   what the turn does after it.
 * - `sessionChangeOf` applies a step to a session as it is stored. Only what depends on its state is
 *   conditional.
 */
import {
  addUsage,
  defined,
  isEnded,
  noUsage,
  type ReceivedMessage,
  type RunError,
  type SessionEvent,
  type StoredEvent,
  type Usage,
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
import type { DeferralReason } from './modes.ts';
import { decideSessionAll, type SessionInput, type SessionInputName } from './session-machine.ts';
import { progressOf, type SessionState, updatedUsage } from './state.ts';

/** What the turn does now; `hold`: the run is suspended by a pause. */
type TurnInput = Extract<SessionInputName, 'work' | 'wait' | 'block' | 'hold' | 'settle'>;

export interface TurnStep {
  readonly runId: string;
  readonly at: number;
  /** With `delivery.delivered` of messages that the run has taken, and `message.received` of those read. */
  readonly events: readonly SessionEvent[];
  readonly usage: Usage;
  readonly input: TurnInput;
  /** Why the run failed. */
  readonly error?: RunError;
  /** The final answer of a completed turn, unless it is empty. */
  readonly answer?: TurnAnswer;
}

export interface TurnAnswer {
  readonly text: string;
  /** The ids of the messages that the turn has read. */
  readonly messageIds: readonly string[];
}

type Delivered = ReceivedMessage & { readonly deliveryId: string };

/** A message that has to wait, for a reason that only the run knows. */
export type DeferredMessage = Delivered & { readonly reason: DeferralReason };

/** `before` is the state before the events. Undefined if they mean nothing for the session. */
export function turnStepOf(
  runId: string,
  stored: readonly StoredEvent[],
  before: RunState,
  { at, deferred }: { readonly at: number; readonly deferred: readonly DeferredMessage[] },
): TurnStep | undefined {
  const isText = stored.every(
    ({ type }) => type === 'text.appended' || type === 'reasoning.appended',
  );
  if (isText && deferred.length === 0) return undefined;
  const availableAt = new Date(at).toISOString();
  const events: SessionEvent[] = deferred.map(({ reason, ...message }) => ({
    type: 'delivery.deferred',
    ...refOf(message),
    availableAt,
    reason,
  }));
  let usage = noUsage;
  let error: RunError | undefined;
  let answer: TurnAnswer | undefined;
  let state = before;
  for (const event of stored) {
    const previous = state;
    state = evolve(state, event);
    const run = { run: runId };
    switch (event.type) {
      case 'tool.called':
        events.push({ type: 'tool.called', ...run, tool: event.name, input: event.input });
        break;
      case 'tool.completed': {
        const { name: tool, result, context, durationMs } = event;
        const output = result ?? context;
        events.push({ type: 'tool.completed', ...run, tool, ...defined({ output, durationMs }) });
        break;
      }
      case 'tool.failed':
        events.push({ type: 'tool.failed', ...run, tool: event.name, error: event.error });
        break;
      case 'tool.denied': {
        const why = event.reason === undefined ? '' : `: ${event.reason}`;
        const denial = event.status === 'expired' ? 'The approval expired' : 'The call was denied';
        events.push({ type: 'tool.failed', ...run, tool: event.name, error: `${denial}${why}` });
        break;
      }
      case 'message.added':
        if (isDelivered(event)) events.push({ type: 'delivery.delivered', ...refOf(event) });
        break;
      case 'turn.started':
        if (event.agentId !== state.rootId) break;
        for (const message of previous.unread.filter(isDelivered)) {
          events.push({ type: 'message.received', ...refOf(message) });
        }
        break;
      case 'turn.completed': {
        usage = addUsage(usage, event.usage);
        const root = rootAgent(state);
        const content = answerOf(root);
        if (event.agentId !== root?.id || content === '') break;
        const { at, seq: sequence } = event;
        const chunk = {
          id: root.turn?.textId ?? '',
          at,
          role: 'agent',
          content,
          sequence,
        } as const;
        events.push({ type: 'transcript.chunk', chunk: { ...chunk, metadata: run } });
        break;
      }
      case 'turn.discarded':
      case 'context.compacted':
        usage = addUsage(usage, event.usage ?? noUsage);
        break;
      case 'run.ended':
        error = event.error;
        if (event.status === 'completed' && event.output.trim() !== '') {
          answer = { text: event.output, messageIds: previous.read };
        }
        // No model has read them: they can be delivered again.
        for (const message of previous.unread.filter(isDelivered)) {
          const reason = `turn ${event.status}`;
          events.push({ type: 'delivery.failed', ...refOf(message), reason, retryable: true });
        }
        break;
      default:
        break;
    }
  }
  const input = inputOf(state);
  const isQuiet = events.length === 0 && usage === noUsage;
  // A run starts with its session: the turn is active already.
  if (isQuiet && input === inputOf(before)) return undefined;
  return { runId, at, events, usage, input, ...defined({ error, answer }) };
}

function isDelivered(message: ReceivedMessage): message is Delivered {
  return message.deliveryId !== undefined;
}

function refOf({ messageId, deliveryId }: Delivered): Delivered {
  return { messageId, deliveryId };
}

function inputOf(state: RunState): TurnInput {
  if (isEnded(state.status)) return 'settle';
  const kinds = pendingApprovals(state).map(({ kind }) => kind);
  if (kinds.includes('outcome')) return 'block';
  if (kinds.length > 0) return 'wait';
  if (state.status !== 'waiting') return 'work';
  return clientCalls(state).length > 0 ? 'wait' : 'hold';
}

/** Undefined if the session is gone, or nothing changes. */
export function sessionChangeOf(
  session: Pick<SessionRecord, 'id' | 'version' | 'state' | 'activeRunId' | 'queue'>,
  step: TurnStep,
): SessionChange | undefined {
  const { state } = session;
  if (state.lifecycle === 'released' || session.activeRunId !== step.runId) return undefined;
  const { id: sessionId } = session;
  const usage = usageAfter(state, step.usage);
  const decision = decideSessionAll(state, inputsOf(session, step));
  const next = { ...(decision.kind === 'accepted' ? decision.state : state), usage };
  const events: SessionEvent[] = [
    ...step.events,
    ...(usage === state.usage ? [] : [{ type: 'usage.updated', ...usage } as const]),
    ...(decision.kind === 'accepted' ? decision.events : []),
  ];
  const deliveries = deliveryChanges(step.events);
  const ends = step.input === 'settle';
  // A pause that was requested meanwhile must not be missed.
  const isConditional =
    decision.kind === 'accepted' || usage !== state.usage || ends || step.input === 'hold';
  if (!isConditional && events.length === 0) return undefined;
  const change = { sessionId, at: step.at, events, deliveries };
  if (!isConditional) return change;
  const progress = progressOf(state, next, step.at);
  const { version: ifVersion } = session;
  if (!ends) return { ...change, ifVersion, progress };
  const isReleased = next.lifecycle === 'released';
  // What is in the queue is the next turn.
  const dueAt = session.queue.length > 0 && !isReleased ? step.at : null;
  const released = isReleased ? { releasedAt: step.at } : {};
  return { ...change, ifVersion, progress: { ...progress, activeRunId: null, dueAt, ...released } };
}

function inputsOf(
  { id: sessionId, state }: Pick<SessionRecord, 'id' | 'state'>,
  { input, error }: TurnStep,
): SessionInput[] {
  // The pause may be over again; the run goes on then.
  const isOver = input === 'hold' && state.lifecycle !== 'pausing' && state.lifecycle !== 'paused';
  const fields =
    error === undefined
      ? undefined
      : { error: error.message, code: error.code, retryable: error.retryable };
  const first: SessionInput = {
    type: isOver ? 'work' : input,
    sessionId,
    ...defined({ error: fields }),
  };
  const isReleasing = input === 'settle' && state.lifecycle === 'releasing';
  return isReleasing ? [first, { type: 'finish', sessionId }] : [first];
}

/** The totals of the session. Its cost is unknown as soon as that of a run is. */
function usageAfter({ usage }: SessionState, spent: Usage): SessionState['usage'] {
  const tokens = spent.inputTokens + spent.outputTokens;
  if (tokens === 0 && spent.costUsd === undefined) return usage;
  const costUsd = spent.costUsd === undefined ? undefined : (usage.costUsd ?? 0) + spent.costUsd;
  return updatedUsage(usage, { tokens: usage.tokens + tokens, costUsd });
}

/** A message that is taken and read in one commit changes once. */
function deliveryChanges(events: readonly SessionEvent[]): DeliveryChange[] {
  const { taken, read } = deliveriesIn(events);
  const waiting = ['accepted', 'deferred'] as const;
  return events.flatMap((event): DeliveryChange[] => {
    switch (event.type) {
      case 'delivery.deferred': {
        const { deliveryId: id, availableAt, reason } = event;
        const until = Date.parse(availableAt);
        return [{ id, from: waiting, to: 'deferred', availableAt: until, ...defined({ reason }) }];
      }
      case 'delivery.delivered': {
        const { deliveryId: id } = event;
        return read.has(id) ? [] : [{ id, from: waiting, to: 'delivered', isAttempt: true }];
      }
      case 'message.received': {
        const { deliveryId: id = '' } = event;
        if (!taken.has(id)) return [{ id, from: ['delivered'], to: 'consumed' }];
        return [{ id, from: waiting, to: 'consumed', isAttempt: true }];
      }
      case 'delivery.failed': {
        const { deliveryId: id, reason, retryable } = event;
        const from = [...waiting, 'delivered'] as const;
        return [{ id, from, to: 'failed', reason, ...defined({ retryable }) }];
      }
      default:
        return [];
    }
  });
}

/** The deliveries that events hand over, and those that they say a model has read. */
export function deliveriesIn(events: readonly SessionEvent[]): {
  readonly taken: ReadonlySet<string>;
  readonly read: ReadonlySet<string>;
} {
  const idsOf = (type: 'delivery.delivered' | 'message.received') =>
    new Set(events.flatMap((event) => (event.type === type ? (event.deliveryId ?? []) : [])));
  return { taken: idsOf('delivery.delivered'), read: idsOf('message.received') };
}
