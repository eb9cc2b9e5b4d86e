import { uuidv7 } from 'uuidv7';
import { expect, test } from 'vitest';
import { ending, newRun, noon, useStore, withStore } from '../fixtures.ts';
import type { Open } from '../fixtures.ts';

export function connectionTests(open: Open): void {
  const { tenant: newTenant } = useStore(open);

  test('a connection leads to its run until it is closed', async () => {
    const tenant = newTenant();
    const connection = { id: uuidv7(), node: 'node-1' };
    const run = await newRun(tenant, { connection });
    expect(await tenant.findConnection(connection.id)).toEqual({ runId: run.id });
    await tenant.closeConnection(connection.id);
    expect(await tenant.findConnection(connection.id)).toBeUndefined();
    await tenant.closeConnection(connection.id);
    expect(await tenant.readRun(run.id)).toBeDefined();
  });

  test('a connection ends with its run, and with no other', async () => {
    const tenant = newTenant();
    const [mine, other] = [
      { id: uuidv7(), node: 'node-1' },
      { id: uuidv7(), node: 'node-1' },
    ];
    const run = await newRun(tenant, { connection: mine });
    await newRun(tenant, { connection: other });
    await tenant.append(ending(run));
    expect(await tenant.findConnection(mine.id)).toBeUndefined();
    expect(await tenant.findConnection(other.id)).toBeDefined();
  });

  test('a connection that was never opened leads nowhere', async () => {
    const tenant = newTenant();
    await newRun(tenant);
    expect(await tenant.findConnection(uuidv7())).toBeUndefined();
  });

  test('orphans are the open connections of nodes that are not alive, in every tenant', () =>
    withStore(open, async ({ store }) => {
      const connect = async (node: string) => {
        const tenant = store.tenant(uuidv7());
        const id = uuidv7();
        const run = await newRun(tenant, { connection: { id, node } });
        return { tenantId: tenant.tenantId, id, runId: run.id };
      };
      const first = await connect('node-1');
      const second = await connect('node-2');
      const third = await connect('node-3');
      const closed = await connect('node-1');
      await store.tenant(closed.tenantId).closeConnection(closed.id);
      expect(await store.orphanedConnections('node-2', noon)).toEqual([first, third]);
      expect(await store.orphanedConnections('a new node', noon)).toEqual([first, second, third]);
    }));

  test('a node that is alive keeps its connections, until it has not said so for too long', () =>
    withStore(open, async ({ store }) => {
      const id = uuidv7();
      await newRun(store.tenant(uuidv7()), { connection: { id, node: 'node-1' } });
      const orphans = async (now: number) =>
        (await store.orphanedConnections('node-2', now)).map((orphan) => orphan.id);
      await store.heartbeatNode({ owner: 'node-1', now: noon, until: noon + 10 });
      expect(await orphans(noon + 9)).toEqual([]);
      expect(await orphans(noon + 10)).toEqual([id]);
      await store.heartbeatNode({ owner: 'node-1', now: noon + 10, until: noon + 20 });
      expect(await orphans(noon + 19)).toEqual([]);
      await store.removeNode('node-1');
      expect(await orphans(noon + 11)).toEqual([id]);
      await store.removeNode('node-1');
    }));

  test('a store that one server owns has no other nodes once it is reclaimed', () =>
    withStore(open, async ({ store }) => {
      const id = uuidv7();
      await newRun(store.tenant(uuidv7()), { connection: { id, node: 'node-1' } });
      await store.heartbeatNode({ owner: 'node-1', now: noon, until: noon + 10 });
      await store.releaseAllLeases();
      expect(await store.orphanedConnections('node-2', noon)).toMatchObject([{ id }]);
    }));
}
