import type { KeyRecord, TenantStore } from '@relay/core';
import { uuidv7 } from 'uuidv7';
import { describe, expect, test } from 'vitest';
import { hostileText, noon, useStore } from '../fixtures.ts';
import type { Open } from '../fixtures.ts';

export function newKey(over: Partial<KeyRecord> = {}): KeyRecord {
  return {
    id: uuidv7(),
    tenantId: uuidv7(),
    name: 'first key',
    owner: null,
    role: null,
    scopes: ['runs', 'approve', 'admin'],
    groups: [],
    createdAt: noon,
    expiresAt: null,
    revokedAt: null,
    lastUsedAt: null,
    ...over,
  };
}

export function keyTests(open: Open): void {
  const { system, tenant: newTenant } = useStore(open);

  async function addKey({ tenantId }: TenantStore, over: Partial<KeyRecord> = {}) {
    const key = newKey({ tenantId, ...over });
    await system().addKey(key, `hash of ${key.id}`);
    return key;
  }

  test('a key is found by its hash and reads back as it was added', async () => {
    const plain = newKey();
    const times = { expiresAt: noon + 5, revokedAt: noon + 2 };
    const limited = newKey({
      name: 'ci',
      owner: 'ada',
      role: 'operator',
      groups: ['release'],
      ...times,
    });
    await system().addKey(plain, 'hash-plain');
    await system().addKey(limited, 'hash-limited');
    expect(await system().findKey('hash-plain')).toEqual(plain);
    expect(await system().findKey('hash-limited')).toEqual(limited);
    expect(await system().findKey('hash-other')).toBeUndefined();
    expect(await system().findKey('')).toBeUndefined();
  });

  test('a hash belongs to one key, and so does an id', async () => {
    const key = newKey();
    await system().addKey(key, 'hash-once');
    const refusal = { code: 'storage_failed' };
    await expect(system().addKey(newKey(), 'hash-once')).rejects.toMatchObject(refusal);
    const sameId = newKey({ id: key.id });
    await expect(system().addKey(sameId, 'hash-twice')).rejects.toMatchObject(refusal);
    expect(await system().findKey('hash-once')).toEqual(key);
    expect(await system().findKey('hash-twice')).toBeUndefined();
  });

  test('a tenant reads a key of its own by its id, and no other', async () => {
    const [owner, stranger] = [newTenant(), newTenant()];
    const key = await addKey(owner, { owner: 'ada' });
    expect(await owner.readKey(key.id)).toEqual(key);
    expect(await owner.readKey(uuidv7())).toBeUndefined();
    expect(await stranger.readKey(key.id)).toBeUndefined();
  });

  describe('the list of keys', () => {
    test('shows a tenant its own, newest first, the revoked ones among them', async () => {
      const [tenant, other] = [newTenant(), newTenant()];
      const old = await addKey(tenant, { createdAt: noon - 1, revokedAt: noon });
      const recent = await addKey(tenant, { createdAt: noon + 1 });
      const middle = await addKey(tenant, { name: 'ci', owner: 'ada' });
      await addKey(other);
      expect(await tenant.listKeys({ limit: 9 })).toEqual([recent, middle, old]);
      expect(await newTenant().listKeys({ limit: 9 })).toEqual([]);
    });

    test('goes on after any position', async () => {
      const tenant = newTenant();
      for (let n = 0; n < 7; n += 1) {
        await addKey(tenant, { createdAt: noon + Math.floor(n / 3) });
      }
      const whole = await tenant.listKeys({ limit: 99 });
      expect(whole).toHaveLength(7);
      for (const [n, { createdAt, id }] of whole.entries()) {
        const before = { at: createdAt, id };
        expect(await tenant.listKeys({ limit: 2, before })).toEqual(whole.slice(n + 1, n + 3));
      }
    });
  });

  describe('revoking', () => {
    test('counts once, and the first time stays', async () => {
      const tenant = newTenant();
      const key = await addKey(tenant);
      expect(await tenant.revokeKey(key.id, noon + 1)).toBe(true);
      expect(await tenant.revokeKey(key.id, noon + 2)).toBe(false);
      const revoked = { ...key, revokedAt: noon + 1 };
      expect(await tenant.readKey(key.id)).toEqual(revoked);
      expect(await system().findKey(`hash of ${key.id}`)).toEqual(revoked);
      expect(await tenant.listKeys({ limit: 9 })).toEqual([revoked]);
    });

    test('of 20 at once one counts', async () => {
      const tenant = newTenant();
      const key = await addKey(tenant);
      const answers = await Promise.all(
        Array.from({ length: 20 }, (_, n) => tenant.revokeKey(key.id, noon + n)),
      );
      expect(answers.filter(Boolean)).toHaveLength(1);
    });

    test('reaches neither a key that is not there nor one of another tenant', async () => {
      const [owner, stranger] = [newTenant(), newTenant()];
      const key = await addKey(owner);
      expect(await owner.revokeKey(uuidv7(), noon)).toBe(false);
      expect(await stranger.revokeKey(key.id, noon)).toBe(false);
      expect(await owner.readKey(key.id)).toEqual(key);
    });
  });

  for (const [name, text] of Object.entries(hostileText)) {
    test(`${name} survives in names, owners, roles, scopes and groups`, async () => {
      const tenant = newTenant();
      const key = await addKey(tenant, {
        name: text,
        owner: text,
        role: text,
        scopes: [text],
        groups: [text],
      });
      expect(await tenant.readKey(key.id)).toEqual(key);
      expect(await tenant.listKeys({ limit: 9 })).toEqual([key]);
      expect(await system().findKey(`hash of ${key.id}`)).toEqual(key);
    });
  }

  test('a store that works answers a ping', async () => {
    await expect(system().ping()).resolves.toBeUndefined();
    await expect(system().ping()).resolves.toBeUndefined();
  });
}
