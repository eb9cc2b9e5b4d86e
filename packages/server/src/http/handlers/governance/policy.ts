/** `/v1/policy`: the versioned rules of a tenant, or of one of its agents. */
import * as core from '@relay/core';
import type { PolicyRecord } from '@relay/core';
import { canonicalJson, type PolicyRules, RelayError, type ToolPermission } from '@relay/protocol';
import { auditEntry, type ApiRequest, type Handler, storeOf } from '../handler.ts';
import { invalidField, rejectInvalidPatterns } from '../../errors.ts';
import {
  firstBySize,
  iso,
  isoOrUndefined,
  readPageBySize,
  parseTime,
} from '../../views/pagination.ts';

export const getPolicy: Handler<'getPolicy'> = async (call) => {
  const { agent = null } = call.query;
  return respond(call, agent, await storeOf(call).policies.read(agent));
};

export const putPolicy: Handler<'putPolicy'> = async (call) => {
  const body = call.body;
  const rules = await checkedRules(call, body);
  const { agent = null } = body;
  const { engine } = call.context.control;
  const replaced = replacedVersion(call, body.version);
  await rejectNewAllowRules(call, agent, rules);
  const policy: PolicyRecord = {
    id: engine.ids.next(),
    agent,
    version: replaced + 1,
    rules,
    at: engine.clock.now(),
    by: call.caller.actor,
  };
  const { allow, deny, ask, approvers } = rules;
  const counts = {
    allow: allow.length,
    deny: deny.length,
    ask: ask.length,
    approvers: approvers.length,
  };
  const audit = auditEntry(call, 'policy.changed', { agent, version: policy.version, ...counts });
  const { policies } = storeOf(call);
  if (!(await policies.put(policy, audit))) {
    const { version = 0 } = (await policies.read(agent)) ?? {};
    throw new RelayError('policy_conflict', `The policy has changed: it is at version ${version}`);
  }
  return respond(call, agent, policy);
};

/**
 * An allow rule approves calls in advance. Rules that the policy has already may stay: if it changes
 * before this one is stored, the version conflicts.
 */
async function rejectNewAllowRules(
  call: ApiRequest,
  agent: string | null,
  { allow }: PolicyRules,
): Promise<void> {
  if (call.caller.scopes.has('approve')) return;
  const known = (await storeOf(call).policies.read(agent))?.rules.allow ?? [];
  const texts = new Set(known.map((rule) => canonicalJson(rule)));
  const index = allow.findIndex((rule) => !texts.has(canonicalJson(rule)));
  if (index === -1) return;
  throw new RelayError(
    'approve_scope_required',
    'A new allow rule requires a key with the scope approve',
    { details: [{ path: `allow[${index}]`, message: 'Requires the scope approve' }] },
  );
}

export const listPolicyVersions: Handler<'listPolicyVersions'> = async (call) => {
  const { agent = null } = call.query;
  const { items, nextCursor } = await readPageBySize(
    call.query,
    (page) => storeOf(call).policies.versions(agent, page),
    ({ version: at, id }) => ({ at, id }),
  );
  return { versions: items.map((policy) => presentPolicy(agent, policy)), nextCursor };
};

const maxShownChanges = 50;
const defaultPreviewMs = 7 * 24 * 60 * 60 * 1000;

export const previewPolicy: Handler<'previewPolicy'> = async (call) => {
  const body = call.body;
  const { engine } = call.context.control;
  const { agent = null } = body;
  const since = parseTime(body.since) ?? engine.clock.now() - defaultPreviewMs;
  const draft = { agent, rules: await checkedRules(call, body), since };
  const { changed, ...counts } = await core.previewPolicy(engine, storeOf(call), draft);
  const changes = firstBySize(changed, maxShownChanges);
  return { ...counts, since: iso(since), changed: changed.length, changes };
};

/** Throws if the server would not save them. */
export async function checkedRules(
  call: ApiRequest,
  { agent, allow, deny, ask, approvers }: PolicyRules & { readonly agent?: string | undefined },
  /** Where the rules are in the body. */
  path = '',
): Promise<PolicyRules> {
  const named = approvers.map(({ tool, params }) => ({ tool, params }));
  rejectInvalidPatterns([
    ...(await faultsInList(`${path}allow`, allow)),
    ...(await faultsInList(`${path}deny`, deny)),
    ...(await faultsInList(`${path}ask`, ask)),
    ...(await faultsInList(`${path}approvers`, named)),
  ]);
  await rejectUnmeetable(call, approvers, `${path}approvers`);
  const foreign = approvers.findIndex((rule) => agent !== undefined && rule.agent !== undefined);
  if (foreign >= 0) {
    const message = 'Not allowed in the policy of one agent: it applies to that agent only';
    throw invalidField(`${path}approvers[${foreign}].agent`, message);
  }
  return { allow, deny, ask, approvers };
}

/** A rule that nobody can meet would block its calls without saying why. */
async function rejectUnmeetable(
  call: ApiRequest,
  rules: PolicyRules['approvers'],
  path: string,
): Promise<void> {
  const now = call.context.control.engine.clock.now();
  const known = new Map<string, core.Approver>();
  for (const id of new Set(rules.flatMap(({ keys = [] }) => keys))) {
    const key = await storeOf(call).readKey(id);
    // A sign-in to the console acts as its key, so no rule needs to name it.
    if (key?.kind === 'api') known.set(id, core.approverWithKey(key, now));
  }
  for (const [index, rule] of rules.entries()) {
    const fault = core.faultOfApprovers(rule, known);
    if (fault !== undefined) throw invalidField(`${path}[${index}].${fault.path}`, fault.message);
  }
}

async function faultsInList(
  field: string,
  rules: readonly ToolPermission[],
): Promise<core.PatternFault[]> {
  const faults = await core.checkPermissionsInTurn({ denylist: [...rules] });
  return faults.map(({ path, message }) => ({ path: path.replace(/^denylist/, field), message }));
}

/** Required, so that concurrent changes cannot overwrite each other. */
function replacedVersion(call: ApiRequest, inBody: number | undefined): number {
  const header = call.request.headers['if-match'];
  const matched = header === undefined ? undefined : /^"?(\d{1,15})"?$/.exec(header)?.[1];
  const inHeader = matched === undefined ? undefined : Number(matched);
  const agrees = header === undefined || (inHeader ?? -1) === (inBody ?? inHeader);
  const version = inBody ?? inHeader;
  if (version !== undefined && agrees) return version;
  const message = 'Required here or as If-Match: the version to replace, 0 for the first policy';
  throw invalidField('version', message);
}

function respond(call: ApiRequest, agent: string | null, policy: PolicyRecord | undefined) {
  call.reply.header('etag', `"${policy?.version ?? 0}"`);
  return presentPolicy(agent, policy);
}

function presentPolicy(agent: string | null, policy: PolicyRecord | undefined) {
  const {
    version = 0,
    rules = { allow: [], deny: [], ask: [], approvers: [] },
    at,
    by,
  } = policy ?? {};
  return {
    agent: agent ?? undefined,
    version,
    ...rules,
    updatedAt: isoOrUndefined(at),
    updatedBy: by,
  };
}
