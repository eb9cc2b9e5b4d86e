/** `/v1/grants` and `/v1/permissions/explain`: what may run without asking, and why. */
import * as core from '@relay/core';
import { faultsOf, type GrantRecord, type NewGrant } from '@relay/core';
import {
  type explainBodySchema,
  type grantBodySchema,
  type grantPreviewBodySchema,
  type grantsQuerySchema,
  RelayError,
  type ToolPermission,
} from '@relay/protocol';
import type { z } from 'zod';
import { notFound } from '../errors.ts';
import { auditEntry } from './audit-entry.ts';
import { storeOf } from './find.ts';
import type { Call, Handler } from './handler.ts';
import { cutPage, pageOf } from '../views/pages.ts';
import { refuseFaults } from './patterns.ts';
import { iso } from '../views/run.ts';

export const listGrants: Handler = async (call) => {
  const query = call.query as z.infer<typeof grantsQuerySchema>;
  const { scope, scopeId, tool, status } = query;
  const now = call.context.control.engine.clock.now();
  const filter = {
    ...(scope === undefined ? {} : { scope }),
    ...(scopeId === undefined ? {} : { scopeId }),
    ...(tool === undefined ? {} : { tool }),
    ...(status === 'active' ? { activeAt: now } : {}),
  };
  const found = await storeOf(call).listGrants(filter, pageOf(query));
  const { items, nextCursor } = cutPage(found, query.limit, ({ createdAt: at, id }) => ({
    at,
    id,
  }));
  return { grants: items.map((grant) => presentGrant(grant, now)), nextCursor };
};

export const createGrant: Handler = async (call) => {
  const body = call.body as z.infer<typeof grantBodySchema>;
  const { engine } = call.context.control;
  const store = storeOf(call);
  const now = engine.clock.now();
  const expiresAt = body.expiresAt === undefined ? undefined : Date.parse(body.expiresAt);
  if (expiresAt !== undefined) core.refusePast(expiresAt, now);
  const grant: NewGrant = {
    id: engine.ids.next(),
    ...checkedRule(body),
    scope: body.scope,
    scopeId: await scopeIdOf(call, body),
    createdAt: now,
    createdBy: call.caller.as,
    ...(expiresAt === undefined ? {} : { expiresAt }),
    ...(body.uses === undefined ? {} : { uses: body.uses }),
  };
  const told = core.audited(engine, call.caller.tenantId, [core.auditOfGrant(grant)]);
  await store.addGrant(grant, told);
  call.reply.code(201);
  const counted = grant.uses === undefined ? {} : { usesLeft: grant.uses };
  return presentGrant({ ...grant, ...counted }, now);
};

/** Revoking twice is the same as once; a grant of another tenant is not there. */
export const revokeGrant: Handler = async (call) => {
  const { id } = call.params as { id: string };
  const store = storeOf(call);
  const grant = await store.readGrant(id);
  if (grant === undefined) throw notFound('grant');
  const told = auditEntry(call, 'grant.revoked', { grantId: id, tool: grant.tool });
  await store.revokeGrant(id, call.context.control.engine.clock.now(), told);
  call.reply.code(204);
  return undefined;
};

const shownCalls = 50;

export const previewGrant: Handler = async (call) => {
  const body = call.body as z.infer<typeof grantPreviewBodySchema>;
  const { scope, scopeId } = body;
  const { engine } = call.context.control;
  const { matched, looked } = await core.previewGrant(engine, storeOf(call), {
    rule: checkedRule(body),
    ...(scope === undefined || scope === 'tenant' ? {} : { scope }),
    ...(scopeId === undefined ? {} : { scopeId }),
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

export const explainPermission: Handler = async (call) => {
  const body = call.body as z.infer<typeof explainBodySchema>;
  const { tool, params, permissions = {}, runId, conversationId, agent = 'assistant' } = body;
  refuseFaults(
    core.checkPermissions(permissions).map(({ path, message }) => ({
      path: `permissions.${path}`,
      message,
    })),
  );
  return core.explainCall(call.context.control.engine, storeOf(call), {
    tool,
    params,
    permissions,
    agent,
    ...(runId === undefined ? {} : { runId }),
    ...(conversationId === undefined ? {} : { conversationId }),
  });
};

function checkedRule(given: ToolPermission): Pick<NewGrant, 'tool' | 'exact' | 'params'> {
  const { tool, params, exact } = given;
  refuseFaults(faultsOf({ tool, ...(params === undefined ? {} : { params }) }));
  return {
    tool,
    ...(params === undefined ? {} : { params }),
    ...(exact === undefined ? {} : { exact }),
  };
}

/** A run that is not there, or another tenant's, can be granted nothing. */
async function scopeIdOf(call: Call, body: z.infer<typeof grantBodySchema>): Promise<string> {
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
    ...(grant.scope === 'tenant' ? {} : { scopeId }),
    createdAt: iso(createdAt),
    ...(expiresAt === undefined ? {} : { expiresAt: iso(expiresAt) }),
    ...(revokedAt === undefined ? {} : { revokedAt: iso(revokedAt) }),
  };
}

function statusOf({ revokedAt, expiresAt = Infinity, usesLeft = 1 }: GrantRecord, now: number) {
  if (revokedAt !== undefined) return 'revoked';
  if (expiresAt <= now) return 'expired';
  return usesLeft > 0 ? 'active' : 'used';
}
