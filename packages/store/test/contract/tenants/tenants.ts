import type { SystemStore, TenantStore } from '@relay/core';
import { uuidv7 } from 'uuidv7';
import { describe, expect, test } from 'vitest';
import { cancelCommand, hostileText, newRun, noon, useStore, withStore } from '../fixtures.ts';
import type { Open } from '../fixtures.ts';

async function makeTenant(store: SystemStore, name = uuidv7()): Promise<TenantStore> {
  const { id } = await store.ensureTenant({ id: uuidv7(), name, at: noon });
  return store.tenant(id);
}

export function tenantTests(open: Open): void {
  const { system } = useStore(open);

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

  test('an id belongs to one tenant', async () => {
    const { tenantId: id } = await makeTenant(system());
    const again = system().ensureTenant({ id, name: uuidv7(), at: noon });
    await expect(again).rejects.toMatchObject({ code: 'storage_failed' });
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

  test('a new tenant is not paused and has no settings', async () => {
    const name = uuidv7();
    const tenant = await makeTenant(system(), name);
    const { tenantId: id } = tenant;
    const record = { id, name, createdAt: noon, pausedAt: null, settings: {} };
    expect(await tenant.readTenant()).toEqual(record);
  });

  test('a change leaves what it does not name', async () => {
    const tenant = await makeTenant(system());
    const settings = { maxRuns: 3, nested: { list: [null, 1.5, 'text'] } };
    await tenant.updateTenant({ settings });
    await tenant.updateTenant({ pausedAt: noon + 5 });
    expect(await tenant.readTenant()).toMatchObject({ pausedAt: noon + 5, settings });
    await tenant.updateTenant({});
    await tenant.updateTenant({ pausedAt: null, settings: { other: true } });
    expect(await tenant.readTenant()).toMatchObject({ pausedAt: null });
    expect((await tenant.readTenant()).settings).toEqual({ other: true });
  });

  test('workspaces in settings are listed, and nothing that only looks like one', () =>
    withStore(open, async ({ store }) => {
      const [one, two, three, four] = [
        await makeTenant(store),
        await makeTenant(store),
        await makeTenant(store),
        await makeTenant(store),
      ];
      expect(await store.workspaces()).toEqual([]);
      await one.updateTenant({ settings: { budgets: {}, workspace: '/srv/a "b"' } });
      await two.updateTenant({ settings: { note: '"workspace"', workspace: 7 } });
      await three.updateTenant({ settings: { nested: { workspace: '/srv/nested' } } });
      await four.updateTenant({ settings: { workspace: '/srv/four' } });
      expect(await store.workspaces()).toEqual(
        [
          { tenantId: one.tenantId, folder: '/srv/a "b"' },
          { tenantId: four.tenantId, folder: '/srv/four' },
        ].toSorted((a, b) => (a.tenantId < b.tenantId ? -1 : 1)),
      );
      await four.updateTenant({ settings: {} });
      expect(await store.workspaces()).toHaveLength(1);
    }));

  test('settings may be any JSON', async () => {
    const tenant = await makeTenant(system());
    const odd: unknown = JSON.parse('{"__proto__":{"polluted":true},"constructor":1,"":""}');
    for (const settings of [null, 0, 'text', [], [{}], odd]) {
      await tenant.updateTenant({ settings });
      const read = await tenant.readTenant();
      expect(JSON.stringify(read.settings)).toBe(JSON.stringify(settings));
    }
    expect(({} as { polluted?: boolean }).polluted).toBeUndefined();
  });

  for (const [name, text] of Object.entries(hostileText)) {
    test(`${name} survives in names and settings`, async () => {
      const tenantName = `${uuidv7()}${text}`;
      const tenant = await makeTenant(system(), tenantName);
      await tenant.updateTenant({ settings: { [text]: [text] } });
      const record = await tenant.readTenant();
      expect(record).toMatchObject({ name: tenantName, settings: { [text]: [text] } });
    });
  }

  test('what is read cannot be used to change what is stored', async () => {
    const tenant = await makeTenant(system());
    const settings = { list: [1] };
    await tenant.updateTenant({ settings });
    settings.list.push(2);
    Object.assign((await tenant.readTenant()).settings as object, { more: true });
    expect((await tenant.readTenant()).settings).toEqual({ list: [1] });
  });

  test('settings that another caller has changed meanwhile stay as they are', async () => {
    const tenant = await makeTenant(system());
    const settings = { budgets: { tenant: { period: 'day', tokens: 5 } } };
    expect(await tenant.updateTenant({ settings, expectedSettings: {} })).toBe(true);
    const late = { settings: { workspace: '/srv' }, expectedSettings: {}, pausedAt: noon };
    expect(await tenant.updateTenant(late)).toBe(false);
    expect(await tenant.readTenant()).toMatchObject({ settings, pausedAt: null });
    const both = { ...settings, workspace: '/srv' };
    expect(await tenant.updateTenant({ settings: both, expectedSettings: settings })).toBe(true);
    expect((await tenant.readTenant()).settings).toEqual(both);
    const nobody = system().tenant('nobody');
    await expect(nobody.updateTenant({ settings, expectedSettings: {} })).rejects.toMatchObject({
      code: 'internal',
    });
  });

  test('a tenant that was never made can be neither read nor changed', async () => {
    const tenant = system().tenant(uuidv7());
    await expect(tenant.readTenant()).rejects.toMatchObject({ code: 'internal' });
    await expect(tenant.updateTenant({ pausedAt: 1 })).rejects.toMatchObject({ code: 'internal' });
  });

  test('a change reaches one tenant alone', async () => {
    const [one, two] = [await makeTenant(system()), await makeTenant(system())];
    await one.updateTenant({ pausedAt: noon, settings: { a: 1 } });
    expect(await two.readTenant()).toMatchObject({ pausedAt: null, settings: {} });
  });

  describe('a pause', () => {
    const dueIds = async (store: SystemStore, limit = 10) =>
      (await store.dueRuns(noon, limit)).map(({ runId }) => runId);

    test('is known to the system until it is over', () =>
      withStore(open, async ({ store }) => {
        const [one, two, three] = [
          await makeTenant(store),
          await makeTenant(store),
          await makeTenant(store),
        ];
        expect(await store.pausedTenants()).toEqual([]);
        for (const tenant of [three, one]) await tenant.updateTenant({ pausedAt: noon });
        expect(await store.pausedTenants()).toEqual([one.tenantId, three.tenantId].toSorted());
        await three.updateTenant({ pausedAt: null });
        expect(await store.pausedTenants()).toEqual([one.tenantId]);
        expect((await two.readTenant()).pausedAt).toBeNull();
      }));

    test('hides its queued, abandoned and due runs, and no others', () =>
      withStore(open, async ({ store }) => {
        const [paused, going] = [await makeTenant(store), await makeTenant(store)];
        const furnish = async (tenant: TenantStore) => [
          (await newRun(tenant, { lease: null })).id,
          (await newRun(tenant, { lease: null, progress: { status: 'running' } })).id,
          (await newRun(tenant, { lease: null, progress: { status: 'waiting', wakeAt: noon } })).id,
        ];
        const held = await furnish(paused);
        const free = await furnish(going);
        await paused.updateTenant({ pausedAt: noon });
        expect(new Set(await dueIds(store))).toEqual(new Set(free));
        await paused.updateTenant({ pausedAt: null });
        expect(new Set(await dueIds(store))).toEqual(new Set([...held, ...free]));
      }));

    test('does not hide commands: a run can be canceled all the same', () =>
      withStore(open, async ({ store }) => {
        const paused = await makeTenant(store);
        const run = await newRun(paused, { lease: null, progress: { status: 'waiting' } });
        await paused.updateTenant({ pausedAt: noon });
        expect(await dueIds(store)).toEqual([]);
        await paused.postRunCommand(run.id, cancelCommand('stop'));
        expect(await store.dueRuns(noon, 10)).toEqual([
          { tenantId: paused.tenantId, runId: run.id, isCanceled: true },
        ]);
        const abandoned = await newRun(paused, { lease: null, progress: { status: 'running' } });
        await paused.postRunCommand(abandoned.id, cancelCommand('stop'));
        expect(new Set(await dueIds(store))).toEqual(new Set([run.id, abandoned.id]));
      }));

    test('leaves decided runs for later, and those of other tenants are found all the same', () =>
      withStore(open, async ({ store }) => {
        const [paused, going] = [await makeTenant(store), await makeTenant(store)];
        const decided = async (tenant: TenantStore) => {
          const run = await newRun(tenant, { lease: null, progress: { status: 'waiting' } });
          const command = { kind: 'result', toolCallId: 'call_1' } as const;
          await tenant.postRunCommand(run.id, { id: uuidv7(), command });
          return run.id;
        };
        const held: string[] = [];
        for (let n = 0; n < 5; n += 1) held.push(await decided(paused));
        const free = await decided(going);
        await paused.updateTenant({ pausedAt: noon });
        expect(await dueIds(store, 2)).toEqual([free]);
        await paused.updateTenant({ pausedAt: null });
        expect(new Set(await dueIds(store))).toEqual(new Set([...held, free]));
      }));

    test('takes no place among those that are due', () =>
      withStore(open, async ({ store }) => {
        const [paused, going] = [await makeTenant(store), await makeTenant(store)];
        for (let n = 0; n < 5; n += 1) {
          await newRun(paused, { lease: null, identity: { createdAt: noon - 9 } });
        }
        const run = await newRun(going, { lease: null });
        await paused.updateTenant({ pausedAt: noon });
        expect(await dueIds(store, 2)).toEqual([run.id]);
      }));
  });
}
