/** Native sessions: their turns are runs, which change the session in their own commits. */
import { DatabaseSync } from 'node:sqlite';
import { editMessage, type ModelRequest, type SystemStore } from '@relay/core';
import { createRecordingTool, finish, toolCall } from '@relay/core/testing';
import { describe, expect, test } from 'vitest';
import { addSession } from '../../packages/store/test/contract/sessions/fixtures.ts';
import { verifies } from '../conformance/verifies.ts';
import { person, until } from '../support/kernel.ts';
import {
  createStreamingModel,
  decide,
  finished,
  lastOf,
  openFixture,
  stopRun,
  untilAsked,
} from './fixture.ts';
import {
  answer,
  deliver,
  deliveryStatus,
  eventsOfType,
  openSession,
  readSession,
  sessionEvents,
  storeOf,
  untilIdle,
  untilSession,
  look,
  sessionInTool,
  untilAborted,
  usersIn,
} from './sessions.ts';
import { mortal, sqlite, wrapStore } from './stores.ts';

describe('a message to an idle native session', () => {
  test('starts a run, is consumed by its first model call, and leaves the session idle', async () => {
    const { boot } = await openFixture();
    const model = createStreamingModel(() => [answer]);
    const kernel = await boot({ model, sessions: true });
    const { id } = await openSession(kernel);
    const delivery = await deliver(kernel, id, { text: 'Hello' });
    await untilIdle(kernel, id);
    expect(model.requests.map(usersIn)).toEqual([['Hello']]);
    expect(await deliveryStatus(kernel, delivery)).toBe('consumed');
    const events = await sessionEvents(kernel, id);
    expect(events.map(({ type }) => type)).toEqual([
      'status.changed',
      'session.started',
      'status.changed',
      'delivery.accepted',
      'delivery.delivered',
      'status.changed',
      'message.received',
      'transcript.chunk',
      'message.sent',
      'usage.updated',
      'status.changed',
    ]);
    expect(eventsOfType(events, 'transcript.chunk').map(({ chunk }) => chunk.content)).toEqual([
      'Done.',
    ]);
  });

  test('is one turn with all others that wait, in their order', async () => {
    const { boot, store } = await openFixture();
    const model = createStreamingModel(() => [answer]);
    const sender = await boot({ model });
    const { id } = await openSession(sender);
    for (const each of ['one', 'two', 'three']) await deliver(sender, id, { text: each });
    const kernel = await boot({ model, store, sessions: true });
    await untilIdle(kernel, id);
    expect(model.requests.map(usersIn)).toEqual([['one', 'two', 'three']]);
  });

  test('is found by the scan, if no wake-up announces it', async () => {
    const { boot, store } = await openFixture();
    const model = createStreamingModel(() => [answer]);
    const sender = await boot({ model });
    const { id } = await openSession(sender);
    await deliver(sender, id, { text: 'Hello' });
    const kernel = await boot({ model, store, sessions: true });
    await untilIdle(kernel, id);
    expect(model.requests).toHaveLength(1);
  });

  test('is found by the scan behind sessions that stay due', async () => {
    const { boot, store } = await openFixture();
    const model = createStreamingModel(() => [answer]);
    const sender = await boot({ model });
    const tenant = storeOf(sender);
    for (let count = 0; count < 250; count += 1) {
      await addSession(tenant, { definition: { harness: 'unknown' }, progress: { dueAt: 1 } });
    }
    const { id } = await openSession(sender);
    await deliver(sender, id, { text: 'Hello' });
    const kernel = await boot({ model, store, sessions: true });
    await untilIdle(kernel, id);
    expect(model.requests).toHaveLength(1);
  });

  test('continues the conversation of the session', async () => {
    const { boot } = await openFixture();
    const model = createStreamingModel(() => [answer]);
    const kernel = await boot({ model, sessions: true });
    const { id } = await openSession(kernel);
    for (const each of ['one', 'two']) {
      await deliver(kernel, id, { text: each });
      await untilIdle(kernel, id);
    }
    expect(model.requests.map(usersIn)).toEqual([['one'], ['one', 'two']]);
  });

  test('is started by one of several nodes', async () => {
    const { boot, store } = await openFixture();
    const model = createStreamingModel(() => [answer]);
    const nodes = await Promise.all([1, 2, 3].map(() => boot({ model, store, sessions: true })));
    const [kernel] = nodes;
    if (kernel === undefined) throw new Error('There is no node');
    const { id } = await openSession(kernel);
    const messages = Array.from({ length: 10 }, (_, index) => `message ${index}`);
    for (const each of messages) {
      await deliver(kernel, id, { text: each });
      for (const node of nodes)
        node.control.engine.sessionDue?.({ tenantId: kernel.tenantId, sessionId: id });
    }
    await untilIdle(kernel, id);
    expect(usersIn(lastOf(model.requests))).toEqual(messages);
    const events = await sessionEvents(kernel, id);
    expect(eventsOfType(events, 'message.received')).toHaveLength(messages.length);
  });
});

describe('a message to a working native session', () => {
  test('waits for its next turn with the mode on-idle', async () => {
    verifies('004:delivery:on-idle-boundary');
    const { boot } = await openFixture();
    const go = Promise.withResolvers<void>();
    const model = createStreamingModel(
      async function* () {
        await go.promise;
        yield answer;
      },
      () => [answer],
    );
    const kernel = await boot({ model, sessions: true });
    const { id } = await openSession(kernel);
    await deliver(kernel, id, { text: 'one' });
    await untilSession(kernel, id, ({ status }) => status === 'active');
    const delivery = await deliver(kernel, id, { text: 'two' });
    expect(await deliveryStatus(kernel, delivery)).toBe('accepted');
    go.resolve();
    await untilIdle(kernel, id);
    expect(model.requests.map(usersIn)).toEqual([['one'], ['one', 'two']]);
    expect(await deliveryStatus(kernel, delivery)).toBe('consumed');
  });

  test('enters its turn with the mode immediate, and is consumed by the model call that reads it', async () => {
    verifies('004:delivery:immediate-interrupts');
    const { boot } = await openFixture();
    const model = createStreamingModel(
      (_, signal) => untilAborted(signal),
      () => [answer],
    );
    const kernel = await boot({ model, sessions: true });
    const { id } = await openSession(kernel);
    await deliver(kernel, id, { text: 'one' });
    await until(async () => model.requests.length === 1);
    const delivery = await deliver(kernel, id, { text: 'two', mode: 'immediate' });
    await untilIdle(kernel, id);
    expect(model.requests.map(usersIn)).toEqual([['one'], ['one', 'two']]);
    expect(await deliveryStatus(kernel, delivery)).toBe('consumed');
    const received = eventsOfType(await sessionEvents(kernel, id), 'message.received');
    expect(received).toHaveLength(2);
  });

  test('enters its turn also if it is edited to immediate while that turn starts', async () => {
    const opened = await openFixture();
    let beforeEdit = async () => {};
    const store = wrapStore(opened.store, async ({ method, go }) => {
      if (method === 'messages.edit') await beforeEdit();
      return go();
    });
    const model = createStreamingModel(
      (_, signal) => untilAborted(signal),
      () => [answer],
    );
    const kernel = await opened.boot({ model, store, sessions: true });
    const { id } = await openSession(kernel);
    const delivery = await deliver(kernel, id, { text: 'two', mode: 'manual' });
    const { messageId = '' } = (await storeOf(kernel).messages.readDelivery(delivery)) ?? {};
    // The session was idle when the edit read it.
    beforeEdit = async () => {
      beforeEdit = async () => {};
      await deliver(kernel, id, { text: 'one' });
      await until(async () => model.requests.length === 1);
    };
    const from = { type: 'key', id: person.id, name: person.name } as const;
    const changer = { tenantId: kernel.tenantId, from, by: person, isAdmin: false };
    await editMessage(kernel.control, changer, messageId, { mode: 'immediate' });
    await untilIdle(kernel, id);
    expect(model.requests.map(usersIn)).toEqual([['one'], ['one', 'two']]);
    expect(await deliveryStatus(kernel, delivery)).toBe('consumed');
  });

  test('is deferred while a tool is running', async () => {
    const { kernel, id, model, held } = await sessionInTool();
    const delivery = await deliver(kernel, id, { text: 'two', mode: 'immediate' });
    await until(async () => (await deliveryStatus(kernel, delivery)) === 'deferred');
    held.resolve();
    await untilIdle(kernel, id);
    const deferred = eventsOfType(await sessionEvents(kernel, id), 'delivery.deferred');
    expect(deferred.map(({ reason }) => reason)).toEqual(['tool running']);
    expect(model.requests.map(usersIn)).toEqual([['one'], ['one', 'two']]);
    expect(await deliveryStatus(kernel, delivery)).toBe('consumed');
  });

  test('enters right after the results with the mode next-tool-call, and interrupts nothing', async () => {
    verifies('004:delivery:next-tool-call-boundary');
    const { kernel, id, model, held } = await sessionInTool();
    const delivery = await deliver(kernel, id, { text: 'two', mode: 'next-tool-call' });
    expect(await deliveryStatus(kernel, delivery)).toBe('accepted');
    held.resolve();
    await untilIdle(kernel, id);
    expect(model.requests.map(usersIn)).toEqual([['one'], ['one', 'two']]);
    expect(model.signals.map(({ aborted }) => aborted)).toEqual([false, false]);
  });

  test('waits for an open approval with the mode immediate, and does not answer it', async () => {
    const { boot } = await openFixture();
    const model = createStreamingModel(
      () => [[look, finish()]],
      () => [answer],
    );
    const tool = createRecordingTool({ name: 'look' });
    const kernel = await boot({ model, tools: [tool], sessions: true });
    const { id } = await openSession(kernel);
    await deliver(kernel, id, { text: 'one' });
    const { activeRunId } = await untilSession(kernel, id, ({ status }) => status === 'waiting');
    const delivery = await deliver(kernel, id, { text: 'two', mode: 'immediate' });
    const { messages } = storeOf(kernel);
    expect(await messages.readDelivery(delivery)).toMatchObject({
      status: 'deferred',
      reason: 'approval open',
    });
    const [approval] = await untilAsked(kernel, activeRunId ?? '');
    expect(tool.executions).toEqual([]);
    await decide(kernel, approval?.approvalId);
    await untilIdle(kernel, id);
    expect(tool.executions).toHaveLength(1);
    expect(model.requests.map(usersIn)).toEqual([['one'], ['one', 'two']]);
  });

  test('is read as it was edited', async () => {
    const { kernel, id, model, held } = await sessionInTool();
    const deliveryId = await deliver(kernel, id, { text: 'two', mode: 'next-message' });
    const delivery = await storeOf(kernel).messages.readDelivery(deliveryId);
    const messageId = delivery?.messageId ?? '';
    const edit = { messageId, at: kernel.control.engine.clock.now(), text: 'two, corrected' };
    expect(await storeOf(kernel).messages.edit(edit)).toBe('edited');
    held.resolve();
    await untilIdle(kernel, id);
    expect(model.requests.map(usersIn)).toEqual([['one'], ['one', 'two, corrected']]);
  });
});

describe('the status of a native session', () => {
  test('is waiting while an approval is open, and active after it', async () => {
    verifies('004:status:starting', '004:status:waiting');
    const { boot } = await openFixture();
    const model = createStreamingModel(
      () => [[look, finish()]],
      () => [answer],
    );
    const kernel = await boot({
      model,
      tools: [createRecordingTool({ name: 'look' })],
      sessions: true,
    });
    const { id } = await openSession(kernel);
    await deliver(kernel, id, { text: 'one' });
    const { activeRunId } = await untilSession(kernel, id, ({ status }) => status === 'waiting');
    const [approval] = await untilAsked(kernel, activeRunId ?? '');
    await decide(kernel, approval?.approvalId);
    await untilIdle(kernel, id);
    const statuses = eventsOfType(await sessionEvents(kernel, id), 'status.changed');
    expect(statuses.map(({ status }) => status)).toEqual([
      'starting',
      'idle',
      'active',
      'waiting',
      'active',
      'idle',
    ]);
  });

  test('is idle after a turn that failed, with an error event', async () => {
    const { boot } = await openFixture();
    const model = createStreamingModel(() => {
      throw new Error('broken');
    });
    const kernel = await boot({ model, sessions: true, settings: { providerAttempts: 1 } });
    const { id } = await openSession(kernel);
    await deliver(kernel, id, { text: 'one' });
    const session = await untilIdle(kernel, id);
    expect(session.activeRunId).toBeNull();
    expect(eventsOfType(await sessionEvents(kernel, id), 'error')).toHaveLength(1);
  });

  test('is idle after a turn that was canceled before a model read its message, which fails', async () => {
    const { boot } = await openFixture();
    const model = createStreamingModel(() => [answer]);
    const kernel = await boot({ model, sessions: true, settings: { maxActiveRuns: 0 } });
    const { id } = await openSession(kernel);
    const delivery = await deliver(kernel, id, { text: 'one' });
    const { activeRunId } = await untilSession(kernel, id, ({ status }) => status === 'active');
    await stopRun(kernel, activeRunId ?? '');
    await finished(kernel, activeRunId ?? '');
    expect((await readSession(kernel, id)).status).toBe('idle');
    expect(await deliveryStatus(kernel, delivery)).toBe('failed');
  });
});

test('a turn that cannot start fails its messages with the reason', async () => {
  const { boot } = await openFixture();
  const model = createStreamingModel(() => [answer]);
  const kernel = await boot({ model, sessions: true });
  const { id } = await openSession(kernel, { agent: 'nobody' });
  const delivery = await deliver(kernel, id, { text: 'one' });
  await until(async () => (await deliveryStatus(kernel, delivery)) === 'failed');
  const [error] = eventsOfType(await sessionEvents(kernel, id), 'error');
  expect(error?.code).toBe('unknown_agent');
  expect((await untilIdle(kernel, id)).activeRunId).toBeNull();
});

test('the session is changed in the commits of its run, and in no others', async () => {
  const { store, boot } = await openFixture();
  const written: string[] = [];
  const recorded = wrapStore(store, (call) => {
    const isWrite = ['append', 'createRun', 'sessions.change'].includes(call.method);
    if (isWrite) written.push(call.method);
    return call.go();
  });
  const model = createStreamingModel(() => [answer]);
  const kernel = await boot({ model, store: recorded, sessions: true });
  const { id } = await openSession(kernel);
  await deliver(kernel, id, { text: 'Hello' });
  await untilIdle(kernel, id);
  expect(written).toEqual(['sessions.change', 'createRun', 'append']);
});

test('a turn that a process died in is continued, and its message is consumed once', async () => {
  const { store, boot, bootWithoutCleanup } = await openFixture();
  const first = mortal(store);
  const model = createStreamingModel(
    (_, signal) => untilAborted(signal),
    () => [answer],
  );
  const dying = await bootWithoutCleanup({ model, store: first.store, sessions: true });
  const { id } = await openSession(dying);
  const delivery = await deliver(dying, id, { text: 'one' });
  await until(async () => (await deliveryStatus(dying, delivery)) === 'consumed');
  first.kill();
  const kernel = await boot({ model, sessions: true, restarted: true });
  await untilIdle(kernel, id);
  const received = eventsOfType(await sessionEvents(kernel, id), 'message.received');
  expect(received).toHaveLength(1);
});

test('a turn whose journal is damaged leaves the session idle, with an error event', async () => {
  const { boot, path } = await openFixture(sqlite);
  const model = createStreamingModel(
    () => [[look, finish()]],
    () => [answer],
  );
  const tools = [createRecordingTool({ name: 'look' })];
  const kernel = await boot({ model, tools, sessions: true });
  const { id } = await openSession(kernel);
  await deliver(kernel, id, { text: 'one' });
  const { activeRunId } = await untilSession(kernel, id, ({ status }) => status === 'waiting');
  const [approval] = await untilAsked(kernel, activeRunId ?? '');
  const db = new DatabaseSync(path ?? '');
  db.exec(`DELETE FROM events WHERE run_id = '${activeRunId}' AND last_seq > 2`);
  db.close();
  await decide(kernel, approval?.approvalId);
  await untilIdle(kernel, id);
  expect(eventsOfType(await sessionEvents(kernel, id), 'error')).toHaveLength(1);
});

/** A process that dies before or after its n-th write. */
function dyingAt(inner: SystemStore, at: number, when: 'before' | 'after') {
  const never = new Promise<never>(() => undefined);
  const died = Promise.withResolvers<void>();
  let writes = 0;
  let isDead = false;
  const store = wrapStore(inner, async (call) => {
    if (isDead) return never;
    const isLast = writing.has(call.method) && (writes += 1) === at;
    if (isLast && when === 'after') await call.go();
    if (isLast) {
      isDead = true;
      died.resolve();
      return never;
    }
    const value = await call.go();
    return isDead ? never : value;
  });
  return { store, died: died.promise, hasDied: () => isDead };
}

const writing = new Set<string>(['createRun', 'append', 'sessions.change', 'claimRun']);

test.each(
  [1, 2, 3, 4, 5, 6, 7].flatMap((at) => [
    { at, when: 'before' as const },
    { at, when: 'after' as const },
  ]),
)(
  'messages are consumed once and in order, whenever a process dies: $when write $at',
  async ({ at, when }) => {
    const { store, boot, bootWithoutCleanup } = await openFixture();
    const asked = (request: ModelRequest) => request.messages.at(-1)?.role === 'tool';
    const model = createStreamingModel((request) =>
      asked(request)
        ? [answer]
        : [[toolCall(`call_${usersIn(request).length}`, 'look', {}), finish()]],
    );
    const tools = [createRecordingTool({ name: 'look', allowedByDefault: true, idempotent: true })];
    const sender = await boot({ model, tools });
    const { id } = await openSession(sender);
    const process = dyingAt(store, at, when);
    const dying = await bootWithoutCleanup({ model, tools, store: process.store, sessions: true });
    const first = [
      await deliver(sender, id, { text: 'one' }),
      await deliver(sender, id, { text: 'two' }),
    ];
    const due = { tenantId: sender.tenantId, sessionId: id };
    dying.control.engine.sessionDue?.(due);
    await Promise.race([process.died, untilIdle(sender, id)]);
    // A turn with one tool call has at least these writes.
    if (at <= 4) expect(process.hasDied()).toBe(true);
    const kernel = await boot({ model, tools, store, sessions: true, restarted: true });
    await untilIdle(kernel, id);
    const third = await deliver(kernel, id, { text: 'three' });
    await untilIdle(kernel, id);
    const events = await sessionEvents(kernel, id);
    const received = eventsOfType(events, 'message.received').map(({ deliveryId }) => deliveryId);
    expect(received).toEqual([...first, third]);
    expect(usersIn(lastOf(model.requests))).toEqual(['one', 'two', 'three']);
    expect(eventsOfType(events, 'status.changed').at(-1)?.status).toBe('idle');
  },
);

describe('a native session whose key has ended', () => {
  test('is blocked at its next message, which waits', async () => {
    const { boot } = await openFixture();
    const model = createStreamingModel(() => [answer]);
    const kernel = await boot({ model, sessions: true });
    const { id } = await openSession(kernel);
    await deliver(kernel, id, { text: 'one' });
    await untilIdle(kernel, id);
    await storeOf(kernel).revokeKey(person.id, Date.now());
    const delivery = await deliver(kernel, id, { text: 'two' });
    await untilSession(kernel, id, ({ status, dueAt }) => status === 'blocked' && dueAt === null);
    const events = await sessionEvents(kernel, id);
    expect(events.at(-1)).toMatchObject({
      type: 'status.changed',
      status: 'blocked',
      previousStatus: 'idle',
      reason: 'key_ended',
    });
    expect(await deliveryStatus(kernel, delivery)).toBe('accepted');
    const later = await deliver(kernel, id, { text: 'three', mode: 'immediate' });
    expect(await deliveryStatus(kernel, later)).toBe('deferred');
    expect(model.requests).toHaveLength(1);
  });

  test('continues with the key that replaces it by rotation, which its turns are counted for', async () => {
    const { boot } = await openFixture();
    const model = createStreamingModel(() => [answer]);
    const kernel = await boot({ model, sessions: true });
    const { id } = await openSession(kernel);
    const key = await storeOf(kernel).readKey(person.id);
    if (key === undefined) throw new Error('There is no key');
    const replacing = { ...key, id: 'key-2', replaces: [key.id] };
    const rotation = { oldKeyId: key.id, oldExpiresAt: 1, key: replacing, hash: 'other hash' };
    expect(await kernel.store.rotateKey(rotation)).toBe(true);
    await deliver(kernel, id, { text: 'one' });
    await untilIdle(kernel, id);
    expect(model.requests).toHaveLength(1);
    expect((await storeOf(kernel).readUsage({ since: 0, keyId: 'key-2' })).runs).toBe(1);
  });
});
