/** A run that is the turn of a session: what it means for the session is stored in the same commits. */
import {
  type Append,
  newSession as newState,
  type SessionState,
  type SystemStore,
  type TenantStore,
} from '@relay/core';
import { createRecordingTool, finish, text, toolCall } from '@relay/core/testing';
import type { MessageMode } from '@relay/protocol';
import { uuidv7 } from 'uuidv7';
import { describe, expect, test } from 'vitest';
import {
  addSession,
  changeOf,
  log,
  send,
  sending,
  whole,
} from '../../packages/store/test/contract/sessions/fixtures.ts';
import { ask, type Kernel } from '../support/kernel.ts';
import {
  appendWith,
  createStreamingModel,
  decide,
  finished,
  ofType,
  openFixture,
  untilAsked,
} from './fixture.ts';
import { wrapStore } from './stores.ts';

const working: SessionState = { ...newState, lifecycle: 'open', turn: 'active' };

/** A session whose turn is the run that is started next. */
async function openSession(tenant: TenantStore, runId: string): Promise<string> {
  const progress = { status: 'active', state: working, activeRunId: runId } as const;
  return addSession(tenant, { progress });
}

/** What a node does with a message to a session that is busy. */
async function sendToRun(
  tenant: TenantStore,
  { sessionId, runId }: { sessionId: string; runId: string },
  mode: MessageMode,
): Promise<string> {
  const write = sending([sessionId], { text: 'Wait' }, { mode });
  const [message] = write.messages;
  const deliveryId = write.changes[0]?.newDeliveries?.[0]?.id ?? '';
  const { from, text: content } = message;
  const command = {
    kind: 'message',
    messageId: message.id,
    deliveryId,
    mode,
    from,
    content,
  } as const;
  const queued = { id: deliveryId, command };
  const outcome = await tenant.sessions.change({ ...write, runCommands: [{ runId, queued }] });
  expect(outcome.kind).toBe('committed');
  return deliveryId;
}

async function statusOf(tenant: TenantStore, deliveryId: string): Promise<string | undefined> {
  return (await tenant.messages.readDelivery(deliveryId))?.status;
}

async function journalOf(kernel: Kernel, sessionId: string) {
  return kernel.store.tenant(kernel.tenantId).sessions.readEvents(sessionId, whole);
}

function createPayingModel() {
  return createStreamingModel(
    () => [[text('I pay. '), toolCall('call_1', 'pay', { amount: 1 }), finish()]],
    () => [[text('Paid.'), finish()]],
  );
}

/** Records the appends that change a session. */
function recorded(store: SystemStore) {
  const appends: Append[] = [];
  const wrapped = wrapStore(store, (call) => {
    if (call.method === 'append') appends.push(call.args[0] as Append);
    return call.go();
  });
  return { wrapped, appends };
}

describe('the turn of a session', () => {
  test('shows its tool calls, its answers, its usage and its status, and ends with the run', async () => {
    const { store, boot } = await openFixture();
    const { wrapped, appends } = recorded(store);
    const tool = createRecordingTool({ name: 'pay' });
    const kernel = await boot({ store: wrapped, model: createPayingModel(), tools: [tool] });
    const tenant = store.tenant(kernel.tenantId);
    const runId = uuidv7();
    const sessionId = await openSession(tenant, runId);
    const started = await send(tenant, [sessionId], {}, { status: 'delivered' });
    const [first] = started.deliveries;
    const received = [{ messageId: started.id, deliveryId: first?.id ?? '' }];
    await ask(kernel, { runId, sessionId, received });
    const [approval] = await untilAsked(kernel, runId);
    expect((await tenant.sessions.read(sessionId))?.status).toBe('waiting');
    expect(await statusOf(tenant, first?.id ?? '')).toBe('consumed');
    const second = await sendToRun(tenant, { sessionId, runId }, 'next-tool-call');
    await decide(kernel, approval?.approvalId);
    await finished(kernel, runId);

    expect(await statusOf(tenant, second)).toBe('consumed');
    const session = await tenant.sessions.read(sessionId);
    expect(session).toMatchObject({
      status: 'idle',
      activeRunId: null,
      state: { turn: 'none', usage: { tokens: 10 } },
    });
    const shown = (await journalOf(kernel, sessionId)).map((event) =>
      event.type === 'status.changed' ? event.status : event.type,
    );
    expect(shown).toEqual([
      'session.started',
      'delivery.accepted',
      'message.received',
      'tool.called',
      'transcript.chunk',
      'usage.updated',
      'waiting',
      'delivery.accepted',
      'active',
      'tool.completed',
      'delivery.delivered',
      'message.received',
      'transcript.chunk',
      'message.sent',
      'message.sent',
      'usage.updated',
      'idle',
    ]);
    // A message is consumed in the commit of the model call that has read it, and not before.
    for (const { events, session: write } of appends) {
      const changed = write?.changes.flatMap(({ deliveries = [] }) => deliveries) ?? [];
      const isRead = events.some(({ type }) => type === 'turn.started');
      expect(changed.filter(({ to }) => to === 'consumed')).toHaveLength(isRead ? 1 : 0);
    }
  });

  test('is stored with the session as it is, if the session changes meanwhile', async () => {
    const { store, boot } = await openFixture();
    let conflicts = 0;
    const racing = wrapStore(store, async (call) => {
      const append = appendWith(call, 'run.ended');
      if (append?.session !== undefined && conflicts < 2) {
        conflicts += 1;
        await store.tenant(tenantId).sessions.change({
          changes: [changeOf(sessionId, { events: [log(`race ${conflicts}`)] })],
        });
      }
      return call.go();
    });
    const kernel = await boot({
      store: racing,
      model: createStreamingModel(() => [[text('Done.'), finish()]]),
    });
    const { tenantId } = kernel;
    const runId = uuidv7();
    const sessionId = await openSession(store.tenant(tenantId), runId);
    await ask(kernel, { runId, sessionId });
    await finished(kernel, runId);
    const events = await journalOf(kernel, sessionId);
    expect(conflicts).toBe(2);
    expect(events.filter(({ type }) => type === 'log')).toHaveLength(2);
    expect(events.filter(({ type }) => type === 'status.changed')).toMatchObject([
      { status: 'idle', previousStatus: 'active' },
    ]);
    expect(events.map(({ seq }) => seq)).toEqual(events.map((_, index) => index + 1));
  });

  test('that fails gives an error, and the session is idle', async () => {
    const { store, boot } = await openFixture();
    const model = createStreamingModel(() => {
      throw new Error('No such model');
    });
    const kernel = await boot({ model });
    const tenant = store.tenant(kernel.tenantId);
    const runId = uuidv7();
    const sessionId = await openSession(tenant, runId);
    await ask(kernel, { runId, sessionId });
    await finished(kernel, runId);
    expect((await journalOf(kernel, sessionId)).slice(1)).toMatchObject([
      { type: 'error', code: 'provider_rejected', retryable: false },
      { type: 'status.changed', status: 'idle' },
    ]);
  });

  test('leaves a message that it did not take to the session, and nothing in the inbox of the run', async () => {
    const { store, boot } = await openFixture();
    const posted = Promise.withResolvers<void>();
    const begun = Promise.withResolvers<void>();
    const model = createStreamingModel(async function* () {
      yield [text('Almost ')];
      begun.resolve();
      await posted.promise;
      yield [text('done.'), finish()];
    });
    const kernel = await boot({ model });
    const tenant = store.tenant(kernel.tenantId);
    const runId = uuidv7();
    const sessionId = await openSession(tenant, runId);
    await ask(kernel, { runId, sessionId });
    await begun.promise;
    const deliveryId = await sendToRun(tenant, { sessionId, runId }, 'next-message');
    posted.resolve();
    await finished(kernel, runId);
    expect(await statusOf(tenant, deliveryId)).toBe('accepted');
    expect((await tenant.messages.inbox(sessionId, whole)).map(({ id }) => id)).toEqual([
      deliveryId,
    ]);
    expect(await tenant.readInbox(runId)).toEqual([]);
  });

  test.each(['before the run takes it', 'while the run takes it'])(
    'does not show a message to the model that is withdrawn %s',
    async (when) => {
      const { store, boot } = await openFixture();
      let isRacing = when === 'while the run takes it';
      const withdraw = () =>
        store.tenant(tenantId).sessions.change({
          changes: [
            changeOf(sessionId, {
              deliveries: [
                { id: deliveryId, from: ['accepted'], to: 'failed', reason: 'withdrawn' },
              ],
            }),
          ],
        });
      const racing = wrapStore(store, async (call) => {
        if (isRacing && appendWith(call, 'message.added') !== undefined) {
          isRacing = false;
          await withdraw();
        }
        return call.go();
      });
      const tool = createRecordingTool({ name: 'pay' });
      const model = createPayingModel();
      const kernel = await boot({ store: racing, model, tools: [tool] });
      const { tenantId } = kernel;
      const runId = uuidv7();
      const sessionId = await openSession(store.tenant(tenantId), runId);
      await ask(kernel, { runId, sessionId });
      const [approval] = await untilAsked(kernel, runId);
      const deliveryId = await sendToRun(
        store.tenant(tenantId),
        { sessionId, runId },
        'next-message',
      );
      if (!isRacing) await withdraw();
      await decide(kernel, approval?.approvalId);
      const events = await finished(kernel, runId);
      expect(isRacing).toBe(false);
      expect(ofType(events, 'message.added')).toEqual([]);
      expect(ofType(events, 'run.ended')).toMatchObject([{ status: 'completed', output: 'Paid.' }]);
      expect(await statusOf(store.tenant(tenantId), deliveryId)).toBe('failed');
      expect(await store.tenant(tenantId).readInbox(runId)).toEqual([]);
    },
  );
});
