/** What becomes of the invocations of a server that died, on both databases. */
import { invokeAction, type NewInvocation, systemClock, type SystemStore } from '@relay/core';
import { uuidv7 } from 'uuidv7';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { invocationEngine } from '../../../../../test/support/invocations.ts';
import { person } from '../../../../store/test/contract/fixtures.ts';
import { createFaultyStore } from '../../../../store/test/faulty-store.ts';
import type { RelayConfig } from '../../../src/config/config-file.ts';
import { bootServer, type TestServer, until } from '../../support/server.ts';
import { stores } from '../../support/stores.ts';

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

  /** With a clock that runs ahead. */
  function engineOn(on: SystemStore, aheadMs: number, isIdempotent: boolean) {
    const keys: string[] = [];
    const engine = invocationEngine(on, {
      clock: { ...systemClock, now: () => Date.now() + aheadMs },
      idempotent: isIdempotent,
      handler: (_input, { idempotencyKey }) => void keys.push(idempotencyKey),
    });
    return { engine, keys };
  }

  const crashes = [1, 2].flatMap((crashAt) =>
    (['before', 'after'] as const).flatMap((when) =>
      [true, false].map((isIdempotent) => ({ crashAt, when, isIdempotent })),
    ),
  );

  it.each(crashes)(
    'a process that dies $when write $crashAt starts nothing that is not stored (idempotent: $isIdempotent)',
    async ({ crashAt, when, isIdempotent }) => {
      const { id: tenantId } = await store.ensureTenant({ id: uuidv7(), name: uuidv7(), at: 0 });
      const faulty = createFaultyStore(store, { crashAt, when });
      const first = engineOn(faulty, 0, isIdempotent);
      const caller = { tenantId, from: { type: 'key', id: 'k', name: 'Ada' }, by: person } as const;
      void invokeAction(first.engine, caller, { action: 'act', input: {} });
      await faulty.crashed;
      const second = engineOn(store, 60_000, isIdempotent);
      const due = (await store.sessions.dueHandlers(Date.now() + 60_000, 100)).filter(
        (each) => each.tenantId === tenantId,
      );
      for (const { invocationId } of due) {
        await second.engine.invocations?.attend(tenantId, invocationId);
        const ended = await second.engine.invocations?.waitFor(tenantId, invocationId, {
          ms: 10_000,
        });
        expect(ended).toMatchObject(
          isIdempotent ? { status: 'completed' } : { error: { code: 'outcome_unknown' } },
        );
      }
      // The first write is the intent, the second the result.
      const isIntentStored = crashAt === 2 || when === 'after';
      const isLeft = isIntentStored && !(crashAt === 2 && when === 'after');
      expect(due).toHaveLength(isLeft ? 1 : 0);
      expect(first.keys).toHaveLength(crashAt === 2 ? 1 : 0);
      expect(second.keys).toEqual(
        isLeft && isIdempotent ? due.map(({ invocationId }) => invocationId) : [],
      );
    },
  );

  it('one whose session was deleted fails, and its caller can read why', async () => {
    const id = await left({ sessionId: uuidv7(), startedAt: null });
    expect(await ended(id)).toMatchObject({ error: { code: 'action_gone' } });
  });
});
