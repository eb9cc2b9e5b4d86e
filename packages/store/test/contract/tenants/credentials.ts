import type { CredentialRecord, SystemStore } from '@relay/core';
import { uuidv7 } from 'uuidv7';
import { describe, expect, test } from 'vitest';
import { hostileText, noon, useStore, withStore } from '../fixtures.ts';
import type { Open } from '../fixtures.ts';

export function newCredential(over: Partial<CredentialRecord> = {}): CredentialRecord {
  return {
    id: uuidv7(),
    provider: 'openai',
    label: null,
    baseUrl: null,
    last4: 'wxyz',
    sealed: `sealed ${uuidv7()}`,
    createdAt: noon,
    updatedAt: noon,
    ...over,
  };
}

export function credentialTests(open: Open): void {
  const { system, tenant: newTenant } = useStore(open);

  test('a credential reads back as it was put', async () => {
    const tenant = newTenant();
    const plain = newCredential();
    const baseUrl = 'https://models.example/v1';
    const full = newCredential({ provider: 'own', label: 'ours', baseUrl, updatedAt: noon + 5 });
    await tenant.putCredential(plain);
    await tenant.putCredential(full);
    expect(await tenant.readCredential('openai')).toEqual(plain);
    expect(await tenant.readCredential('own')).toEqual(full);
    expect(await tenant.readCredential('OpenAI')).toBeUndefined();
    expect(await tenant.readCredential('')).toBeUndefined();
  });

  test('a second one for a provider replaces the first, including its id', async () => {
    const tenant = newTenant();
    const first = newCredential({ label: 'first', baseUrl: 'https://a.example' });
    const second = newCredential({ last4: '0000', createdAt: noon + 1, updatedAt: noon + 2 });
    await tenant.putCredential(first);
    await tenant.putCredential(second);
    expect(await tenant.listCredentials()).toEqual([second]);
    const renewed = { ...second, sealed: 'again', label: 'renewed' };
    await tenant.putCredential(renewed);
    expect(await tenant.readCredential('openai')).toEqual(renewed);
  });

  test('an id belongs to one credential', async () => {
    const [one, two] = [newTenant(), newTenant()];
    const credential = newCredential();
    await one.putCredential(credential);
    const refusal = { code: 'storage_failed' };
    const elsewhere = one.putCredential({ ...credential, provider: 'anthropic' });
    await expect(elsewhere).rejects.toMatchObject(refusal);
    await expect(two.putCredential(credential)).rejects.toMatchObject(refusal);
    expect(await one.listCredentials()).toEqual([credential]);
    expect(await two.listCredentials()).toEqual([]);
  });

  test('the list shows all of a tenant, newest first', async () => {
    const tenant = newTenant();
    const made = [2, 0, 1, 1].map((ms, n) =>
      newCredential({ provider: `p${n}`, createdAt: noon + ms }),
    );
    for (const credential of made) await tenant.putCredential(credential);
    const [newest, oldest, ...together] = made;
    expect(await tenant.listCredentials()).toEqual([newest, ...together.toReversed(), oldest]);
    expect(await newTenant().listCredentials()).toEqual([]);
  });

  test('deleting says whether there was one', async () => {
    const tenant = newTenant();
    await tenant.putCredential(newCredential());
    await tenant.putCredential(newCredential({ provider: 'google' }));
    expect(await tenant.deleteCredential('openai')).toBe(true);
    expect(await tenant.deleteCredential('openai')).toBe(false);
    expect(await tenant.readCredential('openai')).toBeUndefined();
    expect(await tenant.listCredentials()).toMatchObject([{ provider: 'google' }]);
  });

  test('tenants have nothing to do with each other', async () => {
    const [one, two] = [newTenant(), newTenant()];
    const [mine, theirs] = [newCredential(), newCredential()];
    await one.putCredential(mine);
    expect(await two.readCredential('openai')).toBeUndefined();
    expect(await two.deleteCredential('openai')).toBe(false);
    await two.putCredential(theirs);
    expect(await one.listCredentials()).toEqual([mine]);
    expect(await two.listCredentials()).toEqual([theirs]);
  });

  for (const [name, text] of Object.entries(hostileText)) {
    test(`${name} survives in every part of a credential`, async () => {
      const tenant = newTenant();
      const texts = { provider: text, label: text, baseUrl: text, last4: text, sealed: text };
      const credential = newCredential(texts);
      await tenant.putCredential(newCredential({ provider: 'other' }));
      await tenant.putCredential(credential);
      expect(await tenant.readCredential(text)).toEqual(credential);
      const { tenantId } = tenant;
      const resealing = { tenantId, id: credential.id, from: text, to: `${text}!` };
      expect(await system().resealCredential({ ...resealing, from: `${text}?` })).toBe(false);
      expect(await system().resealCredential(resealing)).toBe(true);
      expect(await tenant.readCredential(text)).toEqual({ ...credential, sealed: `${text}!` });
      expect(await tenant.deleteCredential(text)).toBe(true);
      expect(await tenant.listCredentials()).toHaveLength(1);
    });
  }

  describe('a change of the master key', () => {
    /** Seven credentials of three tenants, by their ids. */
    async function furnish(store: SystemStore) {
      const tenants = [store.tenant(uuidv7()), store.tenant(uuidv7()), store.tenant(uuidv7())];
      const rows = [];
      for (let n = 0; n < 7; n += 1) {
        const tenant = tenants[n % 3];
        if (tenant === undefined) continue;
        const credential = newCredential({ provider: `p${n}` });
        const { provider, id, sealed, baseUrl, label } = credential;
        await tenant.putCredential(credential);
        rows.push({ tenantId: tenant.tenantId, provider, id, sealed, baseUrl, label });
      }
      return rows.toSorted((a, b) => (a.id < b.id ? -1 : 1));
    }

    test('goes through the credentials of all tenants, page after page', () =>
      withStore(open, async ({ store }) => {
        expect(await store.sealedCredentials({ limit: 9 })).toEqual([]);
        const rows = await furnish(store);
        expect(await store.sealedCredentials({ limit: 99 })).toEqual(rows);
        const pages = [];
        for (const after of ['', rows[2]?.id ?? '', rows[5]?.id ?? '', rows[6]?.id ?? '']) {
          pages.push(await store.sealedCredentials({ limit: 3, after }));
        }
        expect(pages).toEqual([rows.slice(0, 3), rows.slice(3, 6), rows.slice(6), []]);
      }));

    test('changes how a credential is sealed, and nothing else', async () => {
      const tenant = newTenant();
      const credential = newCredential({ label: 'l', baseUrl: 'https://a.example' });
      await tenant.putCredential(credential);
      const { id, sealed: from } = credential;
      const resealing = { tenantId: tenant.tenantId, id, from, to: 'anew' };
      expect(await system().resealCredential(resealing)).toBe(true);
      expect(await tenant.readCredential('openai')).toEqual({ ...credential, sealed: 'anew' });
      expect(await system().resealCredential(resealing)).toBe(false);
    });

    test('never undoes what a person put in the meantime', async () => {
      const tenant = newTenant();
      const { tenantId } = tenant;
      const old = newCredential();
      await tenant.putCredential(old);
      const put = { ...old, sealed: 'put meanwhile' };
      await tenant.putCredential(put);
      const stale = { tenantId, id: old.id, from: old.sealed, to: 'anew' };
      expect(await system().resealCredential(stale)).toBe(false);
      await tenant.putCredential(newCredential({ sealed: old.sealed }));
      expect(await system().resealCredential(stale)).toBe(false);
      await tenant.deleteCredential('openai');
      expect(await system().resealCredential(stale)).toBe(false);
      expect(await tenant.listCredentials()).toEqual([]);
    });

    test('reaches a credential only in its own tenant', async () => {
      const [owner, stranger] = [newTenant(), newTenant()];
      const credential = newCredential();
      await owner.putCredential(credential);
      const { id, sealed: from } = credential;
      const foreign = { tenantId: stranger.tenantId, id, from, to: 'stolen' };
      expect(await system().resealCredential(foreign)).toBe(false);
      expect(await owner.readCredential('openai')).toEqual(credential);
    });

    test('by 20 nodes at once is one change', async () => {
      const tenant = newTenant();
      const credential = newCredential();
      await tenant.putCredential(credential);
      const { id, sealed: from } = credential;
      const answers = await Promise.all(
        Array.from({ length: 20 }, (_, n) =>
          system().resealCredential({ tenantId: tenant.tenantId, id, from, to: `anew ${n}` }),
        ),
      );
      expect(answers.filter(Boolean)).toHaveLength(1);
      const sealed = `anew ${answers.indexOf(true)}`;
      expect(await tenant.readCredential('openai')).toEqual({ ...credential, sealed });
    });
  });
}
