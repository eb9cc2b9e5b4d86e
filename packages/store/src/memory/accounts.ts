/** Tenants, keys and credentials of a memory store. */
import type {
  CredentialRecord,
  KeyRecord,
  Resealing,
  SealedCredential,
  TenantChange,
  TenantRecord,
} from '@relay/core';
import { RelayError } from '@relay/protocol';
import { noTenant } from '../sql/tenants.ts';
import { keyOf, refuseTaken, stored } from './state.ts';
import type { MemoryCredential, MemoryState } from './state.ts';

export function ensureTenant(
  state: MemoryState,
  { id, name, at }: { id: string; name: string; at: number },
): { id: string } {
  const present = state.tenantIds.get(name);
  if (present !== undefined) return { id: present };
  refuseTaken(state.tenants, id);
  state.tenants.set(id, { id, name, createdAt: at, pausedAt: null, settings: {} });
  state.tenantIds.set(name, id);
  return { id };
}

export function readTenant(state: MemoryState, tenantId: string): TenantRecord {
  const tenant = state.tenants.get(tenantId);
  if (tenant === undefined) throw noTenant(tenantId);
  return stored(tenant);
}

export function updateTenant(state: MemoryState, tenantId: string, change: TenantChange): boolean {
  const { pausedAt, settings, settingsWere } = change;
  if (pausedAt === undefined && settings === undefined) return true;
  const present = readTenant(state, tenantId);
  const isSame = JSON.stringify(settingsWere) === JSON.stringify(present.settings);
  if (settingsWere !== undefined && !isSame) return false;
  state.tenants.set(tenantId, {
    ...present,
    ...(pausedAt === undefined ? {} : { pausedAt }),
    ...(settings === undefined ? {} : { settings: stored(settings) }),
  });
  return true;
}

export function addKey(state: MemoryState, key: KeyRecord, hash: string): void {
  refuseTaken(state.keys, hash);
  const isTaken = [...state.keys.values()].some(({ id }) => id === key.id);
  if (isTaken) throw new RelayError('storage_failed', `The id ${key.id} is taken`);
  state.keys.set(hash, stored(key));
}

export function readKey(
  state: MemoryState,
  tenantId: string,
  keyId: string,
): KeyRecord | undefined {
  const key = [...state.keys.values()].find(({ id }) => id === keyId);
  return key?.tenantId === tenantId ? stored(key) : undefined;
}

export function revokeKey(
  state: MemoryState,
  tenantId: string,
  { keyId, at }: { keyId: string; at: number },
): boolean {
  for (const [hash, key] of state.keys) {
    if (key.id !== keyId || key.tenantId !== tenantId || key.revokedAt !== null) continue;
    state.keys.set(hash, { ...key, revokedAt: at });
    return true;
  }
  return false;
}

export function putCredential(
  state: MemoryState,
  tenantId: string,
  record: CredentialRecord,
): void {
  const place = keyOf(tenantId, record.provider);
  for (const [at, { record: other }] of state.credentials) {
    if (other.id === record.id && at !== place) {
      throw new RelayError('storage_failed', `The id ${record.id} is taken`);
    }
  }
  state.credentials.set(place, { tenantId, record: stored(record) });
}

export function readCredential(
  state: MemoryState,
  tenantId: string,
  provider: string,
): CredentialRecord | undefined {
  const credential = state.credentials.get(keyOf(tenantId, provider));
  return credential === undefined ? undefined : stored(credential.record);
}

export function listCredentials(state: MemoryState, tenantId: string): CredentialRecord[] {
  return [...state.credentials.values()]
    .filter((credential) => credential.tenantId === tenantId)
    .map(({ record }) => stored(record))
    .toSorted((a, b) => b.createdAt - a.createdAt || (a.id < b.id ? 1 : -1));
}

export function sealedCredentials(
  state: MemoryState,
  { after = '', limit }: { after?: string; limit: number },
): SealedCredential[] {
  return [...state.credentials.values()]
    .map(({ tenantId, record: { provider, id, sealed } }) => ({ tenantId, provider, id, sealed }))
    .filter(({ id }) => id > after)
    .toSorted((a, b) => (a.id < b.id ? -1 : 1))
    .slice(0, limit);
}

export function resealCredential(state: MemoryState, resealing: Resealing): boolean {
  const { tenantId, id, from, to } = resealing;
  for (const [place, credential] of state.credentials) {
    if (!isSealedAs(credential, { tenantId, id, from })) continue;
    state.credentials.set(place, { tenantId, record: { ...credential.record, sealed: to } });
    return true;
  }
  return false;
}

function isSealedAs(
  { tenantId, record }: MemoryCredential,
  wanted: Omit<Resealing, 'to'>,
): boolean {
  return tenantId === wanted.tenantId && record.id === wanted.id && record.sealed === wanted.from;
}
