/**
 * Table rows other than the journal are a pure function of it. Each batch of events is projected in
 * the commit that stores it, so that rows and journal cannot disagree.
 */
import { defined, type EventType, isEnded, type StoredEvent } from '@relay/protocol';
import type {
  NewClientCall,
  NewApproval,
  ApprovalClosure,
  RunIdentity,
  RunProgress,
} from '../../ports/index.ts';
import { expiryReason } from './call.ts';
import { checkpointOf } from './checkpoint.ts';
import { deadlineOf } from '../agents/limits.ts';
import {
  clientCalls,
  pendingApprovals,
  type RunState,
  waitingCalls,
  writeSnapshot,
} from './state.ts';
import { nextCheckOf } from '../waiting/approvals.ts';

export interface Projection {
  readonly progress: Partial<RunProgress>;
  readonly approvals: readonly NewApproval[];
  readonly closeApprovals: readonly ApprovalClosure[];
  readonly clientCalls: readonly NewClientCall[];
  readonly abandonedCalls: readonly string[];
  readonly useGrants: readonly string[];
  readonly madeProgress: boolean;
}

const nothing: Projection = {
  progress: {},
  approvals: [],
  closeApprovals: [],
  clientCalls: [],
  abandonedCalls: [],
  useGrants: [],
  madeProgress: false,
};

interface ProjectedRun extends RunIdentity {
  /** The session whose turn it is. */
  readonly sessionId?: string | undefined;
}

/** `state` is the state after `events`. `before`, the one that is stored, may be left out. */
export function project(
  events: readonly StoredEvent[],
  state: RunState,
  run: ProjectedRun,
  before?: RunState,
): Projection {
  const relevant = events.filter((event) => !isDelta(event));
  if (relevant.length === 0) return nothing;
  return {
    progress: progressChanges(relevant, state, run, before),
    approvals: relevant.flatMap((event) => requestedApproval(event, run)),
    closeApprovals: relevant.flatMap(closedApproval),
    clientCalls: relevant.flatMap(openedClientCall),
    abandonedCalls: relevant.flatMap((event) =>
      event.type === 'tool.failed' && event.via === 'client' ? [event.toolCallId] : [],
    ),
    useGrants: relevant.flatMap(usedGrant),
    madeProgress: relevant.some(({ type }) => !repeated.includes(type)),
  };
}

/** What each process writes again that resumes the run where the one before it died. */
const repeated: readonly EventType[] = [
  'run.started',
  'run.resumed',
  'turn.started',
  'turn.discarded',
  'tool.started',
];

function isDelta(event: StoredEvent): boolean {
  return (
    event.type === 'text.appended' ||
    event.type === 'reasoning.appended' ||
    event.type === 'tool.progressed'
  );
}

type Mutable<T> = { -readonly [Key in keyof T]: T[Key] };

function progressChanges(
  events: readonly StoredEvent[],
  state: RunState,
  run: RunIdentity,
  before: RunState | undefined,
): Partial<RunProgress> {
  const progress: Mutable<Partial<RunProgress>> = { usage: state.usage };
  // SQLite rewrites every index that contains a column which is written, even if its value stays.
  if (state.status !== before?.status) progress.status = state.status;
  const checkpoint = checkpointOf(events, state, run);
  if (checkpoint !== undefined) progress.checkpoint = checkpoint;
  for (const event of events) {
    switch (event.type) {
      case 'run.started':
        progress.startedAt = Date.parse(event.at);
        break;
      case 'turn.started':
        // It is stored with the first output of the turn.
        if (event.parentId === undefined) {
          progress.firstTokenMs = Math.max(0, Date.parse(event.at) - run.createdAt);
        }
        // Before the first turn there is too little to be worth a snapshot.
        if (event.turn === 1 && event.parentId === undefined) break;
        progress.snapshot = writeSnapshot(state);
        progress.snapshotSeq = state.seq;
        break;
      case 'run.suspended':
        progress.wakeAt = wakeAtOf(state);
        break;
      case 'approval.expiring':
        if (state.status === 'waiting') progress.wakeAt = wakeAtOf(state);
        break;
      case 'run.resumed':
        progress.wakeAt = null;
        break;
      case 'run.ended':
        progress.endedAt = Date.parse(event.at);
        progress.error = event.error ?? null;
        progress.finishReason = event.finishReason ?? null;
        progress.answerSeq = event.output === '' ? null : state.answerSeq;
        // An ended run is never recovered.
        progress.snapshot = null;
        progress.snapshotSeq = 0;
        progress.wakeAt = null;
        break;
      default:
        break;
    }
  }
  if (events.some(changesOutput)) {
    const last = events.at(-1);
    const isInline = last?.type === 'run.ended' && (progress.answerSeq ?? null) === null;
    progress.outputJson = outputJson(state, isInline ? last.output : null);
  }
  return progress;
}

function changesOutput({ type }: StoredEvent): boolean {
  return (
    type === 'approval.requested' ||
    type === 'approval.decided' ||
    type === 'approval.expired' ||
    type === 'approval.closed' ||
    type === 'run.suspended' ||
    type === 'run.ended'
  );
}

/** `runs.output_json`: the output, who approved what, and what is pending. */
function outputJson(state: RunState, output: string | null): string {
  const pendingApprovals = isEnded(state.status)
    ? []
    : waitingCalls(state).map(({ call, approval }) => ({
        toolCallId: call.toolCallId,
        name: call.name,
        args: call.input,
        approvalId: approval.id,
        kind: approval.kind,
        seq: approval.seq,
      }));
  return JSON.stringify({
    output,
    approvals: state.approvals,
    ...(pendingApprovals.length === 0
      ? {}
      : // Specification 001 knows one of them, by the second name.
        { pendingApprovals, pendingApproval: pendingApprovals[0] }),
  });
}

/** The first time at which an approval, a client call or the time limit must be checked. */
function wakeAtOf(state: RunState): number | null {
  const times = pendingApprovals(state).map(nextCheckOf);
  for (const { call } of clientCalls(state)) times.push(Date.parse(call.resultBy ?? ''));
  const deadline = deadlineOf(state);
  if (deadline !== undefined) times.push(deadline);
  return times.length === 0 ? null : Math.min(...times);
}

function requestedApproval(event: StoredEvent, run: ProjectedRun): NewApproval[] {
  if (event.type !== 'approval.requested') return [];
  return [
    {
      id: event.approvalId,
      runId: run.id,
      conversationId: run.conversationId,
      ...defined({ sessionId: run.sessionId }),
      kind: event.kind,
      agentId: event.agentId,
      agentPath: event.agentPath,
      toolCallId: event.toolCallId,
      tool: event.tool,
      params: event.params,
      digest: event.digest,
      ...defined({
        resolvedPaths: event.resolvedPaths,
        definitionDigest: event.definitionDigest,
        preview: event.preview,
        earlierDenial: event.earlierDenial,
        rule: event.rule,
        question:
          event.question === undefined
            ? undefined
            : { prompt: event.question.prompt, schema: event.question.schema },
      }),
      requestedAt: Date.parse(event.at),
      expiresAt: Date.parse(event.expiresAt),
    },
  ];
}

function openedClientCall(event: StoredEvent): NewClientCall[] {
  if (event.type !== 'tool.started' || event.resultBy === undefined) return [];
  return [{ toolCallId: event.toolCallId, resultBy: Date.parse(event.resultBy) }];
}

/** A counted grant is used in the commit of the `tool.started` that it allows (E7). */
function usedGrant(event: StoredEvent): string[] {
  const rule = event.type === 'tool.started' ? event.rule : undefined;
  return rule?.counted === true && rule.id !== undefined ? [rule.id] : [];
}

function closedApproval(event: StoredEvent): ApprovalClosure[] {
  if (event.type !== 'approval.expired' && event.type !== 'approval.closed') return [];
  const { approvalId } = event;
  const at = Date.parse(event.at);
  if (event.type === 'approval.expired') {
    const by = { type: 'timeout', id: 'expiry', name: 'expiry' } as const;
    return [{ approvalId, status: 'expired', at, by, reason: expiryReason }];
  }
  const by = { type: 'system', id: 'relay', name: 'relay' } as const;
  return [{ approvalId, status: 'closed', at, by, reason: event.reason }];
}
