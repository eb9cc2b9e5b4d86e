/** `/v1/approvals`: requests to people, independent of the surface that their run came in by. */
import { answerRelay, type RelayRecord } from '@relay/core';
import {
  type approvalBodySchema,
  type approvalsQuerySchema,
  RelayError,
  type RelayStatus,
  type ToolPermission,
} from '@relay/protocol';
import type { z } from 'zod';
import { nothingHere } from '../failures.ts';
import { displayOf } from './display.ts';
import type { Call, Handler } from './handler.ts';
import { cutPage, pageOf } from './pages.ts';

export const listApprovals: Handler = async (call) => {
  const { status, runId, kind, ...page } = call.query as z.infer<typeof approvalsQuerySchema>;
  const filter = {
    ...(status === undefined ? {} : { status }),
    ...(runId === undefined ? {} : { runId }),
    ...(kind === undefined ? {} : { kind }),
  };
  const store = call.context.store.tenant(call.caller.tenantId);
  const found = await store.listRelays(filter, pageOf(page));
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
  const { approved, always, reason, output } = call.body as z.infer<typeof approvalBodySchema>;
  const relay = await findRelay(call);
  if (output !== undefined && relay.kind !== 'outcome') {
    throw new RelayError('invalid_request', 'output: answers a relay of kind outcome alone', {
      details: [{ path: 'output', message: 'Answers a relay of kind outcome alone' }],
    });
  }
  const outcome = await answerRelay(call.context.control, call.caller.tenantId, {
    relayId: relay.id,
    approved,
    always: always ?? false,
    reason: reason ?? null,
    ...(output === undefined ? {} : { output }),
    by: call.caller.as,
  });
  if (outcome.kind === 'contradicted') {
    throw new RelayError('relay_conflict', `This request is already ${statusNow(outcome.relay)}`);
  }
  return presentApproval(call, await findRelay(call));
};

async function findRelay(call: Call): Promise<RelayRecord> {
  const { id } = call.params as { id: string };
  const relay = await call.context.store.tenant(call.caller.tenantId).readRelay(id);
  if (relay === undefined) throw nothingHere();
  return relay;
}

/** One that nobody can answer any more has expired, although its run has not been told yet. */
export function statusNow({ status, expiresAt }: RelayRecord): RelayStatus {
  return status === 'pending' && expiresAt <= Date.now() ? 'expired' : status;
}

function presentApproval(call: Call, relay: RelayRecord) {
  const { raisedAt, expiresAt, decidedAt, decidedBy, reason, answer: _, ...rest } = relay;
  const suggestedRule = relay.kind === 'permission' ? suggestionFor(call, relay) : undefined;
  return {
    ...rest,
    status: statusNow(relay),
    display: displayOf(relay.tool, relay.params),
    ...(suggestedRule === undefined ? {} : { suggestedRule }),
    raisedAt: new Date(raisedAt).toISOString(),
    expiresAt: new Date(expiresAt).toISOString(),
    ...(decidedAt === null ? {} : { decidedAt: new Date(decidedAt).toISOString() }),
    ...(decidedBy === null ? {} : { decidedBy }),
    ...(reason === null ? {} : { reason }),
  };
}

/** What the tool proposes for calls like this one; a tool that fails at it proposes nothing. */
function suggestionFor(call: Call, relay: RelayRecord): ToolPermission | undefined {
  const tool = call.context.control.engine.tools(call.caller.tenantId).find(relay.tool);
  try {
    return tool?.derivePermission?.((relay.params ?? {}) as Record<string, unknown>);
  } catch {
    return undefined;
  }
}
