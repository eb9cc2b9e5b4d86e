import type { OpenRuns, RunRecord, UsageScope, UsageTotal, WorkflowTotal } from '@relay/core';
import { addUsage, noUsage, type RunStatus } from '@relay/protocol';
import { dayOf } from '../sql/usage.ts';
import { keyOf } from './state.ts';
import type { MemoryState } from './state.ts';

export function countUsage(state: MemoryState, run: RunRecord, endedAt: number): void {
  const { tenantId, usage } = run;
  const keyId = run.keyId ?? '';
  const day = dayOf(endedAt);
  const place = keyOf(tenantId, keyId, day);
  const so = state.usage.get(place) ?? nothing;
  state.usage.set(place, {
    tenantId,
    keyId,
    day,
    ...add(so, { ...usage, costUsd: usage.costUsd ?? 0, runs: 1 }),
  });
}

const nothing: UsageTotal = { inputTokens: 0, outputTokens: 0, costUsd: 0, runs: 0 };

function add(a: UsageTotal, b: UsageTotal): UsageTotal {
  return {
    inputTokens: a.inputTokens + b.inputTokens,
    outputTokens: a.outputTokens + b.outputTokens,
    costUsd: a.costUsd + b.costUsd,
    runs: a.runs + b.runs,
  };
}

export function readUsage(
  state: MemoryState,
  tenantId: string,
  { keyId, since }: UsageScope & { readonly since: number },
): UsageTotal {
  const from = dayOf(since);
  return [...state.usage.values()]
    .filter((counted) => counted.tenantId === tenantId && counted.day >= from)
    .filter((counted) => keyId === undefined || counted.keyId === keyId)
    .reduce(add, nothing);
}

export function countOpenRuns(
  state: MemoryState,
  tenantId: string,
  { keyId }: UsageScope,
): OpenRuns {
  const counts = { queued: 0, running: 0, waiting: 0 };
  for (const runId of state.open) {
    const record = state.runs.get(runId)?.record;
    if (record === undefined || record.tenantId !== tenantId) continue;
    if (keyId !== undefined && record.keyId !== keyId) continue;
    if (record.status in counts) counts[record.status as keyof OpenRuns] += 1;
  }
  return counts;
}

export function readWorkflow(
  state: MemoryState,
  tenantId: string,
  workflowId: string,
): WorkflowTotal | undefined {
  const runs: Partial<Record<RunStatus, number>> = {};
  let usage = noUsage;
  for (const { record } of state.runs.values()) {
    if (record.tenantId !== tenantId || record.workflowId !== workflowId) continue;
    runs[record.status] = (runs[record.status] ?? 0) + 1;
    usage = addUsage(usage, record.usage);
  }
  return Object.keys(runs).length === 0 ? undefined : { runs, usage };
}
