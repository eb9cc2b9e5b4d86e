import { RelayError } from '@relay/protocol';
import { decodeEvents } from '../sql/row-codec.ts';
import { type MemoryRun, type MemoryState, keyOf } from './state.ts';

/** Oldest first, so that what is left of a conversation is always its end. */
export function pruneRuns(state: MemoryState, before: number, limit: number): number {
  const kept = [...state.runs.values()].filter((run) => !run.pruned);
  const busy = new Set(kept.filter((run) => !isQuiet(run, before)).map(conversationOf));
  const sources = new Map(
    kept.flatMap((run) => (sourceOf(run) === undefined ? [] : [[run, sourceOf(run) ?? '']])),
  );
  for (const [fork, source] of sources) {
    const run = state.runs.get(source);
    if (run === undefined || run.record.tenantId !== fork.record.tenantId) continue;
    if (conversationOf(run) !== conversationOf(fork)) busy.add(conversationOf(run));
  }
  const meant = kept
    .filter((run) => !busy.has(conversationOf(run)))
    .toSorted(
      ({ record: a }, { record: b }) =>
        (a.endedAt ?? 0) - (b.endedAt ?? 0) || (a.id < b.id ? -1 : 1),
    )
    .slice(0, limit);
  for (const run of meant) prune(state, run);
  return meant.length;
}

function isQuiet({ record: { endedAt } }: MemoryRun, before: number): boolean {
  return endedAt !== null && endedAt <= before;
}

function conversationOf({ record: { tenantId, conversationId } }: MemoryRun): string {
  return keyOf(tenantId, conversationId);
}

function sourceOf({ journal: [first] }: MemoryRun): string | undefined {
  if (first === undefined) return undefined;
  const [event] = decodeEvents(first.payload, { seq: first.firstSeq, at: first.at });
  return event?.type === 'run.created' ? event.forkedFrom?.runId : undefined;
}

function prune(state: MemoryState, run: MemoryRun): void {
  run.pruned = true;
  run.position = null;
  run.journal.length = 0;
  run.record = {
    ...run.record,
    checkpoint: null,
    snapshot: null,
    snapshotSeq: 0,
    outputJson: null,
  };
  for (const id of run.approvalIds.splice(0)) state.approvals.delete(id);
  run.clientCalls.clear();
}

export function pruned(runId: string): RelayError {
  return new RelayError('journal_pruned', `The journal of run ${runId} is no longer kept`);
}
