/** `/v1/approvals`: requests to people, independent of the surface that their run came in by. */
import { answerApproval, type GrantTerms, proposedRule, type ApprovalRecord } from '@relay/core';
import { type BodyOf, defined, RelayError, type ApprovalStatus } from '@relay/protocol';
import { notFound } from '../errors.ts';
import { displayOf } from '../views/display.ts';
import { type Call, type Handler, storeOf } from './handler.ts';
import { cutPage, pageOf } from '../views/pagination.ts';
import { iso, isoOrNone } from '../views/time.ts';

export const listApprovals: Handler<'listApprovals'> = async (call) => {
  const { status, runId, kind, ...page } = call.query;
  const found = await storeOf(call).listApprovals(defined({ status, runId, kind }), pageOf(page));
  const { items, nextCursor } = cutPage(found, page.limit, ({ requestedAt: at, id }) => ({
    at,
    id,
  }));
  const approvals = items.map((approval) => presentApproval(call, approval));
  // One that expired a moment ago is stored as pending until its run has noticed.
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
  const { approved, always, reason, input, output } = body;
  const approval = await findApproval(call, call.params.id);
  const outcome = await answerApproval(call.context.control, call.caller.tenantId, {
    approvalId: approval.id,
    approved,
    always: always ?? false,
    reason: reason ?? null,
    ...defined({ input, output }),
    terms: termsOf(body),
    by: call.caller.as,
  });
  if (outcome.kind === 'missing') throw notFound('approval');
  if (outcome.kind === 'contradicted') {
    throw new RelayError(
      'approval_conflict',
      `This request is already ${statusNow(outcome.approval)}`,
    );
  }
  return presentApproval(call, await findApproval(call, approval.id));
};

/** The answer to a question, as it was stored. */
function givenAnswer(answer: string | null): unknown {
  return (JSON.parse(answer ?? '{}') as { input?: unknown }).input;
}

function termsOf(body: BodyOf<'decideApproval'>): GrantTerms {
  const { scope, rule, expiresAt, uses } = body;
  return defined({
    scope,
    rule,
    expiresAt: expiresAt === undefined ? undefined : Date.parse(expiresAt),
    uses,
  });
}

async function findApproval(call: Call, id: string): Promise<ApprovalRecord> {
  const approval = await storeOf(call).readApproval(id);
  if (approval === undefined) throw notFound('approval');
  return approval;
}

/** A pending approval past its time has expired, although its run has not recorded that yet. */
export function statusNow({ status, expiresAt }: ApprovalRecord): ApprovalStatus {
  return status === 'pending' && expiresAt <= Date.now() ? 'expired' : status;
}

function presentApproval(call: Call, approval: ApprovalRecord) {
  const {
    requestedAt,
    expiresAt,
    decidedAt,
    decidedBy,
    reason,
    edited,
    question,
    answer,
    ...rest
  } = approval;
  const tools = call.context.control.engine.tools(call.caller.tenantId);
  const asked = { name: approval.tool, params: edited?.params ?? approval.params };
  const rule =
    approval.kind === 'permission' ? proposedRule(tools.find(approval.tool), asked) : undefined;
  return {
    ...rest,
    status: statusNow(approval),
    executedParams: edited?.params,
    executedDigest: edited?.digest,
    ...question,
    input: question === undefined ? undefined : givenAnswer(answer),
    display: displayOf(approval.tool, question ?? approval.params),
    suggestedRule: rule,
    requestedAt: iso(requestedAt),
    expiresAt: iso(expiresAt),
    decidedAt: isoOrNone(decidedAt),
    decidedBy: decidedBy ?? undefined,
    reason: reason ?? undefined,
  };
}
