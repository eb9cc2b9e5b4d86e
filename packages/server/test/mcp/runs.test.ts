/** Runs as tools of `/mcp`, with the current client and with one of 2025, on both stores. */
import type { SystemStore } from '@relay/core';
import { createToolRegistry, defineTool } from '@relay/tools';
import { uuidv7 } from 'uuidv7';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { z } from 'zod';
import { currentCall, mcpClients, postMcp, textOf, type ToolResult } from '../support/mcp.ts';
import { untilStatus } from '../support/requests.ts';
import { addKey, bootServer, type TestServer, until } from '../support/server.ts';
import { stores } from '../support/stores.ts';

const schema = {
  type: 'object',
  properties: { size: { enum: ['S', 'M'], title: 'Si\u202eze' } },
  required: ['size'],
};
const nested = { type: 'object', properties: { box: { type: 'object' } } };

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
  description: 'Asks twice',
  schema: z.object({}),
  allowedByDefault: true,
  execute: async (_input, context) => {
    const sizes = [await context.ask({ prompt: 'Which size?', schema })];
    sizes.push(await context.ask({ prompt: 'And now?', schema }));
    return { result: sizes };
  },
});

const pack = defineTool({
  name: 'pack',
  description: 'Asks for more than a form has',
  schema: z.object({}),
  idempotent: true,
  allowedByDefault: true,
  execute: async (_input, context) => ({
    result: await context.ask({ prompt: 'Which box?', schema: nested }),
  }),
});

const mail = defineTool({
  name: 'mail',
  description: 'Needs an approval',
  schema: z.object({ to: z.string() }),
  execute: async ({ to }) => ({ result: `sent to ${to}` }),
});

let opened = Promise.withResolvers<void>();
const held = defineTool({
  name: 'held',
  description: 'Ends when the test says so, or its run is canceled',
  schema: z.object({}),
  allowedByDefault: true,
  execute: async (_, { signal }) => {
    const aborted = new Promise((_resolve, reject) => signal.addEventListener('abort', reject));
    await Promise.race([opened.promise, aborted]);
    return { result: 'open' };
  },
});

const elicitation = { elicitation: { form: {} } };
const useOrder = { input: 'use order {"what":"shirt"}', model: 'demo' };
const useMail = { input: 'use mail {"to":"a\\u202eb"}', model: 'demo' };

describe.each(Object.entries(stores))('the tools for runs of /mcp on %s', (_store, open) => {
  let store: SystemStore;
  let server: TestServer;

  beforeAll(async () => {
    opened = Promise.withResolvers<void>();
    store = await open();
    server = await bootServer({
      store,
      tools: createToolRegistry([order, fit, pack, mail, held]),
      file: { rateLimit: { failuresPerMinute: 100_000 } },
    });
  });

  afterAll(async () => {
    await server.stop();
    await store.close();
    expect(server.logged).toEqual([]);
  });

  const dataOf = ({ structuredContent = {} }: ToolResult) => structuredContent;
  const pendingOf = async (runId: unknown) => {
    const path = `/v1/approvals?status=pending&runId=${String(runId)}`;
    return (await server.json(path))['approvals'] as { id: string; kind: string }[];
  };

  describe.each(Object.entries(mcpClients))('with %s', (_name, connect) => {
    it('start a run, wait for its answer and continue its conversation', async () => {
      const client = await connect(server, server.apiKey);
      const started = await client.call('run_start', { input: 'say 3', model: 'demo' });
      const { id, conversationId } = dataOf(started);
      expect(started).toMatchObject({
        content: [{ type: 'text', text: `Run ${String(id)} completed\n1 2 3` }],
      });
      const completed = { id, status: 'completed', conversationId, output: '1 2 3' };
      expect(dataOf(started)).toEqual(completed);
      expect(dataOf(await client.call('run_get', { id }))).toEqual(dataOf(started));
      const next = dataOf(await client.call('run_message', { id, text: 'say 2' }));
      expect(next).toMatchObject({ status: 'completed', conversationId, output: '1 2' });
      expect(next['id']).not.toBe(id);
      const { runs } = await server.json(`/v1/runs?conversationId=${String(conversationId)}`);
      expect(runs).toMatchObject([
        { id: next['id'], model: 'demo', agent: 'assistant' },
        { id, input: 'say 3' },
      ]);
      await client.close();
    });

    it('start one run if the call is repeated with its idempotency key', async () => {
      const client = await connect(server, server.apiKey);
      const meta = { 'relay/idempotencyKey': uuidv7() };
      const call = (input: string) => client.call('run_start', { input, model: 'demo' }, { meta });
      const [first, second] = [await call('say 2'), await call('say 2')];
      expect(dataOf(second)).toEqual(dataOf(first));
      expect(dataOf(await call('say 3'))).toMatchObject({ code: 'idempotency_mismatch' });
      await client.close();
    });

    it('return a run that takes longer, with what it has written and how to go on', async () => {
      const client = await connect(server, server.apiKey);
      const seen: (string | undefined)[] = [];
      const started = await client.call(
        'run_start',
        { input: 'use held {}', model: 'demo', waitMs: 500 },
        { onprogress: ({ message }) => seen.push(message) },
      );
      const { id } = dataOf(started);
      const next = 'Wait for it: run_get with waitMs';
      expect(started).toMatchObject({ structuredContent: { status: 'running', next } });
      expect(started.isError).toBeUndefined();
      expect(textOf(started)).toContain(`Run ${String(id)} running\n${next}`);
      expect(seen).toEqual([`Run ${String(id)}`, 'Turn 1', 'Runs held']);
      const canceled = await client.call('run_cancel', { id });
      expect(textOf(canceled)).toMatch(/is being canceled|canceled$/);
      await untilStatus(server, String(id), 'canceled');
      expect(await client.call('run_get', { id })).toMatchObject({
        isError: true,
        structuredContent: { id, status: 'canceled' },
      });
      await client.close();
    });

    it('return failures of a run as errors', async () => {
      const client = await connect(server, server.apiKey);
      const failed = await client.call('run_start', { input: 'fail 400', model: 'demo' });
      expect(failed).toMatchObject({
        isError: true,
        structuredContent: { status: 'failed', error: { code: 'provider_rejected' } },
      });
      const cases: [string, object, object][] = [
        ['run_start', { input: 'x', model: 'nothing' }, { code: 'unknown_model' }],
        ['run_start', { input: 'x', agent: 'nobody' }, { code: 'unknown_agent' }],
        ['run_get', { id: uuidv7() }, { code: 'not_found' }],
        ['run_get', { id: 'x' }, { code: 'not_found' }],
        ['run_message', { id: uuidv7(), text: 'x' }, { code: 'not_found' }],
        ['run_cancel', { id: uuidv7() }, { code: 'not_found' }],
        ['run_get', { id: uuidv7(), waitMs: 60_001 }, { details: [{ path: 'waitMs' }] }],
      ];
      for (const [name, args, body] of cases) {
        const result = await client.call(name, args);
        expect(result, name).toMatchObject({ isError: true, structuredContent: body });
      }
      await client.close();
    });

    it('never ask the user of the client for a permission, and say who decides', async () => {
      const user = vi.fn(() => ({ action: 'accept' as const, content: { approved: 'yes' } }));
      const client = await connect(server, server.apiKey, user);
      const started = await client.call('run_start', useMail);
      const { id } = dataOf(started);
      const [approval] = await pendingOf(id);
      const shown = {
        kind: 'permission',
        tool: 'mail',
        text: expect.stringContaining('\\u{202e}'),
      };
      expect(dataOf(started)).toMatchObject({
        status: 'waiting',
        waitsFor: [{ approvalId: approval?.id, ...shown }],
      });
      const next = 'Only a person can decide: relay approvals show APPROVAL_ID. Then run_get';
      expect(dataOf(started)).toMatchObject({ next });
      expect(textOf(started)).toContain(next);
      expect(textOf(started)).not.toContain('\u202e');
      const listed = await client.call('approvals_list', { runId: id });
      expect(dataOf(listed)).toMatchObject({
        approvals: [{ id: approval?.id, runId: id, ...shown }],
      });
      expect(textOf(listed)).not.toContain('\u202e');
      expect(user).not.toHaveBeenCalled();
      await server.json(`/v1/approvals/${approval?.id}`, { body: { approved: true } });
      expect(dataOf(await client.call('run_get', { id, waitMs: 10_000 }))).toMatchObject({
        status: 'completed',
      });
      await client.close();
    });

    it('say that a run waits for an answer if the client cannot ask its user', async () => {
      const client = await connect(server, server.apiKey);
      const started = await client.call('run_start', useOrder);
      expect(dataOf(started)).toMatchObject({
        status: 'waiting',
        waitsFor: [{ kind: 'question', tool: 'order' }],
      });
      expect(textOf(started)).toContain('Which\\u{202e} size?');
      await client.call('run_cancel', { id: dataOf(started)['id'] });
      await client.close();
    });

    it('name unknown and missing arguments, and those that are accepted', async () => {
      const client = await connect(server, server.apiKey);
      const refused = await client.call('send_message', { txt: 'hi', to: '@x' });
      expect(textOf(refused)).toBe(
        'invalid_request: txt: Unknown field; text: Required. send_message takes to, text, mode, replyTo',
      );
      expect(refused).toMatchObject({
        isError: true,
        structuredContent: { details: [{ path: 'txt' }, { path: 'text' }] },
      });
      await client.close();
    });

    it('are offered by the scopes of a key, and not to other tenants', async () => {
      const started = await connect(server, server.apiKey);
      const { id } = dataOf(await started.call('run_start', useMail));
      const keys = [{ scopes: ['read'] }, { tenant: 'stranger' }, { scopes: ['runs'] }];
      const [viewer, stranger, other] = await Promise.all(
        keys.map(async (each) => connect(server, (await addKey(store, each)).apiKey)),
      );
      expect(await viewer?.call('run_start', { input: 'x' })).toMatchObject({
        structuredContent: { code: 'scope_required' },
      });
      expect(await viewer?.call('run_message', { id, text: 'x' })).toMatchObject({
        structuredContent: { code: 'scope_required' },
      });
      expect((await viewer?.call('run_get', { id }))?.structuredContent).toMatchObject({ id });
      for (const name of ['run_get', 'run_cancel']) {
        expect(await stranger?.call(name, { id })).toMatchObject({
          structuredContent: { code: 'not_found' },
        });
      }
      expect((await stranger?.call('approvals_list'))?.structuredContent).toEqual({
        approvals: [],
      });
      expect(await other?.call('run_message', { id, text: 'x' })).toMatchObject({
        structuredContent: { code: 'not_run_owner' },
      });
      await started.call('run_cancel', { id });
      await Promise.all([started, viewer, stranger, other].map((each) => each?.close()));
    });
  });

  describe('ask the user of the current client', () => {
    const connect = mcpClients['the current client'];

    it('the question of a run, and go on with the answer', async () => {
      const forms: { message: string; requestedSchema: object }[] = [];
      const client = await connect(server, server.apiKey, (form) => {
        forms.push(form);
        return { action: 'accept', content: { size: 'M' } };
      });
      const result = await client.call('run_start', useOrder);
      const { id } = dataOf(result);
      expect(dataOf(result)).toMatchObject({ status: 'completed' });
      expect(textOf(result)).toContain('"size":"M"');
      const size = { type: 'string', enum: ['S', 'M'], title: 'Si\\u{202e}ze' };
      expect(forms).toMatchObject([
        {
          message: 'order asks: Which\\u{202e} size?',
          requestedSchema: { type: 'object', properties: { size }, required: ['size'] },
        },
      ]);
      const { approvals } = await server.json(`/v1/approvals?runId=${String(id)}`);
      expect(approvals).toMatchObject([{ status: 'approved', decidedBy: { type: 'key' } }]);
      const { runs } = await server.json('/v1/runs?limit=2');
      expect((runs as { id: string }[])[0]?.id).toBe(id);
      await client.close();
    });

    it('one question after the other, of a tool that waits in memory', async () => {
      const answers = ['S', 'M'];
      const client = await connect(server, server.apiKey, () => ({
        action: 'accept',
        content: { size: answers.shift() ?? '' },
      }));
      const result = await client.call('run_start', { input: 'use fit {}', model: 'demo' });
      expect(textOf(result)).toContain('[{"size":"S"},{"size":"M"}]');
      await client.close();
    });

    it('and tell the run that the question was declined', async () => {
      const client = await connect(server, server.apiKey, () => ({ action: 'decline' }));
      const result = await client.call('run_start', useOrder);
      expect(dataOf(result)).toMatchObject({ status: 'completed' });
      const { approvals } = await server.json(
        `/v1/approvals?runId=${String(dataOf(result)['id'])}`,
      );
      expect(approvals).toMatchObject([
        { status: 'denied', reason: 'Declined by the user of the MCP client' },
      ]);
      await client.close();
    });

    it('and leave a question open that was dismissed; run_get asks again', async () => {
      const actions = ['cancel', 'accept'] as const;
      let n = 0;
      const client = await connect(server, server.apiKey, () => {
        const action = actions[n++] ?? 'cancel';
        return { action, ...(action === 'accept' ? { content: { size: 'S' } } : {}) };
      });
      const { id, status } = dataOf(await client.call('run_start', useOrder));
      expect(status).toBe('waiting');
      expect(dataOf(await client.call('run_get', { id }))).toMatchObject({ status: 'waiting' });
      expect(n).toBe(1);
      expect(dataOf(await client.call('run_get', { id, waitMs: 10_000 }))).toMatchObject({
        status: 'completed',
      });
      await client.close();
    });

    it('nothing that a form cannot have, and nothing that the key may not answer', async () => {
      const user = vi.fn(() => ({ action: 'accept' as const, content: { size: 'M' } }));
      const { apiKey } = await addKey(store, { scopes: ['runs'] });
      const [all, runs] = [
        await connect(server, server.apiKey, user),
        await connect(server, apiKey, user),
      ];
      const boxed = await all.call('run_start', { input: 'use pack {}', model: 'demo' });
      expect(dataOf(boxed)).toMatchObject({ status: 'waiting', waitsFor: [{ kind: 'question' }] });
      expect(dataOf(await runs.call('run_start', useOrder))).toMatchObject({ status: 'waiting' });
      expect(user).not.toHaveBeenCalled();
      await Promise.all([all.close(), runs.close()]);
    });
  });

  describe('accept an answer only', () => {
    interface Asked {
      readonly id: string;
      readonly approvalId: string;
      readonly requestState: string;
    }

    type Answer = { readonly result?: Record<string, unknown>; readonly error?: object };

    async function send(name: string, args: object, more: object, key = server.apiKey) {
      const { body, headers } = currentCall(name, args, { capabilities: elicitation, ...more });
      return (await postMcp(server, body, { headers, key })).body as Answer;
    }

    async function asked(): Promise<Asked> {
      const { result = {} } = await send('run_start', useOrder, {});
      expect(result['resultType']).toBe('input_required');
      const [approvalId = ''] = Object.keys(result['inputRequests'] as object);
      const { runId } = await server.json(`/v1/approvals/${approvalId}`);
      return { id: String(runId), approvalId, requestState: String(result['requestState']) };
    }

    const accept = (approvalId: string, size = 'M') => ({
      inputResponses: { [approvalId]: { action: 'accept', content: { size } } },
    });
    const statusOf = async (approvalId: string) =>
      (await server.json(`/v1/approvals/${approvalId}`))['status'];
    const invalid = { error: { code: -32_602, data: { reason: 'invalid_request_state' } } };

    it('with the state that was given to the same key', async () => {
      const { id, approvalId, requestState } = await asked();
      const { apiKey } = await addKey(store, {});
      const { apiKey: strange } = await addKey(store, { tenant: 'stranger' });
      const more = { requestState, ...accept(approvalId) };
      const [version = '', payload = '', mac = ''] = requestState.split('.');
      const claims = JSON.parse(Buffer.from(payload, 'base64url').toString()) as { exp: number };
      const forged = Buffer.from(JSON.stringify({ ...claims, exp: claims.exp + 1 }));
      const states = [
        `${version}.${forged.toString('base64url')}.${mac}`,
        `${version}.${payload}.${mac.slice(0, -2)}AA`,
        'x',
      ];
      for (const state of states) {
        expect(await send('run_get', { id }, { ...more, requestState: state })).toMatchObject(
          invalid,
        );
      }
      for (const key of [apiKey, strange]) {
        expect(await send('run_get', { id }, more, key)).toMatchObject(invalid);
      }
      expect(await statusOf(approvalId)).toBe('pending');
      await server.request(`/v1/runs/${id}/cancel`, { method: 'POST' });
    });

    it('within an hour', async () => {
      const { id, approvalId, requestState } = await asked();
      const now = Date.now();
      vi.useFakeTimers({ toFake: ['Date'], now: now + 61 * 60 * 1000 });
      try {
        const more = { requestState, ...accept(approvalId) };
        expect(await send('run_get', { id, waitMs: 1 }, more)).toMatchObject(invalid);
      } finally {
        vi.useRealTimers();
      }
      expect(await statusOf(approvalId)).toBe('pending');
      await server.request(`/v1/runs/${id}/cancel`, { method: 'POST' });
    });

    it('to the question that the state names', async () => {
      const [first, second] = [await asked(), await asked()];
      const { requestState } = first;
      // The answer to another question is none to this one: it is asked again.
      const other = await send('run_start', useOrder, {
        requestState,
        ...accept(second.approvalId),
      });
      expect(other.result).toMatchObject({ inputRequests: { [first.approvalId]: {} } });
      const mixed = { requestState, ...accept(first.approvalId) };
      expect((await send('run_get', { id: second.id }, mixed)).result).toMatchObject({
        isError: true,
        structuredContent: { details: [{ path: 'id' }] },
      });
      expect(await statusOf(first.approvalId)).toBe('pending');
      expect(await statusOf(second.approvalId)).toBe('pending');
      for (const { id } of [first, second]) {
        await server.request(`/v1/runs/${id}/cancel`, { method: 'POST' });
      }
    });

    it('once: the same answer again, or another one, changes nothing and starts nothing', async () => {
      const { id, approvalId, requestState } = await asked();
      const answer = (size: string) =>
        send('run_start', useOrder, { requestState, ...accept(approvalId, size) });
      const { runs: before } = await server.json('/v1/runs?limit=1');
      for (const size of ['M', 'M', 'S']) {
        expect((await answer(size)).result).toMatchObject({
          structuredContent: { id, status: 'completed' },
        });
      }
      expect(await server.json(`/v1/approvals/${approvalId}`)).toMatchObject({
        status: 'approved',
        input: { size: 'M' },
      });
      const { runs: after } = await server.json('/v1/runs?limit=1');
      expect(after).toMatchObject([{ id: (before as { id: string }[])[0]?.id }]);
    });

    it('that fits the schema; the question stays open', async () => {
      const { id, approvalId, requestState } = await asked();
      const answer = await send('run_get', { id }, { requestState, ...accept(approvalId, 'XXL') });
      expect(answer.result).toMatchObject({
        isError: true,
        structuredContent: { code: 'invalid_request', details: [{ path: 'input.size' }] },
      });
      expect(await statusOf(approvalId)).toBe('pending');
      await server.request(`/v1/runs/${id}/cancel`, { method: 'POST' });
    });

    it('while the key may decide', async () => {
      const { apiKey, keyId } = await addKey(store, {});
      const { body, headers } = currentCall('run_start', useOrder, { capabilities: elicitation });
      const { result = {} } = (await postMcp(server, body, { headers, key: apiKey }))
        .body as Answer;
      const [approvalId = ''] = Object.keys(result['inputRequests'] as object);
      const policy = {
        allow: [{ tool: 'order' }],
        approvers: [{ tool: 'order', groups: ['shop'] }],
      };
      const put = (body: object) => server.request('/v1/policy', { method: 'PUT', body });
      expect((await put({ version: 0, ...policy })).status).toBe(200);
      const more = { requestState: result['requestState'], ...accept(approvalId) };
      expect((await send('run_start', useOrder, more, apiKey)).result).toMatchObject({
        structuredContent: { code: 'not_an_approver' },
      });
      expect((await put({ version: 1 })).status).toBe(200);
      expect(await statusOf(approvalId)).toBe('pending');
      await server.request(`/v1/keys/${keyId}`, { method: 'DELETE' });
    });
  });

  it('a message reaches a run that is going on at its next boundary', async () => {
    opened = Promise.withResolvers<void>();
    const client = await mcpClients['the current client'](server, server.apiKey);
    const { id } = dataOf(
      await client.call('run_start', { input: 'use held {}', model: 'demo', waitMs: 0 }),
    );
    const started = async () => {
      const { events } = await server.json(`/v1/runs/${String(id)}/events`);
      return (events as { type: string }[]).some(({ type }) => type === 'tool.started');
    };
    await until(started, 'the tool to start');
    const sent = await client.call('run_message', { id, text: 'say 2', waitMs: 0 });
    const { messageId } = dataOf(sent);
    expect(dataOf(sent)).toMatchObject({ id, status: 'running', unread: 1 });
    opened.resolve();
    const ended = dataOf(await client.call('run_get', { id, waitMs: 10_000 }));
    expect(ended).toMatchObject({ status: 'completed', output: '1 2' });
    expect(ended).not.toHaveProperty('unread');
    const { events } = await server.json(`/v1/runs/${String(id)}/events`);
    const added = (events as { type: string }[]).filter(({ type }) => type === 'message.added');
    expect(added).toMatchObject([{ messageId, mode: 'next-message', content: 'say 2' }]);
    await client.close();
  });

  it('a call that waits says that the run ended before it read the message', async () => {
    opened = Promise.withResolvers<void>();
    const client = await mcpClients['the current client'](server, server.apiKey);
    const { id } = dataOf(
      await client.call('run_start', { input: 'use held {}', model: 'demo', waitMs: 0 }),
    );
    const sent = client.call('run_message', { id, text: 'say 2' });
    const inbox = () => store.tenant(server.tenantId).readInbox(String(id));
    await until(async () => (await inbox()).length === 1, 'the message');
    await server.request(`/v1/runs/${String(id)}/cancel`, { method: 'POST' });
    expect(await sent).toMatchObject({
      isError: true,
      structuredContent: {
        status: 'canceled',
        unread: 1,
        next: 'It ended before it read your message: call run_message again to continue',
      },
    });
    await client.close();
  });

  it('a message that a run did not read before it ended is reported', async () => {
    const client = await mcpClients['the current client'](server, server.apiKey);
    const { id } = dataOf(await client.call('run_start', useMail));
    const sent = await client.call('run_message', { id, text: 'say 2' });
    expect(dataOf(sent)).toMatchObject({ status: 'waiting', unread: 1 });
    await client.call('run_cancel', { id });
    await untilStatus(server, String(id), 'canceled');
    expect(dataOf(await client.call('run_get', { id }))).toMatchObject({
      status: 'canceled',
      unread: 1,
    });
    await client.close();
  });

  it('a client that disconnects ends the wait, and not the run', async () => {
    opened = Promise.withResolvers<void>();
    const connection = new AbortController();
    const { body, headers } = currentCall('run_start', { input: 'use held {}', model: 'demo' });
    const waiting = postMcp(server, body, { headers, signal: connection.signal });
    const ended = expect(waiting).rejects.toThrow();
    const id = await until(async () => {
      const { runs } = await server.json('/v1/runs?limit=1&status=running');
      return (runs as { id: string }[])[0]?.id;
    }, 'the run');
    await until(() => server.relay.hub.size === 1, 'the call to wait');
    connection.abort();
    await ended;
    await until(() => server.relay.hub.size === 0, 'the end of the wait');
    expect(await server.json(`/v1/runs/${id}`)).toMatchObject({ status: 'running' });
    opened.resolve();
    await untilStatus(server, id, 'completed');
  });
});

it.each(Object.entries(stores))(
  'an answer continues the run on another server on %s, after the one that asked is gone',
  async (_store, open) => {
    const store = await open();
    const tools = createToolRegistry([order]);
    const first = await bootServer({ store, tools });
    const key = first.apiKey;
    const ask = currentCall('run_start', useOrder, { capabilities: elicitation });
    const { body: asked } = await postMcp(first, ask.body, { headers: ask.headers });
    const { inputRequests, requestState } = (
      asked as { result: { inputRequests: object; requestState: string } }
    ).result;
    await first.stop();

    const second = await bootServer({ store, tools });
    const [approvalId = ''] = Object.keys(inputRequests);
    const inputResponses = { [approvalId]: { action: 'accept', content: { size: 'M' } } };
    const more = { capabilities: elicitation, requestState, inputResponses };
    const answer = currentCall('run_start', useOrder, more);
    const { body } = await postMcp(second, answer.body, { headers: answer.headers, key });
    expect(body).toMatchObject({ result: { structuredContent: { status: 'completed' } } });
    const { runs } = await second.json('/v1/runs');
    expect(runs).toHaveLength(1);
    await second.stop();
    await store.close();
  },
);
