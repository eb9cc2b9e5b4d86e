/** Crashes while a session is forked and in the first turn of the fork: it continues the parent, once. */
import { forkNative, type Model, type SystemStore } from '@relay/core';
import { finish, text } from '@relay/core/testing';
import { textOf } from '@relay/protocol';
import { afterAll, describe, expect, test } from 'vitest';
import { createFaultyStore } from '../../packages/store/test/faulty-store.ts';
import { deliver, openSession, sessionEvents, storeOf, untilIdle } from '../loop/sessions.ts';
import { allStores } from '../loop/stores.ts';
import { dropDatabases } from '../support/postgres-stores.ts';
import { bootKernel, type Kernel, person } from '../support/kernel.ts';

afterAll(dropDatabases);

/** Answers with what it was told. */
const model: Model = {
  async *stream({ messages }) {
    const said = messages.flatMap(({ role, content }) => (role === 'user' ? textOf(content) : []));
    yield [text(said.join(', ')), finish()];
  },
};

/** What was not acknowledged, the caller asks for again. */
async function forkAndTurn(kernel: Kernel) {
  const { sessions } = storeOf(kernel);
  const parent = await sessions.readByHandle('ada');
  if (parent === undefined) throw new Error('There is no session');
  const request = { by: person, handle: 'bob' };
  const child =
    (await sessions.readByHandle('bob')) ??
    (await forkNative(kernel.control.engine, parent, request));
  const sent = (await sessionEvents(kernel, child.id)).some(
    ({ type }) => type === 'delivery.accepted',
  );
  if (!sent) await deliver(kernel, child.id, { text: 'two' });
  await untilIdle(kernel, child.id);
  const shown = async (id: string) =>
    (await sessionEvents(kernel, id)).map((event) => {
      if (event.type === 'status.changed') return `${event.type} ${event.status}`;
      return event.type === 'transcript.chunk' ? event.chunk.content : event.type;
    });
  return { parent: await shown(parent.id), child: await shown(child.id) };
}

async function play(store: SystemStore, crash?: { crashAt: number; when: 'before' | 'after' }) {
  const first = await bootKernel({ store, model, sessions: true });
  const { id } = await openSession(first);
  await deliver(first, id, { text: 'one' });
  await untilIdle(first, id);
  await first.stop();

  const faulty = createFaultyStore(store, crash ?? {});
  const life = async () => {
    const kernel = await bootKernel({ store: faulty, model, sessions: true });
    const left = await forkAndTurn(kernel);
    await kernel.stop();
    return left;
  };
  const outcome = await Promise.race([life(), faulty.crashed]);
  if (outcome !== undefined) return { left: outcome, crashed: false };
  const kernel = await bootKernel({ store, model, sessions: true, restarted: true });
  const left = await forkAndTurn(kernel);
  await kernel.stop();
  return { left, crashed: true };
}

describe.each(allStores)('a crash at any write of a fork on $name', (kind) => {
  test('changes neither the parent nor the first turn of the fork', async () => {
    const inStore = async (crash?: { crashAt: number; when: 'before' | 'after' }) => {
      const opened = await kind.open();
      const played = await play(opened.store, crash);
      await opened.dispose();
      return played;
    };
    const { left: expected } = await inStore();
    expect(expected.parent.filter((type) => type === 'session.forked')).toHaveLength(1);
    expect(expected.child).toContain('one, two');
    let points = 0;
    for (const when of ['before', 'after'] as const) {
      for (let crashAt = 1; ; crashAt += 1) {
        const { left, crashed } = await inStore({ crashAt, when });
        if (!crashed) break;
        points += 1;
        expect(left, `${when} write ${crashAt}`).toEqual(expected);
      }
    }
    console.info(`${kind.name}, a fork: ${points} crash points, 0 differences`);
    expect(points).toBeGreaterThanOrEqual(2 * 4);
  }, 120_000);
});
