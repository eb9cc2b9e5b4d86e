/** Function tools over HTTP: declared with a run, claimed, answered, waited for. */
import { uuidv7 } from 'uuidv7';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { FrameReader } from '../../support/frames.ts';
import { addKey, bootServer, type TestServer, type RequestOptions } from '../../support/server.ts';
import {
  eventsOf,
  startRun,
  statusOf,
  type StartedRun,
  untilStatus,
} from '../../support/requests.ts';

const secret = 'a-secret-of-16-or-more';

const lookup = {
  name: 'lookup_user',
  kind: 'function',
  description: 'Finds a user by id',
  inputSchema: { type: 'object', properties: { id: { type: 'string' } }, required: ['id'] },
};
const input = 'use lookup_user {"id":"u_001"}';

describe('function tools', () => {
  let server: TestServer;
  beforeAll(async () => {
    server = await bootServer({ env: { RELAY_INTERNAL_SECRET: secret } });
  });
  afterAll(() => server.stop());

  interface Fired extends StartedRun {
    readonly callId: string;
    readonly frame: Readonly<Record<string, unknown>>;
  }

  async function fire(body: Record<string, unknown> = {}): Promise<Fired> {
    const talk = await startRun(server, { input, tools: [lookup], ...body });
    const { data } = await talk.reader.until('tool_call');
    return { ...talk, callId: String(data['id']), frame: data };
  }

  const pathOf = (fired: Pick<Fired, 'runId' | 'callId'>, tail = '') =>
    `/v1/runs/${fired.runId}/tool-results/${encodeURIComponent(fired.callId)}${tail}`;
  const post = (
    fired: Pick<Fired, 'runId' | 'callId'>,
    body: unknown,
    options: RequestOptions = {},
  ) => server.request(pathOf(fired), { ...options, body });
  const claim = (fired: Fired, body?: unknown) =>
    server.request(pathOf(fired, '/claim'), {
      method: 'POST',
      ...(body === undefined ? {} : { body }),
    });
  const poll = (
    fired: Pick<Fired, 'runId' | 'callId'>,
    query = '',
    authorization = `Internal ${secret}`,
  ) =>
    server.request(
      `/internal/runs/${fired.runId}/tool-result/${encodeURIComponent(fired.callId)}${query}`,
      { key: null, headers: { authorization } },
    );

  it('are sent as a tool_call with its deadline, and end with the posted result', async () => {
    const fired = await fire();
    expect(fired.frame).toMatchObject({ name: 'lookup_user', input: { id: 'u_001' } });
    expect(Date.parse(String(fired.frame['resultBy']))).toBeGreaterThan(Date.now());
    await untilStatus(server, fired.runId, 'waiting');
    const output = { ok: true, user: { id: 'u_001' } };
    const posted = await post(fired, { output });
    expect([posted.status, await posted.json()]).toEqual([200, { ok: true }]);
    const { data } = await fired.reader.until('tool_result');
    expect(data).toEqual({ type: 'tool_result', id: fired.callId, output });
    expect((await fired.reader.rest()).at(-1)?.data).toMatchObject({
      type: 'done',
      status: 'completed',
    });
  });

  it.each([null, false, 0, '', 'text', [], [1, [2]], {}, 1.5])(
    'return the output %j as it was posted',
    async (output) => {
      const fired = await fire();
      expect((await post(fired, { output })).status).toBe(200);
      const { data } = await fired.reader.until('tool_result');
      expect(data['output']).toEqual(output);
      await fired.reader.rest();
    },
  );

  it('accept the same output again, also after the end, and no other one', async () => {
    const fired = await fire();
    expect((await post(fired, { output: { a: 1 } })).status).toBe(200);
    expect((await post(fired, { output: { a: 1 } })).status).toBe(200);
    const other = await post(fired, { output: { a: 2 } });
    expect([other.status, await other.json()]).toEqual([
      409,
      { error: expect.any(String), code: 'tool_result_conflict' },
    ]);
    await fired.reader.rest();
    expect((await post(fired, { output: { a: 1 } })).status).toBe(200);
    expect((await post(fired, { output: { a: 2 } })).status).toBe(409);
    const { events } = await eventsOf(server, fired.runId);
    expect(events.filter(({ type }) => type === 'tool.completed')).toHaveLength(1);
  });

  it('accept one of fifty concurrent results', async () => {
    const fired = await fire();
    const answers = await Promise.all(
      Array.from({ length: 50 }, (_, n) => post(fired, { output: n })),
    );
    const codes = answers.map(({ status }) => status);
    expect(codes.filter((code) => code === 200)).toHaveLength(1);
    expect(codes.filter((code) => code === 409)).toHaveLength(49);
    const { data } = await fired.reader.until('tool_result');
    expect(data['output']).toBe(codes.indexOf(200));
    await fired.reader.rest();
  });

  it('pass a failure to the model', async () => {
    const fired = await fire();
    await post(fired, { output: 'The database is away', isError: true });
    const { data } = await fired.reader.until('tool_result');
    expect(data['output']).toEqual({
      status: 'error',
      error: 'The database is away',
      code: 'tool_failed',
    });
    await fired.reader.rest();
  });

  it('refuse a result for a call that is not pending', async () => {
    const fired = await fire();
    expect((await post({ ...fired, callId: 'call_none' }, { output: 1 })).status).toBe(404);
    expect((await post({ ...fired, runId: uuidv7() }, { output: 1 })).status).toBe(404);
    await server.request(`/v1/runs/${fired.runId}/cancel`, { method: 'POST' });
    await fired.reader.rest();
    expect((await post(fired, { output: 1 })).status).toBe(404);
    const built = await startRun(server, { input: 'calculate 1+1' });
    const { data } = await built.reader.until('tool_call');
    await built.reader.rest();
    expect((await post({ ...built, callId: String(data['id']) }, { output: 2 })).status).toBe(404);
  });

  it.each([
    [{}, 'output'],
    [{ result: 1 }, 'output'],
    [{ output: 1, isError: 'yes' }, 'isError'],
    [{ output: 1, more: 1 }, 'more'],
  ])('refuse the body %j by its field', async (body, path) => {
    const response = await post({ runId: uuidv7(), callId: 'call_1' }, body);
    expect(response.status).toBe(400);
    const error = (await response.json()) as { code: string; details: { path: string }[] };
    expect(error.code).toBe('invalid_request');
    expect(error.details.map((detail) => detail.path)).toContain(path);
  });

  it('accept results up to ten megabytes', async () => {
    const fired = await fire();
    const output = 'x'.repeat(9 * 1024 * 1024);
    expect((await post(fired, { output: 'x'.repeat(10 * 1024 * 1024) })).status).toBe(413);
    expect((await post(fired, { output })).status).toBe(200);
    const { data } = await fired.reader.until('tool_result');
    expect(data['output']).toBe(output);
    await fired.reader.rest();
  });

  it('fail when no result arrives in time', async () => {
    const fired = await fire({ tools: [{ ...lookup, timeoutMs: 50 }] });
    const { data } = await fired.reader.until('tool_result');
    expect(data['output']).toMatchObject({ status: 'error', code: 'tool_timed_out' });
    expect((await fired.reader.rest()).at(-1)?.data).toMatchObject({ status: 'completed' });
    expect((await post(fired, { output: 'late' })).status).toBe(404);
  });

  it('are not sent if a rule denies them', async () => {
    const permissions = { denylist: [{ tool: 'lookup_user' }] };
    const { reader } = await startRun(server, { input, tools: [lookup], permissions });
    const frames = await reader.rest();
    expect(reader.types).not.toContain('tool_call');
    const result = frames.find(({ data }) => data.type === 'tool_result');
    expect(result?.data['output']).toMatchObject({ status: 'denied' });
  });

  it('can be finished by another client after the first one disconnects', async () => {
    const fired = await fire();
    await fired.reader.disconnect();
    const response = await server.request(`/v1/runs/${fired.runId}/stream`);
    const reader = new FrameReader(response);
    const { data } = await reader.until('tool_call');
    expect(data['id']).toBe(fired.callId);
    await post(fired, { output: 'from another' });
    expect((await reader.rest()).at(-1)?.data).toMatchObject({ status: 'completed' });
  });

  describe('a claim', () => {
    it('is held by one client at a time, which can extend it', async () => {
      const fired = await fire();
      const first = await claim(fired);
      expect(first.status).toBe(200);
      const { claimId, expiresAt } = (await first.json()) as Record<string, string>;
      const left = Date.parse(expiresAt ?? '') - Date.now();
      expect(left).toBeGreaterThan(20_000);
      expect(left).toBeLessThanOrEqual(30_000);
      const second = await claim(fired);
      expect([second.status, await second.json()]).toMatchObject([409, { code: 'call_claimed' }]);
      const again = await claim(fired, { claimId });
      expect([again.status, await again.json()]).toMatchObject([200, { claimId }]);
      expect((await claim(fired, { claimId: uuidv7() })).status).toBe(409);
      expect((await post(fired, { output: 1 })).status).toBe(200);
      await fired.reader.rest();
      expect((await claim(fired)).status).toBe(404);
    });

    it('is given to one of fifty concurrent clients', async () => {
      const fired = await fire();
      const answers = await Promise.all(Array.from({ length: 50 }, () => claim(fired)));
      expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
      await post(fired, { output: 1 });
      await fired.reader.rest();
    });
  });

  describe('the internal long poll', () => {
    it('waits for the result, and returns it again', async () => {
      const fired = await fire();
      const waiting = poll(fired);
      await post(fired, { output: { n: 1 } });
      const response = await waiting;
      expect([response.status, await response.json()]).toEqual([200, { output: { n: 1 } }]);
      await fired.reader.rest();
      const late = await poll(fired);
      expect([late.status, await late.json()]).toMatchObject([410, { code: 'result_gone' }]);
    });

    it('answers 204 after waitMs', async () => {
      const fired = await fire();
      const began = performance.now();
      const response = await poll(fired, '?waitMs=50');
      expect([response.status, await response.text()]).toEqual([204, '']);
      expect(performance.now() - began).toBeGreaterThanOrEqual(45);
      expect((await poll(fired, '?waitMs=0')).status).toBe(204);
      await post(fired, { output: 'boom', isError: true });
      await fired.reader.rest();
    });

    it('ends with its run', async () => {
      const fired = await fire();
      const waiting = poll(fired);
      await server.request(`/v1/runs/${fired.runId}/cancel`, { method: 'POST' });
      expect((await waiting).status).toBe(410);
      await fired.reader.rest();
    });

    it('refuses an unknown call and a malformed waitMs', async () => {
      const fired = await fire();
      expect((await poll({ ...fired, callId: 'call_none' })).status).toBe(404);
      expect((await poll({ ...fired, runId: uuidv7() })).status).toBe(404);
      for (const query of ['?waitMs=-1', '?waitMs=25001', '?waitMs=soon', '?wait=1']) {
        expect((await poll(fired, query)).status, query).toBe(400);
      }
      await post(fired, { output: 1 });
      await fired.reader.rest();
    });

    it('is refused with a key, without credentials and with a wrong secret', async () => {
      const fired = await fire();
      for (const authorization of [`Bearer ${server.apiKey}`, '', `Internal ${secret}x`]) {
        const response = await poll(fired, '?waitMs=0', authorization);
        expect([response.status, await response.json()], authorization).toEqual([
          401,
          { error: 'A valid API key is required', code: 'unauthorized' },
        ]);
      }
      await post(fired, { output: 1 });
      await fired.reader.rest();
    });
  });

  it('are not visible to another tenant', async () => {
    const fired = await fire();
    const { apiKey: key } = await addKey(server.store, { tenant: 'stranger' });
    expect((await post(fired, { output: 1 }, { key })).status).toBe(404);
    expect(await statusOf(server, fired.runId)).toBe('waiting');
    await post(fired, { output: 1 });
    await fired.reader.rest();
  });

  it.each<[string, unknown[], string]>([
    ['an empty name', [{ ...lookup, name: '' }], 'tools[0].name'],
    ['a name with a space', [{ ...lookup, name: 'look up' }], 'tools[0].name'],
    ['a long name', [{ ...lookup, name: 'x'.repeat(65) }], 'tools[0].name'],
    ['an inherited name', [{ ...lookup, name: 'constructor' }], 'tools[0].name'],
    ['a prototype', [{ ...lookup, name: '__proto__' }], 'tools[0].name'],
    ['the name of a built-in', [{ ...lookup, name: 'calculator' }], 'tools[0].name'],
    ['the name of the handoff', [{ ...lookup, name: 'handoff' }], 'tools[0].name'],
    ['a name twice', [lookup, lookup], 'tools[1].name'],
    [
      'a built-in twice',
      [
        { name: 'calculator', kind: 'builtin' },
        { name: 'calculator', kind: 'builtin' },
      ],
      'tools[1].name',
    ],
    ['no kind', [{ name: 'x' }], 'tools[0].kind'],
    ['another kind', [{ name: 'x', kind: 'magic' }], 'tools[0].kind'],
    ['no schema', [{ name: 'x', kind: 'function' }], 'tools[0].inputSchema'],
    ['a schema that is none', [{ ...lookup, inputSchema: 'object' }], 'tools[0].inputSchema'],
    [
      'a schema of something else',
      [{ ...lookup, inputSchema: { type: 'array' } }],
      'tools[0].inputSchema.type',
    ],
    [
      'a remote reference',
      [
        {
          ...lookup,
          inputSchema: { type: 'object', properties: { a: { $ref: 'http://127.0.0.1/x' } } },
        },
      ],
      'tools[0].inputSchema.properties.a.$ref',
    ],
    ['a time of nothing', [{ ...lookup, timeoutMs: 0 }], 'tools[0].timeoutMs'],
    ['an unknown field', [{ ...lookup, code: 'rm' }], 'tools[0].code'],
    ['too many', Array.from({ length: 129 }, (_, n) => ({ ...lookup, name: `f${n}` })), 'tools'],
  ])('cannot be declared with %s', async (_, tools, path) => {
    const response = await server.request('/v1/runs', { body: { model: 'demo', input, tools } });
    expect(response.status).toBe(400);
    const error = (await response.json()) as { details: { path: string }[] };
    expect(error.details.map((detail) => detail.path)).toContain(path);
    expect(response.headers.has('x-run-id')).toBe(false);
  });
});

it('has no internal routes without a secret', async () => {
  const server = await bootServer();
  try {
    const path = `/internal/runs/${uuidv7()}/tool-result/call_1`;
    for (const method of ['GET', 'POST', 'DELETE'] as const) {
      const headers = { authorization: 'Internal ' };
      const response = await server.request(path, { method, key: null, headers });
      const nowhere = await server.request('/internal/nowhere', { method, key: null, headers });
      expect(response.status).toBe(404);
      expect(await response.text()).toBe(await nowhere.text());
    }
  } finally {
    await server.stop();
  }
});
