import { RelayError, type RunError, type RunEvent } from '@relay/protocol';
import type { Engine } from '../../engine.ts';
import type { RunRef } from '../../ports/index.ts';
import { project } from './projection.ts';
import { initialState, type RunState } from './state.ts';

interface Damage {
  readonly ref: RunRef;
  readonly epoch: number;
  readonly error: RunError;
}

/**
 * Ends a run whose stored state cannot be trusted, without folding it and without starting anything:
 * it fails clearly instead of going on from damaged bytes.
 */
export async function failCorruptRun(engine: Engine, damage: Damage): Promise<void> {
  const { ref, epoch, error } = damage;
  const store = engine.store.tenant(ref.tenantId);
  const record = await store.readRunHead(ref.runId);
  if (record === undefined) return;
  const events: RunEvent[] = [
    { type: 'run.errored', error },
    { type: 'run.ended', status: 'failed', output: '', usage: record.usage, error },
  ];
  const now = engine.clock.now();
  const at = new Date(now).toISOString();
  const placed = events.map((event, index) => ({ ...event, seq: record.lastSeq + index + 1, at }));
  const state: RunState = {
    ...initialState,
    status: 'failed',
    usage: record.usage,
    seq: record.lastSeq + events.length,
    approvals: approvalsOf(record.outputJson),
  };
  const outcome = await store.append({
    ...project(placed, state, record),
    runId: record.id,
    epoch,
    afterSeq: record.lastSeq,
    at: now,
    events,
  });
  if (outcome === 'committed') engine.publisher.publish(record.id, placed, ref.tenantId);
}

/** Who approved what stays on record, as far as it can still be read. */
function approvalsOf(outputJson: string | null): RunState['approvals'] {
  try {
    const kept = JSON.parse(outputJson ?? '{}') as { approvals?: RunState['approvals'] };
    return kept.approvals ?? [];
  } catch {
    return [];
  }
}

/** What a run failed of, in words that may be shown. */
export function runErrorOf(error: unknown): RunError {
  const known = error instanceof RelayError;
  return {
    code: known ? error.code : 'internal',
    message: known ? error.message : 'An unexpected fault ended this run',
    retryable: false,
  };
}
