/**
 * The state of a session: three independent parts that its status is derived from, and its usage.
 *
 * A journal shows the status alone, because its events are those of specification 004. A part can change
 * behind it, such as the turn of a paused session, so the state is stored with the session, in the commit
 * of the events that it implies. `foldSession` reads a journal; the two always agree on the status.
 */
import { type AgentStatus, RelayError, type StoredSessionEvent } from '@relay/protocol';
import type { SafeState } from './modes.ts';

/** `pausing`: a pause was requested, and takes effect when the turn stops working. */
export const lifecycles = [
  'starting',
  'open',
  'pausing',
  'paused',
  'releasing',
  'released',
  'failed',
] as const;
export type Lifecycle = (typeof lifecycles)[number];

/** `waiting`: a permission or a question is open. `blocked`: an outcome is, or a credential is missing. */
export const turns = ['none', 'active', 'waiting', 'blocked'] as const;
export type Turn = (typeof turns)[number];

export const connections = ['reachable', 'unreachable'] as const;
export type Connection = (typeof connections)[number];

export interface SessionParts {
  readonly lifecycle: Lifecycle;
  readonly turn: Turn;
  readonly connection: Connection;
}

export interface SessionUsage {
  readonly tokens: number;
  readonly costUsd?: number;
}

/** Where a session continues from: the journal of a run up to a `seq`. */
export interface ForkSource {
  readonly runId: string;
  readonly seq: number;
}

/** Of a session that lives in the process of a node. */
export interface SessionHost {
  /** The name of the node, which it keeps when it starts again. */
  readonly node: string;
  /** Of its harness. Default: idle. */
  readonly safeStates?: readonly SafeState[];
  /** What the harness needs to attach to it again, as any JSON. */
  readonly saved?: unknown;
}

/** Approvals without a run that the session waits for: see open-requests.ts. */
export interface OpenRequests {
  readonly ids: readonly string[];
  /** What the turn is when all are answered. */
  readonly turn: Exclude<Turn, 'waiting'>;
}

export interface SessionState extends SessionParts {
  readonly usage: SessionUsage;
  /** When the session came to its status. */
  readonly since?: number;
  /** When its program attached last. */
  readonly attachedAt?: number;
  /** Of a fork. Used: its first turn refers to it, and keeps the journal from being deleted. */
  readonly forkedFrom?: ForkSource & { readonly isUsed?: true };
  readonly host?: SessionHost;
  readonly requests?: OpenRequests;
}

export const newSession: SessionState = {
  lifecycle: 'starting',
  turn: 'none',
  connection: 'reachable',
  usage: { tokens: 0 },
};

const statusOfTurn = {
  none: 'idle',
  active: 'active',
  waiting: 'waiting',
  blocked: 'blocked',
} as const satisfies Record<Turn, AgentStatus>;

/** The end of a session shows first, then whether it can be reached, then whether it may work. */
export function statusOf({ lifecycle, turn, connection }: SessionParts): AgentStatus {
  if (lifecycle === 'releasing' || lifecycle === 'released' || lifecycle === 'failed') {
    return lifecycle;
  }
  if (connection === 'unreachable') return 'offline';
  if (lifecycle === 'starting' || lifecycle === 'paused') return lifecycle;
  return statusOfTurn[turn];
}

/** What is stored with a new state. `before` is undefined for a new session. */
export function progressOf(
  before: SessionState | undefined,
  next: SessionState,
  at: number,
): { readonly status: AgentStatus; readonly state: SessionState } {
  const status = statusOf(next);
  const isSame = before !== undefined && statusOf(before) === status;
  return { status, state: { ...next, since: isSame ? (before.since ?? at) : at } };
}

/** What the journal of a session says at a position. */
export interface SessionFold {
  readonly seq: number;
  /** Null before the first event. */
  readonly status: AgentStatus | null;
  readonly usage: SessionUsage;
  /** `session.released` was stored: nothing follows it. */
  readonly isReleased: boolean;
}

export const emptySessionFold: SessionFold = {
  seq: 0,
  status: null,
  usage: { tokens: 0 },
  isReleased: false,
};

/** Throws `journal_corrupt` if the event cannot follow. */
export function foldSession(fold: SessionFold, event: StoredSessionEvent): SessionFold {
  if (event.seq !== fold.seq + 1 || fold.isReleased) throw contradiction(fold, event);
  const next = { ...fold, seq: event.seq };
  switch (event.type) {
    case 'status.changed': {
      const isFirst = fold.status === null;
      const follows = isFirst
        ? event.previousStatus === undefined
        : event.previousStatus === fold.status && event.status !== fold.status;
      if (!follows || fold.status === 'released') throw contradiction(fold, event);
      return { ...next, status: event.status };
    }
    case 'session.released':
      if (fold.status !== 'released') throw contradiction(fold, event);
      return { ...next, isReleased: true };
    case 'usage.updated':
      return { ...next, usage: updatedUsage(fold.usage, event) };
    default:
      return next;
  }
}

/** `usage.updated` has totals. One that it leaves out stays. */
export function updatedUsage(
  usage: SessionUsage,
  {
    tokens = usage.tokens,
    costUsd = usage.costUsd,
  }: { tokens?: number | undefined; costUsd?: number | undefined },
): SessionUsage {
  return costUsd === undefined ? { tokens } : { tokens, costUsd };
}

/** What a report adds. A total that is lower than before was counted anew, such as by a new process. */
export function addedUsage(before: SessionUsage, after: SessionUsage): Required<SessionUsage> {
  const added = (from: number, to: number) => (to < from ? to : to - from);
  return {
    tokens: added(before.tokens, after.tokens),
    costUsd: added(before.costUsd ?? 0, after.costUsd ?? 0),
  };
}

function contradiction(fold: SessionFold, event: StoredSessionEvent): RelayError {
  return new RelayError(
    'journal_corrupt',
    `The session journal contradicts itself: ${event.type} (seq ${event.seq}) cannot follow seq ${fold.seq} with the status ${fold.status ?? 'none'}`,
  );
}
