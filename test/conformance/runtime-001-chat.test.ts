/** 001: POST /api/chat on a started server. */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Frame, FrameReader } from '../support/frames.ts';
import {
  askFor,
  type Data,
  decide,
  otherOrg,
  post,
  say,
  statusOf,
  typesOf,
} from './runtime-client.ts';
import { refuses, says, type Scripted, startScriptedProcess } from './scripted.ts';
import { StoreServer } from './store-server.ts';
import { verifies } from './verifies.ts';

const server = new StoreServer({ RELAY_CONFIG: 'test/support/configs/agents.config.ts' });
let scripted: Scripted<StoreServer>;
beforeAll(async () => {
  await server.start();
  scripted = await startScriptedProcess();
});
afterAll(async () => {
  await server.dispose();
  await scripted.dispose();
});

/** The event types of the document. */
const listed = [
  'text_delta',
  'agent_switch',
  'handoff',
  'tool_approval_requested',
  'tool_start',
  'tool_end',
  'agent_progress',
  'agent_summary',
  'done',
  'error',
  // Ours: a text that a crash, a retry or a guardrail superseded. See docs/reference/differences.md.
  'text_reset',
];

function dataOf(frames: readonly Frame[]): Data[] {
  return frames.map(({ data }) => data);
}

async function allOf(message: string, body: object = {}): Promise<{ runId: string; data: Data[] }> {
  const { runId, reader } = await say(server, message, { body });
  return { runId, data: dataOf(await reader.rest()) };
}

describe('POST /api/chat', () => {
  test('starts a run and returns an SSE stream of it', async () => {
    verifies('001:chat:starts-run', '001:chat:sse');
    const { runId, response, reader } = await say(server, 'say 3');
    expect(response.headers.get('content-type')).toMatch(/^text\/event-stream/);
    const frames = await reader.rest();
    expect(dataOf(frames).at(-1)).toMatchObject({ type: 'done', runId, status: 'succeeded' });
    const run = (await (await server.request(`/v1/runs/${runId}`)).json()) as object;
    expect(run).toMatchObject({ id: runId, status: 'completed', input: 'say 3', output: '1 2 3' });
  });

  test('continues the chat whose conversationId it is given', async () => {
    verifies('001:chat:continues-run');
    scripted.play(says('Nice to meet you, Ada.'), says('You are Ada.'), says('Who are you?'));
    const ask = async (message: string, conversationId?: unknown) => {
      const body = { model: 'gpt-4o-mini', conversationId };
      const { runId, reader } = await say(scripted.server, message, { body });
      return { runId, done: (await reader.until('done')).data };
    };
    const first = await ask('I am Ada.');
    const second = await ask('Who am I?', first.done['conversationId']);
    expect(second.runId).not.toBe(first.runId);
    expect(second.done).toMatchObject({
      status: 'succeeded',
      conversationId: first.done['conversationId'],
    });
    const stranger = await ask('Who am I?');
    expect(stranger.done['conversationId']).not.toBe(first.done['conversationId']);
    const read = scripted.asked().map(({ messages }) => messages.map(({ content }) => content));
    expect(read).toEqual([
      ['I am Ada.'],
      ['I am Ada.', 'Nice to meet you, Ada.', 'Who am I?'],
      ['Who am I?'],
    ]);
  });

  test('continues a conversation after kill -9 and a restart', async () => {
    verifies('001:chat:continues-run');
    scripted.play(says('It is blue.'), says('Blue, as I said.'));
    const body = { model: 'gpt-4o-mini', conversationId: randomUUID() };
    await (await say(scripted.server, 'Which colour?', { body })).reader.rest();
    await scripted.server.kill();
    await scripted.server.start();
    await (await say(scripted.server, 'Again?', { body })).reader.rest();
    const contents = scripted
      .asked()
      .at(-1)
      ?.messages.map(({ content }) => content);
    expect(contents).toEqual(['Which colour?', 'It is blue.', 'Again?']);
  });

  test.each([
    ['/api/chat', { message: 'say 1', model: 'demo' }],
    ['/api/chat/tool-approval', { runId: randomUUID(), toolCallId: 'c', action: 'approve' }],
    ['/api/chat/resume', { runId: randomUUID() }],
  ])('and its likes are 401 without authentication: %s', async (path, body) => {
    verifies('001:auth:chat-required', '001:auth:approval-required', '001:auth:resume-required');
    const callers: Record<string, string>[] = [
      {},
      { authorization: 'Bearer nonsense' },
      { authorization: `Basic ${server.apiKey}` },
    ];
    for (const headers of callers) {
      const response = await server.request(path, { keyless: true, body, headers });
      expect(response.status).toBe(401);
      expect(response.headers.has('x-run-id')).toBe(false);
      expect(await response.json()).toMatchObject({ error: expect.any(String) });
    }
  });

  test('does not continue or read a conversation of another org', async () => {
    verifies('001:scope:chat');
    const apiKey = await otherOrg(scripted.server);
    scripted.play(says('The code is 42.'), says('I do not know.'));
    const conversationId = randomUUID();
    const body = { model: 'gpt-4o-mini', conversationId };
    await (await say(scripted.server, 'Keep the code 42.', { body })).reader.rest();
    const theirs = await say(scripted.server, 'Which code?', { body, apiKey });
    await theirs.reader.rest();
    expect(
      scripted
        .asked()
        .at(-1)
        ?.messages.map(({ content }) => content),
    ).toEqual(['Which code?']);
    // Nor does what they say become part of ours.
    scripted.play(says('It is 42.'));
    await (await say(scripted.server, 'Which code?', { body })).reader.rest();
    const contents = scripted
      .asked()
      .at(-1)
      ?.messages.map(({ content }) => content);
    expect(contents).toEqual(['Keep the code 42.', 'The code is 42.', 'Which code?']);
    const list = await scripted.server.request(`/v1/runs?conversationId=${conversationId}`);
    expect(((await list.json()) as { runs: unknown[] }).runs).toHaveLength(2);
  });
});

describe('the events of POST /api/chat', () => {
  test('are JSON with one of the listed types, whatever the run does', async () => {
    verifies('001:events:frames-have-type');
    const chats: [string, object][] = [
      ['say 2', {}],
      ['calculate 6*7', {}],
      ['calculate 1/0', {}],
      ['fail 400', {}],
      ['hand off to billing', { agent: 'triage' }],
      ['My password is hunter2', { agent: 'guarded' }],
      ['say 13', { agent: 'guarded' }],
      ['use agent {"prompt":"calculate 1+1"}', {}],
    ];
    const seen = new Set<string>();
    for (const [message, body] of chats) {
      const response = await post(server, '/api/chat', {
        body: { model: 'demo', message, ...body },
      });
      const text = await response.text();
      for (const frame of text.split('\n\n').slice(0, -1)) {
        const lines = frame.split('\n').filter((line) => !line.startsWith('id: '));
        expect(lines).toHaveLength(1);
        const { type } = JSON.parse((lines[0] ?? '').replace(/^data: /, '')) as Data;
        expect(listed).toContain(type);
        seen.add(type);
      }
    }
    const { runId, asked, reader } = await askFor(server, 'notify somebody');
    await decide(server, { runId, toolCallId: asked['toolCallId'], action: 'reject' });
    for (const type of typesOf(dataOf(await reader.rest()))) seen.add(type);
    expect([...seen].toSorted()).toEqual(listed.toSorted());
  });

  test('contain a handoff with from and to, and then the agent that is now active', async () => {
    verifies(
      '001:events:handoff',
      '001:events:handoff-payload',
      '001:events:agent-switch',
      '001:events:agent-switch-payload',
    );
    const { data } = await allOf('hand off to billing', { agent: 'triage' });
    const at = data.findIndex(({ type }) => type === 'handoff');
    expect(data[at]).toMatchObject({ from: 'triage', to: 'billing' });
    expect(data[at + 1]).toMatchObject({ type: 'agent_switch', agentName: 'billing' });
    expect(typesOf(data).filter((type) => /handoff|agent_switch/.test(type))).toHaveLength(2);
    // The other agent says the rest.
    const text = data.flatMap(({ type, content }) => (type === 'text_delta' ? [content] : []));
    expect(text.join('')).toBe('You are now talking to billing.');
  });

  test('contain no handoff where the agent may not hand off', async () => {
    verifies('001:events:handoff');
    const { data } = await allOf('hand off to guarded', { agent: 'triage' });
    expect(typesOf(data)).not.toContain('handoff');
    expect(typesOf(data)).not.toContain('agent_switch');
    expect(data.at(-1)).toMatchObject({ type: 'done', status: 'succeeded' });
  });

  test('end with a structured error and done when a guardrail is tripped', async () => {
    verifies(
      '001:events:error-guardrail',
      '001:failure:guardrail-structured',
      '001:failure:done-after-guardrail',
    );
    const { runId, data } = await allOf('My password is hunter2', { agent: 'guarded' });
    expect(data.find(({ type }) => type === 'error')).toEqual({
      type: 'error',
      error: 'The guardrail no-secrets refused the input: It holds a password',
      code: 'guardrail_tripped',
      retryable: false,
      name: 'no-secrets',
      side: 'input',
      reason: 'It holds a password',
    });
    expect(typesOf(data).slice(-2)).toEqual(['agent_summary', 'done']);
    expect(data.at(-1)).toMatchObject({ runId, status: 'failed' });
    expect(typesOf(data)).not.toContain('text_delta');
    expect(await statusOf(server, runId)).toBe('failed');
    const output = await allOf('say 13', { agent: 'guarded' });
    expect(output.data.find(({ type }) => type === 'error')).toMatchObject({
      code: 'guardrail_tripped',
      name: 'no-thirteen',
      side: 'output',
      reason: 'It says thirteen',
    });
    expect(output.data.at(-1)).toMatchObject({ type: 'done', status: 'failed' });
    const harmless = await allOf('say 1', { agent: 'guarded' });
    expect(harmless.data.at(-1)).toMatchObject({ type: 'done', status: 'succeeded' });
  });

  test('end with done after a provider has failed, and after a cancellation', async () => {
    verifies('001:failure:done-after-failure', '001:failure:done-after-cancel');
    scripted.play(refuses(400));
    const failing = await say(scripted.server, 'Hello', { body: { model: 'gpt-4o-mini' } });
    const data = dataOf(await failing.reader.rest());
    expect(data.at(-1)).toMatchObject({ type: 'done', status: 'failed' });
    const { runId, reader } = await askFor(server, 'notify nobody');
    await server.request(`/v1/runs/${runId}/cancel`, { method: 'POST' });
    expect((await reader.rest()).at(-1)?.data).toMatchObject({ type: 'done', status: 'canceled' });
  });

  test('can be read again from any position after kill -9', async () => {
    verifies('001:events:frames-have-type');
    const { runId, reader } = await askFor(server, 'notify somebody later');
    await server.kill();
    await reader.close().catch(() => undefined);
    await server.start();
    const path = `/v1/runs/${runId}/stream?dialect=runtime`;
    const again = new FrameReader(await server.request(path));
    await again.until('tool_approval_requested');
    await again.until('agent_progress');
    expect(again.seen).toEqual(reader.seen);
    await again.close();
    await server.request(`/v1/runs/${runId}/cancel`, { method: 'POST' });
  });
});
