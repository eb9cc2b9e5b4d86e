import type { RunControl, SystemStore } from '@relay/core';
import { ManualClock } from '@relay/core/testing';
import { createMemoryStore } from '@relay/store';
import { uuidv7 } from 'uuidv7';
import { beforeEach, describe, expect, it } from 'vitest';
import { readConfig } from '../../src/config/config.ts';
import { NodeHeartbeat } from '../../src/jobs/node-heartbeat.ts';

const ttl = 15_000;
const config = readConfig({ RELAY_DISCONNECT: 'detach' }, '/srv');

describe('NodeHeartbeat', () => {
  let store: SystemStore;
  let clock: ManualClock;
  let warned: string[];

  function nodeOn(store: SystemStore, node: string): NodeHeartbeat {
    const log = { warn: (message: string) => warned.push(message), error: () => undefined };
    const engine = { store, clock, log, settings: { node, leaseTtlMs: ttl } };
    return new NodeHeartbeat({ engine } as unknown as RunControl, config);
  }

  /** Advances the clock in small steps and lets the loops run. */
  async function pass(ms: number): Promise<void> {
    for (let elapsed = 0; elapsed < ms; elapsed += 1_000) {
      await clock.advance(1_000);
      await new Promise((resolve) => setImmediate(resolve));
    }
  }

  const connectionId = 'c';
  const isOpen = async () => (await store.tenant('t').findConnection(connectionId)) !== undefined;

  async function connect(node: string, tenantId = 't', id = connectionId): Promise<void> {
    await store.tenant(tenantId).createRun({
      identity: {
        id: uuidv7(),
        tenantId,
        conversationId: uuidv7(),
        correlationId: 'c',
        surface: 'chat',
        agent: 'assistant',
        model: 'demo',
        labels: {},
        parentRunId: null,
        workflowId: null,
        keyId: null,
        owner: 'ada',
        createdAt: 0,
      },
      lease: null,
      events: [],
      connection: { id, node },
    });
  }

  beforeEach(() => {
    store = createMemoryStore();
    clock = new ManualClock();
    warned = [];
  });

  it('keeps chats of a live node when another node starts', async () => {
    const [one, other] = [nodeOn(store, 'one'), nodeOn(store, 'other')];
    await one.start();
    await connect('one');
    await other.start();
    for (let n = 0; n < 4; n += 1) {
      await pass(ttl);
      expect(await isOpen()).toBe(true);
    }
    await one.stop();
    // The others need not wait until its time is over.
    await pass(ttl / 3 + 1_000);
    expect(await isOpen()).toBe(false);
    await other.stop();
  });

  it('ends the chats of a dead node after the lease time', async () => {
    const now = clock.now();
    await store.heartbeatNode({ owner: 'dead', now, until: now + ttl });
    await connect('dead');
    const node = nodeOn(store, 'alive');
    await node.start();
    await pass(ttl - 1_000);
    expect(await isOpen()).toBe(true);
    await pass(ttl / 3 + 1_000);
    expect(await isOpen()).toBe(false);
    await node.stop();
  });

  it('ends the chats of other tenants although those of one tenant cannot be ended', async () => {
    const broken = Array.from({ length: 501 }, (_, n) => `a${n}`);
    for (const id of broken) await connect('dead', 'broken', id);
    await connect('dead');
    const tenant = store.tenant.bind(store);
    store.tenant = (id) => {
      const found = tenant(id);
      if (id === 'broken') found.closeConnection = () => Promise.reject(new Error('Damaged'));
      return found;
    };
    const node = nodeOn(store, 'alive');
    await node.start();
    await clock.advance(ttl / 3);
    await expect.poll(isOpen).toBe(false);
    await node.stop();
    expect(warned).toEqual(['A chat session of a dead process could not be closed']);
  });

  it('continues and warns while the store fails', async () => {
    let fails = false;
    const faulty = new Proxy(store, {
      get: (target, name) => {
        const value: unknown = Reflect.get(target, name, target);
        if (typeof value !== 'function') return value;
        return (...args: unknown[]) => {
          if (fails) return Promise.reject(new Error('The store is gone'));
          return value.apply(target, args) as unknown;
        };
      },
    });
    const node = nodeOn(faulty, 'one');
    await node.start();
    fails = true;
    await pass(2 * ttl);
    expect(warned.length).toBeGreaterThan(1);
    await connect('one');
    expect(await store.orphanedConnections('x', clock.now())).toHaveLength(1);
    fails = false;
    await pass(ttl);
    expect(await store.orphanedConnections('x', clock.now())).toEqual([]);
    fails = true;
    await node.stop();
    expect(warned.at(-1)).toBe('Failed to remove this node from the list');
  });

  it('sends heartbeats during a long cleanup', async () => {
    const others = Array.from({ length: 600 }, (_, n) => ({
      tenantId: 't',
      id: `o${n}`,
      runId: 'r',
    }));
    let beats = 0;
    const held = Promise.withResolvers<void>();
    const busy = {
      heartbeatNode: async () => void (beats += 1),
      removeNode: async () => undefined,
      orphanedConnections: async () => others,
      tenant: () => ({ closeConnection: () => held.promise }),
    };
    const presence = nodeOn(busy as unknown as SystemStore, 'busy');
    await presence.start();
    await pass(ttl * 2);
    expect(beats).toBeGreaterThanOrEqual(6);
    const stopped = presence.stop();
    held.resolve();
    await stopped;
  });
});
