/** `/metrics` and the internal secret. */
import { afterEach, describe, expect, it } from 'vitest';
import { addKey, bootServer, type TestServer } from '../support/server.ts';
import { finishedRun, startRun, untilStatus } from '../support/requests.ts';

let server: TestServer;
afterEach(() => server.stop());

const secret = 'a-secret-of-16-or-more';
const boot = () => bootServer({ env: { RELAY_INTERNAL_SECRET: secret } });

async function figures(authorization = `Internal ${secret}`): Promise<Map<string, number>> {
  const response = await server.request('/metrics', { headers: { authorization } });
  expect(response.headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8');
  const text = await response.text();
  const found = new Map<string, number>();
  const typed = new Set<string>();
  for (const line of text.trimEnd().split('\n')) {
    const [, name] = /^# TYPE (\S+) (?:gauge|counter|histogram)$/.exec(line) ?? [];
    if (name !== undefined) typed.add(name);
    // Prometheus ignores empty lines and comments.
    if (line === '' || line.startsWith('#')) continue;
    const [, key = '', value] = /^([a-z_]+(?:\{[^}]*\})?) (\S+)$/.exec(line) ?? [];
    expect(Number.isFinite(Number(value)), line).toBe(true);
    expect(found.has(key), `${key} comes twice`).toBe(false);
    const family = key.replace(/\{.*$/, '').replace(/_(?:bucket|sum|count)$/, '');
    expect(typed.has(family) || typed.has(key.replace(/\{.*$/, '')), line).toBe(true);
    found.set(key, Number(value));
  }
  return found;
}

describe('metrics', () => {
  it('of a key are those of its tenant, without those of the node', async () => {
    server = await boot();
    await finishedRun(server, { input: 'calculate 23*47' });
    const { apiKey } = await addKey(server.store, { tenant: 'other' });
    const waiting = await startRun(server, { input: 'notify me' }, { key: apiKey });
    await waiting.reader.until('approval_requested');
    const shown = (figures: Map<string, number>) => [
      figures.get('relay_runs_started_total'),
      figures.get('relay_runs{status="waiting"}'),
      figures.get('relay_approvals_waiting'),
      figures.get('relay_approvals_requested_total'),
      figures.get('relay_runs_ended_total{status="completed"}'),
      figures.get('relay_tool_calls_total{outcome="completed"}'),
      figures.has('relay_open_streams'),
      figures.has('relay_first_token_seconds_count'),
    ];
    const own = [1, 0, 0, 0, 1, 1, false, false];
    const other = [1, 1, 1, 1, undefined, undefined, false, false];
    expect(shown(await figures(`Bearer ${server.apiKey}`))).toEqual(own);
    expect(shown(await figures(`Bearer ${apiKey}`))).toEqual(other);
    expect(shown(await figures())).toEqual([2, 1, 1, 1, 1, 1, true, true]);
    await waiting.reader.disconnect();
  });

  it('count runs, approvals, tools and tokens', async () => {
    server = await boot();
    await finishedRun(server, { input: 'calculate 23*47' });
    await finishedRun(server, { input: 'fail 400' }).catch(() => undefined);
    const waiting = await startRun(server, { input: 'notify me' });
    await untilStatus(server, waiting.runId, 'waiting');
    const now = await figures();
    expect(now.get('relay_runs_started_total')).toBe(3);
    expect(now.get('relay_runs_ended_total{status="completed"}')).toBe(1);
    expect(now.get('relay_runs_ended_total{status="failed"}')).toBe(1);
    expect(now.get('relay_runs{status="waiting"}')).toBe(1);
    expect(now.get('relay_runs{status="running"}')).toBe(0);
    expect(now.get('relay_approvals_waiting')).toBe(1);
    expect(now.get('relay_approvals_requested_total')).toBe(1);
    expect(now.get('relay_approvals_oldest_seconds')).toBeGreaterThanOrEqual(0);
    expect(now.get('relay_tool_calls_total{outcome="completed"}')).toBe(1);
    expect(now.get('relay_tokens_total{direction="out"}')).toBeGreaterThan(0);
    expect(now.get('relay_open_streams')).toBe(1);
    await waiting.reader.disconnect();
  });

  it('show sessions by status, what waits in their inboxes, and which are stuck', async () => {
    server = await boot();
    const body = { harness: 'human', handle: 'ada' };
    expect((await server.request('/v1/sessions', { body })).status).toBe(201);
    for (const text of ['one', 'two']) {
      const message = { to: '@ada', text, mode: 'manual' };
      expect((await server.request('/v1/messages', { body: message })).status).toBe(201);
    }
    const now = await figures();
    expect(now.get('relay_sessions{status="idle"}')).toBe(1);
    expect(now.get('relay_sessions_queued')).toBe(2);
    expect(now.get('relay_sessions_stuck')).toBe(0);
  });

  it('measure the first token and the journal, in buckets that only grow', async () => {
    server = await boot();
    await finishedRun(server, { input: 'say 300' });
    await finishedRun(server, { input: 'say 3' });
    const now = await figures();
    for (const name of ['relay_first_token_seconds', 'relay_journal_commit_seconds']) {
      const buckets = [...now].filter(([key]) => key.startsWith(`${name}_bucket`));
      const counts = buckets.map(([, count]) => count);
      expect(counts).toEqual(counts.toSorted((a, b) => a - b));
      expect(counts.at(-1)).toBe(now.get(`${name}_count`));
    }
    expect(now.get('relay_first_token_seconds_count')).toBe(2);
  });
});

describe('the internal secret', () => {
  const get = (path: string, authorization: string) =>
    server.request(path, { key: null, headers: { authorization } });

  it('opens /metrics and no tenant’s data', async () => {
    server = await bootServer({ env: { RELAY_INTERNAL_SECRET: secret } });
    const response = await get('/metrics', `Internal ${secret}`);
    expect(response.status).toBe(200);
    expect(await response.text()).toContain('relay_uptime_seconds');
    for (const path of ['/v1/runs', '/v1/keys', '/v1/credentials', '/v1/tenant', '/models']) {
      expect((await get(path, `Internal ${secret}`)).status, path).toBe(401);
    }
  });

  it.each([
    'Internal',
    'Internal ',
    `Internal ${secret}x`,
    `Internal ${secret.slice(1)}`,
    `Internal ${secret.toUpperCase()}`,
    `Internal ${secret} ${secret}`,
    `Bearer ${secret}`,
    secret,
  ])('is not %j, which is refused like any wrong key', async (authorization) => {
    server = await bootServer({ env: { RELAY_INTERNAL_SECRET: secret } });
    const response = await get('/metrics', authorization);
    expect(response.status).toBe(401);
    const unknown = await get('/metrics', 'Bearer nobody');
    expect(await response.text()).toBe(await unknown.text());
  });

  it('opens nothing if none is configured', async () => {
    server = await bootServer();
    expect((await get('/metrics', 'Internal undefined')).status).toBe(401);
    expect((await get('/metrics', 'Internal ')).status).toBe(401);
  });
});

it('metrics require the scope admin', async () => {
  server = await bootServer();
  expect((await server.request('/metrics', { key: null })).status).toBe(401);
  const { apiKey } = await addKey(server.store, { scopes: ['runs', 'approve'] });
  expect((await server.request('/metrics', { key: apiKey })).status).toBe(403);
});
