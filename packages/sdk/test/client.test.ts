import { afterEach, describe, expect, expectTypeOf, test, vi } from 'vitest';
import { createClient, type RelayClient } from '../src/client.ts';
import type { GrantBody, NewPolicy, NewRun, RunStreamEvent } from '../src/index.ts';
import { FakeServer, FakeStream, json, options } from './support/fake-server.ts';

afterEach(() => void vi.unstubAllGlobals());

type Call = (client: RelayClient) => Promise<unknown>;

/** Every call that is answered by JSON: what it asks for, in one request. */
const calls: readonly [string, Call, object?][] = [
  ['GET /v1/runs/r', (c) => c.runs.get('r')],
  ['GET /v1/runs', (c) => c.runs.list({ status: 'running', limit: 5 }).page()],
  ['GET /v1/runs/r/events', (c) => c.runs.events('r', { after: 3 }).page()],
  ['POST /v1/runs/r/cancel', (c) => c.runs.cancel('r')],
  ['POST /v1/runs/cancel', (c) => c.runs.cancelAll({ all: true }), { all: true }],
  ['POST /v1/runs/r/resume', (c) => c.runs.resume('r')],
  ['POST /v1/runs/r/fork', (c) => c.runs.fork('r', { seq: 7 }), { seq: 7 }],
  ['GET /v1/approvals', (c) => c.approvals.list({ status: 'pending' }).page()],
  ['GET /v1/approvals/a', (c) => c.approvals.get('a')],
  ['POST /v1/approvals/a', (c) => c.approvals.approve('a'), { approved: true }],
  [
    'POST /v1/approvals/a',
    (c) => c.approvals.approve('a', { always: true, reason: 'fine' }),
    { approved: true, always: true, reason: 'fine' },
  ],
  ['POST /v1/approvals/a', (c) => c.approvals.deny('a', 'no'), { approved: false, reason: 'no' }],
  ['POST /v1/approvals/a', (c) => c.approvals.deny('a'), { approved: false }],
  ['GET /v1/grants', (c) => c.grants.list({ scope: 'tenant' }).page()],
  [
    'POST /v1/grants',
    (c) => c.grants.create({ tool: 'bash', params: { command: 'ls*' }, scope: 'tenant' }),
    { tool: 'bash', params: { command: 'ls*' }, scope: 'tenant' },
  ],
  ['POST /v1/grants/preview', (c) => c.grants.preview({ tool: 'bash' }), { tool: 'bash' }],
  ['DELETE /v1/grants/g', (c) => c.grants.revoke('g')],
  ['GET /v1/policy', (c) => c.policy.get({ agent: 'a' })],
  [
    'PUT /v1/policy',
    (c) => c.policy.put({ version: 2, deny: [{ tool: 'bash' }] }),
    { version: 2, deny: [{ tool: 'bash' }] },
  ],
  ['GET /v1/policy/versions', (c) => c.policy.versions({ limit: 5 }).page()],
  [
    'POST /v1/policy/preview',
    (c) => c.policy.preview({ ask: [{ tool: 'bash' }] }),
    { ask: [{ tool: 'bash' }] },
  ],
  ['GET /v1/audit', (c) => c.audit.list({ action: 'run.started' }).page()],
  ['GET /v1/audit/head', (c) => c.audit.head()],
  ['GET /v1/audit/verify', (c) => c.audit.verify()],
  ['GET /v1/audit/verify', (c) => c.audit.verify({ seq: 3, hash: 'ab' })],
  ['GET /v1/webhooks', (c) => c.webhooks.list().page()],
  [
    'POST /v1/webhooks',
    (c) => c.webhooks.create({ url: 'https://a.test', events: ['run.ended'] }),
    { url: 'https://a.test', events: ['run.ended'] },
  ],
  ['DELETE /v1/webhooks/w', (c) => c.webhooks.delete('w')],
  ['GET /v1/webhooks/w/deliveries', (c) => c.webhooks.deliveries('w').page()],
  ['GET /v1/credentials', (c) => c.credentials.list().page()],
  [
    'PUT /v1/credentials/openai',
    (c) => c.credentials.put('openai', { apiKey: 's' }),
    { apiKey: 's' },
  ],
  ['DELETE /v1/credentials/openai', (c) => c.credentials.delete('openai')],
  ['GET /v1/memories', (c) => c.memories.list({ namespace: 'user:42', q: 'tea' }).page()],
  [
    'POST /v1/memories',
    (c) => c.memories.add({ namespace: 'n', text: 'Likes tea' }),
    { namespace: 'n', text: 'Likes tea' },
  ],
  ['DELETE /v1/memories/m', (c) => c.memories.delete('m')],
  ['DELETE /v1/memories', (c) => c.memories.clear('user:42')],
  ['GET /v1/keys', (c) => c.keys.list().page()],
  [
    'POST /v1/keys',
    (c) => c.keys.create({ name: 'ci', scopes: ['runs'] }),
    { name: 'ci', scopes: ['runs'] },
  ],
  ['DELETE /v1/keys/k', (c) => c.keys.revoke('k')],
  ['GET /v1/tenant', (c) => c.tenant.get()],
  ['PUT /v1/tenant', (c) => c.tenant.update({ paused: true }), { paused: true }],
  [
    'POST /v1/permissions/explain',
    (c) => c.permissions.explain({ tool: 'bash', params: { command: 'ls' } }),
    { tool: 'bash', params: { command: 'ls' } },
  ],
  ['GET /v1/workflows/w', (c) => c.workflows.get('w')],
  ['GET /v1/conversations', (c) => c.conversations.list({ q: 'x' }).page()],
  ['GET /v1/conversations/c', (c) => c.conversations.get('c')],
  ['GET /v1/agents', (c) => c.agents.list().page()],
  ['GET /models', (c) => c.models()],
  ['GET /v1/tools', (c) => c.tools()],
  ['GET /health', (c) => c.health()],
];

describe('client', () => {
  test.each(calls)('sends %s once', async (line, call, body) => {
    const server = new FakeServer(({ method }) =>
      method === 'DELETE' ? new Response(null, { status: 204 }) : json(200, {}),
    );
    await call(createClient({ ...options, fetch: server.fetch }));
    expect(server.lines).toEqual([line]);
    expect(server.requests[0]?.body).toEqual(body);
  });

  test('passes the query of a list', async () => {
    const server = new FakeServer();
    const client = createClient({ ...options, fetch: server.fetch });
    await client.runs.list({ label: 'team:a', since: '2026-11-15T00:00:00Z', limit: 5 }).page('c');
    await client.memories.clear('user:42');
    expect(server.requests.map(({ query }) => query)).toEqual([
      { label: 'team:a', since: '2026-11-15T00:00:00Z', limit: '5', cursor: 'c' },
      { namespace: 'user:42' },
    ]);
  });

  test('verifies the audit trail against a saved head', async () => {
    const server = new FakeServer();
    const { audit } = createClient({ ...options, fetch: server.fetch });
    await audit.verify({ seq: 3, hash: 'ab' });
    await audit.verify({ seq: 0, hash: '00' });
    expect(server.requests.map(({ query }) => query)).toEqual([{ seq: '3', hash: 'ab' }, {}]);
  });

  test('never retries policy.put', async () => {
    const server = FakeServer.respondingWith(() => new TypeError('fetch failed'));
    const { policy } = createClient({ ...options, fetch: server.fetch });
    await expect(policy.put({ version: 0 })).rejects.toMatchObject({ code: 'network_error' });
    expect(server.requests).toHaveLength(1);
  });

  test('iterates journal events by their cursor', async () => {
    const server = new FakeServer(({ query }) => {
      const after = Number(query['after'] ?? 0);
      const events = [{ seq: after + 1 }, { seq: after + 2 }];
      return json(200, { run: { id: 'r' }, events, nextCursor: after < 2 ? '2' : null });
    });
    const { runs } = createClient({ ...options, fetch: server.fetch });
    const seqs: number[] = [];
    for await (const event of runs.events('r', { limit: 2 })) seqs.push(event.seq);
    expect(seqs).toEqual([1, 2, 3, 4]);
    expect(server.requests.map(({ query }) => query)).toEqual([
      { limit: '2' },
      { limit: '2', after: '2' },
    ]);
    expect((await runs.events('r').page()).run).toEqual({ id: 'r' });
  });

  test('retries a fork with the same idempotency key', async () => {
    const answers = [new TypeError('fetch failed'), json(201, { id: 'r2' })];
    const server = new FakeServer((_, nth) => answers[nth] ?? new Error('enough'));
    const { runs } = createClient({ ...options, fetch: server.fetch });
    expect(await runs.fork('r', { input: 'Or rather' })).toEqual({ id: 'r2' });
    const keys = server.requests.map(({ headers }) => headers['idempotency-key']);
    expect(keys[0]).toMatch(/^[0-9a-f-]{36}$/);
    expect(keys).toEqual([keys[0], keys[0]]);
  });

  test('calls the platform’s fetch without a receiver', async () => {
    const server = new FakeServer(() => json(200, { status: 'ok', version: '1' }));
    vi.stubGlobal('fetch', function (this: unknown, url: string, init: RequestInit) {
      if (this !== undefined && this !== globalThis) throw new TypeError('Illegal invocation');
      return server.fetch(url, init);
    });
    const client = createClient({ baseUrl: 'http://relay.test' });
    expect(await client.health()).toEqual({ status: 'ok', version: '1' });
  });
});

describe('feed', () => {
  test('reconnects, and yields connected again', async () => {
    const streams = [
      new FakeStream().raw('data: {"kind":"connected"}\n\ndata: {"kind":"run","id":"r"}\n\n').end(),
      new FakeStream().raw('data: {"kind":"connected"}\n\n'),
    ];
    const server = new FakeServer((_, nth) => (streams[nth] ?? new FakeStream()).response);
    const hints: string[] = [];
    for await (const { kind } of createClient({ ...options, fetch: server.fetch }).feed()) {
      hints.push(kind);
      if (hints.length === 3) break;
    }
    expect(hints).toEqual(['connected', 'run', 'connected']);
    expect(streams[1]?.closed).toBe(true);
  });

  test('ends when the signal is aborted', async () => {
    const server = new FakeServer(() => new FakeStream().response);
    const gone = new AbortController();
    const { feed } = createClient({ ...options, fetch: server.fetch });
    const next = feed({ signal: gone.signal }).next();
    gone.abort(new Error('enough'));
    await expect(next).rejects.toThrow('enough');
  });
});

describe('types', () => {
  test('narrow events by their type', () => {
    const read = (event: RunStreamEvent) => {
      expectTypeOf(event.seq).toEqualTypeOf<number>();
      if (event.type === 'token') expectTypeOf(event.text).toEqualTypeOf<string>();
      if (event.type === 'done') {
        expectTypeOf(event.status).toEqualTypeOf<'completed' | 'failed' | 'canceled'>();
      }
      if (event.type === 'approval_requested') {
        expectTypeOf(event.kind).toEqualTypeOf<'permission' | 'question' | 'outcome'>();
      }
    };
    expect(read).toBeTypeOf('function');
  });

  test('type permission rules in all request bodies', () => {
    type Params = Record<string, string> | undefined;
    type Allowed = NonNullable<NonNullable<NewRun['permissions']>['allowlist']>[number];
    expectTypeOf<Allowed['params']>().toEqualTypeOf<Params>();
    expectTypeOf<GrantBody['params']>().toEqualTypeOf<Params>();
    expectTypeOf<NonNullable<NewPolicy['deny']>[number]['params']>().toEqualTypeOf<Params>();
    expectTypeOf<NewPolicy['version']>().toEqualTypeOf<number>();
  });
});
