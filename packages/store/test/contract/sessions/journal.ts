import type { SessionEvent, StoredSessionEvent } from '@relay/protocol';
import { uuidv7 } from 'uuidv7';
import { expect, test } from 'vitest';
import { hostileText, newRun, noon, step, useStore, type Open } from '../fixtures.ts';
import {
  addSession,
  changeOf,
  idle,
  lastSeqOf,
  log,
  send,
  sending,
  stateWith,
  whole,
} from './fixtures.ts';

export function sessionJournalTests(open: Open): void {
  const { tenant: newTenant } = useStore(open);

  test('events of many writers are numbered without a gap or a repeat', async () => {
    const tenant = newTenant();
    const [one, two] = [await addSession(tenant), await addSession(tenant)];
    const runs = await Promise.all(Array.from({ length: 5 }, () => newRun(tenant)));
    const events = (n: number) => Array.from({ length: 1 + (n % 3) }, (_, m) => log(`${n}.${m}`));
    const both = (n: number) =>
      [one, two].map((id, m) => changeOf(id, { events: events(n + m), at: noon + n }));
    const outcomes = await Promise.all([
      ...Array.from({ length: 60 }, async (_, n) => {
        const changes = n % 2 === 0 ? both(n) : both(n).toReversed();
        return { changes, outcome: await tenant.sessions.change({ changes }) };
      }),
      ...Array.from({ length: 60 }, async (_, n) => {
        const changes = [changeOf(n % 2 === 0 ? one : two, { events: events(n) })];
        return { changes, outcome: await tenant.sessions.change({ changes }) };
      }),
      ...runs.map(async (run) => {
        const changes = both(1);
        await tenant.append(step(run, { session: { changes } }));
        return { changes, outcome: undefined };
      }),
    ]);
    for (const sessionId of [one, two]) {
      const written = outcomes.flatMap(({ changes }) =>
        changes.filter((change) => change.sessionId === sessionId),
      );
      const expected = 1 + written.reduce((sum, change) => sum + change.events.length, 0);
      const stored = await tenant.sessions.readEvents(sessionId, { after: 0, limit: 10_000 });
      expect(stored.map(({ seq }) => seq)).toEqual(
        Array.from({ length: expected }, (_, index) => index + 1),
      );
      expect(await lastSeqOf(tenant, sessionId)).toBe(expected);
    }
    // Each writer learns the numbers of its own events.
    for (const { changes, outcome } of outcomes) {
      if (outcome === undefined) continue;
      if (outcome.kind !== 'committed') throw new Error(outcome.kind);
      for (const [index, change] of changes.entries()) {
        const after = (outcome.lastSeqs[index] ?? 0) - change.events.length;
        const range = { after, limit: change.events.length };
        expect(await tenant.sessions.readEvents(change.sessionId, range)).toMatchObject(
          change.events,
        );
      }
    }
  });

  test('of many conditional changes at once one is stored', async () => {
    const tenant = newTenant();
    const sessionId = await addSession(tenant);
    const outcomes = await Promise.all(
      Array.from({ length: 20 }, (_, n) =>
        tenant.sessions.change({
          changes: [
            changeOf(sessionId, {
              ifVersion: 1,
              events: [log(`${n}`)],
              progress: { status: 'active', state: stateWith(n) },
            }),
          ],
        }),
      ),
    );
    const winner = outcomes.findIndex(({ kind }) => kind === 'committed');
    expect(outcomes.filter(({ kind }) => kind === 'conflict')).toHaveLength(19);
    expect(outcomes[winner]).toEqual({ kind: 'committed', lastSeqs: [2] });
    expect(await tenant.sessions.read(sessionId)).toMatchObject({
      status: 'active',
      state: stateWith(winner),
      lastSeq: 2,
    });
    const stored = await tenant.sessions.readEvents(sessionId, { after: 1, limit: 9 });
    expect(stored).toMatchObject([{ message: `${winner}` }]);
  });

  test('a relative change makes a conditional one that does not know it fail', async () => {
    const tenant = newTenant();
    const sessionId = await addSession(tenant);
    await tenant.sessions.change({ changes: [changeOf(sessionId)] });
    const stale = changeOf(sessionId, { ifVersion: 1, progress: { status: 'active' } });
    expect(await tenant.sessions.change({ changes: [stale] })).toEqual({
      kind: 'conflict',
      sessionId,
    });
    expect(await tenant.sessions.read(sessionId)).toMatchObject({ status: 'idle', lastSeq: 2 });
  });

  test('counters that conditional changes retry are exact', async () => {
    const tenant = newTenant();
    const sessionId = await addSession(tenant, { progress: { state: stateWith(0) } });
    const increment = async () => {
      for (;;) {
        const session = await tenant.sessions.read(sessionId);
        const state = stateWith((session?.state.usage.tokens ?? 0) + 1);
        const change = changeOf(sessionId, {
          ifVersion: session?.version ?? 0,
          progress: { state },
        });
        if ((await tenant.sessions.change({ changes: [change] })).kind === 'committed') return;
      }
    };
    const disturb = () => tenant.sessions.change({ changes: [changeOf(sessionId)] });
    await Promise.all(Array.from({ length: 10 }, () => Promise.all([increment(), disturb()])));
    expect(await tenant.sessions.read(sessionId)).toMatchObject({
      state: stateWith(10),
      lastSeq: 21,
    });
  });

  test('only given fields of the progress change', async () => {
    const tenant = newTenant();
    const sessionId = await addSession(tenant, {
      progress: { state: stateWith(1), dueAt: 5, activeRunId: 'r' },
    });
    const change = changeOf(sessionId, { ifVersion: 1, at: noon + 5, progress: { dueAt: null } });
    await tenant.sessions.change({ changes: [change] });
    expect(await tenant.sessions.read(sessionId)).toMatchObject({
      ...idle,
      state: stateWith(1),
      dueAt: null,
      activeRunId: 'r',
      lastActiveAt: noon + 5,
    });
  });

  test('a relative change brings the time forward when attention is needed, never back', async () => {
    const tenant = newTenant();
    const sessionId = await addSession(tenant);
    const dueAfter = async (dueBy: number) => {
      await tenant.sessions.change({ changes: [changeOf(sessionId, { dueBy })] });
      return (await tenant.sessions.read(sessionId))?.dueAt;
    };
    expect([await dueAfter(20), await dueAfter(30), await dueAfter(10)]).toEqual([20, 20, 10]);
  });

  test('several changes of one session in a write follow each other', async () => {
    const tenant = newTenant();
    const sessionId = await addSession(tenant);
    const changes = ['a', 'b', 'c'].map((text) => changeOf(sessionId, { events: [log(text)] }));
    expect(await tenant.sessions.change({ changes })).toEqual({
      kind: 'committed',
      lastSeqs: [2, 3, 4],
    });
    const stored = await tenant.sessions.readEvents(sessionId, { after: 1, limit: 9 });
    expect(stored).toMatchObject([{ message: 'a' }, { message: 'b' }, { message: 'c' }]);
  });

  test.each(Object.entries(hostileText))(
    'an event with %s is read as it was written',
    async (_, text) => {
      const tenant = newTenant();
      const sessionId = await addSession(tenant);
      await tenant.sessions.change({ changes: [changeOf(sessionId, { events: [log(text)] })] });
      expect(await tenant.sessions.readEvents(sessionId, { after: 1, limit: 9 })).toMatchObject([
        log(text),
      ]);
    },
  );

  test('a page ends with the change that reaches its size, and holds at least one event', async () => {
    const tenant = newTenant();
    const sessionId = await addSession(tenant);
    for (let n = 0; n < 10; n += 1) {
      const events = [log('x'.repeat(1_000)), log(`${n}`)];
      await tenant.sessions.change({ changes: [changeOf(sessionId, { events })] });
    }
    const { sessions } = tenant;
    const found: number[] = [];
    for (let after = 0, isLast = false; !isLast;) {
      const page = await sessions.readPage(sessionId, { after, limit: 100, maxBytes: 2_500 });
      expect(page.events.length).toBeLessThanOrEqual(7);
      found.push(...page.events.map(({ seq }) => seq));
      after = found.at(-1) ?? after;
      isLast = page.isLast;
    }
    expect(found).toEqual(Array.from({ length: 21 }, (_, index) => index + 1));
    const small = await sessions.readPage(sessionId, { after: 1, limit: 100, maxBytes: 1 });
    expect(small).toMatchObject({ events: [{ seq: 2 }, { seq: 3 }], isLast: false });
    expect(await sessions.readEvents(sessionId, { after: 3, limit: 3 })).toMatchObject([
      { seq: 4 },
      { seq: 5 },
      { seq: 6 },
    ]);
    expect(await sessions.readEvents(sessionId, { after: 21, limit: 3 })).toEqual([]);
    expect(await sessions.readPage(uuidv7(), { ...whole, maxBytes: 1 })).toMatchObject({
      events: [],
    });
  });

  test('order in the inbox is that of the journal, for every recipient and however many send', async () => {
    const tenant = newTenant();
    const ids = await Promise.all(Array.from({ length: 4 }, () => addSession(tenant)));
    await Promise.all(
      Array.from({ length: 40 }, (_, n) =>
        send(tenant, n % 2 === 0 ? ids : ids.toReversed(), { text: `${n}`, at: noon - n }),
      ),
    );
    for (const sessionId of ids) {
      const accepted = (await tenant.sessions.readEvents(sessionId, whole)).flatMap((event) =>
        event.type === 'delivery.accepted' ? [{ id: event.deliveryId, position: event.seq }] : [],
      );
      const inbox = await tenant.messages.inbox(sessionId, whole);
      expect(inbox.map(({ id, position }) => ({ id, position }))).toEqual(accepted);
      expect(inbox).toHaveLength(40);
      const half = accepted[19]?.position ?? 0;
      expect(await tenant.messages.inbox(sessionId, { after: half, limit: 5 })).toEqual(
        inbox.slice(20, 25),
      );
    }
  });

  test('two messages in one change have their places', async () => {
    const tenant = newTenant();
    const sessionId = await addSession(tenant);
    const [first, second] = [sending([sessionId]), sending([sessionId])];
    const [one, two] = [first.changes[0], second.changes[0]];
    const change = changeOf(sessionId, {
      events: [...(one?.events ?? []), log('between'), ...(two?.events ?? [])],
      newDeliveries: [...(two?.newDeliveries ?? []), ...(one?.newDeliveries ?? [])],
    });
    await tenant.sessions.change({
      changes: [change],
      messages: [...first.messages, ...second.messages],
    });
    const inbox = await tenant.messages.inbox(sessionId, whole);
    expect(inbox.map(({ position, messageId }) => [position, messageId])).toEqual([
      [2, first.messages[0].id],
      [4, second.messages[0].id],
    ]);
  });

  const output = (text: string): SessionEvent => ({ type: 'terminal.output', text });
  const kilobytes = (n: number) => 'x'.repeat(n * 1024);

  test.each([
    ['output', output],
    ['screens', (text: string): SessionEvent => ({ type: 'terminal.screen', text })],
  ])('of terminal %s the last megabyte is kept, and of other events all', async (_what, shown) => {
    const tenant = newTenant();
    const sessionId = await addSession(tenant);
    for (let n = 0; n < 60; n += 1) {
      const events = [log(`before ${n}`), shown(`${n} ${kilobytes(99)}`), log(`after ${n}`)];
      await tenant.sessions.change({ changes: [changeOf(sessionId, { events })] });
    }
    const all: StoredSessionEvent[] = [];
    for (let after = 0; ;) {
      const page = await tenant.sessions.readPage(sessionId, {
        after,
        limit: 7,
        maxBytes: 300_000,
      });
      all.push(...page.events);
      after = all.at(-1)?.seq ?? after;
      if (page.isLast) break;
    }
    expect(all.filter(({ type }) => type === 'log')).toHaveLength(120);
    expect(all.map(({ seq }) => seq)).toEqual(all.map(({ seq }) => seq).toSorted((a, b) => a - b));
    const kept = all.filter(({ type }) => type.startsWith('terminal.'));
    const bytes = JSON.stringify(kept).length;
    expect(bytes).toBeGreaterThan(1024 * 1024);
    expect(bytes).toBeLessThan(1.5 * 1024 * 1024);
    // The newest, without a gap.
    expect(kept.map(({ seq }) => seq)).toEqual(kept.map((_, n) => 180 - 3 * (kept.length - 1 - n)));
    expect((await tenant.sessions.readEvents(sessionId, { after: 0, limit: 1_000 })).length).toBe(
      all.length,
    );
    // Whatever a reader has last read.
    expect(await tenant.sessions.readEvents(sessionId, { after: 2, limit: 1 })).toMatchObject([
      { seq: 4, message: 'after 0' },
    ]);
    expect(await tenant.sessions.readEvents(sessionId, { after: 3, limit: 1 })).toMatchObject([
      { seq: 4 },
    ]);
  });

  test('output without other events is read from what is kept, and nothing else may be missing', async () => {
    const tenant = newTenant();
    const sessionId = await addSession(tenant);
    for (let n = 0; n < 20; n += 1) {
      const events = Array.from({ length: 4 }, () => output(kilobytes(25)));
      await tenant.sessions.change({ changes: [changeOf(sessionId, { events })] });
    }
    const range = { after: 1, limit: 3, maxBytes: 1_000_000 };
    const first = await tenant.sessions.readPage(sessionId, range);
    expect(first.events.length).toBeGreaterThan(0);
    expect(first.events[0]?.seq).toBeGreaterThan(10);
    expect(first.isLast).toBe(false);
    const after = first.events.at(-1)?.seq ?? 0;
    expect(await tenant.sessions.readEvents(sessionId, { after, limit: 1 })).toMatchObject([
      { seq: after + 1 },
    ]);
    expect(await lastSeqOf(tenant, sessionId)).toBe(81);
  });
}
