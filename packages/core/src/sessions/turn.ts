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
import { decideSession, type SessionInputName } from './session-machine.ts';
import { type SessionState, statusOf, updatedUsage } from './state.ts';

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
}

type Delivered = ReceivedMessage & { readonly deliveryId: string };

/** `before` is the state before the events. Undefined if they mean nothing for the session. */
export function turnStepOf(
  runId: string,
  stored: readonly StoredEvent[],
  before: RunState,
): TurnStep | undefined {
  if (stored.every(({ type }) => type === 'text.appended' || type === 'reasoning.appended')) {
    return undefined;
  }
  const events: SessionEvent[] = [];
  let usage = noUsage;
  let error: RunError | undefined;
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
        break;
      default:
        break;
    }
  }
  const input = inputOf(state);
  const [last] = stored.slice(-1);
  const isQuiet = events.length === 0 && usage === noUsage;
  // A run starts with its session: the turn is active already.
  if (last === undefined || (isQuiet && input === inputOf(before))) return undefined;
  const at = Date.parse(last.at);
  return { runId, at, events, usage, input, ...defined({ error }) };
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
  session: Pick<SessionRecord, 'id' | 'version' | 'state' | 'activeRunId'>,
  step: TurnStep,
): SessionChange | undefined {
  const { state } = session;
  if (state.lifecycle === 'released' || session.activeRunId !== step.runId) return undefined;
  const usage = usageAfter(state, step.usage);
  const { error } = step;
  const decision = decideSession(state, {
    type: step.input,
    sessionId: session.id,
    ...defined({
      error:
        error === undefined
          ? undefined
          : { error: error.message, code: error.code, retryable: error.retryable },
    }),
  });
  const next = { ...(decision.kind === 'accepted' ? decision.state : state), usage };
  const events: SessionEvent[] = [
    ...step.events,
    ...(usage === state.usage ? [] : [{ type: 'usage.updated', ...usage } as const]),
    ...(decision.kind === 'accepted' ? decision.events : []),
  ];
  const deliveries = deliveryChanges(step.events);
  const ends = step.input === 'settle';
  const isConditional = decision.kind === 'accepted' || usage !== state.usage || ends;
  if (!isConditional && events.length === 0) return undefined;
  const change = { sessionId: session.id, at: step.at, events, deliveries };
  if (!isConditional) return change;
  const progress = { status: statusOf(next), state: next };
  return {
    ...change,
    ifVersion: session.version,
    progress: ends ? { ...progress, activeRunId: null } : progress,
  };
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
  return [
    ...[...taken]
      .filter((id) => !read.has(id))
      .map((id): DeliveryChange => ({ id, from: waiting, to: 'delivered' })),
    ...[...read].map((id): DeliveryChange => ({
      id,
      from: taken.has(id) ? waiting : ['delivered'],
      to: 'consumed',
    })),
  ];
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
