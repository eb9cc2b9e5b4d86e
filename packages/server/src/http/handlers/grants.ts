/** `/v1/grants` and `/v1/permissions/explain`: what may run without asking, and why. */
import * as core from '@relay/core';
import { faultsOf, type GrantRecord, type NewGrant } from '@relay/core';
import { type BodyOf, defined, RelayError, type ToolPermission } from '@relay/protocol';
import { notFound, refuseFaults } from '../errors.ts';
import { auditEntry, type Call, type Handler, type ResultOf, storeOf } from './handler.ts';
import { cutPage, pageOf } from '../views/pagination.ts';
import { iso, isoOrNone, timeOf } from '../views/time.ts';
import { faultsIn } from './start.ts';

export const listGrants: Handler<'listGrants'> = async (call) => {
  const query = call.query;
  const { scope, scopeId, tool, status } = query;
  const now = call.context.control.engine.clock.now();
  const activeAt = status === 'active' ? now : undefined;
  const filter = defined({ scope, scopeId, tool, activeAt });
  const found = await storeOf(call).listGrants(filter, pageOf(query));
  const { items, nextCursor } = cutPage(found, query.limit, ({ createdAt: at, id }) => ({
    at,
    id,
  }));
  return { grants: items.map((grant) => presentGrant(grant, now)), nextCursor };
};

export const createGrant: Handler<'createGrant'> = async (call) => {
  const body = call.body;
  const { engine } = call.context.control;
  const store = storeOf(call);
  const now = engine.clock.now();
  const expiresAt = timeOf(body.expiresAt);
  if (expiresAt !== undefined) core.refusePast(expiresAt, now);
  const grant: NewGrant = {
    id: engine.ids.next(),
    ...checkedRule(body),
    scope: body.scope,
    scopeId: await scopeIdOf(call, body),
    createdAt: now,
    createdBy: call.caller.as,
    ...defined({ expiresAt, uses: body.uses }),
  };
  const told = core.audited(engine, call.caller.tenantId, [core.auditOfGrant(grant)]);
  await store.addGrant(grant, told);
  return presentGrant({ ...grant, ...defined({ usesLeft: grant.uses }) }, now);
};

/** Revoking twice is the same as once; a grant of another tenant is not there. */
export const revokeGrant: Handler<'revokeGrant'> = async (call) => {
  const { id } = call.params;
  const store = storeOf(call);
  const grant = await store.readGrant(id);
  if (grant === undefined) throw notFound('grant');
  const told = auditEntry(call, 'grant.revoked', { grantId: id, tool: grant.tool });
  await store.revokeGrant(id, call.context.control.engine.clock.now(), told);
};

const shownCalls = 50;

export const previewGrant: Handler<'previewGrant'> = async (call) => {
  const body = call.body;
  const { scope, scopeId } = body;
  const { engine } = call.context.control;
  const { matched, looked } = await core.previewGrant(engine, storeOf(call), {
    rule: checkedRule(body),
    ...defined({ scope: scope === 'tenant' ? undefined : scope, scopeId }),
  });
  const calls = matched.slice(0, shownCalls).map((approval) => ({
    approvalId: approval.id,
    runId: approval.runId,
    toolCallId: approval.toolCallId,
    tool: approval.tool,
    params: approval.params,
    status: approval.status,
    requestedAt: iso(approval.requestedAt),
  }));
  return { looked, matched: matched.length, calls };
};

export const explainPermission: Handler<'explainPermission'> = async (call) => {
  const body = call.body;
  const { tool, params, permissions = {}, runId, conversationId, agent = 'assistant' } = body;
  refuseFaults(faultsIn(permissions));
  return core.explainCall(call.context.control.engine, storeOf(call), {
    tool,
    params,
    permissions,
    agent,
    ...defined({ runId, conversationId }),
  });
};

function checkedRule(given: ToolPermission): Pick<NewGrant, 'tool' | 'exact' | 'params'> {
  const { tool, params, exact } = given;
  refuseFaults(faultsOf(defined({ tool, params })));
  return defined({ tool, params, exact });
}

/** A run that is not there, or another tenant's, can be granted nothing. */
async function scopeIdOf(call: Call, body: BodyOf<'createGrant'>): Promise<string> {
  const { scope, scopeId } = body;
  if (scopeId === undefined) return call.caller.tenantId;
  if (scope === 'run' && (await storeOf(call).readRunHead(scopeId)) === undefined) {
    throw new RelayError('invalid_request', 'scopeId: there is no such run', {
      details: [{ path: 'scopeId', message: 'There is no such run' }],
    });
  }
  return scopeId;
}

function presentGrant(grant: GrantRecord, now: number) {
  const { scopeId, createdAt, expiresAt, revokedAt, ...rest } = grant;
  return {
    ...rest,
    status: statusOf(grant, now),
    scopeId: grant.scope === 'tenant' ? undefined : scopeId,
    createdAt: iso(createdAt),
    expiresAt: isoOrNone(expiresAt),
    revokedAt: isoOrNone(revokedAt),
  };
}

type Status = ResultOf<'createGrant'>['status'];

function statusOf(
  { revokedAt, expiresAt = Infinity, usesLeft = 1 }: GrantRecord,
  now: number,
): Status {
  if (revokedAt !== undefined) return 'revoked';
  if (expiresAt <= now) return 'expired';
  return usesLeft > 0 ? 'active' : 'used';
}
