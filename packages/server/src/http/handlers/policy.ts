/** `/v1/policy`: the tenant's standing rules. */
import * as core from '@relay/core';
import type { PolicyRecord } from '@relay/core';
import { type PolicyRules, RelayError } from '@relay/protocol';
import { auditEntry, type Call, type Handler, storeOf } from './handler.ts';
import { cutPage, pageOf } from '../views/pagination.ts';
import { invalidField, refuseFaults } from '../errors.ts';
import { iso, isoOrNone, timeOf } from '../views/time.ts';

export const getPolicy: Handler<'getPolicy'> = async (call) => {
  const { agent = null } = call.query;
  return answer(call, agent, await storeOf(call).policies.read(agent));
};

export const putPolicy: Handler<'putPolicy'> = async (call) => {
  const body = call.body;
  const rules = rulesOf(body);
  const { agent = null } = body;
  const { engine } = call.context.control;
  const policy: PolicyRecord = {
    id: engine.ids.next(),
    agent,
    version: versionBefore(call, body.version) + 1,
    rules,
    at: engine.clock.now(),
    by: call.caller.as,
  };
  const counts = { allow: rules.allow.length, deny: rules.deny.length, ask: rules.ask.length };
  const told = auditEntry(call, 'policy.changed', { agent, version: policy.version, ...counts });
  const { policies } = storeOf(call);
  if (!(await policies.put(policy, told))) {
    const { version = 0 } = (await policies.read(agent)) ?? {};
    throw new RelayError('policy_conflict', `The policy is at version ${version} by now`);
  }
  return answer(call, agent, policy);
};

export const listPolicyVersions: Handler<'listPolicyVersions'> = async (call) => {
  const query = call.query;
  const { agent = null, limit } = query;
  const found = await storeOf(call).policies.versions(agent, pageOf(query));
  const { items, nextCursor } = cutPage(found, limit, ({ version: at, id }) => ({ at, id }));
  return { versions: items.map((policy) => presentPolicy(agent, policy)), nextCursor };
};

const shownChanges = 50;
const lookBackMs = 7 * 24 * 60 * 60 * 1000;

export const previewPolicy: Handler<'previewPolicy'> = async (call) => {
  const body = call.body;
  const { engine } = call.context.control;
  const { agent = null } = body;
  const since = timeOf(body.since) ?? engine.clock.now() - lookBackMs;
  const draft = { agent, rules: rulesOf(body), since };
  const { changed, ...looked } = await core.previewPolicy(engine, storeOf(call), draft);
  const changes = changed.slice(0, shownChanges);
  return { ...looked, since: iso(since), changed: changed.length, changes };
};

function rulesOf({ allow, deny, ask }: PolicyRules): PolicyRules {
  refuseFaults([
    ...core.checkPermissions({ allowlist: allow }).map(named('allowlist', 'allow')),
    ...core.checkPermissions({ denylist: deny }).map(named('denylist', 'deny')),
    ...core.checkPermissions({ denylist: ask }).map(named('denylist', 'ask')),
  ]);
  return { allow, deny, ask };
}

function named(list: string, field: string) {
  return ({ path, message }: core.PatternFault) => ({
    path: path.replace(new RegExp(`^${list}`), field),
    message,
  });
}

/** Whoever changes rules says which ones: two who change them at once must not undo each other. */
function versionBefore(call: Call, inBody: number | undefined): number {
  const given = call.request.headers['if-match'];
  const matched = given === undefined ? undefined : /^"?(\d{1,15})"?$/.exec(given)?.[1];
  const inHeader = matched === undefined ? undefined : Number(matched);
  const isClear = given === undefined || (inHeader ?? -1) === (inBody ?? inHeader);
  const version = inBody ?? inHeader;
  if (version !== undefined && isClear) return version;
  const message = 'Required, here or as If-Match: the version that is replaced, 0 for the first';
  throw invalidField('version', message);
}

function answer(call: Call, agent: string | null, policy: PolicyRecord | undefined) {
  call.reply.header('etag', `"${policy?.version ?? 0}"`);
  return presentPolicy(agent, policy);
}

function presentPolicy(agent: string | null, policy: PolicyRecord | undefined) {
  const { version = 0, rules = { allow: [], deny: [], ask: [] }, at, by } = policy ?? {};
  return {
    agent: agent ?? undefined,
    version,
    ...rules,
    updatedAt: isoOrNone(at),
    updatedBy: by,
  };
}
