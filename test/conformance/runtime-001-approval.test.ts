/** 001: POST /api/chat/tool-approval on a started server, also after kill -9. */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { FrameReader } from '../support/frames.ts';
import { until } from '../support/kernel.ts';
import {
  askFor,
  type Data,
  decide,
  note,
  otherOrg,
  post,
  resume,
  RunRow,
  say,
  statusOf,
  typesOf,
} from './runtime-client.ts';
import { StoreServer } from './store-server.ts';
import { verifies } from './verifies.ts';

const server = new StoreServer();
beforeAll(() => server.start());
afterAll(() => server.dispose());

const sent = (text: string) => server.notes.filter((each) => each.text === text).length;

/** The frames that came after the run began to wait. */
async function restOf(reader: FrameReader): Promise<Data[]> {
  const before = reader.seen.length;
  return (await reader.rest()).slice(before).map(({ data }) => data);
}

async function approvalOf(runId: string): Promise<string> {
  const response = await server.request(`/v1/approvals?runId=${runId}&status=pending`);
  const { approvals } = (await response.json()) as { approvals: { id: string }[] };
  return approvals[0]?.id ?? '';
}

async function restart(): Promise<void> {
  await server.kill();
  await server.start();
}

describe('POST /api/chat/tool-approval', () => {
  test('lets a pending call run, and answers with what the resumed run emitted', async () => {
    verifies(
      '001:approval:endpoint',
      '001:approval:body',
      '001:approval:action-approve',
      '001:approval:response',
      '001:approval-flow:client-call',
      '001:approval-flow:response-events',
    );
    const { asked, reader } = await askFor(server, note('approved'));
    expect(sent('approved')).toBe(0);
    const { runId, toolCallId } = asked;
    const { status, body, events } = await decide(server, { runId, toolCallId, action: 'approve' });
    expect(status).toBe(200);
    expect(body).toMatchObject({ ok: true, events: expect.any(Array) });
    expect(events).toEqual(await restOf(reader));
    expect(events.filter(({ type }) => type.startsWith('tool_'))).toMatchObject([
      { type: 'tool_start', name: 'send_note', toolCallId },
      { type: 'tool_end', name: 'send_note', toolCallId, status: 'succeeded' },
    ]);
    expect(events.at(-1)).toMatchObject({ type: 'done', runId, status: 'succeeded' });
    expect(sent('approved')).toBe(1);
  });

  test('keeps a rejected call from running, and the run goes on', async () => {
    verifies('001:approval:action-reject', '001:approval-flow:response-events');
    const { runId, asked, reader } = await askFor(server, note('rejected'));
    const decision = { runId, toolCallId: asked['toolCallId'], action: 'reject' };
    const { body, events } = await decide(server, { ...decision, reason: 'Not now' });
    expect(body).toMatchObject({ ok: true });
    expect(typesOf(events)).not.toContain('tool_start');
    expect(events.find(({ type }) => type === 'tool_end')).toMatchObject({
      status: 'denied',
      result: { status: 'denied', reason: 'Not now' },
    });
    const words = events.flatMap(({ type, content }) => (type === 'text_delta' ? [content] : []));
    expect(words.join('')).toBe('The note was not sent: it was denied (Not now).');
    expect(events.at(-1)).toMatchObject({ type: 'done', status: 'succeeded' });
    await reader.rest();
    expect(sent('rejected')).toBe(0);
  });

  test('is 400 without runId, toolCallId or action, and decides nothing', async () => {
    verifies('001:approval:body-required');
    const { runId, asked } = await askFor(server, note('incomplete'));
    const whole = { runId, toolCallId: asked['toolCallId'], action: 'approve' };
    for (const field of ['runId', 'toolCallId', 'action']) {
      for (const value of [undefined, null, '']) {
        const { status, body } = await decide(server, { ...whole, [field]: value });
        expect(status).toBe(400);
        expect(body).toMatchObject({
          error: 'runId, toolCallId and action are required',
          details: [{ path: field }],
        });
      }
    }
    expect((await decide(server, [])).status).toBe(400);
    expect(await statusOf(server, runId)).toBe('waiting');
    expect(sent('incomplete')).toBe(0);
  });

  test.each<[string, unknown]>([
    ['another word', 'allow'],
    ['another case', 'Approve'],
    ['a boolean', true],
    ['a list', ['approve']],
    ['a word with a space', 'approve '],
    ['the word of the other surface', 'approved'],
  ])('is 400 for an action that is %s', async (_what, action) => {
    verifies('001:approval:action-unknown');
    const { runId, asked } = await askFor(server, note('unknown action'));
    const toolCallId = asked['toolCallId'];
    const { status, body } = await decide(server, { runId, toolCallId, action });
    expect(status).toBe(400);
    expect(body).toMatchObject({ details: [{ path: 'action' }] });
    expect(await statusOf(server, runId)).toBe('waiting');
    expect(sent('unknown action')).toBe(0);
  });

  test.each<[string, object]>([
    ['runId', { runId: 'mine' }],
    ['toolCallId', { toolCallId: 7 }],
    ['toolCallId', { toolCallId: 'x'.repeat(257) }],
    ['always', { always: 'yes' }],
    ['always', { action: 'reject', always: true }],
    ['reason', { reason: 'x'.repeat(10_001) }],
    ['kind', { kind: 'wish' }],
    ['input', { action: 'reject', input: {} }],
  ])('is 400 for a malformed %s', async (path, change) => {
    verifies('001:approval:body');
    const whole = { runId: randomUUID(), toolCallId: 'call_1', action: 'approve' };
    const { status, body } = await decide(server, { ...whole, ...change });
    expect(status).toBe(400);
    expect(body).toMatchObject({ details: [{ path }] });
  });

  test('does not decide a call of another org, which gets the same response as for a missing one', async () => {
    verifies('001:scope:approval', '001:scope:resume', '001:resume-flow:loads-by-run-and-org');
    const apiKey = await otherOrg(server);
    const { runId, asked } = await askFor(server, note('not theirs'));
    for (const action of ['approve', 'reject']) {
      const decision = { toolCallId: asked['toolCallId'], action };
      const theirs = await decide(server, { ...decision, runId }, { apiKey });
      expect(theirs.status).toBe(404);
      const missing = await decide(server, { ...decision, runId: randomUUID() }, { apiKey });
      expect(theirs).toEqual(missing);
    }
    const resumed = await resume(server, runId, { apiKey });
    expect(resumed.status).toBe(404);
    expect(resumed).toEqual(await resume(server, randomUUID(), { apiKey }));
    expect(await statusOf(server, runId)).toBe('waiting');
    expect(sent('not theirs')).toBe(0);
  });

  test('is a server error with a message where there is no such approval', async () => {
    verifies('001:approval-flow:missing-state');
    const { runId, reader } = await say(server, 'calculate 2*3');
    await reader.rest();
    const waiting = await askFor(server, note('another call'));
    for (const [id, toolCallId] of [
      [runId, 'call_1'],
      [waiting.runId, 'call_2'],
    ]) {
      const { status, body } = await decide(server, { runId: id, toolCallId, action: 'approve' });
      expect(status).toBeGreaterThanOrEqual(500);
      expect(body).toMatchObject({
        error: expect.stringContaining(`has no approval for the tool call ${toolCallId}`),
        code: 'approval_state_missing',
      });
    }
    expect(await statusOf(server, waiting.runId)).toBe('waiting');
  });

  test('reloads what is pending from the output of the run', async () => {
    verifies('001:approval-flow:context-from-output', '001:approval-flow:missing-state');
    const texts = ['first by its output', 'second by its output'];
    const { runId } = await askFor(server, texts.map(note).join('\n'));
    const row = new RunRow(server, runId);
    const { output } = await row.read();
    const stored = JSON.parse(output ?? '{}') as { pendingApprovals: object[] };
    const pending = texts.map((text, index) => ({
      toolCallId: `call_${index + 1}`,
      name: 'send_note',
      args: { to: 'ann', text },
      approvalId: expect.any(String),
      kind: 'permission',
    }));
    expect(stored).toMatchObject({ pendingApprovals: pending, pendingApproval: pending[0] });
    // What the output does not name is not pending, although its approval is stored.
    const [first, second] = stored.pendingApprovals;
    const approve = (toolCallId: string) =>
      decide(server, { runId, toolCallId, action: 'approve' });
    await row.change('output_json = ?', JSON.stringify({ ...stored, pendingApprovals: [first] }));
    expect(await approve('call_2')).toMatchObject({
      status: 500,
      body: { code: 'approval_state_missing', error: expect.stringContaining('call_2') },
    });
    // And what it names is, under the name that it has there.
    const renamed = { ...second, toolCallId: 'call_renamed' };
    const pendingApprovals = [first, renamed];
    await row.change('output_json = ?', JSON.stringify({ ...stored, pendingApprovals }));
    expect(await approve('call_renamed')).toMatchObject({
      status: 200,
      body: { status: 'waiting' },
    });
    expect(texts.map(sent)).toEqual([0, 1]);
    expect(await approve('call_1')).toMatchObject({ status: 200, body: { status: 'succeeded' } });
    expect(texts.map(sent)).toEqual([1, 1]);
  });

  test('sent twice runs the tool once: at once, after the end, and after a restart', async () => {
    verifies('001:failure:approval-once');
    const { runId, asked } = await askFor(server, note('only once'));
    const decision = { runId, toolCallId: asked['toolCallId'], action: 'approve' };
    const responses = await Promise.all(Array.from({ length: 5 }, () => decide(server, decision)));
    expect(responses.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200]);
    expect(responses.filter(({ events }) => events.length > 0)).toHaveLength(1);
    const again = { status: 200, body: { ok: true, status: 'succeeded', events: [] } };
    expect(await decide(server, decision)).toMatchObject(again);
    await restart();
    expect(await decide(server, decision)).toMatchObject(again);
    expect((await decide(server, { ...decision, action: 'reject' })).status).toBe(409);
    expect(sent('only once')).toBe(1);
  });
});

describe('a decision after kill -9 and a restart', () => {
  test.each([
    ['approve', 1],
    ['reject', 0],
  ])('by tool-approval resumes the run: %s', async (action, times) => {
    verifies('001:approval-flow:after-restart', '001:approval-flow:resumes-from-state');
    const text = `after a restart: ${action}`;
    const { runId, asked, reader } = await askFor(server, note(text));
    const before = reader.seen.length;
    await restart();
    await reader.close().catch(() => undefined);
    expect(await statusOf(server, runId)).toBe('waiting');
    const decision = { runId, toolCallId: asked['toolCallId'], action };
    const { status, body, events } = await decide(server, decision);
    expect(status).toBe(200);
    expect(body).toMatchObject({ ok: true, status: 'succeeded' });
    expect(events[0]).toMatchObject({ type: 'agent_progress', status: 'running' });
    expect(events.at(-1)).toMatchObject({ type: 'done', runId, status: 'succeeded' });
    // Nothing from before the decision is streamed or run again.
    expect(typesOf(events)).not.toContain('tool_approval_requested');
    expect(typesOf(events)).not.toContain('text_reset');
    const path = `/v1/runs/${runId}/stream?dialect=runtime`;
    const whole = await new FrameReader(await server.request(path)).rest();
    expect(events).toEqual(whole.slice(before).map(({ data }) => data));
    expect(sent(text)).toBe(times);
  });

  test('under /v1/approvals resumes the run too', async () => {
    verifies('001:approval-flow:after-restart', '001:approval-flow:resumes-from-state');
    const { runId, asked, reader } = await askFor(server, note('by the control plane'));
    await restart();
    await reader.close().catch(() => undefined);
    const path = `/v1/approvals/${await approvalOf(runId)}`;
    expect((await server.request(path, { body: { approved: true } })).status).toBe(200);
    await until(async () => (await statusOf(server, runId)) === 'completed', 'the end');
    expect(sent('by the control plane')).toBe(1);
    const decision = { runId, toolCallId: asked['toolCallId'], action: 'approve' };
    expect(await decide(server, decision)).toMatchObject({ status: 200, events: [] });
  });

  test('of one of two calls leaves the other for yet another restart', async () => {
    verifies('001:approval-flow:after-restart', '001:approval-flow:response-events');
    const { runId, reader } = await askFor(server, [note('first'), note('second')].join('\n'));
    const decideOn = (toolCallId: string) =>
      decide(server, { runId, toolCallId, action: 'approve' });
    await restart();
    await reader.close().catch(() => undefined);
    const one = await decideOn('call_1');
    expect(one.body).toMatchObject({ ok: true, status: 'waiting' });
    expect(one.events.at(-1)).toMatchObject({ type: 'agent_progress', status: 'waiting' });
    expect([sent('first'), sent('second')]).toEqual([1, 0]);
    await restart();
    const two = await decideOn('call_2');
    expect(two.events.at(-1)).toMatchObject({ type: 'done', status: 'succeeded' });
    expect(await decideOn('call_1')).toMatchObject({ status: 200, events: [] });
    expect([sent('first'), sent('second')]).toEqual([1, 1]);
  });

  test('that a crash interrupted is applied exactly once', async () => {
    verifies('001:approval-flow:after-restart', '001:failure:approval-once');
    const { runId, asked, reader } = await askFor(server, note('cut short'));
    const decision = { runId, toolCallId: asked['toolCallId'], action: 'approve' };
    const cut = post(server, '/api/chat/tool-approval', { body: decision }).catch(() => undefined);
    await until(async () => sent('cut short') === 1, 'the note');
    await restart();
    await Promise.all([cut, reader.close().catch(() => undefined)]);
    const { body } = await resume(server, runId);
    // Whether the tool came to its end was stored in time or not: then a person is asked about it.
    const isAsked = body['status'] === 'waiting';
    expect((await decide(server, decision)).status).toBe(isAsked ? 400 : 200);
    if (isAsked) {
      const { events } = await decide(server, { ...decision, kind: 'outcome', action: 'reject' });
      expect(events.at(-1)).toMatchObject({ type: 'done' });
    } else {
      expect(body['status']).toBe('succeeded');
    }
    expect(sent('cut short')).toBe(1);
  });
});

describe('an approved tool that kill -9 interrupted', () => {
  const held = new StoreServer({ TEST_ASK: 'yes' }, 'test/support/servers/blocking-tools.ts');
  afterAll(() => held.dispose());

  async function leftRunning(text: string) {
    await held.kill();
    await held.start({ TEST_HOLD: 'yes' });
    const { runId, asked, reader } = await askFor(held, `use pay {"text":"${text}"}`);
    const approve = { runId, toolCallId: asked['toolCallId'], action: 'approve' };
    const cut = post(held, '/api/chat/tool-approval', { body: approve }).catch(() => undefined);
    const paid = () => held.notes.filter((each) => each.text === text).length;
    await until(async () => paid() === 1, 'the payment');
    await held.kill();
    await Promise.all([cut, reader.close().catch(() => undefined)]);
    await held.start();
    await until(async () => (await statusOf(held, runId)) === 'waiting', 'the question');
    return { approve, paid };
  }

  test('is not run again because the approval is sent again', async () => {
    verifies('001:failure:approval-once');
    const { approve, paid } = await leftRunning('no second time');
    for (const kind of [undefined, 'outcome']) {
      for (const output of [undefined, 'paid']) {
        expect(await decide(held, { ...approve, kind, output })).toMatchObject({
          status: 400,
          body: { code: 'outcome_answer_required' },
        });
      }
    }
    expect(await decide(held, { ...approve, kind: 'permission' })).toMatchObject({
      status: 200,
      body: { ok: true, status: 'waiting', events: [] },
    });
    const { events } = await decide(held, { ...approve, action: 'reject', reason: 'Leave it' });
    expect(events.find(({ type }) => type === 'tool_end')).toMatchObject({
      status: 'failed',
      result: { code: 'tool_failed', error: expect.stringMatching(/: Leave it$/) },
    });
    expect(events.at(-1)).toMatchObject({ type: 'done' });
    expect(paid()).toBe(1);
  });

  test('is run again if an approver explicitly decides so', async () => {
    verifies('001:approval:action-approve');
    const { approve, paid } = await leftRunning('a second time');
    const { action: _, ...call } = approve;
    const { events } = await decide(held, { ...call, outcome: 'rerun' });
    expect(events.at(-1)).toMatchObject({ type: 'done', status: 'succeeded' });
    expect(paid()).toBe(2);
    for (const repeated of [{ ...call, outcome: 'rerun' }, approve]) {
      expect(await decide(held, repeated)).toMatchObject({ status: 200, events: [] });
    }
    expect(await decide(held, { ...approve, action: 'reject' })).toMatchObject({ status: 409 });
    expect(paid()).toBe(2);
  });
});
