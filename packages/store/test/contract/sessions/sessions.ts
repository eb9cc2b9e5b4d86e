import type { Hint, TenantStore } from '@relay/core';
import { defined } from '@relay/protocol';
import { uuidv7 } from 'uuidv7';
import { expect, test } from 'vitest';
import {
  allListed,
  cancelCommand,
  ending,
  hostileText,
  identityIn,
  newAudit,
  newRun,
  noon,
  person,
  step,
  started,
  useStore,
  type Open,
} from '../fixtures.ts';
import {
  addSession,
  capabilities,
  changeOf,
  idle,
  lastSeqOf,
  log,
  newAction,
  newInvocation,
  newSession,
  send,
  sending,
  stateWith,
  whole,
} from './fixtures.ts';

export function sessionTests(open: Open): void {
  const { system, tenant: newTenant } = useStore(open);

  test('a session is read as it was created, with its first events', async () => {
    const tenant = newTenant();
    const session = newSession({
      definition: {
        handle: 'ada',
        name: hostileText['NUL'] ?? '',
        agent: 'coder',
        model: 'demo',
        labels: { team: 'blue' },
        workspace: 'a/b',
        permissions: { allow: [] },
        parentSessionId: uuidv7(),
      },
      progress: { status: 'starting', state: stateWith(7), activeRunId: 'r', dueAt: 9 },
    });
    expect(await tenant.sessions.create(session)).toEqual({ kind: 'created' });
    const stored = await tenant.sessions.read(session.id);
    expect(stored).toEqual({
      id: session.id,
      tenantId: tenant.tenantId,
      createdAt: noon,
      ...session.definition,
      ...session.progress,
      lastActiveAt: noon,
      lastSeq: 1,
      version: 1,
      prunedSeq: 0,
      seenAt: noon,
      stream: null,
      queue: { length: 0, bytes: 0, oldestAt: null, oldestUnheldAt: null },
    });
    expect(await tenant.sessions.readByHandle('ada')).toEqual(stored);
    expect(await tenant.sessions.readByRun('r')).toEqual(stored);
    expect(await tenant.sessions.readEvents(session.id, whole)).toEqual([
      { ...session.events[0], seq: 1, at: new Date(noon).toISOString() },
    ]);
  });

  test('of many sessions that take a handle at once one is created', async () => {
    const tenant = newTenant();
    const outcomes = await Promise.all(
      Array.from({ length: 20 }, () =>
        tenant.sessions.create(newSession({ definition: { handle: 'ada' } })),
      ),
    );
    expect(outcomes.filter(({ kind }) => kind === 'created')).toHaveLength(1);
    expect(outcomes.filter(({ kind }) => kind === 'handle-taken')).toHaveLength(19);
    expect((await tenant.sessions.list({}, { limit: 50 })).items).toHaveLength(1);
    const other = newTenant();
    expect(await other.sessions.create(newSession({ definition: { handle: 'ada' } }))).toEqual({
      kind: 'created',
    });
  });

  test('the handle of a released session is free, and the session stays readable', async () => {
    const tenant = newTenant();
    const first = await addSession(tenant, { definition: { handle: 'ada' } });
    const released = { status: 'released', releasedAt: noon + 1 } as const;
    const change = changeOf(first, { ifVersion: 1, progress: released });
    expect(await tenant.sessions.change({ changes: [change] })).toMatchObject({
      kind: 'committed',
    });
    expect(await tenant.sessions.readByHandle('ada')).toBeUndefined();
    const second = await addSession(tenant, { definition: { handle: 'ada' } });
    expect((await tenant.sessions.readByHandle('ada'))?.id).toBe(second);
    expect(await tenant.sessions.readReleased('ada')).toMatchObject({ id: first });
    expect(await tenant.sessions.readReleased('bob')).toBeUndefined();
    expect(await newTenant().sessions.readReleased('ada')).toBeUndefined();
    expect(await tenant.sessions.read(first)).toMatchObject({ handle: 'ada', ...released });
  });

  test('a session token is found by its hash until it is replaced or the session is released', async () => {
    const tenant = newTenant();
    const [one, two] = [uuidv7(), uuidv7()];
    const sessionId = await addSession(tenant, { tokenHash: one, definition: { handle: 'ada' } });
    const found = { tenantId: tenant.tenantId, sessionId, handle: 'ada', keyId: 'key-1' };
    expect(await system().sessions.findToken(one)).toEqual(found);
    const attach = changeOf(sessionId, { ifVersion: 1, redefine: { tokenHash: two, name: 'New' } });
    expect(await tenant.sessions.change({ changes: [attach] })).toMatchObject({
      kind: 'committed',
    });
    expect(await system().sessions.findToken(one)).toBeUndefined();
    expect(await system().sessions.findToken(two)).toEqual(found);
    expect(await tenant.sessions.read(sessionId)).toMatchObject({ name: 'New', capabilities });
    expect(JSON.stringify(await tenant.sessions.read(sessionId))).not.toContain(two);
    const release = changeOf(sessionId, { ifVersion: 2, progress: { releasedAt: noon } });
    await tenant.sessions.change({ changes: [release] });
    expect(await system().sessions.findToken(two)).toBeUndefined();
  });

  test('an attach is seen, and the stream of the token before it counts no longer', async () => {
    const tenant = newTenant();
    const sessionId = await addSession(tenant, { tokenHash: uuidv7() });
    const stream = { id: uuidv7(), node: 'a' };
    expect(await tenant.sessions.openStream(sessionId, { ...stream, at: noon })).toBe(true);
    const { version: ifVersion } = (await tenant.sessions.read(sessionId)) ?? {};
    const at = noon + 60_000;
    const attach = changeOf(sessionId, {
      ...defined({ ifVersion }),
      at,
      redefine: { tokenHash: uuidv7() },
    });
    await tenant.sessions.change({ changes: [attach] });
    expect(await tenant.sessions.read(sessionId)).toMatchObject({ seenAt: at, stream: null });
    const closed = { id: stream.id, at: at + 1, dueBy: at + 2 };
    expect(await tenant.sessions.closeStream(sessionId, closed)).toBe(false);
  });

  test('a token that is replaced through the stream of the session leaves the stream open', async () => {
    const tenant = newTenant();
    const [old, next] = [uuidv7(), uuidv7()];
    const sessionId = await addSession(tenant, { tokenHash: old });
    const stream = { id: uuidv7(), node: 'n' };
    await tenant.sessions.openStream(sessionId, { ...stream, at: noon });
    const { version: ifVersion = 0 } = (await tenant.sessions.read(sessionId)) ?? {};
    const redefine = { tokenHash: next };
    const replace = (ifStream: string) =>
      tenant.sessions.change({ changes: [changeOf(sessionId, { ifVersion, ifStream, redefine })] });
    expect(await replace(uuidv7())).toEqual({ kind: 'conflict', sessionId });
    expect(await replace(stream.id)).toMatchObject({ kind: 'committed' });
    expect(await tenant.sessions.read(sessionId)).toMatchObject({ stream });
    const { sessions } = system();
    expect(await sessions.findToken(old)).toBeUndefined();
    expect(await sessions.findToken(next)).toMatchObject({ sessionId });
  });

  test('a listener of this node gets hints about changed sessions', async () => {
    const tenant = newTenant();
    const sessionId = await addSession(tenant);
    const hints: Hint[] = [];
    const stop = system().listen((hint) => void hints.push(hint));
    await tenant.sessions.change({ changes: [changeOf(sessionId, {})] });
    stop();
    const own = { kind: 'session', tenantId: tenant.tenantId, sessionId };
    expect(hints).toContainEqual(own);
    const count = hints.length;
    await tenant.sessions.change({ changes: [changeOf(sessionId, {})] });
    expect(hints).toHaveLength(count);
  });

  test('a listener of this node gets hints about messages and deliveries, of a few by their ids', async () => {
    const tenant = newTenant();
    const { tenantId } = tenant;
    const sessionId = await addSession(tenant);
    let hints: Hint[] = [];
    const stop = system().listen((hint) => void hints.push(hint));
    const ofMessages = () => hints.filter(({ kind }) => kind === 'message' || kind === 'delivery');
    const sent = await send(tenant, [sessionId], { channels: ['ops'] });
    const [delivery] = sent.deliveries;
    const changed = { kind: 'delivery', tenantId, sessionId, deliveryId: delivery?.id };
    const messageId = sent.id;
    expect(ofMessages()).toEqual([
      { kind: 'message', tenantId, messageId, channels: ['ops'] },
      changed,
    ]);
    hints = [];
    await tenant.messages.edit({ messageId, at: noon, text: 'bye' });
    expect(ofMessages()).toEqual([{ kind: 'message', tenantId, messageId }]);
    hints = [];
    const fails = { id: delivery?.id ?? '', from: ['accepted'], to: 'failed' } as const;
    const write = { changes: [changeOf(sessionId, { deliveries: [fails] })] };
    expect((await tenant.messages.withdraw(messageId, noon, write)).kind).toBe('committed');
    expect(ofMessages()).toEqual([changed, { kind: 'message', tenantId, messageId }]);
    hints = [];
    const many = Array.from({ length: 11 }, () => sending([sessionId]));
    await tenant.sessions.change({
      messages: many.flatMap(({ messages }) => messages),
      changes: many.flatMap(({ changes }) => changes),
    });
    expect(hints.filter(({ kind }) => kind === 'delivery')).toEqual([
      { kind: 'delivery', tenantId, sessionId },
    ]);
    stop();
  });

  test('of two attaches at once one succeeds', async () => {
    const tenant = newTenant();
    const sessionId = await addSession(tenant);
    const hashes = [uuidv7(), uuidv7()];
    const outcomes = await Promise.all(
      hashes.map((tokenHash) =>
        tenant.sessions.change({
          changes: [changeOf(sessionId, { ifVersion: 1, redefine: { tokenHash } })],
        }),
      ),
    );
    expect(outcomes.map(({ kind }) => kind).toSorted()).toEqual(['committed', 'conflict']);
    const found = await Promise.all(hashes.map((hash) => system().sessions.findToken(hash)));
    expect(found.filter((each) => each !== undefined)).toHaveLength(1);
  });

  test('sessions are listed by time and filtered by status, harness and label', async () => {
    const tenant = newTenant();
    const ids: string[] = [];
    for (const [n, status] of (['idle', 'active', 'idle', 'failed'] as const).entries()) {
      ids.unshift(
        await addSession(tenant, {
          createdAt: noon + n,
          definition: {
            harness: n === 0 ? 'native' : 'remote',
            labels: n < 2 ? { team: 'blue' } : { team: 'red' },
          },
          progress: { status },
        }),
      );
    }
    const { sessions } = tenant;
    const idsOf = async (filter: Parameters<typeof sessions.list>[0]) =>
      (await sessions.list(filter, { limit: 50 })).items.map(({ id }) => id);
    for (const filter of [{}, { harness: 'remote' }, { label: { name: 'team', value: 'red' } }]) {
      const whole = await idsOf(filter);
      expect(await allListed(1, (page) => sessions.list(filter, page))).toEqual(whole);
    }
    expect(await idsOf({})).toEqual(ids);
    expect(await idsOf({ status: 'idle' })).toEqual([ids[1], ids[3]]);
    expect(await idsOf({ status: ['idle', 'failed'] })).toEqual([ids[0], ids[1], ids[3]]);
    expect(await idsOf({ status: [] })).toEqual([]);
    expect(await idsOf({ harness: 'native' })).toEqual([ids[3]]);
    const label = { name: 'team', value: 'blue' };
    expect(await idsOf({ label })).toEqual([ids[2], ids[3]]);
    expect(await idsOf({ label, status: 'idle' })).toEqual([ids[3]]);
    const relabel = changeOf(ids[0] ?? '', {
      ifVersion: 1,
      redefine: { labels: { team: 'blue' } },
    });
    await sessions.change({ changes: [relabel] });
    expect(await idsOf({ label })).toEqual([ids[0], ids[2], ids[3]]);
    expect(await idsOf({ label: { name: 'team', value: 'red' } })).toEqual([ids[1]]);
  });

  test('the stream of a program is replaced by the next one, and only its own end counts', async () => {
    const tenant = newTenant();
    const sessionId = await addSession(tenant);
    const { sessions } = tenant;
    expect(await sessions.openStream(sessionId, { id: 's1', node: 'n', at: noon + 1 })).toBe(true);
    expect(await sessions.openStream(sessionId, { id: 's2', node: 'm', at: noon + 2 })).toBe(true);
    const end = { at: noon + 3, dueBy: noon + 30_000 };
    expect(await sessions.closeStream(sessionId, { id: 's1', ...end })).toBe(false);
    expect(await sessions.read(sessionId)).toMatchObject({
      stream: { id: 's2', node: 'm' },
      seenAt: noon + 2,
      dueAt: null,
    });
    expect(await sessions.closeStream(sessionId, { id: 's2', ...end })).toBe(true);
    const closed = { stream: null, seenAt: noon + 3, dueAt: noon + 30_000 };
    expect(await sessions.read(sessionId)).toMatchObject(closed);
    expect(await sessions.openStream(uuidv7(), { id: 's', node: 'n', at: noon })).toBe(false);
  });

  test('the end of its stream does not make a released session due', async () => {
    const tenant = newTenant();
    const sessionId = await addSession(tenant);
    const { sessions } = tenant;
    await sessions.openStream(sessionId, { id: 's', node: 'n', at: noon });
    const progress = { status: 'released', releasedAt: noon + 1 } as const;
    const release = changeOf(sessionId, { ifVersion: 2, progress });
    expect(await sessions.change({ changes: [release] })).toMatchObject({ kind: 'committed' });
    const end = { id: 's', at: noon + 2, dueBy: noon + 30_000 };
    await sessions.closeStream(sessionId, end);
    expect(await sessions.read(sessionId)).toMatchObject({ releasedAt: noon + 1, dueAt: null });
  });

  test('commands of a session are open until they are answered once', async () => {
    const tenant = newTenant();
    const sessionId = await addSession(tenant);
    const { sessions } = tenant;
    const command = { sessionId, at: noon, answerBy: noon + 30_000, args: { reason: '\u0000' } };
    const [pause, release] = [
      { ...command, id: uuidv7(), command: 'pause' },
      { ...command, id: uuidv7(), command: 'release', at: noon + 1 },
    ] as const;
    await sessions.change({ changes: [changeOf(sessionId)], commands: [release, pause] });
    expect(await sessions.openCommands(sessionId, 9)).toEqual([
      { ...pause, answer: null },
      { ...release, answer: null },
    ]);
    const answer = { id: pause.id, sessionId, at: noon, ok: true, result: { x: 1 } };
    const answered = () => sessions.change({ changes: [changeOf(sessionId)], answers: [answer] });
    expect(await answered()).toMatchObject({ kind: 'committed' });
    expect(await answered()).toEqual({ kind: 'conflict', sessionId });
    expect(await sessions.openCommands(sessionId, 9)).toEqual([{ ...release, answer: null }]);
    expect(await sessions.readCommand(sessionId, pause.id)).toEqual({
      ...pause,
      answer: { at: noon, ok: true, result: { x: 1 } },
    });
    expect(await lastSeqOf(tenant, sessionId)).toBe(3);
  });

  test('a snapshot is stored with the change that it belongs to', async () => {
    const tenant = newTenant();
    const sessionId = await addSession(tenant);
    const snapshot = { id: uuidv7(), sessionId, seq: 1, at: noon, content: { runId: 'r', n: 1 } };
    const { sessions } = tenant;
    const stale = { changes: [changeOf(sessionId, { ifVersion: 7 })], snapshots: [snapshot] };
    expect(await sessions.change(stale)).toEqual({ kind: 'conflict', sessionId });
    expect(await sessions.readSnapshot(snapshot.id)).toBeUndefined();
    await sessions.change({
      changes: [changeOf(sessionId, { ifVersion: 1 })],
      snapshots: [snapshot],
    });
    expect(await sessions.readSnapshot(snapshot.id)).toEqual(snapshot);
    expect(await newTenant().sessions.readSnapshot(snapshot.id)).toBeUndefined();
  });

  test('a session is deleted with everything that belongs to it, and nothing else', async () => {
    const tenant = newTenant();
    const [sessionId, other] = [await addSession(tenant), await addSession(tenant)];
    const { sessions, channels, actions, messages } = tenant;
    const snapshot = { id: uuidv7(), sessionId, seq: 1, at: noon, content: {} };
    const command = { id: uuidv7(), sessionId, at: noon, answerBy: noon, args: null };
    await sessions.change({
      changes: [changeOf(sessionId)],
      snapshots: [snapshot],
      commands: [{ ...command, command: 'pause' }],
    });
    await channels.put({ name: 'general', createdAt: noon, createdBy: person });
    for (const id of [sessionId, other]) {
      await channels.addMember({ channel: 'general', sessionId: id, addedAt: noon });
    }
    await actions.add(newAction({ sessionId, url: null }));
    const invocation = newInvocation({ sessionId });
    await sessions.change({ changes: [], invocations: [invocation] });
    const message = await send(tenant, [sessionId, other]);
    for (let n = 0; n < 30; n += 1) await sessions.change({ changes: [changeOf(sessionId)] });

    const audit = [newAudit()];
    expect(await newTenant().sessions.remove(sessionId, { at: noon })).toBe(false);
    expect(await sessions.remove(sessionId, { at: noon, audit })).toBe(true);
    expect(await sessions.remove(sessionId, { at: noon })).toBe(false);
    expect(await tenant.audit.unsealed(9)).toMatchObject([{ id: audit[0]?.id }]);

    expect(await sessions.read(sessionId)).toBeUndefined();
    expect(await sessions.readEvents(sessionId, whole)).toEqual([]);
    expect(await sessions.readSnapshot(snapshot.id)).toBeUndefined();
    expect(await sessions.openCommands(sessionId, 9)).toEqual([]);
    expect(await messages.inbox(sessionId, whole)).toEqual([]);
    const { items: deliveries } = await messages.listDeliveries({ sessionId }, { limit: 9 });
    expect(deliveries).toMatchObject([{ status: 'failed', reason: 'released' }]);
    expect(await channels.members('general')).toMatchObject([{ sessionId: other }]);
    expect(await actions.read('deploy')).toBeUndefined();
    // Its caller is told by the node that finds it.
    expect(await actions.readInvocation(invocation.id)).toMatchObject({ dueAt: invocation.at });
    const { items } = await sessions.list({}, { limit: 9 });
    expect(items.map(({ id }) => id)).toEqual([other]);
    expect(await sessions.change({ changes: [changeOf(sessionId)] })).toMatchObject({
      kind: 'gone',
    });

    expect(await messages.read(message.id)).toMatchObject({ text: 'hello' });
    expect(await messages.deliveriesOf(message.id)).toMatchObject([
      { sessionId, status: 'failed' },
      { sessionId: other, status: 'accepted' },
    ]);
    expect(await sessions.readEvents(other, whole)).toHaveLength(2);
  });

  test('a turn starts with its run, and the deliveries that it takes', async () => {
    const tenant = newTenant();
    const sessionId = await addSession(tenant);
    const {
      deliveries: [delivery],
    } = await send(tenant, [sessionId]);
    const turn = (ifVersion: number, runId: string) =>
      ({
        changes: [
          changeOf(sessionId, {
            ifVersion,
            progress: { ...idle, status: 'active', activeRunId: runId },
            deliveries: [{ id: delivery?.id ?? '', from: ['accepted'], to: 'delivered' }],
          }),
        ],
      }) as const;
    const [stale, fresh] = [identityIn(tenant), identityIn(tenant)];
    const creation = { lease: null, events: [started] };
    const refused = { ...creation, identity: stale, session: turn(1, stale.id) };
    expect(await tenant.createRun(refused)).toEqual({ kind: 'conflict' });
    expect(await tenant.readRun(stale.id)).toBeUndefined();
    expect(await tenant.countOpenRuns({})).toMatchObject({ queued: 0 });
    expect(await tenant.messages.inbox(sessionId, whole)).toHaveLength(1);
    const accepted = { ...creation, identity: fresh, session: turn(2, fresh.id) };
    expect(await tenant.createRun(accepted)).toEqual({ kind: 'created' });
    expect(await tenant.sessions.readByRun(fresh.id)).toMatchObject({ id: sessionId, lastSeq: 3 });
    expect(await tenant.messages.inbox(sessionId, whole)).toEqual([]);
    expect(await tenant.messages.unconsumed(sessionId, whole)).toMatchObject([
      { id: delivery?.id },
    ]);
  });

  test('a step of a run with a stale session is a conflict: nothing is stored, the lease is held', async () => {
    const tenant = newTenant();
    const [sessionId, other] = [await addSession(tenant), await addSession(tenant)];
    const run = await newRun(tenant);
    const queued = cancelCommand('stop');
    await tenant.postRunCommand(run.id, queued);
    const reply = sending([other]);
    const session = (ifVersion: number) => ({
      messages: reply.messages,
      changes: [changeOf(sessionId, { ifVersion }), ...reply.changes],
    });
    const end = { consumeCommands: [queued.id], audit: [newAudit()] };
    expect(await tenant.append(ending(run, { ...end, session: session(5) }))).toMatchObject({
      kind: 'conflict',
    });
    expect(await tenant.readRun(run.id)).toMatchObject({ status: 'queued', lastSeq: 1 });
    expect(await tenant.readInbox(run.id)).toEqual([queued]);
    expect(await tenant.audit.unsealed(9)).toEqual([]);
    expect(await tenant.messages.read(reply.messages[0].id)).toBeUndefined();
    expect(await lastSeqOf(tenant, other)).toBe(1);
    const full = { ...session(1), inboxLimit: { messages: 0, bytes: 1_000 } };
    expect(await tenant.append(ending(run, { ...end, session: full }))).toEqual({
      kind: 'inbox-full',
      sessionId: other,
    });
    expect(await tenant.append(step(run))).toBe('committed');
    const again = ending(run, { ...end, afterSeq: 2, session: session(1) });
    expect(await tenant.append(again)).toBe('committed');
    expect(await tenant.readRun(run.id)).toMatchObject({ status: 'completed' });
    expect([await lastSeqOf(tenant, sessionId), await lastSeqOf(tenant, other)]).toEqual([2, 2]);
    expect(await tenant.messages.inbox(other, whole)).toHaveLength(1);
  });

  test('a step that is fenced changes no session', async () => {
    const tenant = newTenant();
    const sessionId = await addSession(tenant);
    const run = await newRun(tenant);
    const session = { changes: [changeOf(sessionId)] };
    expect(await tenant.append(step(run, { epoch: 2, session }))).toBe('fenced');
    expect(await lastSeqOf(tenant, sessionId)).toBe(1);
  });

  test('a change that is refused in one session is stored in none', async () => {
    const tenant = newTenant();
    const [one, two] = [await addSession(tenant), await addSession(tenant)];
    const changes = [changeOf(one), changeOf(two, { ifVersion: 9 })];
    const write = { changes, audit: [newAudit()], invocations: [newInvocation()] };
    expect(await tenant.sessions.change(write)).toEqual({ kind: 'conflict', sessionId: two });
    expect([await lastSeqOf(tenant, one), await lastSeqOf(tenant, two)]).toEqual([1, 1]);
    expect(await tenant.audit.unsealed(9)).toEqual([]);
    expect(await tenant.actions.readInvocation(write.invocations[0]?.id ?? '')).toBeUndefined();
  });

  test('a fork is stored with the event of its parent, or not at all', async () => {
    const tenant = newTenant();
    const parent = await addSession(tenant);
    const fork = newSession({ definition: { parentSessionId: parent } });
    const event = { type: 'session.forked', sessionId: fork.id, parentSessionId: parent } as const;
    const also = (ifVersion: number) => ({
      changes: [changeOf(parent, { ifVersion, events: [event] })],
    });
    expect(await tenant.sessions.create(fork, also(7))).toEqual({
      kind: 'conflict',
      sessionId: parent,
    });
    expect(await tenant.sessions.read(fork.id)).toBeUndefined();
    expect(await tenant.sessions.create(fork, also(1))).toEqual({ kind: 'created' });
    expect(await tenant.sessions.readEvents(parent, { after: 1, limit: 9 })).toMatchObject([event]);
  });

  test('a change without events, or of the stream, is not overwritten by one that does not know it', async () => {
    const tenant = newTenant();
    const sessionId = await addSession(tenant);
    const { sessions } = tenant;
    const silent = changeOf(sessionId, {
      ifVersion: 1,
      events: [],
      progress: { state: stateWith(1) },
    });
    expect(await sessions.change({ changes: [silent] })).toEqual({
      kind: 'committed',
      lastSeqs: [1],
    });
    expect(await sessions.change({ changes: [silent] })).toEqual({ kind: 'conflict', sessionId });
    await sessions.openStream(sessionId, { id: 's', node: 'n', at: noon });
    const offline = changeOf(sessionId, { ifVersion: 2, progress: { status: 'offline' } });
    expect(await sessions.change({ changes: [offline] })).toEqual({ kind: 'conflict', sessionId });
    expect(await sessions.read(sessionId)).toMatchObject({
      state: stateWith(1),
      status: 'idle',
      version: 3,
    });
  });

  test('a tenant sees and changes nothing of the sessions of another', async () => {
    const [owner, stranger] = [newTenant(), newTenant()];
    const sessionId = await addSession(owner, { definition: { handle: 'ada' } });
    const own = await addSession(stranger);
    const { id, deliveries } = await send(owner, [sessionId], { text: 'secret' });
    const command = { id: uuidv7(), sessionId, at: noon, answerBy: noon, args: null };
    const invocation = newInvocation({ sessionId });
    await owner.sessions.change({
      changes: [],
      commands: [{ ...command, command: 'pause' }],
      invocations: [invocation],
    });
    const deliveryId = deliveries[0]?.id ?? '';
    const inventory = async ({ sessions, messages, actions }: TenantStore) => [
      await sessions.read(sessionId),
      await sessions.readByHandle('ada'),
      await sessions.readEvents(sessionId, whole),
      await sessions.openCommands(sessionId, 9),
      await messages.read(id),
      (await messages.list({ query: 'secret' }, { limit: 9 })).items,
      (await messages.list({ with: sessionId }, { limit: 9 })).items,
      (await messages.list({ thread: id }, { limit: 9 })).items,
      await messages.participants(id),
      await messages.readDelivery(deliveryId),
      await messages.deliveriesOf(id),
      (await messages.listDeliveries({ sessionId }, { limit: 9 })).items,
      await messages.inbox(sessionId, whole),
      await actions.readInvocation(invocation.id),
      await actions.unsentInvocations(sessionId, 9),
    ];
    for (const seen of await inventory(stranger)) expect([undefined, []]).toContainEqual(seen);
    const before = await inventory(owner);
    for (const seen of before) expect([undefined, []]).not.toContainEqual(seen);

    const { sessions, messages } = stranger;
    const failed = { id: deliveryId, from: ['accepted'], to: 'failed' } as const;
    const answer = { id: command.id, sessionId, at: noon, ok: true };
    const ended = { id: invocation.id, from: ['running'], to: 'failed', at: noon } as const;
    const refusals = [
      await sessions.change({ changes: [changeOf(sessionId)] }),
      await sessions.change({ changes: [changeOf(sessionId, { ifVersion: 2 })] }),
      await sessions.change({
        changes: [changeOf(sessionId, { ifVersion: 2, redefine: { tokenHash: 'x' } })],
      }),
      await sessions.change({ changes: [changeOf(own, { deliveries: [failed] })] }),
      await sessions.change({ changes: [changeOf(own)], answers: [answer] }),
      await sessions.change({ changes: [changeOf(own)], invocationChanges: [ended] }),
      await messages.withdraw(id, noon, { changes: [changeOf(own)] }),
    ];
    expect(refusals.map(({ kind }) => kind)).not.toContain('committed');
    expect(await messages.edit({ messageId: id, at: noon, text: 'x' })).toBe('missing');
    expect(await sessions.remove(sessionId, { at: noon })).toBe(false);
    expect(await sessions.openStream(sessionId, { id: 'x', node: 'n', at: noon })).toBe(false);
    expect(await inventory(owner)).toEqual(before);
    expect(await lastSeqOf(stranger, own)).toBe(1);
  });

  test('a change of a released session is gone, or has no events', async () => {
    const tenant = newTenant();
    const sessionId = await addSession(tenant, { progress: { releasedAt: noon } });
    const { sessions } = tenant;
    expect(await sessions.change({ changes: [changeOf(sessionId)] })).toEqual({
      kind: 'gone',
      sessionId,
    });
    const late = changeOf(sessionId, { ifVersion: 1, events: [log('late')] });
    expect(await sessions.change({ changes: [late] })).toEqual({ kind: 'conflict', sessionId });
    const quiet = changeOf(sessionId, { ifVersion: 1, events: [] });
    expect(await sessions.change({ changes: [quiet] })).toMatchObject({ kind: 'committed' });
  });
}
