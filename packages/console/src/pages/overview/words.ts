/** What the statistics mean, in words. */
import type { Stats } from '@relay/protocol/wire';
import { formatCost, formatCount, formatDuration } from '../../ui/values.tsx';

type Totals = Stats['totals'];
type Bucket = Stats['buckets'][number];

/** Fewer decisions say nothing about how people decide. */
const fewestDecisions = 10;
const highShare = 0.3;

export interface FastDecisions {
  /** Left out without any decision. */
  readonly share?: number;
  /** So many that people may no longer read what they approve. */
  readonly isHigh: boolean;
  readonly text: string;
}

export function fastDecisionsOf(totals: Totals): FastDecisions {
  const { decisionsByPeople: all, decisionsUnder3s: fast } = totals;
  if (all === 0) return { isHigh: false, text: 'No decisions by people yet.' };
  const share = fast / all;
  const isHigh = all >= fewestDecisions && share > highShare;
  const counts = `${formatCount(fast)} of ${formatCount(all)} decisions.`;
  const text = isHigh
    ? `${counts} People may be deciding without reading: a rule for what they always approve leaves them fewer questions.`
    : all < fewestDecisions
      ? `${counts} From ${fewestDecisions} decisions on, a high share would be a warning.`
      : `${counts} A high share would mean that people decide without reading.`;
  return { share, isHigh, text };
}

export function formatShare(share: number): string {
  return `${Math.round(share * 100)} %`;
}

/** Nothing happened, and nothing is going on. */
export function isQuiet({ runs, approvals, openRuns, pendingApprovals }: Totals): boolean {
  const counts = [...Object.values(runs), ...Object.values(approvals), openRuns, pendingApprovals];
  return counts.every((count) => count === 0);
}

function most(buckets: readonly Bucket[], count: (bucket: Bucket) => number): Bucket | undefined {
  let found: Bucket | undefined;
  for (const bucket of buckets) {
    if (count(bucket) > (found === undefined ? 0 : count(found))) found = bucket;
  }
  return found;
}

function counted(count: number, one: string): string {
  return `${formatCount(count)} ${one}${count === 1 ? '' : 's'}`;
}

/** The charts in a sentence each: also for those who cannot see them. `time` names a bucket. */
export function runsSentence({ totals, buckets }: Stats, time: (at: string) => string): string {
  const { completed, failed, canceled } = totals.runs;
  const all = completed + failed + canceled;
  if (all === 0) return 'No run has ended.';
  const ended = (bucket: Bucket) =>
    bucket.runs.completed + bucket.runs.failed + bucket.runs.canceled;
  const peak = most(buckets, ended);
  const parts = [`${formatCount(completed)} completed`];
  if (failed > 0) parts.push(`${formatCount(failed)} failed`);
  if (canceled > 0) parts.push(`${formatCount(canceled)} canceled`);
  const where = peak === undefined ? '' : ` Most at ${time(peak.at)}: ${formatCount(ended(peak))}.`;
  return `${counted(all, 'run')} ended: ${parts.join(', ')}.${where}`;
}

export function tokensSentence({ totals }: Stats): string {
  const { input, output } = totals.tokens;
  if (input + output === 0) return 'No tokens were used.';
  return `${formatCount(input)} tokens read by models, ${formatCount(output)} written.`;
}

export function costSentence({ totals }: Stats): string {
  const { costUsd } = totals;
  const known = costUsd === 0 ? 'No known cost.' : `${formatCost(costUsd)} in all.`;
  return `${known} ${unknownCost(totals)}`.trim();
}

/** A dash if nothing of it is known. */
export function costOf({
  costUsd,
  unpricedRuns,
}: Pick<Totals, 'costUsd' | 'unpricedRuns'>): string {
  return costUsd === 0 && unpricedRuns > 0 ? '–' : formatCost(costUsd);
}

/** Empty if all costs are known. */
export function unknownCost({ unpricedRuns }: Totals): string {
  return unpricedRuns === 0 ? '' : `The cost of ${counted(unpricedRuns, 'run')} is unknown.`;
}

export function firstTokenSentence({ totals: { firstTokenMs } }: Stats): string {
  if (firstTokenMs === null) return 'No run has given an answer.';
  return `Half of the runs answered within ${formatDuration(firstTokenMs.p50)}, 95 % within ${formatDuration(firstTokenMs.p95)}.`;
}

export function waitSentence({ totals: { approvalWaitMs } }: Stats): string {
  if (approvalWaitMs === null) return 'No decisions by people.';
  return `Half of the decisions came within ${formatDuration(approvalWaitMs.p50)}, 95 % within ${formatDuration(approvalWaitMs.p95)}.`;
}

export function approvalsSentence({ totals: { approvals } }: Stats): string {
  const { requested, approved, denied, expired } = approvals;
  if (requested + approved + denied + expired === 0) return 'Nothing was asked.';
  const parts = [`${formatCount(approved)} approved`, `${formatCount(denied)} denied`];
  if (expired > 0) parts.push(`${formatCount(expired)} expired`);
  return `${counted(requested, 'request')}: ${parts.join(', ')}.`;
}
