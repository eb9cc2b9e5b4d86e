/** What messages to sessions cost: commits, which wait for the disk, and reads. */
import type { SystemStore } from '@relay/core';
import { finish, text } from '@relay/core/testing';
import { createModelRegistry } from '@relay/models';
import { uuidv7 } from 'uuidv7';
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { createStreamingModel } from '../../../../../test/loop/fixture.ts';
import {
  buildImage,
  openMemoryDriver,
} from '../../../../store/src/drivers/sqlite/memory-driver.ts';
import { schemaStatements } from '../../../../store/src/sql/schema/migrations.ts';
import { createSqlStore } from '../../../../store/src/store.ts';
import type { SeenFrame } from '../../support/frames.ts';
import { bootServer, type TestServer, until } from '../../support/server.ts';
import {
  attached,
  openStream,
  postReceipt,
  sendMessage,
  type ShownMessage,
} from '../../support/sessions.ts';

/** Of one session or message; not the scans for what is due. */
const reading =
  /^SELECT .*FROM (sessions|message_deliveries|messages|session_commands|invocations)\b(?!.*due_at)/s;

const roundMs = 10_000;

describe('the cost of messages', () => {
  const driver = openMemoryDriver(buildImage(schemaStatements('sqlite')));
  /** Of another node: this one gets no notifications of what it stores. */
  let other: SystemStore;
  let server: TestServer;
  let reads: string[] = [];
  /** Of sessions, by the number of their statements. */
  let commits: number[] = [];

  beforeAll(async () => {
    // Those of the hubs.
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
    other = createSqlStore(driver);
    const store = createSqlStore({
      ...driver,
      read(sql, params) {
        if (reading.test(sql)) reads.push(sql);
        return driver.read(sql, params);
      },
      transact(unit, of) {
        if (unit.some(({ sql }) => sql.startsWith('UPDATE sessions'))) commits.push(unit.length);
        return driver.transact(unit, of);
      },
    });
    const model = createStreamingModel(() => [[text('Done.'), finish()]]);
    const models = createModelRegistry([{ id: 'scripted', provider: 'test', model }]);
    server = await bootServer({ store, models });
  });
  afterAll(async () => {
    await server.stop();
    vi.useRealTimers();
    await driver.close();
  });
  beforeEach(() => {
    [reads, commits] = [[], []];
  });

  /** With what follows a response: when nothing is read and stored any more. */
  async function settledCosts() {
    let before = 0;
    let same = 0;
    await until(() => {
      const now = reads.length + commits.length;
      same = now === before ? same + 1 : 0;
      before = now;
      return same === 10;
    }, 'the end of all reads');
    return { reads: reads.length, commits };
  }

  async function attach() {
    const session = await attached(server);
    const frames = await openStream(server, session);
    const post = (frame: SeenFrame | undefined) =>
      postReceipt(server, session, String(frame?.data['deliveryId']), { status: 'consumed' });
    await settledCosts();
    [reads, commits] = [[], []];
    return { ...session, frames, post };
  }

  it('to a program is three commits: the message, the attempt to send it, the receipt', async () => {
    const { handle, frames, post } = await attach();
    await sendMessage(server, { to: `@${handle}`, text: 'Hello' });
    const frame = await frames.next();
    expect(await settledCosts()).toEqual({ reads: 9, commits: [8, 2] });
    expect((await post(frame)).status).toBe(200);
    expect(await settledCosts()).toEqual({ reads: 17, commits: [8, 2, 4] });
    await frames.disconnect();
  });

  it('does not grow with the messages before it', async () => {
    const { handle, frames, post } = await attach();
    const once = async () => {
      [reads, commits] = [[], []];
      await sendMessage(server, { to: `@${handle}`, text: 'Hello' });
      await post(await frames.next());
      return settledCosts();
    };
    const first = await once();
    for (let n = 0; n < 50; n += 1) await once();
    expect(await once()).toEqual(first);
    await frames.disconnect();
  });

  it('to a native session is three commits: the message, the turn, and all that follows', async () => {
    const handle = `h-${uuidv7()}`;
    const body = { harness: 'native', handle, model: 'scripted' };
    await server.request('/v1/sessions', { body });
    await settledCosts();
    [reads, commits] = [[], []];
    const { id } = await sendMessage(server, { to: `@${handle}`, text: 'Hello' });
    await until(async () => (await statusOf(id)) === 'consumed', 'the turn');
    expect(commits).toEqual([8, 8, 21]);
  });

  async function statusOf(messageId: string) {
    const message = (await server.json(`/v1/messages/${messageId}`)) as unknown as ShownMessage;
    return message.deliveries[0]?.status;
  }

  it('while nothing happens is no read of a session', async () => {
    const { handle, frames, post } = await attach();
    await sendMessage(server, { to: `@${handle}`, text: 'Hello' });
    await post(await frames.next());
    await settledCosts();
    [reads, commits] = [[], []];
    await vi.advanceTimersByTimeAsync(5 * roundMs);
    const { reads: count } = await settledCosts();
    // One comparison of all versions per round.
    expect(reads.every((sql) => sql.includes('last_seq, version'))).toBe(true);
    expect(count).toBe(5);
    await frames.disconnect();
  });

  describe('a change without a notification is found within a round', () => {
    it('if it is a command, which is no event', async () => {
      const { id: sessionId, frames } = await attach();
      const at = Date.now();
      const { sessions } = other.tenant(server.tenantId);
      const command = { id: uuidv7(), sessionId, command: 'pause', args: {}, at } as const;
      await sessions.change({
        changes: [{ sessionId, at, events: [] }],
        commands: [{ ...command, answerBy: at + roundMs }],
      });
      await vi.advanceTimersByTimeAsync(roundMs);
      expect((await frames.next())?.data).toMatchObject({ type: 'command', command: 'pause' });
      await frames.disconnect();
    });

    it('if it is another mode of a message', async () => {
      const { handle, frames } = await attach();
      const { id } = await sendMessage(server, { to: `@${handle}`, text: 'Hello', mode: 'manual' });
      await settledCosts();
      const { messages } = other.tenant(server.tenantId);
      const edit = { messageId: id, at: Date.now(), mode: 'on-idle' } as const;
      expect(await messages.edit(edit)).toBe('edited');
      await vi.advanceTimersByTimeAsync(roundMs);
      expect((await frames.next())?.data).toMatchObject({ type: 'delivery', mode: 'on-idle' });
      await frames.disconnect();
    });
  });
});
