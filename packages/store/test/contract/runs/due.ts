import type { RunCreation, SystemStore, TenantStore } from '@relay/core';
import { uuidv7 } from 'uuidv7';
import { expect, test } from 'vitest';
import { cancelCommand, messageCommand, ending, newRun, noon, withStore } from '../fixtures.ts';
import type { Open } from '../fixtures.ts';

const soon = noon + 1_000;
const held = { owner: 'node-1', until: soon };
const ranOut = { owner: 'node-1', until: noon };

interface Case {
  readonly run: Pick<RunCreation, 'lease' | 'progress'>;
  readonly queued?: boolean;
  readonly due: boolean;
}

const cases: Record<string, Case> = {
  'queued, without a lease': { run: { lease: null }, due: true },
  'queued, held': { run: { lease: held }, due: false },
  'running, left behind by a release': {
    run: { lease: null, progress: { status: 'running' } },
    due: true,
  },
  'running, its lease run out': {
    run: { lease: ranOut, progress: { status: 'running' } },
    due: true,
  },
  'running, held': { run: { lease: held, progress: { status: 'running' } }, due: false },
  'running, held, with a command': {
    run: { lease: held, progress: { status: 'running' } },
    queued: true,
    due: false,
  },
  'waiting for nothing but a person': {
    run: { lease: null, progress: { status: 'waiting' } },
    due: false,
  },
  'waiting until later': {
    run: { lease: null, progress: { status: 'waiting', wakeAt: noon + 1 } },
    due: false,
  },
  'waiting until now': {
    run: { lease: null, progress: { status: 'waiting', wakeAt: noon } },
    due: true,
  },
  'waiting until now, held': {
    run: { lease: held, progress: { status: 'waiting', wakeAt: noon } },
    due: false,
  },
  'waiting, with a command': {
    run: { lease: null, progress: { status: 'waiting' } },
    queued: true,
    due: true,
  },
  'waiting, with a command, held': {
    run: { lease: held, progress: { status: 'waiting' } },
    queued: true,
    due: false,
  },
  'waiting, with a command, its lease run out': {
    run: { lease: ranOut, progress: { status: 'waiting' } },
    queued: true,
    due: true,
  },
  'waiting, its lease run out, without a command': {
    run: { lease: ranOut, progress: { status: 'waiting' } },
    due: false,
  },
};

export function dueTests(open: Open): void {
  const dueIds = async (store: SystemStore, limit = 100) =>
    (await store.dueRuns(noon, limit)).map(({ runId }) => runId);

  const oneTenant = (store: SystemStore): TenantStore => store.tenant(uuidv7());

  test('a run is due exactly when it has no lease and has something to do', () =>
    withStore(open, async ({ store }) => {
      const expected: string[] = [];
      const names = new Map<string, string>();
      for (const [name, { run, queued, due }] of Object.entries(cases)) {
        const made = await newRun(oneTenant(store), run);
        names.set(made.id, name);
        if (queued === true) await made.tenant.postRunCommand(made.id, cancelCommand('stop'));
        if (due) expected.push(name);
      }
      const found = (await dueIds(store)).map((id) => names.get(id));
      expect(new Set(found)).toEqual(new Set(expected));
      expect(found).toHaveLength(expected.length);
    }));

  test('a message or a pause does not make a waiting run due, and a resumption does', () =>
    withStore(open, async ({ store }) => {
      const tenant = oneTenant(store);
      const run = await newRun(tenant, { lease: null, progress: { status: 'waiting' } });
      await tenant.postRunCommand(run.id, messageCommand('m1'));
      await tenant.postRunCommand(run.id, { id: uuidv7(), command: { kind: 'pause' } });
      expect(await dueIds(store)).toEqual([]);
      await tenant.postRunCommand(run.id, { id: uuidv7(), command: { kind: 'resume' } });
      expect(await dueIds(store)).toEqual([run.id]);
    }));

  test('a run that is over is never due', () =>
    withStore(open, async ({ store }) => {
      const tenant = oneTenant(store);
      for (const status of ['completed', 'failed', 'canceled'] as const) {
        const run = await newRun(tenant);
        await tenant.postRunCommand(run.id, cancelCommand('stop'));
        await tenant.append(ending(run, { progress: { status, wakeAt: noon } }));
      }
      expect(await dueIds(store)).toEqual([]);
    }));

  test('a run that is due for several reasons is named once', () =>
    withStore(open, async ({ store }) => {
      const tenant = oneTenant(store);
      const run = await newRun(tenant, {
        lease: null,
        progress: { status: 'waiting', wakeAt: noon },
      });
      await tenant.postRunCommand(run.id, cancelCommand('1'));
      await tenant.postRunCommand(run.id, cancelCommand('2'));
      expect(await store.dueRuns(noon, 10)).toEqual([
        { tenantId: tenant.tenantId, runId: run.id, isCanceled: false },
      ]);
    }));

  test('the oldest come first, whatever their reason and tenant, up to the limit for each', () =>
    withStore(open, async ({ store }) => {
      const ids: string[] = [];
      for (const age of [3, 1, 5, 2, 4, 0]) {
        const run = await newRun(oneTenant(store), {
          identity: { createdAt: noon - age },
          lease: null,
          progress: age % 2 === 0 ? { status: 'waiting', wakeAt: noon } : {},
        });
        ids[5 - age] = run.id;
      }
      expect(await dueIds(store)).toEqual(ids);
      const [queued, waiting] = [0, 1].map((odd) => ids.filter((_, index) => index % 2 === odd));
      for (const limit of [0, 1, 2, 3]) {
        const first = new Set([queued, waiting].flatMap((reason) => reason?.slice(0, limit) ?? []));
        expect(await dueIds(store, limit)).toEqual(ids.filter((id) => first.has(id)));
      }
    }));

  test('a long queue of one tenant does not hide the others, who take turns with it', () =>
    withStore(open, async ({ store }) => {
      const [busy, quiet] = [store.tenant(uuidv7()), store.tenant(uuidv7())];
      const queue = (tenant: TenantStore, createdAt: number) =>
        newRun(tenant, { lease: null, identity: { createdAt } });
      const first: string[] = [];
      for (let n = 0; n < 12; n += 1) first.push((await queue(busy, noon - 100 + n)).id);
      const late = [await queue(quiet, noon - 2), await queue(quiet, noon - 1)];
      const due = (await store.dueRuns(noon, 4)).map(({ runId }) => runId);
      expect(due).toEqual([...first.slice(0, 2), ...late.map(({ id }) => id)]);
      expect(await store.dueRuns(noon, 100)).toHaveLength(14);
    }));

  test('tenants take turns among expired runs and among runs with commands, too', () =>
    withStore(open, async ({ store }) => {
      const [busy, quiet] = [store.tenant(uuidv7()), store.tenant(uuidv7())];
      const waiting = { lease: null, progress: { status: 'waiting' } } as const;
      for (let n = 0; n < 12; n += 1) {
        const older = { identity: { createdAt: noon - 100 } };
        const wakeAt = noon - 100;
        await newRun(busy, { ...waiting, ...older, progress: { status: 'waiting', wakeAt } });
        const { id } = await newRun(busy, { ...waiting, ...older });
        await busy.postRunCommand(id, cancelCommand('stop'));
        await busy.postRunCommand(id, cancelCommand('once more'));
      }
      const overdue = await newRun(quiet, {
        ...waiting,
        progress: { status: 'waiting', wakeAt: noon },
      });
      const commanded = await newRun(quiet, waiting);
      await quiet.postRunCommand(commanded.id, cancelCommand('stop'));
      const due = await store.dueRuns(noon, 4);
      expect(due.filter(({ tenantId }) => tenantId === busy.tenantId)).toHaveLength(4);
      expect(due.map(({ runId }) => runId)).toEqual(
        expect.arrayContaining([overdue.id, commanded.id]),
      );
    }));

  test('a long queue hides neither expired runs nor runs with commands', () =>
    withStore(open, async ({ store }) => {
      for (let n = 0; n < 5; n += 1) {
        await newRun(oneTenant(store), { identity: { createdAt: noon - 9 }, lease: null });
      }
      const tenant = oneTenant(store);
      const late = { identity: { createdAt: noon }, lease: null };
      const overdue = await newRun(tenant, {
        ...late,
        progress: { status: 'waiting', wakeAt: noon },
      });
      const commanded = await newRun(tenant, { ...late, progress: { status: 'waiting' } });
      await tenant.postRunCommand(commanded.id, cancelCommand('stop'));
      const due = await dueIds(store, 2);
      expect(due).toContain(overdue.id);
      expect(due).toContain(commanded.id);
    }));

  test('reclaiming makes what an earlier process held due', () =>
    withStore(open, async ({ store }) => {
      const run = await newRun(oneTenant(store), { progress: { status: 'running' } });
      expect(await dueIds(store)).toEqual([]);
      await store.releaseAllLeases();
      expect(await dueIds(store)).toEqual([run.id]);
    }));

  test('a run stops being due when it is claimed', () =>
    withStore(open, async ({ store }) => {
      const run = await newRun(oneTenant(store), { lease: null });
      expect(await dueIds(store)).toEqual([run.id]);
      await store.claimRun(run.id, { owner: 'node-1', now: noon, until: soon });
      expect(await dueIds(store)).toEqual([]);
    }));
}
