/** `/v1/grants` and `/v1/permissions/explain`: standing permissions, and how a call is decided. */
import * as core from '@relay/core';
import { type ApprovalRecord, faultsOf, type GrantRecord, type NewGrant } from '@relay/core';
import { type BodyOf, defined, personOf, RelayError, type ToolPermission } from '@relay/protocol';
import { invalidField, notFound, rejectInvalidPatterns } from '../../errors.ts';
import { auditEntry, type ApiRequest, type Handler, type ResultOf, storeOf } from '../handler.ts';
import {
  byCreation,
  firstBySize,
  iso,
  isoOrUndefined,
  readPageBySize,
  parseTime,
} from '../../views/pagination.ts';
import { checkedRules } from './policy.ts';
import { chooseToolsAndFunctions, faultsIn } from '../runs/start.ts';

export const listGrants: Handler<'listGrants'> = async (call) => {
  const { scope, scopeId, tool, status } = call.query;
  const now = call.context.control.engine.clock.now();
  const activeAt = status === 'active' ? now : undefined;
  const filter = defined({ scope, scopeId, tool, activeAt });
  // The grant of a call contains its arguments.
  const { items, nextCursor } = await readPageBySize(
    call.query,
    (page) => storeOf(call).listGrants(filter, page),
    byCreation,
  );
  const grants = await Promise.all(
    items.map(async (grant) => {
      const shown = presentGrant(grant, now);
      const isOver = shown.status === 'active' && (await hasEnded(call, grant));
      return isOver ? { ...shown, status: 'expired' as const } : shown;
    }),
  );
  return { grants, nextCursor };
};

/** The grant of a session ends with it. */
async function hasEnded(
  call: ApiRequest,
  { scope, scopeId }: Pick<GrantRecord, 'scope' | 'scopeId'>,
): Promise<boolean> {
  if (scope !== 'session') return false;
  const session = await storeOf(call).sessions.read(scopeId);
  return session === undefined || session.releasedAt !== null;
}

export const createGrant: Handler<'createGrant'> = async (call) => {
  const body = call.body;
  const { engine } = call.context.control;
  const now = engine.clock.now();
  const expiresAt = parseTime(body.expiresAt);
  if (expiresAt !== undefined) core.requireFutureExpiry(expiresAt, now);
  const approver = await core.findApprover(storeOf(call), core.keyIdOf(call.caller.actor), now);
  const { definitionDigest } =
    (await core.actionTool(engine, storeOf(call), body.tool)) ??
    engine.tools(call.caller.tenantId).find(body.tool) ??
    {};
  if (definitionDigest === '') {
    throw invalidField(
      'tool',
      'Its MCP server is not connected, so its definition is not known yet',
    );
  }
  const grant: NewGrant = {
    id: engine.ids.next(),
    ...checkedRule(body),
    scope: body.scope,
    approvers: [approver],
    scopeId: await scopeIdOf(call, body),
    createdAt: now,
    createdBy: call.caller.actor,
    ...defined({ expiresAt, uses: body.uses, definitionDigest }),
  };
  core.requireAdminForWholeTool(grant, approver);
  await requireEntitled(call, grant, approver);
  const audit = core.auditRecordsOf(engine, call.caller.tenantId, [core.auditOfGrant(grant)]);
  await storeOf(call).addGrant(grant, audit);
  return presentGrant({ ...grant, ...defined({ usesLeft: grant.uses }) }, now);
};

/**
 * A grant of calls that others must approve would have no effect, so it is refused where that is
 * certain: if its exact call, or every call of its tool, has approvers whom this caller is not enough for.
 */
async function requireEntitled(
  call: ApiRequest,
  { tool: name, exact }: NewGrant,
  approver: core.Approver,
): Promise<void> {
  const store = storeOf(call);
  const policy = await store.policies.read(null);
  const policies = policy === undefined ? [] : core.policiesOf([policy], '');
  const tool = call.context.control.engine.tools(call.caller.tenantId).find(name);
  const rules = core.approverRulesFor(
    { toolCallId: '', name, arguments: exact ?? {} },
    { policies, ...core.declaredBy(tool) },
  );
  const rule = rules.find((each) => !core.isQuorum(each, [approver], ''));
  if (rule === undefined) return;
  throw new RelayError(
    'not_an_approver',
    `A grant of ${name} would have no effect: the policy demands ${core.describeApprovers(rule)} for each call. Approve a call with always instead`,
  );
}

/** Succeeds if the grant is revoked already. */
export const revokeGrant: Handler<'revokeGrant'> = async (call) => {
  const { id } = call.params;
  const store = storeOf(call);
  const grant = await store.readGrant(id);
  if (grant === undefined) throw notFound('grant');
  const audit = auditEntry(call, 'grant.revoked', { grantId: id, tool: grant.tool });
  await store.revokeGrant(id, call.context.control.engine.clock.now(), audit);
};

const maxShownCalls = 50;

export const previewGrant: Handler<'previewGrant'> = async (call) => {
  const body = call.body;
  const { scope, scopeId } = body;
  const { engine } = call.context.control;
  const { matched, looked } = await core.previewGrant(engine, storeOf(call), {
    rule: checkedRule(body),
    ...defined({ scope: scope === 'tenant' ? undefined : scope, scopeId }),
  });
  const calls = firstBySize(matched, maxShownCalls).map((approval) => ({
    approvalId: approval.id,
    runId: approval.runId,
    sessionId: approval.sessionId,
    toolCallId: approval.toolCallId,
    tool: approval.tool,
    params: approval.params,
    status: approval.status,
    requestedAt: iso(approval.requestedAt),
  }));
  const warning = core.unknownToolNote(engine.tools(call.caller.tenantId).list(), body.tool);
  return { looked, matched: matched.length, calls, ...defined({ warning }) };
};

export const explainPermission: Handler<'explainPermission'> = async (call) => {
  const body = call.body;
  const { tool, params, permissions, tools = [], agent, runId, conversationId, sessionId } = body;
  const approval = await approvalOf(call, body);
  const { functions = [] } = chooseToolsAndFunctions(call, tools);
  // The program of a session may name its tools as no rule can.
  const problem = approval === undefined ? core.checkRuleTool(tool) : undefined;
  rejectInvalidPatterns([
    ...(problem === undefined ? [] : [{ path: 'tool', message: problem }]),
    ...(await faultsIn(permissions ?? {})),
  ]);
  const drafts = await draftsOf(call);
  return core.explainCall(call.context.control.engine, storeOf(call), {
    tool,
    params,
    functions,
    owner: personOf(call.caller.actor),
    keyId: core.keyIdOf(call.caller.actor),
    ...defined({ approval, permissions, drafts, agent, runId, conversationId, sessionId }),
  });
};

/** Who may not change policies learns nothing about the calls that a changed one would allow. */
async function draftsOf(call: ApiRequest & { readonly body: BodyOf<'explainPermission'> }) {
  const { policies } = call.body;
  if (policies === undefined) return undefined;
  if (!call.caller.scopes.has('admin')) {
    throw new RelayError('scope_required', 'policies requires a key with the scope admin');
  }
  const agents = policies.map(({ agent = null }) => agent);
  const repeated = agents.findIndex((agent, index) => agents.indexOf(agent) < index);
  if (repeated >= 0) throw invalidField(`policies[${repeated}].agent`, 'Has a policy already');
  const drafts = [];
  for (const [index, policy] of policies.entries()) {
    const rules = await checkedRules(call, policy, `policies[${index}].`);
    drafts.push({ agent: policy.agent ?? null, rules });
  }
  return drafts;
}

async function approvalOf(
  call: ApiRequest,
  { approvalId, tool }: BodyOf<'explainPermission'>,
): Promise<ApprovalRecord | undefined> {
  if (approvalId === undefined) return undefined;
  const approval = await storeOf(call).readApproval(approvalId);
  if (approval === undefined) throw notFound('approval');
  if (approval.tool === tool) return approval;
  throw invalidField('tool', `The approval is about another tool: ${approval.tool}`);
}

function checkedRule({
  tool,
  params,
  exact,
}: ToolPermission): Pick<NewGrant, 'tool' | 'exact' | 'params'> {
  rejectInvalidPatterns(faultsOf(defined({ tool, params })));
  return defined({ tool, params, exact });
}

async function scopeIdOf(call: ApiRequest, body: BodyOf<'createGrant'>): Promise<string> {
  const { scope, scopeId } = body;
  if (scopeId === undefined) return call.caller.tenantId;
  if (scope === 'run' && (await storeOf(call).readRunHead(scopeId)) === undefined) {
    throw invalidField('scopeId', 'No such run');
  }
  if (scope === 'session') {
    if (await hasEnded(call, { scope, scopeId })) {
      throw invalidField('scopeId', 'No such session, or it is released');
    }
  }
  return scopeId;
}

function presentGrant(grant: GrantRecord, now: number) {
  const { scopeId, createdAt, expiresAt, revokedAt, approvers: _, ...rest } = grant;
  return {
    ...rest,
    status: statusOf(grant, now),
    scopeId: grant.scope === 'tenant' ? undefined : scopeId,
    createdAt: iso(createdAt),
    expiresAt: isoOrUndefined(expiresAt),
    revokedAt: isoOrUndefined(revokedAt),
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
