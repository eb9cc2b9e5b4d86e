/** Which steps of the first-run checklist are done, as the data says. */
import type { Approval, Grant, ModelList, Policy, Run } from '@relay/protocol/wire';
import type { Outage } from '../../api/feed.ts';
import type { ChecklistMark } from '../../preferences.ts';

export const steps = ['start', 'approve', 'timeline', 'restart', 'provider', 'rule'] as const;
export type Step = (typeof steps)[number];

/** What is not known yet, or may not be read, is left out. */
export interface Findings {
  /** The newest. */
  readonly runs?: readonly Run[] | undefined;
  /** The newest that were approved. */
  readonly approved?: readonly Approval[] | undefined;
  readonly grants?: readonly Grant[] | undefined;
  readonly policy?: Policy | undefined;
  readonly models?: ModelList['models'] | undefined;
  readonly credentials?: number | undefined;
  readonly outage?: Outage | undefined;
  readonly marks: readonly ChecklistMark[];
}

export function stepsDone(findings: Findings): ReadonlySet<Step> {
  const { runs = [], approved = [], grants = [], policy, models = [], marks } = findings;
  const { credentials = 0, outage } = findings;
  const done: Readonly<Record<Step, boolean>> = {
    start: runs.length > 0,
    approve: approved.some(({ decidedBy }) => decidedBy?.type === 'key'),
    timeline: marks.includes('timeline'),
    restart: marks.includes('restart') || hasContinued(runs, outage),
    provider: credentials > 0 || models.some(({ provider }) => provider !== 'demo'),
    rule: grants.length > 0 || (policy?.version ?? 0) > 0,
  };
  return new Set(steps.filter((step) => done[step]));
}

/** A run from before the connection was lost that has completed since then. */
export function hasContinued(runs: readonly Run[], outage: Outage | undefined): boolean {
  if (outage === undefined) return false;
  return runs.some(
    ({ status, createdAt, endedAt }) =>
      status === 'completed' &&
      Date.parse(createdAt) < outage.from &&
      endedAt !== undefined &&
      Date.parse(endedAt) > outage.from,
  );
}

/** A run from before the connection was lost that is still open. */
export function isStillOpen(runs: readonly Run[], outage: Outage | undefined): boolean {
  if (outage === undefined) return false;
  return runs.some(
    ({ createdAt, endedAt }) => endedAt === undefined && Date.parse(createdAt) < outage.from,
  );
}
