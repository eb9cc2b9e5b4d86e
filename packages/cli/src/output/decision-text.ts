/** What an approval waits for, and who decided it, what and when. */
import type { Approval, CurrentKey, RelayClient } from '@relay/sdk';
import { escapeLine } from './escape.ts';
import { age } from './table.ts';
import { relay } from '../environment.ts';

export const waitsText: Readonly<Record<Approval['kind'], string>> = {
  permission: 'waits for approval',
  question: 'waits for an answer',
  outcome: 'waits for its outcome',
};

/** The command that decides an approval. */
export function answerCommand(kind: Approval['kind'], id: string): string {
  switch (kind) {
    case 'permission':
      return `${relay} approvals approve ${id}`;
    case 'question':
      return `${relay} approvals approve ${id} --input JSON`;
    case 'outcome':
      return `${relay} approvals answer ${id} (--completed JSON | --failed [REASON] | --rerun)`;
  }
}

/** `1 of 2`, where the policy names approvers. */
export function votesText({ votes, quorum }: Approval): string | undefined {
  return quorum === undefined ? undefined : `${votes?.length ?? 0} of ${quorum}`;
}

/** `approved by you 3m ago`, `denied by ada 2h ago`, `expired` */
export function decisionText(approval: Approval, you: Pick<CurrentKey, 'id' | 'owner'>): string {
  const { kind, status, outcome, executedParams, decidedBy, decidedAt } = approval;
  const answer = kind === 'question' && status === 'approved' ? 'answered' : status;
  const what = outcome === undefined ? answer : `answered with ${outcome}`;
  if (decidedBy === undefined || (status !== 'approved' && status !== 'denied')) return what;
  // All keys of one owner are the same person.
  const isYou = (decidedBy.owner ?? decidedBy.id) === (you.owner ?? you.id);
  const when = decidedAt === undefined ? '' : ` ${age(decidedAt, Date.now())}`;
  const by = isYou ? 'you' : escapeLine(decidedBy.owner ?? decidedBy.name);
  const isChanged = kind === 'permission' && executedParams !== undefined;
  const how = isChanged ? ', with changed arguments' : '';
  return `${what} by ${by}${when.replace(' now', ' just now')}${how}`;
}

export async function loadDecisionText(client: RelayClient, id: string): Promise<string> {
  const [approval, key] = await Promise.all([client.approvals.get(id), client.keys.current()]);
  return decisionText(approval, key);
}
