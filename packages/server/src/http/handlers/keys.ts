/** `/v1/keys`: create, list and revoke API keys. */
import type { KeyRecord, Page } from '@relay/core';
import { RelayError, type Role, type Scope, scopesOfRole } from '@relay/protocol';
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
  const { id, name, role, scopes, groups, owner, createdAt, expiresAt, revokedAt } = key;
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
  };
}
