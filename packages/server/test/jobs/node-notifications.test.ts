import type { Hint, Supervisor, SystemStore } from '@relay/core';
import type { StoredEvent, StoredSessionEvent } from '@relay/protocol';
import { createMemoryStore } from '@relay/store';
import { beforeEach, describe, expect, it } from 'vitest';
import { TenantBudgets } from '../../src/http/budgets.ts';
import { Feed } from '../../src/streaming/feed.ts';
import { Hub } from '../../src/streaming/hub.ts';
import type { ServerContext } from '../../src/http/handlers/handler.ts';
import { subscribeToNodes } from '../../src/jobs/node-notifications.ts';
import { OpenStreams } from '../../src/streaming/open-streams.ts';

/** A store that receives hints from the test. */
class FakeNodes {
  readonly #listeners = new Set<(hint: Hint) => void>();
  readonly store: SystemStore;

  constructor() {
    const inner = createMemoryStore();
    this.store = new Proxy(inner, {
      get: (target, name) => {
        if (name === 'listen') return (listener: (hint: Hint) => void) => this.#listen(listener);
        const value: unknown = Reflect.get(target, name, target);
        return typeof value === 'function' ? (value.bind(target) as unknown) : value;
      },
    });
  }

  #listen(listener: (hint: Hint) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  send(hint: Hint): void {
    for (const listener of this.#listeners) listener(hint);
  }
}

describe('hints from other nodes', () => {
  let nodes: FakeNodes;
  let hub: Hub<StoredEvent>;
  let sessionHub: Hub<StoredSessionEvent>;
  let programHub: Hub<StoredSessionEvent>;
  let feed: Feed;
  let budgets: TenantBudgets;
  let stop: () => void;
  let woken: string[];
  let pauseRefreshes: number;
  let streams: OpenStreams;
  let credentialsChanged: (string | undefined)[];

  beforeEach(() => {
    nodes = new FakeNodes();
    const { store } = nodes;
    hub = new Hub(async () => new Map());
    sessionHub = new Hub(async () => new Map());
    programHub = new Hub(async () => new Map());
    feed = new Feed();
    budgets = new TenantBudgets(store);
    streams = new OpenStreams(store);
    woken = [];
    pauseRefreshes = 0;
    const supervisor = {
      wake: ({ runId }: { runId: string }) => woken.push(runId),
      refreshPausedTenants: async () => {
        pauseRefreshes += 1;
        throw new Error('The store does not answer');
      },
    } as unknown as Supervisor;
    credentialsChanged = [];
    const vault = { changed: (tenantId?: string) => void credentialsChanged.push(tenantId) };
    const control = { supervisor };
    const context = { store, hub, sessionHub, programHub, feed, control, budgets, streams, vault };
    stop = subscribeToNodes(context as unknown as ServerContext);
  });

  /** The runs whose streams were notified. */
  function followed(...runIds: string[]): string[] {
    const notified: string[] = [];
    for (const runId of runIds) {
      const receive = (events: readonly unknown[]) => {
        expect(events).toEqual([]);
        notified.push(runId);
      };
      hub.add(runId, { receive, lastSeq: 0 });
    }
    return notified;
  }

  async function nextHints(tenantId: string, send: () => void): Promise<unknown> {
    const connection = new AbortController();
    const reader = feed.read(tenantId, connection.signal)[Symbol.asyncIterator]();
    send();
    const { value } = await reader.next();
    connection.abort();
    return value;
  }

  it('make the streams of a session read, and name it in the feed', async () => {
    const notified: string[] = [];
    sessionHub.add('s', { receive: () => void notified.push('events'), lastSeq: 0 });
    programHub.add('s', { receive: () => void notified.push('program'), lastSeq: 0 });
    const hint = { kind: 'session', tenantId: 't', sessionId: 's' } as const;
    expect(await nextHints('t', () => nodes.send(hint))).toEqual([{ kind: 'session', id: 's' }]);
    nodes.send({ kind: 'all' });
    expect(notified).toEqual(['events', 'program', 'events', 'program']);
  });

  it('make a node check the token of a session only if it has ended', () => {
    const checked: string[] = [];
    streams.checkSession = async (sessionId) => void checked.push(sessionId);
    nodes.send({ kind: 'session', tenantId: 't', sessionId: 'changed' });
    nodes.send({ kind: 'session', tenantId: 't', sessionId: 'ended', isTokenEnded: true });
    expect(checked).toEqual(['ended']);
  });

  it('make only the streams of that run read the journal', () => {
    const notified = followed('one', 'other');
    nodes.send({ kind: 'journal', runId: 'one' });
    nodes.send({ kind: 'run', tenantId: 't', runId: 'other' });
    nodes.send({ kind: 'journal', runId: 'not followed' });
    expect(notified).toEqual(['one', 'other']);
  });

  it('publish changes to the feed of their tenant only', async () => {
    const hints = await nextHints('t', () => {
      nodes.send({ kind: 'run', tenantId: 't', runId: 'r' });
      nodes.send({ kind: 'run', tenantId: 'another', runId: 'x' });
      nodes.send({ kind: 'approval', tenantId: 't', approvalId: 'a' });
      nodes.send({ kind: 'message', tenantId: 't', messageId: 'm', channels: ['ops'] });
      nodes.send({ kind: 'delivery', tenantId: 't', sessionId: 's', deliveryId: 'd' });
      nodes.send({ kind: 'delivery', tenantId: 'another', sessionId: 's', deliveryId: 'd' });
      nodes.send({ kind: 'delivery', tenantId: 't', sessionId: 'busy' });
    });
    expect(hints).toEqual([
      { kind: 'run', id: 'r' },
      { kind: 'approval', id: 'a' },
      { kind: 'message', id: 'm', channels: ['ops'] },
      { kind: 'delivery', id: 'd', sessionId: 's' },
      { kind: 'delivery', sessionId: 'busy' },
    ]);
  });

  it('drop cached credentials of one tenant or of all', () => {
    nodes.send({ kind: 'tenant', tenantId: 't' });
    nodes.send({ kind: 'all' });
    expect(credentialsChanged).toEqual(['t', undefined]);
  });

  it('wake runs', () => {
    nodes.send({ kind: 'wake', tenantId: 't', runId: 'r' });
    expect(woken).toEqual(['r']);
  });

  it('apply settings at once, and tolerate a failing store', async () => {
    const { store } = nodes;
    await store.ensureTenant({ id: 't', name: 't', at: 0 });
    expect(await budgets.of('t', null)).toEqual([]);
    const tenant = { period: 'day', concurrentRuns: 0 } as const;
    await store.tenant('t').updateTenant({ settings: { budgets: { tenant } } });
    expect(await budgets.of('t', null)).toEqual([]);
    nodes.send({ kind: 'tenant', tenantId: 't' });
    expect(await budgets.of('t', null)).toMatchObject([tenant]);
    expect(pauseRefreshes).toBe(1);
  });

  it('close the streams of a key that another node revoked', async () => {
    const times = { createdAt: 0, expiresAt: null, revokedAt: null, lastUsedAt: null };
    const rotation = { kind: 'api' as const, parent: null, replaces: [], replacedBy: null };
    const key = {
      id: 'k',
      tenantId: 't',
      name: 'k',
      owner: null,
      role: null,
      scopes: ['runs'],
      groups: [],
      ...times,
      ...rotation,
    };
    await nodes.store.addKey(key, 'hash');
    let closed = false;
    const actor = { type: 'key', id: 'k', name: 'k' } as const;
    streams.add({ tenantId: 't', actor }, () => (closed = true));
    await nodes.store.tenant('t').revokeKey('k', 1);
    nodes.send({ kind: 'tenant', tenantId: 't' });
    // Sooner than it would look by itself.
    await expect.poll(() => closed, { timeout: 400, interval: 5 }).toBe(true);
  });

  it('make every stream read the journal after lost notifications', async () => {
    const notified = followed('one', 'other');
    const hints = await nextHints('t', () => nodes.send({ kind: 'all' }));
    expect(hints).toEqual([{ kind: 'all' }]);
    expect(notified).toEqual(['one', 'other']);
    expect(pauseRefreshes).toBe(1);
  });

  it('are ignored after the server has stopped', () => {
    stop();
    nodes.send({ kind: 'wake', tenantId: 't', runId: 'r' });
    expect(woken).toEqual([]);
  });
});
