/**
 * The inbox of a program under random interleavings, on a real store, against the model of
 * docs/specs/delivery-machine.md: what the program was sent, what it answered, and what the sender changed.
 */
import { randomUUID } from 'node:crypto';
import {
  changeSession,
  closeStream,
  editMessage,
  flushSession,
  type InboxEntry,
  recordAttempts,
  recordReceipt,
  sendableKinds,
  sendMessage,
  withdrawMessage,
} from '@relay/core';
import { deliveryModes, RelayError } from '@relay/protocol';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { bootServer, type TestServer } from '../../support/server.ts';
import { attachAgain, attached, type AttachedSession } from '../../support/sessions.ts';
import { stores } from '../../support/stores.ts';

/** What the sender and the program would note down about one message. */
interface Noted {
  readonly messageId: string;
  readonly id: string;
  text: string;
  end: 'consumed' | 'failed' | undefined;
}

const steps = [
  ...(['send', 'send', 'send', 'edit', 'withdraw', 'look', 'look', 'look'] as const),
  ...(['delivered', 'consumed', 'consumed', 'deferred', 'failed'] as const),
  ...(['attach', 'detach', 'pause', 'resume', 'flush', 'work', 'settle'] as const),
];

describe.each(Object.entries(stores))('an inbox on %s', (_name, open) => {
  let server: TestServer;
  let stop: () => Promise<void>;
  beforeAll(async () => {
    const store = await open();
    server = await bootServer({ store });
    stop = async () => {
      await server.stop();
      await store.close();
    };
  });
  afterAll(() => stop());

  class Inbox {
    readonly noted: Noted[] = [];
    /** The text of each time that a delivery was sent. */
    readonly #sent = new Map<string, string[]>();
    streamId: string | undefined;
    readonly program: AttachedSession;

    constructor(program: AttachedSession) {
      this.program = program;
    }

    get ref() {
      return { tenantId: server.tenantId, sessionId: this.program.id };
    }

    get engine() {
      return server.relay.control.engine;
    }

    get store() {
      return server.store.tenant(server.tenantId);
    }

    readonly by = { type: 'key', id: 'k1', name: 'Ada' } as const;

    changer() {
      return { tenantId: server.tenantId, from: this.by, by: this.by, isAdmin: false };
    }

    async send(pick: number): Promise<void> {
      const text = `text ${this.noted.length}`;
      const mode = deliveryModes[[0, 3, 4][pick % 3] ?? 0];
      const draft = { to: [`@${this.program.handle}`], text, mode };
      const { message, deliveries } = await sendMessage(
        server.relay.control,
        this.changer(),
        draft,
      );
      const id = deliveries[0]?.id ?? '';
      this.noted.push({ messageId: message.id, id, text, end: undefined });
    }

    sent(id: string): readonly string[] {
      return this.#sent.get(id) ?? [];
    }

    /** What the stream of the program does when it is woken. */
    async look(): Promise<void> {
      if (this.streamId === undefined) {
        this.streamId = randomUUID();
        const stream = { id: this.streamId, node: 'n', at: this.engine.clock.now() };
        await this.store.sessions.openStream(this.program.id, stream);
      }
      const session = await this.store.sessions.read(this.program.id);
      if (session === undefined) throw new Error('No session');
      const query = { streamId: this.streamId, now: this.engine.clock.now() + 60_000 };
      const bounds = { limit: 50, maxBytes: 1_000_000, kinds: sendableKinds(session.state) };
      const entries = await this.store.messages.sendable(session.id, { ...query, ...bounds });
      const isWorking = session.status !== 'idle';
      if (session.status === 'paused') expect(entries).toEqual([]);
      expect(entries.map(({ position }) => position)).toEqual(
        entries.map(({ position }) => position).toSorted((a, b) => a - b),
      );
      for (const entry of entries) {
        const isNew = entry.attempts === 0;
        if (isWorking && isNew) expect(['immediate']).toContain(entry.mode);
        if (entry.mode === 'manual') expect(entry.status).not.toBe('accepted');
      }
      // Beside what is sent again, nothing starts another turn.
      const isAgain = ({ status, streamId }: InboxEntry) =>
        streamId !== null || status === 'delivered';
      if (entries.some(isAgain) || (await this.isHandling())) {
        const others = entries.filter((entry) => !isAgain(entry) && entry.mode !== 'immediate');
        expect(others).toEqual([]);
      }
      if (!(await recordAttempts(this.engine, session, this.streamId, entries))) return;
      for (const { id, message } of entries) {
        this.#sent.set(id, [...this.sent(id), message.text]);
      }
    }

    /** Whether it has not ended with what this stream has sent it again. */
    async isHandling(): Promise<boolean> {
      const all = await Promise.all(
        this.noted.map(({ id }) => this.store.messages.readDelivery(id)),
      );
      return all.some(
        (each) => each?.finalAt === null && each.streamId === this.streamId && each.attempts > 1,
      );
    }

    /** Changes a message that nothing has sent yet; false if it is refused. */
    async change(pick: number, kind: 'edit' | 'withdraw'): Promise<void> {
      const noted = this.noted[pick % Math.max(1, this.noted.length)];
      if (noted === undefined) return;
      const text = `${noted.text}+`;
      const { control } = server.relay;
      try {
        if (kind === 'edit') await editMessage(control, this.changer(), noted.messageId, { text });
        else await withdrawMessage(control, this.changer(), noted.messageId);
      } catch (error) {
        if (!(error instanceof RelayError)) throw error;
        expect(['message_delivered', 'receipt_conflict']).toContain(error.code);
        return;
      }
      if (kind === 'edit') noted.text = text;
      else noted.end ??= 'failed';
    }

    async receipt(
      pick: number,
      status: 'delivered' | 'consumed' | 'deferred' | 'failed',
    ): Promise<void> {
      const sent = this.noted.filter(({ id }) => this.sent(id).length > 0);
      const noted = sent[pick % Math.max(1, sent.length)];
      if (noted === undefined) return;
      try {
        await recordReceipt(this.engine, this.ref, noted.id, { status });
      } catch (error) {
        if (!(error instanceof RelayError)) throw error;
        expect(error.code).toBe('receipt_conflict');
        return;
      }
      if (status === 'consumed' || status === 'failed') noted.end ??= status;
    }

    async turn(type: 'work' | 'settle' | 'pause' | 'resume'): Promise<void> {
      await changeSession(this.engine, this.ref, () => ({ inputs: [{ type }] })).catch(
        (error: unknown) => {
          if (!(error instanceof RelayError) || error.code !== 'session_conflict') throw error;
        },
      );
    }

    async detach(): Promise<void> {
      if (this.streamId !== undefined) await closeStream(this.engine, this.ref, this.streamId);
      this.streamId = undefined;
    }

    async step(name: (typeof steps)[number], pick: number): Promise<void> {
      switch (name) {
        case 'send':
          return this.send(pick);
        case 'edit':
        case 'withdraw':
          return this.change(pick, name);
        case 'look':
          return this.look();
        case 'delivered':
        case 'consumed':
        case 'deferred':
        case 'failed':
          return this.receipt(pick, name);
        case 'attach':
          await attachAgain(server, this.program);
          this.streamId = undefined;
          return;
        case 'detach':
          return this.detach();
        case 'flush':
          await flushSession(this.engine, this.ref);
          return;
        case 'work':
        case 'settle':
        case 'pause':
        case 'resume':
          return this.turn(name);
      }
    }
  }

  const step = fc.tuple(fc.constantFrom(...steps), fc.nat(100));

  it('sends what was not withdrawn as it is, in order, until it ends, and ends all of it', async () => {
    const seen = new Set<string>();
    const moments = fc.array(fc.array(step, { minLength: 1, maxLength: 3 }), {
      maxLength: 25,
      size: 'max',
    });
    await fc.assert(
      fc.asyncProperty(moments, async (all) => {
        const inbox = new Inbox(await attached(server));
        for (const together of all) {
          // A stream looks one at a time.
          const looks = together.filter(([name]) => name === 'look').slice(0, 1);
          const others = together.filter(([name]) => name !== 'look');
          const isAlone = others.some(([name]) => name === 'attach' || name === 'detach');
          const once = isAlone ? others.slice(0, 1) : [...looks, ...others];
          await Promise.all(once.map(([name, pick]) => inbox.step(name, pick)));
        }
        const { messages } = inbox.store;
        for (const noted of inbox.noted) {
          const delivery = await messages.readDelivery(noted.id);
          const sent = inbox.sent(noted.id);
          expect(delivery?.attempts).toBe(sent.length);
          // What was sent cannot be changed: each time it was the same, and is what is stored.
          expect(new Set(sent).size).toBeLessThan(2);
          const message = await messages.read(noted.messageId);
          if (sent.length > 0) expect(message?.text).toBe(sent[0]);
          if (message?.withdrawnAt !== null) expect(sent).toEqual([]);
          if (noted.end !== undefined) expect(delivery?.status).toBe(noted.end);
          else expect(['accepted', 'deferred', 'delivered']).toContain(delivery?.status);
          seen.add(delivery?.status ?? '');
        }
        await changeSession(inbox.engine, inbox.ref, () => ({
          inputs: [{ type: 'release' }, { type: 'finish' }],
        }));
        const events = await inbox.store.sessions.readEvents(inbox.program.id, {
          after: 0,
          limit: 10_000,
        });
        const of = (type: string) => events.filter((event) => event.type === type).length;
        expect(of('delivery.accepted')).toBe(of('message.received') + of('delivery.failed'));
        for (const { id } of inbox.noted) {
          expect(['consumed', 'failed']).toContain((await messages.readDelivery(id))?.status);
        }
      }),
      { numRuns: 100 },
    );
    expect([...seen].toSorted()).toEqual([
      'accepted',
      'consumed',
      'deferred',
      'delivered',
      'failed',
    ]);
  }, 120_000);
});
