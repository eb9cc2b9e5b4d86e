import { allFrames, dataOf } from '../../support/frames.ts';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { bootServer, type TestServer, until } from '../../support/server.ts';
import {
  answerApproval,
  decideCall,
  eventsOf,
  startChat,
  startRun,
  untilStatus,
} from '../../support/requests.ts';

describe('/v1/approvals', () => {
  let server: TestServer;

  beforeAll(async () => {
    server = await bootServer();
  });

  afterAll(async () => {
    await server.stop();
  });

  /** A run that waits for a person. */
  async function asking(text: string) {
    const talk = await startRun(server, { input: `notify ${text}` });
    const relay = await talk.reader.until('approval_requested');
    const path = `/v1/approvals/${String(relay.data['id'])}`;
    const decide = (body: unknown) => server.request(path, { body });
    return { ...talk, relay, path, decide };
  }

  it('returns an approval with everything that is needed to decide it', async () => {
    const { runId, relay, path, decide, reader } = await asking('look at me');
    expect(await server.json(path)).toMatchObject({
      id: relay.data['id'],
      status: 'pending',
      kind: 'permission',
      runId,
      agentId: relay.data['agentId'],
      agentPath: ['assistant'],
      toolCallId: 'call_1',
      tool: 'send_note',
      params: { to: 'operator', text: 'look at me' },
      digest: expect.stringMatching(/^[0-9a-f]{64}$/),
      requestedAt: expect.stringMatching(/Z$/),
      expiresAt: expect.stringMatching(/Z$/),
    });
    await decide({ approved: false });
    await reader.rest();
  });

  it('runs the tool once it is approved, and records by whom', async () => {
    const { path, decide, reader, runId } = await asking('approved here');
    const response = await decide({ approved: true });
    expect(response.status).toBe(200);
    expect(await response.json()).toMatchObject({
      status: 'approved',
      decidedAt: expect.stringMatching(/Z$/),
      decidedBy: { type: 'key' },
    });
    await reader.rest();
    expect(server.notes().filter((line) => line.includes('approved here'))).toHaveLength(1);
    expect(await server.json(path)).toMatchObject({ status: 'approved' });
    const { events } = await eventsOf(server, runId);
    expect(events.filter(({ type }) => type === 'approval.decided')).toHaveLength(1);
  });

  it('accepts the same decision again, also after the end, and refuses another one', async () => {
    const { decide, reader } = await asking('decided once');
    expect((await decide({ approved: false, reason: 'No' })).status).toBe(200);
    const repeated = await decide({ approved: false });
    expect(repeated.status).toBe(200);
    expect(await repeated.json()).toMatchObject({ status: 'denied', reason: 'No' });
    const contradicted = await decide({ approved: true });
    expect(contradicted.status).toBe(409);
    expect(await contradicted.json()).toMatchObject({ code: 'approval_conflict' });
    await reader.rest();
    expect((await decide({ approved: false })).status).toBe(200);
    expect((await decide({ approved: true })).status).toBe(409);
    expect(server.notes().join()).not.toContain('decided once');
  });

  it('refuses a repeated approval with additional terms', async () => {
    const { decide, reader } = await asking('once is not always');
    expect((await decide({ approved: true })).status).toBe(200);
    expect((await decide({ approved: true, always: true })).status).toBe(409);
    expect((await decide({ approved: true, always: false })).status).toBe(200);
    await reader.rest();
  });

  it('accepts one of 50 concurrent decisions, and answers 200 only to those that agree', async () => {
    const { decide, path, reader, runId } = await asking('raced');
    const answers = await Promise.all(
      Array.from({ length: 50 }, (_, n) => decide({ approved: n % 2 === 0 })),
    );
    const { status } = await server.json(path);
    for (const [n, answer] of answers.entries()) {
      const agrees = (n % 2 === 0) === (status === 'approved');
      expect(answer.status).toBe(agrees ? 200 : 409);
    }
    await reader.rest();
    const { events } = await eventsOf(server, runId);
    expect(events.filter(({ type }) => type === 'approval.decided')).toHaveLength(1);
  });

  it('refuses to decide an approval of a canceled run', async () => {
    const { decide, path, reader, runId } = await asking('canceled first');
    await server.request(`/v1/runs/${runId}/cancel`, { method: 'POST' });
    await reader.rest();
    expect(await server.json(path)).toMatchObject({ status: 'closed' });
    for (const approved of [true, false]) {
      expect((await decide({ approved })).status).toBe(409);
    }
    expect(server.notes().join()).not.toContain('canceled first');
  });

  it('decides the approval of a chat, which the chat cannot answer then', async () => {
    const chat = await startChat(server, 'notify from both sides');
    const relay = await chat.reader.until('relay');
    const path = `/v1/approvals/${String(relay.data['id'])}`;
    expect((await server.request(path, { body: { approved: true } })).status).toBe(200);
    const late = await answerApproval(server, chat, {
      approvalId: relay.data['id'],
      response: { approved: true },
    });
    expect(late.status).toBe(404);
    await chat.reader.rest();
    expect(server.notes().filter((line) => line.includes('from both sides'))).toHaveLength(1);
  });

  it('runs edited arguments, and returns both', async () => {
    const { decide, path, reader, runId } = await asking('the first words');
    const input = { to: 'operator', text: 'better words' };
    const response = await decide({ approved: true, input });
    expect(response.status).toBe(200);
    const shown = (await response.json()) as Record<string, unknown>;
    expect(shown).toMatchObject({
      status: 'approved',
      params: { to: 'operator', text: 'the first words' },
      executedParams: input,
      executedDigest: expect.stringMatching(/^[0-9a-f]{64}$/),
    });
    expect(shown['executedDigest']).not.toBe(shown['digest']);
    expect((await decide({ approved: true, input })).status).toBe(200);
    expect((await decide({ approved: true })).status).toBe(409);
    expect((await decide({ approved: true, input: { ...input, to: 'x' } })).status).toBe(409);
    const frames = await reader.rest();
    expect(frames.find(({ data }) => data.type === 'approval_resolved')?.data).toMatchObject({
      status: 'approved',
      executedParams: input,
    });
    const notes = server.notes().join('\n');
    expect(notes).toContain('better words');
    expect(notes).not.toContain('the first words');
    const { events } = await eventsOf(server, runId);
    expect(events.find(({ type }) => type === 'tool.started')).toMatchObject({ input });
    expect(await server.json(path)).toEqual(shown);
    const { entries } = (await server.json(`/v1/audit?runId=${runId}`)) as {
      entries: { action: string; what: object }[];
    };
    expect(entries.find(({ action }) => action === 'approval.decided')?.what).toMatchObject({
      digest: shown['digest'],
      executedDigest: shown['executedDigest'],
    });
  });

  it('shows the arguments that were executed on the streams of all surfaces', async () => {
    const input = { to: 'operator', text: 'better words' };
    const chat = await startChat(server, 'notify the first words');
    const relay = await chat.reader.until('relay');
    const answer = { approvalId: relay.data['id'], response: { approved: true, input } };
    expect((await answerApproval(server, chat, answer)).status).toBe(200);
    const frames = await chat.reader.rest();
    expect(frames.find(({ data }) => data.type === 'relay_resolved')).toMatchObject({
      event: 'relay_resolved',
      data: {
        id: relay.data['id'],
        toolCallId: relay.data['toolCallId'],
        status: 'approved',
        executedParams: input,
      },
    });
    const stream = async (dialect: string) => {
      const path = `/v1/runs/${chat.runId}/stream?dialect=${dialect}`;
      return dataOf(await allFrames(await server.request(path)));
    };
    const inRuntime = await stream('runtime');
    expect(inRuntime.find(({ type }) => type === 'tool_start')).toMatchObject({ args: input });
    const inRuns = await stream('runs');
    expect(inRuns.find(({ type }) => type === 'approval_resolved')).toMatchObject({
      executedParams: input,
    });
    // An approval as it was shown has nothing to add.
    const plain = await startChat(server, 'notify as shown');
    const asked = await plain.reader.until('relay');
    await answerApproval(server, plain, {
      approvalId: asked.data['id'],
      response: { approved: true, input: asked.data['params'] },
    });
    const rest = dataOf(await plain.reader.rest());
    expect(rest.filter(({ type }) => type === 'relay_resolved')).toEqual([]);
  });

  it.each([
    ['arguments that do not fit', { to: 7 }, 400, 'tool_input_invalid'],
    ['arguments that a deny rule refuses', { to: 'mallory', text: 'x' }, 403, 'denied_by_rule'],
  ])('refuses %s, and the approval stays pending', async (_what, input, status, code) => {
    const talk = await startRun(server, {
      input: 'notify refuse the edit',
      permissions: { denylist: [{ tool: 'send_note', params: { to: 'mallory' } }] },
    });
    const relay = await talk.reader.until('approval_requested');
    const path = `/v1/approvals/${String(relay.data['id'])}`;
    const response = await server.request(path, { body: { approved: true, input } });
    expect(response.status).toBe(status);
    expect(await response.json()).toMatchObject({
      code,
      details: [{ path: 'input', message: expect.any(String) }],
    });
    expect(await server.json(path)).toMatchObject({ status: 'pending' });
    await server.request(path, { body: { approved: false } });
    await talk.reader.rest();
    expect(server.notes().join()).not.toContain('mallory');
  });

  it('runs edited arguments, unless a deny rule matches, by the other surfaces', async () => {
    const permissions = { denylist: [{ tool: 'send_note', params: { to: 'mallory' } }] };
    const denied = { to: 'mallory', text: 'x' };
    const edited = (text: string) => ({ to: 'operator', text });
    const talk = await startRun(server, { input: 'notify first here', permissions });
    await talk.reader.until('approval_requested');
    const approve = (input: unknown) =>
      decideCall(server, { runId: talk.runId, toolCallId: 'call_1', action: 'approve', input });
    expect(await approve(denied)).toMatchObject({ code: 403, body: { code: 'denied_by_rule' } });
    expect(await approve(edited('edited here'))).toMatchObject({ code: 200 });
    await talk.reader.rest();
    const chat = await startChat(server, 'notify first there', { body: { permissions } });
    const relay = await chat.reader.until('relay');
    const answer = (input: unknown) =>
      answerApproval(server, chat, {
        approvalId: relay.data['id'],
        response: { approved: true, input },
      });
    expect((await answer(denied)).status).toBe(403);
    expect((await answer(edited('edited there'))).status).toBe(200);
    await chat.reader.rest();
    const notes = server.notes().join();
    expect(notes).toMatch(/edited here.*edited there/s);
    expect(notes).not.toMatch(/first (t?here)|mallory/);
  });

  it.each([
    ['nothing', {}],
    ['approved as text', { approved: 'true' }],
    ['approved as null', { approved: null }],
    ['always with a denial', { approved: false, always: true }],
    ['an output for a permission', { approved: true, output: 1 }],
    ['a reason that is too long', { approved: false, reason: 'x'.repeat(10_001) }],
    ['arguments for a denial', { approved: false, input: { to: 'a', text: 'b' } }],
    ['arguments that are a list', { approved: true, input: [] }],
    ['arguments that are a text', { approved: true, input: '{}' }],
    ['arguments that are null', { approved: true, input: null }],
    ['an unknown field', { approved: true, scope: 'planet' }],
  ])('refuses %s with 400, and the approval stays pending', async (_what, body) => {
    const { decide, path, reader } = await asking('malformed');
    const response = await decide(body);
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ code: 'invalid_request' });
    expect(await server.json(path)).toMatchObject({ status: 'pending' });
    await decide({ approved: false });
    await reader.rest();
  });

  it('announces that an approval is about to expire, on its stream and on the feed', async () => {
    const hasty = await bootServer({ env: { RELAY_APPROVAL_TTL_MS: '3000' } });
    const talk = await startRun(hasty, { input: 'notify hurry up' });
    const relay = await talk.reader.until('approval_requested');
    const connection = new AbortController();
    await untilStatus(hasty, talk.runId, 'waiting');
    const hints: unknown[] = [];
    for await (const batch of hasty.relay.feed.read(hasty.tenantId, connection.signal)) {
      hints.push(...batch);
      if (batch.some((hint) => hint.kind === 'approval')) break;
    }
    const warning = await talk.reader.until('approval_expiring');
    const approval = await hasty.json(`/v1/approvals/${String(relay.data['id'])}`);
    await hasty.request(`/v1/runs/${talk.runId}/cancel`, { method: 'POST' });
    await talk.reader.rest();
    connection.abort();
    await hasty.stop();
    const { id, expiresAt } = approval;
    expect(warning.data).toEqual({ type: 'approval_expiring', id, expiresAt });
    expect(approval).toMatchObject({ status: 'pending' });
    expect(hints).toContainEqual({ kind: 'approval', id });
  });

  it('expires: it cannot be decided any more, and the run continues', async () => {
    const hasty = await bootServer({ env: { RELAY_APPROVAL_TTL_MS: '50' } });
    const talk = await startRun(hasty, { input: 'notify too late' });
    const relay = await talk.reader.until('approval_requested');
    const path = `/v1/approvals/${String(relay.data['id'])}`;
    await until(
      async () => (await hasty.json(path))['status'] === 'expired',
      'the request to expire',
    );
    const late = await hasty.request(path, { body: { approved: true } });
    await untilStatus(hasty, talk.runId, 'completed');
    const frames = await talk.reader.rest();
    const notes = hasty.notes();
    await hasty.stop();
    expect(late.status).toBe(409);
    expect(frames.find(({ data }) => data.type === 'tool_result')?.data['output']).toMatchObject({
      status: 'expired',
    });
    expect(notes).toEqual([]);
  });
});
