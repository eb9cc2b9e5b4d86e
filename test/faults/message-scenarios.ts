/** Runs that people talk to while they work: messages of every mode, and pauses. */
import {
  commandNative,
  type LifecycleCommand,
  type Model,
  nativeCapabilities,
  nativeHarness,
  newSession,
  type RunRef,
  type SessionState,
  type SystemStore,
} from '@relay/core';
import {
  createCountingIds,
  createRecordingTool,
  finish,
  text,
  toolCall,
} from '@relay/core/testing';
import {
  type Message,
  type MessageMode,
  messageModes,
  type StoredEvent,
  textOf,
} from '@relay/protocol';
import { addSession, sending } from '../../packages/store/test/contract/sessions/fixtures.ts';
import { type Kernel, openApprovals, person } from '../support/kernel.ts';
import { pauseRun, postMessage, unpauseRun } from '../support/run-commands.ts';
import { runIn, type Scenario, tenantOf } from './scenarios.ts';

const sessionId = '01900000-0000-7000-a000-000000000002';
/** Of the one run of each store. */
const runId = createCountingIds().next();
const from = { type: 'session', id: 'session-ada', name: 'ada' } as const;

/** Posts a message that was not acknowledged yet: it is neither in the inbox nor in the journal. */
async function sendOnce(
  kernel: Kernel,
  ref: RunRef,
  { messageId, mode }: { messageId: string; mode: MessageMode },
): Promise<void> {
  const isTaken = async () => {
    const added = await kernel.store
      .tenant(ref.tenantId)
      .readEvents(ref.runId, { after: 0, limit: 10_000 });
    return added.some((event) => event.type === 'message.added' && event.messageId === messageId);
  };
  const inbox = await kernel.store.tenant(ref.tenantId).readInbox(ref.runId);
  // In this order: a command that was in the inbox may be in the journal by now.
  if (inbox.some(({ id }) => id === messageId) || (await isTaken())) return;
  await postMessage(kernel.control, ref, { messageId, mode, from, content: messageId });
}

function hasRead(messages: readonly Message[], messageId: string): boolean {
  return messages.some(({ role, content }) => role === 'user' && textOf(content) === messageId);
}

function countOf(events: readonly StoredEvent[], type: StoredEvent['type']): number {
  return events.filter((event) => event.type === type).length;
}

/** A stream without output, as long as it is to wait. */
async function* keptOpen(waits: () => boolean): AsyncGenerator<[]> {
  while (waits()) {
    yield [];
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}

/** The one that the turn has read, and one that waits for the next turn. */
const [readId, queuedId] = [
  '01900000-0000-7000-d000-000000000001',
  '01900000-0000-7000-d000-000000000002',
];

/** The turn of a native session, which waits for an approval. */
function nativeTurn(
  name: string,
): Pick<Scenario, 'name' | 'tools' | 'model' | 'request' | 'prepare' | 'leaves'> {
  return {
    name,
    // Otherwise a crash in it is another approval.
    tools: [createRecordingTool({ name: 'pay', idempotent: true })],
    model: {
      async *stream({ messages }) {
        if (messages.at(-1)?.role === 'tool') yield [text('Paid.'), finish()];
        else yield [toolCall('call_1', 'pay', { amount: 1 }), finish()];
      },
    },
    request: { sessionId, received: [{ messageId: readId, deliveryId: readId }] },
    async prepare(store) {
      const tenant = await tenantOf(store);
      const state: SessionState = { ...newSession, lifecycle: 'open', turn: 'active' };
      const progress = { status: 'active', state, activeRunId: runId } as const;
      const definition = { harness: nativeHarness, capabilities: nativeCapabilities };
      await addSession(tenant, { id: sessionId, progress, definition });
      for (const [id, status] of [
        [readId, 'delivered'],
        [queuedId, 'accepted'],
      ] as const) {
        await tenant.sessions.change(sending([sessionId], { id }, { id, mode: 'on-idle', status }));
      }
    },
    leaves: sessionLeft,
  };
}

async function sessionLeft(store: SystemStore) {
  const tenant = await tenantOf(store);
  const session = await tenant.sessions.read(sessionId);
  const events = await tenant.sessions.readEvents(sessionId, { after: 0, limit: 10_000 });
  const approvals = (await tenant.listApprovals({}, { limit: 100 })).items;
  return {
    status: session?.status,
    activeRunId: session?.activeRunId,
    isReleased: session?.releasedAt !== null,
    // Whether the queue is the next turn.
    isDue: session?.dueAt !== null,
    events: events.map((event) =>
      event.type === 'status.changed' ? `${event.type} ${event.status}` : event.type,
    ),
    deliveries: await Promise.all(
      [readId, queuedId].map(async (id) => {
        const { status, reason } = (await tenant.messages.readDelivery(id)) ?? {};
        return { status, reason };
      }),
    ),
    approvals: approvals.map(({ status }) => status),
  };
}

async function commandSession(kernel: Kernel, command: LifecycleCommand): Promise<void> {
  const ref = { tenantId: kernel.tenantId, sessionId };
  await commandNative(kernel.control, ref, command, { by: person, isAdmin: false });
}

export const messageScenarios: Readonly<Record<string, () => Scenario>> = {
  'messages of every mode': () => {
    let isLatePosted = false;
    /** It goes on only when it is interrupted, and answers when the last message is on its way. */
    const model: Model = {
      async *stream({ messages }, signal) {
        if (!hasRead(messages, 'now')) {
          yield [text('To begin ')];
          yield* keptOpen(() => !signal.aborted);
        } else if (!hasRead(messages, 'after the tool')) {
          yield [text('I pay. '), toolCall('call_1', 'pay', { amount: 1 }), finish()];
        } else {
          yield [text('Paid.')];
          yield* keptOpen(() => !signal.aborted && !isLatePosted);
          yield [finish()];
        }
      },
    };
    return {
      name: 'messages of every mode',
      tools: [createRecordingTool({ name: 'pay' })],
      model,
      shows: 'message.added',
      async acts(kernel, ref, events) {
        if (countOf(events, 'text.appended') === 0) return;
        // The first one waits for the tool, although the second one interrupts the model.
        await sendOnce(kernel, ref, { messageId: 'after the tool', mode: 'next-tool-call' });
        await sendOnce(kernel, ref, { messageId: 'now', mode: 'immediate' });
        if (openApprovals(events).length > 0) {
          await sendOnce(kernel, ref, { messageId: 'next', mode: 'next-message' });
          await sendOnce(kernel, ref, { messageId: 'at once', mode: 'immediate' });
        }
        const last = events.findLastIndex(({ type }) => type === 'message.added');
        if (countOf(events, 'message.added') < 4) return;
        if (countOf(events.slice(last), 'text.appended') === 0) return;
        await sendOnce(kernel, ref, { messageId: 'too late', mode: 'next-tool-call' });
        isLatePosted = true;
      },
      async leaves(store) {
        const { tenant, runId } = await runIn(store);
        const events = await tenant.readEvents(runId, { after: 0, limit: 10_000 });
        return {
          taken: events.flatMap((event) => (event.type === 'message.added' ? event.messageId : [])),
          left: (await tenant.readInbox(runId)).map(({ id }) => id),
        };
      },
    };
  },

  'the turn of a session': () => ({
    name: 'the turn of a session',
    tools: [createRecordingTool({ name: 'pay' })],
    model: {
      async *stream({ messages }) {
        const isPaid = messages.some(({ role }) => role === 'tool');
        if (isPaid) yield [text('Paid.'), finish()];
        else yield [toolCall('call_1', 'pay', { amount: 1 }), finish()];
      },
    },
    request: { sessionId },
    shows: 'message.added',
    async prepare(store) {
      const tenant = await tenantOf(store);
      const state: SessionState = { ...newSession, lifecycle: 'open', turn: 'active' };
      const progress = { status: 'active', state, activeRunId: runId } as const;
      await addSession(tenant, { id: sessionId, progress });
    },
    async acts(kernel, ref, events) {
      if (openApprovals(events).length === 0) return;
      const tenant = kernel.store.tenant(ref.tenantId);
      for (const [nth, mode] of messageModes.entries()) {
        const id = `01900000-0000-7000-b000-00000000000${nth}`;
        // The message, its delivery and the command of the run are stored together.
        if ((await tenant.messages.readDelivery(id)) !== undefined) continue;
        const { changes, messages } = sending([sessionId], { id }, { id, mode });
        const content = messages[0].text;
        const message = { messageId: id, deliveryId: id, mode, from, content };
        const queued = { id, command: { kind: 'message', ...message } } as const;
        await tenant.sessions.change({ changes, messages, runCommands: [{ runId, queued }] });
      }
    },
    async leaves(store) {
      const tenant = await tenantOf(store);
      const events = await tenant.sessions.readEvents(sessionId, { after: 0, limit: 10_000 });
      const idsOf = (type: 'delivery.delivered' | 'message.received') =>
        events.flatMap((event) => (event.type === type ? (event.deliveryId ?? []) : []));
      const session = await tenant.sessions.read(sessionId);
      return {
        delivered: idsOf('delivery.delivered'),
        consumed: idsOf('message.received'),
        statuses: await Promise.all(
          idsOf('message.received').map(async (id) => {
            return (await tenant.messages.readDelivery(id))?.status;
          }),
        ),
        session: { status: session?.status, activeRunId: session?.activeRunId },
      };
    },
  }),

  'a turn that ends with replies': () => {
    const [bob, eve] = ['3', '4'].map((digit) => `01900000-0000-7000-a000-00000000000${digit}`);
    const ids = ['1', '2', '3'].map((digit) => `01900000-0000-7000-c000-00000000000${digit}`);
    const [direct = '', mention = '', fromKey = ''] = ids;
    return {
      name: 'a turn that ends with replies',
      tools: [createRecordingTool({ name: 'pay' })],
      model: {
        async *stream({ messages }) {
          const isPaid = messages.some(({ role }) => role === 'tool');
          if (isPaid) yield [text('Paid.'), finish()];
          else yield [toolCall('call_1', 'pay', { amount: 1 }), finish()];
        },
      },
      request: {
        sessionId,
        received: ids.map((id) => ({ messageId: id, deliveryId: id })),
      },
      async prepare(store) {
        const tenant = await tenantOf(store);
        const state: SessionState = { ...newSession, lifecycle: 'open', turn: 'active' };
        const progress = { status: 'active', state, activeRunId: runId } as const;
        await addSession(tenant, { id: sessionId, progress, definition: { handle: 'ada' } });
        await tenant.channels.put({ name: 'team', createdAt: 0, createdBy: person });
        for (const [id = '', handle] of [
          [bob, 'bob'],
          [eve, 'eve'],
        ] as const) {
          await addSession(tenant, { id, definition: { handle } });
          await tenant.channels.addMember({ channel: 'team', sessionId: id, addedAt: 0 });
        }
        const sender = { type: 'session', id: bob ?? '', name: 'bob' } as const;
        const toTeam = { to: ['#team'], channels: ['team'], text: '@ada, please' };
        for (const sent of [
          { id: direct, from: sender, to: ['@ada'] },
          { id: mention, from: sender, ...toTeam },
          { id: fromKey, to: ['@ada'] },
        ]) {
          const write = sending([sessionId], sent, { id: sent.id, status: 'delivered' });
          await tenant.sessions.change(write);
        }
      },
      async leaves(store) {
        const tenant = await tenantOf(store);
        const { items } = await tenant.messages.list({}, { limit: 100 });
        const replies = items.filter((message) => message.from.id === sessionId);
        if (replies.length !== ids.length) throw new Error('Not every message has its reply');
        const events = await tenant.sessions.readEvents(sessionId, { after: 0, limit: 10_000 });
        const shown = await Promise.all(
          replies.map(async ({ id, to, text: said, replyTo, hops }) => ({
            reply: { to, said, replyTo, hops },
            deliveries: (await tenant.messages.deliveriesOf(id))
              .map(({ handle, status }) => `${handle} ${status}`)
              .toSorted(),
          })),
        );
        return {
          sent: events.filter(({ type }) => type === 'message.sent').length,
          replies: shown.toSorted((one, other) =>
            (one.reply.replyTo ?? '') < (other.reply.replyTo ?? '') ? -1 : 1,
          ),
          status: (await tenant.sessions.read(sessionId))?.status,
        };
      },
    };
  },

  'a pause': () => ({
    name: 'a pause',
    tools: [createRecordingTool({ name: 'pay' })],
    model: {
      async *stream({ messages }) {
        if (messages.at(-1)?.role === 'tool') yield [text('Paid.'), finish()];
        else yield [toolCall('call_1', 'pay', { amount: 1 }), finish()];
      },
    },
    async acts(kernel, ref, events) {
      const tenant = kernel.store.tenant(ref.tenantId);
      const run = await tenant.readRun(ref.runId);
      const kinds = (await tenant.readInbox(ref.runId)).map(({ command }) => command.kind);
      const isPaused = kinds.includes('pause');
      if (openApprovals(events).length > 0) {
        if (!isPaused) await pauseRun(kernel.control, ref);
      } else if (run?.status === 'waiting' && isPaused && !kinds.includes('resume')) {
        await unpauseRun(kernel.control, ref);
      }
    },
    async leaves(store) {
      const { tenant, runId } = await runIn(store);
      return tenant.readInbox(runId);
    },
  }),

  'a release during a turn': () => ({
    ...nativeTurn('a release during a turn'),
    approvers: [],
    async acts(kernel, _ref, events) {
      const session = await kernel.store.tenant(kernel.tenantId).sessions.read(sessionId);
      if (openApprovals(events).length === 0 || session?.state.lifecycle !== 'open') return;
      await commandSession(kernel, 'release');
    },
  }),

  'a cancel during a turn, with a queue': () => ({
    ...nativeTurn('a cancel during a turn, with a queue'),
    approvers: [],
    async acts(kernel, ref, events) {
      const inbox = await kernel.store.tenant(ref.tenantId).readInbox(ref.runId);
      if (openApprovals(events).length === 0 || inbox.length > 0) return;
      await commandSession(kernel, 'cancel');
    },
  }),

  'a pause of a session with an approved tool': () => ({
    ...nativeTurn('a pause of a session with an approved tool'),
    async acts(kernel, ref, events) {
      const tenant = kernel.store.tenant(ref.tenantId);
      const { state } = (await tenant.sessions.read(sessionId)) ?? {};
      // Paused before it is approved, and resumed after it.
      if (openApprovals(events).length > 0) {
        if (state?.lifecycle === 'open') await commandSession(kernel, 'pause');
      } else if (state?.lifecycle === 'paused') {
        const run = await tenant.readRun(ref.runId);
        if (run?.status === 'waiting') await commandSession(kernel, 'resume');
      }
    },
  }),
};
