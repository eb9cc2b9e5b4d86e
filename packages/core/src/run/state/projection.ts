/**
 * What the tables hold besides the journal is a pure function of it. Each batch of events is
 * projected in the commit that stores it, so rows and journal cannot disagree.
 */
import { isEnded, type StoredEvent } from '@relay/protocol';
import type {
  NewClientCall,
  NewApproval,
  ApprovalClosure,
  RunIdentity,
  RunProgress,
} from '../../ports/index.ts';
import { checkpointOf } from './checkpoint.ts';
import { deadlineOf } from '../agents/limits.ts';
import { writeSnapshot } from './snapshot.ts';
import { askingCalls, clientCalls, pendingApprovals, type RunState } from './state.ts';
import { nextLook } from '../waiting/expiry.ts';

export interface Projection {
  readonly progress: Partial<RunProgress>;
  readonly approvals: readonly NewApproval[];
  readonly closeApprovals: readonly ApprovalClosure[];
  readonly clientCalls: readonly NewClientCall[];
  readonly abandonedCalls: readonly string[];
  readonly useGrants: readonly string[];
}

const nothing: Projection = {
  progress: {},
  approvals: [],
  closeApprovals: [],
  clientCalls: [],
  abandonedCalls: [],
  useGrants: [],
};

/** `state` is the fold up to and including `events`. */
export function project(
  events: readonly StoredEvent[],
  state: RunState,
  run: RunIdentity,
): Projection {
  const telling = events.filter((event) => !isDelta(event));
  if (telling.length === 0) return nothing;
  return {
    progress: progressOf(telling, state, run),
    approvals: telling.flatMap((event) => raisedApproval(event, run.id)),
    closeApprovals: telling.flatMap(closedApproval),
    clientCalls: telling.flatMap(awaitedCall),
    abandonedCalls: telling.flatMap((event) =>
      event.type === 'tool.failed' && event.via === 'client' ? [event.toolCallId] : [],
    ),
    useGrants: telling.flatMap(usedGrant),
  };
}

function isDelta(event: StoredEvent): boolean {
  return (
    event.type === 'text.appended' ||
    event.type === 'reasoning.appended' ||
    event.type === 'tool.progressed'
  );
}

type Mutable<T> = { -readonly [Key in keyof T]: T[Key] };

function progressOf(
  events: readonly StoredEvent[],
  state: RunState,
  run: RunIdentity,
): Partial<RunProgress> {
  const progress: Mutable<Partial<RunProgress>> = { status: state.status, usage: state.usage };
  const checkpoint = checkpointOf(events, state, run);
  if (checkpoint !== undefined) progress.checkpoint = checkpoint;
  for (const event of events) {
    switch (event.type) {
      case 'run.started':
        progress.startedAt = Date.parse(event.at);
        break;
      case 'turn.started':
        progress.snapshot = writeSnapshot(state);
        progress.snapshotSeq = state.seq;
        break;
      case 'run.suspended':
        progress.wakeAt = wakeAtOf(state);
        progress.outputJson = outputJson(state);
        break;
      case 'approval.expiring':
        if (state.status === 'waiting') progress.wakeAt = wakeAtOf(state);
        break;
      case 'run.resumed':
        progress.wakeAt = null;
        break;
      case 'approval.decided':
      case 'approval.expired':
        progress.outputJson = outputJson(state);
        break;
      case 'run.ended':
        progress.endedAt = Date.parse(event.at);
        progress.error = event.error ?? null;
        progress.outputJson = outputJson(state, event.output);
        // Nothing will be recovered any more: the journal alone is kept.
        progress.snapshot = null;
        progress.snapshotSeq = 0;
        progress.wakeAt = null;
        break;
      default:
        break;
    }
  }
  return progress;
}

/** `runs.output_json`: the answer, who approved what, and what is pending. */
function outputJson(state: RunState, output?: string): string {
  const pending = isEnded(state.status) ? undefined : askingCalls(state)[0]?.call;
  return JSON.stringify({
    output: output ?? null,
    approvals: state.approvals,
    ...(pending === undefined
      ? {}
      : {
          pendingApproval: {
            toolCallId: pending.toolCallId,
            name: pending.name,
            args: pending.input,
            approvalId: pending.approval?.id,
          },
        }),
  });
}

/** The first approval to warn of or to expire, the first client's call to, or the end of the run's time. */
function wakeAtOf(state: RunState): number | null {
  const times = pendingApprovals(state).map(nextLook);
  for (const { call } of clientCalls(state)) times.push(Date.parse(call.resultBy ?? ''));
  const deadline = deadlineOf(state);
  if (deadline !== undefined) times.push(deadline);
  return times.length === 0 ? null : Math.min(...times);
}

function raisedApproval(event: StoredEvent, runId: string): NewApproval[] {
  if (event.type !== 'approval.requested') return [];
  return [
    {
      id: event.approvalId,
      runId,
      kind: event.kind,
      agentId: event.agentId,
      agentPath: event.agentPath,
      toolCallId: event.toolCallId,
      tool: event.tool,
      params: event.params,
      ...(event.resolvedPaths === undefined ? {} : { resolvedPaths: event.resolvedPaths }),
      digest: event.digest,
      ...(event.question === undefined
        ? {}
        : { question: { prompt: event.question.prompt, schema: event.question.schema } }),
      requestedAt: Date.parse(event.at),
      expiresAt: Date.parse(event.expiresAt),
    },
  ];
}

function awaitedCall(event: StoredEvent): NewClientCall[] {
  if (event.type !== 'tool.started' || event.resultBy === undefined) return [];
  return [{ toolCallId: event.toolCallId, resultBy: Date.parse(event.resultBy) }];
}

/** A call that a counted grant allows uses it up in the commit that lets it start (E7). */
function usedGrant(event: StoredEvent): string[] {
  const rule = event.type === 'tool.started' ? event.rule : undefined;
  return rule?.counted === true && rule.id !== undefined ? [rule.id] : [];
}

function closedApproval(event: StoredEvent): ApprovalClosure[] {
  if (event.type !== 'approval.expired' && event.type !== 'approval.closed') return [];
  const at = Date.parse(event.at);
  if (event.type === 'approval.expired') {
    const by = { type: 'timeout', id: 'expiry', name: 'expiry' } as const;
    return [
      {
        approvalId: event.approvalId,
        status: 'expired',
        at,
        by,
        reason: 'Nobody answered in time',
      },
    ];
  }
  const by = { type: 'system', id: 'relay', name: 'relay' } as const;
  return [{ approvalId: event.approvalId, status: 'closed', at, by, reason: event.reason }];
}
