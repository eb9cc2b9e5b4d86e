/** Following a session's journal, and waiting for one of its events. */
import type { AgentSessionCapabilities, Session } from '@relay/sdk';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { verifies } from '../conformance/verifies.ts';
import { cutAfter, type InProcessServer, startInProcess } from './environment.ts';

const capabilities: AgentSessionCapabilities = {
  messaging: { receive: true },
  delivery: { modes: ['manual'], queue: true },
  events: { emits: ['status.idle', 'log'] },
  lifecycle: { release: true },
};

let server: InProcessServer;
beforeAll(async () => {
  server = await startInProcess();
});
afterAll(() => server.dispose());

let sessions = 0;
async function attached(more: Partial<AgentSessionCapabilities> = {}): Promise<Session> {
  const handle = `events-${(sessions += 1)}`;
  const identity = { name: handle, kind: 'program' as const };
  const declared = { ...capabilities, ...more };
  const body = { handle, identity, capabilities: declared };
  return (await server.client.sessions.attach(body)).session;
}

function sendTo({ identity }: Session, text = 'Hi') {
  return server.client.messages.send({ to: `@${identity.handle}`, text });
}

describe('waiting for an event of a session', () => {
  test('returns the next event that fits, and continues after it', async () => {
    const session = await attached();
    const events = server.client.sessions.stream(session);
    // Before the wait begins: the handle is where the session was read.
    const [first, second] = [await sendTo(session), await sendTo(session)];
    const accepted = await events.waitFor({ type: 'delivery.accepted' });
    expect(accepted).toMatchObject({ messageId: first.id, seq: events.lastSeq });
    expect((await events.waitFor({ type: 'delivery.accepted' })).messageId).toBe(second.id);
    const third = events.waitFor({ type: 'delivery.failed', reason: 'withdrawn' });
    await server.client.messages.withdraw(second.id);
    expect((await third).messageId).toBe(second.id);
  });

  test('is refused with the path of the capability if the session declares no such event', async () => {
    verifies('004:negotiation:event-predicates');
    const session = await attached();
    const events = server.client.sessions.stream(session);
    const before = server.lines.length;
    const offered = ['status.idle', 'log'];
    await expect(events.waitFor({ type: 'tool.called', tool: 'bash' })).rejects.toMatchObject({
      code: 'capability_missing',
      capability: { path: 'events.emits', asked: 'tool.called', offered },
    });
    await expect(
      events.waitFor({ type: 'status.changed', status: 'active' }),
    ).rejects.toMatchObject({ capability: { path: 'events.emits', asked: 'status.active' } });
    await expect(
      events.waitFor(() => true, { types: ['tool.called', 'file.changed'] }),
    ).rejects.toMatchObject({ capability: { asked: 'tool.called or file.changed', offered } });
    const waited = server.lines.slice(before).filter((line) => line.endsWith('/stream'));
    expect(waited).toEqual([]);
  });

  test('is possible for what Relay itself writes, and for one of several types', async () => {
    verifies('004:status:starting');
    const session = await attached({ events: { emits: [] } });
    const { id } = await sendTo(session);
    const events = () => server.client.sessions.stream(session);
    await events().waitFor({ type: 'delivery.accepted', messageId: id });
    const either = { types: ['tool.called', 'delivery.accepted'] as const };
    expect(await events().waitFor((event) => event.seq > 0, either)).toMatchObject({
      messageId: id,
    });
    const whole = server.client.sessions.stream(session.id);
    expect(await whole.waitFor({ type: 'status.changed', status: 'starting' })).toMatchObject({
      seq: 1,
    });
  });

  test('calls a predicate only with the types that it names, and requires them', async () => {
    const session = await attached();
    await sendTo(session);
    const types: string[] = [];
    const whole = server.client.sessions.stream(session.id);
    const predicate = ({ type }: { type: string }) => types.push(type) === 2;
    await whole.waitFor(predicate, { types: ['status.idle', 'delivery.accepted'] });
    expect(types).toEqual(['status.changed', 'delivery.accepted']);
    const options = { types: [] };
    await expect(whole.waitFor(() => true, options)).rejects.toThrow('requires `types`');
  });

  test('ends after timeoutMs, with its signal, and when the session is released', async () => {
    const session = await attached();
    const events = server.client.sessions.stream(session);
    const condition = { type: 'log', level: 'error' } as const;
    await expect(events.waitFor(condition, { timeoutMs: 20 })).rejects.toMatchObject({
      code: 'request_timeout',
      message: `The session ${session.id} had no log that fits within 20 ms`,
    });
    const stopped = new AbortController();
    const waiting = events.waitFor(condition, { signal: stopped.signal });
    stopped.abort(new Error('enough'));
    await expect(waiting).rejects.toThrow('enough');
    const person = await server.client.sessions.create({ harness: 'human', handle: 'leaving' });
    const never = server.client.sessions.stream(person).waitFor({ type: 'delivery.failed' });
    await server.client.sessions.release(person.id);
    await expect(never).rejects.toMatchObject({ code: 'session_conflict' });
  });
});

describe('the transcript of a native session', () => {
  test('has chunks whose sequence is their order', async () => {
    verifies('004:chunk:sequence');
    const { sessions } = server.client;
    const session = await sessions.create({ harness: 'native', handle: 'teller', model: 'demo' });
    const events = sessions.stream(session);
    const chunks: { sequence: number; content: string }[] = [];
    for (const text of ['say 1', 'say 2', 'say 3']) {
      await sendTo(session, text);
      chunks.push((await events.waitFor({ type: 'transcript.chunk' })).chunk);
      await events.waitFor({ type: 'status.idle' });
    }
    expect(chunks.map(({ content }) => content)).toEqual(['1', '1 2', '1 2 3']);
    const sequences = chunks.map(({ sequence }) => sequence);
    expect(sequences).toEqual([...new Set(sequences)].toSorted((a, b) => a - b));
  });
});

describe('the events of a session over a broken connection', () => {
  test('come without gaps or repetitions, wherever it breaks', async () => {
    const session = await attached();
    for (let n = 0; n < 12; n += 1) await sendTo(session, `message ${n}`);
    let cuts = 0;
    const client = server.clientWith(server.apiKey, {
      after: (response) => cutAfter(response, 150 + 211 * (cuts += 1)),
    });
    const seqs: number[] = [];
    for await (const { seq } of client.sessions.stream(session.id)) {
      seqs.push(seq);
      if (seqs.length === session.lastSeq + 12) break;
    }
    expect(seqs).toEqual(seqs.map((_, index) => index + 1));
    expect(cuts).toBeGreaterThan(2);
    const last = seqs.length;
    const fits = ({ seq }: { seq: number }) => seq === last;
    await client.sessions.stream(session).waitFor(fits, { types: ['delivery.accepted'] });
  });
});
