import { uuidv7 } from 'uuidv7';
import { expect, test } from 'vitest';
import { idKinds } from '@relay/protocol';
import { newRun, useStore } from './fixtures.ts';
import type { Open } from './fixtures.ts';
import { newGrant } from './tenants/grants.ts';

export function idTests(open: Open): void {
  const { tenant: newTenant } = useStore(open);
  const one = '018f0000-aaaa-7000-8000-0000cafe0001';
  const two = '018f0000-bbbb-7000-8000-0000cafe0002';

  test('an id is found by its beginning and by its end, in its own tenant', async () => {
    const tenant = newTenant();
    for (const id of [one, two]) await newRun(tenant, { identity: { id } });
    expect(await tenant.findIds('run', '018f0000-bbbb', 9)).toEqual([two]);
    expect(await tenant.findIds('run', 'cafe0001', 9)).toEqual([one]);
    expect(await tenant.findIds('run', '0002', 9)).toEqual([two]);
    expect((await tenant.findIds('run', '018f', 9)).toSorted()).toEqual([one, two]);
    expect((await tenant.findIds('run', '018f0000', 9)).toSorted()).toEqual([one, two]);
    expect(await tenant.findIds('run', '018f0000', 1)).toHaveLength(1);
    expect(await tenant.findIds('run', one, 9)).toEqual([one]);
    // In the middle.
    expect(await tenant.findIds('run', 'aaaa', 9)).toEqual([]);
    expect(await newTenant().findIds('run', '018f0000', 9)).toEqual([]);
  });

  test('every kind of id is searched, and no other kind', async () => {
    const tenant = newTenant();
    const run = await newRun(tenant);
    const grant = newGrant(tenant);
    await tenant.addGrant(grant);
    const ids: Readonly<Record<string, string>> = {
      run: run.id,
      conversation: run.conversationId,
      grant: grant.id,
    };
    for (const kind of idKinds) {
      for (const [of, id] of Object.entries(ids)) {
        const expected = kind === of ? [id] : [];
        expect(await tenant.findIds(kind, id.slice(-8), 9), kind).toEqual(expected);
        expect(await tenant.findIds(kind, id.slice(0, 30), 9), kind).toEqual(expected);
      }
      expect(await tenant.findIds(kind, uuidv7().slice(-8), 9), kind).toEqual([]);
    }
  });
}
