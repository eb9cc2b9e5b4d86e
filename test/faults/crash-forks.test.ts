/** Crashes while a session is forked and in the first turn of the fork: it continues the parent, once. */
import {
  answerCommand,
  attachSession,
  forkNative,
  forkProgram,
  type Model,
  type SystemStore,
} from '@relay/core';
import { finish, text } from '@relay/core/testing';
import { type AgentSessionCapabilities, textOf } from '@relay/protocol';
import { afterAll, describe, expect, test } from 'vitest';
import { createFaultyStore } from '../../packages/store/test/faulty-store.ts';
import { deliver, openSession, sessionEvents, storeOf, untilIdle } from '../loop/sessions.ts';
import { allStores } from '../loop/stores.ts';
import { dropDatabases } from '../support/postgres-stores.ts';
import { bootKernel, type Kernel, person, until } from '../support/kernel.ts';

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

async function attachParent({ tenantId, control }: Kernel) {
  const identity = { handle: 'ada', name: 'Ada', kind: 'program' } as const;
  const capabilities: AgentSessionCapabilities = {
    messaging: { receive: true },
    delivery: { modes: ['on-idle'] },
    events: { emits: ['status.changed'] },
    lifecycle: { release: false, fork: true },
  };
  const how = { capabilities, tokenHash: 'token', mayTakeOver: false, takeover: false };
  return attachSession(control.engine, { tenantId, by: person, ...identity, ...how });
}

/** A program carries a command out once, and answers until the answer is acknowledged. */
async function answerOpen(kernel: Kernel, sessionId: string, carriedOut: Set<string>) {
  const { engine } = kernel.control;
  const ref = { tenantId: kernel.tenantId, sessionId };
  const open = await storeOf(kernel).sessions.openCommands(sessionId, 9);
  for (const { id } of open) {
    carriedOut.add(id);
    await answerCommand(engine, ref, id, { ok: true });
  }
  return open.length > 0;
}

async function forkOfProgram(kernel: Kernel, parentId: string, carriedOut: Set<string>) {
  const { sessions } = storeOf(kernel);
  // What it was asked before a crash.
  await answerOpen(kernel, parentId, carriedOut);
  const parent = await sessions.read(parentId);
  if (parent === undefined) throw new Error('There is no session');
  if ((await sessions.readByHandle('bob')) === undefined) {
    const { engine } = kernel.control;
    const forked = forkProgram(engine, parent, { by: person, handle: 'bob' });
    await until(() => answerOpen(kernel, parentId, carriedOut), 'the command');
    await forked;
  }
  const child = await sessions.readByHandle('bob');
  const types = (await sessionEvents(kernel, parentId)).map(({ type }) => type);
  return {
    child: child && [child.status, child.owner, child.parentSessionId === parentId],
    forks: types.filter((type) => type === 'session.forked').length,
    carriedOut: carriedOut.size,
  };
}

describe.each(allStores)('a crash at any write of a fork by a program on $name', (kind) => {
  test('leaves one fork for what the program has carried out', async () => {
    const inStore = async (crash: { crashAt?: number; when?: 'before' | 'after' } = {}) => {
      const { store, dispose } = await kind.open();
      const carriedOut = new Set<string>();
      const first = await bootKernel({ store, model, sessions: true });
      const { id } = await attachParent(first);
      await first.stop();
      const faulty = createFaultyStore(store, crash);
      const life = async () => {
        const kernel = await bootKernel({ store: faulty, model, sessions: true });
        const left = await forkOfProgram(kernel, id, carriedOut);
        await kernel.stop();
        return left;
      };
      let left = await Promise.race([life(), faulty.crashed]);
      const crashed = left === undefined;
      if (left === undefined) {
        const kernel = await bootKernel({ store, model, sessions: true, restarted: true });
        left = await forkOfProgram(kernel, id, carriedOut);
        await kernel.stop();
      }
      await dispose();
      return { left, crashed };
    };
    const expected = {
      child: ['starting', expect.any(String), true],
      forks: 1,
      carriedOut: 1,
    };
    expect((await inStore()).left).toEqual(expected);
    let points = 0;
    for (const when of ['before', 'after'] as const) {
      for (let crashAt = 1; ; crashAt += 1) {
        const { left, crashed } = await inStore({ crashAt, when });
        if (!crashed) break;
        points += 1;
        expect(left, `${when} write ${crashAt}`).toEqual(expected);
      }
    }
    console.info(`${kind.name}, a fork by a program: ${points} crash points, 0 differences`);
    expect(points).toBeGreaterThanOrEqual(2 * 2);
  }, 120_000);
});
