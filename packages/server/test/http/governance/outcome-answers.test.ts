/** An approval of kind `outcome`: only an explicit answer runs the call again. */
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createMemoryStore } from '@relay/store';
import { defineTool } from '@relay/tools';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { z } from 'zod';
import {
  answerApproval,
  decideCall,
  startChat,
  startRun,
  untilStatus,
} from '../../support/requests.ts';
import { addKey, bootServer, type TestServer, until } from '../../support/server.ts';

interface Payload {
  readonly type: string;
  readonly decisionUrl?: string;
  readonly approval: Readonly<Record<string, unknown>> & { readonly id: string };
}

interface Asked {
  readonly id: string;
  readonly runId: string;
  readonly toolCallId: string;
  readonly params: { readonly order: string };
}

describe('an approval of a call that was started before a crash or a stop of the server', () => {
  const refunds: string[] = [];
  let holds = true;
  const refund = defineTool({
    name: 'refund',
    description: 'Refunds an order',
    schema: z.strictObject({ order: z.string() }),
    async execute({ order }) {
      refunds.push(order);
      if (holds) await new Promise(() => undefined);
      return { result: { refunded: order } };
    },
  });
  const orders = [
    'bare',
    'rerun',
    'completed',
    'failed',
    'denied',
    'fields',
    'runtime',
    'link-rerun',
    'link-completed',
    'link-failed',
    'policy',
    'voted-rerun',
    'voted-failed',
  ] as const;
  type Order = (typeof orders)[number];
  const store = createMemoryStore();
  const payloads: Payload[] = [];
  const asked = new Map<string, Asked>();
  let server: TestServer;
  let receiver: Server;

  /** All calls start, the server stops in the middle of them, and another one takes over. */
  beforeAll(async () => {
    receiver = createServer((request, response) => {
      let body = '';
      request.on('data', (chunk: Buffer) => (body += chunk.toString()));
      request.on('end', () => {
        payloads.push(JSON.parse(body) as Payload);
        response.end();
      });
    });
    await new Promise<void>((resolve) => receiver.listen(0, '127.0.0.1', resolve));
    const { port } = receiver.address() as AddressInfo;
    const file = { tools: [refund] };
    const env = { RELAY_PRIVATE_NETWORKS: '127.0.0.0/8', RELAY_PUBLIC_URL: 'http://127.0.0.1:1' };
    const dead = await bootServer({ store, file, env });
    await dead.json('/v1/webhooks', {
      body: {
        url: `http://127.0.0.1:${port}/`,
        events: ['approval.requested', 'approval.voted', 'approval.decided'],
      },
    });
    const tools = [{ name: 'refund', kind: 'builtin' }];
    const permissions = { allowlist: [{ tool: 'refund' }] };
    for (const order of orders) {
      await startRun(dead, { input: `use refund {"order":"${order}"}`, tools, permissions });
    }
    await until(() => refunds.length === orders.length, 'all calls to start');
    await dead.stop();
    holds = false;
    server = await bootServer({ store, file, env });
    await until(async () => {
      const { approvals } = await server.json('/v1/approvals?kind=outcome&limit=100');
      for (const each of approvals as Asked[]) asked.set(each.params.order, each);
      return asked.size === orders.length;
    }, 'the questions about all outcomes');
  }, 30_000);
  afterAll(async () => {
    await server.stop();
    receiver.closeAllConnections();
    receiver.close();
  });

  const of = (order: Order): Asked => {
    const approval = asked.get(order);
    if (approval === undefined) throw new Error(`No approval for ${order}`);
    return approval;
  };
  const sentFor = (order: Order, event: string): Promise<Payload> =>
    until(
      () => payloads.find(({ type, approval }) => type === event && approval.id === of(order).id),
      `the webhook ${event} for ${order}`,
    );
  const executions = (order: Order) => refunds.filter((each) => each === order).length;
  const post = (order: Order, body: unknown) =>
    server.request(`/v1/approvals/${of(order).id}`, { body });
  const status = async (order: Order, body: unknown) => (await post(order, body)).status;
  const read = (order: Order) => server.json(`/v1/approvals/${of(order).id}`);
  const auditOf = async (order: Order) => {
    const { entries } = (await server.json(`/v1/audit?runId=${of(order).runId}`)) as {
      entries: { action: string; what: Record<string, unknown> }[];
    };
    return entries.filter(({ action }) => action === 'approval.decided').map(({ what }) => what);
  };

  it('says in its display that the call was started and may have taken effect', async () => {
    const { display } = (await read('bare')) as { display: { text: string } };
    expect(display.text).toBe(
      'This call was started before a crash or a stop of the server and may have taken effect:\nrefund {\n  "order": "bare"\n}',
    );
  });

  it.each([{ approved: true }, { approved: true, output: 'x' }, { approved: true, reason: 'ok' }])(
    'is not answered by %j',
    async (body) => {
      const response = await post('bare', body);
      expect(response.status).toBe(400);
      expect(await response.json()).toMatchObject({
        code: 'outcome_answer_required',
        error: expect.stringMatching(/rerun.*completed.*failed/),
      });
      expect(await read('bare')).toMatchObject({ status: 'pending' });
      expect(executions('bare')).toBe(1);
    },
  );

  it.each([
    [{}, 'approved'],
    [{ outcome: 'maybe' }, 'outcome'],
    [{ outcome: 'completed' }, 'output'],
    [{ outcome: 'rerun', output: 'x' }, 'output'],
    [{ outcome: 'failed', output: 'x' }, 'output'],
    [{ approved: false, output: 'x' }, 'output'],
    [{ outcome: 'rerun', approved: true }, 'outcome'],
    [{ outcome: 'failed', approved: false }, 'outcome'],
    [{ outcome: 'rerun', always: true }, 'always'],
    [{ outcome: 'rerun', input: { order: 'other' } }, 'input'],
    [{ outcome: 'rerun', scope: 'tenant' }, 'scope'],
  ])('refuses %j', async (body, path) => {
    const response = await post('fields', body);
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ code: 'invalid_request', details: [{ path }] });
    expect(await read('fields')).toMatchObject({ status: 'pending' });
  });

  it('runs the call again after “rerun”, once however often that is repeated', async () => {
    const answers = await Promise.all(
      Array.from({ length: 10 }, () => post('rerun', { outcome: 'rerun' })),
    );
    expect(answers.map((response) => response.status)).toEqual(Array(10).fill(200));
    await untilStatus(server, of('rerun').runId, 'completed');
    expect(executions('rerun')).toBe(2);
    expect(await status('rerun', { outcome: 'rerun' })).toBe(200);
    expect(await status('rerun', { outcome: 'failed' })).toBe(409);
    expect(await status('rerun', { outcome: 'completed', output: null })).toBe(409);
    expect(await status('rerun', { approved: false })).toBe(409);
    expect(await status('rerun', { approved: true })).toBe(400);
    expect(executions('rerun')).toBe(2);
    const { runId, toolCallId } = of('rerun');
    expect(await read('rerun')).toMatchObject({
      status: 'approved',
      outcome: 'rerun',
      idempotencyKey: `${runId}:${toolCallId}`,
    });
    expect(await auditOf('rerun')).toMatchObject([
      { kind: 'outcome', approved: true, outcome: 'rerun' },
    ]);
    const sent = await sentFor('rerun', 'approval.decided');
    expect(sent.approval).toMatchObject({ kind: 'outcome', status: 'approved', outcome: 'rerun' });
  });

  it('takes the output of “completed” for the result, without running the call', async () => {
    const answer = { outcome: 'completed', output: { refunded: 'by hand' } };
    expect(await status('completed', answer)).toBe(200);
    expect(await status('completed', { ...answer, reason: 'Seen in the books' })).toBe(200);
    expect(await status('completed', { ...answer, output: 'other' })).toBe(409);
    await untilStatus(server, of('completed').runId, 'completed');
    expect(executions('completed')).toBe(1);
    expect(await read('completed')).toMatchObject({ status: 'approved', ...answer });
    expect(await auditOf('completed')).toMatchObject([{ outcome: 'completed' }]);
  });

  it.each([
    ['failed', { outcome: 'failed', reason: 'No such refund' }],
    ['denied', { approved: false, reason: 'No such refund' }],
  ] as const)('ends the call as an error if it %s', async (order, body) => {
    expect(await status(order, body)).toBe(200);
    expect(await status(order, { outcome: 'failed' })).toBe(200);
    expect(await status(order, { approved: false })).toBe(200);
    expect(await status(order, { outcome: 'rerun' })).toBe(409);
    await untilStatus(server, of(order).runId, 'completed');
    expect(executions(order)).toBe(1);
    expect(await read(order)).toMatchObject({ status: 'denied', outcome: 'failed' });
    expect(await auditOf(order)).toMatchObject([{ approved: false, outcome: 'failed' }]);
  });

  it('is answered through tool-approval by `outcome` alone', async () => {
    const { runId, toolCallId } = of('runtime');
    const call = { runId, toolCallId };
    for (const body of [
      { ...call, action: 'approve' },
      { ...call, action: 'approve', output: 'x' },
      { ...call, action: 'approve', kind: 'outcome' },
    ]) {
      const { code, body: answer } = await decideCall(server, body);
      expect([code, answer['code']]).toEqual([400, 'outcome_answer_required']);
    }
    for (const body of [
      { ...call, action: 'approve', outcome: 'rerun' },
      { ...call, outcome: 'rerun', always: true },
      { ...call, outcome: 'completed' },
    ]) {
      const { code, body: answer } = await decideCall(server, body);
      expect([code, answer['code']]).toEqual([400, 'invalid_request']);
    }
    expect(executions('runtime')).toBe(1);
    const { code, events } = await decideCall(server, { ...call, outcome: 'completed', output: 7 });
    expect(code).toBe(200);
    expect(events.find(({ type }) => type === 'tool_end')).toMatchObject({ result: 7 });
    const again = await decideCall(server, { ...call, outcome: 'completed', output: 7 });
    expect([again.code, again.events]).toEqual([200, []]);
    expect((await decideCall(server, { ...call, action: 'reject' })).code).toBe(409);
    expect(executions('runtime')).toBe(1);
  });

  it('is not run again if a policy denies the call by now', async () => {
    await server.json('/v1/policy', {
      method: 'PUT',
      body: { version: 0, deny: [{ tool: 'refund', params: { order: 'policy' } }] },
    });
    expect(await status('policy', { outcome: 'rerun' })).toBe(403);
    expect(await status('policy', { outcome: 'failed' })).toBe(200);
    expect(executions('policy')).toBe(1);
  });

  it('is answered by the votes of approvers that agree; “failed” is a denial, which decides', async () => {
    const { version } = await server.json('/v1/policy');
    const approvers = [{ tool: 'refund', params: { order: 'voted-*' }, quorum: 2 }];
    await server.json('/v1/policy', { method: 'PUT', body: { version, approvers } });
    const { apiKey: key } = await addKey(server.store, { owner: 'second' });
    const second = async (order: Order, body: unknown) => {
      const response = await server.request(`/v1/approvals/${of(order).id}`, { key, body });
      return (await response.json()) as Record<string, unknown>;
    };
    const rerun = { outcome: 'rerun' };
    expect(await (await post('voted-rerun', rerun)).json()).toMatchObject({ status: 'pending' });
    expect(await sentFor('voted-rerun', 'approval.voted')).toMatchObject({
      approval: { votes: 1, quorum: 2, votedBy: { type: 'key' } },
    });
    const completed = { outcome: 'completed', output: 1 };
    expect(await second('voted-rerun', completed)).toMatchObject({
      status: 'pending',
      votes: [{}, { by: { owner: 'second' } }],
    });
    expect(executions('voted-rerun')).toBe(1);
    expect(await second('voted-rerun', rerun)).toMatchObject({
      status: 'approved',
      outcome: 'rerun',
    });
    await untilStatus(server, of('voted-rerun').runId, 'completed');
    expect(executions('voted-rerun')).toBe(2);
    await post('voted-failed', rerun);
    expect(await second('voted-failed', { outcome: 'failed' })).toMatchObject({ status: 'denied' });
    expect(executions('voted-failed')).toBe(1);
  });

  describe('with a decision link', () => {
    const form = { 'content-type': 'application/x-www-form-urlencoded' };
    const submit = (path: string, fields: Record<string, string>) =>
      server.request(path, {
        key: null,
        body: new URLSearchParams(fields).toString(),
        headers: form,
      });
    async function linkTo(order: Order): Promise<string> {
      const { decisionUrl = '' } = await sentFor(order, 'approval.requested');
      return new URL(decisionUrl).pathname;
    }

    it('offers the three answers and says what each does', async () => {
      const html = await (await server.request(await linkTo('link-rerun'), { key: null })).text();
      expect(html).toContain('Did this tool call take effect?');
      expect(html).toContain(
        'This call was started before a crash or a stop of the server and may have taken effect.',
      );
      expect(html).not.toContain('name="approved"');
      for (const answer of ['rerun', 'completed', 'failed']) {
        expect(html).toContain(`name="outcome" value="${answer}"`);
      }
      expect(html).toContain('It does not run again, and the agent receives its result');
      expect(html).toContain('It does not run again, and the agent receives an error');
      expect(html).toContain('it then takes effect twice');
    });

    it.each([
      { approved: 'true' },
      { approved: 'true', output: 'x' },
      { outcome: 'maybe' },
      { outcome: 'rerun', approved: 'true' },
      {},
    ])('refuses %j', async (fields) => {
      const response = await submit(await linkTo('link-rerun'), fields as Record<string, string>);
      expect(response.status).toBe(400);
      expect(await read('link-rerun')).toMatchObject({ status: 'pending' });
      expect(executions('link-rerun')).toBe(1);
    });

    it.each([
      ['link-rerun', { outcome: 'rerun' }, 'The call runs again', 2],
      ['link-completed', { outcome: 'completed', output: '{"n": 1}' }, 'recorded as completed', 1],
      ['link-failed', { outcome: 'failed', reason: 'Not there' }, 'recorded as failed', 1],
    ] as const)('%s: takes %j', async (order, fields, text, times) => {
      const path = await linkTo(order);
      const response = await submit(path, fields);
      expect([response.status, await response.text()]).toEqual([
        200,
        expect.stringContaining(text),
      ]);
      const repeated = await submit(path, fields);
      expect([repeated.status, await repeated.text()]).toEqual([
        200,
        expect.stringContaining(text),
      ]);
      // "Approved" would not say whether the call runs again.
      const opened = await server.request(path, { key: null });
      expect(await opened.text()).toContain(text);
      await untilStatus(server, of(order).runId, 'completed');
      expect(executions(order)).toBe(times);
      const output = order === 'link-completed' ? { output: { n: 1 } } : {};
      expect(await read(order)).toMatchObject({ outcome: fields.outcome, ...output });
    });
  });

  it('is the only kind that takes an outcome', async () => {
    const chat = await startChat(server, 'notify hello');
    const { data } = await chat.reader.until('relay');
    for (const response of [
      { outcome: 'rerun' },
      { outcome: 'completed', output: 1 },
      { outcome: 'failed' },
    ]) {
      const refused = await answerApproval(server, chat, { approvalId: data['id'], response });
      expect(refused.status).toBe(400);
      const direct = await server.request(`/v1/approvals/${String(data['id'])}`, {
        body: response,
      });
      expect(direct.status).toBe(400);
      expect(await direct.json()).toMatchObject({ details: [{ path: 'outcome' }] });
    }
    const answer = { approvalId: data['id'], response: { approved: true } };
    expect((await answerApproval(server, chat, answer)).status).toBe(200);
    await chat.reader.rest();
  });
});

it('is not answered twice by a repeated request: tool-approval needs the id to rerun a call once more', async () => {
  let started = 0;
  let holds = true;
  const refund = defineTool({
    name: 'refund',
    description: 'Refunds an order',
    schema: z.strictObject({}),
    async execute(_, { signal }) {
      started += 1;
      if (holds) await new Promise((_, reject) => signal.addEventListener('abort', reject));
      return { result: 'refunded' };
    },
  });
  const store = createMemoryStore();
  const boot = () => bootServer({ store, file: { tools: [refund] } });
  const nextQuestion = (server: TestServer, before = '') =>
    until(async () => {
      const { approvals } = await server.json('/v1/approvals?kind=outcome&status=pending');
      return (approvals as Asked[]).find(({ id }) => id !== before);
    }, 'the question about the outcome');
  const first = await boot();
  await startRun(first, {
    input: 'use refund {}',
    tools: [{ name: 'refund', kind: 'builtin' }],
    permissions: { allowlist: [{ tool: 'refund' }] },
  });
  await until(() => started === 1, 'the call');
  await first.stop();
  const second = await boot();
  const { id, runId, toolCallId } = await nextQuestion(second);
  const rerun = { runId, toolCallId, outcome: 'rerun' };
  // The server dies before the response: the client does not know whether its answer was stored.
  const lost = decideCall(second, rerun).catch(() => undefined);
  await until(() => started === 2, 'the second execution');
  await second.stop();
  await lost;
  holds = false;
  const third = await boot();
  onTestFinished(() => third.stop());
  const asked = await nextQuestion(third, id);
  const repeated = await decideCall(third, rerun);
  expect([repeated.code, repeated.body['code']]).toEqual([409, 'approval_conflict']);
  expect(repeated.body['error']).toContain(asked.id);
  expect(started).toBe(2);
  // The answer to the first question is repeated by its id, without an effect.
  const known = await decideCall(third, { ...rerun, approvalId: id });
  expect([known.code, known.events, started]).toEqual([200, [], 2]);
  const other = { ...rerun, toolCallId: 'call_9', approvalId: asked.id };
  expect((await decideCall(third, other)).code).toBe(500);
  const meant = await decideCall(third, { ...rerun, approvalId: asked.id });
  expect([meant.code, started]).toEqual([200, 3]);
});
