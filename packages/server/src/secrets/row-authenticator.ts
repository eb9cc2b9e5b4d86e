/**
 * Authenticates the rows that decide who may do what: HMAC-SHA-256 under a key that derives from the
 * master key. A code names its master key, so that rows of the previous one stay valid until they are
 * signed anew.
 */
import { createHmac, createSecretKey, type KeyObject, timingSafeEqual } from 'node:crypto';
import type { RowAuthenticator } from '@relay/store';
import { derive, type MasterKeys } from './master-key.ts';

export function rowAuthenticator(masters: MasterKeys): RowAuthenticator {
  const [{ id: current, bytes }] = masters;
  const signingKey = keyFrom(bytes);
  const keys = new Map(masters.map((master) => [master.id, keyFrom(master.bytes)]));
  return {
    sign: (text) => codeOf(current, signingKey, text).toString(),
    verify(text, mac) {
      const id = mac.slice(0, mac.indexOf('.'));
      const key = keys.get(id);
      if (key === undefined) return false;
      const [expected, actual] = [codeOf(id, key, text), Buffer.from(mac)];
      return actual.byteLength === expected.byteLength && timingSafeEqual(actual, expected);
    },
    isCurrent: (mac) => mac.startsWith(`${current}.`),
  };
}

function keyFrom(master: Buffer): KeyObject {
  return createSecretKey(derive(master, 'row authentication'));
}

function codeOf(id: string, key: KeyObject, text: string): Buffer {
  return Buffer.from(`${id}.${createHmac('sha256', key).update(text).digest('base64url')}`);
}
