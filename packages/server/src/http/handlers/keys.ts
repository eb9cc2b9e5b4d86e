/** `/v1/keys`: create, list and revoke API keys. */
import type { KeyRecord, Page } from '@relay/core';
import type { Scope } from '@relay/protocol';
import { invalidField, notFound } from '../errors.ts';
import { hashApiKey, makeApiKey } from '../../secrets/keys.ts';
import { auditEntry, type Handler, storeOf } from './handler.ts';
import { byCreation, iso, isoOrUndefined, readPage, parseTime } from '../views/pagination.ts';

export const createKey: Handler<'createKey'> = async (call) => {
  const body = call.body;
  const { engine } = call.context.control;
  const now = engine.clock.now();
  const expiresAt = parseTime(body.expiresAt) ?? null;
  if (expiresAt !== null && expiresAt <= now) {
    throw invalidField('expiresAt', 'Must be in the future');
  }
  const key: KeyRecord = {
    id: engine.ids.next(),
    tenantId: call.caller.tenantId,
    name: body.name,
    scopes: body.scopes,
    owner: body.owner ?? null,
    createdAt: now,
    expiresAt,
    revokedAt: null,
  };
  const apiKey = makeApiKey();
  const { id: keyId, name, scopes } = key;
  const audit = auditEntry(call, 'key.created', { keyId, name, scopes, expiresAt });
  await call.context.store.addKey(key, hashApiKey(apiKey), audit);
  return { ...presentKey(key), apiKey };
};

export const listKeys: Handler<'listKeys'> = async (call) => {
  const list = (page: Page) => storeOf(call).listKeys(page);
  const { items, nextCursor } = await readPage(call.query, list, byCreation);
  return { keys: items.map(presentKey), nextCursor };
};

/** Succeeds if the key is revoked already. */
export const revokeKey: Handler<'revokeKey'> = async (call) => {
  const { id } = call.params;
  const { context } = call;
  const store = storeOf(call);
  const key = await store.readKey(id);
  if (key === undefined) throw notFound('key');
  const audit = auditEntry(call, 'key.revoked', { keyId: id, name: key.name });
  await store.revokeKey(id, context.control.engine.clock.now(), audit);
  context.streams.closeByKey(id);
};

function presentKey(key: KeyRecord) {
  const { id, name, scopes, owner, createdAt, expiresAt, revokedAt } = key;
  return {
    id,
    name,
    // Stored scopes were validated.
    scopes: scopes as readonly Scope[],
    owner: owner ?? undefined,
    createdAt: iso(createdAt),
    expiresAt: isoOrUndefined(expiresAt),
    revokedAt: isoOrUndefined(revokedAt),
  };
}
