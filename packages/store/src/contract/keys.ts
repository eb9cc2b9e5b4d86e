import type { KeyRecord } from '@relay/core';
import { uuidv7 } from 'uuidv7';
import { expect, test } from 'vitest';
import { noon, useStore } from './fixtures.ts';
import type { Open } from './fixtures.ts';

export function keyTests(open: Open): void {
  const { system } = useStore(open);

  function newKey(over: Partial<KeyRecord> = {}): KeyRecord {
    return {
      id: uuidv7(),
      tenantId: uuidv7(),
      name: 'first key',
      scopes: ['runs', 'approve', 'admin'],
      createdAt: noon,
      expiresAt: null,
      revokedAt: null,
      ...over,
    };
  }

  test('a tenant is made once, and its first id stays', async () => {
    const name = uuidv7();
    const id = uuidv7();
    expect(await system().findTenant(name)).toBeUndefined();
    expect(await system().ensureTenant({ id, name, at: noon })).toEqual({ id });
    expect(await system().ensureTenant({ id: uuidv7(), name, at: noon + 1 })).toEqual({ id });
    expect(await system().findTenant(name)).toEqual({ id, name });
  });

  test('of 20 that make the same tenant all get the same id', async () => {
    const name = uuidv7();
    const made = await Promise.all(
      Array.from({ length: 20 }, () => system().ensureTenant({ id: uuidv7(), name, at: noon })),
    );
    expect(new Set(made.map(({ id }) => id)).size).toBe(1);
  });

  test('tenants with similar names are different tenants', async () => {
    const base = uuidv7();
    const names = [base, `${base} `, base.toUpperCase(), `${base}\u0000`, `${base}\uD800`];
    const ids = [];
    for (const name of names) {
      ids.push((await system().ensureTenant({ id: uuidv7(), name, at: noon })).id);
    }
    expect(new Set(ids).size).toBe(names.length);
    for (const [i, name] of names.entries()) {
      expect(await system().findTenant(name)).toEqual({ id: ids[i], name });
    }
  });

  test('a key is found by its hash and reads back as it was added', async () => {
    const plain = newKey();
    const limited = newKey({ name: 'ci', scopes: [], expiresAt: noon + 5, revokedAt: noon + 2 });
    await system().addKey(plain, 'hash-plain');
    await system().addKey(limited, 'hash-limited');
    expect(await system().findKey('hash-plain')).toEqual(plain);
    expect(await system().findKey('hash-limited')).toEqual(limited);
    expect(await system().findKey('hash-other')).toBeUndefined();
    expect(await system().findKey('')).toBeUndefined();
  });

  test('a hash belongs to one key', async () => {
    const key = newKey();
    await system().addKey(key, 'hash-once');
    const again = system().addKey(newKey(), 'hash-once');
    await expect(again).rejects.toMatchObject({ code: 'storage_failed' });
    expect(await system().findKey('hash-once')).toEqual(key);
  });

  test('a store that works answers a ping', async () => {
    await expect(system().ping()).resolves.toBeUndefined();
    await expect(system().ping()).resolves.toBeUndefined();
  });
}
