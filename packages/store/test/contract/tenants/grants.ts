import type { GrantRecord, NewGrant, TenantStore } from '@relay/core';
import { uuidv7 } from 'uuidv7';
import { expect, test } from 'vitest';
import { allPages, delta, newRun, noon, person, step, useStore } from '../fixtures.ts';
import type { Open } from '../fixtures.ts';

export function newGrant(tenant: TenantStore, over: Partial<NewGrant> = {}): NewGrant {
  return {
    id: uuidv7(),
    tool: 'send_note',
    exact: { to: 'ada' },
    scope: 'tenant',
    scopeId: tenant.tenantId,
    createdAt: noon,
    createdBy: person,
    ...over,
  };
}

export function grantTests(open: Open): void {
  const { tenant: newTenant } = useStore(open);

  const active = (tenant: TenantStore, now = noon) =>
    tenant.readGrants({ runId: uuidv7(), conversationId: uuidv7(), owner: 'ada', now });
  const idsOf = (grants: readonly { id: string }[]) => grants.map(({ id }) => id);

  test('a grant reads back as it was made', async () => {
    const tenant = newTenant();
    const plain = newGrant(tenant);
    const bounded = newGrant(tenant, {
      params: { text: 'a*\u0000' },
      scope: 'run',
      scopeId: uuidv7(),
      expiresAt: noon + 1,
      uses: 3,
    });
    for (const grant of [plain, bounded]) await tenant.addGrant(grant);
    expect(await tenant.readGrant(plain.id)).toEqual(plain);
    expect(await tenant.readGrant(bounded.id)).toEqual({ ...bounded, usesLeft: 3 });
    expect(await tenant.readGrant(uuidv7())).toBeUndefined();
  });

  test('a grant of the tenant holds in every run of it, and in no other tenant', async () => {
    const tenant = newTenant();
    const grant = newGrant(tenant);
    await tenant.addGrant(grant);
    expect(await active(tenant)).toEqual([{ id: grant.id, tool: grant.tool, exact: grant.exact }]);
    const other = newTenant();
    expect(await active(other)).toEqual([]);
    const disguised = {
      runId: tenant.tenantId,
      conversationId: tenant.tenantId,
      owner: 'ada',
      now: noon,
    };
    expect(await other.readGrants(disguised)).toEqual([]);
    expect(await other.readGrant(grant.id)).toBeUndefined();
    expect(await other.listGrants({}, { limit: 9 })).toEqual([]);
    expect(await other.revokeGrant(grant.id, noon)).toBe(false);
    expect(await active(tenant)).toHaveLength(1);
  });

  test('the id of a tenant, as a run or a conversation, does not make a grant the tenant’s', async () => {
    const tenant = newTenant();
    for (const scope of ['run', 'conversation'] as const) {
      await tenant.addGrant(newGrant(tenant, { scope }));
    }
    expect(await active(tenant)).toEqual([]);
  });

  test('a grant holds until the moment of its expiry and not at it', async () => {
    const tenant = newTenant();
    await tenant.addGrant(newGrant(tenant, { expiresAt: noon + 10 }));
    expect(await active(tenant, noon + 9)).toHaveLength(1);
    expect(await active(tenant, noon + 10)).toEqual([]);
  });

  test('a grant that was revoked holds no more, and the first time stays', async () => {
    const tenant = newTenant();
    const grant = newGrant(tenant);
    await tenant.addGrant(grant);
    expect(await tenant.revokeGrant(grant.id, noon + 1)).toBe(true);
    expect(await tenant.revokeGrant(grant.id, noon + 2)).toBe(false);
    expect(await tenant.revokeGrant(uuidv7(), noon)).toBe(false);
    expect(await active(tenant)).toEqual([]);
    expect(await tenant.readGrant(grant.id)).toEqual({ ...grant, revokedAt: noon + 1 });
  });

  test('a counted grant is used up by the steps that name it, and then undoes them', async () => {
    const tenant = newTenant();
    const run = await newRun(tenant);
    const grant = newGrant(tenant, { uses: 3 });
    await tenant.addGrant(grant);
    const use = (afterSeq: number, times = 1) =>
      tenant.append(step(run, { afterSeq, useGrants: Array(times).fill(grant.id) }));
    expect(await use(1)).toBe('committed');
    expect(await active(tenant)).toMatchObject([{ id: grant.id, usesLeft: 2 }]);
    expect(await use(2, 3)).toBe('refused');
    expect(await active(tenant)).toMatchObject([{ usesLeft: 2 }]);
    expect(await use(2, 2)).toBe('committed');
    expect(await active(tenant)).toEqual([]);
    expect(await use(3)).toBe('refused');
    expect(await tenant.readRun(run.id)).toMatchObject({ lastSeq: 3 });
    expect(await tenant.readGrant(grant.id)).toMatchObject({ uses: 3, usesLeft: 0 });
    expect(await tenant.append(step(run, { afterSeq: 3 }))).toBe('committed');
  });

  test('a step that is fenced out uses nothing up', async () => {
    const tenant = newTenant();
    const run = await newRun(tenant);
    const grant = newGrant(tenant, { uses: 1 });
    await tenant.addGrant(grant);
    const useGrants = [grant.id];
    expect(await tenant.append(step(run, { epoch: 9, useGrants }))).toBe('fenced');
    expect(await tenant.append(step(run, { afterSeq: 7, useGrants }))).toBe('fenced');
    expect(await active(tenant)).toMatchObject([{ usesLeft: 1 }]);
  });

  test('a grant that has expired, was revoked, is not counted or is another’s cannot be used', async () => {
    const tenant = newTenant();
    const run = await newRun(tenant);
    const other = newTenant();
    const grants = [
      newGrant(tenant, { uses: 9, expiresAt: noon }),
      newGrant(tenant, { uses: 9 }),
      newGrant(tenant),
    ];
    for (const grant of grants) await tenant.addGrant(grant);
    await tenant.revokeGrant(grants[1]?.id ?? '', noon);
    const foreign = newGrant(other, { uses: 9 });
    await other.addGrant(foreign);
    for (const { id } of [...grants, foreign]) {
      expect(await tenant.append(step(run, { useGrants: [id] }))).toBe('refused');
    }
    expect(await other.readGrant(foreign.id)).toMatchObject({ usesLeft: 9 });
  });

  test('of 30 racing steps as many use a grant as it allows', async () => {
    const tenant = newTenant();
    const grant = newGrant(tenant, { uses: 7 });
    await tenant.addGrant(grant);
    const runs = await Promise.all(Array.from({ length: 30 }, () => newRun(tenant)));
    const outcomes = await Promise.all(
      runs.map((run) => tenant.append(step(run, { events: [delta('x')], useGrants: [grant.id] }))),
    );
    expect(outcomes.filter((outcome) => outcome === 'committed')).toHaveLength(7);
    expect(outcomes.filter((outcome) => outcome === 'refused')).toHaveLength(23);
    expect(await tenant.readGrant(grant.id)).toMatchObject({ usesLeft: 0 });
  });

  test('lists go newest first, by pages, and by what is asked for', async () => {
    const tenant = newTenant();
    const runId = uuidv7();
    const made: GrantRecord[] = [];
    for (let n = 0; n < 12; n += 1) {
      const grant = newGrant(tenant, {
        createdAt: noon + Math.floor(n / 3),
        tool: n % 2 === 0 ? 'bash' : 'send_note',
        ...(n % 4 === 0 ? { scope: 'run', scopeId: runId } : {}),
        ...(n === 5 ? { expiresAt: noon + 5 } : {}),
      });
      await tenant.addGrant(grant);
      made.push(grant);
    }
    await tenant.revokeGrant(made[7]?.id ?? '', noon);
    const newestFirst = made
      .toSorted((a, b) => b.createdAt - a.createdAt || (a.id < b.id ? 1 : -1))
      .map(({ id }) => id);
    for (const limit of [1, 4, 50]) {
      const read = (page: Parameters<TenantStore['listGrants']>[1]) => tenant.listGrants({}, page);
      expect(await allPages(limit, read, ({ createdAt }) => createdAt)).toEqual(newestFirst);
    }
    const list = async (filter: Parameters<TenantStore['listGrants']>[0]) =>
      idsOf(await tenant.listGrants(filter, { limit: 50 }));
    const where = (is: (n: number) => boolean) =>
      newestFirst.filter((id) => is(made.findIndex((grant) => grant.id === id)));
    expect(await list({ tool: 'bash' })).toEqual(where((n) => n % 2 === 0));
    expect(await list({ scope: 'run', scopeId: runId })).toEqual(where((n) => n % 4 === 0));
    expect(await list({ scope: 'tenant', tool: 'bash' })).toEqual(where((n) => n % 4 === 2));
    expect(await list({ activeAt: noon + 5 })).toEqual(where((n) => n !== 5 && n !== 7));
    expect(await list({ activeAt: noon })).toEqual(where((n) => n !== 7));
  });
}
