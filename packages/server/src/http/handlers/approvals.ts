/** `/v1/approvals`: requests to people, independent of the surface that their run came in by. */
import { answerRelay, type GrantTerms, proposedRule, type RelayRecord } from '@relay/core';
import { type BodyOf, defined, RelayError, type RelayStatus } from '@relay/protocol';
import { notFound } from '../errors.ts';
import { displayOf } from '../views/display.ts';
import { type Call, type Handler, storeOf } from './handler.ts';
import { cutPage, pageOf } from '../views/pagination.ts';
import { iso, isoOrNone } from '../views/time.ts';

export const listApprovals: Handler<'listApprovals'> = async (call) => {
  const { status, runId, kind, ...page } = call.query;
  const found = await storeOf(call).listRelays(defined({ status, runId, kind }), pageOf(page));
  const { items, nextCursor } = cutPage(found, page.limit, ({ raisedAt: at, id }) => ({ at, id }));
  const approvals = items.map((relay) => presentApproval(call, relay));
  // One that expired a moment ago is stored as pending until its run has noticed.
  return {
    approvals:
      status === 'pending' ? approvals.filter((each) => each.status === status) : approvals,
    nextCursor,
  };
};

export const getApproval: Handler<'getApproval'> = async (call) =>
  presentApproval(call, await findRelay(call, call.params.id));

export const decideApproval: Handler<'decideApproval'> = async (call) => {
  const body = call.body;
  const { approved, always, reason, input, output } = body;
  const relay = await findRelay(call, call.params.id);
  const outcome = await answerRelay(call.context.control, call.caller.tenantId, {
    relayId: relay.id,
    approved,
    always: always ?? false,
    reason: reason ?? null,
    ...defined({ input, output }),
    terms: termsOf(body),
    by: call.caller.as,
  });
  if (outcome.kind === 'missing') throw notFound('approval');
  if (outcome.kind === 'contradicted') {
    throw new RelayError('relay_conflict', `This request is already ${statusNow(outcome.relay)}`);
  }
  return presentApproval(call, await findRelay(call, relay.id));
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

async function findRelay(call: Call, id: string): Promise<RelayRecord> {
  const relay = await storeOf(call).readRelay(id);
  if (relay === undefined) throw notFound('approval');
  return relay;
}

/** A pending approval past its time has expired, although its run has not recorded that yet. */
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
    executedParams: edited?.params,
    executedDigest: edited?.digest,
    ...question,
    input: question === undefined ? undefined : givenAnswer(answer),
    display: displayOf(relay.tool, question ?? relay.params),
    suggestedRule: rule,
    raisedAt: iso(raisedAt),
    expiresAt: iso(expiresAt),
    decidedAt: isoOrNone(decidedAt),
    decidedBy: decidedBy ?? undefined,
    reason: reason ?? undefined,
  };
}
