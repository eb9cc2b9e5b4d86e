/** `/v1/approvals`: requests to people, independent of the surface that their run came in by. */
import { answerApproval, type GrantTerms, proposedRule, type ApprovalRecord } from '@relay/core';
import {
  type approvalBodySchema,
  type approvalsQuerySchema,
  RelayError,
  type ApprovalStatus,
} from '@relay/protocol';
import type { z } from 'zod';
import { notFound } from '../errors.ts';
import { displayOf } from '../views/display.ts';
import { storeOf } from './find.ts';
import type { Call, Handler } from './handler.ts';
import { cutPage, pageOf } from '../views/pages.ts';
import { iso } from '../views/run.ts';

export const listApprovals: Handler = async (call) => {
  const { status, runId, kind, ...page } = call.query as z.infer<typeof approvalsQuerySchema>;
  const filter = {
    ...(status === undefined ? {} : { status }),
    ...(runId === undefined ? {} : { runId }),
    ...(kind === undefined ? {} : { kind }),
  };
  const found = await storeOf(call).listApprovals(filter, pageOf(page));
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

export const getApproval: Handler = async (call) => presentApproval(call, await findApproval(call));

export const decideApproval: Handler = async (call) => {
  const body = call.body as z.infer<typeof approvalBodySchema>;
  const { approved, always, reason, input, output } = body;
  const approval = await findApproval(call);
  const outcome = await answerApproval(call.context.control, call.caller.tenantId, {
    approvalId: approval.id,
    approved,
    always: always ?? false,
    reason: reason ?? null,
    ...(input === undefined ? {} : { input }),
    ...(output === undefined ? {} : { output }),
    terms: termsOf(body),
    by: call.caller.as,
  });
  if (outcome.kind === 'contradicted') {
    throw new RelayError(
      'approval_conflict',
      `This request is already ${statusNow(outcome.approval)}`,
    );
  }
  return presentApproval(call, await findApproval(call));
};

function givenAnswer(answer: string | null): { input?: unknown } {
  const { input } = JSON.parse(answer ?? '{}') as { input?: unknown };
  return input === undefined ? {} : { input };
}

function termsOf(body: z.infer<typeof approvalBodySchema>): GrantTerms {
  const { scope, rule, expiresAt, uses } = body;
  return {
    ...(scope === undefined ? {} : { scope }),
    ...(rule === undefined ? {} : { rule }),
    ...(expiresAt === undefined ? {} : { expiresAt: Date.parse(expiresAt) }),
    ...(uses === undefined ? {} : { uses }),
  };
}

async function findApproval(call: Call): Promise<ApprovalRecord> {
  const { id } = call.params as { id: string };
  const approval = await storeOf(call).readApproval(id);
  if (approval === undefined) throw notFound('approval');
  return approval;
}

/** One that nobody can answer any more has expired, although its run has not been told yet. */
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
    ...(edited === null ? {} : { executedParams: edited.params, executedDigest: edited.digest }),
    ...question,
    ...(question === undefined ? {} : givenAnswer(answer)),
    display: displayOf(approval.tool, question ?? approval.params),
    ...(rule === undefined ? {} : { suggestedRule: rule }),
    requestedAt: iso(requestedAt),
    expiresAt: iso(expiresAt),
    ...(decidedAt === null ? {} : { decidedAt: iso(decidedAt) }),
    ...(decidedBy === null ? {} : { decidedBy }),
    ...(reason === null ? {} : { reason }),
  };
}
