/** The number and size of the rules in one request, on every surface that takes rules. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { bootServer, type TestServer } from '../../support/server.ts';

const rules = (count: number, pattern = 'x') =>
  Array.from({ length: count }, (_, n) => ({
    tool: 'send_note',
    params: { to: `${pattern}${n}` },
  }));

describe('a request with rules', () => {
  let server: TestServer;
  beforeAll(async () => {
    server = await bootServer();
  });
  afterAll(() => server.stop());

  const messages = [{ role: 'user', content: 'hello' }];
  const surfaces: [string, string, (permissions: object) => object][] = [
    ['POST', '/chat', (permissions) => ({ model: 'demo', messages, permissions })],
    ['POST', '/api/chat', (permissions) => ({ message: 'hello', model: 'demo', permissions })],
    ['POST', '/v1/runs', (permissions) => ({ model: 'demo', input: 'hello', permissions })],
    [
      'POST',
      '/v1/permissions/explain',
      (permissions) => ({ tool: 'send_note', params: {}, permissions }),
    ],
    [
      'POST',
      '/v1/runs/01990000-0000-7000-8000-000000000000/fork',
      (permissions) => ({ atSeq: 1, permissions }),
    ],
  ];

  it.each(surfaces)(
    '%s %s refuses more than 500, in all lists together',
    async (method, path, body) => {
      const permissions = { denylist: rules(300), ask: rules(201) };
      const response = await server.request(path, { method, body: body(permissions) });
      expect(response.status).toBe(400);
      const { error } = (await response.json()) as { error: string };
      expect(error).toContain('501 rules; at most 500');
    },
  );

  it.each(['/v1/policy', '/v1/policy/preview'])('%s refuses more than 500', async (path) => {
    const response = await server.request(path, {
      method: path === '/v1/policy' ? 'PUT' : 'POST',
      body: { allow: rules(200), deny: rules(200), ask: rules(101) },
    });
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({
      error: expect.stringContaining('501 rules; at most 500'),
    });
  });

  it('is refused if its patterns are too long in total', async () => {
    const permissions = { denylist: rules(100, 'x'.repeat(400)) };
    const body = { tool: 'send_note', params: {}, permissions };
    const response = await server.request('/v1/permissions/explain', { method: 'POST', body });
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({
      error: expect.stringMatching(
        /permissions: Contains patterns of \d+ characters in total; at most 32768/,
      ),
    });
  });

  it.each(['/v1/grants', '/v1/grants/preview'])(
    '%s refuses a rule with too many parameters',
    async (path) => {
      const params = Object.fromEntries(Array.from({ length: 33 }, (_, n) => [`p${n}`, 'x']));
      const body = { tool: 'send_note', params, scope: 'tenant' };
      const response = await server.request(path, { method: 'POST', body });
      expect(response.status).toBe(400);
      expect(await response.json()).toMatchObject({
        error: expect.stringContaining('33 parameters; at most 32'),
      });
    },
  );

  it('may have 500 rules, and explains a call that is too large to decide', async () => {
    const slow = Array.from({ length: 20 }, (_, n) => ({
      tool: 'send_note',
      params: { text: `*a${'?'.repeat(900)}${'b?'.repeat(n)}b` },
    }));
    const permissions = { denylist: [...slow, ...rules(480)] };
    let seed = 1;
    const text = Array.from({ length: 600_000 }, () => {
      seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
      return seed > 1_073_741_824 ? 'a' : 'b';
    }).join('');
    const body = { tool: 'send_note', params: { to: 'eve', text: `${text}b` }, permissions };
    const explained = await server.json('/v1/permissions/explain', { method: 'POST', body });
    expect(explained).toMatchObject({ decision: 'ask' });
    expect(explained['reason']).toContain('too large to decide');
  });
});
