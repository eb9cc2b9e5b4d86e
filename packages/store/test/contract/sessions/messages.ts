import type { MessageFilter, TenantStore } from '@relay/core';
import { uuidv7 } from 'uuidv7';
import { expect, test } from 'vitest';
import { allListed, hostileText, newAudit, noon, useStore, type Open } from '../fixtures.ts';
import { addSession, changeOf, lastSeqOf, send, sending, whole } from './fixtures.ts';

const day = 24 * 60 * 60_000;

function idsOf(tenant: TenantStore, filter: MessageFilter, limit = 2): Promise<string[]> {
  return allListed(limit, (page) => tenant.messages.list(filter, page));
}

export function messageTests(open: Open): void {
  const { tenant: newTenant } = useStore(open);

  test('of many sends with one key of a sender one is stored, and the others learn which', async () => {
    const tenant = newTenant();
    const sessionId = await addSession(tenant);
    const keyed = (sender: string, fingerprint: string, at = noon) => ({
      ...sending([sessionId], { at }),
      idempotency: { sender, key: 'key-1', fingerprint, expiresAt: at + day },
    });
    const writes = Array.from({ length: 20 }, (_, n) => keyed('key:ada', `body-${n}`));
    const outcomes = await Promise.all(writes.map((write) => tenant.sessions.change(write)));
    const winner = outcomes.findIndex(({ kind }) => kind === 'committed');
    const messageId = writes[winner]?.messages[0].id;
    const exists = { kind: 'exists', holderId: messageId, fingerprint: `body-${winner}` };
    for (const [n, outcome] of outcomes.entries()) {
      if (n !== winner) expect(outcome).toEqual(exists);
    }
    expect(await tenant.messages.inbox(sessionId, whole)).toMatchObject([{ messageId }]);
    expect(await lastSeqOf(tenant, sessionId)).toBe(2);

    const { findKey } = tenant.messages;
    const key = { sender: 'key:ada', key: 'key-1' };
    const find = (now: number) => findKey.call(tenant.messages, key, now);
    expect(await find(noon + day - 1)).toEqual({
      holderId: messageId,
      fingerprint: `body-${winner}`,
    });
    expect(await find(noon + day)).toBeUndefined();
    expect(await tenant.findIdempotencyKey('key-1', noon)).toBeUndefined();

    const kindOf = async (write: ReturnType<typeof keyed>) =>
      (await tenant.sessions.change(write)).kind;
    expect(await kindOf(keyed('key:bob', 'body'))).toBe('committed');
    expect(await kindOf(keyed('key:ada', 'body', noon + day - 1))).toBe('exists');
    expect(await kindOf(keyed('key:ada', 'body', noon + day))).toBe('committed');
  });

  test('what a session was given is read without the contents, however large they are', async () => {
    const tenant = newTenant();
    const sessionId = await addSession(tenant);
    const write = sending([sessionId], { text: 'x'.repeat(1_000) });
    await tenant.sessions.change(write);
    expect(await tenant.messages.received(sessionId, 9)).toEqual([]);
    const [{ id: deliveryId } = { id: '' }] = await tenant.messages.inbox(sessionId, whole);
    const given = { id: deliveryId, from: ['accepted'], to: 'consumed' } as const;
    await tenant.sessions.change({ changes: [changeOf(sessionId, { deliveries: [given] })] });
    const { id, from, to, threadId, hops, at } = write.messages[0];
    const envelope = { id, from, to, threadId, hops, at };
    expect(await tenant.messages.received(sessionId, 9)).toEqual([envelope]);
  });

  test('a send that is refused does not take its key', async () => {
    const tenant = newTenant();
    const sessionId = await addSession(tenant);
    const idempotency = { sender: 's', key: 'k', fingerprint: 'f', expiresAt: noon + day };
    const refused = { ...sending([uuidv7()]), idempotency };
    expect(await tenant.sessions.change(refused)).toMatchObject({ kind: 'gone' });
    const accepted = { ...sending([sessionId]), idempotency };
    expect(await tenant.sessions.change(accepted)).toMatchObject({ kind: 'committed' });
  });

  test.each(Object.entries(hostileText))(
    'a message with %s is read as it was sent',
    async (_, text) => {
      const tenant = newTenant();
      const sessionId = await addSession(tenant);
      const from = { type: 'key', id: 'key-1', name: text } as const;
      const attachments = [{ type: 'text', text }] as const;
      const { id } = await send(tenant, [sessionId], { text, from, attachments });
      const sent = { text, from, attachments };
      expect(await tenant.messages.read(id)).toMatchObject(sent);
      expect(await tenant.messages.inbox(sessionId, whole)).toMatchObject([{ message: sent }]);
      expect((await tenant.messages.list({}, { limit: 9 })).items).toMatchObject([sent]);
    },
  );

  test('messages are listed by channel, participant, thread and time, newest first', async () => {
    const tenant = newTenant();
    const [ada, bob, eve] = [
      await addSession(tenant),
      await addSession(tenant),
      await addSession(tenant),
    ];
    const from = (id: string) => ({ type: 'session', id, name: 'x' }) as const;
    const general = { channels: ['general'], direct: [] };
    const m = [
      await send(tenant, [bob, eve], { ...general, from: from(ada), at: noon }),
      await send(tenant, [bob], { from: from(ada), at: noon + 1 }),
      await send(tenant, [ada], { from: from(bob), at: noon + 1 }),
      await send(tenant, [eve], { from: from(bob), at: noon + 2 }),
    ].map(({ id }) => id);
    const [first = ''] = m;
    const reply = { ...general, from: from(bob), replyTo: first, threadId: first, at: noon + 3 };
    m.push((await send(tenant, [ada, eve], reply)).id);
    const both = { channels: ['general', 'ops'], direct: [ada], from: from(eve), at: noon + 4 };
    m.push((await send(tenant, [ada], both)).id);
    // Of the same time, by the id.
    const newest = (...numbers: number[]) => numbers.map((n) => m[n]);

    expect(await idsOf(tenant, {})).toEqual(newest(5, 4, 3, 2, 1, 0));
    expect(await idsOf(tenant, { channel: 'general' })).toEqual(newest(5, 4, 0));
    expect(await idsOf(tenant, { channel: 'ops' })).toEqual(newest(5));
    expect(await idsOf(tenant, { channel: 'none' })).toEqual([]);
    expect(await idsOf(tenant, { with: ada })).toEqual(newest(5, 2, 1));
    expect(await idsOf(tenant, { with: eve })).toEqual(newest(5, 3));
    expect(await idsOf(tenant, { with: eve, channel: 'general' })).toEqual(newest(5));
    expect(await idsOf(tenant, { thread: first })).toEqual(newest(4, 0));
    expect(await idsOf(tenant, { thread: first, channel: 'ops' })).toEqual([]);
    expect(await idsOf(tenant, { since: noon + 2 })).toEqual(newest(5, 4, 3));
    expect(await idsOf(tenant, { with: ada, since: noon + 2 })).toEqual(newest(5));
    const visibleTo = { sessionId: ada, channels: [] as string[] };
    expect(await idsOf(tenant, { visibleTo })).toEqual(newest(5, 4, 2, 1, 0));
    const ofEve = { sessionId: eve, channels: ['general', 'ops'] };
    expect(await idsOf(tenant, { visibleTo: ofEve })).toEqual(newest(5, 4, 3, 0));
    expect(await idsOf(tenant, { visibleTo: ofEve, with: bob })).toEqual(newest(3));
    expect(await idsOf(tenant, { visibleTo, thread: first }, 1)).toEqual(newest(4, 0));
    // By its id a message is read by the same rule.
    for (const reader of [visibleTo, ofEve]) {
      const readable = await Promise.all(m.map((id) => tenant.messages.read(id, reader)));
      const ids = readable.flatMap((message) => message?.id ?? []);
      expect(ids.toReversed()).toEqual(await idsOf(tenant, { visibleTo: reader }));
    }
    expect(await newTenant().messages.read(first, visibleTo)).toBeUndefined();
    expect(await tenant.messages.channelsOf(m[5] ?? '')).toEqual(['general', 'ops']);
    expect(await tenant.messages.channelsOf(m[1] ?? '')).toEqual([]);
    expect((await tenant.messages.participants(first)).toSorted()).toEqual([ada, bob].toSorted());
    expect(await tenant.messages.participants(m[5] ?? '')).toEqual([ada, eve].toSorted());
  });

  test('all who sent or received directly are the participants of a thread, each once', async () => {
    const tenant = newTenant();
    const [ada, bob, eve, member] = [
      await addSession(tenant),
      await addSession(tenant),
      await addSession(tenant),
      await addSession(tenant),
    ];
    const key = 'ada@example.com';
    const general = { channels: ['general'], direct: [] };
    const first = { ...general, from: { type: 'key', id: key, name: 'Ada' } } as const;
    const { id: threadId } = await send(tenant, [member], first);
    expect(await tenant.messages.participants(threadId)).toEqual([key]);
    const others = await send(tenant, [member], first);
    for (const [from, to] of [
      [ada, [bob]],
      [bob, [ada, eve]],
      [ada, [bob]],
    ] as const) {
      const sender = { type: 'session', id: from, name: 'x' } as const;
      await send(tenant, [...to], { from: sender, direct: [...to], threadId, replyTo: threadId });
    }
    const participants = [key, ada, bob, eve].toSorted();
    expect(await tenant.messages.participants(threadId)).toEqual(participants);
    expect(await tenant.messages.participants(others.id)).toEqual([key]);
    expect(await newTenant().messages.participants(threadId)).toEqual([]);
  });

  test('what a session was given is read from the last one on', async () => {
    const tenant = newTenant();
    const [ada, bob] = [await addSession(tenant), await addSession(tenant)];
    const given: string[] = [];
    for (const [n, status] of (['delivered', 'consumed', 'delivered'] as const).entries()) {
      given.unshift((await send(tenant, [ada], { at: noon + n }, { status })).id);
    }
    for (const status of ['accepted', 'failed'] as const) {
      await send(tenant, [ada], { at: noon + 9 }, { status });
    }
    await send(tenant, [bob], {}, { status: 'consumed' });
    const ids = async (limit: number) =>
      (await tenant.messages.received(ada, limit)).map(({ id }) => id);
    expect(await ids(9)).toEqual(given);
    expect(await ids(2)).toEqual(given.slice(0, 2));
    expect(await newTenant().messages.received(ada, 9)).toEqual([]);
  });

  test('messages are found by all of their words, newest first, within the other filters', async () => {
    const tenant = newTenant();
    const [ada, bob] = [await addSession(tenant), await addSession(tenant)];
    const texts = [
      'The deployment failed',
      'Deployments are GREEN',
      'deployment of café',
      'nothing',
    ];
    const m: string[] = [];
    for (const [n, text] of texts.entries()) {
      const channels = n < 2 ? ['ops'] : [];
      m.push((await send(tenant, [n % 2 === 0 ? ada : bob], { text, channels, at: noon + n })).id);
    }
    const newest = (...numbers: number[]) => numbers.map((n) => m[n]);
    const stranger = newTenant();
    await send(stranger, [await addSession(stranger)], { text: 'deployment' });

    expect(await idsOf(tenant, { query: 'deployment' }, 1)).toEqual(newest(2, 1, 0));
    expect(await idsOf(tenant, { query: 'cafe deployments' })).toEqual(newest(2));
    expect(await idsOf(tenant, { query: 'failed green' })).toEqual([]);
    expect(await idsOf(tenant, { query: 'deployment', channel: 'ops' })).toEqual(newest(1, 0));
    expect(await idsOf(tenant, { query: 'deployment', with: ada })).toEqual(newest(2, 0));
    expect(await idsOf(tenant, { query: 'deployment', since: noon + 1 })).toEqual(newest(2, 1));
    expect(await idsOf(tenant, { query: 'deployment', thread: m[1] ?? '' })).toEqual(newest(1));
    const visibleTo = { sessionId: ada, channels: [] };
    expect(await idsOf(tenant, { query: 'deployment', visibleTo })).toEqual(newest(2, 0));
    for (const query of ['', '?!', `' OR 1=1 --`, '"deployment" AND NOT', 'no*such']) {
      expect(await idsOf(tenant, { query })).toEqual([]);
    }
  });

  test('a long message is found by words of its beginning, and is stored whole', async () => {
    const tenant = newTenant();
    const sessionId = await addSession(tenant);
    const words = Array.from({ length: 400_000 }, (_, n) => n.toString(36)).join(' ');
    const han = Array.from({ length: 60_000 }, (_, n) =>
      String.fromCharCode(0x4e00 + (n % 20_000)),
    );
    for (const text of [`needle ${words}`, `needle ${han.join('')}`]) {
      const { id } = await send(tenant, [sessionId], { text });
      expect((await tenant.messages.read(id))?.text).toBe(text);
    }
    expect(await idsOf(tenant, { query: 'needle' })).toHaveLength(2);
  });

  test('an undelivered message is edited, with its deliveries and the index', async () => {
    const tenant = newTenant();
    const [one, two] = [await addSession(tenant), await addSession(tenant)];
    const { id } = await send(tenant, [one, two], { text: 'old words' });
    const edit = { messageId: id, at: noon + 1, text: 'new text', mode: 'immediate' } as const;
    expect(await tenant.messages.edit({ ...edit, audit: [newAudit()] })).toBe('edited');
    const edited = { text: 'new text', mode: 'immediate', editedAt: noon + 1 };
    expect(await tenant.messages.read(id)).toMatchObject(edited);
    for (const sessionId of [one, two]) {
      expect(await tenant.messages.inbox(sessionId, whole)).toMatchObject([
        { mode: 'immediate', revision: 1, message: edited },
      ]);
      expect(await tenant.sessions.read(sessionId)).toMatchObject({ queue: { bytes: 8 + 2 } });
    }
    expect(await idsOf(tenant, { query: 'old' })).toEqual([]);
    expect(await idsOf(tenant, { query: 'text' })).toEqual([id]);
    expect(await tenant.audit.unsealed(9)).toHaveLength(1);
    const limit = { messages: 9, bytes: 20 };
    const long = { ...edit, text: 'x'.repeat(30) };
    expect(await tenant.messages.edit(long, limit)).toBe('inbox-full');
    expect(await tenant.messages.read(id)).toMatchObject(edited);
    expect(await tenant.messages.edit({ ...edit, messageId: uuidv7() })).toBe('missing');
    expect(await newTenant().messages.edit(edit)).toBe('missing');
  });

  test('an edit that depends on a recipient is refused if the recipient has changed since', async () => {
    const tenant = newTenant();
    const [one, two] = [await addSession(tenant), await addSession(tenant)];
    const { id } = await send(tenant, [one, two], { text: 'old' });
    const versionOf = async (sessionId: string) =>
      (await tenant.sessions.read(sessionId))?.version ?? 0;
    const edit = { messageId: id, at: noon, text: 'new', audit: [newAudit()] };
    const ifVersions = new Map([[one, await versionOf(one)]]);
    await tenant.sessions.change({ changes: [changeOf(one)] });
    expect(await tenant.messages.edit({ ...edit, ifVersions })).toBe('conflict');
    expect(await tenant.messages.read(id)).toMatchObject({ text: 'old', editedAt: null });
    expect(await tenant.audit.unsealed(9)).toEqual([]);
    await tenant.sessions.change({ changes: [changeOf(two)] });
    const current = new Map([[one, await versionOf(one)]]);
    expect(await tenant.messages.edit({ ...edit, ifVersions: current })).toBe('edited');
  });

  test('what was read before an edit is not handed over, and what was handed over is not edited', async () => {
    const tenant = newTenant();
    const [one, two] = [await addSession(tenant), await addSession(tenant)];
    const { id, deliveries } = await send(tenant, [one, two]);
    const [delivery] = deliveries.filter(({ sessionId }) => sessionId === one);
    const handOver = (revision: number) =>
      tenant.sessions.change({
        changes: [
          changeOf(one, {
            deliveries: [{ id: delivery?.id ?? '', from: ['accepted'], to: 'delivered', revision }],
          }),
        ],
      });
    expect(await tenant.messages.edit({ messageId: id, at: noon, text: 'new' })).toBe('edited');
    expect(await handOver(0)).toMatchObject({ kind: 'conflict' });
    expect(await handOver(1)).toMatchObject({ kind: 'committed' });
    expect(await tenant.messages.edit({ messageId: id, at: noon, text: 'newer' })).toBe(
      'delivered',
    );
    expect(await tenant.messages.inbox(two, whole)).toMatchObject([
      { revision: 1, message: { text: 'new' } },
    ]);
  });

  test('of an edit and a delivery at once, the delivered text is the edited one or the edit fails', async () => {
    const tenant = newTenant();
    const sessionId = await addSession(tenant);
    for (let n = 0; n < 10; n += 1) {
      const { id, deliveries } = await send(tenant, [sessionId], { text: 'old' });
      const deliveryId = deliveries[0]?.id ?? '';
      const change = changeOf(sessionId, {
        deliveries: [{ id: deliveryId, from: ['accepted'], to: 'delivered', revision: 0 }],
      });
      const [edited, delivered] = await Promise.all([
        tenant.messages.edit({ messageId: id, at: noon, text: 'new' }),
        tenant.sessions.change({ changes: [change] }),
      ]);
      expect([edited, delivered.kind]).toEqual(
        edited === 'edited' ? ['edited', 'conflict'] : ['delivered', 'committed'],
      );
    }
  });

  test('a message is withdrawn with its deliveries, once', async () => {
    const tenant = newTenant();
    const sessionId = await addSession(tenant);
    const { id, deliveries } = await send(tenant, [sessionId]);
    const failure = { from: ['accepted'], to: 'failed', reason: 'withdrawn' } as const;
    const write = {
      changes: [changeOf(sessionId, { deliveries: [{ id: deliveries[0]?.id ?? '', ...failure }] })],
    };
    expect(await tenant.messages.withdraw(id, noon + 1, write)).toMatchObject({
      kind: 'committed',
    });
    expect(await tenant.messages.read(id)).toMatchObject({ withdrawnAt: noon + 1 });
    expect(await tenant.messages.deliveriesOf(id)).toMatchObject([{ status: 'failed' }]);
    const again = { changes: [changeOf(sessionId)] };
    expect(await tenant.messages.withdraw(id, noon + 2, again)).toMatchObject({ kind: 'conflict' });
    expect(await lastSeqOf(tenant, sessionId)).toBe(3);
    expect(await tenant.messages.edit({ messageId: id, at: noon, text: 'x' })).toBe('missing');
  });
}
