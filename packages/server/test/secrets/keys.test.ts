import { createHash } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { KeyRecord } from '@relay/core';
import { createCountingIds } from '@relay/core/testing';
import { createMemoryStore } from '@relay/store';
import fc from 'fast-check';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import {
  hashApiKey,
  kindOfSecret,
  issueBootstrapKey,
  makeApiKey,
  showFirstKey,
} from '../../src/secrets/keys.ts';

const isWellFormed = (key: string) => kindOfSecret(key) === 'api';

const someKey = makeApiKey();

describe('the first key', () => {
  const setUp = () => {
    const dataDir = mkdtempSync(join(tmpdir(), 'relay-first-key-'));
    onTestFinished(() => rmSync(dataDir, { recursive: true, force: true }));
    const store = createMemoryStore();
    const show = (terminal: boolean) =>
      showFirstKey(store, { dataDir, terminal, audit: undefined });
    return { store, show, file: join(dataDir, 'first-key') };
  };

  it('is shown by one of several nodes that start at once, and is stored before they listen', async () => {
    const { store, show, file } = setUp();
    const isUsable: boolean[] = [];
    const shown = await Promise.all(
      [true, true, false, true].map(async (terminal) => {
        const lines = await show(terminal);
        const { id = '' } = (await store.findTenant('default')) ?? {};
        isUsable.push((await store.tenant(id).listKeys({ limit: 9 })).length === 1);
        return lines;
      }),
    );
    expect(shown.filter((lines) => lines.length > 0)).toHaveLength(1);
    expect(isUsable).toEqual([true, true, true, true]);
    expect(existsSync(file)).toBe(shown[2]?.length === 1);
  });

  it('is in the file although other nodes that share the folder start at the same time', async () => {
    const { store, show, file } = setUp();
    const shown = await Promise.all(Array.from({ length: 5 }, () => show(false)));
    expect(shown.flat()).toEqual([`The first API key is in ${file}`]);
    expect(await store.findKey(hashApiKey(readFileSync(file, 'utf8').trim()))).toBeDefined();
    expect(readdirSync(dirname(file))).toEqual(['first-key']);
  });

  it.each(['ensureTenant', 'addFirstKey'] as const)(
    'is made by the next start if the process died at %s',
    async (step) => {
      const { store, show, file } = setUp();
      vi.spyOn(store, step).mockRejectedValueOnce(new Error('Killed'));
      await expect(show(false)).rejects.toThrow('Killed');
      expect(await show(false)).toEqual([`The first API key is in ${file}`]);
      expect(await store.findKey(hashApiKey(readFileSync(file, 'utf8').trim()))).toBeDefined();
      expect(await show(false)).toEqual([]);
    },
  );

  it('is in its file although the process died as soon as it was stored', async () => {
    const { store, show, file } = setUp();
    const add = store.addFirstKey.bind(store);
    store.addFirstKey = async (...key) => {
      await add(...key);
      throw new Error('Killed');
    };
    await expect(show(false)).rejects.toThrow('Killed');
    expect(await show(false)).toEqual([]);
    expect(await store.findKey(hashApiKey(readFileSync(file, 'utf8').trim()))).toBeDefined();
  });
});
const places = fc.integer({ min: 0, max: someKey.length - 1 });

describe('an API key', () => {
  it('is relay_live_, 32 random bytes and a checksum, in lower-case hex', () => {
    expect(makeApiKey()).toMatch(/^relay_live_[0-9a-f]{72}$/);
  });

  it('is different every time and always well formed', () => {
    const keys = Array.from({ length: 500 }, makeApiKey);
    expect(new Set(keys).size).toBe(500);
    expect(keys.filter((key) => !isWellFormed(key))).toEqual([]);
  });

  it('is refused if any character is changed', () => {
    for (let place = 0; place < someKey.length; place += 1) {
      for (const other of '0123456789abcdefAFg_ \n') {
        if (other === someKey[place]) continue;
        const changed = someKey.slice(0, place) + other + someKey.slice(place + 1);
        expect(isWellFormed(changed), `${other} at ${place}`).toBe(false);
      }
    }
  });

  it('is refused if two adjacent characters are swapped', () => {
    for (let place = 0; place + 1 < someKey.length; place += 1) {
      const [a = '', b = ''] = someKey.slice(place, place + 2);
      if (a === b) continue;
      const swapped = someKey.slice(0, place) + b + a + someKey.slice(place + 2);
      expect(isWellFormed(swapped), `at ${place}`).toBe(false);
    }
  });

  it('is refused if characters are missing or added', () => {
    fc.assert(
      fc.property(places, fc.string({ minLength: 1, maxLength: 8 }), (place, more) => {
        expect(isWellFormed(someKey.slice(0, place) + someKey.slice(place + 1))).toBe(false);
        expect(isWellFormed(someKey.slice(0, place) + more + someKey.slice(place))).toBe(false);
      }),
    );
    expect(isWellFormed(`${someKey}\n`)).toBe(false);
    expect(isWellFormed(someKey + someKey)).toBe(false);
  });

  it('is refused if it was invented', () => {
    const hex = fc.string({
      unit: fc.constantFrom(...'0123456789abcdef'.split('')),
      minLength: 72,
      maxLength: 72,
    });
    fc.assert(
      fc.property(hex, (digits) => {
        expect(isWellFormed(`relay_live_${digits}`)).toBe(false);
      }),
    );
    expect(isWellFormed('')).toBe(false);
    expect(isWellFormed('relay_live_')).toBe(false);
  });

  it('has a stable checksum over its prefix and its secret', () => {
    const secret = '0123456789abcdef'.repeat(4);
    const withSum = (text: string) =>
      `relay_live_${secret}${crc32(text).toString(16).padStart(8, '0')}`;
    expect(isWellFormed(withSum(`relay_live_${secret}`))).toBe(true);
    expect(isWellFormed(withSum(`relay_sess_${secret}`))).toBe(false);
    expect(isWellFormed(withSum(secret))).toBe(false);
  });

  it('is refused with another prefix', () => {
    expect(isWellFormed(someKey.replace('relay_live_', 'relay_sess_'))).toBe(false);
  });
});

describe('the hash of a key', () => {
  it('is its SHA-256 in hex, so that any store can look it up', () => {
    expect(hashApiKey('abc')).toBe(createHash('sha256').update('abc').digest('hex'));
    expect(hashApiKey(someKey)).toMatch(/^[0-9a-f]{64}$/);
  });

  it('shows nothing of the key', () => {
    expect(hashApiKey(someKey)).not.toContain(someKey.slice(11, 19));
  });
});

describe('issuing the bootstrap key', () => {
  const issue = { tenant: 'acme', by: 'bootstrap', audit: undefined } as const;

  it('creates the tenant and a key with all scopes that never expires', async () => {
    const store = createMemoryStore();
    const issued = await issueBootstrapKey(store, createCountingIds(), issue);
    expect(await store.findTenant('acme')).toEqual({ id: issued.tenantId, name: 'acme' });
    const found = await store.findKey(hashApiKey(issued.apiKey));
    expect(found).toMatchObject<Partial<KeyRecord>>({
      id: issued.keyId,
      tenantId: issued.tenantId,
      name: 'bootstrap',
      role: null,
      scopes: ['read', 'runs', 'worker', 'approve', 'admin'],
      groups: [],
      expiresAt: null,
      revokedAt: null,
    });
  });

  it('adds a key to an existing tenant, and both keys work', async () => {
    const store = createMemoryStore();
    const ids = createCountingIds();
    const first = await issueBootstrapKey(store, ids, issue);
    const second = await issueBootstrapKey(store, ids, issue);
    expect(second.tenantId).toBe(first.tenantId);
    expect(second.apiKey).not.toBe(first.apiKey);
    for (const { apiKey, keyId } of [first, second]) {
      expect((await store.findKey(hashApiKey(apiKey)))?.id).toBe(keyId);
    }
  });

  it('stores the hash alone, never the key', async () => {
    const handed: unknown[] = [];
    const store = createMemoryStore();
    const { ensureTenant, addKey } = store;
    store.ensureTenant = (tenant) => {
      handed.push(tenant);
      return ensureTenant.call(store, tenant);
    };
    store.addKey = (...args) => {
      handed.push(...args);
      return addKey.call(store, ...args);
    };
    const issued = await issueBootstrapKey(store, createCountingIds(), issue);
    expect(JSON.stringify(handed)).toContain(hashApiKey(issued.apiKey));
    expect(JSON.stringify(handed)).not.toContain(issued.apiKey.slice('relay_live_'.length));
  });
});
