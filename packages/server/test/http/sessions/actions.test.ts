/** Actions over HTTP: registered, listed, invoked and carried out, on both databases. */
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createHmac } from 'node:crypto';
import type { SystemStore } from '@relay/core';
import { uuidv7 } from 'uuidv7';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { verifies } from '../../../../../test/conformance/verifies.ts';
import { ActionFailed } from '../../../src/index.ts';
import type { FrameReader } from '../../support/frames.ts';
import {
  addKey,
  bootServer,
  type RequestOptions,
  type TestServer,
  until,
} from '../../support/server.ts';
import { attachAgain, attached, type AttachedSession, openStream } from '../../support/sessions.ts';
import { stores } from '../../support/stores.ts';

type Json = Record<string, unknown>;

const inputSchema = {
  type: 'object',
  properties: { text: { type: 'string' } },
  required: ['text'],
};
const outputSchema = {
  type: 'object',
  properties: { text: { type: 'string' } },
  required: ['text'],
};

describe.each(Object.entries(stores))('actions over HTTP on %s', (_name, open) => {
  let store: SystemStore;
  let server: TestServer;
  /** What the URL of an action received. */
  const received: { headers: Record<string, unknown>; body: string }[] = [];
  let answer: { status: number; body: string } = { status: 200, body: '{}' };
  let target: Server;
  let targetUrl: string;
  const calls: unknown[] = [];

  beforeAll(async () => {
    target = createServer((request, response) => {
      let body = '';
      request.on('data', (chunk) => (body += String(chunk)));
      request.on('end', () => {
        received.push({ headers: request.headers, body });
        response.writeHead(answer.status).end(answer.body);
      });
    });
    await new Promise<void>((resolve) => target.listen(0, '127.0.0.1', resolve));
    targetUrl = `http://127.0.0.1:${(target.address() as AddressInfo).port}/hook`;
    store = await open();
    server = await bootServer({
      store,
      env: { RELAY_PRIVATE_NETWORKS: '127.0.0.0/8' },
      file: {
        actions: [
          {
            name: 'shout',
            description: 'Says it louder',
            inputSchema,
            outputSchema,
            handler: (input, context) => {
              calls.push({ input, by: context.by.name, key: context.idempotencyKey });
              return { text: String(input['text']).toUpperCase() };
            },
          },
          {
            name: 'fail',
            description: 'Fails',
            inputSchema: { type: 'object' },
            handler: () => {
              throw new ActionFailed('Out of order', { retryable: true });
            },
          },
          {
            name: 'lie',
            description: 'Returns something else than it says',
            inputSchema: { type: 'object' },
            outputSchema,
            handler: () => ({ text: 1 }),
          },
          {
            name: 'sleep',
            description: 'Takes too long',
            inputSchema: { type: 'object' },
            timeoutMs: 30,
            handler: (_input, { signal }) =>
              new Promise((resolve) => signal.addEventListener('abort', () => resolve('late'))),
          },
        ],
      },
    });
  });

  afterAll(async () => {
    await server.stop();
    await store.close();
    await new Promise((resolve) => target.close(resolve));
  });

  const ask: TestServer['ask'] = (path, options) => server.ask(path, options);

  /** With these capabilities for actions. */
  const attach = (actions?: object, messaging: object = { receive: true }) =>
    attached(server, { capabilities: { actions, messaging } });
  const stream = (session: AttachedSession) => openStream(server, session);

  async function register(
    handler: object,
    more: Json = {},
    options: RequestOptions = {},
  ): Promise<string> {
    const name = `a-${uuidv7()}`;
    const body = { name, description: 'Does it', inputSchema, handler, ...more };
    const { status, body: answered } = await ask('/v1/actions', { body, ...options });
    expect([status, answered]).toEqual([201, expect.objectContaining({ name })]);
    return name;
  }

  function invoke(
    name: string,
    input: unknown,
    options: RequestOptions & { waitMs?: number } = {},
  ) {
    const { waitMs, ...rest } = options;
    const query = waitMs === undefined ? '' : `?waitMs=${waitMs}`;
    return ask(`/v1/actions/${name}/invoke${query}`, { body: { input }, ...rest });
  }

  async function eventsOf({ path }: AttachedSession): Promise<Json[]> {
    const { body } = await ask(`${path}/events`);
    const events = body['events'] as Json[];
    return events.filter(({ type }) => String(type).startsWith('action.'));
  }

  const typesOf = async (session: AttachedSession) =>
    (await eventsOf(session)).map(({ type }) => type);

  it('a session with expose registers an action that others find and invoke', async () => {
    verifies('004:actions:expose', '004:actions:exposed-invocable', '004:actions:registry');
    verifies('004:actions:invoke');
    const exposing = await attach({ expose: true });
    const caller = await attach({ invoke: true });
    const name = await register({ sessionId: exposing.id }, {}, { key: exposing.token });
    const { body: listed } = await ask('/v1/actions?limit=200', { key: caller.token });
    expect(listed['actions']).toContainEqual(
      expect.objectContaining({ name, handler: { sessionId: exposing.id }, idempotent: false }),
    );
    const frames = await stream(exposing);
    const pending = invoke(name, { text: 'hi' }, { key: caller.token });
    const { data } = await frames.until('invocation');
    expect(data).toEqual({
      type: 'invocation',
      invocationId: expect.any(String),
      action: name,
      input: { text: 'hi' },
    });
    const path = `/v1/invocations/${String(data['invocationId'])}`;
    const result = { output: { text: 'done' } };
    const posted = await ask(`${path}/result`, { body: result, key: exposing.token });
    expect(posted.status).toBe(200);
    const { status, body } = await pending;
    expect([status, body]).toEqual([
      200,
      {
        id: data['invocationId'],
        action: name,
        status: 'completed',
        by: { type: 'session', id: caller.id, name: caller.handle },
        input: { text: 'hi' },
        output: { text: 'done' },
        createdAt: expect.any(String),
        endedAt: expect.any(String),
      },
    ]);
    expect((await ask(path, { key: caller.token })).body).toEqual(body);
    const named = { action: name, invocationId: data['invocationId'] };
    for (const session of [caller, exposing]) {
      expect(await eventsOf(session)).toEqual([
        expect.objectContaining({ type: 'action.invoked', ...named }),
        expect.objectContaining({
          type: 'action.completed',
          ...named,
          durationMs: expect.any(Number),
        }),
      ]);
    }
    // The same result again is accepted, another one is not.
    const again = (body: Json) => ask(`${path}/result`, { body, key: exposing.token });
    expect((await again(result)).status).toBe(200);
    expect((await again({ error: 'No' })).body).toMatchObject({ code: 'receipt_conflict' });
    await frames.disconnect();
  });

  it('a session without the capability neither invokes nor exposes', async () => {
    verifies('004:negotiation:action-invoke', '004:negotiation:action-expose');
    const mute = await attach();
    const invoked = await invoke('shout', { text: 'hi' }, { key: mute.token });
    expect([invoked.status, invoked.body]).toMatchObject([
      409,
      {
        code: 'capability_missing',
        details: { path: 'actions.invoke', asked: true, offered: false },
      },
    ]);
    const body = {
      name: `a-${uuidv7()}`,
      description: 'Does it',
      inputSchema,
      handler: { sessionId: mute.id },
    };
    for (const key of [mute.token, server.apiKey]) {
      expect(await ask('/v1/actions', { body, key })).toMatchObject({
        status: 409,
        body: { code: 'capability_missing', details: { path: 'actions.expose' } },
      });
    }
    expect(await typesOf(mute)).toEqual([]);
  });

  it('the selectors of an action decide who has it', async () => {
    verifies('004:actions:available-to');
    const chosen = await attach({ invoke: true });
    const sending = await attach({ invoke: true }, { receive: true, send: true });
    const labelled = await attach({ invoke: true });
    await ask(labelled.path, { method: 'PATCH', body: { labels: { team: 'a:b' } } });
    const selectors: [object, AttachedSession[]][] = [
      [{ handle: chosen.handle }, [chosen]],
      [{ kind: 'human' }, []],
      [{ kind: 'program' }, [chosen, sending, labelled]],
      [{ label: 'team:a:b' }, [labelled]],
      [{ capability: 'messaging.send' }, [sending]],
    ];
    for (const [selector, having] of selectors) {
      const exposing = await attach({ expose: true });
      const name = await register({ sessionId: exposing.id }, { availableTo: [selector] });
      for (const session of [chosen, sending, labelled]) {
        const isHaving = having.includes(session);
        const { body } = await ask('/v1/actions?limit=200', { key: session.token });
        const names = (body['actions'] as { name: string }[]).map((each) => each.name);
        expect(names.includes(name)).toBe(isHaving);
        const invoked = await invoke(name, { text: 'hi' }, { key: session.token, waitMs: 0 });
        expect(invoked.status).toBe(isHaving ? 202 : 403);
      }
      const byKey = await invoke(name, { text: 'hi' });
      expect([byKey.status, byKey.body]).toMatchObject([403, { code: 'action_denied' }]);
      expect((await ask('/v1/actions?limit=200')).body['actions']).toContainEqual(
        expect.objectContaining({ name, availableTo: [selector] }),
      );
    }
    const denials = (await eventsOf(chosen)).filter(({ type }) => type === 'action.denied');
    expect(denials).toHaveLength(3);
    expect(denials[0]).toMatchObject({ reason: expect.stringContaining('not available') });
    const { body: entry } = await ask('/v1/audit?action=action.denied&limit=1');
    expect(entry['entries']).toHaveLength(1);
  });

  it('a function of the configuration is invoked with the caller and a key', async () => {
    const { status, body } = await invoke('shout', { text: 'hi' });
    expect([status, body]).toMatchObject([200, { status: 'completed', output: { text: 'HI' } }]);
    expect(calls.at(-1)).toEqual({ input: { text: 'hi' }, by: 'key of default', key: body['id'] });
    const { body: listed } = await ask('/v1/actions?limit=200');
    const shout = (listed['actions'] as Json[]).find(({ name }) => name === 'shout');
    expect(shout).toMatchObject({ handler: { config: true }, inputSchema, outputSchema });
    expect(shout).not.toHaveProperty('createdAt');
    expect((await ask('/v1/actions/shout', { method: 'DELETE' })).status).toBe(409);
  });

  it('an input that does not match the schema is refused with its path', async () => {
    const before = calls.length;
    const { status, body } = await invoke('shout', { text: 1 });
    expect([status, body]).toMatchObject([
      400,
      { code: 'invalid_request', details: [{ path: 'input.text' }] },
    ]);
    expect((await invoke('shout', 'hi')).body).toMatchObject({ details: [{ path: 'input' }] });
    expect(calls).toHaveLength(before);
  });

  it('what a handler throws, returns against its schema, or takes too long for is a failure', async () => {
    expect(await invoke('fail', {})).toMatchObject({
      status: 200,
      body: {
        status: 'failed',
        error: { code: 'action_failed', message: 'Out of order', retryable: true },
      },
    });
    expect(await invoke('lie', {})).toMatchObject({
      body: { status: 'failed', error: { code: 'output_invalid' } },
    });
    expect(await invoke('sleep', {})).toMatchObject({
      body: { status: 'failed', error: { code: 'action_timed_out' } },
    });
  });

  it('the result of a session is checked, and its failure reaches the caller', async () => {
    const exposing = await attach({ expose: true });
    const caller = await attach({ invoke: true });
    const name = await register({ sessionId: exposing.id }, { outputSchema });
    const results: [Json, Json][] = [
      [{ output: { text: 1 } }, { code: 'output_invalid', retryable: false }],
      [
        { error: 'No', retryable: true },
        { code: 'action_failed', message: 'No', retryable: true },
      ],
    ];
    for (const [result, error] of results) {
      const { status, body } = await invoke(name, { text: 'x' }, { key: caller.token, waitMs: 0 });
      expect([status, body['status']]).toEqual([202, 'running']);
      const path = `/v1/invocations/${String(body['id'])}`;
      // Only the session that carries it out reports the result.
      const foreign = await ask(`${path}/result`, { body: result, key: caller.token });
      expect(foreign.body).toMatchObject({ code: 'scope_required' });
      const stranger = await attach({ expose: true });
      for (const options of [{ body: result }, {}]) {
        const tail = 'body' in options ? '/result' : '';
        const hidden = await ask(`${path}${tail}`, { ...options, key: stranger.token });
        expect(hidden.status).toBe(404);
      }
      await ask(`${path}/result`, { body: result, key: exposing.token });
      expect((await ask(path)).body).toMatchObject({ status: 'failed', error });
    }
    expect(await typesOf(caller)).toEqual([
      'action.invoked',
      'action.failed',
      'action.invoked',
      'action.failed',
    ]);
  });

  it('a request with the same idempotency key returns the same invocation', async () => {
    const key = uuidv7();
    const before = calls.length;
    const send = (text: string) =>
      invoke('shout', { text }, { headers: { 'idempotency-key': key } });
    const [first, second] = await Promise.all([send('once'), send('once')]);
    expect(first?.body['id']).toBe(second?.body['id']);
    const third = await send('once');
    expect(third.body).toMatchObject({ id: first?.body['id'], status: 'completed' });
    expect(third.headers.get('idempotent-replayed')).toBe('true');
    expect(calls).toHaveLength(before + 1);
    expect((await send('twice')).status).toBe(422);
  });

  it('a URL is called signed, with the same id as idempotency key', async () => {
    const name = `a-${uuidv7()}`;
    const { status, body } = await ask('/v1/actions', {
      body: { name, description: 'Far away', inputSchema, handler: { url: targetUrl } },
    });
    expect(status).toBe(201);
    const secret = String(body['secret']);
    answer = { status: 200, body: '{"text":"from afar"}' };
    const invoked = await invoke(name, { text: 'hi' });
    expect(invoked.body).toMatchObject({ status: 'completed', output: { text: 'from afar' } });
    const call = received.at(-1);
    expect(JSON.parse(call?.body ?? '')).toMatchObject({
      invocationId: invoked.body['id'],
      action: name,
      input: { text: 'hi' },
    });
    expect(call?.headers['idempotency-key']).toBe(invoked.body['id']);
    const [, seconds = '', mac] =
      /^t=(\d+),v1=(\w+)$/.exec(String(call?.headers['relay-signature'])) ?? [];
    const expected = createHmac('sha256', secret).update(`${seconds}.${call?.body ?? ''}`);
    expect(mac).toBe(expected.digest('hex'));
    answer = { status: 503, body: 'busy' };
    expect((await invoke(name, { text: 'hi' })).body).toMatchObject({
      status: 'failed',
      error: { code: 'action_failed', retryable: true },
    });
    answer = { status: 200, body: 'not JSON' };
    expect((await invoke(name, { text: 'hi' })).body).toMatchObject({ status: 'failed' });
    const listed = (await ask('/v1/actions?limit=200')).body['actions'] as Json[];
    const shown = listed.find((each) => each['name'] === name);
    expect(shown).not.toHaveProperty('secret');
    expect(shown).toMatchObject({ handler: { url: targetUrl } });
  });

  it('the path of a URL is shown only to who registered it and to administrators', async () => {
    const name = `a-${uuidv7()}`;
    const url = `${targetUrl}/secret-path`;
    await ask('/v1/actions', {
      body: { name, description: 'Far away', inputSchema, handler: { url } },
    });
    const { token } = await attach();
    const { body } = await ask('/v1/actions?limit=200', { key: token });
    const listed = (body['actions'] as Json[]).find((each) => each['name'] === name);
    expect(listed).toMatchObject({ handler: { url: new URL(targetUrl).origin } });
    expect(JSON.stringify(body)).not.toContain('secret-path');
  });

  it('a registration is refused for a taken name, a foreign session, a URL or a remote schema', async () => {
    const exposing = await attach({ expose: true });
    const name = await register({ sessionId: exposing.id });
    const other = await attach({ expose: true });
    const body = { name: `a-${uuidv7()}`, description: 'Does it', inputSchema };
    const { apiKey } = await addKey(store, { scopes: ['runs'], owner: 'somebody else' });
    const remote = { type: 'object', properties: { a: { $ref: 'https://example.com/s.json' } } };
    const refused: [string, object, string | undefined][] = [
      ['action_name_taken', { ...body, name, handler: { sessionId: other.id } }, undefined],
      ['action_name_taken', { ...body, name: 'shout', handler: { url: targetUrl } }, undefined],
      ['scope_required', { ...body, handler: { sessionId: exposing.id } }, other.token],
      ['scope_required', { ...body, handler: { sessionId: exposing.id } }, apiKey],
      ['scope_required', { ...body, handler: { url: targetUrl } }, other.token],
      ['base_url_refused', { ...body, handler: { url: 'http://169.254.169.254/x' } }, undefined],
      ['not_found', { ...body, handler: { sessionId: uuidv7() } }, undefined],
      ['invalid_request', { ...body, inputSchema: remote, handler: { url: targetUrl } }, undefined],
    ];
    for (const [code, sent, key] of refused) {
      const options = key === undefined ? {} : { key };
      expect((await ask('/v1/actions', { body: sent, ...options })).body).toMatchObject({ code });
    }
  });

  it('an action is removed by its session or an owner, and ends with its session', async () => {
    const exposing = await attach({ expose: true });
    const caller = await attach({ invoke: true });
    const options = { method: 'DELETE' };
    const removed = await register({ sessionId: exposing.id });
    const { apiKey } = await addKey(store, { scopes: ['runs'], owner: 'somebody else' });
    for (const key of [apiKey, caller.token]) {
      expect((await ask(`/v1/actions/${removed}`, { ...options, key })).status).toBe(403);
    }
    const own = { ...options, key: exposing.token };
    expect((await ask(`/v1/actions/${removed}`, own)).status).toBe(204);
    expect((await invoke(removed, { text: 'x' })).status).toBe(404);
    const name = await register({ sessionId: exposing.id });
    const { body } = await invoke(name, { text: 'x' }, { key: caller.token, waitMs: 0 });
    await ask(`${exposing.path}/release`, { method: 'POST' });
    const frames = await stream(exposing);
    const { data } = await frames.until('command');
    const answered = { ok: true };
    await ask(`${exposing.path}/commands/${String(data['commandId'])}`, {
      body: answered,
      key: exposing.token,
    });
    const path = `/v1/invocations/${String(body['id'])}`;
    await until(async () => (await ask(path)).body['status'] === 'failed', 'a failed invocation');
    expect((await ask(path)).body).toMatchObject({ error: { code: 'outcome_unknown' } });
    expect((await invoke(name, { text: 'x' })).status).toBe(404);
    expect(await typesOf(caller)).toEqual(['action.invoked', 'action.failed']);
    await frames.disconnect();
  });

  it('a program that attaches again gets an idempotent invocation again, and no other', async () => {
    const exposing = await attach({ expose: true });
    const once = await register({ sessionId: exposing.id });
    const often = await register({ sessionId: exposing.id }, { idempotent: true });
    const { body: first } = await invoke(once, { text: '1' }, { waitMs: 0 });
    const { body: second } = await invoke(often, { text: '2' }, { waitMs: 0 });
    const before = await stream(exposing);
    await before.until('invocation');
    await before.until('invocation');
    await before.disconnect();
    await attachAgain(server, exposing);
    const after = await stream(exposing);
    const { data } = await after.until('invocation');
    expect(data).toMatchObject({ invocationId: second['id'], action: often });
    expect((await ask(`/v1/invocations/${String(first['id'])}`)).body).toMatchObject({
      status: 'failed',
      error: { code: 'outcome_unknown' },
    });
    await after.disconnect();
  });

  it('a program is sent all invocations, however many others it has not answered', async () => {
    const exposing = await attach({ expose: true });
    const name = await register({ sessionId: exposing.id }, { idempotent: true });
    const reader = await stream(exposing);
    const numbers = Array.from({ length: 105 }, (_, number) => String(number));
    for (const text of numbers) await invoke(name, { text }, { waitMs: 0 });
    const inputs = async (from: FrameReader) => {
      const sent: unknown[] = [];
      for (const _ of numbers) sent.push((await from.until('invocation')).data['input']);
      return sent;
    };
    const all = numbers.map((text) => ({ text }));
    expect(await inputs(reader)).toEqual(all);
    // A new stream is sent those again that may be carried out twice.
    await reader.disconnect();
    const next = await stream(exposing);
    expect(await inputs(next)).toEqual(all);
    await next.disconnect();
  });

  it('an invocation that its session does not answer in time fails', async () => {
    const exposing = await attach({ expose: true });
    const name = await register({ sessionId: exposing.id }, { timeoutMs: 1 });
    expect((await invoke(name, { text: 'x' })).body).toMatchObject({
      status: 'failed',
      error: { code: 'action_timed_out' },
    });
  });

  it('lists in pages, counts invocations and audits them', async () => {
    const names: string[] = [];
    let cursor = '';
    do {
      const { body } = await ask(`/v1/actions?limit=2${cursor}`);
      const page = (body['actions'] as { name: string }[]).map(({ name }) => name);
      expect(page.length).toBeLessThanOrEqual(2);
      names.push(...page);
      const next = body['nextCursor'] as string | null;
      cursor = next === null ? '' : `&cursor=${next}`;
    } while (cursor !== '');
    expect(names).toEqual([...new Set(names)].toSorted());
    expect(names).toContain('shout');
    await invoke('shout', { text: 'audited' });
    const { body } = await ask('/v1/audit?action=action.invoked&limit=1');
    expect(body['entries']).toMatchObject([
      { action: 'action.invoked', what: { action: 'shout', invocationId: expect.any(String) } },
    ]);
    const metrics = await (await server.request('/metrics')).text();
    expect(metrics).toMatch(/relay_invocations_total\{[^}]*status="completed"[^}]*\} [1-9]/);
  });
});
