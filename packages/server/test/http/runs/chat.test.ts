import { uuidv7 } from 'uuidv7';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { addKey, bootServer, type TestServer, until } from '../../support/server.ts';
import {
  answerApproval,
  type Chat,
  eventsOf,
  startChat,
  statusOf,
} from '../../support/requests.ts';

describe('/chat', () => {
  let server: TestServer;

  beforeAll(async () => {
    server = await bootServer();
  });

  afterAll(async () => {
    await server.stop();
  });

  /** A chat that waits for its answer. */
  async function asking(text: string, body: Record<string, unknown> = {}) {
    const chat = await startChat(server, `notify ${text}`, { body });
    const relay = await chat.reader.until('relay');
    return { chat, approvalId: relay.data['id'], relay };
  }

  const answer = (chat: Pick<Chat, 'sessionId'>, approvalId: unknown, response: unknown) =>
    answerApproval(server, chat, { approvalId, response });

  it('sends connected first, without an id, and then frames with event and type', async () => {
    const body = { model: 'demo', messages: [{ role: 'user', content: 'say 2' }] };
    const response = await server.request('/chat', { body, key: null });
    expect(response.status).toBe(200);
    expect(response.headers.get('content-type')).toContain('text/event-stream');
    expect(response.headers.get('x-run-id')).toBeTruthy();
    const blocks = (await response.text()).split('\n\n').slice(0, -1);
    expect(blocks[0]).toMatch(
      /^event: connected\ndata: \{"type":"connected","sessionId":"[^"]+","conversationId":"[^"]+"\}$/,
    );
    for (const block of blocks.slice(1)) {
      const [, event, data] = /^id: \d+\nevent: (\w+)\ndata: (.*)$/.exec(block) ?? [];
      expect(JSON.parse(data ?? '{}')).toMatchObject({
        type: event,
        runId: response.headers.get('x-run-id'),
      });
    }
    expect(blocks.map((block) => /event: (\w+)/.exec(block)?.[1])).toEqual([
      'connected',
      'harness_start',
      'text',
      'text',
      'usage',
      'harness_end',
    ]);
  });

  it('shows a relay as the seed does, and runs the tool once it is approved', async () => {
    const { chat, relay, approvalId } = await asking('approved note');
    expect(relay.data).toEqual({
      type: 'relay',
      kind: 'permission',
      runId: chat.runId,
      id: expect.any(String),
      agentId: expect.any(String),
      toolCallId: 'call_1',
      tool: 'send_note',
      params: { to: 'operator', text: 'approved note' },
    });
    expect(server.notes().join()).not.toContain('approved note');
    const response = await answer(chat, approvalId, { approved: true });
    expect(response.status).toBe(200);
    expect(await response.json()).toEqual({ success: true });
    const frames = await chat.reader.rest();
    const result = frames.find(({ data }) => data.type === 'tool_result');
    expect(result?.data['output']).toHaveProperty('result');
    expect(frames.at(-1)?.data).toMatchObject({ type: 'harness_end', reason: 'completed' });
    expect(server.notes().filter((line) => line.includes('approved note'))).toHaveLength(1);
  });

  it('passes a denial and its reason to the model, and does not run the tool', async () => {
    const { chat, approvalId } = await asking('denied note');
    const response = await answer(chat, approvalId, { approved: false, reason: 'Not on Sundays' });
    expect(await response.json()).toEqual({ success: true });
    const frames = await chat.reader.rest();
    expect(frames.find(({ data }) => data.type === 'tool_result')?.data['output']).toEqual({
      status: 'denied',
      reason: 'Not on Sundays',
    });
    const text = frames
      .filter(({ data }) => data.type === 'text')
      .map(({ data }) => data['content']);
    expect(text.join('')).toContain('Not on Sundays');
    expect(server.notes().join()).not.toContain('denied note');
  });

  it('does not ask again after always for that call in that conversation', async () => {
    const conversationId = uuidv7();
    const first = await asking('every day', { conversationId });
    await answer(first.chat, first.approvalId, { approved: true, always: true });
    await first.chat.reader.rest();

    const again = await startChat(server, 'notify every day', { body: { conversationId } });
    await again.reader.rest();
    expect(again.reader.types).not.toContain('relay');
    expect(again.reader.types).toContain('tool_result');
    expect(server.notes().filter((line) => line.includes('every day'))).toHaveLength(2);

    const other = await asking('every day and night', { conversationId });
    await answer(other.chat, other.approvalId, { approved: false });
    await other.chat.reader.rest();
    const elsewhere = await asking('every day');
    await answer(elsewhere.chat, elsewhere.approvalId, { approved: false });
    await elsewhere.chat.reader.rest();
    expect(server.notes().filter((line) => line.includes('every day'))).toHaveLength(2);
  });

  it('takes always as the literal call and not as a pattern', async () => {
    const conversationId = uuidv7();
    const star = await asking('*', { conversationId });
    await answer(star.chat, star.approvalId, { approved: true, always: true });
    await star.chat.reader.rest();
    const other = await asking('anything', { conversationId });
    await answer(other.chat, other.approvalId, { approved: false });
    await other.chat.reader.rest();
    expect(server.notes().join()).not.toContain('anything');
  });

  it('lets a denylist beat what always granted', async () => {
    const conversationId = uuidv7();
    const first = await asking('granted', { conversationId });
    await answer(first.chat, first.approvalId, { approved: true, always: true });
    await first.chat.reader.rest();
    const permissions = { denylist: [{ tool: 'send_note' }] };
    const again = await startChat(server, 'notify granted', {
      body: { conversationId, permissions },
    });
    const frames = await again.reader.rest();
    expect(frames.find(({ data }) => data.type === 'tool_result')?.data['output']).toMatchObject({
      status: 'denied',
    });
    expect(server.notes().filter((line) => line.includes('granted'))).toHaveLength(1);
  });

  it('requests the approvals of all calls of a turn together', async () => {
    const said = ['one', 'two'].map((text) => `use send_note {"to":"x","text":"${text}!"}`);
    const chat = await startChat(server, said.join('\n'));
    const first = await chat.reader.until('relay');
    const second = await chat.reader.until('relay');
    expect(first.data['id']).not.toBe(second.data['id']);
    await answer(chat, second.data['id'], { approved: true });
    await until(() => server.notes().some((line) => line.includes('two!')), 'the approved call');
    await answer(chat, first.data['id'], { approved: false });
    await chat.reader.rest();
    expect(server.notes().join()).not.toContain('one!');
  });

  it('refuses a second answer with 404', async () => {
    const { chat, approvalId } = await asking('answered twice');
    expect((await answer(chat, approvalId, { approved: false })).status).toBe(200);
    for (const response of [{ approved: true }, { approved: false }]) {
      const second = await answer(chat, approvalId, response);
      expect(second.status).toBe(404);
      expect(['Relay not found', 'Session not found']).toContain(
        ((await second.json()) as { error: string }).error,
      );
    }
    await chat.reader.rest();
    expect(server.notes().join()).not.toContain('answered twice');
  });

  it('accepts one of many concurrent answers', async () => {
    const { chat, approvalId } = await asking('raced for');
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, n) => answer(chat, approvalId, { approved: n % 2 === 0 })),
    );
    expect(answers.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([
      200,
      ...Array.from({ length: 19 }, () => 404),
    ]);
    const won = answers.findIndex(({ status }) => status === 200);
    await chat.reader.rest();
    const { events } = await eventsOf(server, chat.runId);
    const decided = events.filter(({ type }) => type === 'approval.decided');
    expect(decided).toHaveLength(1);
    expect(decided[0]?.['approved']).toBe(won % 2 === 0);
  });

  it('answers 404 for a relay of another session and for an unknown relay', async () => {
    const mine = await asking('mine');
    const yours = await asking('yours');
    for (const approvalId of [yours.approvalId, uuidv7(), 'x', '%00', '..%2f..']) {
      const response = await answer(mine.chat, approvalId, { approved: true });
      expect(response.status).toBe(404);
      expect(await response.json()).toEqual({ error: 'Relay not found', code: 'relay_not_found' });
    }
    for (const { chat, approvalId } of [mine, yours]) {
      await answer(chat, approvalId, { approved: false });
      await chat.reader.rest();
    }
  });

  it('answers 404 for an unknown session', async () => {
    const { chat, approvalId } = await asking('no session');
    for (const sessionId of [uuidv7(), 'x', chat.runId]) {
      const response = await answer({ sessionId }, approvalId, { approved: true });
      expect(response.status).toBe(404);
      expect(await response.json()).toEqual({
        error: 'Session not found',
        code: 'session_not_found',
      });
    }
    await answer(chat, approvalId, { approved: false });
    await chat.reader.rest();
  });

  it('answers 404 for a session whose stream has ended', async () => {
    const { chat, approvalId } = await asking('over');
    await answer(chat, approvalId, { approved: false });
    await chat.reader.rest();
    const response = await answer(chat, approvalId, { approved: true });
    expect(response.status).toBe(404);
    expect(await response.json()).toEqual({
      error: 'Session not found',
      code: 'session_not_found',
    });
  });

  it.each<[string, unknown]>([
    ['approved that is text', { approved: 'true' }],
    ['approved that is a number', { approved: 1 }],
    ['no approved', {}],
    ['a misspelt always', { approved: true, allways: true }],
    ['always that is text', { approved: true, always: 'yes' }],
    ['a reason that is no text', { approved: false, reason: 7 }],
    ['always with a denial', { approved: false, always: true }],
    ['a list', [true]],
    ['a text', 'yes'],
  ])('refuses a response with %s, and the relay stays open', async (_what, response) => {
    const { chat, approvalId } = await asking('malformed answer');
    const refused = await answer(chat, approvalId, response);
    expect(refused.status).toBe(400);
    const body = (await refused.json()) as { code: string; details: { path: string }[] };
    expect(body.code).toBe('invalid_request');
    expect(body.details[0]?.path).toMatch(/^response/);
    expect(await statusOf(server, chat.runId)).toBe('waiting');
    expect((await answer(chat, approvalId, { approved: false })).status).toBe(200);
    await chat.reader.rest();
  });

  it('does not ask about calls that the allowlist or allowOnce of the request covers', async () => {
    const said = 'use send_note {"to":"a","text":"same"}';
    const allowlist = [{ tool: 'send_note', params: { to: 'a*' } }];
    const allowed = await startChat(server, said, { body: { permissions: { allowlist } } });
    await allowed.reader.rest();
    expect(allowed.reader.types).not.toContain('relay');
    const allowOnce = [{ tool: 'send_note' }];
    const once = await startChat(server, `${said}\n${said}`, {
      body: { permissions: { allowOnce } },
    });
    const relay = await once.reader.until('relay');
    expect(relay.data['toolCallId']).toBe('call_2');
    await answer(once, relay.data['id'], { approved: false });
    await once.reader.rest();
  });

  it('answers 200 with an error frame and a failed end if the provider fails', async () => {
    const chat = await startChat(server, 'fail 400');
    const frames = await chat.reader.rest();
    expect(frames.find(({ data }) => data.type === 'error')?.data).toMatchObject({
      message: 'The demo provider answered 400',
      runId: chat.runId,
    });
    expect(frames.at(-1)?.data).toMatchObject({ type: 'harness_end', reason: 'failed' });
    expect(await statusOf(server, chat.runId)).toBe('failed');
  });

  it('stops at maxIterations with the reason limit', async () => {
    const chat = await startChat(server, 'calculate 1+1', { body: { maxIterations: 1 } });
    const frames = await chat.reader.rest();
    expect(frames.at(-1)?.data).toMatchObject({ type: 'harness_end', reason: 'limit' });
  });

  it('may be answered by another key of the tenant, but not by one of another tenant', async () => {
    const { chat, approvalId } = await asking('who answers');
    const stranger = await addKey(server.store, { tenant: 'stranger' });
    const refused = await answerApproval(
      server,
      chat,
      { approvalId, response: { approved: true } },
      { key: stranger.apiKey },
    );
    expect(refused.status).toBe(404);
    expect(await refused.json()).toMatchObject({ error: 'Session not found' });
    const colleague = await addKey(server.store, { scopes: ['approve'] });
    const taken = await answerApproval(
      server,
      chat,
      { approvalId, response: { approved: true } },
      { key: colleague.apiKey },
    );
    expect(taken.status).toBe(200);
    await chat.reader.rest();
    const { events } = await eventsOf(server, chat.runId);
    expect(events.find(({ type }) => type === 'approval.decided')).toMatchObject({
      by: { type: 'key', id: colleague.keyId },
    });
  });
});
