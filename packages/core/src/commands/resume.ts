import { defined, isEnded, RelayError } from '@relay/protocol';
import type { RunControl } from './start-run.ts';
import type { RunRecord, RunRef } from '../ports/index.ts';
import { parseCheckpoint, resumeRequestOf } from '../run/state/checkpoint.ts';

export interface ResumedRun {
  readonly run: RunRecord;
  /** The `seq` of the checkpoint: later events have happened since. */
  readonly after: number;
}

/**
 * Resumes a run from its persisted state, and stores a checkpoint of the request. A run that waits for
 * a person stays as it is; one that no node drives is driven again. An ended run keeps its final
 * checkpoint: nothing follows it (E6). Undefined if there is no such run.
 */
export async function resumeSerializedAgentRun(
  { engine, supervisor }: RunControl,
  ref: RunRef,
): Promise<ResumedRun | undefined> {
  const store = engine.store.tenant(ref.tenantId);
  const run = await store.readRun(ref.runId);
  if (run === undefined) return undefined;
  const serializedRunState = serializedStateOf(run);
  const after = seqIn(run, serializedRunState);
  if (isEnded(run.status)) return { run, after };
  const at = engine.clock.now();
  const checkpoint = resumeRequestOf(run, { serializedRunState, at });
  // If it is not stored, the run has reached its next checkpoint, which is later.
  await store.replaceCheckpoint(run.id, { expected: run.checkpoint, checkpoint });
  if (run.status !== 'waiting') supervisor.wake(ref);
  return { run, after };
}

/** From the envelope; older rows have only a pending approval. */
function serializedStateOf(run: RunRecord): string {
  if (run.checkpoint !== null) return parseCheckpoint(run.checkpoint).serializedRunState;
  if (pendingApprovalsOf(run).length === 0) {
    throw new RelayError(
      'checkpoint_missing',
      `The run ${run.id} has no checkpoint to resume from`,
    );
  }
  return JSON.stringify({ runId: run.id, seq: 0, agent: run.agent });
}

/** The `seq` must be one of this journal. */
function seqIn(run: RunRecord, serializedRunState: string): number {
  const { runId, seq } = fieldsOf(serializedRunState);
  const isInJournal = Number.isInteger(seq) && Number(seq) >= 0 && Number(seq) <= run.lastSeq;
  if (runId === run.id && isInJournal) return Number(seq);
  throw new RelayError('journal_corrupt', `The checkpoint of the run ${run.id} is malformed`);
}

export interface PendingApproval {
  readonly toolCallId: string;
  /** Unset in older rows, as is the `seq` of the request. */
  readonly approvalId?: string;
  readonly seq?: number;
}

/** The pending approvals in a run's output; older rows have only one. None if it cannot be read. */
export function pendingApprovalsOf({
  outputJson,
}: Pick<RunRecord, 'outputJson'>): readonly PendingApproval[] {
  const { pendingApprovals, pendingApproval } = fieldsOf(outputJson ?? '');
  const entries: unknown[] = Array.isArray(pendingApprovals) ? pendingApprovals : [pendingApproval];
  return entries.flatMap((entry) => {
    const { toolCallId, approvalId, seq } = (entry ?? {}) as Readonly<Record<string, unknown>>;
    if (typeof toolCallId !== 'string') return [];
    const known = defined({
      approvalId: typeof approvalId === 'string' ? approvalId : undefined,
      seq: Number.isInteger(seq) ? Number(seq) : undefined,
    });
    return [{ toolCallId, ...known }];
  });
}

/** The fields of a JSON object; none if it is something else. */
function fieldsOf(text: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}
