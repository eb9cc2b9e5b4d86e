/** That one tenant's handlers leave places for those of the others. */
import { invokeAction } from '@relay/core';
import { createMemoryStore } from '@relay/store';
import { uuidv7 } from 'uuidv7';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { invocationEngine } from '../support/invocations.ts';

describe('invocations of several tenants', () => {
  /** The handlers that run, by their tenants, and how each ends. */
  let running: { readonly tenantId: string; readonly end: () => void }[];
  let engine: ReturnType<typeof invocationEngine>;

  beforeEach(() => {
    running = [];
    engine = invocationEngine(createMemoryStore(), {
      handler: (_input, { tenantId }) =>
        new Promise<void>((resolve) => running.push({ tenantId, end: resolve })),
    });
  });

  afterEach(async () => {
    const stopped = engine.invocations.stop();
    for (const { end } of running) end();
    await stopped;
    await engine.store.close();
  });

  async function newTenant(): Promise<string> {
    return (await engine.store.ensureTenant({ id: uuidv7(), name: uuidv7(), at: 0 })).id;
  }

  function invoke(tenantId: string) {
    const by = { type: 'key', id: 'key-1', name: 'Ada' } as const;
    return invokeAction(engine, { tenantId, from: by, by }, { action: 'act', input: {} });
  }

  const runningOf = (tenantId: string) =>
    running.filter((each) => each.tenantId === tenantId).length;

  it('one starts while another tenant has a thousand slow ones', async () => {
    const [busy, other] = [await newTenant(), await newTenant()];
    await Promise.all(Array.from({ length: 1_000 }, () => invoke(busy)));
    expect(runningOf(busy)).toBe(128);
    const { invocation } = await invoke(other);
    expect(invocation.startedAt).not.toBeNull();
    expect(runningOf(other)).toBe(1);
    expect(runningOf(busy)).toBe(128);
  });

  it('places that become free go to the tenants in turn, and all are carried out', async () => {
    const tenants = [await newTenant(), await newTenant(), await newTenant()];
    for (const tenantId of tenants) {
      await Promise.all(Array.from({ length: 200 }, () => invoke(tenantId)));
    }
    expect(tenants.map(runningOf)).toEqual([128, 64, 32]);
    engine.invocations.begin();
    let ended = 0;
    await vi.waitFor(
      () => {
        for (const { end } of running.slice(ended)) end();
        ended = running.length;
        expect(tenants.map(runningOf)).toEqual([200, 200, 200]);
      },
      { timeout: 15_000, interval: 1 },
    );
    // The first one that becomes free goes to the tenant that has the fewest.
    expect(running[224]?.tenantId).toBe(tenants[2]);
  });
});
