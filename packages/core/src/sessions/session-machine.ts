/**
 * The state machine of a session: ten statuses × inputs, as a total table.
 *
 *   starting ──start──▶ idle ◀──settle/work──▶ active, waiting, blocked
 *                         ▲                        │
 *                       resume ◀── paused ◀── pause, hold
 *
 *   any of them ──lose──▶ offline ──reach, attach──▶ what it was
 *   any but released ──release──▶ releasing ──finish──▶ released (final)
 *   any but the last two ──fail──▶ failed, which a new attach or a release ends
 *
 * A status is what three independent parts show (state.ts), so a status can hide a part: the table lists
 * every status that an input can lead to. An input that changes no part is `same`, and nothing is stored.
 */
import { type AgentStatus, defined, type SessionEvent, type SessionEventOf } from '@relay/protocol';
import { newSession, type SessionParts, type SessionState, statusOf, type Turn } from './state.ts';

export const sessionInputs = [
  'start',
  'work',
  'wait',
  'block',
  'settle',
  'lose',
  'reach',
  'attach',
  'pause',
  'hold',
  'resume',
  'cancel',
  'fork',
  'snapshot',
  'release',
  'finish',
  'fail',
] as const;
export type SessionInputName = (typeof sessionInputs)[number];

type ErrorFields = Pick<SessionEventOf<'error'>, 'error' | 'code' | 'retryable'>;

export interface SessionInput {
  readonly type: SessionInputName;
  readonly sessionId: string;
  /** Of the status that follows; with `finish`, of the release. */
  readonly reason?: string;
  /** With `fail` and, for a turn that failed, `settle`. */
  readonly error?: ErrorFields;
  /** The harness concluded it. */
  readonly fidelity?: 'inferred';
}

export type SessionDecision =
  /** Of a hidden part, and of `cancel`, `fork` and `snapshot`, no event follows. */
  | {
      readonly kind: 'accepted';
      readonly events: readonly SessionEvent[];
      readonly state: SessionState;
    }
  | { readonly kind: 'same' }
  | { readonly kind: 'refused'; readonly reason: string };

type Row = Readonly<Record<SessionInputName, readonly AgentStatus[]>>;

const refused: Row = {
  start: [],
  work: [],
  wait: [],
  block: [],
  settle: [],
  lose: [],
  reach: [],
  attach: [],
  pause: [],
  hold: [],
  resume: [],
  cancel: [],
  fork: [],
  snapshot: [],
  release: [],
  finish: [],
  fail: [],
};

/** An idle or working session that can be reached. */
function live(status: 'idle' | 'active' | 'waiting' | 'blocked'): Row {
  // A turn that stops working may have a pause waiting for that.
  const paused = status === 'active' ? (['paused'] as const) : [];
  return {
    start: [status],
    work: ['active'],
    wait: ['waiting', ...paused],
    block: ['blocked', ...paused],
    settle: ['idle', ...paused],
    lose: ['offline'],
    reach: [status],
    attach: ['idle', ...paused],
    pause: [status === 'active' ? 'active' : 'paused'],
    hold: ['paused'],
    resume: [status],
    cancel: [status],
    fork: [status],
    snapshot: [status],
    release: ['releasing'],
    finish: [],
    fail: ['failed'],
  };
}

/** The statuses that each input can lead to; none: it is refused, and nothing changes. */
export const sessionTable: Readonly<Record<AgentStatus, Row>> = {
  starting: {
    ...refused,
    start: ['idle'],
    lose: ['offline'],
    reach: ['starting'],
    attach: ['idle'],
    release: ['releasing'],
    fail: ['failed'],
  },
  active: live('active'),
  idle: live('idle'),
  waiting: live('waiting'),
  blocked: live('blocked'),
  paused: {
    ...live('idle'),
    start: ['paused'],
    work: ['paused'],
    wait: ['paused'],
    block: ['paused'],
    settle: ['paused'],
    reach: ['paused'],
    attach: ['paused'],
    resume: ['idle', 'active', 'waiting', 'blocked'],
    cancel: ['paused'],
    fork: ['paused'],
    snapshot: ['paused'],
  },
  releasing: {
    ...refused,
    work: ['releasing'],
    wait: ['releasing'],
    block: ['releasing'],
    settle: ['releasing'],
    lose: ['releasing'],
    reach: ['releasing'],
    release: ['releasing'],
    finish: ['released'],
    fail: ['failed'],
  },
  released: { ...refused, settle: ['released'], release: ['released'], finish: ['released'] },
  offline: {
    ...refused,
    work: ['offline'],
    wait: ['offline'],
    block: ['offline'],
    settle: ['offline'],
    lose: ['offline'],
    reach: ['starting', 'idle', 'active', 'waiting', 'blocked', 'paused'],
    attach: ['idle', 'paused'],
    release: ['releasing'],
    fail: ['failed'],
  },
  failed: {
    ...refused,
    settle: ['failed'],
    lose: ['failed'],
    reach: ['failed'],
    attach: ['idle'],
    release: ['releasing'],
    fail: ['failed'],
  },
};

/** The first events of a session's journal. */
export function sessionCreated(sessionId: string, parentSessionId?: string): SessionEvent[] {
  const status = statusOf(newSession);
  const forked: SessionEvent[] =
    parentSessionId === undefined ? [] : [{ type: 'session.forked', sessionId, parentSessionId }];
  return [...forked, { type: 'status.changed', status }];
}

export function decideSession(state: SessionState, input: SessionInput): SessionDecision {
  const status = statusOf(state);
  if (sessionTable[status][input.type].length === 0) {
    return { kind: 'refused', reason: `A session that is ${status} cannot ${input.type}` };
  }
  const next = { ...state, ...partsAfter(state, input.type) };
  if (isUnchanged(state, next) && !isRequest(state, input.type)) return { kind: 'same' };
  return { kind: 'accepted', events: eventsOf(state, next, input), state: next };
}

/** What a program reports and what changes no status: it keeps its place among the inputs. */
export interface ReportedEvent {
  readonly type: 'report';
  readonly event: SessionEvent;
}

/** Several inputs at once, such as `release` and `finish`. The first refusal refuses all. */
export function decideSessionAll(
  state: SessionState,
  inputs: readonly (SessionInput | ReportedEvent)[],
): SessionDecision {
  const events: SessionEvent[] = [];
  let next = state;
  let isAccepted = false;
  for (const input of inputs) {
    const decision =
      input.type === 'report' ? decideReport(next, input) : decideSession(next, input);
    if (decision.kind === 'refused') return decision;
    if (decision.kind === 'same') continue;
    events.push(...decision.events);
    next = decision.state;
    isAccepted = true;
  }
  return isAccepted ? { kind: 'accepted', events, state: next } : { kind: 'same' };
}

function decideReport(state: SessionState, { event }: ReportedEvent): SessionDecision {
  if (state.lifecycle !== 'released') return { kind: 'accepted', events: [event], state };
  return { kind: 'refused', reason: 'A session that is released reports nothing' };
}

/** The inputs that a status means which a harness or a program reports: whoever reports can be reached. */
export function inputsOfStatus(
  { lifecycle, connection }: SessionParts,
  reported: AgentStatus,
): readonly SessionInputName[] {
  const first: SessionInputName[] = [];
  if (connection === 'unreachable') first.push('reach');
  if (lifecycle === 'starting') first.push('start');
  switch (reported) {
    case 'starting':
      return [];
    case 'idle':
      return [...first, 'settle'];
    case 'active':
      return [...first, 'work'];
    case 'waiting':
      return [...first, 'wait'];
    case 'blocked':
      return [...first, 'block'];
    case 'paused':
      return [...first, 'hold'];
    case 'releasing':
      return ['release'];
    case 'released':
      return ['release', 'finish'];
    case 'offline':
      return ['lose'];
    case 'failed':
      return ['fail'];
  }
}

function partsAfter(parts: SessionParts, input: SessionInputName): SessionParts {
  switch (input) {
    case 'start':
      return parts.lifecycle === 'starting' ? { ...parts, lifecycle: 'open' } : parts;
    case 'work':
      return withTurn(parts, 'active');
    case 'wait':
      return stopped(withTurn(parts, 'waiting'));
    case 'block':
      return stopped(withTurn(parts, 'blocked'));
    case 'settle':
      return stopped(withTurn(parts, 'none'));
    case 'lose':
      return { ...parts, connection: 'unreachable' };
    case 'reach':
      return { ...parts, connection: 'reachable' };
    case 'attach': {
      // A new process has no turn. A pause is the user's, and stays.
      const attached = stopped({ ...parts, turn: 'none', connection: 'reachable' });
      return attached.lifecycle === 'paused' ? attached : { ...attached, lifecycle: 'open' };
    }
    case 'pause':
      if (parts.lifecycle === 'paused') return parts;
      return parts.turn === 'active'
        ? { ...parts, lifecycle: 'pausing' }
        : { ...parts, lifecycle: 'paused' };
    case 'hold':
      return { ...parts, lifecycle: 'paused' };
    case 'resume':
      return { ...parts, lifecycle: 'open' };
    case 'cancel':
    case 'fork':
    case 'snapshot':
      return parts;
    case 'release':
      return parts.lifecycle === 'released' ? parts : { ...parts, lifecycle: 'releasing' };
    case 'finish':
      return { ...parts, lifecycle: 'released', turn: 'none' };
    case 'fail':
      return { ...parts, lifecycle: 'failed', turn: 'none' };
  }
}

/** A session that has not started has no turn, even if it was lost since. */
function withTurn(parts: SessionParts, turn: Turn): SessionParts {
  return parts.lifecycle === 'starting' ? parts : { ...parts, turn };
}

/** A turn that no longer works lets a requested pause take effect. */
function stopped(parts: SessionParts): SessionParts {
  return parts.lifecycle === 'pausing' ? { ...parts, lifecycle: 'paused' } : parts;
}

function isUnchanged(one: SessionParts, other: SessionParts): boolean {
  return (
    one.lifecycle === other.lifecycle &&
    one.turn === other.turn &&
    one.connection === other.connection
  );
}

/** What the caller carries out although no part changes with it. */
function isRequest({ turn }: SessionParts, input: SessionInputName): boolean {
  if (input === 'cancel') return turn !== 'none';
  return input === 'fork' || input === 'snapshot' || input === 'attach';
}

function eventsOf(before: SessionState, after: SessionState, input: SessionInput): SessionEvent[] {
  const { sessionId, reason, fidelity } = input;
  const [previousStatus, status] = [statusOf(before), statusOf(after)];
  const marks = defined({ fidelity });
  const changed: SessionEvent[] =
    status === previousStatus
      ? []
      : [{ type: 'status.changed', status, previousStatus, ...defined({ reason }), ...marks }];
  switch (input.type) {
    case 'start':
      return [{ type: 'session.started', sessionId }, ...changed];
    case 'attach':
      return [
        {
          type: before.lifecycle === 'starting' ? 'session.started' : 'session.resumed',
          sessionId,
        },
        ...changed,
      ];
    case 'resume':
      return [{ type: 'session.resumed', sessionId }, ...changed];
    case 'finish':
      return [...changed, { type: 'session.released', sessionId, ...defined({ reason }) }];
    case 'settle':
    case 'fail':
      return input.error === undefined
        ? changed
        : [{ type: 'error', ...input.error, ...marks }, ...changed];
    default:
      return changed;
  }
}
