/**
 * API keys: `relay_live_` + 32 random bytes + a checksum, all in hex. Only a hash is stored. The
 * checksum turns a mistyped or invented key away without touching the store.
 */
import { createHash, randomBytes } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { audited, type Engine, type Ids, type KeyRecord, type SystemStore } from '@relay/core';
import { operatorAuditEntry } from '../audit/operator.ts';

const prefix = 'relay_live_';
const form = /^relay_live_([0-9a-f]{64})([0-9a-f]{8})$/;

export function makeApiKey(): string {
  const secret = randomBytes(32).toString('hex');
  return `${prefix}${secret}${checksum(secret)}`;
}

export function isWellFormed(apiKey: string): boolean {
  const match = form.exec(apiKey);
  return match?.[1] !== undefined && checksum(match[1]) === match[2];
}

export function hashApiKey(apiKey: string): string {
  return createHash('sha256').update(apiKey).digest('hex');
}

function checksum(secret: string): string {
  return crc32(prefix + secret)
    .toString(16)
    .padStart(8, '0');
}

export interface IssuedKey {
  readonly tenantId: string;
  readonly keyId: string;
  readonly apiKey: string;
}

export interface Issue {
  readonly tenant: string;
  /** On which occasion. */
  readonly by: 'bootstrap' | 'first start' | 'embed';
  readonly audit: Engine['audit'];
}

/** Makes the tenant if need be, and a key with all scopes. The key itself is shown only here. */
export async function issueBootstrapKey(
  store: SystemStore,
  ids: Ids,
  issue: Issue,
): Promise<IssuedKey> {
  const now = Date.now();
  const tenant = await store.ensureTenant({ id: ids.next(), name: issue.tenant, at: now });
  const key: KeyRecord = {
    id: ids.next(),
    tenantId: tenant.id,
    name: 'bootstrap',
    owner: null,
    scopes: ['runs', 'approve', 'admin'],
    createdAt: now,
    expiresAt: null,
    revokedAt: null,
  };
  const apiKey = makeApiKey();
  const { id: keyId, name, scopes, expiresAt } = key;
  const deed = operatorAuditEntry(issue.by, 'key.created', { keyId, name, scopes, expiresAt });
  await store.addKey(key, hashApiKey(apiKey), audited(issue, tenant.id, [deed]));
  return { tenantId: tenant.id, keyId: key.id, apiKey };
}
