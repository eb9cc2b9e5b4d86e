import type { KeyRecord, TenantStore } from '@relay/core';
import { uuidv7 } from 'uuidv7';
import { describe, expect, test } from 'vitest';
import { hostileText, newAudit, noon, useStore } from '../fixtures.ts';
import type { Open } from '../fixtures.ts';

export function newKey(over: Partial<KeyRecord> = {}): KeyRecord {
  return {
    id: uuidv7(),
    tenantId: uuidv7(),
    kind: 'api',
    parent: null,
    name: 'first key',
    owner: null,
    role: null,
    scopes: ['runs', 'approve', 'admin'],
    groups: [],
    createdAt: noon,
    expiresAt: null,
    revokedAt: null,
    lastUsedAt: null,
    replaces: [],
    replacedBy: null,
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
      lastUsedAt: noon + 1,
      replaces: [uuidv7(), uuidv7()],
      replacedBy: uuidv7(),
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

  describe('the last use', () => {
    const use = ({ tenantId, id: keyId }: KeyRecord, at: number) => ({ tenantId, keyId, at });

    test('is recorded of several keys of several tenants at once', async () => {
      const [one, two] = [newTenant(), newTenant()];
      const [first, second, unused] = [await addKey(one), await addKey(two), await addKey(one)];
      await system().recordKeyUses([use(second, noon + 2), use(first, noon + 1)]);
      expect(await one.readKey(first.id)).toEqual({ ...first, lastUsedAt: noon + 1 });
      const used = { ...second, lastUsedAt: noon + 2 };
      expect(await two.listKeys({ limit: 9 })).toEqual([used]);
      expect(await system().findKey(`hash of ${second.id}`)).toEqual(used);
      expect(await one.readKey(unused.id)).toEqual(unused);
      await expect(system().recordKeyUses([])).resolves.toBeUndefined();
    });

    test('stays the latest, in whichever order uses are recorded', async () => {
      const tenant = newTenant();
      const key = await addKey(tenant);
      await Promise.all([3, 9, 1, 5].map((ms) => system().recordKeyUses([use(key, noon + ms)])));
      await system().recordKeyUses([use(key, noon)]);
      expect((await tenant.readKey(key.id))?.lastUsedAt).toBe(noon + 9);
    });

    test('does not reach a key under the name of another tenant, nor one that is not there', async () => {
      const tenant = newTenant();
      const key = await addKey(tenant);
      const { tenantId } = newTenant();
      await system().recordKeyUses([use({ ...key, tenantId }, noon), use(newKey(), noon)]);
      expect(await tenant.readKey(key.id)).toEqual(key);
    });

    test('changes nothing that revoking or rotating compares', async () => {
      const tenant = newTenant();
      const key = await addKey(tenant);
      const uses = Array.from({ length: 20 }, (_, n) =>
        system().recordKeyUses([use(key, noon + n)]),
      );
      expect(await tenant.revokeKey(key.id, noon + 1)).toBe(true);
      await Promise.all(uses);
      const used = { ...key, revokedAt: noon + 1, lastUsedAt: noon + 19 };
      expect(await tenant.readKey(key.id)).toEqual(used);
    });
  });

  describe('rotating', () => {
    function successor(old: KeyRecord, oldExpiresAt: number) {
      const { tenantId, id } = old;
      const key = newKey({ tenantId, owner: 'ada', replaces: [id], createdAt: noon + 1 });
      return { oldKeyId: id, oldExpiresAt, key, hash: `hash of ${key.id}` };
    }

    test('adds the new key, and lets the old one expire, with one entry in one commit', async () => {
      const tenant = newTenant();
      const old = await addKey(tenant, { owner: 'ada' });
      const entry = newAudit();
      const rotation = successor(old, noon + 60);
      expect(await system().rotateKey(rotation, [entry])).toBe(true);
      expect(await system().findKey(rotation.hash)).toEqual(rotation.key);
      const replaced = { ...old, expiresAt: noon + 60, replacedBy: rotation.key.id };
      expect(await system().findKey(`hash of ${old.id}`)).toEqual(replaced);
      expect(await tenant.listKeys({ limit: 9 })).toEqual([rotation.key, replaced]);
      expect(await tenant.audit.unsealed(9)).toEqual([entry]);
    });

    test('stores nothing if the new key cannot be stored', async () => {
      const tenant = newTenant();
      const [old, other] = [await addKey(tenant), await addKey(tenant)];
      const taken = { ...successor(old, noon + 60), hash: `hash of ${other.id}` };
      await expect(system().rotateKey(taken, [newAudit()])).rejects.toMatchObject({
        code: 'storage_failed',
      });
      expect(await tenant.readKey(old.id)).toEqual(old);
      expect(await tenant.readKey(taken.key.id)).toBeUndefined();
      expect(await tenant.audit.unsealed(9)).toEqual([]);
    });

    test('does not prolong the old key', async () => {
      const tenant = newTenant();
      const old = await addKey(tenant, { expiresAt: noon + 5 });
      expect(await system().rotateKey(successor(old, noon + 60))).toBe(true);
      expect((await tenant.readKey(old.id))?.expiresAt).toBe(noon + 5);
    });

    test('of 20 at once one counts, and only its key exists', async () => {
      const tenant = newTenant();
      const old = await addKey(tenant);
      const rotations = Array.from({ length: 20 }, () => successor(old, noon + 60));
      const answers = await Promise.all(
        rotations.map((each) => system().rotateKey(each, [newAudit()])),
      );
      expect(answers.filter(Boolean)).toHaveLength(1);
      const { key } = rotations[answers.indexOf(true)] ?? { key: old };
      expect((await tenant.readKey(old.id))?.replacedBy).toBe(key.id);
      const ids = (await tenant.listKeys({ limit: 99 })).map(({ id }) => id);
      expect(ids).toEqual([key.id, old.id]);
      expect(await tenant.audit.unsealed(99)).toHaveLength(1);
    });

    test('reaches no key that is revoked, replaced, missing or of another tenant', async () => {
      const [tenant, stranger] = [newTenant(), newTenant()];
      const revoked = await addKey(tenant, { revokedAt: noon });
      const replaced = await addKey(tenant, { replacedBy: uuidv7() });
      const theirs = await addKey(stranger);
      const missing = newKey({ tenantId: tenant.tenantId });
      const before = await tenant.listKeys({ limit: 9 });
      for (const old of [revoked, replaced, missing, { ...theirs, tenantId: tenant.tenantId }]) {
        expect(await system().rotateKey(successor(old, noon + 60), [newAudit()])).toBe(false);
      }
      expect(await tenant.listKeys({ limit: 9 })).toEqual(before);
      expect(await tenant.audit.unsealed(9)).toEqual([]);
      expect(await stranger.readKey(theirs.id)).toEqual(theirs);
    });

    test('and revoking at once leaves the old key revoked', async () => {
      const tenant = newTenant();
      const old = await addKey(tenant);
      const rotation = successor(old, noon + 60);
      const [rotated] = await Promise.all([
        system().rotateKey(rotation),
        tenant.revokeKey(old.id, noon + 1),
      ]);
      expect((await tenant.readKey(old.id))?.revokedAt).toBe(noon + 1);
      expect((await tenant.readKey(rotation.key.id)) !== undefined).toBe(rotated);
    });
  });

  describe('a login link', () => {
    async function addLink(tenant: TenantStore, over: Partial<KeyRecord> = {}) {
      const parent = await addKey(tenant);
      return addKey(tenant, { kind: 'link', parent: parent.id, expiresAt: noon + 15, ...over });
    }
    const redemption = ({ tenantId, id }: KeyRecord, n = 0) => ({
      tenantId,
      linkHash: `hash of ${id}`,
      hash: `cookie ${n} of ${id}`,
      expiresAt: noon + 720,
    });

    test('becomes a sign-in with another secret, with one entry in one commit', async () => {
      const tenant = newTenant();
      const link = await addLink(tenant);
      const entry = newAudit();
      expect(await system().redeemLink(redemption(link), [entry])).toBe(true);
      const signIn = { ...link, kind: 'console', expiresAt: noon + 720 };
      expect(await system().findKey(redemption(link).hash)).toEqual(signIn);
      expect(await tenant.readKey(link.id)).toEqual(signIn);
      expect(await system().findKey(redemption(link).linkHash)).toBeUndefined();
      expect(await tenant.audit.unsealed(9)).toEqual([entry]);
    });

    test('is redeemed once, also by 50 at once', async () => {
      const tenant = newTenant();
      const link = await addLink(tenant);
      const answers = await Promise.all(
        Array.from({ length: 50 }, (_, n) =>
          system().redeemLink(redemption(link, n), [newAudit()]),
        ),
      );
      expect(answers.filter(Boolean)).toHaveLength(1);
      for (const [n, won] of answers.entries()) {
        const found = await system().findKey(redemption(link, n).hash);
        expect(found !== undefined).toBe(won);
      }
      expect(await tenant.audit.unsealed(99)).toHaveLength(1);
      expect(await system().redeemLink(redemption(link))).toBe(false);
    });

    test('is not redeemed if it was revoked, is no link, is unknown or of another tenant', async () => {
      const [tenant, stranger] = [newTenant(), newTenant()];
      const revoked = await addLink(tenant, { revokedAt: noon });
      const plain = await addKey(tenant);
      const theirs = await addLink(stranger);
      const missing = newKey({ tenantId: tenant.tenantId });
      const others = { ...theirs, tenantId: tenant.tenantId };
      for (const link of [revoked, plain, missing, others]) {
        expect(await system().redeemLink(redemption(link), [newAudit()])).toBe(false);
        expect(await system().findKey(redemption(link).hash)).toBeUndefined();
      }
      expect(await tenant.audit.unsealed(9)).toEqual([]);
      expect(await stranger.readKey(theirs.id)).toEqual(theirs);
    });

    test('is deleted after it expired, like a sign-in, and an API key never is', async () => {
      // Past what other tests store.
      const long = noon - 1e9;
      const tenant = newTenant();
      const key = await addKey(tenant, { expiresAt: long - 9, createdAt: long - 20 });
      const ended = { parent: key.id, createdAt: long - 10 };
      await addKey(tenant, { ...ended, kind: 'link', expiresAt: long - 3 });
      await addKey(tenant, { ...ended, kind: 'console', expiresAt: long - 2 });
      const last = await addKey(tenant, { ...ended, kind: 'console', expiresAt: long });
      expect(await system().deleteSignIns(long, 1)).toBe(1);
      expect(await system().deleteSignIns(long, 9)).toBe(1);
      expect(await system().deleteSignIns(long, 9)).toBe(0);
      expect(await tenant.listKeys({ limit: 9 })).toEqual([last, key]);
    });

    test('and revoking at once never leave a sign-in that is valid', async () => {
      const tenant = newTenant();
      const link = await addLink(tenant);
      await Promise.all([
        system().redeemLink(redemption(link)),
        tenant.revokeKey(link.id, noon + 1),
      ]);
      expect((await tenant.readKey(link.id))?.revokedAt).toBe(noon + 1);
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
