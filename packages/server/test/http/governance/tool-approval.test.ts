/** `POST /api/chat/tool-approval`. */
import { createRecordingTool } from '@relay/core/testing';
import { uuidv7 } from 'uuidv7';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { dataOf, typesOf } from '../../support/frames.ts';
import { addKey, bootServer, type TestServer, until } from '../../support/server.ts';
import {
  decideCall,
  eventsOf,
  startApiChat,
  startChat,
  startRun,
  statusOf,
} from '../../support/requests.ts';

const missing = '01963a5c-7891-7abc-8ef0-123456789abc';
const note = (text: string) => `use send_note {"to":"ann","text":"${text}"}`;

/** An allowed tool that runs until the test releases it. */
const linger = createRecordingTool({ name: 'linger', allowedByDefault: true });

describe('a decision by tool-approval', () => {
  let server: TestServer;

  beforeAll(async () => {
    server = await bootServer({ file: { tools: [linger] } });
  });

  afterAll(async () => {
    await server.stop();
  });

  const notes = (text: string) => server.notes().filter((line) => line.includes(`"${text}"`));

  /** A chat that waits for a person, and its later events. */
  async function asking(message: string, body: Record<string, unknown> = {}) {
    const { runId, reader } = await startApiChat(server, message, { body });
    for (;;) {
      const { data } = await reader.until('agent_progress');
      if (data['status'] === 'waiting') break;
    }
    const before = reader.seen.length;
    const since = async () => dataOf((await reader.rest()).slice(before));
    const decide = (action: string, more: Record<string, unknown> = {}) =>
      decideCall(server, { runId, toolCallId: 'call_1', action, ...more });
    return { runId, reader, since, decide };
  }

  it.each([
    ['approve', 'succeeded', 1],
    ['reject', 'denied', 0],
  ])('to %s returns the events that follow it', async (...given) => {
    const [action, status, times] = given;
    const text = `to ${action}`;
    const { since, decide } = await asking(note(text));
    const result = await decide(action);
    expect(result.code).toBe(200);
    expect(Object.keys(result.body).toSorted()).toEqual(['events', 'ok', 'status']);
    expect(result.body).toMatchObject({ ok: true, status: 'succeeded' });
    // The stream of the chat has the same events.
    expect(result.events).toEqual(await since());
    expect(result.events[0]).toMatchObject({ type: 'agent_progress', status: 'running' });
    expect(result.events.at(-1)).toMatchObject({ type: 'done', status: 'succeeded' });
    const ends = result.events.filter(({ type }) => type === 'tool_end');
    expect(ends).toMatchObject([{ toolCallId: 'call_1', status }]);
    expect(notes(text)).toHaveLength(times);
  });

  it('passes the reason to the model', async () => {
    const { decide } = await asking(note('why'));
    const { events } = await decide('reject', { reason: 'Not on a Sunday' });
    const words = events.flatMap(({ type, content }) => (type === 'text_delta' ? [content] : []));
    const answer = words.join('');
    expect(answer).toBe('The note was not sent: it was denied (Not on a Sunday).');
  });

  it('of one of two approvals returns when the run waits for the other', async () => {
    const [one, two] = [`one`, `two`];
    const { runId, since } = await asking(`${note(one)}\n${note(two)}`);
    const decide = (toolCallId: string, action: string) =>
      decideCall(server, { runId, toolCallId, action });
    const first = await decide('call_2', 'approve');
    expect(first.body).toMatchObject({ ok: true, status: 'waiting' });
    expect(typesOf(first.events)).toEqual([
      'agent_progress',
      'tool_start',
      'tool_end',
      'agent_progress',
    ]);
    expect(first.events.at(-1)).toMatchObject({ status: 'waiting' });
    expect(await statusOf(server, runId)).toBe('waiting');
    expect([notes(one), notes(two)].map(({ length }) => length)).toEqual([0, 1]);
    const second = await decide('call_1', 'reject');
    expect(second.body).toMatchObject({ status: 'succeeded' });
    expect([...first.events, ...second.events]).toEqual(await since());
    expect(notes(one)).toEqual([]);
  });

  it('of both approvals concurrently runs each tool once', async () => {
    const texts = [`left`, `right`];
    const { runId, reader } = await asking(texts.map(note).join('\n'));
    const result = await Promise.all(
      ['call_1', 'call_2'].map((toolCallId) =>
        decideCall(server, { runId, toolCallId, action: 'approve' }),
      ),
    );
    expect(result.map(({ code }) => code)).toEqual([200, 200]);
    await reader.rest();
    for (const text of texts) expect(notes(text)).toHaveLength(1);
  });

  it('waits for an active run, and returns no events from before it', async () => {
    linger.hold();
    const message = `use linger {}\n${note(`beside`)}`;
    const { runId, reader } = await startApiChat(server, message);
    await reader.until('tool_approval_requested');
    let answered = false;
    const body = { runId, toolCallId: 'call_2', action: 'approve' };
    const deciding = decideCall(server, body).finally(() => {
      answered = true;
    });
    await until(() => notes(`beside`).length === 1, 'the note');
    expect(await statusOf(server, runId)).toBe('running');
    expect(answered).toBe(false);
    linger.release();
    const { body: result, events } = await deciding;
    expect(result).toMatchObject({ status: 'succeeded' });
    const frames = dataOf(await reader.rest());
    const start = frames.findIndex(
      (data) => data.type === 'tool_start' && data['toolCallId'] === 'call_2',
    );
    expect(events).toEqual(frames.slice(start));
  });

  it('returns the end of a run that is canceled meanwhile', async () => {
    linger.hold();
    const { runId, reader } = await startApiChat(server, `use linger {}\n${note('stopped')}`);
    await reader.until('tool_approval_requested');
    const deciding = decideCall(server, { runId, toolCallId: 'call_2', action: 'reject' });
    await reader.until('tool_end');
    await server.request(`/v1/runs/${runId}/cancel`, { method: 'POST' });
    const { code, body, events } = await deciding;
    linger.release();
    expect(code).toBe(200);
    expect(body).toMatchObject({ ok: true, status: 'canceled' });
    expect(events.at(-1)).toMatchObject({ type: 'done', status: 'canceled' });
    await reader.rest();
  });

  it('can be about the call of a sub-agent', async () => {
    const task = JSON.stringify({ prompt: note(`below`) });
    const { runId, reader } = await startApiChat(server, `use agent ${task}`);
    const { data } = await reader.until('tool_approval_requested');
    expect(data).toMatchObject({ name: 'send_note', agentId: expect.any(String) });
    const decision = { runId, toolCallId: data['toolCallId'], action: 'approve' };
    const { body, events } = await decideCall(server, decision);
    expect(body).toMatchObject({ status: 'succeeded' });
    const own = events.filter(({ toolCallId }) => toolCallId === data['toolCallId']);
    expect(own).toMatchObject([
      { type: 'tool_start', agentId: data['agentId'] },
      { type: 'tool_end', agentId: data['agentId'], status: 'succeeded' },
    ]);
    await reader.rest();
    expect(notes(`below`)).toHaveLength(1);
  });

  it('can be about a run of any surface', async () => {
    const run = await startRun(server, { input: note(`a run`) });
    const chat = await startChat(server, note(`a chat`));
    await run.reader.until('approval_requested');
    await chat.reader.until('relay');
    for (const { runId, reader } of [run, chat]) {
      const decision = { runId, toolCallId: 'call_1', action: 'approve' };
      expect(await decideCall(server, decision)).toMatchObject({ body: { status: 'succeeded' } });
      await reader.rest();
    }
    for (const text of ['a run', 'a chat']) expect(notes(text)).toHaveLength(1);
  });

  it.each<[string, string, string]>([
    ['broken', '{"runId":', 'invalid_json'],
    ['nothing', '', 'invalid_json'],
    ['of a field twice', '{"action":"reject","action":"approve"}', 'invalid_request'],
    ['that reaches for a prototype', '{"__proto__":{"action":"approve"}}', 'invalid_json'],
    ['too deep', `{"action":${'['.repeat(99)}${']'.repeat(99)}}`, 'invalid_request'],
  ])('is refused for JSON that is %s', async (_what, body, code) => {
    for (const path of ['/api/chat/tool-approval', '/api/chat/resume', '/api/chat', '/v1/keys']) {
      const headers = { 'content-type': 'application/json' };
      const response = await server.request(path, { method: 'POST', body, headers });
      expect(response.status).toBe(400);
      expect(await response.json()).toMatchObject({ code, error: expect.stringMatching(/\w/) });
    }
  });

  it('that is repeated returns 200 without events, also after the end', async () => {
    const { decide, reader } = await asking(note(`again`));
    expect((await decide('approve')).code).toBe(200);
    for (let n = 0; n < 2; n += 1) {
      const again = await decide('approve');
      expect(again.code).toBe(200);
      expect(again.body).toEqual({ ok: true, status: 'succeeded', events: [] });
      await reader.rest();
    }
    expect(notes(`again`)).toHaveLength(1);
  });

  it.each([
    ['approve', 'reject'],
    ['reject', 'approve'],
  ])('to %s cannot be contradicted by one to %s', async (first, second) => {
    const { decide } = await asking(note(`no ${first}`));
    await decide(first);
    const { code, body } = await decide(second);
    expect(code).toBe(409);
    expect(body).toMatchObject({
      code: 'approval_conflict',
      error: expect.stringContaining('already'),
    });
    expect(notes(`no ${first}`)).toHaveLength(first === 'approve' ? 1 : 0);
  });

  it('agrees with one that was made under /v1/approvals', async () => {
    const { runId, decide, reader } = await asking(note(`elsewhere`));
    const { approvals } = (await server.json(`/v1/approvals?runId=${runId}`)) as {
      approvals: { id: string }[];
    };
    const body = { approved: true };
    await server.request(`/v1/approvals/${approvals[0]?.id ?? ''}`, { body });
    expect(await decide('approve')).toMatchObject({ code: 200, events: [] });
    expect((await decide('approve', { always: true })).code).toBe(409);
    expect((await decide('reject')).code).toBe(409);
    await reader.rest();
    expect(notes(`elsewhere`)).toHaveLength(1);
  });

  it('for always covers later calls in its conversation', async () => {
    const conversationId = uuidv7();
    const { decide } = await asking(note(`always`), { conversationId });
    expect((await decide('approve', { always: true })).code).toBe(200);
    const next = await startApiChat(server, note(`always`), { body: { conversationId } });
    expect(typesOf(dataOf(await next.reader.rest()))).not.toContain('tool_approval_requested');
    expect(notes(`always`)).toHaveLength(2);
  });

  it('is 409 for a run that was canceled, and nothing runs', async () => {
    const { runId, decide, reader } = await asking(note(`canceled`));
    await server.request(`/v1/runs/${runId}/cancel`, { method: 'POST' });
    await reader.rest();
    for (const action of ['approve', 'reject']) {
      const { code, body } = await decide(action);
      expect(code).toBe(409);
      expect(body['error']).toBe('This tool call is already closed');
    }
    expect(notes(`canceled`)).toEqual([]);
  });

  it('is 409 for an expired approval, whether its run has recorded that or not', async () => {
    const hasty = await bootServer({ env: { RELAY_APPROVAL_TTL_MS: '40' } });
    onTestFinished(() => hasty.stop());
    const { runId, reader } = await startApiChat(hasty, note('late'));
    const { data } = await reader.until('tool_approval_requested');
    const { events } = await eventsOf(hasty, runId);
    const raised = events.find(({ type }) => type === 'approval.requested');
    await until(() => Date.now() > Date.parse(String(raised?.['expiresAt'])), 'the expiry');
    const body = { runId, toolCallId: data['toolCallId'], action: 'approve' };
    const expired = { code: 409, body: { error: 'This tool call is already expired' } };
    expect(await decideCall(hasty, body)).toMatchObject(expired);
    await reader.rest();
    expect(await decideCall(hasty, body)).toMatchObject(expired);
    expect(hasty.notes()).toEqual([]);
  });

  it('is 404 for an unknown run and for one of another tenant', async () => {
    const { runId, decide } = await asking(note(`mine`));
    const stranger = await addKey(server.store, { tenant: 'stranger' });
    const body = { toolCallId: 'call_1', action: 'approve' };
    const nobodys = await decideCall(server, { ...body, runId: missing });
    const theirs = await decideCall(server, { ...body, runId }, { key: stranger.apiKey });
    expect(nobodys.code).toBe(404);
    expect(theirs).toEqual(nobodys);
    expect(await statusOf(server, runId)).toBe('waiting');
    await decide('reject');
  });

  it('is 500 for a call without an approval, and is not logged as a failure', async () => {
    const { runId, reader } = await startApiChat(server, 'calculate 1+2');
    await reader.rest();
    for (const toolCallId of ['call_1', 'call_99', '__proto__']) {
      const { code, body } = await decideCall(server, { runId, toolCallId, action: 'approve' });
      expect(code).toBe(500);
      expect(body).toEqual({
        code: 'approval_state_missing',
        error: `The run ${runId} has no approval for the tool call ${toolCallId}`,
      });
    }
    expect(server.logged.filter((line) => line.includes('A request failed'))).toEqual([]);
  });

  it('requires only the scope approve', async () => {
    const { runId, decide } = await asking(note(`scoped`));
    const body = { runId, toolCallId: 'call_1', action: 'approve' };
    for (const scopes of [['runs'], ['admin'], ['runs', 'admin']]) {
      const { apiKey: key } = await addKey(server.store, { scopes });
      const { code, body: result } = await decideCall(server, body, { key });
      expect(code).toBe(403);
      expect(result).toMatchObject({ code: 'scope_required' });
    }
    expect(notes(`scoped`)).toEqual([]);
    const { apiKey: key } = await addKey(server.store, { scopes: ['approve'] });
    expect((await decideCall(server, body, { key })).code).toBe(200);
    expect((await decide('approve')).events).toEqual([]);
  });

  it('accepts one of 20 concurrent decisions, and the tool runs at most once', async () => {
    const { runId, decide, reader } = await asking(note(`raced`));
    const actions = Array.from({ length: 20 }, (_, n) => (n % 2 === 0 ? 'approve' : 'reject'));
    const result = await Promise.all(actions.map((action) => decide(action)));
    await reader.rest();
    const { events } = await eventsOf(server, runId);
    const decided = events.filter(({ type }) => type === 'approval.decided');
    expect(decided).toHaveLength(1);
    const won = decided[0]?.['approved'] === true ? 'approve' : 'reject';
    for (const [n, { code }] of result.entries()) expect(code).toBe(actions[n] === won ? 200 : 409);
    expect(result.filter(({ events: shown }) => shown.length > 0)).toHaveLength(1);
    expect(notes(`raced`)).toHaveLength(won === 'approve' ? 1 : 0);
  });
});
