/** `/v1/approvals`: list, read and decide approvals of all surfaces. */
import { recordDecision, type GrantTerms, proposedRule, type ApprovalRecord } from '@relay/core';
import {
  type ApprovalStatus,
  type BodyOf,
  defined,
  displayOf,
  escapeMisleading,
  type OutcomeAnswer,
  RelayError,
} from '@relay/protocol';
import { notFound } from '../errors.ts';
import { type ApiRequest, type Handler, storeOf } from './handler.ts';
import { byRequest, iso, isoOrUndefined, readPageBySize, parseTime } from '../views/pagination.ts';

export const listApprovals: Handler<'listApprovals'> = async (call) => {
  const { status, runId, kind, ...page } = call.query;
  const { items, nextCursor } = await readPageBySize(
    page,
    (each) => storeOf(call).listApprovals(defined({ status, runId, kind }), each),
    byRequest,
  );
  const approvals = items.map((approval) => presentApproval(call, approval));
  // An approval that has just expired is stored as pending until its run records the expiry.
  return {
    approvals:
      status === 'pending' ? approvals.filter((each) => each.status === status) : approvals,
    nextCursor,
  };
};

export const getApproval: Handler<'getApproval'> = async (call) =>
  presentApproval(call, await findApproval(call, call.params.id));

export const decideApproval: Handler<'decideApproval'> = async (call) => {
  const body = call.body;
  const { approved, outcome: answer, always, reason, input, output } = body;
  const approval = await findApproval(call, call.params.id);
  const outcome = await recordDecision(call.context.control, call.caller.tenantId, {
    approvalId: approval.id,
    ...defined({ approved, outcome: answer, input, output }),
    always: always ?? false,
    reason: reason ?? null,
    terms: termsOf(body),
    by: call.caller.actor,
  });
  if (outcome.kind === 'missing') throw notFound('approval');
  if (outcome.kind === 'conflict') {
    throw new RelayError(
      'approval_conflict',
      `The approval is already ${statusNow(outcome.approval)}`,
    );
  }
  return presentApproval(call, await findApproval(call, approval.id));
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

function presentApproval(call: ApiRequest, approval: ApprovalRecord) {
  const {
    requestedAt,
    expiresAt,
    decidedAt,
    decidedBy,
    reason,
    edited,
    question,
    answer: _,
    ...rest
  } = approval;
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
    executedParams: edited?.params,
    executedDigest: edited?.digest,
    ...question,
    ...storedAnswerOf(approval),
    preview: previewOf(approval),
    display: displayOf(approval),
    suggestedRule,
    requestedAt: iso(requestedAt),
    expiresAt: iso(expiresAt),
    decidedAt: isoOrUndefined(decidedAt),
    decidedBy: decidedBy ?? undefined,
    reason: reason ?? undefined,
  };
}

function previewOf(approval: ApprovalRecord) {
  const { preview } = approval;
  if (preview === undefined) return undefined;
  const safe = (text: string) => escapeMisleading(text);
  const links = preview.links?.map(({ name, path, target }) => ({
    name: safe(name),
    path: safe(path),
    target: safe(target),
  }));
  return defined({ links, diff: preview.diff === undefined ? undefined : safe(preview.diff) });
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
