/** `/v1/policy`: the tenant's standing rules. */
import * as core from '@relay/core';
import type { PolicyRecord } from '@relay/core';
import {
  type policyBodySchema,
  type policyPreviewBodySchema,
  type policyQuerySchema,
  type PolicyRules,
  type policyVersionsQuerySchema,
  RelayError,
} from '@relay/protocol';
import type { z } from 'zod';
import { auditEntry } from './audit-entry.ts';
import { storeOf } from './find.ts';
import type { Call, Handler } from './handler.ts';
import { cutPage, pageOf } from '../views/pages.ts';
import { refuseFaults } from './patterns.ts';
import { iso } from '../views/run.ts';

export const getPolicy: Handler = async (call) => {
  const { agent = null } = call.query as z.infer<typeof policyQuerySchema>;
  return answer(call, agent, await storeOf(call).policies.read(agent));
};

export const putPolicy: Handler = async (call) => {
  const body = call.body as z.infer<typeof policyBodySchema>;
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

export const listPolicyVersions: Handler = async (call) => {
  const query = call.query as z.infer<typeof policyVersionsQuerySchema>;
  const { agent = null, limit } = query;
  const found = await storeOf(call).policies.versions(agent, pageOf(query));
  const { items, nextCursor } = cutPage(found, limit, ({ version: at, id }) => ({ at, id }));
  return { versions: items.map((policy) => presentPolicy(agent, policy)), nextCursor };
};

const shownChanges = 50;
const lookBackMs = 7 * 24 * 60 * 60 * 1000;

export const previewPolicy: Handler = async (call) => {
  const body = call.body as z.infer<typeof policyPreviewBodySchema>;
  const { engine } = call.context.control;
  const { agent = null } = body;
  const since = body.since === undefined ? engine.clock.now() - lookBackMs : Date.parse(body.since);
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
  throw new RelayError('invalid_request', `version: ${message}`, {
    details: [{ path: 'version', message }],
  });
}

function answer(call: Call, agent: string | null, policy: PolicyRecord | undefined) {
  call.reply.header('etag', `"${policy?.version ?? 0}"`);
  return presentPolicy(agent, policy);
}

function presentPolicy(agent: string | null, policy: PolicyRecord | undefined) {
  const { version = 0, rules = { allow: [], deny: [], ask: [] }, at, by } = policy ?? {};
  return {
    ...(agent === null ? {} : { agent }),
    version,
    ...rules,
    ...(at === undefined ? {} : { updatedAt: iso(at) }),
    ...(by === undefined ? {} : { updatedBy: by }),
  };
}
