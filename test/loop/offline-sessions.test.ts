/** What sessions whose programs are gone cost, and when what was sent to them fails. */
import {
  attachSession,
  attendSession,
  defaultSettings,
  type Engine,
  sendMessage,
  SessionAttendant,
  type SessionRecord,
} from '@relay/core';
import { ManualClock } from '@relay/core/testing';
import type { AgentSessionCapabilities } from '@relay/protocol';
import { uuidv7 } from 'uuidv7';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openMemoryDriver } from '../../packages/store/src/drivers/sqlite/memory-driver.ts';
import { migrate } from '../../packages/store/src/sql/schema/migrations.ts';
import { createSqlStore } from '../../packages/store/src/store.ts';
import { person } from '../support/kernel.ts';

const ttlMs = 40_000;
const tenantId = 'default';
const capabilities: AgentSessionCapabilities = {
  messaging: { receive: true },
  delivery: { modes: ['on-idle', 'manual'], queue: true },
  events: { emits: ['status.changed'] },
  lifecycle: { release: true },
};

describe('offline sessions', () => {
  let clock: ManualClock;
  let writes: number;
  let engine: Engine;
  let attendant: SessionAttendant;
  let beforeMessage: () => Promise<void>;

  beforeEach(async () => {
    clock = new ManualClock();
    const driver = openMemoryDriver();
    await migrate(driver);
    const store = createSqlStore({
      ...driver,
      async transact(unit, of) {
        writes += 1;
        if (unit.some(({ sql }) => sql.startsWith('INSERT INTO messages'))) await beforeMessage();
        return driver.transact(unit, of);
      },
    });
    await store.ensureTenant({ id: tenantId, name: tenantId, at: clock.now() });
    const log = { warn: (text: string) => expect.fail(text), error: () => undefined };
    engine = {
      store,
      clock,
      log,
      ids: { next: uuidv7 },
      digest: (text: string) => text,
      settings: { ...defaultSettings, node: 'n', deliveryTtlMs: ttlMs },
    } as unknown as Engine;
    attendant = new SessionAttendant({
      engine,
      attend: ({ id: sessionId }) => attendSession(engine, { tenantId, sessionId }),
    });
    attendant.start();
    writes = 0;
    beforeMessage = async () => undefined;
  });

  afterEach(async () => {
    await attendant.stop();
    await engine.store.close();
  });

  function attach(handle: string): Promise<SessionRecord> {
    const attachment = { tenantId, by: person, handle, name: handle, kind: 'program' } as const;
    const request = { ...attachment, capabilities, tokenHash: handle };
    return attachSession(engine, { ...request, mayTakeOver: false, takeover: false });
  }

  const read = async ({ id }: SessionRecord) =>
    (await engine.store.tenant(tenantId).sessions.read(id)) ?? expect.fail('It is gone');

  async function send(handle: string, mode?: 'manual') {
    const from = { type: 'key', id: person.id, name: person.name } as const;
    const author = { tenantId, from, by: person };
    const sent = await sendMessage({ engine }, author, { to: [`@${handle}`], text: 'Hi', mode });
    return sent.deliveries[0]?.id ?? '';
  }

  const statusOf = async (deliveryId: string) => {
    const delivery = await engine.store.tenant(tenantId).messages.readDelivery(deliveryId);
    return [delivery?.status, delivery?.reason];
  };

  it('are not written while nothing is sent to them', async () => {
    const sessions = await Promise.all(Array.from({ length: 50 }, (_, n) => attach(`h${n}`)));
    await clock.advance(ttlMs);
    for (const each of sessions) {
      expect(await read(each)).toMatchObject({ status: 'offline', dueAt: null });
    }
    writes = 0;
    await clock.advance(5 * ttlMs);
    expect(writes).toBe(0);
  });

  it.each(['manual', undefined] as const)(
    'fail what is sent to them after its time, in the mode %s',
    async (mode) => {
      const session = await attach('ada');
      await clock.advance(5 * ttlMs);
      const first = await send('ada', mode);
      await clock.advance(ttlMs / 2);
      const second = await send('ada', mode);
      await clock.advance(ttlMs / 2 - 2_000);
      expect((await statusOf(first))[0]).not.toBe('failed');
      await clock.advance(4_000);
      expect(await statusOf(first)).toEqual(['failed', 'expired']);
      expect((await statusOf(second))[0]).not.toBe('failed');
      await clock.advance(ttlMs / 2);
      expect(await statusOf(second)).toEqual(['failed', 'expired']);
      expect((await read(session)).dueAt).toBeNull();
      writes = 0;
      await clock.advance(5 * ttlMs);
      expect(writes).toBe(0);
    },
  );

  it('fail what was decided while they could be reached and is stored when they are offline', async () => {
    const session = await attach('ada');
    beforeMessage = async () => {
      await clock.advance(31_000);
      expect((await read(session)).status).toBe('offline');
    };
    const deliveryId = await send('ada');
    expect((await statusOf(deliveryId))[0]).toBe('accepted');
    await clock.advance(ttlMs + 2_000);
    expect(await statusOf(deliveryId)).toEqual(['failed', 'expired']);
  });
});
