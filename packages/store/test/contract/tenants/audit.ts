import type { AuditSealing, NewAuditEntry, TenantStore } from '@relay/core';
import { uuidv7 } from 'uuidv7';
import { describe, expect, test } from 'vitest';
import { newCredential } from './credentials.ts';
import {
  allListed,
  cancelCommand,
  decisionOn,
  ending,
  hostileText,
  newAudit,
  newRun,
  noon,
  person,
  step,
  useStore,
  waitingRun,
} from '../fixtures.ts';
import type { Open } from '../fixtures.ts';
import { newKey } from './keys.ts';

function sealing(after: number, entries: readonly NewAuditEntry[]): AuditSealing {
  return {
    seal: {
      firstSeq: after + 1,
      lastSeq: after + entries.length,
      hash: `hash ${after + entries.length}`,
      at: noon,
      proof: 'sealed',
    },
    entries: entries.map(({ id, at }, n) => {
      const seq = after + 1 + n;
      return { id, at, seq, hash: `hash ${seq}`, proof: `placed ${seq}` };
    }),
  };
}

const all = { after: 0, limit: 100 };

export function auditTests(open: Open): void {
  const { system, tenant: newTenant } = useStore(open);

  const waiting = async (tenant: TenantStore) =>
    (await tenant.audit.unsealed(100)).map(({ id }) => id);

  test('entries wait for their places, the oldest first, and read back as they were written', async () => {
    const tenant = newTenant();
    const late = newAudit({ at: noon + 1, runId: uuidv7() });
    const early = newAudit({ text: JSON.stringify({ why: hostileText }) });
    await tenant.audit.add([late, early]);
    expect(await tenant.audit.unsealed(100)).toEqual([early, late]);
    expect(await tenant.audit.unsealed(1)).toEqual([early]);
    expect((await tenant.audit.list({}, { limit: 9 })).items).toEqual([]);
    expect(await tenant.audit.read(all)).toEqual([]);
    expect(await tenant.audit.head()).toBeUndefined();
  });

  test('a seal gives entries their places', async () => {
    const tenant = newTenant();
    const [first, second, third] = [newAudit(), newAudit(), newAudit()];
    await tenant.audit.add([first, second, third]);
    expect(await tenant.audit.seal(sealing(0, [first, second]))).toBe(true);
    expect(await waiting(tenant)).toEqual([third.id]);
    expect(await tenant.audit.seal(sealing(2, [third]))).toBe(true);
    expect(await tenant.audit.read(all)).toEqual(
      [first, second, third].map((entry, n) => ({
        ...entry,
        seq: n + 1,
        hash: `hash ${n + 1}`,
        proof: `placed ${n + 1}`,
      })),
    );
    expect(await tenant.audit.read({ after: 1, limit: 1 })).toMatchObject([{ id: second.id }]);
    expect(await tenant.audit.head()).toEqual(sealing(2, [third]).seal);
    const seals = [sealing(0, [first, second]).seal, sealing(2, [third]).seal];
    expect(await tenant.audit.seals(all)).toEqual(seals);
    expect(await tenant.audit.seals({ after: 1, limit: 9 })).toEqual(seals.slice(1));
  });

  test('of several who seal at once one wins, and the others change nothing', async () => {
    const tenant = newTenant();
    const entries = [newAudit(), newAudit(), newAudit()];
    await tenant.audit.add(entries);
    const outcomes = await Promise.all(
      entries.map((entry) => tenant.audit.seal(sealing(0, [entry]))),
    );
    expect(outcomes.filter(Boolean)).toHaveLength(1);
    expect(await waiting(tenant)).toHaveLength(2);
    expect(await tenant.audit.read(all)).toHaveLength(1);
    expect(await tenant.audit.seals(all)).toHaveLength(1);
  });

  test('an entry is sealed once', async () => {
    const tenant = newTenant();
    const [entry, other] = [newAudit(), newAudit()];
    await tenant.audit.add([entry, other]);
    await tenant.audit.seal(sealing(0, [entry]));
    expect(await tenant.audit.seal(sealing(1, [other, entry]))).toBe(false);
    expect(await waiting(tenant)).toEqual([other.id]);
    expect((await tenant.audit.head())?.lastSeq).toBe(1);
  });

  test('a trail is its tenant’s alone', async () => {
    const [owner, stranger] = [newTenant(), newTenant()];
    const entry = newAudit();
    await owner.audit.add([entry]);
    expect(await stranger.audit.unsealed(9)).toEqual([]);
    expect(await stranger.audit.seal(sealing(0, [entry]))).toBe(false);
    expect(await owner.audit.seal(sealing(0, [entry]))).toBe(true);
    expect((await stranger.audit.list({}, { limit: 9 })).items).toEqual([]);
    expect(await stranger.audit.read(all)).toEqual([]);
    expect(await stranger.audit.seals(all)).toEqual([]);
    expect(await stranger.audit.head()).toBeUndefined();
  });

  test('tenants with entries to seal are listed, once each', async () => {
    const [one, two, idle] = [newTenant(), newTenant(), newTenant()];
    const done = newAudit();
    await idle.audit.add([done]);
    await idle.audit.seal(sealing(0, [done]));
    await one.audit.add([newAudit(), newAudit()]);
    await two.audit.add([newAudit()]);
    const listed = await system().tenantsToSeal({ limit: 1_000 });
    expect(listed).toEqual(listed.toSorted());
    expect(listed.filter((id) => id === one.tenantId)).toHaveLength(1);
    expect(listed).toContain(two.tenantId);
    expect(listed).not.toContain(idle.tenantId);
    const [first = '', second = ''] = listed.toSorted();
    expect(await system().tenantsToSeal({ limit: 1 })).toEqual([first]);
    expect(await system().tenantsToSeal({ after: first, limit: 1 })).toEqual([second]);
    expect(await system().tenantsToSeal({ after: listed.at(-1) ?? '', limit: 1 })).toEqual([]);
  });

  test('a list is filtered by whatever is named, newest first and page by page', async () => {
    const tenant = newTenant();
    const runId = uuidv7();
    const entries = Array.from({ length: 12 }, (_, n) =>
      newAudit({
        at: noon + Math.floor(n / 2),
        action: n % 2 === 0 ? 'key.created' : 'run.started',
        actor: n % 3 === 0 ? 'ada' : 'bob',
        runId: n % 4 === 0 ? runId : null,
      }),
    );
    await tenant.audit.add(entries);
    await tenant.audit.seal(sealing(0, entries));
    const where = (holds: (n: number) => boolean) =>
      entries.flatMap(({ id }, n) => (holds(n) ? [id] : [])).toReversed();
    const list = (filter: Parameters<TenantStore['audit']['list']>[0]) =>
      allListed(5, (page) => tenant.audit.list(filter, page));
    expect(await list({})).toEqual(where(() => true));
    expect(await list({ action: 'key.created' })).toEqual(where((n) => n % 2 === 0));
    expect(await list({ actor: 'ada' })).toEqual(where((n) => n % 3 === 0));
    expect(await list({ runId })).toEqual(where((n) => n % 4 === 0));
    expect(await list({ runId, actor: 'ada', action: 'key.created' })).toEqual(
      where((n) => n % 12 === 0),
    );
    expect(await list({ since: noon + 1, until: noon + 3 })).toEqual(where((n) => n >= 2 && n < 6));
    expect(await list({ until: noon })).toEqual([]);
  });

  test('what few of many entries match is found, whichever of the filters has fewer', async () => {
    const tenant = newTenant();
    const names = ['ada', 'bob'] as const;
    const entries = Array.from({ length: 2_400 }, (_, n) =>
      newAudit({
        at: noon + Math.floor(n / 700),
        action: n % 2 === 0 ? 'key.created' : 'run.started',
        actor: names[n === 7 || n === 1_500 || n === 2_399 ? 1 - (n % 2) : n % 2] ?? '',
      }),
    );
    await tenant.audit.add(entries);
    await tenant.audit.seal(sealing(0, entries));
    const list = (limit: number, filter: Parameters<TenantStore['audit']['list']>[0]) =>
      allListed(limit, (page) => tenant.audit.list(filter, page));
    const idsAt = (...all: number[]) => all.map((n) => entries[n]?.id);
    for (const limit of [1, 2, 50]) {
      expect(await list(limit, { action: 'run.started', actor: 'ada' })).toEqual(idsAt(2_399, 7));
      expect(await list(limit, { action: 'key.created', actor: 'bob' })).toEqual(idsAt(1_500));
    }
    const recent = { action: 'run.started', actor: 'ada', since: noon + 1 } as const;
    expect(await list(1, recent)).toEqual(idsAt(2_399));
    expect(await list(1, { ...recent, until: noon + 3 })).toEqual([]);
  });

  describe('what an entry tells of', () => {
    /** Each stores its entry, or finds that there is nothing to tell of. */
    const deeds: [string, (tenant: TenantStore, audit: NewAuditEntry[]) => Promise<unknown>][] = [
      ['a run', (tenant, audit) => newRun(tenant, { audit } as Parameters<typeof newRun>[1])],
      [
        'a step of a run',
        async (tenant, audit) => tenant.append(step(await newRun(tenant), { audit })),
      ],
      [
        'a decision',
        async (tenant, audit) => {
          const { approval } = await waitingRun(tenant);
          expect(await tenant.decideApproval(decisionOn(approval, { audit }))).toBe(true);
        },
      ],
      [
        'a grant, and its end',
        async (tenant, audit) => {
          const id = uuidv7();
          const scope = { scope: 'tenant', scopeId: tenant.tenantId } as const;
          const grant = { id, tool: 'x', ...scope, createdAt: noon, createdBy: person };
          await tenant.addGrant(grant, audit.slice(0, 1));
          expect(await tenant.revokeGrant(id, noon, audit.slice(1))).toBe(true);
        },
      ],
      [
        'a command',
        async (tenant, audit) =>
          tenant.postRunCommand((await newRun(tenant)).id, cancelCommand('stop'), audit),
      ],
      [
        'a tenant',
        async (tenant, audit) => {
          await system().ensureTenant({ id: tenant.tenantId, name: tenant.tenantId, at: noon });
          await tenant.updateTenant({ pausedAt: noon }, audit);
        },
      ],
      [
        'a key, and its end',
        async (tenant, audit) => {
          const key = newKey({ tenantId: tenant.tenantId });
          await system().addKey(key, `hash of ${key.id}`, audit.slice(0, 1));
          expect(await tenant.revokeKey(key.id, noon, audit.slice(1))).toBe(true);
        },
      ],
      [
        'a credential, and its end',
        async (tenant, audit) => {
          await tenant.putCredential(newCredential(), audit.slice(0, 1));
          expect(await tenant.deleteCredential('openai', audit.slice(1))).toBe(true);
        },
      ],
    ];

    test.each(deeds)('%s is stored with it', async (_what, deed) => {
      const tenant = newTenant();
      const audit = [newAudit(), newAudit()];
      await deed(tenant, audit);
      expect((await waiting(tenant)).toSorted()).toEqual(audit.map(({ id }) => id).toSorted());
    });

    test('is not there if it did not happen', async () => {
      const tenant = newTenant();
      const audit = [newAudit()];
      const { run, approval } = await waitingRun(tenant);
      expect(await tenant.append(step(run, { epoch: 9, audit }))).toBe('fenced');
      expect(await tenant.revokeGrant(uuidv7(), noon, audit)).toBe(false);
      expect(await tenant.revokeKey(uuidv7(), noon, audit)).toBe(false);
      expect(await tenant.deleteCredential('nobody', audit)).toBe(false);
      expect(await tenant.decideApproval(decisionOn(approval))).toBe(true);
      expect(await tenant.decideApproval(decisionOn(approval, { status: 'denied', audit }))).toBe(
        false,
      );
      const over = await newRun(tenant);
      await tenant.append(ending(over));
      expect(await tenant.postRunCommand(over.id, cancelCommand('late'), audit)).toBe(false);
      const key = newKey({ tenantId: tenant.tenantId });
      await system().addKey(key, `hash of ${key.id}`);
      await expect(system().addKey(key, `hash of ${key.id}`, audit)).rejects.toThrow();
      expect(await waiting(tenant)).toEqual([]);
    });

    test('does not happen where the entry cannot be stored', async () => {
      const tenant = newTenant();
      const taken = newAudit();
      await tenant.audit.add([taken]);
      const { approval } = await waitingRun(tenant);
      await expect(
        tenant.decideApproval(decisionOn(approval, { audit: [taken] })),
      ).rejects.toThrow();
      await expect(tenant.putCredential(newCredential(), [taken])).rejects.toThrow();
      expect(await tenant.readApproval(approval.id)).toMatchObject({ status: 'pending' });
      expect(await tenant.listCredentials()).toEqual([]);
    });
  });
}
