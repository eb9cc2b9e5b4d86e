/** `POST /api/chat`. */
import { defineAgent } from '@relay/tools';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { addKey, type BootOptions, bootServer, type TestServer } from '../../support/server.ts';
import { dataOf, typesOf } from '../../support/frames.ts';
import { eventsOf, startApiChat, untilStatus } from '../../support/requests.ts';

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
];

function refusing(word: string) {
  const check = (said: string) =>
    said.includes(word)
      ? ({ ok: false, reason: `It says ${word}` } as const)
      : { ok: true as const };
  return { name: `no-${word}`, check };
}

const file: NonNullable<BootOptions['file']> = {
  agents: [
    defineAgent({ name: 'triage', model: 'demo', handoffs: ['billing'] }),
    defineAgent({ name: 'billing', model: 'demo' }),
    defineAgent({ name: 'wary', guardrails: { input: [refusing('hunter2')] } }),
    defineAgent({ name: 'discreet', guardrails: { output: [refusing('3')] } }),
  ],
};

const note = (text: string) => `use send_note {"to":"ann","text":"${text}"}`;

describe('a chat by /api/chat', () => {
  let server: TestServer;

  beforeAll(async () => {
    server = await bootServer({ file });
  });

  afterAll(async () => {
    await server.stop();
  });

  const notes = (text: string) => server.notes().filter((line) => line.includes(`"${text}"`));

  it('is a stream of frames with a type, and the ids of the journal', async () => {
    const response = await server.request('/api/chat', {
      body: { model: 'demo', message: 'calculate 23*47' },
    });
    const runId = response.headers.get('x-run-id') ?? '';
    expect(response.headers.get('content-type')).toMatch(/^text\/event-stream/);
    expect(response.headers.has('idempotent-replayed')).toBe(false);
    const text = await response.text();
    expect(text).not.toMatch(/^event:/m);
    const frames = [...text.matchAll(/^id: (\d+)\ndata: (.*)\n\n/gm)].map(([, id, data]) => ({
      id: Number(id),
      data: JSON.parse(data ?? '') as { type: string },
    }));
    expect(frames.length).toBeGreaterThan(4);
    for (const { data } of frames) expect(listed).toContain(data.type);
    const ids = frames.map(({ id }) => id);
    expect(ids).toEqual(ids.toSorted((a, b) => a - b));
    expect(frames.at(-1)?.data).toMatchObject({ type: 'done', runId, status: 'succeeded' });
    expect(frames.at(-1)?.id).toBe((await eventsOf(server, runId)).run['lastSeq']);
  });

  it('uses the agent assistant with all tools of the tenant by default', async () => {
    const { runId, reader } = await startApiChat(server, 'say 1');
    await reader.rest();
    const { events } = await eventsOf(server, runId);
    expect(events[0]).toMatchObject({
      type: 'run.created',
      surface: 'runtime',
      agent: 'assistant',
      // Without the tools that only the turn of a session has.
      tools: ['agent', 'calculator', 'memory', 'send_note'],
    });
  });

  it.each<[string, Record<string, string>, string | undefined]>([
    ['x-request-id', { 'x-request-id': 'req-1', 'idempotency-key': 'idem-1' }, 'req-1'],
    ['Idempotency-Key', { 'idempotency-key': 'idem-2' }, 'idem-2'],
    [
      'Idempotency-Key, if x-request-id is empty',
      { 'x-request-id': '', 'idempotency-key': 'idem-3' },
      'idem-3',
    ],
    [
      'Idempotency-Key, if x-request-id is too long',
      { 'x-request-id': 'x'.repeat(256), 'idempotency-key': 'idem-4' },
      'idem-4',
    ],
    ['a new id', {}, undefined],
  ])('is correlated by %s', async (_what, headers, expected) => {
    const { reader } = await startApiChat(server, 'say 1', { headers });
    const { data } = await reader.until('agent_progress');
    await reader.rest();
    if (expected === undefined) expect(data['correlationId']).toMatch(/^[0-9a-f-]{36}$/);
    else expect(data['correlationId']).toBe(expected);
  });

  it('hands off, and then switches to the other agent', async () => {
    const { reader } = await startApiChat(server, 'hand off to billing', {
      body: { agent: 'triage', model: undefined },
    });
    const said = dataOf(await reader.rest());
    const at = said.findIndex(({ type }) => type === 'handoff');
    expect(said.slice(at, at + 2)).toEqual([
      { type: 'handoff', from: 'triage', to: 'billing' },
      { type: 'agent_switch', agentName: 'billing' },
    ]);
  });

  const guardrailFields = {
    name: expect.any(String),
    side: expect.stringMatching(/^(input|output)$/),
    reason: expect.any(String),
  };

  it.each<[string, string, Record<string, unknown>, string | undefined, string]>([
    ['succeeds', 'say 2', {}, undefined, 'succeeded'],
    ['meets a guardrail on its input', 'hunter2', { agent: 'wary' }, 'guardrail_tripped', 'failed'],
    [
      'meets a guardrail on its answer',
      'say 3',
      { agent: 'discreet' },
      'guardrail_tripped',
      'failed',
    ],
    ['is refused by the provider', 'fail 400', {}, 'provider_rejected', 'failed'],
    ['loses its provider', 'fail 503', {}, 'provider_failed', 'failed'],
    ['runs into its limit', 'calculate 1+1', { limits: { tokens: 1 } }, undefined, 'succeeded'],
  ])('ends with one done if it %s', async (_what, message, body, code, status) => {
    const { runId, reader } = await startApiChat(server, message, { body });
    const said = dataOf(await reader.rest());
    const errors = said.filter(({ type }) => type === 'error');
    expect(errors).toHaveLength(code === undefined ? 0 : 1);
    if (code !== undefined) {
      expect(errors[0]).toEqual({
        type: 'error',
        error: expect.stringMatching(/\w/),
        code,
        retryable: code === 'provider_failed',
        ...(code === 'guardrail_tripped' ? guardrailFields : {}),
      });
    }
    expect(typesOf(said).filter((type) => type === 'done')).toHaveLength(1);
    expect(typesOf(said).slice(-2)).toEqual(['agent_summary', 'done']);
    expect(said.at(-1)).toMatchObject({ runId, status });
  });

  it('retracts what a guardrail refuses, and names the guardrail', async () => {
    const { reader } = await startApiChat(server, 'say 4', { body: { agent: 'discreet' } });
    const said = dataOf(await reader.rest());
    expect(typesOf(said)).toContain('text_reset');
    expect(said.find(({ type }) => type === 'error')).toMatchObject({
      error: 'The guardrail no-3 refused the output: It says 3',
      name: 'no-3',
      side: 'output',
      reason: 'It says 3',
    });
  });

  it('continues when its client disconnects', async () => {
    const { runId, reader } = await startApiChat(server, 'slow 150');
    await reader.until('text_delta');
    await reader.disconnect();
    await untilStatus(server, runId, 'completed');
  });

  it.each<[string, unknown, string]>([
    ['nothing', {}, 'message'],
    ['no object', [], 'message'],
    ['an empty message', { message: '' }, 'message'],
    ['a message of null', { message: null }, 'message'],
    ['a message that is no text', { message: ['hi'] }, 'message'],
    ['a conversation without an id', { message: 'x', conversationId: 'mine' }, 'conversationId'],
    ['an agent that is no text', { message: 'x', agent: 1 }, 'agent'],
    ['an empty agent', { message: 'x', agent: '' }, 'agent'],
    ['an unknown agent', { message: 'x', agent: 'constructor' }, 'agent'],
    ['an unknown model', { message: 'x', model: 'nope' }, 'model'],
    ['a model that is no text', { message: 'x', model: {} }, 'model'],
    ['no model where there is no default', { message: 'x' }, 'model'],
    ['permissions that are no object', { message: 'x', permissions: [] }, 'permissions'],
    ['an unknown limit', { message: 'x', limits: { wishes: 3 } }, 'limits'],
  ])('is refused for %s, with the field’s path', async (_what, body, path) => {
    const response = await server.request('/api/chat', { body });
    expect(response.status).toBe(400);
    expect(response.headers.has('x-run-id')).toBe(false);
    const { error, details } = (await response.json()) as {
      error: string;
      details: { path: string }[];
    };
    expect(error).toMatch(/\w/);
    expect(details[0]?.path).toMatch(new RegExp(`^${path}`));
  });

  it('takes a message with images and files, of more than 1 MB', async () => {
    const message = [
      { type: 'text', text: 'calculate 2*3' },
      { type: 'image', mediaType: 'image/png', data: 'QUJD' },
      { type: 'file', mediaType: 'text/plain', filename: 'a.txt', data: 'QUJD'.repeat(400_000) },
    ];
    const response = await server.request('/api/chat', { body: { model: 'demo', message } });
    expect(await response.text()).toContain('"result":6');
    const runId = response.headers.get('x-run-id') ?? '';
    const { input } = (await (await server.request(`/v1/runs/${runId}`)).json()) as {
      input: unknown;
    };
    expect(input).toEqual([{ role: 'user', content: message }]);
    const none = await server.request('/api/chat', { body: { model: 'demo', message: [] } });
    expect(none.status).toBe(400);
  });

  it('is refused for an unknown field', async () => {
    const body = { message: 'x', model: 'demo', tools: ['send_note'] };
    const response = await server.request('/api/chat', { body });
    expect(response.status).toBe(400);
    expect(await response.text()).toContain('tools');
  });

  it('refuses allow rules of a key without the scope approve', async () => {
    const { apiKey: key } = await addKey(server.store, { scopes: ['runs'] });
    const permissions = { allowlist: [{ tool: 'send_note' }] };
    const body = { message: 'say 1', model: 'demo', permissions };
    const refused = await server.request('/api/chat', { body, key });
    expect(refused.status).toBe(403);
    expect(await refused.json()).toMatchObject({ code: 'approve_scope_required' });
    const { reader } = await startApiChat(server, note('allowed'), { body: { permissions } });
    expect(typesOf(dataOf(await reader.rest()))).not.toContain('tool_approval_requested');
    expect(notes('allowed')).toHaveLength(1);
  });
});
