/**
 * API keys: `relay_live_` + 32 random bytes + a checksum, all in hex. Only a hash is stored. The
 * checksum rejects a mistyped or invented key without reading the store.
 */
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  auditRecordsOf,
  type Engine,
  type Ids,
  type KeyRecord,
  type SystemStore,
} from '@relay/core';
import { uuidv7 } from 'uuidv7';
import { operatorAuditEntry } from '../audit/operator-entries.ts';

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

export interface KeyIssue {
  readonly tenant: string;
  /** The occasion, for the audit entry. */
  readonly by: 'bootstrap' | 'first start' | 'embed';
  readonly audit: Engine['audit'];
}

/** Creates a key with all scopes, and the tenant if it does not exist. */
export async function issueBootstrapKey(
  store: SystemStore,
  ids: Ids,
  issue: KeyIssue,
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
  const entry = operatorAuditEntry(issue.by, 'key.created', { keyId, name, scopes, expiresAt });
  await store.addKey(key, hashApiKey(apiKey), auditRecordsOf(issue, tenant.id, [entry]));
  return { tenantId: tenant.id, keyId: key.id, apiKey };
}

/**
 * The first start creates the tenant `default` and shows its key once. Without a terminal the key is
 * written to a file that only its owner can read, never to a log.
 */
export async function showFirstKey(
  store: SystemStore,
  options: { dataDir: string; terminal: boolean; audit: Engine['audit'] },
): Promise<string[]> {
  if (await hasKey(store)) return [];
  // If several nodes start at once on a new store, one shows the key and the others wait for it.
  const ids = { next: uuidv7 };
  if (!(await store.writeMetadata('first-key', ids.next(), { ifAbsent: true }))) {
    const deadline = Date.now() + otherNodeMs;
    while (!(await hasKey(store)) && Date.now() < deadline) await sleep(pollMs);
    return [];
  }
  const { apiKey } = await issueBootstrapKey(store, ids, {
    tenant: 'default',
    by: 'first start',
    audit: options.audit,
  });
  if (options.terminal) {
    return ['Your API key, shown only once:', '', `  ${apiKey}`, ''];
  }
  const file = join(options.dataDir, 'first-key');
  writeFileSync(file, `${apiKey}\n`, { mode: 0o600 });
  return [`The first API key is in ${file}`];
}

/** How long a node waits for the key of another, which may have died. */
const otherNodeMs = 10_000;
const pollMs = 50;

async function hasKey(store: SystemStore): Promise<boolean> {
  const tenant = await store.findTenant('default');
  if (tenant === undefined) return false;
  return (await store.tenant(tenant.id).listKeys({ limit: 1 })).length > 0;
}

/** Whether an `Authorization` header carries the internal secret. Compares in constant time. */
export function hasInternalSecret(
  authorization: string | undefined,
  secret: string | undefined,
): boolean {
  const presented = /^Internal (\S+)$/i.exec(authorization ?? '')?.[1];
  if (presented === undefined || secret === undefined) return false;
  return timingSafeEqual(digest(presented), digest(secret));
}

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
