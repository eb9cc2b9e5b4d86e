import { RelayError } from '@relay/protocol';
import type { Control } from './start-run.ts';
import type { RunRecord, RunRef } from '../ports/index.ts';
import { parseCheckpoint } from '../run/state/checkpoint.ts';

export interface ResumedRun {
  readonly run: RunRecord;
  /** The place in the journal that the checkpoint points at: what follows has happened since. */
  readonly after: number;
}

/**
 * Takes a run up from its persisted state, wherever it was left. One that waits for a person or is
 * over stays as it is; one that nobody drives is driven again. Undefined if there is no such run.
 */
export async function resumeSerializedAgentRun(
  control: Control,
  ref: RunRef,
): Promise<ResumedRun | undefined> {
  const run = await control.engine.store.tenant(ref.tenantId).readRun(ref.runId);
  if (run === undefined) return undefined;
  const after = placeOf(run);
  if (run.status === 'running' || run.status === 'queued') control.supervisor.wake(ref);
  return { run, after };
}

/** The envelope comes first; the approval that is pending, as older rows have it, comes second. */
function placeOf(run: RunRecord): number {
  if (run.checkpoint !== null) return placeIn(run, parseCheckpoint(run.checkpoint));
  // A run that has not begun has nothing to be resumed from, and all of it still to come.
  if (run.status === 'queued' || pendingApprovalOf(run) !== undefined) return 0;
  throw new RelayError('checkpoint_missing', `The run ${run.id} has no checkpoint to resume from`);
}

/** A place that this journal does not have is no place to go on from. */
function placeIn(run: RunRecord, { serializedRunState }: { serializedRunState: string }): number {
  const { runId, seq } = fieldsOf(serializedRunState);
  const isPlace = Number.isInteger(seq) && Number(seq) >= 0 && Number(seq) <= run.lastSeq;
  if (runId === run.id && isPlace) return Number(seq);
  throw new RelayError('journal_corrupt', `The checkpoint of the run ${run.id} is malformed`);
}

export interface PendingApproval {
  readonly toolCallId: string;
  readonly approvalId?: string;
}

/** What a run's output says is pending. Output that cannot be read says nothing. */
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
