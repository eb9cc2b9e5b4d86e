/** Which API keys are valid, and which one stands for a key that was rotated. */
import type { KeyRecord, TenantStore } from '../ports/index.ts';

export function isValidKey(
  key: Pick<KeyRecord, 'revokedAt' | 'expiresAt'> | undefined,
  now: number,
): boolean {
  if (key === undefined || key.revokedAt !== null) return false;
  return key.expiresAt === null || key.expiresAt > now;
}

/**
 * The key that a session of this key works with: the key itself while it is valid and, once it has expired, the
 * one that replaces it by rotation. Undefined if there is none, also for a key that was revoked after its
 * rotation: a revocation ends everything that was begun with the key.
 */
export async function findKeyInForce(
  store: Pick<TenantStore, 'readKey'>,
  keyId: string,
  now: number,
): Promise<KeyRecord | undefined> {
  let key = await store.readKey(keyId);
  while (key !== undefined && key.revokedAt === null) {
    if (isValidKey(key, now)) return key;
    if (key.replacedBy === null) return undefined;
    key = await store.readKey(key.replacedBy);
  }
  return undefined;
}
