/** Resuming and forking runs, and reading workflows. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { addKey, bootServer, type TestServer, type RequestOptions } from '../../support/server.ts';
import { eventsOf, finishedRun, startRun, untilStatus } from '../../support/requests.ts';

describe('resuming and forking runs', () => {
  let server: TestServer;

  beforeAll(async () => {
    server = await bootServer();
  });

  afterAll(async () => {
    await server.stop();
  });

  async function fork(runId: string, body: Record<string, unknown>, options: RequestOptions = {}) {
    const response = await server.request(`/v1/runs/${runId}/fork`, { ...options, body });
    const run = (await response.json()) as Record<string, unknown>;
    return { response, status: response.status, run, id: String(run['id']) };
  }

  async function waiting(text: string, body: Record<string, unknown> = {}) {
    const talk = await startRun(server, { input: `notify ${text}`, ...body });
    await talk.reader.until('approval_requested');
    await untilStatus(server, talk.runId, 'waiting');
    await talk.reader.disconnect();
    return talk.runId;
  }

  describe('POST /v1/runs/:id/resume', () => {
    it('does not change a waiting run', async () => {
      const runId = await waiting('resume me');
      const response = await server.request(`/v1/runs/${runId}/resume`, { method: 'POST' });
      expect(response.status).toBe(202);
      expect(await response.json()).toMatchObject({ id: runId, status: 'waiting' });
    });

    it('answers 409 for an ended run, and names the fork route', async () => {
      const { runId } = await finishedRun(server, { input: 'say 1' });
      const response = await server.request(`/v1/runs/${runId}/resume`, { method: 'POST' });
      expect(response.status).toBe(409);
      expect(await response.json()).toMatchObject({
        code: 'run_ended',
        error: expect.stringContaining(`/v1/runs/${runId}/fork`),
      });
      const { events } = await eventsOf(server, runId);
      expect(events.at(-1)?.type).toBe('run.ended');
    });

    it('is refused while the tenant is paused', async () => {
      const own = await bootServer();
      const talk = await startRun(own, { input: 'notify paused' });
      await talk.reader.until('approval_requested');
      await own.request('/v1/tenant', { method: 'PUT', body: { paused: true } });
      const response = await own.request(`/v1/runs/${talk.runId}/resume`, { method: 'POST' });
      const { code } = (await response.json()) as { code: string };
      await talk.reader.disconnect();
      await own.stop();
      expect([response.status, code]).toEqual([409, 'tenant_paused']);
    });
  });

  describe('POST /v1/runs/:id/fork', () => {
    it('names the key as the actor in the audit trail, and keeps the traceparent', async () => {
      const { runId } = await finishedRun(server, { input: 'say 1' });
      const traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
      const { status, id } = await fork(runId, { input: 'say 2' }, { headers: { traceparent } });
      expect(status).toBe(201);
      const trail = await server.request(`/v1/audit?runId=${id}&action=run.started`);
      const { entries } = (await trail.json()) as { entries: { who: { type: string } }[] };
      expect(entries.map(({ who }) => who.type)).toEqual(['key']);
      const { events } = await eventsOf(server, id);
      expect(events[0]).toMatchObject({ type: 'run.created', traceparent });
    });

    it('inherits functions, memory and the output schema', async () => {
      const lookup = { name: 'lookup', kind: 'function', inputSchema: { type: 'object' } };
      const source = await startRun(server, {
        input: 'use lookup {}',
        tools: [{ name: 'calculator', kind: 'builtin' }, lookup],
        memory: { namespace: 'forks' },
        reasoning: 'low',
      });
      const { data } = await source.reader.until('tool_call');
      const path = `/tool-results/${String(data['id'])}`;
      await server.request(`/v1/runs/${source.runId}${path}`, { body: { output: 1 } });
      await source.reader.rest();
      const forked = await fork(source.runId, { input: 'use lookup {}' });
      expect(forked.status).toBe(201);
      await untilStatus(server, forked.id, 'waiting');
      const { events } = await eventsOf(server, forked.id);
      expect(events[0]).toMatchObject({
        tools: ['calculator', 'lookup'],
        functions: [{ name: 'lookup' }],
        memory: { namespace: 'forks' },
        reasoning: 'low',
      });
      expect(events.some(({ via }) => via === 'client')).toBe(true);
      await server.request(`/v1/runs/${forked.id}/cancel`, { method: 'POST' });
    });

    it('creates a run with the history of the source', async () => {
      const source = await finishedRun(server, {
        input: 'calculate 6*7',
        labels: { team: 'red' },
        workflowId: 'w-fork',
      });
      const before = await eventsOf(server, source.runId);
      const { response, run, id } = await fork(source.runId, { input: 'say 2' });
      expect(response.status).toBe(201);
      expect(response.headers.get('x-run-id')).toBe(id);
      expect(run).toMatchObject({
        parentRunId: source.runId,
        forkedFrom: { runId: source.runId, seq: before.run['lastSeq'] },
        model: 'demo',
        agent: 'assistant',
        input: 'say 2',
        labels: { team: 'red' },
        workflowId: 'w-fork',
      });
      expect(run['conversationId']).not.toBe(before.run['conversationId']);
      await untilStatus(server, id, 'completed');
      expect(await eventsOf(server, source.runId)).toEqual(before);
      const { events } = await eventsOf(server, id);
      expect(events.map(({ seq }) => seq)).toEqual(events.map((_, n) => n + 1));
    });

    it('requires no body, and inherits everything', async () => {
      const failed = await server.request('/v1/runs', {
        body: { model: 'demo', input: 'fail 400' },
      });
      const runId = failed.headers.get('x-run-id') ?? '';
      const path = `/v1/runs/${runId}/fork`;
      const headers = { 'idempotency-key': 'without a body' };
      const forked = await server.request(path, { method: 'POST', headers });
      expect(forked.status).toBe(201);
      const { id, parentRunId } = (await forked.json()) as Record<string, string>;
      expect(parentRunId).toBe(runId);
      // An empty body is the same.
      const again = await server.request(path, { headers, body: {} });
      expect(((await again.json()) as { id: string }).id).toBe(id);
    });

    it('continues a failed run without new input', async () => {
      const response = await server.request('/v1/runs', {
        body: { model: 'demo', input: 'fail 400' },
      });
      const runId = String(response.headers.get('x-run-id'));
      await response.text();
      await untilStatus(server, runId, 'failed');
      const { status, id, run } = await fork(runId, {});
      expect(status).toBe(201);
      expect(run['input']).toEqual([]);
      await untilStatus(server, id, 'failed');
    });

    it('accepts new input, labels and limits', async () => {
      const { runId } = await finishedRun(server, { input: 'say 1' });
      const { run, id } = await fork(runId, {
        seq: 1,
        input: [{ role: 'user', content: 'say 3' }],
        labels: { mine: 'yes' },
        workflowId: 'another',
        maxIterations: 3,
        limits: { toolCalls: 1 },
      });
      expect(run).toMatchObject({ labels: { mine: 'yes' }, workflowId: 'another' });
      const { events } = await eventsOf(server, id);
      expect(events[0]).toMatchObject({ maxIterations: 3, limits: { toolCalls: 1 } });
      await untilStatus(server, id, 'completed');
    });

    it('refuses a position inside a turn or past the end, and names valid ones', async () => {
      const runId = await waiting('inside');
      const { events, run } = await eventsOf(server, runId);
      const begun = events.find(({ type }) => type === 'turn.started')?.seq ?? 0;
      for (const seq of [begun, Number(run['lastSeq']), Number(run['lastSeq']) + 1]) {
        const answer = await fork(runId, { seq });
        expect(answer.status).toBe(409);
        expect(answer.run).toMatchObject({ code: 'not_a_boundary' });
      }
      expect((await fork(runId, { seq: begun - 1 })).status).toBe(201);
    });

    it('requires input if the last message is the agent’s', async () => {
      const { runId } = await finishedRun(server, { input: 'say 1' });
      const { status, run } = await fork(runId, {});
      expect(status).toBe(400);
      expect(run).toMatchObject({ code: 'invalid_request', details: [{ path: 'input' }] });
    });

    it('is idempotent with an idempotency key, per source run', async () => {
      const first = await finishedRun(server, { input: 'say 1' });
      const second = await finishedRun(server, { input: 'say 1' });
      const headers = { 'idempotency-key': `fork-${first.runId}` };
      const body = { input: 'say 2' };
      const made = await Promise.all(
        Array.from({ length: 10 }, () => fork(first.runId, body, { headers })),
      );
      expect(new Set(made.map(({ id }) => id)).size).toBe(1);
      expect(made.map(({ status }) => status)).toEqual(Array(10).fill(201));
      const replayed = made.filter(({ response }) => response.headers.has('idempotent-replayed'));
      expect(replayed).toHaveLength(9);
      expect((await fork(second.runId, body, { headers })).status).toBe(422);
      expect((await fork(first.runId, { input: 'say 3' }, { headers })).status).toBe(422);
    });

    it('does not inherit allow rules for a key without the scope approve', async () => {
      const allowlist = [{ tool: 'send_note', params: { to: 'operator' } }];
      const { runId } = await finishedRun(server, { input: 'say 1', permissions: { allowlist } });
      const { apiKey: key } = await addKey(server.store, { scopes: ['runs'] });
      const refused = await fork(runId, { input: 'notify sneaky' }, { key });
      expect(refused.status).toBe(403);
      expect(refused.run).toMatchObject({ code: 'approve_scope_required' });
      const own = await fork(runId, { input: 'notify sneaky', permissions: {} }, { key });
      expect(own.status).toBe(201);
      await untilStatus(server, own.id, 'waiting');
      expect(server.notes().join()).not.toContain('sneaky');
    });

    it('does not inherit allow-once rules', async () => {
      const allowOnce = [{ tool: 'send_note' }];
      const { runId } = await finishedRun(server, {
        input: 'notify only once',
        permissions: { allowOnce, denylist: [{ tool: 'calculator' }] },
      });
      const { id } = await fork(runId, { input: 'notify only once' });
      await untilStatus(server, id, 'waiting');
      const { events } = await eventsOf(server, id);
      expect(events[0]).toMatchObject({ permissions: { denylist: [{ tool: 'calculator' }] } });
      expect(server.notes().filter((line) => line.includes('only once'))).toHaveLength(1);
    });

    it.each([
      ['an unknown model', { input: 'x', model: 'nobody-1' }, 'unknown_model'],
      ['a seq that is none', { input: 'x', seq: 0 }, 'invalid_request'],
      ['an empty input', { input: '' }, 'invalid_request'],
      [
        'a bad pattern',
        { permissions: { denylist: [{ tool: 'x', params: { a: '' } }] } },
        undefined,
      ],
      ['an unknown field', { input: 'x', at: 1 }, 'invalid_request'],
    ])('refuses %s with 400', async (_what, body, code) => {
      const runId = await waiting('refuse the fork');
      const answer = await fork(runId, body);
      expect(answer.status).toBe(400);
      expect(answer.run).toMatchObject({ code: code ?? 'invalid_pattern' });
    });
  });

  describe('GET /v1/workflows/:id', () => {
    const get = (id: string, query = '') =>
      server.json(`/v1/workflows/${encodeURIComponent(id)}${query}`);

    it('shows the runs of a workflow, newest first, and their totals', async () => {
      const workflowId = 'night ly/1';
      const first = await finishedRun(server, { input: 'say 3', workflowId });
      const second = await finishedRun(server, { input: 'say 2', workflowId });
      await finishedRun(server, { input: 'say 2', workflowId: 'night' });
      const flow = await get(workflowId);
      expect(flow).toMatchObject({
        id: workflowId,
        status: 'completed',
        counts: { completed: 2 },
        runs: [{ id: second.runId }, { id: first.runId }],
        nextCursor: null,
      });
      const runs = flow['runs'] as { usage: Record<string, number> }[];
      const sum = (name: string) => runs.reduce((all, { usage }) => all + (usage[name] ?? 0), 0);
      expect(flow['usage']).toEqual({
        input_tokens: sum('input_tokens'),
        output_tokens: sum('output_tokens'),
      });
      const page = await get(workflowId, '?limit=1');
      expect(page).toMatchObject({ runs: [{ id: second.runId }], counts: { completed: 2 } });
      const rest = await get(workflowId, `?limit=1&cursor=${String(page['nextCursor'])}`);
      expect(rest).toMatchObject({ runs: [{ id: first.runId }], nextCursor: null });
    });

    it('has the status of its active runs, else the worst of its ended ones', async () => {
      const workflowId = 'mixed';
      await finishedRun(server, { input: 'say 1', workflowId });
      const runId = await waiting('workflow', { workflowId });
      expect(await get(workflowId)).toMatchObject({ status: 'waiting' });
      await server.request(`/v1/runs/${runId}/cancel`, { method: 'POST' });
      await untilStatus(server, runId, 'canceled');
      expect(await get(workflowId)).toMatchObject({
        status: 'canceled',
        counts: { completed: 1, canceled: 1 },
      });
    });

    it('is answered with 404 for another tenant, and without runs', async () => {
      await finishedRun(server, { input: 'say 1', workflowId: 'ours' });
      const { apiKey: key } = await addKey(server.store, { tenant: 'stranger' });
      const theirs = await server.request('/v1/workflows/ours', { key });
      const nobodys = await server.request('/v1/workflows/none', { key });
      expect([theirs.status, nobodys.status]).toEqual([404, 404]);
      expect(await theirs.text()).toBe(await nobodys.text());
    });
  });
});
