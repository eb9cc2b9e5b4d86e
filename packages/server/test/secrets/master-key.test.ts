import { randomBytes } from 'node:crypto';
import { createMemoryStore } from '@relay/store';
import { describe, expect, it } from 'vitest';
import { derive, openRootKey } from '../../src/secrets/master-key.ts';
import { masterKeyOf } from '../../src/secrets/secret-encryption.ts';

const [one, two, three] = [1, 2, 3].map(() => masterKeyOf(randomBytes(32)));

describe('the root key', () => {
  it('is the same whenever a store is opened, and not the master key', async () => {
    const store = createMemoryStore();
    const first = await openRootKey(store, [one!]);
    expect(first).toHaveLength(32);
    expect(first.equals(one!.bytes)).toBe(false);
    expect(await openRootKey(store, [one!])).toEqual(first);
    expect(await store.readMetadata('root-key')).not.toContain(first.toString('hex'));
  });

  it('outlives the master key that it came from', async () => {
    const store = createMemoryStore();
    const first = await openRootKey(store, [one!]);
    expect(await openRootKey(store, [two!, one!])).toEqual(first);
    expect(await openRootKey(store, [two!])).toEqual(first);
    await expect(openRootKey(store, [one!])).rejects.toThrow('cannot decrypt the root key');
    await expect(openRootKey(store, [three!])).rejects.toThrow('cannot decrypt the root key');
  });

  it('of nodes that start together is one', async () => {
    const store = createMemoryStore();
    const keys = await Promise.all([1, 2, 3].map(() => openRootKey(store, [one!])));
    for (const key of keys) expect(key).toEqual(keys[0]);
  });

  it('gives each purpose a key of its own', () => {
    const root = randomBytes(32);
    expect(derive(root, 'audit')).toEqual(derive(root, 'audit'));
    expect(derive(root, 'audit')).not.toEqual(derive(root, 'links'));
  });
});
