/**
 * The key that all of Relay's own signatures come from: seals of the audit trail, webhooks, links.
 *
 * It is derived from the master key when a store is first opened, and kept in the store, sealed by the
 * master key of the day: so it outlives a change of that key, and what was signed stays verifiable.
 */
import { hkdfSync } from 'node:crypto';
import type { SystemStore } from '@relay/core';
import { ConfigError } from '../../config/config.ts';
import type { MasterKeys } from './master-key.ts';
import { type Place, rewrap, seal, SealBroken, unseal } from './seal.ts';

const name = 'root-key';
const place: Place = { tenantId: '', provider: '', recordId: name };

/** `onRotation` is told before the key is kept under another master key: twice rather than never. */
export async function openRootKey(
  store: SystemStore,
  masters: MasterKeys,
  onRotation?: (key: Buffer) => Promise<void>,
): Promise<Buffer> {
  const [current] = masters;
  const fresh = derive(current.bytes, 'relay root key');
  const sealed = seal(fresh.toString('hex'), place, current);
  if (await store.writeMetadata(name, sealed, { ifAbsent: true })) return fresh;
  const kept = (await store.readMetadata(name)) ?? sealed;
  try {
    const key = Buffer.from(unseal(kept, place, masters), 'hex');
    const again = rewrap(kept, place, masters);
    if (again !== undefined) {
      await onRotation?.(key);
      await store.writeMetadata(name, again);
    }
    return key;
  } catch (error) {
    if (!(error instanceof SealBroken)) throw error;
    throw new ConfigError('The root key in the store cannot be opened with the master key');
  }
}

/** One key for each purpose: what is signed for one means nothing for another. */
export function derive(key: Buffer, purpose: string): Buffer {
  return Buffer.from(hkdfSync('sha256', key, 'relay', purpose, 32));
}
