/** 000 over HTTP: what a client does with a relay, and what the agent does then. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { LocalServer } from '../support/server.ts';
import { Chat, textIn } from './chat-client.ts';
import { verifies } from './verifies.ts';

const server = new LocalServer();
beforeAll(() => server.start());
afterAll(() => server.dispose());

function notes(): string[] {
  return server.notes.map(({ text }) => text);
}

async function statusOf(runId: string): Promise<string> {
  const run = (await (await server.request(`/v1/runs/${runId}`)).json()) as { status: string };
  return run.status;
}

describe('the workflow', () => {
  test('POST /chat answers with a stream of events whose first is connected, with a sessionId', async () => {
    verifies(
      '000:workflow:post-chat',
      '000:workflow:connected-event',
      '000:workflow:connected-first',
    );
    const response = await server.request('/chat', {
      keyless: true,
      body: { model: 'demo', messages: [{ role: 'user', content: 'say 3' }] },
    });
    expect(response.status).toBe(200);
    expect(response.headers.get('content-type')).toMatch(/^text\/event-stream/);
    const frames = (await response.text()).split('\n\n');
    expect(frames[0]).toMatch(
      /^event: connected\ndata: \{"type":"connected","sessionId":"[^"]+","conversationId":"[^"]+"\}$/,
    );
    expect(frames.filter((frame) => frame.startsWith('event: connected'))).toHaveLength(1);
  });

  test('a call that needs permission emits a relay in the middle of the run, and the tool waits for it', async () => {
    verifies(
      '000:workflow:relay-during-execution',
      '000:workflow:agent-waits',
      '000:notes:emitted-when-permission-needed',
    );
    const chat = await Chat.open(server, 'notify somebody who thinks about it');
    const { id } = await chat.relay();
    const types = chat.seen.map(({ data }) => data.type);
    expect(types).toEqual(['connected', 'harness_start', 'tool_call', 'usage', 'relay']);
    await expect.poll(() => statusOf(chat.runId)).toBe('waiting');
    expect(notes()).not.toContain('somebody who thinks about it');

    // The stream has stayed open all the time: what happens next comes over it.
    await chat.answer(id, { approved: true });
    expect((await chat.end()).at(-1)?.data.type).toBe('harness_end');
    expect(notes()).toContain('somebody who thinks about it');
  });

  test('id, tool and params of the relay are all that it takes to show it and to answer it', async () => {
    verifies(
      '000:relay:endpoint',
      '000:path:relay-id-is-event-id',
      '000:workflow:relay-has-what-to-show',
      '000:body:session-id-from-connected',
    );
    const chat = await Chat.open(server, 'notify from the event alone');
    const { data } = (await chat.relay()).frame;
    const { id, tool, params } = data;
    expect({ tool, params }).toEqual({
      tool: 'send_note',
      params: { to: 'operator', text: 'from the event alone' },
    });
    const answer = await server.request(`/chat/relay/${String(id)}`, {
      keyless: true,
      body: { sessionId: chat.seen[0]?.data['sessionId'], response: { approved: true } },
    });
    expect(answer.status).toBe(200);
    await chat.end();
    expect(notes()).toContain('from the event alone');
  });
});

describe('an approval', () => {
  test('lets the tool run, once, and is answered with success', async () => {
    verifies(
      '000:relay:approval-executes',
      '000:approve:example',
      '000:response:success-true',
      '000:response:body',
    );
    const chat = await Chat.open(server, 'notify approved');
    const answer = await chat.answer((await chat.relay()).id, { approved: true });
    expect(answer.status).toBe(200);
    expect(answer.headers.get('content-type')).toMatch(/^application\/json/);
    expect(await answer.json()).toEqual({ success: true });
    await chat.end();
    expect(notes().filter((text) => text === 'approved')).toHaveLength(1);
  });

  test('with always lets the tool run too', async () => {
    verifies('000:always:example');
    const chat = await Chat.open(server, 'notify approved for always');
    const answer = await chat.answer((await chat.relay()).id, { approved: true, always: true });
    expect(answer.status).toBe(200);
    expect(await answer.json()).toEqual({ success: true });
    await chat.end();
    expect(notes()).toContain('approved for always');
  });

  test('with always holds in the next request of the conversation that connected names', async () => {
    verifies('000:notes:always-auto-approves', '000:notes:always-other-params-ask');
    const first = await Chat.open(server, 'notify approved in every request');
    const conversationId = first.of('connected')[0]?.data['conversationId'];
    expect(conversationId).toMatch(/^[0-9a-f-]{36}$/);
    await first.answer((await first.relay()).id, { approved: true, always: true });
    await first.end();
    const next = await Chat.open(server, 'notify approved in every request', { conversationId });
    await next.end();
    expect(next.of('connected')[0]?.data['conversationId']).toBe(conversationId);
    expect(next.of('relay')).toEqual([]);
    expect(notes().filter((text) => text === 'approved in every request')).toHaveLength(2);
    // Neither another call of this conversation nor this call of another one is approved by it.
    for (const [text, more] of [
      ['another note', { conversationId }],
      ['approved in every request', {}],
    ] as const) {
      const other = await Chat.open(server, `notify ${text}`, more);
      await other.answer((await other.relay()).id, { approved: false });
      await other.end();
    }
    expect(notes().filter((text) => text === 'approved in every request')).toHaveLength(2);
  });

  test('lets the agent go on with the result, on the same stream', async () => {
    verifies('000:workflow:continues-approved', '000:notes:resolved-continues');
    const chat = await Chat.open(server, 'notify and go on');
    const { id, frame } = await chat.relay();
    await chat.answer(id, { approved: true });
    const frames = await chat.end();
    const then = frames.slice(frames.indexOf(frame) + 1);
    expect(then[0]?.data).toMatchObject({
      type: 'tool_result',
      id: frame.data['toolCallId'],
      name: 'send_note',
      output: { context: 'The note to operator was sent.', result: { sent: true } },
    });
    // The demo model says this only if it has read that the tool was successful.
    expect(textIn(then)).toBe('The note was sent.');
    expect(then.at(-1)?.data).toMatchObject({ type: 'harness_end', reason: 'completed' });
  });
});

describe('a denial', () => {
  const reason = 'This operation could delete important files';

  test('keeps the tool from running, and is answered with success as well', async () => {
    verifies('000:relay:denial-prevents', '000:deny:example', '000:response:deny-success-true');
    const chat = await Chat.open(server, 'notify denied');
    const answer = await chat.answer((await chat.relay()).id, { approved: false, reason });
    expect(answer.status).toBe(200);
    expect(await answer.json()).toEqual({ success: true });
    await chat.end();
    expect(notes()).not.toContain('denied');
  });

  test('shows its reason in the result, and the agent goes on knowing it', async () => {
    verifies('000:deny:reason-passed-on', '000:workflow:continues-denied');
    const chat = await Chat.open(server, 'notify denied for a reason');
    await chat.answer((await chat.relay()).id, { approved: false, reason });
    const frames = await chat.end();
    expect(chat.of('tool_result')[0]?.data['output']).toEqual({ status: 'denied', reason });
    expect(textIn(frames)).toBe(`The note was not sent: it was denied (${reason}).`);
    expect(frames.at(-1)?.data).toMatchObject({ type: 'harness_end', reason: 'completed' });
  });

  test('needs no reason', async () => {
    verifies('000:deny:reason-optional');
    const chat = await Chat.open(server, 'notify denied without a reason');
    const answer = await chat.answer((await chat.relay()).id, { approved: false });
    expect(answer.status).toBe(200);
    expect(await answer.json()).toEqual({ success: true });
    await chat.end();
    expect(chat.of('tool_result')[0]?.data['output']).toEqual({ status: 'denied' });
    expect(notes()).not.toContain('denied without a reason');
  });
});

describe('the allowlist', () => {
  const allowlist = [{ tool: 'send_note', params: { text: 'allowed *' } }];
  const permissions = { permissions: { allowlist } };
  const withKey = { keyless: false };

  test('lets a call that a rule matches run without a relay', async () => {
    verifies('000:notes:allowlist-match-no-relay');
    const chat = await Chat.open(server, 'notify allowed by a rule', permissions, withKey);
    await chat.end();
    expect(chat.of('relay')).toEqual([]);
    expect(notes()).toContain('allowed by a rule');
  });

  test('leaves a call that no rule matches to a relay', async () => {
    verifies('000:notes:no-allowlist-match');
    const chat = await Chat.open(server, 'notify not allowed', permissions, withKey);
    const { id, frame } = await chat.relay();
    expect(frame.data['params']).toMatchObject({ text: 'not allowed' });
    await chat.answer(id, { approved: false });
    await chat.end();
    expect(notes()).not.toContain('not allowed');
  });
});
