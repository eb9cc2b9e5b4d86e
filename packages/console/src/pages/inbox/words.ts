/** Approvals in words. */
import type { ApiKey, Approval, Decider } from '@relay/protocol/wire';
import { summaryOf } from '../../call/summary.ts';

/** Who is signed in. */
type Account = Pick<ApiKey, 'id' | 'owner' | 'parent'>;

/** What is asked, in one line. */
export function requestText(approval: Approval): string {
  const { kind, prompt } = approval;
  const text = kind === 'question' ? oneLine(prompt ?? '') : summaryOf(shownParams(approval));
  return kind === 'outcome' ? `Did it take effect? ${text}` : text;
}

const maxLine = 300;

function oneLine(text: string): string {
  const line = text.slice(0, maxLine + 1).replaceAll(/\s*\n\s*/g, ' ⏎ ');
  return line.length > maxLine ? `${line.slice(0, maxLine)}…` : line;
}

/** How near the end of its time an approval is. */
export type Urgency = 'calm' | 'soon' | 'last';

const hour = 3_600_000;

export function urgencyOf(
  { requestedAt, expiresAt }: Pick<Approval, 'requestedAt' | 'expiresAt'>,
  now: number,
): Urgency {
  const end = Date.parse(expiresAt);
  const whole = end - Date.parse(requestedAt);
  const left = end - now;
  if (left < Math.min(hour / 12, whole / 10)) return 'last';
  return left < Math.min(hour, whole / 4) ? 'soon' : 'calm';
}

/** The digest of the call as it is shown, which a decision is bound to. */
export function shownDigest({ digest, executedDigest }: Approval): string {
  return executedDigest ?? digest;
}

/** The call as it will run, or as it did. */
export function shownParams({ params, executedParams }: Approval): unknown {
  return executedParams ?? params;
}

/** Two approvals with the same key are about the same call, with the same paths and changes. */
export function callKey(approval: Approval): string {
  return `${approval.kind} ${approval.tool} ${shownDigest(approval)}`;
}

export function isMe({ id, owner }: Decider, account: Account | undefined): boolean {
  if (account === undefined) return false;
  if (owner !== undefined) return owner === account.owner;
  // A sign-in acts as the key that signed in.
  return id === (account.parent ?? account.id);
}

export function hasVoted({ votes = [] }: Approval, account: Account | undefined): boolean {
  return votes.some(({ by }) => isMe(by, account));
}

/** "you", "ada", "a rule". */
export function nameOf(by: Decider, account: Account | undefined): string {
  if (isMe(by, account)) return 'you';
  switch (by.type) {
    case 'key':
      return by.owner ?? by.name;
    case 'session':
      return by.name;
    case 'rule':
      return `the rule ${by.name}`;
    case 'timeout':
      return 'the time limit';
    case 'system':
      return by.name === '' ? 'Relay' : by.name;
  }
}

const outcomes = {
  rerun: 'Run again',
  completed: 'Recorded as completed',
  failed: 'Recorded as failed',
} as const;

/** What became of it: "Approved", "Denied", "Answered". */
export function verdictOf({ status, kind, outcome, executedParams }: Approval): string {
  switch (status) {
    case 'pending':
      return 'Pending';
    case 'approved':
      if (outcome !== undefined) return outcomes[outcome];
      if (kind === 'question') return 'Answered';
      return executedParams === undefined ? 'Approved' : 'Approved with changes';
    case 'denied':
      if (outcome !== undefined) return outcomes[outcome];
      return kind === 'question' ? 'Declined' : 'Denied';
    case 'expired':
      return 'Expired';
    case 'closed':
      return 'Closed';
  }
}

/** "support › billing". */
export function pathText(path: readonly string[]): string {
  return path.join(' › ');
}

/** "the role approver or the group finance", for "Who may decide". */
export function approversText({ approvers, quorum = 1 }: Approval): string | undefined {
  if (approvers === undefined) return undefined;
  const { roles, groups, keys, notRequester } = approvers;
  const named = [
    ...(roles ?? []).map((role) => `role ${role}`),
    ...(groups ?? []).map((group) => `group ${group}`),
    ...(keys === undefined ? [] : [keys.length === 1 ? 'one API key' : `${keys.length} API keys`]),
  ];
  const who = named.length === 0 ? 'everyone who may approve' : named.join(', ');
  const count = quorum > 1 ? `${quorum} persons of: ${who}` : who;
  return notRequester ? `${count}; not the person who started the run` : count;
}
