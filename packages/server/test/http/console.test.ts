/** The console's server side: its files, signing in, the cookie, and login links. */
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Route, routes } from '@relay/protocol';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { makeSecret } from '../../src/secrets/keys.ts';
import { FrameReader } from '../support/frames.ts';
import { startRun } from '../support/requests.ts';
import { addKey, bootServer, type RequestOptions, type TestServer } from '../support/server.ts';

const folder = mkdtempSync(join(tmpdir(), 'relay-console-'));
const consoleDir = join(folder, 'dist');
const outside = join(folder, 'secret.html');
const script = 'assets/app-4f2a.js';
let server: TestServer;

beforeAll(async () => {
  writeFileSync(outside, 'outside');
  server = await bootServer({ consoleDir });
});

afterAll(async () => {
  await server.stop();
  rmSync(folder, { recursive: true });
});

afterEach(() => {
  vi.useRealTimers();
});

function build(): void {
  mkdirSync(join(consoleDir, 'assets'), { recursive: true });
  writeFileSync(join(consoleDir, 'index.html'), '<!doctype html><title>Relay</title>');
  writeFileSync(join(consoleDir, script), 'plain');
  writeFileSync(join(consoleDir, `${script}.br`), 'brotli');
  writeFileSync(join(consoleDir, `${script}.gz`), 'gzip');
  writeFileSync(join(consoleDir, '.hidden.html'), 'hidden');
}

const html = { accept: 'text/html,application/xhtml+xml' };

/** Without decompression, and without the normalization of paths by a client. */
async function get(path: string, headers: Record<string, string> = {}, method = 'GET') {
  const { app } = server.relay;
  const host = new URL(server.url).host;
  const response = await app.inject({
    method: method as 'GET',
    url: path,
    headers: { host, ...headers },
  });
  return { status: response.statusCode, headers: response.headers, text: response.payload };
}

type Cookie = Readonly<Record<string, string>>;
interface SignedIn {
  readonly cookie: string;
  readonly attributes: string;
  readonly body: Record<string, unknown>;
}

function login(
  body: unknown,
  headers: Record<string, string> = {},
  at = server,
): Promise<Response> {
  return at.request('/console/login', { key: null, body, headers });
}

async function signIn(
  body: unknown,
  headers: Record<string, string> = {},
  at = server,
): Promise<SignedIn> {
  const response = await login(body, headers, at);
  expect(response.status).toBe(200);
  const [cookie = '', ...attributes] = (response.headers.get('set-cookie') ?? '').split('; ');
  return {
    cookie,
    attributes: attributes.join('; '),
    body: (await response.json()) as SignedIn['body'],
  };
}

/** A request of the console's own pages. */
function withCookie({ cookie }: Pick<SignedIn, 'cookie'>, options: RequestOptions = {}) {
  const { headers, ...rest } = options;
  const own: Cookie = { cookie, origin: server.url, 'sec-fetch-site': 'same-origin' };
  return { key: null, ...rest, headers: { ...own, ...headers } };
}

async function newLink(key = server.apiKey): Promise<string> {
  const { status, body } = await server.ask('/console/links', { method: 'POST', key });
  expect(status).toBe(201);
  return new URL(String(body['url'])).hash.slice(1);
}

const codeOf = async (response: Response) => ((await response.json()) as { code: string }).code;
const unauthorized = { error: 'A valid API key is required', code: 'unauthorized' };
const invalidLink = { error: expect.stringContaining('`relay console`'), code: 'unauthorized' };

describe('the pages of the console', () => {
  it('say that they are being built until they are, and reload by themselves', async () => {
    const early = await get('/console/', html);
    expect(early.status).toBe(503);
    expect(early.headers).toMatchObject({ 'cache-control': 'no-store', 'retry-after': '2' });
    expect(early.text).toContain('http-equiv="refresh"');
    expect(early.text).toContain('being built');
    expect(early.text).not.toMatch(/<script|style/);
    expect((await get(`/console/${script}`)).status).toBe(404);
    build();
    expect(await get('/console/', html)).toMatchObject({
      status: 200,
      text: '<!doctype html><title>Relay</title>',
    });
  });

  it('are the same for every path that is no file, if HTML is accepted', async () => {
    for (const path of [
      '/console/',
      '/console/login',
      '/console/runs/x?tab=1',
      '/console/index.html',
    ]) {
      const page = await get(path, html);
      expect(page.status, path).toBe(200);
      expect(page.headers).toMatchObject({
        'content-type': 'text/html; charset=utf-8',
        'cache-control': 'no-store',
        'referrer-policy': 'no-referrer',
        'x-content-type-options': 'nosniff',
        'cross-origin-opener-policy': 'same-origin',
      });
      expect(page.text).toContain('<title>Relay</title>');
    }
    expect((await get('/console/runs/x', { accept: '*/*' })).status).toBe(404);
    expect((await get('/console/', { accept: '*/*' })).text).toContain('<title>Relay');
    expect((await get('/console/assets/gone.js', html)).status).toBe(404);
    expect((await get(`/console/assets/${'long'.repeat(100)}.js`, html)).status).toBe(404);
  });

  it('allow no script but their own files, and no frame around them', async () => {
    const policy = String((await get('/console/', html)).headers['content-security-policy']);
    expect(policy.split('; ')).toEqual(
      expect.arrayContaining([
        "default-src 'none'",
        "script-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
      ]),
    );
    // Of styles only the attribute, which the terminal of a session uses.
    expect(policy.replace("style-src-attr 'unsafe-inline'", '')).not.toContain('unsafe');
  });

  it.each([
    ['br, gzip', 'br', 'brotli'],
    ['gzip', 'gzip', 'gzip'],
    ['br;q=0, gzip;q=0.5', 'gzip', 'gzip'],
    ['identity', undefined, 'plain'],
  ])('have assets for %s that may be cached for ever', async (accepted, encoding, content) => {
    const asset = await get(`/console/${script}`, { 'accept-encoding': accepted });
    expect(asset.status).toBe(200);
    expect(asset.headers['content-encoding']).toBe(encoding);
    expect(asset.text).toBe(content);
    expect(asset.headers).toMatchObject({
      'content-type': 'text/javascript; charset=utf-8',
      'cache-control': 'public, max-age=31536000, immutable',
      vary: 'Accept-Encoding',
    });
  });

  it('answer HEAD without a body, and other methods with 405', async () => {
    const head = await server.request(`/console/${script}`, {
      method: 'HEAD',
      headers: { 'accept-encoding': 'identity' },
    });
    expect([head.status, head.headers.get('content-length')]).toEqual([200, '5']);
    expect(await head.text()).toBe('');
    for (const path of ['/console/', `/console/${script}`, '/console/runs']) {
      const refused = await get(path, {}, 'POST');
      expect(refused.status).toBe(405);
      expect(refused.headers['allow']).toBe('GET, HEAD');
    }
  });

  it.each([
    '/console/../secret.html',
    '/console/..%2fsecret.html',
    '/console/..%2F..%2Fsecret.html',
    '/console/assets/..%2f..%2f..%2fsecret.html',
    '/console/%2e%2e/secret.html',
    '/console/..%5csecret.html',
    '/console/%2f..%2fsecret.html',
    '/console/index.html%00.js',
    '/console/.hidden.html',
    '/console/assets',
    `/console/${script}.br`,
  ])('keep %s from leading out of their folder', async (path) => {
    const asked = await get(path);
    expect([400, 404]).toContain(asked.status);
    const page = await get(path, html);
    expect(page.text).not.toContain('outside');
    expect(page.text).not.toContain('hidden');
  });

  it('are where a browser that opens the server is sent', async () => {
    for (const path of ['/', '/console']) {
      const redirect = await get(path, html);
      expect(redirect).toMatchObject({ status: 302, headers: { location: '/console/' } });
    }
    const greeting = await get('/', { accept: 'application/json' });
    expect(JSON.parse(greeting.text)).toMatchObject({ name: 'Relay' });
    expect(greeting.headers['vary']).toBe('Accept');
  });
});

describe('signing in', () => {
  it('with an API key sets a cookie for 12 hours that scripts cannot read', async () => {
    const { cookie, attributes, body } = await signIn({ apiKey: server.apiKey });
    expect(cookie).toMatch(/^relay_console=relay_cons_[0-9a-f]{72}$/);
    expect(attributes).toBe('Path=/; Max-Age=43200; HttpOnly; SameSite=Strict');
    const current = await server.ask('/v1/keys/current', withCookie({ cookie }));
    expect(current.body).toEqual({ ...body, lastUsedAt: current.body['lastUsedAt'] });
    expect(body).toMatchObject({
      kind: 'console',
      parent: (await server.json('/v1/keys/current'))['id'],
      name: 'key of default',
      role: 'admin',
      scopes: ['read', 'runs', 'worker', 'approve', 'admin'],
      tenant: { id: server.tenantId, name: 'default' },
      expiresAt: expect.any(String),
      version: expect.any(String),
    });
  });

  it('sets a Secure cookie on https, which the page or the public URL tells', async () => {
    const { host } = new URL(server.url);
    const secure = expect.stringContaining('; Secure');
    const page = { origin: `https://${host}`, 'sec-fetch-site': 'same-origin' };
    expect((await signIn({ apiKey: server.apiKey }, page)).attributes).toEqual(secure);
    const other = await bootServer({ env: { RELAY_PUBLIC_URL: 'https://relay.example' } });
    const { apiKey } = other;
    expect((await signIn({ apiKey }, {}, other)).attributes).toEqual(secure);
    const proxied = { origin: 'https://relay.example' };
    expect((await signIn({ apiKey }, proxied, other)).attributes).toEqual(secure);
    const local = { origin: other.url };
    expect((await signIn({ apiKey }, local, other)).attributes).not.toEqual(secure);
    await other.stop();
  });

  it('shows what a key without a role may do', async () => {
    const { apiKey } = await addKey(server.store, { scopes: ['runs'], owner: 'ada' });
    const { cookie, body } = await signIn({ apiKey });
    expect(body).toMatchObject({ scopes: ['runs', 'read'], role: 'operator', owner: 'ada' });
    expect((await server.request('/v1/runs', withCookie({ cookie }))).status).toBe(200);
    const refused = await server.ask('/v1/keys', withCookie({ cookie }));
    expect(refused).toMatchObject({ status: 403, body: { code: 'scope_required' } });
  });

  it.each([
    ['an unknown key', async () => ({ apiKey: makeSecret('api') })],
    ['no key', async () => ({ apiKey: 'x' })],
    [
      'a revoked key',
      async () => ({ apiKey: (await addKey(server.store, { revokedAt: 1 })).apiKey }),
    ],
    [
      'an expired key',
      async () => ({ apiKey: (await addKey(server.store, { expiresAt: 1 })).apiKey }),
    ],
    ['a link as a key', async () => ({ apiKey: await newLink() })],
    [
      'a cookie as a key',
      async () => ({
        apiKey: (await signIn({ apiKey: server.apiKey })).cookie.split('=')[1],
      }),
    ],
  ])('with %s fails as with every invalid key', async (_name, body) => {
    const response = await login(await body());
    expect(response.status).toBe(401);
    expect(response.headers.get('www-authenticate')).toContain('Bearer');
    expect(response.headers.get('set-cookie')).toBeNull();
    expect(await response.json()).toEqual(unauthorized);
  });

  it.each([
    ['neither a key nor a link', {}],
    ['both', { apiKey: 'x', link: 'y' }],
    ['a number', { apiKey: 1 }],
    ['too long a key', { apiKey: 'x'.repeat(1_000) }],
  ])('with %s is refused', async (_name, body) => {
    expect((await login(body)).status).toBe(400);
  });

  it('fails only so often from one address', async () => {
    const limited = await bootServer({ file: { rateLimit: { failuresPerMinute: 3 } } });
    const statuses: number[] = [];
    for (let n = 0; n < 70; n += 1) {
      statuses.push((await login({ link: makeSecret('link') }, {}, limited)).status);
    }
    expect(statuses.slice(0, 4)).toEqual([401, 401, 401, 429]);
    expect(statuses.at(-1)).toBe(429);
    await limited.stop();
  });

  it('counts as a request of its key', async () => {
    const limited = await bootServer({ file: { rateLimit: { requestsPerMinute: 2 } } });
    const statuses: number[] = [];
    for (let n = 0; n < 3; n += 1) {
      statuses.push((await login({ apiKey: limited.apiKey }, {}, limited)).status);
    }
    expect(statuses).toEqual([200, 200, 429]);
    await limited.stop();
  });

  it.each([
    ['a foreign page', { origin: 'https://evil.example' }],
    ['a page without an origin', { origin: 'null' }],
    ['another site without an Origin', { 'sec-fetch-site': 'cross-site' }],
  ])('is refused to %s', async (_name, headers) => {
    const response = await login({ apiKey: server.apiKey }, headers);
    expect([response.status, await codeOf(response)]).toEqual([403, 'origin_not_allowed']);
  });

  it('is refused at another address with the address to use', async () => {
    const other = await bootServer({ env: { RELAY_PUBLIC_URL: 'https://relay.example' } });
    const response = await login({ apiKey: other.apiKey }, { origin: 'https://10.1.2.3' }, other);
    expect(await response.json()).toMatchObject({
      code: 'origin_not_allowed',
      error: expect.stringContaining('open the console at https://relay.example'),
    });
    await other.stop();
  });

  it('deletes the file of the first key, and no other key does', async () => {
    const file = join(server.config.dataDir, 'first-key');
    writeFileSync(file, `${server.apiKey}\n`);
    const { apiKey } = await addKey(server.store, {});
    await signIn({ apiKey });
    expect(existsSync(file)).toBe(true);
    await signIn({ link: await newLink() });
    expect(existsSync(file)).toBe(false);
  });

  it('is in the audit trail with the person, and so are a link and signing out', async () => {
    const { apiKey, keyId } = await addKey(server.store, { owner: 'grace' });
    const { cookie, body } = await signIn({ link: await newLink(apiKey) });
    await server.request('/console/logout', withCookie({ cookie }, { method: 'POST' }));
    const { entries } = await server.json(`/v1/audit?actor=${keyId}`);
    const who = { id: keyId, owner: 'grace', type: 'key' };
    expect(entries).toMatchObject([
      { action: 'console.signed-out', who, what: { keyId: body['id'] } },
      { action: 'console.signed-in', who, what: { keyId: body['id'], by: 'link' } },
      { action: 'console.link-created', who, what: { keyId: body['id'] } },
    ]);
  });
});

describe('a sign-in', () => {
  it('is listed among the keys, with the key that signed in, and can be revoked there', async () => {
    const { apiKey, keyId } = await addKey(server.store, { tenant: 'listed' });
    const signedIn = await signIn({ apiKey });
    const { keys } = await server.json('/v1/keys', { key: apiKey });
    expect(keys).toMatchObject([
      { id: signedIn.body['id'], kind: 'console', parent: keyId },
      { id: keyId, kind: 'api' },
    ]);
    const path = `/v1/keys/${String(signedIn.body['id'])}`;
    const rotated = await server.ask(`${path}/rotate`, { key: apiKey, body: {} });
    expect(rotated).toMatchObject({ status: 409, body: { code: 'key_ended' } });
    expect((await server.request(path, { method: 'DELETE', key: apiKey })).status).toBe(204);
    expect(await server.ask('/v1/runs', withCookie(signedIn))).toMatchObject({
      status: 401,
      body: unauthorized,
    });
  });

  it('ends after 12 hours', async () => {
    const signedIn = await signIn({ apiKey: server.apiKey });
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 12 * 3_600_000 - 60_000 });
    expect((await server.request('/v1/runs', withCookie(signedIn))).status).toBe(200);
    vi.setSystemTime(Date.now() + 61_000);
    expect((await server.request('/v1/runs', withCookie(signedIn))).status).toBe(401);
  });

  it('does not outlive the key that signed in', async () => {
    const { apiKey } = await addKey(server.store, { expiresAt: Date.now() + 3_600_000 });
    const { attributes, ...signedIn } = await signIn({ apiKey });
    expect(attributes).toContain('Max-Age=3600;');
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 3_600_001 });
    expect((await server.request('/v1/runs', withCookie(signedIn))).status).toBe(401);
  });

  it.each([
    ['is revoked', (id: string) => server.request(`/v1/keys/${id}`, { method: 'DELETE' })],
    [
      'is rotated out',
      (id: string) => server.request(`/v1/keys/${id}/rotate`, { body: { overlapSeconds: 0 } }),
    ],
  ])('ends when its key %s, with its open stream', async (_name, end) => {
    const { apiKey, keyId } = await addKey(server.store, {});
    const signedIn = await signIn({ apiKey });
    const { runId, reader } = await startRun(server, { input: 'notify me' });
    await reader.until('approval_requested');
    const path = `/v1/runs/${runId}/stream`;
    const stream = new FrameReader(await server.request(path, withCookie(signedIn)));
    await stream.until('approval_requested');
    expect((await end(keyId)).ok).toBe(true);
    await stream.rest();
    expect((await server.request('/v1/runs', withCookie(signedIn))).status).toBe(401);
    await reader.disconnect();
  });

  it('that is revoked ends its open stream, and not that of its key', async () => {
    const { apiKey } = await addKey(server.store, {});
    const signedIn = await signIn({ apiKey });
    const { runId, reader } = await startRun(server, { input: 'notify me' }, { key: apiKey });
    await reader.until('approval_requested');
    const path = `/v1/runs/${runId}/stream`;
    const stream = new FrameReader(await server.request(path, withCookie(signedIn)));
    await stream.until('approval_requested');
    const id = String(signedIn.body['id']);
    expect((await server.request(`/v1/keys/${id}`, { method: 'DELETE' })).status).toBe(204);
    await stream.rest();
    const { body } = await server.ask('/v1/approvals?status=pending', { key: apiKey });
    const [approval] = body['approvals'] as { id: string; runId: string }[];
    await server.request(`/v1/approvals/${approval?.id}`, {
      body: { approved: false },
      key: apiKey,
    });
    expect((await reader.rest()).length).toBeGreaterThan(0);
  });

  it('acts as the person of its key', async () => {
    const { apiKey, keyId } = await addKey(server.store, {});
    const signedIn = await signIn({ apiKey });
    const run = await startRun(server, { input: 'notify me' }, withCookie(signedIn));
    await run.reader.until('approval_requested');
    const started = await server.json(`/v1/audit?actor=${keyId}&action=run.started`);
    expect(started['entries']).toMatchObject([{ what: { runId: run.runId } }]);
    const { approvals } = await server.json('/v1/approvals?status=pending');
    const approval = (approvals as { id: string; runId: string }[]).find(
      ({ runId }) => runId === run.runId,
    );
    const decided = await server.ask(
      `/v1/approvals/${approval?.id}`,
      withCookie(signedIn, { body: { approved: true } }),
    );
    expect(decided.body).toMatchObject({
      decidedBy: { type: 'key', id: keyId, name: 'key of default' },
    });
    await run.reader.rest();
  });

  it('and its key are one person in a quorum', async () => {
    const one = await addKey(server.store, { tenant: 'quorum' });
    const two = await addKey(server.store, { tenant: 'quorum' });
    const signedIn = await signIn({ apiKey: one.apiKey });
    const policy = {
      version: 0,
      approvers: [{ tool: 'send_note', quorum: 2, notRequester: true }],
    };
    await server.json('/v1/policy', { method: 'PUT', body: policy, key: one.apiKey });
    const run = await startRun(server, { input: 'notify me' }, { key: two.apiKey });
    await run.reader.until('approval_requested');
    const { approvals } = await server.json('/v1/approvals', { key: one.apiKey });
    const path = `/v1/approvals/${(approvals as { id: string }[])[0]?.id}`;
    const vote = async (options: RequestOptions) =>
      (await server.ask(path, { ...options, body: { approved: true } })).body;
    expect(await vote({ key: one.apiKey })).toMatchObject({ status: 'pending', quorum: 2 });
    const again = await vote(withCookie(signedIn));
    expect(again).toMatchObject({ status: 'pending' });
    expect(again['votes']).toHaveLength(1);
    // The one who asked may not decide, through the console neither.
    const asker = await signIn({ apiKey: two.apiKey });
    expect(await vote(withCookie(asker))).toMatchObject({ code: 'not_an_approver' });
    const third = await addKey(server.store, { tenant: 'quorum' });
    expect(await vote(withCookie(await signIn({ apiKey: third.apiKey })))).toMatchObject({
      status: 'approved',
    });
    await run.reader.rest();
  });
});

describe('the cookie', () => {
  let signedIn: SignedIn;
  beforeAll(async () => {
    signedIn = await signIn({ apiKey: server.apiKey });
  });
  const secret = () => signedIn.cookie.split('=')[1] ?? '';

  it('is no key, and a key is no cookie', async () => {
    const asKey = await server.ask('/v1/runs', { key: secret() });
    expect(asKey).toMatchObject({ status: 401, body: unauthorized });
    for (const value of [server.apiKey, await newLink(), '', 'x']) {
      const cookie = `relay_console=${value}`;
      const asCookie = await server.ask('/v1/runs', withCookie({ cookie }));
      expect(asCookie).toMatchObject({ status: 401, body: unauthorized });
    }
  });

  it('counts only without an Authorization header, and only once', async () => {
    const wrong = withCookie(signedIn, { key: 'nonsense' });
    expect((await server.request('/v1/runs', wrong)).status).toBe(401);
    const twice = withCookie({ cookie: `${signedIn.cookie}; ${signedIn.cookie}` });
    expect((await server.request('/v1/runs', twice)).status).toBe(401);
    const among = withCookie({ cookie: `a=1; ${signedIn.cookie}; other_relay_console=2` });
    expect((await server.request('/v1/runs', among)).status).toBe(200);
  });

  it('opens neither /mcp nor /metrics nor internal routes, and makes no links', async () => {
    const internal = await bootServer({ env: { RELAY_INTERNAL_SECRET: 'a-secret-of-16-or-more' } });
    const { cookie } = await signIn({ apiKey: internal.apiKey }, {}, internal);
    const headers = { cookie, origin: internal.url };
    for (const name of ['serveMcp', 'metrics', 'awaitToolResult', 'createConsoleLink'] as const) {
      const { method, path } = routes[name];
      const url = path.replaceAll(/:\w+/g, '01963a5c-7891-7abc-8ef0-123456789abc');
      const body = name === 'serveMcp' ? { body: { jsonrpc: '2.0', id: 1, method: 'ping' } } : {};
      const response = await internal.request(url, { method, key: null, headers, ...body });
      expect(response.status, name).toBe(401);
    }
    await internal.stop();
  });

  it('makes a caller of /chat and /models that key, not a keyless one', async () => {
    const { models } = await server.json('/models', { key: null });
    expect((models as { id: string }[]).map(({ id }) => id)).toEqual(['demo']);
    const ended = { cookie: `relay_console=${makeSecret('console')}` };
    expect((await server.request('/models', withCookie(ended))).status).toBe(401);
    const { apiKey, keyId } = await addKey(server.store, {});
    const mine = await signIn({ apiKey });
    const body = { model: 'demo', messages: [{ role: 'user', content: 'say 1' }] };
    const chat = await server.request('/chat', withCookie(mine, { body }));
    expect(chat.status).toBe(200);
    await chat.text();
    const { entries } = await server.json(`/v1/audit?actor=${keyId}&action=run.started`);
    expect(entries).toHaveLength(1);
  });

  const writes: [string, Record<string, string>][] = [
    ['without an Origin', { origin: '' }],
    ['of a page without an origin', { origin: 'null' }],
    ['of a foreign page', { origin: 'https://evil.example' }],
    ['of another port', { origin: 'http://127.0.0.1:1' }],
    ['of an allowed origin', { origin: 'https://app.example' }],
    ['that a browser calls cross-site', { 'sec-fetch-site': 'cross-site' }],
    ['that a browser calls same-site', { 'sec-fetch-site': 'same-site' }],
  ];

  it.each(writes)('does not allow a write %s', async (_name, headers) => {
    const at = await bootServer({ env: { RELAY_ALLOWED_ORIGINS: 'https://app.example' } });
    const { cookie } = await signIn({ apiKey: at.apiKey }, {}, at);
    const sent: Record<string, string> = { cookie, origin: at.url, ...headers };
    if (sent['origin'] === '') delete sent['origin'];
    const write = { key: null, headers: sent, body: { namespace: 'n', text: 't' } };
    for (const path of ['/v1/memories', '/console/logout']) {
      const response = await at.request(path, { ...write, method: 'POST' });
      expect([response.status, await codeOf(response)], path).toEqual([403, 'origin_not_allowed']);
      expect(response.headers.get('access-control-allow-credentials')).toBeNull();
    }
    const own = { ...write, headers: { cookie, origin: at.url } };
    expect((await at.request('/v1/memories', own)).status).toBe(201);
    await at.stop();
  });

  const table = Object.entries<Route>(routes).filter(
    ([, { auth }]) => auth === undefined || auth === 'local-or-key',
  );

  it.each(table)('of another site does not open %s', async (_name, { method, path, cookie }) => {
    const url = path.replaceAll(/:\w+/g, '01963a5c-7891-7abc-8ef0-123456789abc');
    const foreign = { 'sec-fetch-site': 'cross-site' };
    const response = await server.request(url, withCookie(signedIn, { method, headers: foreign }));
    expect(response.status).toBe(cookie === false ? 401 : 403);
    const code = cookie === false ? 'unauthorized' : 'origin_not_allowed';
    expect(await response.text()).toContain(code);
  });

  it('does not let another site read, also one that may call with a key', async () => {
    const at = await bootServer({ env: { RELAY_ALLOWED_ORIGINS: 'https://app.example' } });
    const { cookie } = await signIn({ apiKey: at.apiKey }, {}, at);
    const read = (headers: Record<string, string>) =>
      at.request('/v1/runs', { key: null, headers: { cookie, ...headers } });
    const app = { origin: 'https://app.example' };
    const foreign: Record<string, string>[] = [
      app,
      { 'sec-fetch-site': 'cross-site' },
      { 'sec-fetch-site': 'same-site' },
    ];
    for (const headers of foreign) {
      const response = await read(headers);
      expect([response.status, await codeOf(response)]).toEqual([403, 'origin_not_allowed']);
    }
    for (const site of ['same-origin', 'none']) {
      expect((await read({ 'sec-fetch-site': site })).status).toBe(200);
    }
    const byKey = await at.request('/v1/runs', { headers: app });
    expect(byKey.status).toBe(200);
    expect(byKey.headers.get('access-control-allow-origin')).toBe('https://app.example');
    expect(byKey.headers.get('access-control-allow-credentials')).toBeNull();
    const preflight = await at.request('/v1/memories', {
      method: 'OPTIONS',
      key: null,
      headers: { ...app, 'access-control-request-method': 'POST' },
    });
    expect(preflight.status).toBe(204);
    expect(preflight.headers.get('access-control-allow-credentials')).toBeNull();
    await at.stop();
  });

  it('is for its own tenant', async () => {
    const { apiKey } = await addKey(server.store, { tenant: 'stranger' });
    const stranger = await signIn({ apiKey });
    const { runId, reader } = await startRun(server, { input: 'say 1' });
    await reader.rest();
    expect((await server.request(`/v1/runs/${runId}`, withCookie(stranger))).status).toBe(404);
    const { runs } = await server.json('/v1/runs', withCookie(stranger));
    expect(runs).toEqual([]);
    const path = `/v1/keys/${String(signedIn.body['id'])}`;
    const revoking = withCookie(stranger, { method: 'DELETE' });
    expect((await server.request(path, revoking)).status).toBe(404);
    expect((await server.request('/v1/runs', withCookie(signedIn))).status).toBe(200);
  });
});

describe('signing out', () => {
  it('ends the sign-in and deletes the cookie, also if it has ended', async () => {
    const signedIn = await signIn({ apiKey: server.apiKey });
    for (let n = 0; n < 2; n += 1) {
      const out = await server.request('/console/logout', withCookie(signedIn, { method: 'POST' }));
      expect(out.status).toBe(204);
      expect(out.headers.get('set-cookie')).toBe(
        'relay_console=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict',
      );
      expect((await server.request('/v1/runs', withCookie(signedIn))).status).toBe(401);
    }
    const without = await server.request('/console/logout', { method: 'POST', key: null });
    expect(without.status).toBe(204);
    expect((await server.request('/v1/runs')).status).toBe(200);
  });
});

describe('signing in again', () => {
  it('ends the sign-in whose cookie the browser had, and its streams', async () => {
    const before = await signIn({ apiKey: server.apiKey });
    const feed = new FrameReader(await server.request('/v1/feed', withCookie(before)));
    const { apiKey } = await addKey(server.store, { scopes: ['read'] });
    const own = withCookie(before).headers;
    const after = await signIn({ link: await newLink(apiKey) }, own);
    await feed.rest();
    expect((await server.request('/v1/runs', withCookie(before))).status).toBe(401);
    // A cookie that has ended is no obstacle.
    await signIn({ apiKey }, own);
    expect((await server.request('/v1/runs', withCookie(after))).status).toBe(200);
  });

  it('leaves the sign-in as it is if it fails', async () => {
    const before = await signIn({ apiKey: server.apiKey });
    expect((await login({ link: makeSecret('link') }, withCookie(before).headers)).status).toBe(
      401,
    );
    expect((await server.request('/v1/runs', withCookie(before))).status).toBe(200);
  });
});

describe('a login link', () => {
  it('has its secret where no server sees it, and the address that the client used', async () => {
    const { body } = await server.ask('/console/links', { method: 'POST' });
    expect(body).toEqual({ url: expect.any(String), expiresAt: expect.any(String) });
    const url = new URL(String(body['url']));
    expect(url.hash).toMatch(/^#relay_link_[0-9a-f]{72}$/);
    expect(`${url.origin}${url.pathname}${url.search}`).toBe(`${server.url}/console/login`);
    const other = await bootServer({ env: { RELAY_PUBLIC_URL: 'https://relay.example/x' } });
    const { url: known } = await other.json('/console/links', { method: 'POST' });
    expect(known).toMatch(/^https:\/\/relay\.example\/x\/console\/login#/);
    await other.stop();
  });

  it('signs in once, with no more than its key may do', async () => {
    const { apiKey, keyId } = await addKey(server.store, { scopes: ['read'], groups: ['team'] });
    const link = await newLink(apiKey);
    const signedIn = await signIn({ link });
    expect(signedIn.body).toMatchObject({ parent: keyId, scopes: ['read'], groups: ['team'] });
    expect((await server.request('/v1/runs', withCookie(signedIn))).status).toBe(200);
    const again = await login({ link });
    expect([again.status, await again.json()]).toEqual([401, invalidLink]);
    expect((await server.request('/v1/runs', withCookie(signedIn))).status).toBe(200);
  });

  it('signs in one of 50 who open it at once', async () => {
    const link = await newLink();
    const answers = await Promise.all(Array.from({ length: 50 }, () => login({ link })));
    expect(answers.map(({ status }) => status).filter((status) => status === 200)).toHaveLength(1);
    expect(answers.filter(({ status }) => status === 401)).toHaveLength(49);
  });

  it('is valid for 15 minutes', async () => {
    const [early, late] = [await newLink(), await newLink()];
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 14 * 60_000 });
    expect((await login({ link: early })).status).toBe(200);
    vi.setSystemTime(Date.now() + 61_000);
    const response = await login({ link: late });
    expect([response.status, await response.json()]).toEqual([401, invalidLink]);
  });

  it('ends with its key, and when it is revoked among the keys', async () => {
    const { apiKey, keyId } = await addKey(server.store, {});
    const [first, second] = [await newLink(apiKey), await newLink(apiKey)];
    const { keys } = await server.json('/v1/keys?limit=2');
    const [listed] = keys as { id: string; kind: string; parent: string }[];
    expect(listed).toMatchObject({ kind: 'link', parent: keyId });
    await server.request(`/v1/keys/${listed?.id}`, { method: 'DELETE' });
    expect((await login({ link: second })).status).toBe(401);
    await server.request(`/v1/keys/${keyId}`, { method: 'DELETE' });
    const response = await login({ link: first });
    expect([response.status, await response.json()]).toEqual([401, invalidLink]);
  });

  it('is neither a key nor a cookie', async () => {
    const link = await newLink();
    expect((await server.request('/v1/runs', { key: link })).status).toBe(401);
    const cookie = `relay_console=${link}`;
    expect((await server.request('/v1/runs', withCookie({ cookie }))).status).toBe(401);
    expect((await login({ link: server.apiKey })).status).toBe(401);
    expect((await login({ link })).status).toBe(200);
  });
});
