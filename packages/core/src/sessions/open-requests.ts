/**
 * What the program of a session waits for: approvals that have no run. While one is open the session is
 * `waiting`, whatever its harness reports of the turn; that counts again when all are answered. They end with
 * the turn.
 */
import type { AgentStatus } from '@relay/protocol';
import type { SessionInputName } from './session-machine.ts';
import type { OpenRequests, SessionState, Turn } from './state.ts';

export interface RequestsStep {
  readonly inputs: readonly { readonly type: SessionInputName }[];
  /** Null: none is open. */
  readonly requests: OpenRequests | null;
}

/** One more is open. A session that asks has started. */
export function withRequest({ lifecycle, turn, requests }: SessionState, id: string): RequestsStep {
  const isStarting = lifecycle === 'starting';
  const beside = isStarting || turn === 'waiting' ? 'active' : turn;
  return {
    inputs: [...(isStarting ? [{ type: 'start' } as const] : []), { type: 'wait' }],
    requests: { ids: [...(requests?.ids ?? []), id], turn: requests?.turn ?? beside },
  };
}

const inputOfTurn = { none: 'settle', active: 'work', blocked: 'block' } as const;

/** These are answered or closed. */
export function withoutRequests(
  { requests }: SessionState,
  ended: readonly string[],
): RequestsStep | undefined {
  if (requests === undefined || !requests.ids.some((id) => ended.includes(id))) return undefined;
  const ids = requests.ids.filter((id) => !ended.includes(id));
  if (ids.length > 0) return { inputs: [], requests: { ...requests, ids } };
  return { inputs: [{ type: inputOfTurn[requests.turn] }], requests: null };
}

/** What a reported status means while they are open; undefined: what it means at other times. */
export function reportedBeside(
  requests: OpenRequests,
  status: AgentStatus,
): OpenRequests | undefined {
  switch (status) {
    case 'waiting':
      return requests;
    case 'active':
    case 'blocked':
      return { ...requests, turn: status };
    default:
      return undefined;
  }
}

/** Why they are closed with this state; undefined: they stay open. */
export function endOfRequests({
  lifecycle,
  connection,
  turn,
}: {
  readonly lifecycle: SessionState['lifecycle'];
  readonly connection: SessionState['connection'];
  readonly turn: Turn;
}): string | undefined {
  if (lifecycle === 'failed') return 'The session has failed';
  if (lifecycle === 'released') return 'The session has ended';
  if (connection === 'unreachable') return 'The session is offline';
  return turn === 'waiting' ? undefined : 'The turn has ended';
}
