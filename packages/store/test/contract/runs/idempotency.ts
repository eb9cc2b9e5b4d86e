import type { IdempotencyKey, TenantStore } from '@relay/core';
import { uuidv7 } from 'uuidv7';
import { expect, test } from 'vitest';
import { hostileText, identityIn, newRun, noon, started, useStore } from '../fixtures.ts';
import type { Open } from '../fixtures.ts';

function keyed(over: Partial<IdempotencyKey> = {}): IdempotencyKey {
  return { key: 'key-1', fingerprint: 'body-1', expiresAt: noon + 1_000, ...over };
}

/** A run that is created with a key, at a time. */
async function create(tenant: TenantStore, idempotency: IdempotencyKey, createdAt = noon) {
  const identity = identityIn(tenant, { createdAt });
  const connection = { id: uuidv7(), node: 'node-1' };
  const creation = { identity, lease: null, events: [started], connection, idempotency };
  return { id: identity.id, connection, outcome: await tenant.createRun(creation) };
}

export function idempotencyTests(open: Open): void {
  const { tenant: newTenant } = useStore(open);

  test('a run without a key is always made', async () => {
    const tenant = newTenant();
    const identities = [identityIn(tenant), identityIn(tenant)];
    for (const identity of identities) {
      const made = await tenant.createRun({ identity, lease: null, events: [] });
      expect(made).toEqual({ kind: 'created' });
    }
    expect((await tenant.listRuns({}, { limit: 9 })).items).toHaveLength(2);
  });

  test('the second creation with a key makes nothing and names the first', async () => {
    const tenant = newTenant();
    const first = await create(tenant, keyed());
    expect(first.outcome).toEqual({ kind: 'created' });
    const second = await create(tenant, keyed({ fingerprint: 'body-2' }));
    expect(second.outcome).toEqual({ kind: 'exists', runId: first.id, fingerprint: 'body-1' });
    expect(await tenant.readRun(second.id)).toBeUndefined();
    expect(await tenant.readEvents(second.id, { after: 0, limit: 9 })).toEqual([]);
    expect(await tenant.findConnection(second.connection.id)).toBeUndefined();
    expect((await tenant.listRuns({}, { limit: 9 })).items).toHaveLength(1);
  });

  test('of 50 creations at once with one key one makes a run, and the others see it', async () => {
    const tenant = newTenant();
    const made = await Promise.all(
      Array.from({ length: 50 }, (_, n) => create(tenant, keyed({ fingerprint: `body-${n}` }))),
    );
    const winners = made.filter(({ outcome }) => outcome.kind === 'created');
    expect(winners).toHaveLength(1);
    const runId = winners[0]?.id;
    const fingerprint = `body-${made.findIndex(({ id }) => id === runId)}`;
    for (const { id, outcome } of made) {
      if (id !== runId) expect(outcome).toEqual({ kind: 'exists', runId, fingerprint });
    }
    expect((await tenant.listRuns({}, { limit: 99 })).items).toMatchObject([{ id: runId }]);
  });

  test('a key is found while it holds, by its own tenant', async () => {
    const [tenant, other] = [newTenant(), newTenant()];
    expect(await tenant.findIdempotencyKey('key-1', noon)).toBeUndefined();
    const { id } = await create(tenant, keyed());
    const holder = { runId: id, fingerprint: 'body-1' };
    expect(await tenant.findIdempotencyKey('key-1', noon + 999)).toEqual(holder);
    expect(await tenant.findIdempotencyKey('key-1', noon + 1_000)).toBeUndefined();
    expect(await other.findIdempotencyKey('key-1', noon)).toBeUndefined();
  });

  test('keys that have expired are cleared away by those that come after', async () => {
    const tenant = newTenant();
    for (let n = 0; n < 30; n += 1) await create(tenant, keyed({ key: `old-${n}` }));
    for (let n = 0; n < 3; n += 1) {
      await create(tenant, keyed({ key: `new-${n}`, expiresAt: noon + 9_000 }), noon + 5_000);
    }
    const left = await Promise.all(
      Array.from({ length: 30 }, (_, n) => tenant.findIdempotencyKey(`old-${n}`, noon)),
    );
    expect(left.filter((holder) => holder !== undefined)).toEqual([]);
    expect(await tenant.findIdempotencyKey('new-0', noon + 8_000)).toBeDefined();
  });

  test('other keys are other runs', async () => {
    const tenant = newTenant();
    for (const key of ['a', 'A', 'a ', ' a', '']) {
      expect((await create(tenant, keyed({ key }))).outcome).toEqual({ kind: 'created' });
    }
  });

  test('a key is taken over from the moment of its expiry, and not before', async () => {
    const tenant = newTenant();
    const first = await create(tenant, keyed({ expiresAt: noon + 10 }));
    const early = await create(tenant, keyed({ expiresAt: noon + 99 }), noon + 9);
    expect(early.outcome).toMatchObject({ kind: 'exists', runId: first.id });
    const late = await create(
      tenant,
      keyed({ fingerprint: 'new', expiresAt: noon + 20 }),
      noon + 10,
    );
    expect(late.outcome).toEqual({ kind: 'created' });
    const again = await create(tenant, keyed(), noon + 19);
    expect(again.outcome).toEqual({ kind: 'exists', runId: late.id, fingerprint: 'new' });
    expect(await tenant.readRun(first.id)).toBeDefined();
  });

  test('of 20 that take over an expired key at once one does', async () => {
    const tenant = newTenant();
    await create(tenant, keyed({ expiresAt: noon }), noon - 1);
    const made = await Promise.all(Array.from({ length: 20 }, () => create(tenant, keyed())));
    expect(made.filter(({ outcome }) => outcome.kind === 'created')).toHaveLength(1);
  });

  test('a run that cannot be made leaves its key free', async () => {
    const tenant = newTenant();
    const taken = await newRun(tenant);
    const refused = newRun(tenant, { identity: { id: taken.id }, idempotency: keyed() });
    await expect(refused).rejects.toMatchObject({ code: 'storage_failed' });
    expect((await create(tenant, keyed())).outcome).toEqual({ kind: 'created' });
  });

  test('a failed take-over leaves the key as it was', async () => {
    const tenant = newTenant();
    const old = await create(tenant, keyed({ fingerprint: 'old', expiresAt: noon + 5 }));
    const late = { id: old.id, createdAt: noon + 6 };
    const refused = newRun(tenant, { identity: late, idempotency: keyed() });
    await expect(refused).rejects.toMatchObject({ code: 'storage_failed' });
    const early = await create(tenant, keyed(), noon + 4);
    expect(early.outcome).toEqual({ kind: 'exists', runId: old.id, fingerprint: 'old' });
  });

  test('a repeated creation returns the run that was stored', async () => {
    const tenant = newTenant();
    const identity = identityIn(tenant);
    const creation = { identity, lease: null, events: [started], idempotency: keyed() };
    expect(await tenant.createRun(creation)).toEqual({ kind: 'created' });
    const again = { kind: 'exists', runId: identity.id, fingerprint: 'body-1' };
    expect(await tenant.createRun(creation)).toEqual(again);
  });

  test('the same key in two tenants is two keys', async () => {
    const [one, two] = [newTenant(), newTenant()];
    expect((await create(one, keyed())).outcome).toEqual({ kind: 'created' });
    expect((await create(two, keyed())).outcome).toEqual({ kind: 'created' });
  });

  test('hostile keys and fingerprints survive and do not meet', async () => {
    const tenant = newTenant();
    const texts = Object.values(hostileText);
    const runs = new Map<string, string>();
    for (const text of texts) {
      const made = await create(tenant, keyed({ key: text, fingerprint: text }));
      expect(made.outcome).toEqual({ kind: 'created' });
      runs.set(text, made.id);
    }
    for (const text of texts) {
      const { outcome } = await create(tenant, keyed({ key: text }));
      expect(outcome).toEqual({ kind: 'exists', runId: runs.get(text), fingerprint: text });
    }
  });
}
