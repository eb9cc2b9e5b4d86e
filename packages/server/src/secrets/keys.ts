/**
 * API keys, session tokens, and the secrets of the console's cookie and login links: a prefix + 32 random
 * bytes + a checksum, all in hex. Only a hash is stored. The checksum rejects a mistyped or invented one
 * without reading the store. The prefix is part of what is hashed, so that one kind never works as another.
 */
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { renameSync, rmSync, writeFileSync } from 'node:fs';
import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import {
  auditRecordsOf,
  type Engine,
  type Ids,
  type KeyRecord,
  type SystemStore,
} from '@relay/core';
import { scopes as allScopes } from '@relay/protocol';
import { uuidv7 } from 'uuidv7';
import { operatorAuditEntry } from '../audit/operator-entries.ts';

const prefixes = {
  api: 'relay_live_',
  session: 'relay_sess_',
  console: 'relay_cons_',
  link: 'relay_link_',
} as const;
export type SecretKind = keyof typeof prefixes;
const kinds = Object.keys(prefixes) as SecretKind[];
const form = /^(relay_(?:live|sess|cons|link)_)([0-9a-f]{64})([0-9a-f]{8})$/;

export function makeApiKey(): string {
  return makeSecret('api');
}

export function makeSessionToken(): string {
  return makeSecret('session');
}

export function makeSecret(kind: SecretKind): string {
  const prefix = prefixes[kind];
  const random = randomBytes(32).toString('hex');
  return `${prefix}${random}${checksum(prefix, random)}`;
}

/** Undefined if it is not well-formed. */
export function kindOfSecret(secret: string): SecretKind | undefined {
  const [, prefix = '', random = '', check] = form.exec(secret) ?? [];
  if (check === undefined || checksum(prefix, random) !== check) return undefined;
  return kinds.find((kind) => prefixes[kind] === prefix);
}

/** Of a secret of any kind. */
export function hashApiKey(secret: string): string {
  return createHash('sha256').update(secret).digest('hex');
}

function checksum(prefix: string, random: string): string {
  return crc32(prefix + random)
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
  /** Of the key. Default: `bootstrap`. */
  readonly name?: string | undefined;
  /** The key is for the holder of the tenant's first key. */
  readonly isForFirstHolder?: boolean | undefined;
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
  const { key, apiKey, audit } = await newBootstrapKey(store, ids, issue);
  await store.addKey(key, hashApiKey(apiKey), audit);
  return { tenantId: key.tenantId, keyId: key.id, apiKey };
}

async function newBootstrapKey(store: SystemStore, ids: Ids, issue: KeyIssue) {
  const now = Date.now();
  const tenant = await store.ensureTenant({ id: ids.next(), name: issue.tenant, at: now });
  const key: KeyRecord = {
    id: ids.next(),
    tenantId: tenant.id,
    name: issue.name ?? 'bootstrap',
    owner: issue.isForFirstHolder === true ? await firstHolder(store, tenant.id) : null,
    role: null,
    scopes: [...allScopes],
    groups: [],
    createdAt: now,
    expiresAt: null,
    revokedAt: null,
    lastUsedAt: null,
    replaces: [],
    replacedBy: null,
    kind: 'api',
    parent: null,
  };
  const { id: keyId, name, owner, scopes, expiresAt } = key;
  const what = { keyId, name, ...(owner !== null && { owner }), scopes, expiresAt };
  const entry = operatorAuditEntry(issue.by, 'key.created', what);
  return { key, apiKey: makeApiKey(), audit: auditRecordsOf(issue, tenant.id, [entry]) };
}

async function firstHolder(store: SystemStore, tenantId: string): Promise<string | null> {
  const tenant = store.tenant(tenantId);
  let first: KeyRecord | undefined;
  for (;;) {
    const before = first === undefined ? {} : { before: { at: first.createdAt, id: first.id } };
    const last = (await tenant.listKeys({ limit: 200, ...before })).at(-1);
    if (last === undefined) break;
    first = last;
  }
  return first === undefined ? null : (first.owner ?? first.id);
}

/**
 * The first start creates the tenant `default` and shows its key once. Without a terminal the key is
 * written to a file that only its owner can read, never to a log. If several nodes start at once on a
 * new store, one of them does so.
 */
export async function showFirstKey(
  store: SystemStore,
  options: {
    readonly dataDir: string;
    readonly terminal: boolean;
    readonly audit: Engine['audit'];
    readonly onCreated?: (key: KeyRecord) => void;
  },
): Promise<string[]> {
  const { dataDir, terminal } = options;
  const known = await keyIdsOf(store);
  if (known.length > 0) {
    for (const id of known) publishKeyFile(dataDir, id);
    return [];
  }
  const issue = { tenant: 'default', by: 'first start', audit: options.audit } as const;
  const { key, apiKey, audit } = await newBootstrapKey(store, { next: uuidv7 }, issue);
  const draft = draftOf(dataDir, key.id);
  // Before the key is stored: after a crash in between, the next start finds or replaces it.
  if (!terminal) writeFileSync(draft, `${apiKey}\n`, { mode: 0o600, flag: 'wx' });
  if (!(await store.addFirstKey(key, hashApiKey(apiKey), audit))) {
    if (!terminal) rmSync(draft, { force: true });
    return [];
  }
  options.onCreated?.(key);
  if (terminal) return ['Your API key, shown only once:', '', `  ${apiKey}`, ''];
  publishKeyFile(dataDir, key.id);
  return [`The first API key is in ${join(dataDir, firstKeyFile)}`];
}

const firstKeyFile = 'first-key';
const cliKeyFile = 'cli-key';

/**
 * After a first start with a terminal, whose printed key is for a person to keep, the CLI on this machine
 * has a key of its own in the data folder. It is the same person as the first key, so that their decisions
 * with either key count once.
 */
export async function issueCliKey(
  store: SystemStore,
  dataDir: string,
  firstKey: KeyRecord,
  audit: Engine['audit'],
): Promise<void> {
  const key = { ...firstKey, id: uuidv7(), name: 'cli', owner: firstKey.id };
  const { id: keyId, name, owner, scopes, expiresAt } = key;
  const what = { keyId, name, owner, scopes, expiresAt };
  const entry = operatorAuditEntry('first start', 'key.created', what);
  const apiKey = makeApiKey();
  await store.addKey(key, hashApiKey(apiKey), auditRecordsOf({ audit }, key.tenantId, [entry]));
  const path = join(dataDir, cliKeyFile);
  // An existing file would keep its mode, and a symbolic link would be followed.
  rmSync(path, { force: true });
  writeFileSync(path, `${apiKey}\n`, { mode: 0o600, flag: 'wx' });
}

/** Nodes that start at once may share the folder: each writes its own draft. */
function draftOf(dataDir: string, keyId: string): string {
  return join(dataDir, `${firstKeyFile}.${keyId}`);
}

/** Of a stored key. The process that stored it may have died before, or another one may do so now. */
function publishKeyFile(dataDir: string, keyId: string): void {
  try {
    renameSync(draftOf(dataDir, keyId), join(dataDir, firstKeyFile));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
  }
}

/** Of the first key, once its holder has signed in to the console: it need not be readable there any longer. */
export async function deleteFirstKeyFile(
  store: SystemStore,
  dataDir: string,
  keyId: string,
): Promise<void> {
  const path = join(dataDir, firstKeyFile);
  const content = await readFile(path, 'utf8').catch(() => undefined);
  if (content === undefined) return;
  const key = await store.findKey(hashApiKey(content.trim()));
  if (key?.id === keyId) await rm(path, { force: true });
}

async function keyIdsOf(store: SystemStore): Promise<string[]> {
  const tenant = await store.findTenant('default');
  if (tenant === undefined) return [];
  return (await store.tenant(tenant.id).listKeys({ limit: 200 })).map(({ id }) => id);
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
