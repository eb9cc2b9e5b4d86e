/**
 * Votes: where the policy names approvers for a call, each approval of one of them is a vote, and the
 * call runs when enough persons have approved the same thing.
 *
 *  - The policy and the keys that count are those at the time of a vote: earlier votes of persons who
 *    are no longer entitled are dropped.
 *  - If an approver changes the arguments, earlier votes are dropped, because they are not about these
 *    arguments. The rule for the call as requested and that for the changed call must both be met.
 *  - A denial is no vote: it decides at once. So does the answer to a question.
 */
import { type ApproverRule, RelayError } from '@relay/protocol';
import type { Engine } from '../engine.ts';
import {
  type Approver,
  describeApprovers,
  findApprover,
  isEntitled,
  keyIdOf,
} from '../permission/approvers.ts';
import { approverRulesFor, declaredBy } from '../permission/decide.ts';
import type { Policy } from '../permission/policy.ts';
import type { ApprovalRecord, TenantStore, Vote } from '../ports/index.ts';
import { isObject, resolvePaths } from '../run/arguments.ts';
import { declaredTool } from './edited-call.ts';

/** Who may decide an approval: every rule must be met. Without rules, every approver may. */
export interface Requirement {
  readonly rules: readonly ApproverRule[];
  /** The person who started the run. */
  readonly requester: string;
  /** How many persons must approve. */
  readonly quorum: number;
}

export async function requirementFor(
  engine: Engine,
  store: TenantStore,
  approval: Pick<
    ApprovalRecord,
    'tool' | 'params' | 'kind' | 'runId' | 'invocationId' | 'sessionId'
  >,
  {
    policies,
    keyId,
    edited,
  }: {
    readonly policies: readonly Policy[];
    /** The key that started the run. */
    readonly keyId: string | null;
    /** The call as an approver has changed it. */
    readonly edited: { readonly params: unknown } | undefined;
  },
): Promise<Requirement> {
  const { tool: name } = approval;
  if (!policies.some(({ approvers }) => approvers.some(({ tool }) => tool === name))) {
    return { rules: [], requester: '', quorum: 1 };
  }
  const tool = declaredTool(engine, store.tenantId, approval);
  const versions = edited === undefined ? [approval] : [approval, edited];
  const rules = new Set<ApproverRule>();
  for (const { params } of versions) {
    const resolution = await resolvePaths(tool, params);
    const call = { toolCallId: '', name, arguments: isObject(params) ? params : {} };
    const declared = declaredBy(tool, resolution);
    for (const rule of approverRulesFor(call, { policies, ...declared })) rules.add(rule);
  }
  const { person } = await findApprover(store, keyId, engine.clock.now());
  // Answers to a question differ, so that they cannot be counted.
  const quorums = approval.kind === 'question' ? [] : [...rules].map(({ quorum }) => quorum);
  return { rules: [...rules], requester: person, quorum: Math.max(1, ...quorums) };
}

/** Whether it matters who decides. */
export function demandsApprovers({ rules }: Requirement): boolean {
  return rules.some(
    ({ roles, groups, keys, quorum, notRequester }) =>
      quorum > 1 || notRequester || (roles ?? groups ?? keys) !== undefined,
  );
}

/** To approve, a person must be named by every rule; to deny, by one of them. */
export function mayDecide(
  { rules, requester }: Requirement,
  approver: Approver,
  approves = true,
): boolean {
  const names = (rule: ApproverRule) => isEntitled(rule, approver, requester);
  return approves ? rules.every(names) : rules.some(names);
}

export function notAnApprover(approval: Pick<ApprovalRecord, 'tool'>, { rules }: Requirement) {
  const who = rules.map(describeApprovers).join(', and ');
  return new RelayError(
    'not_an_approver',
    `You may not decide about this call of ${approval.tool}: the policy demands ${who}`,
  );
}

export interface CountedVote {
  readonly vote: Vote;
  readonly approver: Approver;
}

/** The votes of persons who may still decide, one per person. */
export async function countedVotes(
  engine: Engine,
  store: TenantStore,
  requirement: Requirement,
  votes: readonly Vote[],
): Promise<CountedVote[]> {
  const now = engine.clock.now();
  const counted = new Map<string, CountedVote>();
  for (const vote of votes) {
    const approver = await findApprover(store, keyIdOf(vote.by), now);
    if (mayDecide(requirement, approver)) counted.set(approver.person, { vote, approver });
  }
  return [...counted.values()];
}
