/** Forks and snapshots of native sessions: they refer to the journals of the parent and copy nothing. */
import {
  createNativeSession,
  forkNative,
  type ModelRequest,
  readNativeSnapshot,
  type SessionRecord,
  snapshotNative,
} from '@relay/core';
import { createRecordingTool, finish, text, toolCall } from '@relay/core/testing';
import { RelayError, textOf } from '@relay/protocol';
import { describe, expect, test } from 'vitest';
import { verifies } from '../conformance/verifies.ts';
import { type Kernel, person, until } from '../support/kernel.ts';
import { createStreamingModel, lastOf, openFixture } from './fixture.ts';
import {
  deliver,
  eventsOfType,
  openSession,
  readSession,
  sessionEvents,
  storeOf,
  untilIdle,
} from './sessions.ts';
import { allStores } from './stores.ts';

const answer = [text('Done.'), finish()];

function usersIn({ messages }: ModelRequest): string[] {
  return messages.flatMap(({ role, content }) => (role === 'user' ? textOf(content) : []));
}

/** One message, and what the model then saw from users. */
async function turn(kernel: Kernel, { id }: { id: string }, said: string): Promise<string[]> {
  await deliver(kernel, id, { text: said });
  await untilIdle(kernel, id);
  return usersIn(lastOf(model.requests));
}

let model: ReturnType<typeof createStreamingModel>;

async function fork(kernel: Kernel, id: string, handle: string, seq?: number) {
  const parent = await readSession(kernel, id);
  return forkNative(kernel.control.engine, parent, { by: person, handle, seq });
}

async function prune(kernel: Kernel): Promise<void> {
  while ((await kernel.store.pruneRuns(Date.now() + 1, 100)) > 0);
}

describe.each(allStores)('a fork of a native session on $name', (kind) => {
  test('continues the conversation, and neither sees what the other does later', async () => {
    verifies('004:lifecycle:fork');
    const { boot } = await openFixture(kind);
    model = createStreamingModel(() => [answer]);
    const kernel = await boot({ model, sessions: true });
    const parent = await openSession(kernel, { labels: { team: 'docs' } });
    await turn(kernel, parent, 'one');
    await turn(kernel, parent, 'two');
    const before = await readSession(kernel, parent.id);
    const child = await fork(kernel, parent.id, 'bob');
    expect(child).toMatchObject({
      parentSessionId: parent.id,
      status: 'idle',
      model: 'scripted',
      labels: { team: 'docs' },
    });
    expect(child.conversationId).not.toBe(parent.conversationId);
    expect(eventsOfType(await sessionEvents(kernel, child.id), 'session.forked')).toMatchObject([
      { seq: 1, sessionId: child.id, parentSessionId: parent.id },
    ]);
    expect((await sessionEvents(kernel, parent.id)).slice(before.lastSeq)).toMatchObject([
      { type: 'session.forked', sessionId: child.id, parentSessionId: parent.id },
    ]);
    expect(await turn(kernel, child, 'of the child')).toEqual(['one', 'two', 'of the child']);
    expect(await turn(kernel, parent, 'three')).toEqual(['one', 'two', 'three']);
    expect(await turn(kernel, child, 'more')).toEqual(['one', 'two', 'of the child', 'more']);

    const ofFork = await fork(kernel, child.id, 'eve');
    expect(await turn(kernel, ofFork, 'deep')).toEqual([
      'one',
      'two',
      'of the child',
      'more',
      'deep',
    ]);
    // A fork of a fork that has had no turn yet.
    const unused = await fork(kernel, (await fork(kernel, parent.id, 'dan')).id, 'fay');
    expect(await turn(kernel, unused, 'last')).toEqual(['one', 'two', 'three', 'last']);
  });

  test('at a seq continues from there, and only between two turns', async () => {
    const { boot } = await openFixture(kind);
    model = createStreamingModel(() => [answer]);
    const kernel = await boot({ model, sessions: true });
    const parent = await openSession(kernel);
    const start = (await readSession(kernel, parent.id)).lastSeq;
    await turn(kernel, parent, 'one');
    const first = (await readSession(kernel, parent.id)).lastSeq;
    await turn(kernel, parent, 'two');
    const events = await sessionEvents(kernel, parent.id);
    const inside = events.filter(({ type }) => type === 'transcript.chunk').map(({ seq }) => seq);
    for (const seq of [...inside, events.length + 1]) {
      await expect(fork(kernel, parent.id, 'bob', seq)).rejects.toMatchObject({
        code: 'not_a_boundary',
      });
    }
    const early = await fork(kernel, parent.id, 'bob', first);
    expect(await turn(kernel, early, 'other')).toEqual(['one', 'other']);
    const empty = await fork(kernel, parent.id, 'eve', start);
    expect(await turn(kernel, empty, 'other')).toEqual(['other']);
    // The child’s own journal begins with what it was forked from.
    const [, created] = await sessionEvents(kernel, early.id);
    const again = await fork(kernel, early.id, 'fay', created?.seq);
    expect(await turn(kernel, again, 'third')).toEqual(['one', 'third']);
  });

  test('has the messages of a turn that failed without output, or is refused', async () => {
    const { boot } = await openFixture(kind);
    const held = Promise.withResolvers<void>();
    const failing = () => {
      throw new RelayError('provider_rejected', 'No');
    };
    model = createStreamingModel(
      () => [answer],
      failing,
      async function* () {
        await held.promise;
        yield answer;
      },
      () => [answer],
    );
    const kernel = await boot({ model, sessions: true });
    const parent = await openSession(kernel);
    await turn(kernel, parent, 'one');
    const first = (await readSession(kernel, parent.id)).lastSeq;
    await turn(kernel, parent, 'two');
    const failed = (await readSession(kernel, parent.id)).lastSeq;
    expect(eventsOfType(await sessionEvents(kernel, parent.id), 'error')).toHaveLength(1);
    const idle = await fork(kernel, parent.id, 'bob', failed);
    // While it works, the failed turn is still the last that has ended.
    await deliver(kernel, parent.id, { text: 'three' });
    await until(async () => model.requests.length === 3);
    const working = await fork(kernel, parent.id, 'eve');
    held.resolve();
    await untilIdle(kernel, parent.id);
    expect(await turn(kernel, idle, 'four')).toEqual(['one', 'two', 'four']);
    expect(await turn(kernel, working, 'four')).toEqual(['one', 'two', 'four']);

    await expect(fork(kernel, parent.id, 'fay', failed)).rejects.toMatchObject({
      code: 'not_a_boundary',
      message: expect.stringContaining(`The turn before seq ${failed}`),
    });
    const early = await fork(kernel, parent.id, 'fay', first);
    expect(await turn(kernel, early, 'four')).toEqual(['one', 'four']);
    const last = await fork(kernel, parent.id, 'gil');
    expect(await turn(kernel, last, 'four')).toEqual(['one', 'two', 'three', 'four']);
  });

  test('keeps what it refers to from being deleted, until it is released', async () => {
    const { boot } = await openFixture(kind);
    model = createStreamingModel(() => [answer]);
    const kernel = await boot({ model, sessions: true });
    const parent = await openSession(kernel);
    await turn(kernel, parent, 'one');
    const child = await fork(kernel, parent.id, 'bob');
    await prune(kernel);
    expect(await turn(kernel, child, 'two')).toEqual(['one', 'two']);
    await prune(kernel);
    expect(await turn(kernel, child, 'three')).toEqual(['three']);

    await turn(kernel, parent, 'four');
    const snapshot = await snapshotNative(
      kernel.control.engine,
      await readSession(kernel, parent.id),
    );
    await prune(kernel);
    await expect(readNativeSnapshot(storeOf(kernel), snapshot.id)).rejects.toMatchObject({
      code: 'journal_pruned',
    });
  });
});

describe('a native session', () => {
  test('that works is forked as it was before its turn, without its queue', async () => {
    const { boot } = await openFixture();
    const held = Promise.withResolvers<void>();
    const tool = createRecordingTool({
      name: 'look',
      allowedByDefault: true,
      execute: () => held.promise.then(() => ({ context: 'seen' })),
    });
    model = createStreamingModel(
      () => [answer],
      () => [[toolCall('call_1', 'look', {}), finish()]],
      () => [answer],
    );
    const kernel = await boot({ model, tools: [tool], sessions: true });
    const parent = await openSession(kernel);
    await turn(kernel, parent, 'one');
    await deliver(kernel, parent.id, { text: 'two' });
    await until(async () => tool.executions.length === 1);
    await deliver(kernel, parent.id, { text: 'queued' });
    const child = await fork(kernel, parent.id, 'bob');
    expect((await readSession(kernel, child.id)).queue.length).toBe(0);
    expect(await turn(kernel, child, 'of the child')).toEqual(['one', 'of the child']);
    held.resolve();
    await untilIdle(kernel, parent.id);
    expect(usersIn(lastOf(model.requests))).toEqual(['one', 'two', 'queued']);
  });

  test('gives a snapshot of the last position between two turns, which sessions start from', async () => {
    verifies('004:lifecycle:snapshot');
    const { boot } = await openFixture();
    model = createStreamingModel(() => [answer]);
    const kernel = await boot({ model, sessions: true });
    const { engine } = kernel.control;
    const parent = await openSession(kernel);
    await turn(kernel, parent, 'one');
    const session = await readSession(kernel, parent.id);
    const snapshot = await snapshotNative(engine, session);
    expect(snapshot).toMatchObject({ sessionId: parent.id, seq: session.lastSeq });
    await turn(kernel, parent, 'two');
    const start = async (handle: string): Promise<SessionRecord> => {
      const found = await readNativeSnapshot(storeOf(kernel), snapshot.id);
      const { source, sessionId: parentSessionId, model: named } = found ?? {};
      if (parentSessionId === undefined) throw new Error('There is no snapshot');
      const from = { parentSessionId, isForked: false, source: source ?? undefined };
      const { tenantId } = kernel;
      const request = { tenantId, by: person, handle, model: named ?? undefined, from };
      return createNativeSession(engine, request);
    };
    for (const handle of ['bob', 'eve']) {
      const child = await start(handle);
      expect(child.parentSessionId).toBe(parent.id);
      expect(await turn(kernel, child, handle)).toEqual(['one', handle]);
    }
    expect(await readNativeSnapshot(storeOf(kernel), 'none')).toBeUndefined();
  });
});
