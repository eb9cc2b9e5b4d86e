/** Questions of tools, answered over HTTP. */
import { createToolRegistry, defineTool } from '@relay/tools';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { addKey, bootServer, type TestServer } from '../../support/server.ts';
import {
  answerApproval,
  decideCall,
  resumeRun,
  startChat,
  startRun,
  untilStatus,
} from '../../support/requests.ts';

const schema = {
  type: 'object',
  properties: { size: { enum: ['S', 'M'] } },
  required: ['size'],
};

const order = defineTool({
  name: 'order',
  description: 'Orders a shirt, and asks which size',
  schema: z.object({ what: z.string() }),
  idempotent: true,
  allowedByDefault: true,
  execute: async ({ what }, context) => {
    const answer = await context.ask({ prompt: 'Which\u202e size?', schema });
    return { result: { what, answer } };
  },
});

/** It cannot be suspended while it waits. */
const fit = defineTool({
  name: 'fit',
  description: 'Fits a shirt once it is allowed to, and asks twice',
  schema: z.object({ what: z.string() }),
  execute: async (_input, context) => {
    const sizes = [await context.ask({ prompt: 'Which size?', schema })];
    sizes.push(await context.ask({ prompt: 'And now?', schema }));
    return { result: sizes };
  },
});

describe('a question', () => {
  let server: TestServer;

  beforeAll(async () => {
    server = await bootServer({ tools: createToolRegistry([order, fit]) });
  });

  afterAll(async () => {
    await server.stop();
  });

  async function asking() {
    const talk = await startRun(server, {
      input: 'use order {"what":"shirt"}',
      tools: [{ name: 'order', kind: 'builtin' }],
    });
    const relay = await talk.reader.until('approval_requested');
    const path = `/v1/approvals/${String(relay.data['id'])}`;
    const decide = (body: unknown) => server.request(path, { body });
    return { ...talk, relay, path, decide };
  }

  it('is requested with its schema, and passes a valid answer to the tool', async () => {
    const { relay, path, decide, reader, runId } = await asking();
    expect(relay.data).toMatchObject({ kind: 'question', prompt: 'Which\u202e size?', schema });
    expect(await server.json(path)).toMatchObject({
      kind: 'question',
      status: 'pending',
      runId,
      tool: 'order',
      params: { what: 'shirt' },
      prompt: 'Which\u202e size?',
      schema,
      display: { text: expect.stringContaining('\\u{202e}'), flags: ['bidi'] },
    });
    const input = { size: 'M' };
    const answered = await decide({ approved: true, input });
    expect(answered.status).toBe(200);
    expect(await answered.json()).toMatchObject({ status: 'approved', input });
    expect((await decide({ approved: true, input })).status).toBe(200);
    expect((await decide({ approved: true, input: { size: 'S' } })).status).toBe(409);
    const frames = await reader.rest();
    expect(frames.find(({ data }) => data.type === 'tool_result')?.data['output']).toEqual({
      what: 'shirt',
      answer: input,
    });
  });

  it('is answered by one of the approvers that the policy names for its tool', async () => {
    const approvers = [{ tool: 'order', groups: ['shop'], quorum: 2 }];
    const { apiKey: key } = await addKey(server.store, { groups: ['shop'] });
    // The policy allows the call itself, whoever its approvers are.
    await server.json('/v1/policy', {
      method: 'PUT',
      body: { version: 0, allow: [{ tool: 'order' }], approvers },
    });
    const { path, decide, reader } = await asking();
    const body = { approved: true, input: { size: 'M' } };
    expect((await decide(body)).status).toBe(403);
    expect((await decide({ approved: false })).status).toBe(403);
    const answered = await server.request(path, { key, body });
    expect(await answered.json()).toMatchObject({ status: 'approved', quorum: 1 });
    await reader.rest();
    await server.json('/v1/policy', { method: 'PUT', body: { version: 1 } });
  });

  it.each([
    ['no answer', { approved: true }, 'input'],
    ['an answer that does not fit', { approved: true, input: { size: 'XL' } }, 'input.size'],
    ['an answer of another kind', { approved: true, input: 'M' }, 'input'],
    ['always', { approved: true, input: { size: 'M' }, always: true }, 'always'],
    ['an answer with a refusal', { approved: false, input: { size: 'M' } }, 'input'],
    ['an output', { approved: true, input: { size: 'M' }, output: 1 }, 'output'],
  ])('refuses %s with 400, and stays open', async (_what, body, field) => {
    const { decide, path, reader, runId } = await asking();
    const response = await decide(body);
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({
      code: 'invalid_request',
      details: [{ path: field }],
    });
    expect(await server.json(path)).toMatchObject({ status: 'pending' });
    await server.request(`/v1/runs/${runId}/cancel`, { method: 'POST' });
    await reader.rest();
  });

  it('is listed by its kind', async () => {
    const { relay, runId, reader } = await asking();
    const { approvals } = await server.json('/v1/approvals?kind=question&status=pending');
    expect(approvals).toMatchObject([{ id: relay.data['id'] }]);
    await server.request(`/v1/runs/${runId}/cancel`, { method: 'POST' });
    await reader.rest();
  });

  it('can be answered by the other surfaces', async () => {
    const { runId, reader } = await asking();
    const wanted = { runId, toolCallId: 'call_1', kind: 'question', action: 'approve' };
    expect((await decideCall(server, { ...wanted, input: { size: 'XL' } })).code).toBe(400);
    const input = { size: 'M' };
    expect((await decideCall(server, { ...wanted, action: 'reject', input })).code).toBe(400);
    expect(await decideCall(server, { ...wanted, input })).toMatchObject({ code: 200 });
    const outputIn = (frames: readonly { data: Record<string, unknown> }[]) =>
      frames.find(({ data }) => data['type'] === 'tool_result')?.data['output'];
    expect(outputIn(await reader.rest())).toMatchObject({ answer: input });
    const chat = await startChat(server, 'use order {"what":"shirt"}');
    const relay = await chat.reader.until('relay');
    const answer = (response: unknown) =>
      answerApproval(server, chat, { approvalId: relay.data['id'], response });
    expect((await answer({ approved: true, input: { size: 'XL' } })).status).toBe(400);
    expect((await answer({ approved: true, input })).status).toBe(200);
    expect(JSON.stringify(await chat.reader.rest())).toContain('"size":"M"');
  });

  it('of a tool that waits in memory is returned at once by tool-approval', async () => {
    const { runId, reader } = await startRun(server, {
      input: 'use fit {"what":"shirt"}',
      tools: [{ name: 'fit', kind: 'builtin' }],
    });
    await reader.until('approval_requested');
    await untilStatus(server, runId, 'waiting');
    const wanted = { runId, toolCallId: 'call_1', action: 'approve' };
    const approved = await decideCall(server, wanted);
    expect(approved).toMatchObject({ code: 200, body: { status: 'waiting' } });
    // All events up to the question are returned.
    expect(approved.events.at(-1)).toMatchObject({ type: 'tool_approval_requested' });
    expect(await resumeRun(server, runId)).toMatchObject({ body: { status: 'waiting' } });
    const answer = { ...wanted, kind: 'question', input: { size: 'S' } };
    const first = await decideCall(server, answer);
    expect(first).toMatchObject({ code: 200, body: { status: 'waiting' } });
    const second = await decideCall(server, { ...answer, input: { size: 'M' } });
    expect(second).toMatchObject({ code: 200, body: { status: 'succeeded' } });
    await reader.rest();
  });

  it('can be denied, but not approved without an answer, by the other surfaces', async () => {
    const { runId, reader } = await asking();
    const wanted = { runId, toolCallId: 'call_1', kind: 'question' };
    expect((await decideCall(server, { ...wanted, action: 'approve' })).code).toBe(400);
    expect((await decideCall(server, { ...wanted, action: 'reject' })).code).toBe(200);
    const frames = await reader.rest();
    expect(frames.find(({ data }) => data.type === 'tool_result')?.data['output']).toMatchObject({
      status: 'error',
    });
    const chat = await startChat(server, 'use order {"what":"shirt"}');
    const relay = await chat.reader.until('relay');
    const answer = (response: unknown) =>
      answerApproval(server, chat, { approvalId: relay.data['id'], response });
    expect((await answer({ approved: true })).status).toBe(400);
    expect((await answer({ approved: false, reason: 'No' })).status).toBe(200);
    await chat.reader.rest();
  });
});
