/** What becomes of the invocations of a server that died, on both databases. */
import type { NewInvocation, SystemStore } from '@relay/core';
import { createMemoryStore, openPostgresStore } from '@relay/store';
import { uuidv7 } from 'uuidv7';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createDatabase, type TestDatabase } from '../../../../test/support/postgres.ts';
import type { RelayConfig } from '../../src/config/config-file.ts';
import { bootServer, type TestServer, until } from '../support/server.ts';

let database: TestDatabase | undefined;
const stores: Readonly<Record<string, () => Promise<SystemStore>>> = {
  SQLite: async () => createMemoryStore(),
  PostgreSQL: async () => {
    database = await createDatabase();
    return openPostgresStore({ url: database.url });
  },
};

describe.each(Object.entries(stores))('invocations after a crash on %s', (_name, open) => {
  let store: SystemStore;
  let nodes: TestServer[];
  /** The keys of the handlers that were started, in order. */
  const started: string[] = [];
  const actions: RelayConfig['actions'] = ['often', 'once'].map((name) => ({
    name,
    description: 'Does it',
    inputSchema: { type: 'object' },
    idempotent: name === 'often',
    handler: (_input, { idempotencyKey }) => {
      started.push(idempotencyKey);
      return { ok: true };
    },
  }));

  beforeAll(async () => {
    store = await open();
    nodes = await Promise.all([1, 2].map(() => bootServer({ store, file: { actions } })));
  });

  afterAll(async () => {
    for (const node of nodes) await node.stop();
    await store.close();
    await database?.drop();
    database = undefined;
  });

  /** As a server leaves it that dies right after this commit. */
  async function left(over: Partial<NewInvocation>): Promise<string> {
    const at = Date.now() - 60_000;
    const invocation: NewInvocation = {
      id: uuidv7(),
      action: 'once',
      by: { type: 'key', id: 'k', name: 'Ada' },
      input: {},
      status: 'running',
      sessionId: null,
      at,
      idempotent: false,
      timeoutMs: 5_000,
      startedAt: at,
      dueAt: at + 15_000,
      ...over,
    };
    const [node] = nodes;
    const tenant = store.tenant(node?.tenantId ?? '');
    await tenant.sessions.change({ changes: [], invocations: [invocation] });
    return invocation.id;
  }

  const ended = (id: string) =>
    until(async () => {
      const body = await nodes[0]?.json(`/v1/invocations/${id}`);
      return body !== undefined && 'endedAt' in body && body;
    }, 'the end of an invocation');

  it('one that is not idempotent has an unknown outcome, and is not started again', async () => {
    const id = await left({});
    expect(await ended(id)).toMatchObject({
      status: 'failed',
      error: { code: 'outcome_unknown', retryable: false },
    });
    expect(started).not.toContain(id);
  });

  it('an idempotent one is started again with the same key, by one node', async () => {
    const ids = await Promise.all(
      Array.from({ length: 20 }, () => left({ action: 'often', idempotent: true })),
    );
    for (const id of ids) expect(await ended(id)).toMatchObject({ status: 'completed' });
    expect(started.filter((key) => ids.includes(key)).toSorted()).toEqual(ids.toSorted());
  });

  it('one whose handler was not started yet is started once', async () => {
    const ids = await Promise.all(Array.from({ length: 20 }, () => left({ startedAt: null })));
    for (const id of ids) expect(await ended(id)).toMatchObject({ status: 'completed' });
    expect(started.filter((key) => ids.includes(key)).toSorted()).toEqual(ids.toSorted());
  });

  it('one whose action is gone fails', async () => {
    const notStarted = await left({ action: 'removed', startedAt: null });
    expect(await ended(notStarted)).toMatchObject({ error: { code: 'action_gone' } });
    const interrupted = await left({ action: 'removed', idempotent: true });
    expect(await ended(interrupted)).toMatchObject({ error: { code: 'outcome_unknown' } });
  });

  it('one whose session was deleted fails, and its caller can read why', async () => {
    const id = await left({ sessionId: uuidv7(), startedAt: null });
    expect(await ended(id)).toMatchObject({ error: { code: 'action_gone' } });
  });
});
