/** `/v1/keys`: create, list and revoke API keys. */
import type { KeyRecord, Page } from '@relay/core';
import { RelayError, type Role, type Scope, scopesOfRole } from '@relay/protocol';
import { changeSettings, type TenantSettings } from '../../config/tenant-settings.ts';
import { isValidKey } from '../auth.ts';
import { invalidField, notFound } from '../errors.ts';
import { hashApiKey, makeApiKey } from '../../secrets/keys.ts';
import { type ApiRequest, auditEntry, type Handler, storeOf } from './handler.ts';
import { byCreation, iso, isoOrUndefined, readPage, parseTime } from '../views/pagination.ts';

export const createKey: Handler<'createKey'> = async (call) => {
  const body = call.body;
  const { engine } = call.context.control;
  const now = engine.clock.now();
  const expiresAt = parseTime(body.expiresAt) ?? null;
  if (expiresAt !== null && expiresAt <= now) {
    throw invalidField('expiresAt', 'Must be in the future');
  }
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
  };
  const apiKey = makeApiKey();
  const { id: keyId, name, groups, owner } = key;
  const what = { keyId, name, role, scopes, groups, owner, expiresAt };
  const audit = auditEntry(call, 'key.created', what);
  await call.context.store.addKey(key, hashApiKey(apiKey), audit);
  return { ...presentKey(key), apiKey };
};

/**
 * Nobody gives a key more than they have: an administrator without the scope `approve` must not get it
 * by creating a key. Groups and owners need no such check, because without `approve` they decide nothing.
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

export const getCurrentKey: Handler<'getCurrentKey'> = async (call) =>
  presentKey(await findKey(call, call.caller.actor.id));

async function findKey(call: ApiRequest, id: string): Promise<KeyRecord> {
  const key = await storeOf(call).readKey(id);
  if (key === undefined) throw notFound('key');
  return key;
}

/**
 * The new key is the same person, also if the old one has no owner. A budget of the old key counts for
 * the new one too: a limit must not end with a rotation.
 */
export const rotateKey: Handler<'rotateKey'> = async (call) => {
  const { context, caller } = call;
  const old = await findKey(call, call.params.id);
  rejectScopesNotHeld(call, old.scopes);
  const { engine } = context.control;
  const now = engine.clock.now();
  const expiresAt = now + call.body.overlapSeconds * 1000;
  const owner = old.owner ?? old.id;
  const times = { createdAt: now, revokedAt: null, lastUsedAt: null };
  const key: KeyRecord = { ...old, ...times, id: engine.ids.next(), owner };
  const apiKey = makeApiKey();
  const what = { keyId: old.id, name: old.name, newKeyId: key.id, oldExpiresAt: expiresAt };
  const audit = auditEntry(call, 'key.rotated', what);
  await copyBudget(call, old.id, key.id);
  const rotation = { oldKeyId: old.id, expiresAt, key, hash: hashApiKey(apiKey) };
  if (!isValidKey(old) || !(await context.store.rotateKey(rotation, audit))) {
    throw new RelayError('key_ended', 'The key is revoked or has expired: create a new one');
  }
  if (call.body.overlapSeconds === 0) context.streams.closeByKey(old.id);
  context.budgets.invalidate(caller.tenantId);
  return { ...presentKey(key), apiKey };
};

async function copyBudget(call: ApiRequest, from: string, to: string): Promise<void> {
  const store = storeOf(call);
  const { budgets = {} } = (await store.readTenant()).settings as TenantSettings;
  const budget = budgets.keys?.[from];
  if (budget === undefined) return;
  await changeSettings(store, { budgets: { ...budgets, keys: { ...budgets.keys, [to]: budget } } });
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
};

function presentKey(key: KeyRecord) {
  const { id, name, role, scopes, groups, owner, createdAt, expiresAt } = key;
  const { revokedAt, lastUsedAt } = key;
  return {
    id,
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
  };
}
