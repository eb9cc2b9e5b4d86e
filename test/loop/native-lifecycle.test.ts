/** Release, pause, resume, cancel and flush of native sessions, in the middle of turns and between them. */
import { commandNative, dropSession, flushSession, type LifecycleCommand } from '@relay/core';
import { createRecordingTool, finish, text } from '@relay/core/testing';
import { describe, expect, test } from 'vitest';
import { verifies } from '../conformance/verifies.ts';
import { type Kernel, person, until, untilStatus } from '../support/kernel.ts';
import {
  aborted,
  createStreamingModel,
  decide,
  endOf,
  finished,
  journal,
  ofType,
  openFixture,
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
import { mortal } from './stores.ts';

function command(kernel: Kernel, sessionId: string, name: LifecycleCommand) {
  const ref = { tenantId: kernel.tenantId, sessionId };
  return commandNative(kernel.control, ref, name, { by: person, isAdmin: false });
}

async function statusesOf(kernel: Kernel, sessionId: string): Promise<string[]> {
  const changes = eventsOfType(await sessionEvents(kernel, sessionId), 'status.changed');
  return changes.map(({ status }) => status);
}

async function deliveryOf(kernel: Kernel, deliveryId: string) {
  const delivery = await storeOf(kernel).messages.readDelivery(deliveryId);
  return { status: delivery?.status, reason: delivery?.reason };
}

/** A session in a model call that ends when it is aborted, or when `go` is resolved. */
async function sessionInModelCall({ asksForTool = false } = {}) {
  const { boot } = await openFixture();
  const go = Promise.withResolvers<void>();
  const model = createStreamingModel(
    async function* (_request, signal) {
      yield [text('To begin ')];
      await Promise.race([aborted(signal), go.promise]);
      yield asksForTool ? [look, finish()] : [finish()];
    },
    () => [answer],
  );
  const tool = createRecordingTool({ name: 'look', allowedByDefault: true });
  const kernel = await boot({ model, tools: [tool], sessions: true });
  const { id } = await openSession(kernel);
  const first = await deliver(kernel, id, { text: 'one' });
  await until(async () => model.requests.length === 1, 'the model');
  const { activeRunId } = await readSession(kernel, id);
  return {
    kernel,
    id,
    model,
    tool,
    go,
    first,
    runId: activeRunId ?? '',
  };
}

/** A session whose turn waits for an approval. */
async function sessionThatAsks() {
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
  const [approval] = await untilAsked(kernel, activeRunId ?? '');
  const approvalId = approval?.approvalId ?? '';
  return { kernel, id, model, tool, runId: activeRunId ?? '', approvalId };
}

describe('a release of a native session', () => {
  test('cancels the turn and fails the queue, and nothing follows it in the journal', async () => {
    verifies('004:lifecycle:release', '004:status:releasing', '004:status:released');
    const { kernel, id, runId } = await sessionInModelCall();
    const queued = await deliver(kernel, id, { text: 'two' });
    const manual = await deliver(kernel, id, { text: 'three', mode: 'manual' });
    expect((await command(kernel, id, 'release')).status).toBe('releasing');
    expect(endOf(await finished(kernel, runId))).toMatchObject({ status: 'canceled' });
    const released = await untilSession(kernel, id, ({ status }) => status === 'released');
    expect(released).toMatchObject({ activeRunId: null, dueAt: null, queue: { length: 0 } });
    expect(released.releasedAt).not.toBeNull();
    for (const each of [queued, manual]) {
      expect(await deliveryOf(kernel, each)).toEqual({ status: 'failed', reason: 'released' });
    }
    const events = await sessionEvents(kernel, id);
    expect(events.at(-1)?.type).toBe('session.released');
    expect(await statusesOf(kernel, id)).toEqual([
      'starting',
      'idle',
      'active',
      'releasing',
      'released',
    ]);
    // Again: nothing changes. The handle is free.
    expect((await command(kernel, id, 'release')).lastSeq).toBe(released.lastSeq);
    expect((await openSession(kernel)).handle).toBe(released.handle);
  });

  test('closes the approvals of the turn', async () => {
    const { kernel, id, runId, approvalId } = await sessionThatAsks();
    await command(kernel, id, 'release');
    const events = await finished(kernel, runId);
    expect(ofType(events, 'approval.closed')).toMatchObject([{ approvalId }]);
    await untilSession(kernel, id, ({ status }) => status === 'released');
    expect(await decide(kernel, approvalId)).toMatchObject({ kind: 'conflict' });
  });

  test('of an idle session takes effect at once', async () => {
    const { boot } = await openFixture();
    const kernel = await boot({ model: createStreamingModel(() => [answer]), sessions: true });
    const { id } = await openSession(kernel);
    const manual = await deliver(kernel, id, { text: 'one', mode: 'manual' });
    expect((await command(kernel, id, 'release')).status).toBe('released');
    expect(await deliveryOf(kernel, manual)).toEqual({ status: 'failed', reason: 'released' });
  });

  test('fails a queue of any length', async () => {
    const { boot } = await openFixture();
    const inboxLimit = { messages: 10_000, bytes: 1_000_000 };
    const model = createStreamingModel((_, signal) => untilAborted(signal));
    const kernel = await boot({ model, sessions: true, settings: { inboxLimit } });
    const { id } = await openSession(kernel);
    await deliver(kernel, id, { text: 'one' });
    await until(async () => model.requests.length === 1, 'the model');
    for (let count = 0; count < 1_001; count += 1) await deliver(kernel, id, { text: 'more' });
    await command(kernel, id, 'release');
    const released = await untilSession(kernel, id, ({ status }) => status === 'released');
    expect(released.queue.length).toBe(0);
    const failed = eventsOfType(await sessionEvents(kernel, id), 'delivery.failed');
    expect(failed).toHaveLength(1_001);
  });
});

describe('a pause of a native session', () => {
  test('acts after the running tool; messages wait, and a resume continues the turn with them', async () => {
    verifies('004:lifecycle:pause', '004:lifecycle:resume', '004:status:paused');
    const { kernel, id, model, held } = await sessionInTool();
    const before = await deliver(kernel, id, { text: 'two' });
    expect((await command(kernel, id, 'pause')).status).toBe('active');
    const entering = await deliver(kernel, id, { text: 'three', mode: 'next-message' });
    expect(await deliveryOf(kernel, entering)).toEqual({ status: 'deferred', reason: 'paused' });
    held.resolve();
    await untilSession(kernel, id, ({ status }) => status === 'paused');
    expect(await deliveryOf(kernel, before)).toEqual({ status: 'deferred', reason: 'paused' });
    expect(model.requests).toHaveLength(1);
    expect((await command(kernel, id, 'resume')).status).toBe('active');
    await untilIdle(kernel, id);
    expect(model.requests.map(usersIn)).toEqual([
      ['one'],
      ['one', 'three'],
      ['one', 'three', 'two'],
    ]);
    expect(await statusesOf(kernel, id)).toEqual([
      'starting',
      'idle',
      'active',
      'paused',
      'active',
      'idle',
      'active',
      'idle',
    ]);
    expect(eventsOfType(await sessionEvents(kernel, id), 'session.resumed')).toHaveLength(1);
  });

  test('acts after the running model call, before the tools that it asks for', async () => {
    const { kernel, id, model, tool, go, runId } = await sessionInModelCall({ asksForTool: true });
    await command(kernel, id, 'pause');
    go.resolve();
    await untilSession(kernel, id, ({ status }) => status === 'paused');
    await untilStatus(kernel, runId, 'waiting');
    expect(tool.executions).toEqual([]);
    await command(kernel, id, 'resume');
    await untilIdle(kernel, id);
    expect(tool.executions).toHaveLength(1);
    expect(model.requests).toHaveLength(2);
  });

  test('of an idle session makes its messages wait, and they are one turn when it is resumed', async () => {
    const { boot } = await openFixture();
    const model = createStreamingModel(() => [answer]);
    const kernel = await boot({ model, sessions: true });
    const { id } = await openSession(kernel);
    expect((await command(kernel, id, 'pause')).status).toBe('paused');
    for (const mode of ['on-idle', 'immediate', 'next-message'] as const) {
      const delivery = await deliver(kernel, id, { text: mode, mode });
      expect(await deliveryOf(kernel, delivery)).toEqual({ status: 'deferred', reason: 'paused' });
    }
    await untilSession(kernel, id, ({ dueAt }) => dueAt === null);
    expect(model.requests).toEqual([]);
    await command(kernel, id, 'resume');
    await untilIdle(kernel, id);
    expect(model.requests.map(usersIn)).toEqual([['on-idle', 'immediate', 'next-message']]);
  });

  test('that a resume follows at once changes nothing', async () => {
    const { kernel, id, model, held } = await sessionInTool();
    await command(kernel, id, 'pause');
    await command(kernel, id, 'resume');
    held.resolve();
    await untilIdle(kernel, id);
    expect(await statusesOf(kernel, id)).toEqual(['starting', 'idle', 'active', 'idle']);
    expect(model.requests).toHaveLength(2);
  });

  test('holds an approved call until the session is resumed', async () => {
    const { kernel, id, tool, runId, approvalId } = await sessionThatAsks();
    expect((await command(kernel, id, 'pause')).status).toBe('paused');
    await decide(kernel, approvalId);
    await until(async () => ofType(await journal(kernel, runId), 'approval.decided').length === 1);
    await untilStatus(kernel, runId, 'waiting');
    expect((await readSession(kernel, id)).status).toBe('paused');
    expect(tool.executions).toEqual([]);
    await command(kernel, id, 'resume');
    await untilIdle(kernel, id);
    expect(tool.executions).toHaveLength(1);
  });

  test('is ended by a release', async () => {
    const { kernel, id, held } = await sessionInTool();
    await command(kernel, id, 'pause');
    held.resolve();
    const { activeRunId } = await untilSession(kernel, id, ({ status }) => status === 'paused');
    await command(kernel, id, 'release');
    await untilSession(kernel, id, ({ status }) => status === 'released');
    expect(endOf(await finished(kernel, activeRunId ?? ''))).toMatchObject({ status: 'canceled' });
  });
});

describe('a cancel of a native session', () => {
  test('stops the turn, and what is in the queue is the next one', async () => {
    const { kernel, id, model, runId } = await sessionInModelCall();
    const queued = await deliver(kernel, id, { text: 'two' });
    await command(kernel, id, 'cancel');
    expect(endOf(await finished(kernel, runId))).toMatchObject({ status: 'canceled' });
    await untilIdle(kernel, id);
    expect(await deliveryStatus(kernel, queued)).toBe('consumed');
    expect(model.requests.map(usersIn).at(-1)).toContain('two');
    expect(eventsOfType(await sessionEvents(kernel, id), 'error')).toEqual([]);
  });

  test('of an idle session changes nothing', async () => {
    const { boot } = await openFixture();
    const kernel = await boot({ model: createStreamingModel(() => [answer]), sessions: true });
    const { id, lastSeq } = await openSession(kernel);
    expect(await command(kernel, id, 'cancel')).toMatchObject({ status: 'idle', lastSeq });
  });

  test('of a paused session leaves it paused', async () => {
    const { kernel, id, held } = await sessionInTool();
    await command(kernel, id, 'pause');
    held.resolve();
    const { activeRunId } = await untilSession(kernel, id, ({ status }) => status === 'paused');
    await command(kernel, id, 'cancel');
    await finished(kernel, activeRunId ?? '');
    const session = await untilSession(kernel, id, (each) => each.activeRunId === null);
    expect(session.status).toBe('paused');
    expect((await command(kernel, id, 'resume')).status).toBe('idle');
  });
});

describe('a flush of a native session', () => {
  test('starts a turn with its manual messages, which wait until then', async () => {
    const { boot } = await openFixture();
    const model = createStreamingModel(() => [answer]);
    const kernel = await boot({ model, sessions: true });
    const { id } = await openSession(kernel);
    for (const each of ['one', 'two']) await deliver(kernel, id, { text: each, mode: 'manual' });
    await deliver(kernel, id, { text: 'three' });
    await until(async () => model.requests.length === 1, 'the other message');
    await untilSession(kernel, id, ({ status, dueAt }) => status === 'idle' && dueAt === null);
    expect(model.requests.map(usersIn)).toEqual([['three']]);
    await flushSession(kernel.control.engine, { tenantId: kernel.tenantId, sessionId: id });
    await untilIdle(kernel, id);
    expect(model.requests.map(usersIn).at(-1)).toEqual(['three', 'one', 'two']);
  });

  test('while it works delivers them in its next turn', async () => {
    const { kernel, id, model, held } = await sessionInTool();
    await deliver(kernel, id, { text: 'two', mode: 'manual' });
    await flushSession(kernel.control.engine, { tenantId: kernel.tenantId, sessionId: id });
    held.resolve();
    await untilIdle(kernel, id);
    expect(model.requests.map(usersIn)).toEqual([['one'], ['one'], ['one', 'two']]);
  });
});

describe('a native session that is dropped', () => {
  test('leaves no run behind, and its deliveries have failed', async () => {
    const { kernel, id, first, runId } = await sessionInModelCall();
    const queued = await deliver(kernel, id, { text: 'two' });
    const ref = { tenantId: kernel.tenantId, sessionId: id };
    expect(await dropSession(kernel.control, ref, { by: person, audit: [] })).toBe(true);
    expect(await storeOf(kernel).sessions.read(id)).toBeUndefined();
    expect(endOf(await finished(kernel, runId))).toMatchObject({ status: 'canceled' });
    expect(await deliveryOf(kernel, queued)).toEqual({ status: 'failed', reason: 'released' });
    expect(await deliveryStatus(kernel, first)).toBe('consumed');
  });
});

describe('the status of a native session', () => {
  test('is blocked while the outcome of a tool is unknown, and active once a person says it', async () => {
    verifies('004:status:blocked');
    const { store, boot, bootWithoutCleanup } = await openFixture();
    const doomed = mortal(store);
    const model = createStreamingModel(
      () => [[look, finish()]],
      () => [answer],
    );
    const before = createRecordingTool({ name: 'look', allowedByDefault: true });
    before.hold();
    const options = { model, sessions: true };
    const first = await bootWithoutCleanup({ ...options, store: doomed.store, tools: [before] });
    const { id } = await openSession(first);
    await deliver(first, id, { text: 'one' });
    await until(async () => before.executions.length === 1, 'the tool');
    doomed.kill();
    const after = createRecordingTool({ name: 'look', allowedByDefault: true });
    const kernel = await boot({ ...options, tools: [after], restarted: true });
    const { activeRunId } = await untilSession(kernel, id, ({ status }) => status === 'blocked');
    const [approval] = await untilAsked(kernel, activeRunId ?? '');
    expect(approval).toMatchObject({ kind: 'outcome' });
    await decide(kernel, approval?.approvalId, { outcome: 'rerun' });
    await untilIdle(kernel, id);
    expect((await statusesOf(kernel, id)).slice(2)).toEqual([
      'active',
      'blocked',
      'active',
      'idle',
    ]);
  });
});

test('a message enters a turn by the mode that it has when the boundary comes', async () => {
  const { kernel, id, model, held } = await sessionInTool();
  const deliveryId = await deliver(kernel, id, { text: 'two', mode: 'next-message' });
  const { messages } = storeOf(kernel);
  const messageId = (await messages.readDelivery(deliveryId))?.messageId ?? '';
  const at = kernel.control.engine.clock.now();
  expect(await messages.edit({ messageId, at, mode: 'on-idle' })).toBe('edited');
  held.resolve();
  await untilIdle(kernel, id);
  expect(model.requests.map(usersIn)).toEqual([['one'], ['one'], ['one', 'two']]);
});
