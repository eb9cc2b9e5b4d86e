/** 000 over HTTP: answers that resolve nothing. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { TestServer } from '../support/server.ts';
import { Chat } from './chat-client.ts';
import { after, calls, says, startScripted } from './scripted.ts';
import { verifies } from './verifies.ts';

const server = new TestServer();
beforeAll(() => server.start());
afterAll(() => server.dispose());

/** An id with a valid format that was never issued. */
const stranger = '01963a5c-7893-7abc-8ef0-123456789abc';

interface Posted {
  readonly path: string;
  readonly body: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

async function post({ path, body, headers = {} }: Posted) {
  const response = await server.request(path, { method: 'POST', keyless: true, body, headers });
  return { status: response.status, error: ((await response.json()) as { error: string }).error };
}

const missing = { status: 400, error: 'sessionId and response are required' };
const noSession = { status: 404, error: 'Session not found' };
const noRelay = { status: 404, error: 'Relay not found' };

describe('a bad request', () => {
  let chat: Chat;
  let path: string;
  beforeAll(async () => {
    chat = await Chat.open(server, 'notify after all the bad requests');
    path = `/chat/relay/${(await chat.relay()).id}`;
  });

  const response = { approved: true };

  test.each(['no JSON', '{"sessionId":', '{sessionId: 1}', "{'approved': true}"])(
    'that is not JSON is Invalid JSON body: %s',
    async (body) => {
      verifies('000:error:invalid-json');
      expect(await post({ path, body })).toEqual({ status: 400, error: 'Invalid JSON body' });
    },
  );

  test('without a sessionId says what is required', async () => {
    verifies('000:error:missing-session-id', '000:body:session-id-required');
    expect(await post({ path, body: { response } })).toEqual(missing);
  });

  test('without a response says what is required', async () => {
    verifies('000:error:missing-response', '000:body:response-required');
    expect(await post({ path, body: { sessionId: chat.sessionId } })).toEqual(missing);
  });

  test('with neither says what is required', async () => {
    verifies('000:error:missing-both');
    expect(await post({ path, body: {} })).toEqual(missing);
  });

  test.each([[7], [true], [['a']], [{ id: 'a' }]])(
    'with a sessionId that is no string is a 400: %j',
    async (sessionId) => {
      verifies('000:body:session-id-string');
      expect(await post({ path, body: { sessionId, response } })).toMatchObject({ status: 400 });
    },
  );

  test.each([['yes'], [true], [1], [[{ approved: true }]], [{}], [{ approved: 'yes' }]])(
    'with a response that is no decision is a 400: %j',
    async (wrong) => {
      verifies('000:body:response-object');
      const body = { sessionId: chat.sessionId, response: wrong };
      expect(await post({ path, body })).toMatchObject({ status: 400 });
    },
  );

  test('that does not say it is JSON is refused', async () => {
    verifies('000:examples:json-body');
    const body = JSON.stringify({ sessionId: chat.sessionId, response });
    const headers = { 'content-type': 'text/plain' };
    expect(await post({ path, body, headers })).toMatchObject({ status: 415 });
  });

  test('leaves the relay open: a good one resolves it afterwards', async () => {
    verifies('000:error:bad-request-resolves-nothing', '000:examples:json-body');
    for (const body of ['no JSON', {}, { response }, { sessionId: chat.sessionId, response: 1 }]) {
      expect(await post({ path, body })).toMatchObject({ status: 400 });
    }
    expect(server.notes).toEqual([]);
    const good = await server.request(path, {
      keyless: true,
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ sessionId: chat.sessionId, response }),
    });
    expect(await good.json()).toEqual({ success: true });
    await chat.end();
    expect(server.notes.map(({ text }) => text)).toEqual(['after all the bad requests']);
  });
});

describe('Session not found', () => {
  const response = { approved: true };

  test.each(['no-session', stranger])('for a session that never was: %s', async (sessionId) => {
    verifies('000:error:session-invalid');
    const chat = await Chat.open(server, 'notify a stranger');
    const { id } = await chat.relay();
    const answer = await post({ path: `/chat/relay/${id}`, body: { sessionId, response } });
    expect(answer).toEqual(noSession);
    expect((await chat.answer(id, { approved: false })).status).toBe(200);
    await chat.end();
  });

  test('for a session that is over: its chat came to its end', async () => {
    verifies('000:error:session-expired');
    const chat = await Chat.open(server, 'notify and come to an end');
    const { id } = await chat.relay();
    await chat.answer(id, { approved: true });
    await chat.end();
    const body = { sessionId: chat.sessionId, response };
    await expect.poll(() => post({ path: `/chat/relay/${id}`, body })).toEqual(noSession);
  });

  test('for a session that expired with its server, and the late answer resolves nothing', async () => {
    verifies('000:error:session-expired', '000:notes:late-answer-refused');
    const chat = await Chat.open(server, 'notify expired');
    const { id } = await chat.relay();
    const body = { sessionId: chat.sessionId, response };
    await server.kill();
    await chat.hangUp().catch(() => undefined);
    await server.start();
    expect(await post({ path: `/chat/relay/${id}`, body })).toEqual(noSession);
    const run = async () => (await server.request(`/v1/runs/${chat.runId}`)).json();
    await expect.poll(run).toMatchObject({ status: 'canceled' });
    expect(await post({ path: `/chat/relay/${id}`, body })).toEqual(noSession);
    expect(server.notes.map(({ text }) => text)).not.toContain('expired');
  });

  test('for a session whose stream was closed, and the late answer resolves nothing', async () => {
    verifies(
      '000:error:stream-closed',
      '000:notes:late-answer-refused',
      '000:notes:session-needs-connection',
    );
    const chat = await Chat.open(server, 'notify too late');
    const { id } = await chat.relay();
    await chat.hangUp();
    const state = async () =>
      (await (await server.request(`/v1/approvals/${id}`)).json()) as { status: string };
    await expect.poll(state).toMatchObject({ status: 'closed' });
    const body = { sessionId: chat.sessionId, response };
    expect(await post({ path: `/chat/relay/${id}`, body })).toEqual(noSession);
    expect(await state()).toMatchObject({ status: 'closed' });
    expect(server.notes.map(({ text }) => text)).not.toContain('too late');
  });
});

describe('Relay not found', () => {
  test('for a relay id that is malformed, unknown, or of another session', async () => {
    verifies('000:error:relay-invalid');
    const chat = await Chat.open(server, 'notify the wrong relay');
    const other = await Chat.open(server, 'notify the other session');
    const { id } = await chat.relay();
    const foreign = await other.relay();
    const body = { sessionId: chat.sessionId, response: { approved: true } };
    for (const wrong of ['no-relay', stranger, chat.sessionId, foreign.id]) {
      expect(await post({ path: `/chat/relay/${wrong}`, body })).toEqual(noRelay);
    }
    for (const [each, relay] of [
      [chat, id],
      [other, foreign.id],
    ] as const) {
      expect((await each.answer(relay, { approved: false })).status).toBe(200);
      await each.end();
    }
  });

  test('without a relay id: nothing is resolved', async () => {
    verifies('000:path:relay-id-required');
    const chat = await Chat.open(server, 'notify no relay');
    const { id } = await chat.relay();
    const body = { sessionId: chat.sessionId, response: { approved: true } };
    for (const path of ['/chat/relay', '/chat/relay/']) {
      expect(await post({ path, body })).toMatchObject({ status: 404 });
    }
    expect((await chat.answer(id, { approved: false })).status).toBe(200);
    await chat.end();
    expect(server.notes.map(({ text }) => text)).not.toContain('no relay');
  });

  test('for a relay that was resolved, whatever the second answer says', async () => {
    verifies('000:error:relay-already-resolved');
    const twice = ['one', 'two'].map((text) => `use send_note {"to":"ann","text":"${text}"}`);
    const chat = await Chat.open(server, twice.join('\n'));
    const first = await chat.relay();
    const second = await chat.relay();
    expect((await chat.answer(first.id, { approved: true })).status).toBe(200);
    // The session is open: the second call is still asked about.
    for (const again of [
      { approved: true },
      { approved: true, always: true },
      { approved: false },
    ]) {
      const answer = await chat.answer(first.id, again);
      expect(answer.status).toBe(404);
      expect(await answer.json()).toMatchObject({ error: 'Relay not found' });
    }
    expect((await chat.answer(second.id, { approved: false })).status).toBe(200);
    await chat.end();
    const sent = server.notes.map(({ text }) => text).filter((text) => /^(one|two)$/.test(text));
    expect(sent).toEqual(['one']);
  });

  test('for a relay that has expired', async () => {
    verifies('000:error:relay-expired');
    const scripted = await startScripted({ RELAY_APPROVAL_TTL_MS: '20' });
    try {
      let goOn = () => {};
      const answered = new Promise<void>((resolve) => (goOn = resolve));
      // The model takes its time, so that the session is still open when the answer comes.
      scripted.play(
        calls({ id: 'call_1', name: 'bash', input: { command: 'too late' } }),
        after(answered, says('Nobody answered.')),
      );
      const chat = await Chat.open(scripted.server, 'Begin', { model: 'gpt-4o-mini' });
      const { id } = await chat.relay();
      await expect.poll(() => scripted.asked().length, { timeout: 10_000 }).toBe(2);
      const answer = await chat.answer(id, { approved: true });
      expect(answer.status).toBe(404);
      expect(await answer.json()).toMatchObject({ error: 'Relay not found' });
      goOn();
      await chat.end();
      expect(chat.of('tool_result')[0]?.data['output']).toMatchObject({ status: 'expired' });
      expect(scripted.server.notes).toEqual([]);
    } finally {
      await scripted.dispose();
    }
  });
});
