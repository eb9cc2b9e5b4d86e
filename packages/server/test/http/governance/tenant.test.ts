/** `/v1/tenant`: budgets, pause and bulk cancel. */
import { afterEach, describe, expect, it } from 'vitest';
import { addKey, bootServer, type TestServer } from '../../support/server.ts';
import { finishedRun, startRun, statusOf, untilStatus } from '../../support/requests.ts';

let server: TestServer;
afterEach(() => server.stop());

function set(body: object): Promise<Response> {
  return server.request('/v1/tenant', { method: 'PUT', body });
}

async function refusal(body: object = {}, key?: string) {
  const response = await server.request('/v1/runs', {
    body: { model: 'demo', input: 'say 1', ...body },
    ...(key === undefined ? {} : { key }),
  });
  return { status: response.status, body: (await response.json()) as Record<string, unknown> };
}

describe('a tenant', () => {
  it('returns its usage and open runs', async () => {
    server = await bootServer({
      file: { prices: { demo: { inputPerMillion: 1_000_000, outputPerMillion: 0 } } },
    });
    await finishedRun(server, { input: 'say 5' });
    const waiting = await startRun(server, { input: 'notify me' });
    await waiting.reader.until('approval_requested');
    await untilStatus(server, waiting.runId, 'waiting');
    const tenant = await server.json('/v1/tenant');
    expect(tenant).toMatchObject({
      name: 'default',
      paused: false,
      budgets: {},
      usage: { day: { outputTokens: 5, runs: 1 }, month: { runs: 1 } },
      openRuns: { queued: 0, running: 0, waiting: 1 },
    });
    const { usage } = tenant as { usage: { day: { inputTokens: number; costUsd: number } } };
    expect(usage.day.costUsd).toBeCloseTo(usage.day.inputTokens);
    await waiting.reader.disconnect();
  });

  it('cannot start runs when its token budget is used up', async () => {
    server = await bootServer();
    await set({ budgets: { tenant: { tokens: 27 } } });
    await finishedRun(server, { input: 'say 20', tools: [] });
    expect(await refusal()).toEqual({
      status: 429,
      body: {
        error: 'The tenant has too little left of its 27 tokens for this day',
        code: 'budget_exceeded',
      },
    });
    const later = await server.request('/v1/runs', { body: { model: 'demo', input: 'say 1' } });
    const seconds = Number(later.headers.get('retry-after'));
    const end = new Date(Date.now() + seconds * 1000);
    expect([end.getUTCHours(), end.getUTCMinutes()]).toEqual([0, 0]);
    expect(seconds).toBeLessThanOrEqual(24 * 60 * 60);
    const other = await addKey(server.store, { tenant: 'other' });
    await (
      await server.request('/v1/runs', {
        key: other.apiKey,
        body: { model: 'demo', input: 'say 1' },
      })
    ).text();
    await set({ budgets: {} });
    await finishedRun(server, { input: 'say 1' });
  });

  it('can limit one key, and returns its usage', async () => {
    server = await bootServer();
    const bounded = await addKey(server.store, { scopes: ['runs'] });
    await set({ budgets: { keys: { [bounded.keyId]: { tokens: 11, period: 'month' } } } });
    const first = await server.request('/v1/runs', {
      key: bounded.apiKey,
      body: { model: 'demo', input: 'say 3' },
    });
    await first.text();
    expect(await refusal({}, bounded.apiKey)).toMatchObject({
      status: 429,
      body: { error: 'This key has too little left of its 11 tokens for this month' },
    });
    await finishedRun(server, { input: 'say 1' });
    const used = { outputTokens: 3, runs: 1 };
    expect(await server.json('/v1/tenant')).toMatchObject({
      usage: { month: { runs: 2 }, keys: { [bounded.keyId]: { day: used, month: used } } },
    });
  });

  it('can limit its concurrent runs; waiting runs do not count', async () => {
    server = await bootServer();
    await set({ budgets: { tenant: { concurrentRuns: 1 } } });
    const waiting = await startRun(server, { input: 'notify me' });
    await untilStatus(server, waiting.runId, 'waiting');
    const slow = await startRun(server, { input: 'slow 60000' });
    await untilStatus(server, slow.runId, 'running');
    expect(await refusal()).toMatchObject({
      status: 429,
      body: { error: 'The tenant has reached its limit of 1 concurrent runs' },
    });
    const busy = await server.request('/v1/runs', { body: { model: 'demo', input: 'say 1' } });
    expect(busy.status).toBe(429);
    expect(busy.headers.has('retry-after')).toBe(false);
    await server.request(`/v1/runs/${slow.runId}/cancel`, { method: 'POST' });
    await untilStatus(server, slow.runId, 'canceled');
    await finishedRun(server, { input: 'say 1' });
    await waiting.reader.disconnect();
    await slow.reader.disconnect();
  });

  it('that is paused starts and continues no run until it is resumed', async () => {
    server = await bootServer();
    const other = await addKey(server.store, { tenant: 'other' });
    const slow = await startRun(server, { input: 'slow 2000' });
    await slow.reader.until('token');
    const asked = await startRun(server, { input: 'notify later' });
    const relay = await asked.reader.until('approval_requested');
    await untilStatus(server, asked.runId, 'waiting');
    expect(await (await set({ paused: true })).json()).toMatchObject({ paused: true });
    expect(await refusal()).toMatchObject({ status: 409, body: { code: 'tenant_paused' } });
    // Another tenant continues, for longer than the first run would have taken.
    const theirs = await server.request('/v1/runs', {
      key: other.apiKey,
      body: { model: 'demo', input: 'slow 2500' },
    });
    expect(theirs.status).toBe(200);

    // A decision is accepted, and has no effect yet.
    const decided = await server.request(`/v1/approvals/${String(relay.data['id'])}`, {
      body: { approved: true },
    });
    expect(decided.status).toBe(200);
    expect(await theirs.text()).toContain('"status":"completed"');
    expect(server.notes()).toEqual([]);
    expect(await statusOf(server, slow.runId)).toBe('running');

    expect(await (await set({ paused: false })).json()).toMatchObject({ paused: false });
    await untilStatus(server, asked.runId, 'completed');
    await untilStatus(server, slow.runId, 'completed');
    expect(server.notes()).toHaveLength(1);
    await slow.reader.disconnect();
    await asked.reader.disconnect();
  }, 20_000);

  it('that is paused can still cancel runs', async () => {
    server = await bootServer();
    const asked = await startRun(server, { input: 'notify later' });
    await untilStatus(server, asked.runId, 'waiting');
    await set({ paused: true });
    await server.request(`/v1/runs/${asked.runId}/cancel`, { method: 'POST' });
    await untilStatus(server, asked.runId, 'canceled');
    await asked.reader.disconnect();
  });

  it('can cancel runs by labels, by agent, or all', async () => {
    server = await bootServer({
      file: { agents: [{ name: 'triage', tools: ['send_note'] }] },
    });
    const begin = async (body: object) => {
      const run = await startRun(server, { input: 'notify me', ...body });
      await untilStatus(server, run.runId, 'waiting');
      return run;
    };
    const runs = [
      await begin({ labels: { team: 'red', env: 'test' } }),
      await begin({ labels: { team: 'red', env: 'prod' } }),
      await begin({ labels: { team: 'blue' } }),
      await begin({ agent: 'triage' }),
    ] as const;
    const kill = async (body: object) => {
      const response = await server.request('/v1/runs/cancel', { body });
      expect(response.status).toBe(202);
      return ((await response.json()) as { canceled: number }).canceled;
    };
    expect(await kill({ labels: { team: 'red', env: 'test' } })).toBe(1);
    await untilStatus(server, runs[0].runId, 'canceled');
    expect(await statusOf(server, runs[1].runId)).toBe('waiting');
    expect(await kill({ agent: 'triage' })).toBe(1);
    await untilStatus(server, runs[3].runId, 'canceled');
    expect(await kill({ all: true })).toBe(2);
    await untilStatus(server, runs[1].runId, 'canceled');
    await untilStatus(server, runs[2].runId, 'canceled');
    expect(await kill({ all: true })).toBe(0);
    for (const { reader } of runs) await reader.disconnect();
  });
});

describe('a request about a tenant', () => {
  it.each([
    ['/v1/tenant', { paused: 'yes' }, 'paused'],
    ['/v1/tenant', { budgets: { tenant: { tokens: -1 } } }, 'budgets.tenant.tokens'],
    ['/v1/tenant', { budgets: { tenant: { period: 'year' } } }, 'budgets.tenant.period'],
    ['/v1/tenant', { budgets: { keys: { x: {} } } }, 'budgets.keys.x'],
    ['/v1/tenant', { more: 1 }, 'more'],
    ['/v1/runs/cancel', {}, ''],
    ['/v1/runs/cancel', { all: false }, 'all'],
    ['/v1/runs/cancel', { labels: { '': 'x' } }, 'labels'],
  ])('is validated: %s %j', async (path, body, field) => {
    server = await bootServer();
    const method = path === '/v1/tenant' ? 'PUT' : 'POST';
    const response = await server.request(path, { method, body });
    expect(response.status).toBe(400);
    const { details } = (await response.json()) as { details: { path: string }[] };
    expect(details[0]?.path.startsWith(field)).toBe(true);
  });
});
