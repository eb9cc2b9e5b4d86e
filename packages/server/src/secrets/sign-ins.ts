/**
 * Sign-ins to the console. Each is a key of its own, with a secret that only the cookie has: it is listed and
 * revoked like any key, lives for 12 hours at most, and ends with the API key that signed in. A login link is a
 * sign-in that was not begun yet: whoever opens it first gets the cookie.
 */
import type { AuditFact, Engine, KeyRecord, NewAuditEntry, SystemStore } from '@relay/core';
import { hashApiKey, makeSecret } from './keys.ts';

const linkMs = 15 * 60 * 1000;
const signInMs = 12 * 60 * 60 * 1000;

/** When a sign-in that begins now ends. */
export function signInEnd(apiKey: KeyRecord, now: number): number {
  return Math.min(now + signInMs, apiKey.expiresAt ?? Infinity);
}

/** With the name and the rights of the key. */
export function newSignIn(
  apiKey: KeyRecord,
  own: Pick<KeyRecord, 'id' | 'kind' | 'createdAt' | 'expiresAt'>,
): KeyRecord {
  const unused = { lastUsedAt: null, replaces: [], replacedBy: null };
  return { ...apiKey, ...unused, parent: apiKey.id, ...own };
}

/** Returns the secret of the link, which is not stored. */
export async function issueLink(
  store: SystemStore,
  { ids, clock }: Pick<Engine, 'ids' | 'clock'>,
  apiKey: KeyRecord,
  audit: (what: Readonly<Record<string, AuditFact>>) => readonly NewAuditEntry[],
): Promise<{ readonly token: string; readonly expiresAt: number }> {
  const now = clock.now();
  const id = ids.next();
  const expiresAt = Math.min(now + linkMs, apiKey.expiresAt ?? Infinity);
  const token = makeSecret('link');
  const link = newSignIn(apiKey, { id, kind: 'link', createdAt: now, expiresAt });
  await store.addKey(link, hashApiKey(token), audit({ keyId: id, name: apiKey.name, expiresAt }));
  return { token, expiresAt };
}

/** The secret is in the fragment, which browsers send to no server and in no Referer. */
export function linkUrl(address: string, token: string): string {
  return `${address}/console/login#${token}`;
}
