/** The final answer of a native turn is the reply to the messages that addressed the agent. */
import {
  type Append,
  attachSession,
  type MessageDraft,
  type MessageRecord,
  requestCommand,
  recordReceipt,
  sendMessage,
  type SessionRecord,
} from '@relay/core';
import { finish, text } from '@relay/core/testing';
import type { AgentSessionCapabilities, IdentityKind } from '@relay/protocol';
import { describe, expect, test } from 'vitest';
import { capabilities } from '../../packages/store/test/contract/sessions/fixtures.ts';
import { type Kernel, person, until } from '../support/kernel.ts';
import { aborted, createStreamingModel, openFixture, stopRun } from './fixture.ts';
import {
  deliver,
  eventsOfType,
  openSession,
  sessionEvents,
  storeOf,
  untilIdle,
  untilSession,
} from './sessions.ts';
import { wrapStore } from './stores.ts';

const answering = (reply = 'Done.') => createStreamingModel(() => [[text(reply), finish()]]);

async function setUp(model = answering(), settings: object = {}) {
  const { boot } = await openFixture();
  const kernel = await boot({ model, sessions: true, settings });
  const { id } = await openSession(kernel);
  return { kernel, id };
}

/** A person or a program at the other end. */
function join(
  kernel: Kernel,
  handle: string,
  over: { kind?: IdentityKind; capabilities?: Partial<AgentSessionCapabilities> } = {},
): Promise<SessionRecord> {
  return attachSession(kernel.control.engine, {
    tenantId: kernel.tenantId,
    by: person,
    mayTakeOver: false,
    takeover: false,
    handle,
    name: handle,
    kind: over.kind ?? 'human',
    capabilities: { ...capabilities, ...over.capabilities },
  });
}

async function sendFrom(
  kernel: Kernel,
  { id, handle: name }: SessionRecord,
  draft: MessageDraft,
): Promise<MessageRecord> {
  const from = { type: 'session', id, name } as const;
  const author = { tenantId: kernel.tenantId, from, by: person };
  return (await sendMessage(kernel.control, author, draft)).message;
}

/** The messages that a session has sent, in their order, with their deliveries. */
async function sentBy(kernel: Kernel, id: string) {
  const { messages } = storeOf(kernel);
  const sent = eventsOfType(await sessionEvents(kernel, id), 'message.sent');
  return Promise.all(
    sent.map(async ({ messageId }) => {
      const message = await messages.read(messageId);
      if (message === undefined) throw new Error('There is no such message');
      return { ...message, deliveries: await messages.deliveriesOf(messageId) };
    }),
  );
}

describe('the reply to a direct message', () => {
  test('goes to the session that sent it, in its thread', async () => {
    const { kernel, id } = await setUp();
    const bob = await join(kernel, 'bob');
    const asked = await sendFrom(kernel, bob, { to: ['@ada'], text: 'Please' });
    await untilIdle(kernel, id);
    expect(await sentBy(kernel, id)).toMatchObject([
      {
        from: { type: 'session', id, name: 'ada' },
        to: ['@bob'],
        text: 'Done.',
        replyTo: asked.id,
        threadId: asked.id,
        hops: 1,
        deliveries: [{ sessionId: bob.id, status: 'accepted' }],
      },
    ]);
  });

  test('is in the thread and in the conversation, if a key sent it', async () => {
    const { kernel, id } = await setUp();
    await deliver(kernel, id, { text: 'Please' });
    await untilIdle(kernel, id);
    const [reply] = await sentBy(kernel, id);
    expect(reply).toMatchObject({ to: [], text: 'Done.', deliveries: [] });
    const { messages } = storeOf(kernel);
    for (const filter of [{ thread: reply?.threadId ?? '' }, { with: id }]) {
      const { items } = await messages.list(filter, { limit: 9 });
      expect(items.map((each) => each.text)).toEqual(['Done.', 'Please']);
    }
  });

  test('is stored in the commit that ends the run', async () => {
    const { boot, store } = await openFixture();
    const appends: Append[] = [];
    const recorded = wrapStore(store, (call) => {
      if (call.method === 'append') appends.push(call.args[0] as Append);
      return call.go();
    });
    const kernel = await boot({ model: answering(), store: recorded, sessions: true });
    const { id } = await openSession(kernel);
    await deliver(kernel, id, { text: 'Please' });
    await untilIdle(kernel, id);
    const replying = appends.filter(({ session }) => (session?.messages ?? []).length > 0);
    expect(replying).toHaveLength(1);
    expect(replying[0]?.events.map(({ type }) => type)).toContain('run.ended');
  });

  test('is one for each thread and sender, to the last of its messages', async () => {
    const { boot, store } = await openFixture();
    const sender = await boot({ model: answering() });
    const { id } = await openSession(sender);
    const [bob, eve] = [await join(sender, 'bob'), await join(sender, 'eve')];
    const to = ['@ada'];
    const first = await sendFrom(sender, bob, { to, text: 'one' });
    const again = await sendFrom(sender, bob, { to, text: 'two', replyTo: first.id });
    const other = await sendFrom(sender, bob, { to, text: 'three' });
    const hers = await sendFrom(sender, eve, { to, text: 'four' });
    const kernel = await boot({ model: answering(), store, sessions: true });
    await untilIdle(kernel, id);
    const replies = await sentBy(kernel, id);
    expect(replies.map(({ replyTo, to: addresses }) => [replyTo, ...addresses])).toEqual([
      [again.id, '@bob'],
      [other.id, '@bob'],
      [hers.id, '@eve'],
    ]);
  });

  test('answers messages that entered the turn, too', async () => {
    const model = createStreamingModel(
      async function* (_, signal) {
        yield [text('To begin ')];
        await aborted(signal);
      },
      () => [[text('Done.'), finish()]],
    );
    const { kernel, id } = await setUp(model);
    const [bob, eve] = [await join(kernel, 'bob'), await join(kernel, 'eve')];
    await sendFrom(kernel, bob, { to: ['@ada'], text: 'one' });
    await until(async () => model.requests.length === 1);
    await sendFrom(kernel, eve, { to: ['@ada'], text: 'two', mode: 'immediate' });
    await untilIdle(kernel, id);
    expect((await sentBy(kernel, id)).map(({ to }) => to)).toEqual([['@bob'], ['@eve']]);
  });

  test('goes to the sender and not to a session that has its handle by now', async () => {
    const go = Promise.withResolvers<void>();
    const model = createStreamingModel(async function* () {
      await go.promise;
      yield [text('Done.'), finish()];
    });
    const { kernel, id } = await setUp(model);
    const bob = await join(kernel, 'bob');
    await sendFrom(kernel, bob, { to: ['@ada'], text: 'one' });
    await until(async () => model.requests.length === 1);
    const { tenantId, control } = kernel;
    await requestCommand(control.engine, { tenantId, sessionId: bob.id }, 'release', person);
    const other = await join(kernel, 'bob');
    expect(other.id).not.toBe(bob.id);
    go.resolve();
    await untilIdle(kernel, id);
    expect((await sentBy(kernel, id)).map(({ deliveries }) => deliveries)).toMatchObject([
      [{ sessionId: bob.id, status: 'failed', reason: 'capability_missing' }],
    ]);
    expect(await sessionEvents(kernel, other.id)).not.toContainEqual(
      expect.objectContaining({ type: 'delivery.accepted' }),
    );
  });

  test('fails alone if the inbox of the sender is full, and the run is completed', async () => {
    const inboxLimit = { messages: 1, bytes: 1_000_000 };
    const { kernel, id } = await setUp(answering(), { inboxLimit });
    const [bob, eve] = [await join(kernel, 'bob'), await join(kernel, 'eve')];
    await sendFrom(kernel, eve, { to: ['@bob'], text: 'fills the inbox' });
    await sendFrom(kernel, bob, { to: ['@ada'], text: 'one' });
    await untilIdle(kernel, id);
    expect(await sentBy(kernel, id)).toMatchObject([
      { deliveries: [{ sessionId: bob.id, status: 'failed', reason: 'inbox_full' }] },
    ]);
    expect(eventsOfType(await sessionEvents(kernel, id), 'error')).toEqual([]);
  });

  test('is several for a session without a queue, in one commit', async () => {
    const { boot, store } = await openFixture();
    const sender = await boot({ model: answering() });
    const { id } = await openSession(sender);
    const delivery = { modes: ['immediate'] as ['immediate'] };
    const bob = await join(sender, 'bob', { kind: 'program', capabilities: { delivery } });
    const stream = { id: 'stream', node: 'one', at: Date.now() };
    expect(await storeOf(sender).sessions.openStream(bob.id, stream)).toBe(true);
    for (const each of ['one', 'two']) await sendFrom(sender, bob, { to: ['@ada'], text: each });
    const settings = { node: stream.node };
    const kernel = await boot({ model: answering(), store, sessions: true, settings });
    await untilIdle(kernel, id);
    const replies = await sentBy(kernel, id);
    expect(replies.flatMap(({ deliveries }) => deliveries)).toMatchObject([
      { sessionId: bob.id, status: 'accepted' },
      { sessionId: bob.id, status: 'accepted' },
    ]);
  });

  test.each([
    { how: 'fails', broken: true },
    { how: 'is canceled', broken: false },
  ])('is not sent if the turn $how', async ({ broken }) => {
    const model = createStreamingModel(async function* (_, signal) {
      if (broken) throw new Error('broken');
      yield [text('To begin ')];
      await aborted(signal);
    });
    const { kernel, id } = await setUp(model, { providerAttempts: 1 });
    await deliver(kernel, id, { text: 'one' });
    if (!broken) {
      const { activeRunId } = await untilSession(kernel, id, ({ status }) => status === 'active');
      await until(async () => model.requests.length === 1);
      await stopRun(kernel, activeRunId ?? '');
    }
    await untilIdle(kernel, id);
    expect(await sentBy(kernel, id)).toEqual([]);
  });

  test('is not sent if the answer is empty', async () => {
    const { kernel, id } = await setUp(answering(' \n'));
    await deliver(kernel, id, { text: 'one' });
    await untilIdle(kernel, id);
    expect(await sentBy(kernel, id)).toEqual([]);
  });
});

describe('the reply to a message in a channel', () => {
  async function inChannel(reply = 'Done.') {
    const { kernel, id } = await setUp(answering(reply));
    const [bob, eve] = [await join(kernel, 'bob'), await join(kernel, 'eve')];
    const { channels } = storeOf(kernel);
    await channels.put({ name: 'team', createdAt: 0, createdBy: person });
    for (const sessionId of [id, eve.id]) {
      await channels.addMember({ channel: 'team', sessionId, addedAt: 0 });
    }
    return { kernel, id, bob, eve };
  }

  test('is sent into its thread if it mentions the agent, for the members and the sender', async () => {
    const { kernel, id, bob, eve } = await inChannel();
    const asked = await sendFrom(kernel, bob, { to: ['#team'], text: 'Please, @ada!' });
    await untilIdle(kernel, id);
    const [reply, ...others] = await sentBy(kernel, id);
    expect(others).toEqual([]);
    expect(reply).toMatchObject({ to: ['#team', '@bob'], replyTo: asked.id, threadId: asked.id });
    expect(reply?.deliveries.map(({ sessionId }) => sessionId).toSorted()).toEqual(
      [bob.id, eve.id].toSorted(),
    );
    const { items } = await storeOf(kernel).messages.list({ channel: 'team' }, { limit: 9 });
    expect(items.map((each) => each.text)).toEqual(['Done.', 'Please, @ada!']);
  });

  test('is not sent if it does not mention the agent, which reads it all the same', async () => {
    const { kernel, id, eve } = await inChannel();
    await sendFrom(kernel, eve, { to: ['#team'], text: 'Hello, `@ada`' });
    await untilIdle(kernel, id);
    const events = await sessionEvents(kernel, id);
    expect(eventsOfType(events, 'message.received')).toHaveLength(1);
    expect(await sentBy(kernel, id)).toEqual([]);
  });

  test('is one for the thread, however many members have mentioned the agent in it', async () => {
    const { boot, store } = await openFixture();
    const sender = await boot({ model: answering() });
    const { id } = await openSession(sender);
    const [bob, eve] = [await join(sender, 'bob'), await join(sender, 'eve')];
    const { channels } = storeOf(sender);
    await channels.put({ name: 'team', createdAt: 0, createdBy: person });
    for (const sessionId of [id, bob.id, eve.id]) {
      await channels.addMember({ channel: 'team', sessionId, addedAt: 0 });
    }
    const first = await sendFrom(sender, bob, { to: ['#team'], text: '@ada one' });
    // Who is mentioned takes part in the thread.
    const last = await sendFrom(sender, eve, { replyTo: first.id, text: 'two' });
    expect(last.to).toEqual(['@ada', '@bob']);
    const kernel = await boot({ model: answering(), store, sessions: true });
    await untilIdle(kernel, id);
    expect(await sentBy(kernel, id)).toMatchObject([{ to: ['#team'], replyTo: last.id }]);
  });

  test('reaches a member that a reply in the thread mentions', async () => {
    const { kernel, id, bob, eve } = await inChannel();
    const first = await sendFrom(kernel, bob, { to: ['#team'], text: 'Hello' });
    const asked = await sendFrom(kernel, eve, { replyTo: first.id, text: '@ada, please' });
    expect(asked.to).toEqual(['@bob', '@ada']);
    await until(async () => (await sentBy(kernel, id)).length === 1);
    expect(await sentBy(kernel, id)).toMatchObject([{ to: ['#team'], replyTo: asked.id }]);
  });
});

describe('the loop cap', () => {
  /** How many deliveries of a session failed by the cap, and how many messages it was given. */
  async function countsOf(kernel: Kernel, id: string) {
    const events = await sessionEvents(kernel, id);
    const failed = eventsOfType(events, 'delivery.failed');
    return {
      accepted: eventsOfType(events, 'delivery.accepted').length,
      failed: failed.map(({ reason }) => reason),
    };
  }

  test('ends an exchange of two agents that answer each other', async () => {
    const { kernel, id } = await setUp(answering('And you?'));
    const bob = await openSession(kernel, { handle: 'bob' });
    const store = storeOf(kernel);
    // An agent has sent the first message, on behalf of a person.
    const author = {
      tenantId: kernel.tenantId,
      from: { type: 'session', id: bob.id, name: 'bob' } as const,
      by: person,
      hops: 1,
    };
    const { message } = await sendMessage(kernel.control, author, { to: ['@ada'], text: 'Hello' });
    const last = await until(async () => {
      const { items } = await store.messages.list({ thread: message.id }, { limit: 50 });
      return items[0]?.hops === 17 && items[0];
    });
    for (const each of [id, bob.id]) await untilIdle(kernel, each);
    expect(await store.messages.deliveriesOf(last.id)).toMatchObject([
      { status: 'failed', reason: 'loop_limit', error: { code: 'loop_limit' } },
    ]);
    expect(await countsOf(kernel, id)).toEqual({ accepted: 8, failed: ['loop_limit'] });
    expect(await countsOf(kernel, bob.id)).toEqual({ accepted: 8, failed: [] });
  });

  test('ends an exchange of two programs that never name what they reply to', async () => {
    const { boot } = await openFixture();
    const kernel = await boot({ model: answering() });
    const programs = [
      await join(kernel, 'one', { kind: 'program' }),
      await join(kernel, 'two', { kind: 'program' }),
    ] as const;
    const { messages } = storeOf(kernel);
    const pass = async (from: SessionRecord, to: SessionRecord) => {
      const { id } = await sendFrom(kernel, from, { to: [`@${to.handle}`], text: 'And you?' });
      const [delivery] = await messages.deliveriesOf(id);
      const ref = { tenantId: kernel.tenantId, sessionId: to.id };
      await recordReceipt(kernel.control.engine, ref, delivery?.id ?? '', { status: 'delivered' });
      await recordReceipt(kernel.control.engine, ref, delivery?.id ?? '', { status: 'consumed' });
    };
    const exchange = async () => {
      for (let sent = 0; sent < 100; sent += 1) {
        const [from, to] = sent % 2 === 0 ? programs : programs.toReversed();
        if (from === undefined || to === undefined) break;
        await pass(from, to);
      }
    };
    await expect(exchange()).rejects.toMatchObject({ code: 'loop_limit' });
    expect(await countsOf(kernel, programs[0].id)).toEqual({ accepted: 8, failed: ['loop_limit'] });
    expect(await countsOf(kernel, programs[1].id)).toEqual({ accepted: 9, failed: [] });
  });

  test('is never reached by a person and an agent', async () => {
    const { kernel, id } = await setUp();
    const bob = await join(kernel, 'bob');
    let replyTo: string | undefined;
    for (let turn = 1; turn <= 20; turn += 1) {
      await sendFrom(kernel, bob, { to: ['@ada'], text: 'And now?', replyTo });
      await until(async () => (await sentBy(kernel, id)).length === turn);
      replyTo = (await sentBy(kernel, id)).at(-1)?.id;
    }
    const replies = await sentBy(kernel, id);
    expect(replies.map(({ hops }) => hops)).toEqual(Array.from({ length: 20 }, () => 1));
    expect(replies.flatMap(({ deliveries }) => deliveries.map(({ status }) => status))).toEqual(
      Array.from({ length: 20 }, () => 'accepted'),
    );
  });

  test('lets a person continue what it has ended', async () => {
    const { boot } = await openFixture();
    const kernel = await boot({ model: answering() });
    const program = await join(kernel, 'one', { kind: 'program' });
    const other = await join(kernel, 'two', { kind: 'program' });
    const { messages } = storeOf(kernel);
    const receive = async (sessionId: string) => {
      const ref = { tenantId: kernel.tenantId, sessionId };
      for (const { id } of await messages.inbox(sessionId, { after: 0, limit: 9 })) {
        await recordReceipt(kernel.control.engine, ref, id, { status: 'consumed' });
      }
    };
    const from = { type: 'session', id: other.id, name: 'two' } as const;
    const author = { tenantId: kernel.tenantId, from, by: person, hops: 16 };
    await sendMessage(kernel.control, author, { to: ['@one'], text: 'And you?' });
    await receive(program.id);
    const answer = { to: ['@two'], text: 'And you?' };
    await expect(sendFrom(kernel, program, answer)).rejects.toMatchObject({ code: 'loop_limit' });
    await deliver(kernel, program.id, { text: 'Go on' });
    await receive(program.id);
    expect((await sendFrom(kernel, program, answer)).hops).toBe(1);
  });
});
