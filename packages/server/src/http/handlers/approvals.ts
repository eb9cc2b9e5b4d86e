/** `/v1/approvals`: requests to people, independent of the surface that their run came in by. */
import { answerRelay, type GrantTerms, proposedRule, type RelayRecord } from '@relay/core';
import {
  type approvalBodySchema,
  type approvalsQuerySchema,
  RelayError,
  type RelayStatus,
} from '@relay/protocol';
import type { z } from 'zod';
import { nothingHere } from '../errors.ts';
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
  const found = await storeOf(call).listRelays(filter, pageOf(page));
  const { items, nextCursor } = cutPage(found, page.limit, ({ raisedAt: at, id }) => ({ at, id }));
  const approvals = items.map((relay) => presentApproval(call, relay));
  // One that expired a moment ago is stored as pending until its run has noticed.
  return {
    approvals:
      status === 'pending' ? approvals.filter((each) => each.status === status) : approvals,
    nextCursor,
  };
};

export const getApproval: Handler = async (call) => presentApproval(call, await findRelay(call));

export const decideApproval: Handler = async (call) => {
  const body = call.body as z.infer<typeof approvalBodySchema>;
  const { approved, always, reason, input, output } = body;
  const relay = await findRelay(call);
  const outcome = await answerRelay(call.context.control, call.caller.tenantId, {
    relayId: relay.id,
    approved,
    always: always ?? false,
    reason: reason ?? null,
    ...(input === undefined ? {} : { input }),
    ...(output === undefined ? {} : { output }),
    terms: termsOf(body),
    by: call.caller.as,
  });
  if (outcome.kind === 'contradicted') {
    throw new RelayError('relay_conflict', `This request is already ${statusNow(outcome.relay)}`);
  }
  return presentApproval(call, await findRelay(call));
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

async function findRelay(call: Call): Promise<RelayRecord> {
  const { id } = call.params as { id: string };
  const relay = await storeOf(call).readRelay(id);
  if (relay === undefined) throw nothingHere('approval');
  return relay;
}

/** One that nobody can answer any more has expired, although its run has not been told yet. */
export function statusNow({ status, expiresAt }: RelayRecord): RelayStatus {
  return status === 'pending' && expiresAt <= Date.now() ? 'expired' : status;
}

function presentApproval(call: Call, relay: RelayRecord) {
  const { raisedAt, expiresAt, decidedAt, decidedBy, reason, edited, question, answer, ...rest } =
    relay;
  const tools = call.context.control.engine.tools(call.caller.tenantId);
  const asked = { name: relay.tool, params: edited?.params ?? relay.params };
  const rule =
    relay.kind === 'permission' ? proposedRule(tools.find(relay.tool), asked) : undefined;
  return {
    ...rest,
    status: statusNow(relay),
    ...(edited === null ? {} : { executedParams: edited.params, executedDigest: edited.digest }),
    ...question,
    ...(question === undefined ? {} : givenAnswer(answer)),
    display: displayOf(relay.tool, question ?? relay.params),
    ...(rule === undefined ? {} : { suggestedRule: rule }),
    raisedAt: iso(raisedAt),
    expiresAt: iso(expiresAt),
    ...(decidedAt === null ? {} : { decidedAt: iso(decidedAt) }),
    ...(decidedBy === null ? {} : { decidedBy }),
    ...(reason === null ? {} : { reason }),
  };
}
