/** `/v1/approvals`: list, read and decide approvals of all surfaces. */
import {
  type ApprovalRecord,
  countedVotes,
  demandsApprovers,
  type DecisionInput,
  type DecisionOutcome,
  findApprover,
  type GrantTerms,
  idempotencyKeyOf,
  keyIdOf,
  mayDecide,
  policiesOf,
  type Policy,
  proposedRule,
  recordDecision,
  type Requirement,
  requirementFor,
} from '@relay/core';
import {
  type ApprovalStatus,
  type BodyOf,
  defined,
  displayOf,
  escapeMisleading,
  type OutcomeAnswer,
  RelayError,
} from '@relay/protocol';
import { notFound } from '../../errors.ts';
import { type ApiRequest, type Handler, storeOf } from '../handler.ts';
import { iso, isoOrUndefined, readListedBySize, parseTime } from '../../views/pagination.ts';

export const listApprovals: Handler<'listApprovals'> = async (call) => {
  const { runId, sessionId, conversationId, invocationId, tool, kind, decidable, ...page } =
    call.query;
  const status = decidable === undefined ? page.status : 'pending';
  const filter = defined({ status, runId, sessionId, conversationId, invocationId, tool, kind });
  // What the caller may decide is not counted.
  const { count: _, ...uncounted } = page;
  const counted = decidable === undefined ? page : uncounted;
  const { items, ...rest } = await readListedBySize(counted, (each) =>
    storeOf(call).listApprovals(filter, each),
  );
  const requirements = new Requirements(call);
  const wanted: ApprovalRecord[] = [];
  for (const approval of items) {
    // An approval that has just expired is stored as pending until its run records the expiry.
    if (status !== undefined && ![status].flat().includes(statusNow(approval))) continue;
    if (decidable === undefined || (await requirements.isDecidable(approval)))
      wanted.push(approval);
  }
  return {
    approvals: await Promise.all(wanted.map((each) => presentApproval(call, each, requirements))),
    ...rest,
  };
};

export const getApproval: Handler<'getApproval'> = async (call) =>
  presentApproval(call, await findApproval(call, call.params.id), new Requirements(call));

/** Records the decision of a caller. No event of the run reports a vote, so the feed is notified here. */
export async function decide(
  { context, caller }: ApiRequest,
  decision: Omit<DecisionInput, 'by'>,
): Promise<DecisionOutcome> {
  const { tenantId, actor: by } = caller;
  const outcome = await recordDecision(context.control, tenantId, { ...decision, by });
  if (outcome.kind === 'voted') {
    context.feed.add(tenantId, { kind: 'approval', id: decision.approvalId });
  }
  return outcome;
}

export const decideApproval: Handler<'decideApproval'> = async (call) => {
  const body = call.body;
  const { approved, outcome: answer, always, reason, input, output, digest } = body;
  const { id: approvalId } = call.params;
  const outcome = await decide(call, {
    approvalId,
    ...defined({ approved, outcome: answer, input, output, digest }),
    always: always ?? false,
    reason: reason ?? null,
    terms: termsOf(body),
  });
  if (outcome.kind === 'missing') throw notFound('approval');
  if (outcome.kind === 'conflict') {
    throw new RelayError(
      'approval_conflict',
      `The approval is already ${statusNow(outcome.approval)}`,
    );
  }
  return presentApproval(call, await findApproval(call, approvalId), new Requirements(call));
};

function termsOf({ scope, rule, expiresAt, uses }: BodyOf<'decideApproval'>): GrantTerms {
  return defined({ scope, rule, expiresAt: parseTime(expiresAt), uses });
}

async function findApproval(call: ApiRequest, id: string): Promise<ApprovalRecord> {
  const approval = await storeOf(call).readApproval(id);
  if (approval === undefined) throw notFound('approval');
  return approval;
}

/** A pending approval may have expired before its run has recorded that. */
export function statusNow({ status, expiresAt }: ApprovalRecord): ApprovalStatus {
  return status === 'pending' && expiresAt <= Date.now() ? 'expired' : status;
}

/** What an approver decides about: the call as votes have changed it, while it is pending. */
export function asShown(approval: ApprovalRecord): ApprovalRecord {
  const { edited } = (approval.status === 'pending' ? approval.votes : null) ?? {};
  if (edited === undefined) return approval;
  const { resolvedPaths: _, preview: __, ...rest } = approval;
  const { params, resolvedPaths, preview, digest } = edited;
  return { ...rest, params, digest, ...defined({ resolvedPaths, preview }) };
}

/** Who may decide approvals, by the current policies, which are read once per request. */
export class Requirements {
  readonly #call: Pick<ApiRequest, 'context' | 'caller'>;
  readonly #policies = new Map<string, Promise<Policy[]>>();

  constructor(call: Pick<ApiRequest, 'context' | 'caller'>) {
    this.#call = call;
  }

  async of(approval: ApprovalRecord): Promise<Requirement> {
    const store = storeOf(this.#call);
    const policies = await this.#policiesFor(approval.agentPath);
    const isNamed = policies.some(({ approvers }) => approvers.length > 0);
    const { runId } = approval;
    const run = isNamed && runId !== undefined ? await store.readRunHead(runId) : undefined;
    return requirementFor(this.#call.context.control.engine, store, approval, {
      policies,
      keyId: runId === undefined ? (approval.keyId ?? null) : (run?.keyId ?? null),
      edited: approval.votes?.edited,
    });
  }

  /** Whether the caller may decide it, and has not voted. */
  async isDecidable(approval: ApprovalRecord): Promise<boolean> {
    const { caller, context } = this.#call;
    if (!caller.scopes.has('approve')) return false;
    const requirement = await this.of(approval);
    if (!demandsApprovers(requirement)) return true;
    const { engine } = context.control;
    const store = storeOf(this.#call);
    const approver = await findApprover(store, keyIdOf(caller.actor), engine.clock.now());
    const votes = await countedVotes(engine, store, requirement, approval.votes?.votes ?? []);
    const hasVoted = votes.some((each) => each.approver.person === approver.person);
    return !hasVoted && mayDecide(requirement, approver);
  }

  #policiesFor(path: readonly string[]): Promise<Policy[]> {
    const key = JSON.stringify(path);
    const read = async () => {
      const { policies } = storeOf(this.#call);
      return policiesOf(await policies.inForce(...path), ...path);
    };
    const policies = this.#policies.get(key) ?? read();
    this.#policies.set(key, policies);
    return policies;
  }
}

/** The votes, and who may decide while it is pending. */
async function presentVotes(approval: ApprovalRecord, requirements: Requirements) {
  const { votes } = approval;
  const counted = votes?.votes.map(({ by, at }) => ({ by, role: by.role, at: iso(at) }));
  if (approval.status !== 'pending') return { votes: counted, quorum: votes?.quorum };
  const { rules, quorum } = await requirements.of(approval);
  // The rule for the call as it is now comes last.
  const rule = rules.at(-1);
  if (rule === undefined) return {};
  const { roles, groups, keys } = rule;
  const notRequester = rules.some((each) => each.notRequester);
  return { votes: counted ?? [], quorum, approvers: { roles, groups, keys, notRequester } };
}

async function presentApproval(
  call: ApiRequest,
  approval: ApprovalRecord,
  requirements: Requirements,
) {
  const {
    requestedAt,
    expiresAt,
    decidedAt,
    decidedBy,
    reason,
    edited: executed,
    question,
    answer: _,
    ballot: __,
    keyId: ___,
    isConcrete,
    isEditable,
    votes,
    ...rest
  } = approval;
  // Of a pending approval, the arguments that votes are for.
  const edited = executed ?? votes?.edited;
  const shown = asShown(approval);
  const tools = call.context.control.engine.tools(call.caller.tenantId);
  const requested = { name: approval.tool, params: edited?.params ?? approval.params };
  // Where each call needs a person, "always" is not offered.
  const suggestedRule =
    approval.kind === 'permission' && approval.rule === undefined
      ? proposedRule(tools.find(approval.tool), requested)
      : undefined;
  return {
    ...rest,
    status: statusNow(approval),
    // Of the arguments that are shown: those of others would lead elsewhere.
    resolvedPaths: edited === undefined ? rest.resolvedPaths : edited.resolvedPaths,
    preview: previewOf(edited ?? approval),
    executedParams: edited?.params,
    executedDigest: edited?.digest,
    ...question,
    ...storedAnswerOf(approval),
    idempotencyKey: startedCallOf(approval),
    concrete: isConcrete,
    editable: isEditable,
    display: displayOf(shown),
    suggestedRule,
    ...(await presentVotes(approval, requirements)),
    requestedAt: iso(requestedAt),
    expiresAt: iso(expiresAt),
    decidedAt: isoOrUndefined(decidedAt),
    decidedBy: decidedBy ?? undefined,
    reason: reason ?? undefined,
  };
}

function startedCallOf({ kind, runId, toolCallId }: ApprovalRecord): string | undefined {
  if (kind !== 'outcome' || runId === undefined || toolCallId === undefined) return undefined;
  return idempotencyKeyOf(runId, toolCallId);
}

function previewOf({ preview }: Pick<ApprovalRecord, 'preview'>) {
  if (preview === undefined) return undefined;
  const safe = (text: string) => escapeMisleading(text);
  const links = preview.links?.map(({ name, path, target }) => ({
    name: safe(name),
    path: safe(path),
    target: safe(target),
  }));
  const { diff, execution } = preview;
  return defined({
    links,
    diff: diff === undefined ? undefined : safe(diff),
    execution:
      execution === undefined ? undefined : { ...execution, folder: safe(execution.folder) },
  });
}

/** The stored answer to a question, or to an approval of kind `outcome`. */
export function storedAnswerOf({ kind, answer }: ApprovalRecord): StoredAnswer {
  if (kind === 'permission' || answer === null) return {};
  const { input, outcome, output } = JSON.parse(answer) as StoredAnswer;
  return defined({ input, outcome, output });
}

interface StoredAnswer {
  readonly input?: unknown;
  readonly outcome?: OutcomeAnswer;
  readonly output?: unknown;
}
