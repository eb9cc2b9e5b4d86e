import type { NewGrant } from '@relay/core';
import { uuidv7 } from 'uuidv7';
import { expect, test } from 'vitest';
import {
  approval,
  clock,
  decisionMail,
  ending,
  newRelay,
  newRun,
  noon,
  person,
  step,
  useStore,
  waitingRun,
} from './fixtures.ts';
import type { Open, TestRun } from './fixtures.ts';

export function relayTests(open: Open): void {
  const { system, tenant: newTenant } = useStore(open);

  function grantOf(run: TestRun, over: Partial<NewGrant> = {}): NewGrant {
    return {
      id: uuidv7(),
      tool: 'send_note',
      exact: { to: 'ada', n: 1, deep: { list: [null, true] } },
      scope: 'run',
      scopeId: run.id,
      createdAt: noon,
      createdBy: person,
      ...over,
    };
  }

  test('a raised relay is pending and reads back as it was raised', async () => {
    const tenant = newTenant();
    const { relay } = await waitingRun(tenant, {
      kind: 'question',
      agentPath: ['assistant', 'helper'],
      params: { deep: [{ a: null }, 'text', 1.5, true] },
    });
    expect(await tenant.readRelay(relay.id)).toEqual({
      ...relay,
      status: 'pending',
      decidedAt: null,
      decidedBy: null,
      reason: null,
      edited: null,
      answer: null,
    });
  });

  test('where the paths of a call lead is kept with its relay', async () => {
    const tenant = newTenant();
    const located = { path: '/srv/ws/a "b"\u0000', cwd: '/srv/ws' };
    const { relay } = await waitingRun(tenant, { located });
    expect(await tenant.readRelay(relay.id)).toMatchObject({ located });
    const plain = await waitingRun(tenant);
    expect(await tenant.readRelay(plain.relay.id)).not.toHaveProperty('located');
  });

  test('a question is kept with its relay, and a relay without one has none', async () => {
    const tenant = newTenant();
    const question = { prompt: 'Which\u0000?', schema: { type: 'object', deep: [null, '\ud800'] } };
    const { relay } = await waitingRun(tenant, { kind: 'question', question });
    expect(await tenant.readRelay(relay.id)).toMatchObject({ question });
    const [listed] = await tenant.listRelays({ kind: 'question' }, { limit: 1 });
    expect(listed).toMatchObject({ id: relay.id, question });
    const plain = await waitingRun(tenant);
    expect(await tenant.readRelay(plain.relay.id)).not.toHaveProperty('question');
  });

  test('parameters of every JSON type survive', async () => {
    const tenant = newTenant();
    for (const params of [null, 'text', 0, -1.5, true, [], [[]], {}, { a: [] }]) {
      const { relay } = await waitingRun(tenant, { params });
      expect((await tenant.readRelay(relay.id))?.params).toEqual(params);
    }
  });

  test('a decision is stored with who, when and why, and its mail with it', async () => {
    const tenant = newTenant();
    const { run, relay } = await waitingRun(tenant);
    const decision = approval(relay, { status: 'denied', reason: 'not today' });
    expect(await tenant.decideRelay(decision)).toBe(true);
    expect(await tenant.readRelay(relay.id)).toEqual({
      ...relay,
      status: 'denied',
      decidedAt: noon + 1,
      decidedBy: person,
      reason: 'not today',
      edited: null,
      answer: decision.answer,
    });
    expect(await tenant.readMail(run.id)).toEqual([decision.mail]);
  });

  test('a decision keeps the arguments that were changed beside those that were asked about', async () => {
    const tenant = newTenant();
    const { relay } = await waitingRun(tenant);
    const edited = {
      params: { to: 'ada\u0000', deep: { list: [null, '\ud800'] } },
      digest: 'beef',
    };
    expect(await tenant.decideRelay(approval(relay, { edited }))).toBe(true);
    expect(await tenant.readRelay(relay.id)).toMatchObject({ params: relay.params, edited });
    const [listed] = await tenant.listRelays({ runId: relay.runId }, { limit: 1 });
    expect(listed).toMatchObject({ digest: relay.digest, edited });
    expect(await tenant.decideRelay(approval(relay, { edited: { params: {}, digest: 'x' } }))).toBe(
      false,
    );
    expect(await tenant.readRelay(relay.id)).toMatchObject({ edited });
  });

  test('of 50 racing decisions one counts, and there is one mail', async () => {
    const tenant = newTenant();
    const { run, relay } = await waitingRun(tenant);
    const decisions = Array.from({ length: 50 }, (_, i) =>
      approval(relay, {
        status: i % 2 === 0 ? 'approved' : 'denied',
        reason: `answer ${i}`,
        grant: grantOf(run),
      }),
    );
    const outcomes = await Promise.all(decisions.map((each) => tenant.decideRelay(each)));
    expect(outcomes.filter(Boolean)).toHaveLength(1);
    const winner = decisions[outcomes.indexOf(true)];
    expect(await tenant.readRelay(relay.id)).toMatchObject({
      status: winner?.status,
      reason: winner?.reason,
    });
    expect(await tenant.readMail(run.id)).toEqual([winner?.mail]);
    expect(await tenant.readGrants({ runId: run.id, conversationId: '', now: noon })).toHaveLength(
      1,
    );
  });

  test('a second decision does not count, whether it agrees or not', async () => {
    const tenant = newTenant();
    const { run, relay } = await waitingRun(tenant);
    expect(await tenant.decideRelay(approval(relay))).toBe(true);
    expect(await tenant.decideRelay(approval(relay))).toBe(false);
    expect(await tenant.decideRelay(approval(relay, { status: 'denied' }))).toBe(false);
    expect(await tenant.readMail(run.id)).toHaveLength(1);
    expect(await tenant.readRelay(relay.id)).toMatchObject({ status: 'approved' });
  });

  test('a decision counts until the moment of expiry and not at it', async () => {
    const tenant = newTenant();
    const late = await waitingRun(tenant);
    const { expiresAt } = late.relay;
    const grant = grantOf(late.run);
    expect(await tenant.decideRelay(approval(late.relay, { at: expiresAt, grant }))).toBe(false);
    expect(await tenant.readRelay(late.relay.id)).toMatchObject({ status: 'pending' });
    expect(await tenant.readMail(late.run.id)).toEqual([]);
    expect(await tenant.readGrants({ runId: late.run.id, conversationId: '', now: noon })).toEqual(
      [],
    );
    expect(await tenant.decideRelay(approval(late.relay, { at: expiresAt - 1 }))).toBe(true);
  });

  test('a relay that expired or was closed cannot be decided', async () => {
    const tenant = newTenant();
    for (const status of ['expired', 'closed'] as const) {
      const run = await newRun(tenant);
      const relay = newRelay(run);
      await tenant.append(step(run, { events: [], raise: [relay] }));
      const close = { relayId: relay.id, status, at: noon + 9, by: clock, reason: 'over' };
      expect(await tenant.append(step(run, { close: [close] }))).toBe('committed');
      expect(await tenant.readRelay(relay.id)).toEqual({
        ...relay,
        status,
        decidedAt: noon + 9,
        decidedBy: clock,
        reason: 'over',
        edited: null,
        answer: null,
      });
      expect(await tenant.decideRelay(approval(relay))).toBe(false);
      expect(await tenant.readMail(run.id)).toEqual([]);
    }
  });

  test.each(['expired', 'closed'] as const)(
    'a relay can be raised and %s in one step',
    async (status) => {
      const tenant = newTenant();
      const run = await newRun(tenant);
      const relay = newRelay(run);
      const close = [{ status, at: noon, by: clock, reason: 'at once', relayId: relay.id }];
      expect(await tenant.append(step(run, { raise: [relay], close }))).toBe('committed');
      expect(await tenant.readRelay(relay.id)).toMatchObject({ status, reason: 'at once' });
    },
  );

  test('a relay that was decided cannot expire: the whole step is undone', async () => {
    const tenant = newTenant();
    const run = await newRun(tenant);
    const [relay, other] = [newRelay(run), newRelay(run)];
    await tenant.append(step(run, { events: [], raise: [relay, other] }));
    expect(await tenant.decideRelay(approval(relay))).toBe(true);
    const expire = { status: 'expired', at: noon + 60_000, by: clock, reason: 'late' } as const;
    const close = [other, relay].map(({ id }) => ({ ...expire, relayId: id }));
    expect(await tenant.append(step(run, { close }))).toBe('fenced');
    expect(await tenant.readRelay(relay.id)).toMatchObject({ status: 'approved' });
    expect(await tenant.readRelay(other.id)).toMatchObject({ status: 'pending' });
    expect(await tenant.readRun(run.id)).toMatchObject({ lastSeq: 1 });
  });

  test('a relay that was decided keeps its decision when its run closes it', async () => {
    const tenant = newTenant();
    const run = await newRun(tenant);
    const relay = newRelay(run);
    await tenant.append(step(run, { events: [], raise: [relay] }));
    await tenant.decideRelay(approval(relay));
    const close = {
      relayId: relay.id,
      status: 'closed',
      at: noon,
      by: clock,
      reason: 'r',
    } as const;
    expect(await tenant.append(ending(run, { close: [close] }))).toBe('committed');
    expect(await tenant.readRelay(relay.id)).toMatchObject({
      status: 'approved',
      decidedBy: person,
    });
  });

  test('no relay outlives its run, even if its end does not mention it', async () => {
    const tenant = newTenant();
    const run = await newRun(tenant);
    const [open, decided] = [newRelay(run), newRelay(run)];
    await tenant.append(step(run, { events: [], raise: [open, decided] }));
    await tenant.decideRelay(approval(decided));
    const { relay: elsewhere } = await waitingRun(tenant);
    expect(await tenant.append(ending(run))).toBe('committed');
    expect(await tenant.readRelay(open.id)).toMatchObject({ status: 'closed' });
    expect(await tenant.readRelay(decided.id)).toMatchObject({ status: 'approved' });
    expect(await tenant.readRelay(elsewhere.id)).toMatchObject({ status: 'pending' });
  });

  test('a decision counts for the run that raised the relay and no other', async () => {
    const tenant = newTenant();
    const { relay } = await waitingRun(tenant);
    const other = await newRun(tenant);
    expect(await tenant.decideRelay(approval(relay, { runId: other.id }))).toBe(false);
    expect(await tenant.readMail(other.id)).toEqual([]);
    expect(await tenant.readRelay(relay.id)).toMatchObject({ status: 'pending' });
    const close = { status: 'closed', at: noon, by: clock, reason: 'r' } as const;
    await tenant.append(step(other, { close: [{ ...close, relayId: relay.id }] }));
    expect(await tenant.readRelay(relay.id)).toMatchObject({ status: 'pending' });
  });

  test('an open relay of a run that is over cannot be decided', async () => {
    const tenant = newTenant();
    const run = await newRun(tenant);
    const relay = newRelay(run);
    await tenant.append(ending(run, { raise: [relay] }));
    expect(await tenant.decideRelay(approval(relay, { grant: grantOf(run) }))).toBe(false);
    expect(await tenant.readRelay(relay.id)).toMatchObject({ status: 'closed' });
    expect(await tenant.readGrants({ runId: run.id, conversationId: '', now: noon })).toEqual([]);
  });

  test('a decision on a relay that was never raised does not count', async () => {
    const tenant = newTenant();
    const { run, relay } = await waitingRun(tenant);
    const unknown = approval(relay, { relayId: uuidv7(), mail: decisionMail(relay.id) });
    expect(await tenant.decideRelay(unknown)).toBe(false);
    expect(await tenant.readMail(run.id)).toEqual([]);
  });

  test('a step raises several relays and each is decided on its own', async () => {
    const tenant = newTenant();
    const run = await newRun(tenant);
    const relays = [1, 2, 3].map((n) => newRelay(run, { toolCallId: `call_${n}` }));
    await tenant.append(step(run, { raise: relays }));
    for (const relay of relays.slice(1)) await tenant.decideRelay(approval(relay));
    const read = await Promise.all(relays.map(({ id }) => tenant.readRelay(id)));
    expect(read.map((each) => each?.status)).toEqual(['pending', 'approved', 'approved']);
    expect(await tenant.readMail(run.id)).toHaveLength(2);
  });

  test('grants are found by their run or their conversation, oldest first', async () => {
    const tenant = newTenant();
    const { run, relay } = await waitingRun(tenant);
    const ofRun = grantOf(run, { createdAt: noon + 2 });
    await tenant.decideRelay(approval(relay, { grant: ofRun }));
    const second = await waitingRun(tenant);
    const ofConversation = grantOf(run, {
      scope: 'conversation',
      scopeId: run.conversationId,
      createdAt: noon + 1,
      params: { to: 'a*' },
    });
    await tenant.decideRelay(approval(second.relay, { grant: ofConversation }));

    const { id, tool, exact } = ofRun;
    const scope = { runId: run.id, conversationId: run.conversationId, now: noon };
    expect(await tenant.readGrants(scope)).toEqual([
      { id: ofConversation.id, tool, exact, params: { to: 'a*' } },
      { id, tool, exact },
    ]);
    expect(await tenant.readGrants({ ...scope, runId: uuidv7() })).toHaveLength(1);
    const swapped = { runId: run.conversationId, conversationId: run.id, now: noon };
    expect(await tenant.readGrants(swapped)).toEqual([]);
  });

  test('a decision makes a waiting run due', async () => {
    const tenant = newTenant();
    const { run, relay } = await waitingRun(tenant);
    const isDue = async () =>
      (await system().dueRuns(noon, 1_000)).some(({ runId }) => runId === run.id);
    expect(await isDue()).toBe(false);
    await tenant.decideRelay(approval(relay));
    expect(await isDue()).toBe(true);
  });
}
