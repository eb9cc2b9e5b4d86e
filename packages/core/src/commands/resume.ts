import { RelayError } from '@relay/protocol';
import type { RunControl } from './start-run.ts';
import type { RunRecord, RunRef } from '../ports/index.ts';
import { parseCheckpoint } from '../run/state/checkpoint.ts';

export interface ResumedRun {
  readonly run: RunRecord;
  /** The `seq` of the checkpoint: later events have happened since. */
  readonly after: number;
}

/**
 * Resumes a run from its persisted state. A run that waits for a person or has ended stays as it is;
 * one that no node drives is driven again. Undefined if there is no such run.
 */
export async function resumeSerializedAgentRun(
  control: RunControl,
  ref: RunRef,
): Promise<ResumedRun | undefined> {
  const run = await control.engine.store.tenant(ref.tenantId).readRun(ref.runId);
  if (run === undefined) return undefined;
  const after = checkpointSeq(run);
  if (run.status === 'running' || run.status === 'queued') control.supervisor.wake(ref);
  return { run, after };
}

/** From the envelope; older rows have only a pending approval. */
function checkpointSeq(run: RunRecord): number {
  if (run.checkpoint !== null) return seqIn(run, parseCheckpoint(run.checkpoint));
  // A queued run has no events to skip.
  if (run.status === 'queued' || pendingApprovalOf(run) !== undefined) return 0;
  throw new RelayError('checkpoint_missing', `The run ${run.id} has no checkpoint to resume from`);
}

/** The `seq` must be one of this journal. */
function seqIn(run: RunRecord, { serializedRunState }: { serializedRunState: string }): number {
  const { runId, seq } = fieldsOf(serializedRunState);
  const isInJournal = Number.isInteger(seq) && Number(seq) >= 0 && Number(seq) <= run.lastSeq;
  if (runId === run.id && isInJournal) return Number(seq);
  throw new RelayError('journal_corrupt', `The checkpoint of the run ${run.id} is malformed`);
}

export interface PendingApproval {
  readonly toolCallId: string;
  readonly approvalId?: string;
}

/** The pending approval in a run's output; undefined if the output cannot be read. */
export function pendingApprovalOf({ outputJson }: RunRecord): PendingApproval | undefined {
  const { pendingApproval } = fieldsOf(outputJson ?? '');
  const { toolCallId, approvalId } = (pendingApproval ?? {}) as Readonly<Record<string, unknown>>;
  if (typeof toolCallId !== 'string') return undefined;
  return typeof approvalId === 'string' ? { toolCallId, approvalId } : { toolCallId };
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
