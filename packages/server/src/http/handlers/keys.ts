/** `/v1/keys`: make, list and revoke API keys. */
import type { KeyRecord } from '@relay/core';
import { type keyBodySchema, type keysQuerySchema, RelayError } from '@relay/protocol';
import type { z } from 'zod';
import { notFound } from '../errors.ts';
import { hashApiKey, makeApiKey } from '../../secrets/keys.ts';
import { auditEntry } from './audit-entry.ts';
import type { Handler } from './handler.ts';
import { cutPage, pageOf } from '../views/pages.ts';
import { iso } from '../views/run.ts';

export const createKey: Handler = async (call) => {
  const body = call.body as z.infer<typeof keyBodySchema>;
  const { engine } = call.context.control;
  const now = engine.clock.now();
  const expiresAt = body.expiresAt === undefined ? null : Date.parse(body.expiresAt);
  if (expiresAt !== null && expiresAt <= now) {
    throw new RelayError('invalid_request', 'expiresAt: lies in the past', {
      details: [{ path: 'expiresAt', message: 'Lies in the past' }],
    });
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
  const { id: keyId, name, scopes, expiresAt: until } = key;
  const told = auditEntry(call, 'key.created', { keyId, name, scopes, expiresAt: until });
  await call.context.store.addKey(key, hashApiKey(apiKey), told);
  call.reply.code(201);
  return { ...presentKey(key), apiKey };
};

export const listKeys: Handler = async (call) => {
  const query = call.query as z.infer<typeof keysQuerySchema>;
  const found = await call.context.store.tenant(call.caller.tenantId).listKeys(pageOf(query));
  const { items, nextCursor } = cutPage(found, query.limit, ({ createdAt: at, id }) => ({
    at,
    id,
  }));
  return { keys: items.map(presentKey), nextCursor };
};

/** Revoking twice is the same as once; a key of another tenant is not there. */
export const revokeKey: Handler = async (call) => {
  const { id } = call.params as { id: string };
  const { context, caller } = call;
  const store = context.store.tenant(caller.tenantId);
  const key = await store.readKey(id);
  if (key === undefined) throw notFound('key');
  const told = auditEntry(call, 'key.revoked', { keyId: id, name: key.name });
  await store.revokeKey(id, context.control.engine.clock.now(), told);
  context.streams.closeOf(id);
  call.reply.code(204);
  return undefined;
};

function presentKey(key: KeyRecord) {
  const { id, name, scopes, owner, createdAt, expiresAt, revokedAt } = key;
  return {
    id,
    name,
    scopes,
    ...(owner === null ? {} : { owner }),
    createdAt: iso(createdAt),
    ...(expiresAt === null ? {} : { expiresAt: iso(expiresAt) }),
    ...(revokedAt === null ? {} : { revokedAt: iso(revokedAt) }),
  };
}
