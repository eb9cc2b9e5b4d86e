/**
 * What the events of a run mean for the session whose turn it is. These functions are pure. Their result is
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
import type { SessionChange, SessionRecord } from '../ports/index.ts';
import { answerOf } from '../run/state/agent.ts';
import {
  clientCalls,
  evolve,
  pendingApprovals,
  rootAgent,
  type RunState,
} from '../run/state/state.ts';
import type { DeliverySteps } from './consequences.ts';
import type { DeliveryInput } from './delivery-machine.ts';
import type { DeferralReason } from './modes.ts';
import { decideSessionAll, type SessionInput, type SessionInputName } from './session-machine.ts';
import { progressOf, type SessionState, updatedUsage } from './state.ts';

/** What the turn does now; `hold`: the run is suspended by a pause. */
export type TurnInput = Extract<SessionInputName, 'work' | 'wait' | 'block' | 'hold' | 'settle'>;

/** What the run did with a message: the delivery decides what follows from it. */
export interface TurnDelivery {
  readonly type: 'delivery';
  readonly deliveryId: string;
  readonly input: DeliveryInput;
}

export interface TurnStep {
  readonly runId: string;
  readonly at: number;
  readonly events: readonly (SessionEvent | TurnDelivery)[];
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

/** A message that has to wait, for a reason that only the run knows. */
export interface DeferredMessage {
  readonly deliveryId: string;
  readonly reason: DeferralReason;
}

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
  const events: (SessionEvent | TurnDelivery)[] = deferred.map(({ deliveryId, reason }) => ({
    type: 'delivery',
    deliveryId,
    input: { type: 'defer', now: at, reason },
  }));
  const inputFor = (messages: readonly ReceivedMessage[], input: DeliveryInput) => {
    for (const { deliveryId } of messages) {
      if (deliveryId !== undefined) events.push({ type: 'delivery', deliveryId, input });
    }
  };
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
        inputFor([event], { type: 'deliver' });
        break;
      case 'turn.started':
        if (event.agentId !== state.rootId) break;
        inputFor(previous.unread, { type: 'consume' });
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
        inputFor(previous.unread, {
          type: 'fail',
          reason: `turn ${event.status}`,
          retryable: true,
        });
        break;
      default:
        break;
    }
  }
  const input = turnInputOf(state);
  const isQuiet = events.length === 0 && usage === noUsage;
  // A run starts with its session: the turn is active already.
  if (isQuiet && input === turnInputOf(before)) return undefined;
  return { runId, at, events, usage, input, ...defined({ error, answer }) };
}

/** What a run in this state does. */
export function turnInputOf(state: RunState): TurnInput {
  if (isEnded(state.status)) return 'settle';
  const kinds = pendingApprovals(state).map(({ kind }) => kind);
  if (kinds.includes('outcome')) return 'block';
  if (kinds.length > 0) return 'wait';
  if (state.status !== 'waiting') return 'work';
  return clientCalls(state).length > 0 ? 'wait' : 'hold';
}

export interface TurnOutcome {
  readonly state: SessionState;
  /** Of the state. */
  readonly events: readonly SessionEvent[];
  /** Whether the session moves because of the step. */
  readonly isChanged: boolean;
}

/** Undefined if the run is not, or no longer, the session's turn. */
export function outcomeOf(
  session: Pick<SessionRecord, 'id' | 'state' | 'activeRunId'>,
  step: TurnStep,
): TurnOutcome | undefined {
  const { state } = session;
  if (state.lifecycle === 'released' || session.activeRunId !== step.runId) return undefined;
  const decision = decideSessionAll(state, inputsOf(session, step));
  const moved = decision.kind === 'accepted' ? decision : { events: [], state };
  const usage = usageAfter(state, step.usage);
  const used = usage === state.usage ? [] : [{ type: 'usage.updated', ...usage } as const];
  return {
    state: { ...moved.state, usage },
    events: [...used, ...moved.events],
    isChanged: decision.kind === 'accepted' || used.length > 0,
  };
}

/** Undefined if nothing changes. */
export function sessionChangeOf(
  session: Pick<SessionRecord, 'id' | 'version' | 'state' | 'queue'>,
  step: TurnStep,
  outcome: TurnOutcome,
  { events: before, deliveries }: DeliverySteps,
): SessionChange | undefined {
  const { id: sessionId, version: ifVersion, state } = session;
  const { at, input } = step;
  const events = [...before, ...outcome.events];
  const ends = input === 'settle';
  // A pause that was requested meanwhile must not be missed.
  const isConditional = outcome.isChanged || ends || input === 'hold';
  if (!isConditional && events.length === 0) return undefined;
  const change = { sessionId, at, events, deliveries };
  if (!isConditional) return change;
  const progress = progressOf(state, outcome.state, at);
  if (!ends) return { ...change, ifVersion, progress };
  const isReleased = outcome.state.lifecycle === 'released';
  // What is in the queue is the next turn.
  const dueAt = session.queue.length > 0 && !isReleased ? at : null;
  const released = isReleased ? { releasedAt: at } : {};
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

/** The totals of the session. What a run of unknown cost has used is not in `costUsd`. */
function usageAfter({ usage }: SessionState, spent: Usage): SessionState['usage'] {
  const tokens = spent.inputTokens + spent.outputTokens;
  if (tokens === 0 && spent.costUsd === undefined) return usage;
  const costUsd = spent.costUsd === undefined ? undefined : (usage.costUsd ?? 0) + spent.costUsd;
  return updatedUsage(usage, { tokens: usage.tokens + tokens, costUsd });
}
