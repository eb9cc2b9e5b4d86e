import type { Page, RunIdentity, TenantStore } from '@relay/core';
import type { EventOf, Message } from '@relay/protocol';
import { uuidv7 } from 'uuidv7';
import { expect, test } from 'vitest';
import {
  allListed,
  ending,
  hostileText,
  identityIn,
  newRun,
  noon,
  started,
  useStore,
} from '../fixtures.ts';
import type { Open, TestRun } from '../fixtures.ts';
import { created } from './run-lists.ts';
import { newGrant } from '../tenants/grants.ts';

const all = { after: 0, upTo: 1_000 };

const opening = (over: Partial<EventOf<'run.created'>>) => ({ ...created(''), ...over });

export function conversationTests(open: Open): void {
  const { tenant: newTenant } = useStore(open);

  test('a new conversation has no ended runs', async () => {
    const tenant = newTenant();
    const run = await newRun(tenant);
    for (const id of [run.conversationId, uuidv7()]) {
      expect(await tenant.countEndedRuns(id)).toBe(0);
      expect(await tenant.endedRuns(id, all)).toEqual([]);
    }
  });

  test('a conversation belongs to the owner of its first run', async () => {
    const tenant = newTenant();
    const { conversationId } = await newRun(tenant);
    const start = (owner: string, conversation?: 'any', of = tenant) =>
      of.createRun({
        identity: identityIn(of, { conversationId, owner }),
        lease: null,
        events: [started],
        conversation,
      });
    expect(await start('eve')).toEqual({ kind: 'not-owner' });
    expect(await start('ada')).toEqual({ kind: 'created' });
    expect(await start('eve', 'any')).toEqual({ kind: 'created' });
    // That has not changed the owner.
    expect(await start('eve')).toEqual({ kind: 'not-owner' });
    expect(await start('eve', undefined, newTenant())).toEqual({ kind: 'created' });
    const runs = (await tenant.listRuns({ conversationId }, { limit: 9 })).items;
    expect(runs.map(({ owner }) => owner).toSorted()).toEqual(['ada', 'ada', 'eve']);
  });

  test('of two owners that start one new conversation at once, one gets it', async () => {
    const tenant = newTenant();
    for (let round = 0; round < 5; round += 1) {
      const conversationId = uuidv7();
      const outcomes = await Promise.all(
        ['ada', 'eve', 'ada', 'eve'].map(async (owner) => {
          const identity = identityIn(tenant, { conversationId, owner });
          const { kind } = await tenant.createRun({ identity, lease: null, events: [started] });
          return { owner, kind };
        }),
      );
      const created = outcomes.filter(({ kind }) => kind === 'created');
      expect(created).toHaveLength(2);
      expect(new Set(created.map(({ owner }) => owner)).size).toBe(1);
    }
  });

  test('the grants of a conversation hold for runs of its owner only', async () => {
    const tenant = newTenant();
    const run = await newRun(tenant);
    const { id: runId, conversationId } = run;
    await tenant.addGrant(newGrant(tenant, { scope: 'conversation', scopeId: conversationId }));
    await tenant.addGrant(newGrant(tenant, { scope: 'run', scopeId: runId }));
    const held = (owner: string) => tenant.readGrants({ runId, conversationId, owner, now: noon });
    expect(await held('ada')).toHaveLength(2);
    expect(await held('eve')).toHaveLength(1);
  });

  test('runs take their positions as they end, not as they begin', async () => {
    const tenant = newTenant();
    const conversationId = uuidv7();
    const runs: TestRun[] = [];
    for (let i = 0; i < 4; i += 1)
      runs.push(await newRun(tenant, { identity: { conversationId } }));
    const order = [runs[2], runs[0], runs[3]].filter((run) => run !== undefined);
    const statuses = ['completed', 'failed', 'canceled'] as const;
    for (const [i, run] of order.entries()) {
      await tenant.append(ending(run, { progress: { status: statuses[i] ?? 'failed' } }));
    }
    expect(await tenant.countEndedRuns(conversationId)).toBe(3);
    expect(await tenant.endedRuns(conversationId, all)).toMatchObject(
      order.map(({ id }, i) => ({ runId: id, position: i + 1 })),
    );
  });

  test('runs that end at the same moment get different positions without a gap', async () => {
    const tenant = newTenant();
    const conversationId = uuidv7();
    const runs = await Promise.all(
      Array.from({ length: 30 }, () => newRun(tenant, { identity: { conversationId } })),
    );
    await Promise.all(runs.map((run) => tenant.append(ending(run))));
    const ended = await tenant.endedRuns(conversationId, all);
    expect(ended.map(({ position }) => position)).toEqual(
      Array.from({ length: 30 }, (_, i) => i + 1),
    );
    expect(new Set(ended.map(({ runId }) => runId))).toEqual(new Set(runs.map(({ id }) => id)));
    expect(await tenant.countEndedRuns(conversationId)).toBe(30);
  });

  test('any range of positions is exactly that part', async () => {
    const tenant = newTenant();
    const conversationId = uuidv7();
    for (let i = 0; i < 5; i += 1) {
      await tenant.append(ending(await newRun(tenant, { identity: { conversationId } })));
    }
    const ended = await tenant.endedRuns(conversationId, all);
    for (let after = 0; after <= 6; after += 1) {
      for (let upTo = 0; upTo <= 6; upTo += 1) {
        const part = await tenant.endedRuns(conversationId, { after, upTo });
        expect(part).toEqual(ended.slice(after, Math.max(after, upTo)));
      }
    }
  });

  test('a fenced end does not count', async () => {
    const tenant = newTenant();
    const run = await newRun(tenant);
    expect(await tenant.append(ending(run, { epoch: 9 }))).toBe('fenced');
    await tenant.append(ending(run));
    expect(await tenant.append(ending(run, { afterSeq: 2 }))).toBe('fenced');
    expect(await tenant.countEndedRuns(run.conversationId)).toBe(1);
  });

  test('a run that is over from the beginning has its position too', async () => {
    const tenant = newTenant();
    const run = await newRun(tenant, { progress: { status: 'failed' } });
    expect(await tenant.endedRuns(run.conversationId, all)).toMatchObject([
      { runId: run.id, position: 1 },
    ]);
    expect(await tenant.append(ending(run))).toBe('fenced');
  });

  /** A run at a minute, whose user says something. */
  const said = (
    tenant: TenantStore,
    minute: number,
    text: string,
    over: Partial<RunIdentity> = {},
  ) => {
    const identity = { createdAt: noon + minute * 60_000, ...over };
    const messages = [{ role: 'user', content: text } as const];
    return newRun(tenant, { identity, events: [opening({ messages })], conversation: 'any' });
  };

  test('a conversation is read with its first text and its last run', async () => {
    const tenant = newTenant();
    const { conversationId } = await said(tenant, 0, ' Release\n the  fix ');
    const second = await said(tenant, 2, 'And tell Bob', {
      conversationId,
      owner: 'eve',
      agent: 'b',
    });
    const conversation = {
      id: conversationId,
      title: 'Release the fix',
      agent: 'b',
      status: 'queued',
      lastRunId: second.id,
      runs: 2,
      owner: 'ada',
      sessionId: null,
      createdAt: noon,
      updatedAt: noon + 120_000,
    };
    expect(await tenant.readConversation(conversationId)).toEqual(conversation);
    const at = noon + 180_000;
    await tenant.append(ending(second, { at, progress: { status: 'failed', endedAt: at } }));
    const ended = { ...conversation, status: 'failed' };
    expect(await tenant.readConversation(conversationId)).toEqual(ended);
    expect(await tenant.listConversations({}, { limit: 9 })).toEqual({
      items: [ended],
      next: null,
    });
    expect(await newTenant().readConversation(conversationId)).toBeUndefined();
    expect(await tenant.readConversation(uuidv7())).toBeUndefined();
  });

  test('the title is the first text of a user, with at most 200 characters, however it is written', async () => {
    const tenant = newTenant();
    const titleOf = async (messages: readonly Message[]) => {
      const run = await newRun(tenant, { events: [opening({ messages: [...messages] })] });
      return (await tenant.readConversation(run.conversationId))?.title;
    };
    for (const text of Object.values(hostileText).filter((each) => each.trim() !== '')) {
      const title = await titleOf([{ role: 'user', content: text }]);
      expect(title).toBe(text.replaceAll(/\s+/g, ' ').trim());
    }
    expect(await titleOf([{ role: 'user', content: '🚀'.repeat(300) }])).toBe(
      `${'🚀'.repeat(199)}…`,
    );
    const parts = [
      { type: 'image', url: 'https://a.example/b.png' },
      { type: 'text', text: 'What is this?' },
    ] as const;
    expect(
      await titleOf([
        { role: 'system', content: 'Be brief' },
        { role: 'user', content: '  ' },
        { role: 'user', content: [...parts] },
      ]),
    ).toBe('What is this?');
    expect(await titleOf([])).toBeNull();
  });

  test('a conversation without a title gets that of a later run', async () => {
    const tenant = newTenant();
    const { conversationId } = await newRun(tenant, { events: [opening({ messages: [] })] });
    await said(tenant, 1, 'Hello', { conversationId });
    await said(tenant, 2, 'Bye', { conversationId });
    expect(await tenant.readConversation(conversationId)).toMatchObject({
      title: 'Hello',
      runs: 3,
    });
  });

  test('the turns of a session are a conversation with its id', async () => {
    const tenant = newTenant();
    const sessionId = uuidv7();
    const run = await newRun(tenant, { events: [opening({ sessionId })] });
    expect(await tenant.readConversation(run.conversationId)).toMatchObject({ sessionId });
  });

  test('conversations are listed by their latest run, page by page', async () => {
    const tenant = newTenant();
    const runs: TestRun[] = [];
    for (let n = 0; n < 12; n += 1) runs.push(await said(tenant, n % 4, `Number ${n}`));
    const again = runs[5];
    await said(tenant, 9, 'Again', { conversationId: again?.conversationId ?? '' });
    const list = (page: Page) => tenant.listConversations({}, page);
    const whole = (await list({ limit: 50 })).items;
    expect(whole[0]).toMatchObject({ id: again?.conversationId, title: 'Number 5' });
    const times = whole.map(({ updatedAt }) => updatedAt);
    expect(times).toEqual(times.toSorted((a, b) => b - a));
    expect(whole).toHaveLength(12);
    for (const limit of [1, 5, 12]) {
      expect(await allListed(limit, list)).toEqual(whole.map(({ id }) => id));
    }
    expect((await newTenant().listConversations({}, { limit: 9 })).items).toEqual([]);
  });

  test('conversations are found by a part of their title, in upper or lower case', async () => {
    const tenant = newTenant();
    const titles = ['Über 100% of "x"', 'under_score', 'C:\\temp', 'line\u0000d', 'Underscore!'];
    for (const [n, title] of titles.entries()) await said(tenant, n, title);
    const found = async (query: string) => {
      const { items } = await tenant.listConversations({ query }, { limit: 9 });
      return items.map(({ title }) => title);
    };
    expect(await found('ÜBER')).toEqual([titles[0]]);
    expect(await found('0% of "X"')).toEqual([titles[0]]);
    expect(await found('r_s')).toEqual([titles[1]]);
    expect(await found('under')).toEqual([titles[4], titles[1]]);
    expect(await found('c:\\T')).toEqual([titles[2]]);
    expect(await found('\u0000')).toEqual([titles[3]]);
    expect(await found('e!')).toEqual([titles[4]]);
    expect(await found('nothing')).toEqual([]);
    const pages = (page: Page) => tenant.listConversations({ query: 'UNDER' }, page);
    expect(await allListed(1, pages)).toHaveLength(2);
  });
}
