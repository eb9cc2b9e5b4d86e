/** `/v1/stats`: what is stored, counted. */
import { routes } from '@relay/protocol';
import { createToolRegistry, defineTool } from '@relay/tools';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { addKey, bootServer, type TestServer } from '../support/server.ts';
import { errorOf, startRun } from '../support/requests.ts';

const read = defineTool({
  name: 'read',
  description: 'Reads a file',
  schema: z.object({ path: z.string() }),
  execute: ({ path }) => ({ context: path }),
  derivePermission: ({ path }) => ({
    tool: 'read',
    params: { path: `${path.replace(/[^/]*$/, '')}*` },
  }),
});

interface Failed {
  readonly id: string;
  readonly error: { readonly code: string; readonly message: string };
}

const schema = routes.getStats.output;

describe('/v1/stats', () => {
  let server: TestServer;
  const decideOnRead = async (path: string, body: object, key: string) => {
    const tools = [{ name: 'read', kind: 'builtin' }];
    const input = `use read ${JSON.stringify({ path })}`;
    const run = await startRun(server, { input, tools }, { key });
    const asked = await run.reader.until('approval_requested');
    const id = String(asked.data['id']);
    expect((await server.request(`/v1/approvals/${id}`, { body, key })).status).toBe(200);
    await run.reader.rest();
  };
  const stats = async (key: string, query = '') =>
    schema.parse(await server.json(`/v1/stats${query}`, { key }));

  beforeAll(async () => {
    server = await bootServer({ tools: createToolRegistry([read]), kind: 'sqlite' });
  });
  afterAll(() => server.stop());

  it('counts what people started and decided, and measures the first token', async () => {
    const { apiKey: key } = await addKey(server.store, { tenant: 'counted' });
    const said = await startRun(server, { input: 'say hello', tools: [] }, { key });
    await said.reader.rest();
    await decideOnRead('src/a.ts', { approved: false, reason: 'no' }, key);
    const found = await stats(key);
    expect(found.bucket).toBe('hour');
    expect(Date.parse(found.until) - Date.parse(found.since)).toBeGreaterThanOrEqual(86_400_000);
    expect(found.buckets.map(({ at }) => at).toSorted()).toEqual(found.buckets.map(({ at }) => at));
    expect(found.buckets[0]?.at).toBe(found.since);
    expect(found.totals).toMatchObject({
      runs: { started: 2, completed: 2, failed: 0, canceled: 0 },
      approvals: { requested: 1, approved: 0, denied: 1, expired: 0 },
      firstTokenMs: { p50: expect.any(Number), p95: expect.any(Number) },
      approvalWaitMs: { p50: expect.any(Number), p95: expect.any(Number) },
      decisionsByPeople: 1,
      openRuns: 0,
      pendingApprovals: 0,
    });
    expect(found.totals.tokens.output).toBeGreaterThan(0);
    const sum = found.buckets.reduce((total, { runs }) => total + runs.completed, 0);
    expect(sum).toBe(2);
    expect(found.tools).toMatchObject([{ tool: 'read', asks: 1, approved: 0, denied: 1 }]);
    expect(found.agents).toMatchObject([{ agent: 'assistant', runs: 2 }]);
    expect(found.models).toMatchObject([{ model: 'demo', runs: 2 }]);
  });

  it('suggests the rule for what is approved again and again, and none that allows a denied call', async () => {
    const { apiKey: key } = await addKey(server.store, { tenant: 'suggested' });
    const suggestion = async () => (await stats(key)).tools[0]?.suggestedRule;
    await decideOnRead('src/a.ts', { approved: true }, key);
    // Once is not again and again.
    expect(await suggestion()).toBeUndefined();
    await decideOnRead('src/b.ts', { approved: true }, key);
    await decideOnRead('docs/x.md', { approved: true }, key);
    await decideOnRead('docs/secret.md', { approved: false, reason: 'no' }, key);
    expect(await suggestion()).toEqual({ tool: 'read', params: { path: 'src/*' } });
    await decideOnRead('src/secret.ts', { approved: false, reason: 'no' }, key);
    expect(await suggestion()).toBeUndefined();
  });

  it('shows failures with the last run', async () => {
    const { apiKey: key } = await addKey(server.store, { tenant: 'failed' });
    const body = { model: 'demo', input: 'fail 400' };
    expect((await server.request('/v1/runs', { body, key })).status).toBe(502);
    const { runs } = (await server.json('/v1/runs?status=failed', { key })) as { runs: Failed[] };
    const { failures, totals } = await stats(key, '?bucket=minute');
    const { id: lastRunId, error } = runs[0] as Failed;
    const { code, message } = error;
    expect(failures).toMatchObject([{ code, message, count: 1, lastRunId }]);
    expect(totals.runs).toMatchObject({ failed: 1, completed: 0 });
  });

  it('begins with the bucket of since, ends before until, and says which ranges are possible', async () => {
    const range = 'since=2026-01-01T12:34:56Z&until=2026-01-01T14:00:00Z';
    const key = server.apiKey;
    const found = await stats(key, `?${range}`);
    expect(found.since).toBe('2026-01-01T12:00:00.000Z');
    expect(found.buckets.map(({ at }) => at)).toEqual([
      '2026-01-01T12:00:00.000Z',
      '2026-01-01T13:00:00.000Z',
    ]);
    expect((await stats(key, `?${range}&bucket=minute`)).buckets).toHaveLength(86);
    const refused = async (query: string) => {
      const response = await server.request(`/v1/stats?${query}`);
      expect(response.status).toBe(400);
      return (await errorOf(response))['error'];
    };
    const year = 'since=2025-01-01T00:00:00Z&until=2026-01-01T00:00:00Z';
    expect(await refused(year)).toContain('set a later since, or bucket=day');
    expect((await stats(key, `?${year}&bucket=day`)).buckets).toHaveLength(365);
    expect(await refused('since=2026-01-02T00:00:00Z&until=2026-01-01T00:00:00Z')).toContain(
      'must be before until',
    );
    await refused('bucket=week');
  });
});
