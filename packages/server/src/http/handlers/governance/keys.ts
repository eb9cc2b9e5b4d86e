/** `/v1/keys`: create, list, rotate and revoke API keys. */
import { isValidKey, type KeyRecord, type Page } from '@relay/core';
import { defined, RelayError, type Role, type Scope, scopesOfRole } from '@relay/protocol';
import { changeSettings, type TenantSettings } from '../../../config/tenant-settings.ts';
import { invalidField, notFound } from '../../errors.ts';
import { hashApiKey, makeApiKey } from '../../../secrets/keys.ts';
import type { Caller } from '../../auth.ts';
import {
  type ApiRequest,
  auditEntry,
  type Handler,
  type ServerContext,
  storeOf,
} from '../handler.ts';
import { byCreation, iso, isoOrUndefined, readPage, parseTime } from '../../views/pagination.ts';

export const createKey: Handler<'createKey'> = async (call) => {
  const body = call.body;
  const { engine } = call.context.control;
  const now = engine.clock.now();
  const expiresAt = expiryIn(body, now) ?? null;
  const { role = null } = body;
  const scopes = role === null ? (body.scopes ?? []) : scopesOfRole[role];
  rejectScopesNotHeld(call, scopes);
  const key: KeyRecord = {
    id: engine.ids.next(),
    tenantId: call.caller.tenantId,
    name: body.name,
    role,
    scopes,
    groups: body.groups ?? [],
    owner: body.owner ?? null,
    createdAt: now,
    expiresAt,
    revokedAt: null,
    lastUsedAt: null,
    replaces: [],
    replacedBy: null,
    kind: 'api',
    parent: null,
  };
  const apiKey = makeApiKey();
  const { id: keyId, name, groups, owner } = key;
  const what = { keyId, name, role, scopes, groups, owner, expiresAt };
  const audit = auditEntry(call, 'key.created', what);
  await call.context.store.addKey(key, hashApiKey(apiKey), audit);
  return { ...presentKey(key), apiKey };
};

function expiryIn({ expiresAt }: { readonly expiresAt?: string | undefined }, now: number) {
  const time = parseTime(expiresAt);
  if (time !== undefined && time <= now) throw invalidField('expiresAt', 'Must be in the future');
  return time;
}

/**
 * Nobody gives a key more than they have: an administrator without the scope `approve` must not get it
 * by creating a key, nor by rotating one. Groups and owners need no such check, because without `approve` they decide nothing.
 */
function rejectScopesNotHeld({ caller }: ApiRequest, scopes: readonly string[]): void {
  const missing = scopes.find((scope) => !caller.scopes.has(scope));
  if (missing === undefined) return;
  throw new RelayError(
    'scope_not_held',
    `This key lacks the scope ${missing}, so it cannot give it to another key`,
  );
}

export const listKeys: Handler<'listKeys'> = async (call) => {
  const list = (page: Page) => storeOf(call).listKeys(page);
  const { items, nextCursor } = await readPage(call.query, list, byCreation);
  return { keys: items.map(presentKey), nextCursor };
};

export const getCurrentKey: Handler<'getCurrentKey'> = async (call) => {
  const { caller, context } = call;
  return presentCurrentKey(context, caller, await findKey(call, caller.signIn ?? caller.actor.id));
};

/** What the key of a caller may do. The console decides by it what to show. */
export async function presentCurrentKey(
  context: ServerContext,
  { tenantId, scopes, actor }: Caller,
  key: KeyRecord,
) {
  const { store, version } = context;
  const { name, pausedAt } = await store.tenant(tenantId).readTenant();
  return {
    ...presentKey(key),
    // All of them are known.
    scopes: [...scopes] as Scope[],
    role: actor.role,
    tenant: { id: tenantId, name, paused: pausedAt !== null },
    version,
    budget: await budgetOf(context, tenantId, key.parent ?? key.id),
  };
}

async function budgetOf({ store, budgets }: ServerContext, tenantId: string, keyId: string) {
  const own = (await budgets.of(tenantId, keyId)).find((budget) => budget.keyId === keyId);
  if (own === undefined) return undefined;
  const { period, tokens, costUsd, concurrentRuns } = own;
  const used = await store.tenant(tenantId).readBudgetUse(own, '');
  const left = (limit: number | undefined, amount: number) =>
    limit === undefined ? undefined : Math.max(0, limit - amount);
  return {
    ...defined({ tokens, costUsd, concurrentRuns }),
    period,
    used: { tokens: used.tokens, costUsd: used.costUsd },
    left: defined({ tokens: left(tokens, used.tokens), costUsd: left(costUsd, used.costUsd) }),
  };
}

async function findKey(call: ApiRequest, id: string): Promise<KeyRecord> {
  const key = await storeOf(call).readKey(id);
  if (key === undefined) throw notFound('key');
  return key;
}

/** Bounds the row of a key that is rotated again and again. */
const maxReplaced = 100;

/**
 * The new key is the same person, also if the old one has no owner, and is meant by rules that name the
 * old one. It does not live longer than the old one was made to, unless the caller says so. A budget of
 * the old key is copied first: a limit must not end with a rotation.
 */
export const rotateKey: Handler<'rotateKey'> = async (call) => {
  const { context, caller, body } = call;
  const old = await findKey(call, call.params.id);
  rejectScopesNotHeld(call, old.scopes);
  if (old.kind !== 'api') {
    throw new RelayError('key_ended', 'A sign-in to the console cannot be rotated: sign in again');
  }
  rejectEnded(old);
  const { engine } = context.control;
  const now = engine.clock.now();
  const key: KeyRecord = {
    ...old,
    id: engine.ids.next(),
    owner: old.owner ?? old.id,
    createdAt: now,
    expiresAt: expiryIn(body, now) ?? old.expiresAt,
    lastUsedAt: null,
    replaces: [old.id, ...old.replaces].slice(0, maxReplaced),
  };
  const apiKey = makeApiKey();
  const hash = hashApiKey(apiKey);
  const oldExpiresAt = Math.min(now + body.overlapSeconds * 1000, old.expiresAt ?? Infinity);
  const { id: newKeyId, name, scopes, groups, owner, expiresAt } = key;
  const what = { keyId: old.id, oldExpiresAt, newKeyId, name, scopes, groups, owner, expiresAt };
  const audit = auditEntry(call, 'key.rotated', what);
  await copyBudget(call, old.id, key.id);
  const rotation = { oldKeyId: old.id, oldExpiresAt, key, hash };
  if (!(await context.store.rotateKey(rotation, audit))) {
    rejectEnded(await findKey(call, old.id));
    throw new RelayError('storage_failed', 'The key was not rotated; try again');
  }
  if (body.overlapSeconds === 0) context.streams.closeByKey(old.id);
  context.budgets.invalidate(caller.tenantId);
  return { ...presentKey(key), apiKey };
};

/** A key that was replaced already expires soon, and so would a key with the same expiry. */
function rejectEnded(key: KeyRecord): void {
  const { replacedBy } = key;
  if (key.revokedAt === null && replacedBy !== null) {
    throw new RelayError(
      'key_ended',
      `The key was rotated already: rotate the key ${replacedBy}, which replaces it. To end this one now, revoke it`,
    );
  }
  if (isValidKey(key, Date.now())) return;
  const ended = key.revokedAt === null ? 'has expired' : 'is revoked';
  throw new RelayError('key_ended', `The key ${ended} and cannot be rotated: create a new one`);
}

async function copyBudget(call: ApiRequest, from: string, to: string): Promise<void> {
  const store = storeOf(call);
  const { settings } = await store.readTenant();
  if ((settings as TenantSettings).budgets?.keys?.[from] === undefined) return;
  await changeSettings(store, ({ budgets = {} }) => {
    const budget = budgets.keys?.[from];
    if (budget === undefined) return {};
    return { budgets: { ...budgets, keys: { ...budgets.keys, [to]: budget } } };
  });
}

/** Succeeds if the key is revoked already. */
export const revokeKey: Handler<'revokeKey'> = async (call) => {
  const { id } = call.params;
  const { context } = call;
  const store = storeOf(call);
  const key = await findKey(call, id);
  const audit = auditEntry(call, 'key.revoked', { keyId: id, name: key.name });
  await store.revokeKey(id, context.control.engine.clock.now(), audit);
  context.streams.closeByKey(id);
  context.streams.closeSessionsOf(id);
};

function presentKey(key: KeyRecord) {
  const { id, name, role, scopes, groups, owner, createdAt, expiresAt } = key;
  const { revokedAt, lastUsedAt, replaces, replacedBy } = key;
  return {
    id,
    kind: key.kind,
    parent: key.parent ?? undefined,
    name,
    // Stored roles and scopes were validated.
    role: (role ?? undefined) as Role | undefined,
    scopes: scopes as readonly Scope[],
    groups,
    owner: owner ?? undefined,
    createdAt: iso(createdAt),
    expiresAt: isoOrUndefined(expiresAt),
    revokedAt: isoOrUndefined(revokedAt),
    lastUsedAt: isoOrUndefined(lastUsedAt),
    replaces: replaces[0],
    replacedBy: replacedBy ?? undefined,
  };
}
