import type { SessionState, SystemStore } from '@relay/core';
import { uuidv7 } from 'uuidv7';
import { expect, test } from 'vitest';
import { noon, useStore, withStore, type Open } from '../fixtures.ts';
import { addSession, changeOf, newInvocation, send, stateWith, whole } from './fixtures.ts';

async function pruneAll(store: SystemStore, before: number, limit: number): Promise<number> {
  for (let steps = 1; steps < 1_000; steps += 1) {
    if ((await store.sessions.prune(before, limit)) === 0) return steps;
  }
  throw new Error('There is no end to it');
}

export function directoryTests(open: Open): void {
  const { system, tenant: newTenant } = useStore(open);

  test('sessions are due at their time, and tenants take turns', async () => {
    await withStore(open, async ({ store }) => {
      const [one, two, paused] = ['one', 'two', 'paused'].map((id) => store.tenant(id));
      if (one === undefined || two === undefined || paused === undefined) throw new Error();
      for (const id of ['one', 'two', 'paused'])
        await store.ensureTenant({ id, name: id, at: noon });
      await paused.updateTenant({ pausedAt: noon });
      const dueAt = (n: number) => ({ progress: { dueAt: noon + n } });
      const a = [await addSession(one, dueAt(1)), await addSession(one, dueAt(2))];
      a.push(await addSession(one, dueAt(3)));
      const b = [await addSession(two, dueAt(4)), await addSession(two, dueAt(50))];
      await addSession(two);
      await addSession(paused, dueAt(0));
      const due = async (now: number, limit: number) =>
        (await store.sessions.due(now, limit)).map(({ sessionId }) => sessionId);
      expect(await due(noon, 9)).toEqual([]);
      expect(await due(noon + 2, 9)).toEqual([a[0], a[1]]);
      expect(await due(noon + 9, 9)).toEqual([a[0], b[0], a[1], a[2]]);
      expect(await due(noon + 9, 2)).toEqual([a[0], b[0]]);
      const done = changeOf(a[0] ?? '', { ifVersion: 1, progress: { dueAt: null } });
      await one.sessions.change({ changes: [done] });
      expect(await due(noon + 9, 2)).toEqual([a[1], b[0]]);
      expect((await store.sessions.due(noon + 9, 1))[0]).toEqual({
        tenantId: 'one',
        sessionId: a[1],
      });
    });
  });

  test('sessions are counted by status, with their queues and those that are stuck', async () => {
    await withStore(open, async ({ store }) => {
      for (const id of ['one', 'two']) await store.ensureTenant({ id, name: id, at: noon });
      const [one, two] = [store.tenant('one'), store.tenant('two')];
      const [stuck, fresh] = [await addSession(one), await addSession(one)];
      const active: SessionState = { ...stateWith(0), turn: 'active' };
      const busy = await addSession(one, { progress: { status: 'active', state: active } });
      const held = await addSession(two);
      await send(one, [stuck, busy], { at: noon });
      await send(one, [fresh], { at: noon + 30_000 });
      await send(two, [held], { at: noon }, { mode: 'manual' });
      const gone = changeOf(await addSession(two), {
        ifVersion: 1,
        progress: { status: 'released', releasedAt: noon },
      });
      await two.sessions.change({ changes: [gone] });
      expect(await store.sessions.counts(noon + 61_000)).toEqual({
        byStatus: { idle: 3, active: 1 },
        queued: 4,
        stuck: 1,
      });
      expect(await store.sessions.counts(noon + 61_000, 'two')).toEqual({
        byStatus: { idle: 1 },
        queued: 1,
        stuck: 0,
      });
    });
  });

  test('sessions whose stream is served by a dead node are found, and those of others are not', async () => {
    await withStore(open, async ({ store }) => {
      const tenant = store.tenant('one');
      const ids = await Promise.all(Array.from({ length: 5 }, () => addSession(tenant)));
      ids.sort();
      const nodes = ['self', 'alive', 'dead', 'dead', 'gone'];
      for (const [n, sessionId] of ids.entries()) {
        await tenant.sessions.openStream(sessionId, {
          id: `s${n}`,
          node: nodes[n] ?? '',
          at: noon,
        });
      }
      await addSession(tenant);
      await store.heartbeatNode({ owner: 'alive', now: noon, until: noon + 10_000 });
      await store.heartbeatNode({ owner: 'dead', now: noon, until: noon });
      const found = await store.sessions.orphans('self', noon + 1, { limit: 9 });
      expect(found).toEqual(
        [2, 3, 4].map((n) => ({
          tenantId: 'one',
          sessionId: ids[n],
          stream: { id: `s${n}`, node: nodes[n] },
        })),
      );
      const page = { after: ids[2] ?? '', limit: 1 };
      expect(await store.sessions.orphans('self', noon + 1, page)).toMatchObject([
        { sessionId: ids[3] },
      ]);
    });
  });

  test('the sessions of a harness are found that are not released', async () => {
    await withStore(open, async ({ store }) => {
      const [one, two] = [store.tenant('one'), store.tenant('two')];
      const ofMine = { definition: { harness: 'mine' } };
      const ids = [await addSession(one, ofMine), await addSession(two, ofMine)];
      await addSession(one, { definition: { harness: 'other' } });
      const released = await addSession(one, ofMine);
      const release = { ifVersion: 1, progress: { releasedAt: noon } };
      await one.sessions.change({ changes: [changeOf(released, release)] });
      const found = await store.sessions.ofHarness('mine', { limit: 9 });
      const refs = [
        { tenantId: 'one', sessionId: ids[0] },
        { tenantId: 'two', sessionId: ids[1] },
      ];
      expect(found).toEqual(refs);
      expect(await store.sessions.ofHarness('mine', { limit: 1 })).toEqual(refs.slice(0, 1));
      const rest = { after: ids[0] ?? '', limit: 9 };
      expect(await store.sessions.ofHarness('mine', rest)).toEqual(refs.slice(1));
    });
  });

  test('a session that a node has claimed is not claimed by another one before it is closed', async () => {
    const { sessions } = newTenant();
    const sessionId = await addSession(newTenant());
    const tenant = newTenant();
    const id = await addSession(tenant);
    const claim = (stream: string) =>
      tenant.sessions.claimStream(id, { id: stream, node: stream, at: noon });
    expect(await sessions.claimStream(sessionId, { id: 'x', node: 'x', at: noon })).toBe(false);
    expect([await claim('one'), await claim('two')]).toEqual([true, false]);
    await tenant.sessions.closeStream(id, { id: 'one', at: noon, dueBy: noon });
    expect(await claim('two')).toBe(true);
    expect((await tenant.sessions.read(id))?.stream).toEqual({ id: 'two', node: 'two' });
  });

  test('the last seqs and versions of many sessions are read at once', async () => {
    const tenant = newTenant();
    const ids = await Promise.all(Array.from({ length: 120 }, () => addSession(tenant)));
    const [changed = '', streaming = '', unchanged = ''] = ids;
    await tenant.sessions.change({ changes: [changeOf(changed)] });
    await tenant.sessions.openStream(streaming, { id: 'a', node: 'a', at: noon });
    const { sessions } = system();
    const lastSeqs = await sessions.lastSeqs([...ids, uuidv7()]);
    const versions = await sessions.versions([...ids, uuidv7()]);
    expect([lastSeqs.size, versions.size]).toEqual([120, 120]);
    const of = (id: string) => [lastSeqs.get(id), versions.get(id)];
    expect([of(changed), of(streaming), of(unchanged)]).toEqual([
      [2, 2],
      [1, 2],
      [1, 1],
    ]);
  });

  test('released sessions, old messages and ended invocations are deleted, in small steps', async () => {
    await withStore(open, async ({ store }) => {
      const tenant = store.tenant('one');
      const live = await addSession(tenant, { tokenHash: 'live' });
      const old = await addSession(tenant);
      const fresh = await addSession(tenant);
      for (let n = 0; n < 20; n += 1) await tenant.sessions.change({ changes: [changeOf(old)] });
      const final = { status: 'consumed' } as const;
      const consumed = await send(tenant, [live, old], { at: noon, text: 'gone words' }, final);
      const pending = await send(tenant, [live, old], { at: noon, text: 'kept words' });
      const later = await send(tenant, [live], { at: noon + 100 }, final);
      const release = (sessionId: string, releasedAt: number) =>
        tenant.sessions.read(sessionId).then((session) =>
          tenant.sessions.change({
            changes: [
              changeOf(sessionId, { ifVersion: session?.version ?? 0, progress: { releasedAt } }),
            ],
          }),
        );
      await release(old, noon + 10);
      await release(fresh, noon + 90);
      const [ended, open] = [newInvocation({ status: 'denied' }), newInvocation()];
      await tenant.sessions.change({ changes: [], invocations: [ended, open] });

      expect(await pruneAll(store, noon + 50, 3)).toBeGreaterThan(5);
      expect(await tenant.sessions.read(old)).toBeUndefined();
      expect(await tenant.sessions.readEvents(old, whole)).toEqual([]);
      expect(await tenant.sessions.read(fresh)).toBeDefined();
      expect(await tenant.messages.read(consumed.id)).toBeUndefined();
      expect(await tenant.messages.deliveriesOf(consumed.id)).toEqual([]);
      const found = async (query: string) =>
        (await tenant.messages.list({ query }, { limit: 9 })).items.length;
      expect([await found('gone'), await found('kept')]).toEqual([0, 1]);
      const listed = await tenant.messages.list({ with: live }, { limit: 9 });
      expect(listed.items.map(({ id }) => id)).toEqual([later.id, pending.id]);
      expect(await tenant.messages.inbox(live, whole)).toMatchObject([{ messageId: pending.id }]);
      const remaining = await tenant.sessions.read(live);
      expect(remaining).toMatchObject({ lastSeq: 4, status: 'idle', prunedSeq: 3 });
      expect(await tenant.sessions.readEvents(live, { after: 3, limit: 9 })).toMatchObject([
        { seq: 4 },
      ]);
      await expect(tenant.sessions.readEvents(live, { after: 2, limit: 9 })).rejects.toMatchObject({
        code: 'journal_pruned',
        message: expect.stringContaining('after=3') as string,
      });
      expect(await store.sessions.findToken('live')).toMatchObject({ sessionId: live });
      expect(await tenant.actions.readInvocation(ended.id)).toBeUndefined();
      expect(await tenant.actions.readInvocation(open.id)).toBeDefined();
      expect(await store.sessions.prune(noon + 50, 3)).toBe(0);
    });
  });
}
