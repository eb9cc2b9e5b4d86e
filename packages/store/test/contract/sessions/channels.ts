import { uuidv7 } from 'uuidv7';
import { expect, test } from 'vitest';
import { hostileText, newAudit, noon, person, useStore, type Open } from '../fixtures.ts';
import { addSession, changeOf, newAction, newInvocation } from './fixtures.ts';

export function channelTests(open: Open): void {
  const { tenant: newTenant } = useStore(open);

  test('a channel is created once, and its topic changes', async () => {
    const tenant = newTenant();
    const channel = { name: 'general', createdAt: noon, createdBy: person };
    const { channels } = tenant;
    expect(await channels.put(channel, [newAudit()])).toEqual({ ...channel, topic: null });
    const topic = hostileText['NUL'] ?? '';
    const later = { ...channel, createdAt: noon + 1 };
    expect(await channels.put({ ...later, topic })).toEqual({ ...channel, topic });
    expect(await channels.put(later)).toEqual({ ...channel, topic });
    expect(await channels.put({ ...later, topic: null })).toEqual({ ...channel, topic: null });
    await channels.put({ ...channel, name: 'ops' });
    expect((await channels.list({ limit: 1 })).map(({ name }) => name)).toEqual(['general']);
    const rest = await channels.list({ after: 'general', limit: 9 });
    expect(rest.map(({ name }) => name)).toEqual(['ops']);
    expect(await newTenant().channels.read('general')).toBeUndefined();
    expect(await tenant.audit.unsealed(9)).toHaveLength(1);
  });

  test('members are sessions of the tenant that are not released', async () => {
    const [tenant, stranger] = [newTenant(), newTenant()];
    const { channels } = tenant;
    for (const name of ['general', 'ops']) {
      await channels.put({ name, createdAt: noon, createdBy: person });
    }
    const ids = [await addSession(tenant), await addSession(tenant)].toSorted();
    const [one = '', two = ''] = ids;
    const released = await addSession(tenant, { progress: { releasedAt: noon } });
    const foreign = await addSession(stranger);
    const member = (sessionId: string, channel = 'general') => ({
      channel,
      sessionId,
      addedAt: noon,
    });
    for (const sessionId of [two, one])
      expect(await channels.addMember(member(sessionId))).toBe(true);
    expect(await channels.addMember(member(one, 'ops'))).toBe(true);
    for (const sessionId of [released, foreign, uuidv7()]) {
      expect(await channels.addMember(member(sessionId))).toBe(false);
    }
    expect(await channels.addMember(member(one, 'none'))).toBe(false);
    const listed = (each: ReturnType<typeof member>) => ({
      ...each,
      handle: `h-${each.sessionId}`,
    });
    expect(await channels.members('general')).toEqual([member(one), member(two)].map(listed));
    expect(await channels.channelsOf(one)).toEqual(['general', 'ops']);
    expect(await stranger.channels.members('general')).toEqual([]);
    expect(await stranger.channels.channelsOf(one)).toEqual([]);
    expect(await stranger.channels.removeMember(member(one))).toBe(false);

    const again = { ...member(one), addedAt: noon + 1 };
    expect(await channels.addMember(again)).toBe(true);
    expect(await channels.members('general')).toEqual([again, member(two)].map(listed));
    expect(await channels.removeMember(member(two))).toBe(true);
    expect(await channels.removeMember(member(two))).toBe(false);
    const release = changeOf(one, { ifVersion: 1, progress: { releasedAt: noon } });
    await tenant.sessions.change({ changes: [release] });
    expect(await channels.members('general')).toEqual([]);
    expect(await channels.channelsOf(one)).toEqual([]);
  });
}

export function actionTests(open: Open): void {
  const { system, tenant: newTenant } = useStore(open);

  test('of many registrations of one name one is stored', async () => {
    const tenant = newTenant();
    const { actions } = tenant;
    const records = Array.from({ length: 10 }, (_, n) => newAction({ description: `${n}` }));
    const added = await Promise.all(records.map((record) => actions.add(record)));
    expect(added.filter(Boolean)).toHaveLength(1);
    const stored = records[added.indexOf(true)];
    expect(await actions.read('deploy')).toEqual(stored);
    expect(await actions.list({ limit: 9 })).toEqual([stored]);
    expect(await actions.list({ limit: 9, after: 'deploy' })).toEqual([]);
    expect(await newTenant().actions.read('deploy')).toBeUndefined();
    expect(await newTenant().actions.remove('deploy')).toBe(false);
    expect(await actions.remove('deploy', [newAudit()])).toBe(true);
    expect(await actions.remove('deploy')).toBe(false);
    expect(await actions.add(newAction({ availableTo: null, timeoutMs: null }))).toBe(true);
  });

  test('an action ends with its session', async () => {
    const tenant = newTenant();
    const { actions } = tenant;
    const sessionId = await addSession(tenant);
    const action = newAction({ sessionId, url: null });
    expect(await actions.add({ ...action, sessionId: uuidv7() })).toBe(false);
    expect(await newTenant().actions.add(action)).toBe(false);
    expect(await actions.add(action)).toBe(true);
    expect(await actions.add(newAction({ name: 'other' }))).toBe(true);
    const release = changeOf(sessionId, { ifVersion: 1, progress: { releasedAt: noon } });
    await tenant.sessions.change({ changes: [release] });
    expect((await actions.list({ limit: 9 })).map(({ name }) => name)).toEqual(['other']);
    expect(await actions.add(action)).toBe(false);
  });

  test('an invocation is stored with the event that reports it, and ends once', async () => {
    const tenant = newTenant();
    const { actions, sessions } = tenant;
    const sessionId = await addSession(tenant);
    const input = { text: hostileText['NUL'], list: [null] };
    const invocation = newInvocation({ sessionId, status: 'waiting', input, approvalId: 'a' });
    const event = {
      type: 'action.invoked',
      action: 'deploy',
      invocationId: invocation.id,
    } as const;
    const changes = [changeOf(sessionId, { events: [event] })];
    await sessions.change({ changes, invocations: [invocation] });
    const open = { ...invocation, output: null, error: null, editedInput: null, endedAt: null };
    expect(await actions.readInvocation(invocation.id)).toEqual(open);
    expect(await actions.unsentInvocations(sessionId, 9)).toEqual([]);
    expect(await newTenant().actions.readInvocation(invocation.id)).toBeUndefined();

    const { id } = invocation;
    const change = (over: object) =>
      sessions.change({
        changes: [],
        invocationChanges: [{ id, from: ['running'], to: 'completed', at: noon + 1, ...over }],
      });
    expect(await change({})).toEqual({ kind: 'conflict' });
    const editedInput = { text: 'changed' };
    const run = { from: ['waiting'], to: 'running', dueAt: noon + 5, editedInput };
    expect(await change(run)).toMatchObject({
      kind: 'committed',
    });
    const started = { ...open, status: 'running', dueAt: noon + 5, editedInput };
    expect(await actions.readInvocation(id)).toEqual(started);
    expect(await actions.unsentInvocations(sessionId, 9)).toEqual([started]);
    expect(await actions.sentInvocations(sessionId, { limit: 9 })).toEqual([]);
    await change({ to: 'running', startedAt: noon });
    expect(await actions.unsentInvocations(sessionId, 9)).toEqual([]);
    expect(await actions.sentInvocations(sessionId, { limit: 9 })).toMatchObject([{ id }]);
    expect(await actions.sentInvocations(sessionId, { after: id, limit: 9 })).toEqual([]);
    const outcomes = await Promise.all(
      Array.from({ length: 10 }, (_, n) => change({ output: { n } })),
    );
    const winner = outcomes.findIndex(({ kind }) => kind === 'committed');
    expect(outcomes.filter(({ kind }) => kind === 'conflict')).toHaveLength(9);
    expect(await actions.readInvocation(id)).toEqual({
      ...open,
      status: 'completed',
      startedAt: noon,
      editedInput,
      output: { n: winner },
      dueAt: null,
      endedAt: noon + 1,
    });
    expect(await actions.sentInvocations(sessionId, { limit: 9 })).toEqual([]);
    expect(await change({ from: ['completed'], to: 'running' })).toEqual({ kind: 'conflict' });
  });

  test('of several nodes one takes an invocation that is due, and one starts it', async () => {
    const { actions, sessions } = newTenant();
    const invocation = newInvocation({ idempotent: true, timeoutMs: 5 });
    const { id, dueAt } = invocation;
    await sessions.change({ changes: [], invocations: [invocation] });
    const change = (over: object) => {
      const changes = { id, from: ['running'], to: 'running', at: noon + 1, ...over } as const;
      return sessions.change({ changes: [], invocationChanges: [changes] });
    };
    const kinds = async (over: object) => {
      const outcomes = await Promise.all(Array.from({ length: 5 }, () => change(over)));
      return outcomes.map(({ kind }) => kind).toSorted();
    };
    const oneOfFive = ['committed', 'conflict', 'conflict', 'conflict', 'conflict'];
    expect(await kinds({ ifDueAt: dueAt, dueAt: noon + 9_000 })).toEqual(oneOfFive);
    expect(await kinds({ ifStartedAt: null, startedAt: noon + 1 })).toEqual(oneOfFive);
    expect(await change({ ifStartedAt: noon })).toEqual({ kind: 'conflict' });
    expect(await actions.readInvocation(id)).toMatchObject({
      idempotent: true,
      timeoutMs: 5,
      dueAt: noon + 9_000,
      startedAt: noon + 1,
    });
  });

  test('a released session makes the invocations that it carries out due', async () => {
    const tenant = newTenant();
    const { actions, sessions } = tenant;
    const sessionId = await addSession(tenant);
    const invocation = newInvocation({ sessionId });
    const other = newInvocation({ sessionId: await addSession(tenant) });
    await sessions.change({ changes: [], invocations: [invocation, other] });
    const { version } = (await sessions.read(sessionId)) ?? { version: 0 };
    const released = changeOf(sessionId, { ifVersion: version, progress: { releasedAt: noon } });
    expect(await sessions.change({ changes: [released] })).toMatchObject({ kind: 'committed' });
    expect(await actions.readInvocation(invocation.id)).toMatchObject({ dueAt: invocation.at });
    expect(await actions.readInvocation(other.id)).toMatchObject({ dueAt: other.dueAt });
  });

  test('of the invocations of a caller with one key, one is stored', async () => {
    const { sessions } = newTenant();
    const idempotency = { sender: 'ada', key: 'k', fingerprint: 'f', expiresAt: noon + 9_999 };
    const invocations = [newInvocation(), newInvocation()];
    const [first, second] = await Promise.all(
      invocations.map((each) => sessions.change({ changes: [], invocations: [each], idempotency })),
    );
    const kinds = [first?.kind, second?.kind];
    expect(kinds.toSorted()).toEqual(['committed', 'exists']);
    const winner = invocations[kinds.indexOf('committed')];
    const exists = { kind: 'exists', holderId: winner?.id, fingerprint: 'f' };
    expect(first?.kind === 'exists' ? first : second).toEqual(exists);
  });

  test.each([
    ['dueHandlers', { sessionId: null }],
    ['dueInvocations', { sessionId: 's-1' }],
    ['dueInvocations', { sessionId: null, status: 'waiting' }],
  ] as const)('open invocations are due at their time, oldest first: %s %o', async (kind, over) => {
    const tenant = newTenant();
    const invocations = [3, 1, 2, 9].map((n) => newInvocation({ dueAt: noon + n, ...over }));
    const denied = newInvocation({ ...over, status: 'denied', dueAt: noon });
    await tenant.sessions.change({ changes: [], invocations: [...invocations, denied] });
    const { sessions } = system();
    const due = async (now: number) =>
      (await sessions[kind](now, 100))
        .filter(({ tenantId }) => tenantId === tenant.tenantId)
        .map(({ invocationId }) => invocations.findIndex(({ id }) => id === invocationId));
    const other = kind === 'dueHandlers' ? 'dueInvocations' : 'dueHandlers';
    const ofOther = (await sessions[other](noon + 9, 100)).map(({ tenantId }) => tenantId);
    expect(ofOther).not.toContain(tenant.tenantId);
    expect(await due(noon)).toEqual([]);
    expect(await due(noon + 3)).toEqual([1, 2, 0]);
    await system().ensureTenant({ id: tenant.tenantId, name: tenant.tenantId, at: noon });
    await tenant.updateTenant({ pausedAt: noon });
    expect(await due(noon + 3)).toEqual([]);
    await tenant.updateTenant({ pausedAt: null });
    expect(await due(noon + 3)).toEqual([1, 2, 0]);
  });

  test('tenants take turns among the invocations that are due', async () => {
    const [busy, other] = [newTenant(), newTenant()];
    const at = -1_000_000;
    const backlog = Array.from({ length: 5 }, (_, n) => newInvocation({ dueAt: at + n }));
    await busy.sessions.change({ changes: [], invocations: backlog });
    await other.sessions.change({ changes: [], invocations: [newInvocation({ dueAt: at + 9 })] });
    const due = await system().sessions.dueHandlers(at + 9, 3);
    expect(due.map(({ tenantId }) => tenantId)).toEqual([
      busy.tenantId,
      other.tenantId,
      busy.tenantId,
    ]);
  });
}
