import type { SystemStore } from '@relay/core';
import { setImmediate as turn } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { storeContract } from './contract/store-contract.ts';
import {
  decisionOn,
  cancelCommand,
  ending,
  identityIn,
  newApproval,
  newRun,
  noon,
  step,
} from './contract/fixtures.ts';
import { createMemoryStore } from '../src/index.ts';
import { createFaultyStore } from './faulty-store.ts';

storeContract('a faulty store without a fault', async () => {
  const inner = createMemoryStore();
  const store = createFaultyStore(inner);
  return {
    store,
    reopen: async () => createFaultyStore(inner),
    dispose: () => store.close(),
  };
});

/** Creates a run with a fixed id, asks, is answered, and ends: writes of every kind. */
async function scenario(store: SystemStore): Promise<string> {
  const tenant = store.tenant('tenant');
  const run = await newRun(tenant, { identity: { id: 'run' }, connection: { id: 'c', node: 'n' } });
  const approval = newApproval(run, { id: 'relay' });
  await tenant.append(
    step(run, { approvals: [approval], progress: { status: 'waiting' }, release: true }),
  );
  await tenant.decideApproval(decisionOn(approval));
  await tenant.postRunCommand(run.id, cancelCommand('stop'));
  await store.claimRun(run.id, { owner: 'node-2', now: noon, until: noon + 1 });
  await store.renewLeases('node-2', { runIds: [run.id], now: noon, until: noon + 2 });
  await tenant.closeConnection('c');
  await tenant.append(ending(run, { epoch: 2, afterSeq: 2 }));
  return 'done';
}

const labels = [
  'createRun',
  'append text.appended',
  'decideApproval',
  'postRunCommand',
  'claimRun',
  'closeConnection',
  'append text.appended',
];

async function outcomeOf(promise: Promise<unknown>): Promise<unknown> {
  for (let i = 0; i < 50; i += 1) await turn();
  return Promise.race([promise, Promise.resolve('still waiting')]);
}

/** Enough of the store to tell how far the scenario came. */
async function progressOf(inner: SystemStore): Promise<number> {
  const tenant = inner.tenant('tenant');
  const run = await tenant.readRun('run');
  const approval = await tenant.readApproval('relay');
  const queued = await tenant.readInbox('run');
  return [
    run !== undefined,
    approval !== undefined,
    approval?.status === 'approved',
    queued.length === 2 || run?.status === 'completed',
    run?.epoch === 2,
    run?.status === 'completed',
    run !== undefined && (await tenant.findConnection('c')) === undefined,
  ].filter(Boolean).length;
}

describe('a faulty store', () => {
  test('counts and names the writes of a scenario that runs through', async () => {
    const store = createFaultyStore(createMemoryStore());
    expect(await scenario(store)).toBe('done');
    expect(store.writes).toEqual(labels);
    expect(await outcomeOf(store.crashed)).toBe('still waiting');
  });

  for (const when of ['before', 'after'] as const) {
    test(`dies ${when} each write, and nothing comes back from then on`, async () => {
      for (let crashAt = 1; crashAt <= labels.length; crashAt += 1) {
        const inner = createMemoryStore();
        const store = createFaultyStore(inner, { crashAt, when });
        const running = scenario(store);
        await store.crashed;
        expect(await outcomeOf(running)).toBe('still waiting');
        expect(store.writes).toEqual(labels.slice(0, crashAt));
        expect(await progressOf(inner)).toBe(when === 'before' ? crashAt - 1 : crashAt);
        for (const call of [
          store.tenant('tenant').readRun('run'),
          store.findKey('hash'),
          store.dueRuns(noon, 1),
          store.ping(),
          store.close(),
        ]) {
          expect(await outcomeOf(call)).toBe('still waiting');
        }
      }
    });
  }

  for (const when of ['before', 'after'] as const) {
    test(`${when} a creation with a key, both the run and the key are there or neither`, async () => {
      const inner = createMemoryStore();
      const idempotency = { key: 'k', fingerprint: 'f', expiresAt: noon + 1 };
      const doomed = createFaultyStore(inner, { crashAt: 1, when });
      void newRun(doomed.tenant('tenant'), { identity: { id: 'run' }, idempotency });
      await doomed.crashed;
      const tenant = inner.tenant('tenant');
      const isThere = when === 'after';
      expect(await tenant.readRun('run')).toEqual(isThere ? expect.anything() : undefined);
      const identity = identityIn(tenant, { id: 'again' });
      const made = await tenant.createRun({ identity, lease: null, events: [], idempotency });
      const exists = { kind: 'exists', runId: 'run', fingerprint: 'f' };
      expect(made).toEqual(isThere ? exists : { kind: 'created' });
    });
  }

  test('a crash beyond the last write never comes', async () => {
    const store = createFaultyStore(createMemoryStore(), { crashAt: labels.length + 1 });
    expect(await scenario(store)).toBe('done');
  });

  test('a call that was on its way when the process died does not come back', async () => {
    const inner = createMemoryStore();
    const { promise: gate, resolve: openGate } = Promise.withResolvers<void>();
    const slow: SystemStore = Object.create(inner, {
      ping: { value: () => gate },
      tenant: { value: (id: string) => inner.tenant(id) },
      claimRun: { value: () => Promise.resolve(undefined) },
    }) as SystemStore;
    const store = createFaultyStore(slow, { crashAt: 1, when: 'before' });
    const pinging = store.ping();
    void store.claimRun('run', { owner: 'n', now: 0, until: 1 });
    await store.crashed;
    openGate();
    expect(await outcomeOf(pinging)).toBe('still waiting');
  });

  test('a write that fails by itself still counts as the one to die after', async () => {
    const store = createFaultyStore(createMemoryStore(), { crashAt: 2, when: 'after' });
    const tenant = store.tenant('tenant');
    await newRun(tenant, { identity: { id: 'run' } });
    const again = newRun(tenant, { identity: { id: 'run' } });
    await store.crashed;
    expect(await outcomeOf(again)).toBe('still waiting');
  });

  test('errors pass through while the process lives', async () => {
    const store = createFaultyStore(createMemoryStore());
    const tenant = store.tenant('tenant');
    await newRun(tenant, { identity: { id: 'run' } });
    const again = newRun(tenant, { identity: { id: 'run' } });
    await expect(again).rejects.toMatchObject({ code: 'storage_failed' });
  });
});
