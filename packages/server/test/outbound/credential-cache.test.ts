import { createMemoryStore } from '@relay/store';
import { randomBytes } from 'node:crypto';
import { beforeEach, describe, expect, it } from 'vitest';
import { uuidv7 } from 'uuidv7';
import { CredentialCache } from '../../src/outbound/credential-cache.ts';
import { masterKeyOf } from '../../src/secrets/secret-encryption.ts';
import { Vault } from '../../src/secrets/vault.ts';

describe('CredentialCache', () => {
  const store = createMemoryStore();
  const place = { tenantId: '', provider: 'openai' };
  let vault: Vault;
  let made: string[];
  let cache: CredentialCache<string>;
  const put = (apiKey: string) => vault.put(place, { apiKey, label: null, baseUrl: null });
  const get = () => cache.get(place.tenantId, 'openai');

  beforeEach(async () => {
    const ids = { next: uuidv7 };
    place.tenantId = (await store.ensureTenant({ id: uuidv7(), name: uuidv7(), at: 0 })).id;
    const log = { addSecret: () => undefined };
    vault = new Vault({ store, masters: [masterKeyOf(randomBytes(32))], ids, log });
    made = [];
    cache = new CredentialCache(vault, (tenantId, record) => {
      const secret = vault.secretOf(tenantId, record);
      made.push(secret);
      return secret;
    });
  });

  it('makes a value once per credential', async () => {
    await put('sk-first-key-0001');
    expect([await get(), await get()]).toEqual(['sk-first-key-0001', 'sk-first-key-0001']);
    expect(made).toHaveLength(1);
    await put('sk-second-key-0002');
    expect(await get()).toBe('sk-second-key-0002');
    expect(cache.size).toBe(1);
  });

  it('drops the decrypted key as soon as the credential is deleted', async () => {
    await put('sk-first-key-0001');
    await get();
    expect(cache.size).toBe(1);
    await vault.delete(place);
    expect(cache.size).toBe(0);
    expect(await get()).toBeUndefined();
  });

  it('keeps no value of a credential that was deleted while it was read', async () => {
    await put('sk-first-key-0001');
    const reading = get();
    vault.changed(place.tenantId);
    expect(await reading).toBe('sk-first-key-0001');
    expect(cache.size).toBe(0);
  });

  it('drops the values of all tenants when notifications may have been lost', async () => {
    await put('sk-first-key-0001');
    await get();
    vault.changed();
    expect(cache.size).toBe(0);
  });
});
