import { uuidv7 } from 'uuidv7';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { addKey, bootServer, type TestServer } from '../../support/server.ts';
import { eventsOf, finishedRun, startRun, statusOf, untilStatus } from '../../support/requests.ts';

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

describe('/v1/runs', () => {
  let server: TestServer;

  beforeAll(async () => {
    server = await bootServer();
  });

  afterAll(async () => {
    await server.stop();
  });

  describe('starting a run', () => {
    it('answers with a stream, its headers and x-run-id', async () => {
      const response = await server.request('/v1/runs', {
        body: { model: 'demo', input: 'say 2' },
      });
      expect(response.status).toBe(200);
      expect(response.headers.get('content-type')).toBe('text/event-stream; charset=utf-8');
      expect(response.headers.get('cache-control')).toContain('no-cache');
      expect(response.headers.get('x-run-id')).toMatch(uuid);
      const text = await response.text();
      expect(text.split('\n\n').at(-2)).toMatch(/^id: \d+\ndata: \{"type":"done"/);
      expect(text).not.toContain('event:');
    });

    it('streams tokens, the tool call, its result and done, as the seed shows them', async () => {
      const { frames } = await finishedRun(server, { input: 'calculate 23*47' });
      const call = frames.find(({ data }) => data.type === 'tool_call')?.data;
      expect(call).toEqual({
        type: 'tool_call',
        id: 'call_1',
        name: 'calculator',
        input: { a: 23, b: 47, op: '*' },
      });
      expect(frames.find(({ data }) => data.type === 'tool_result')?.data).toEqual({
        type: 'tool_result',
        id: 'call_1',
        output: 1081,
      });
      const text = frames
        .filter(({ data }) => data.type === 'token')
        .map(({ data }) => data['text']);
      expect(text.join('')).toBe('23 * 47 is 1081.');
      expect(frames.at(-1)?.data).toMatchObject({
        type: 'done',
        status: 'completed',
        output: '23 * 47 is 1081.',
        usage: { input_tokens: expect.any(Number), output_tokens: expect.any(Number) },
      });
    });

    it('numbers frames by seq, rising, and equal to the journal', async () => {
      const { runId, frames } = await finishedRun(server, { input: 'say 50' });
      const ids = frames.map(({ id }) => Number(id));
      expect(ids).toEqual(ids.toSorted((a, b) => a - b));
      expect(new Set(ids).size).toBe(ids.length);
      const { events } = await eventsOf(server, runId);
      const tokens = frames.filter(({ data }) => data.type === 'token');
      expect(tokens).toHaveLength(50);
      for (const { id, data } of tokens) {
        expect(events[Number(id) - 1]).toMatchObject({ type: 'text.appended', text: data['text'] });
      }
    });

    it('takes messages as input, a system text, labels and the places it belongs to', async () => {
      const conversationId = uuidv7();
      const { runId: parentRunId } = await finishedRun(server, { input: 'say 1' });
      const input = [
        { role: 'user', content: 'hello' },
        { role: 'assistant', content: 'hi' },
        { role: 'user', content: 'say 1' },
      ];
      const { runId } = await finishedRun(server, {
        input,
        system: 'Be brief',
        conversationId,
        parentRunId,
        workflowId: 'nightly',
        labels: { team: 'red', constructor: 'x' },
        agent: 'assistant',
        maxIterations: 3,
      });
      expect(await server.json(`/v1/runs/${runId}`)).toMatchObject({
        id: runId,
        input,
        conversationId,
        parentRunId,
        workflowId: 'nightly',
        labels: { team: 'red', constructor: 'x' },
        output: '1',
      });
      const [created] = (await eventsOf(server, runId, '?limit=1')).events;
      expect(created).toMatchObject({ type: 'run.created', system: 'Be brief', maxIterations: 3 });
    });

    it('has no parent that its tenant has not', async () => {
      const other = await addKey(server.store, { tenant: 'neighbour' });
      const theirs = await server.request('/v1/runs', {
        key: other.apiKey,
        body: { model: 'demo', input: 'say 1' },
      });
      await theirs.text();
      for (const parentRunId of [uuidv7(), theirs.headers.get('x-run-id')]) {
        const response = await server.request('/v1/runs', {
          body: { model: 'demo', input: 'say 1', parentRunId },
        });
        expect(response.status).toBe(400);
        expect(response.headers.has('x-run-id')).toBe(false);
        expect(await response.json()).toEqual({
          error: 'parentRunId: No such run',
          code: 'invalid_request',
          details: [{ path: 'parentRunId', message: 'No such run' }],
        });
      }
    });

    it('continues a conversation: the next run has its messages', async () => {
      const conversationId = uuidv7();
      const first = await finishedRun(server, { input: 'say 30', conversationId });
      const second = await finishedRun(server, { input: 'say 1', conversationId });
      const alone = await finishedRun(server, { input: 'say 1' });
      const tokensRead = async (runId: string) =>
        ((await server.json(`/v1/runs/${runId}`))['usage'] as { input_tokens: number })
          .input_tokens;
      expect(first.runId).not.toBe(second.runId);
      expect(await tokensRead(second.runId)).toBeGreaterThan(await tokensRead(alone.runId));
    });

    it('has no tools unless they are requested', async () => {
      const { frames } = await finishedRun(server, { input: 'calculate 1+1', tools: [] });
      expect(frames.some(({ data }) => data.type === 'tool_call')).toBe(false);
    });

    it('ties the run to x-request-id, else to Idempotency-Key, else to a new id', async () => {
      const correlated = async (headers: Record<string, string>) => {
        const { runId, reader } = await startRun(server, { input: 'say 1' }, { headers });
        await reader.rest();
        return (await eventsOf(server, runId, '?limit=1')).events[0]?.['correlationId'];
      };
      const both = { 'x-request-id': 'request-1', 'idempotency-key': uuidv7() };
      expect(await correlated(both)).toBe('request-1');
      expect(await correlated({ 'idempotency-key': 'key-7' })).toBe('key-7');
      expect(await correlated({})).toMatch(uuid);
      expect(await correlated({ 'x-request-id': 'x'.repeat(256) })).toMatch(uuid);
    });
  });

  describe('a provider that fails', () => {
    it.each([
      ['fail 400', 'provider_rejected', false],
      ['fail 503', 'provider_failed', true],
    ])(
      '%s is a 502 with x-run-id, and the run is stored as failed',
      async (input, code, retryable) => {
        const response = await server.request('/v1/runs', { body: { model: 'demo', input } });
        expect(response.status).toBe(502);
        expect(response.headers.get('content-type')).toContain('application/json');
        expect(await response.json()).toEqual({ error: expect.stringContaining('demo'), code });
        const runId = response.headers.get('x-run-id');
        expect(runId).toMatch(uuid);
        const run = await server.json(`/v1/runs/${runId}`);
        expect(run).toMatchObject({ status: 'failed', error: { code, retryable } });
        expect(run['endedAt']).toBeDefined();
        expect((await eventsOf(server, String(runId))).events.at(-1)?.type).toBe('run.ended');
      },
    );

    it('removes its listeners when it ends', async () => {
      await server.request('/v1/runs', { body: { model: 'demo', input: 'fail 400' } });
      expect(server.relay.hub.size).toBe(0);
    });
  });

  describe('one run', () => {
    it('is shown as the bare object, with everything there is to say', async () => {
      const { runId } = await finishedRun(server, { input: 'calculate 2*3' });
      const run = await server.json(`/v1/runs/${runId}`);
      expect(run).toEqual({
        id: runId,
        status: 'completed',
        model: 'demo',
        agent: 'assistant',
        conversationId: expect.stringMatching(uuid),
        input: 'calculate 2*3',
        output: '2 * 3 is 6.',
        finishReason: 'stop',
        usage: { input_tokens: expect.any(Number), output_tokens: expect.any(Number) },
        checkpoint: expect.objectContaining({ version: 1 }),
        owner: expect.stringMatching(uuid),
        labels: {},
        lastSeq: expect.any(Number),
        createdAt: expect.stringMatching(/^\d{4}-.*Z$/),
        startedAt: expect.stringMatching(/^\d{4}-.*Z$/),
        endedAt: expect.stringMatching(/^\d{4}-.*Z$/),
      });
      expect(run['checkpoint']).toMatchObject({
        checkpoint: { kind: 'final_result', runId },
      });
    });

    it('keeps text exactly, whatever is in it', async () => {
      const input = 'say 1 \0 \ud800 \u2028 \r\n\n data: x "\\ 💥';
      const { runId } = await finishedRun(server, { input });
      expect((await server.json(`/v1/runs/${runId}`))['input']).toBe(input);
    });
  });

  describe('its events', () => {
    it('are the whole journal, oldest first, with the run', async () => {
      const { runId } = await finishedRun(server, { input: 'calculate 2*3' });
      const { run, events, nextCursor } = await eventsOf(server, runId);
      expect(events.map(({ seq }) => seq)).toEqual(events.map((_, n) => n + 1));
      expect(events[0]?.type).toBe('run.created');
      expect(events.at(-1)?.type).toBe('run.ended');
      expect(run).toEqual(await server.json(`/v1/runs/${runId}`));
      expect(run['lastSeq']).toBe(events.length);
      expect(nextCursor).toBeNull();
      for (const event of events) expect(event['at']).toMatch(/^\d{4}-.*Z$/);
    });

    it.each([1, 2, 7, 5000])(
      'come page by page with limit %i, none twice, none left out',
      async (limit) => {
        const { runId } = await finishedRun(server, { input: 'say 30' });
        const whole = (await eventsOf(server, runId)).events;
        const collected: unknown[] = [];
        let after = '0';
        for (;;) {
          const page = await eventsOf(server, runId, `?after=${after}&limit=${limit}`);
          expect(page.events.length).toBeLessThanOrEqual(limit);
          collected.push(...page.events);
          if (page.nextCursor === null) break;
          expect(page.events).toHaveLength(limit);
          after = page.nextCursor;
        }
        expect(collected).toEqual(whole);
      },
    );

    it('have nothing after the last, and no further page', async () => {
      const { runId } = await finishedRun(server, { input: 'say 1' });
      const { events } = await eventsOf(server, runId);
      const end = await eventsOf(server, runId, `?after=${events.length}`);
      expect(end.events).toEqual([]);
      expect(end.nextCursor).toBeNull();
    });

    it('are rejected past the end instead of starting again', async () => {
      const { runId } = await finishedRun(server, { input: 'say 1' });
      const { events } = await eventsOf(server, runId);
      const response = await server.request(`/v1/runs/${runId}/events?after=${events.length + 1}`);
      expect(response.status).toBe(409);
      expect(await response.json()).toMatchObject({ code: 'cursor_past_end' });
    });
  });

  describe('canceling', () => {
    it('ends a running run at once, and its stream with done', async () => {
      const { runId, reader } = await startRun(server, { input: 'slow 60000' });
      const response = await server.request(`/v1/runs/${runId}/cancel`, { method: 'POST' });
      expect(response.status).toBe(202);
      expect(await response.json()).toMatchObject({ id: runId, model: 'demo' });
      const frames = await reader.rest();
      expect(frames.at(-1)?.data).toMatchObject({ type: 'done', status: 'canceled' });
      expect(await statusOf(server, runId)).toBe('canceled');
    });

    it('ends a waiting run and closes its approval; the tool never runs', async () => {
      const { runId, reader } = await startRun(server, { input: 'notify never sent' });
      const relay = await reader.until('approval_requested');
      await untilStatus(server, runId, 'waiting');
      await server.request(`/v1/runs/${runId}/cancel`, { method: 'POST' });
      const frames = await reader.rest();
      expect(frames.map(({ data }) => data.type).slice(-3)).toEqual([
        'approval_resolved',
        'tool_result',
        'done',
      ]);
      expect(frames.at(-3)?.data).toEqual({
        type: 'approval_resolved',
        id: relay.data['id'],
        status: 'closed',
      });
      expect(await statusOf(server, runId)).toBe('canceled');
      expect(server.notes().join()).not.toContain('never sent');
    });

    it('may be requested as JSON without a body, and concurrently', async () => {
      const { runId, reader } = await startRun(server, { input: 'slow 5000' });
      const headers = { 'content-type': 'application/json' };
      const answers = await Promise.all(
        Array.from({ length: 5 }, () =>
          server.request(`/v1/runs/${runId}/cancel`, { method: 'POST', headers }),
        ),
      );
      expect(answers.map(({ status }) => status)).toEqual([202, 202, 202, 202, 202]);
      await reader.rest();
      const { events } = await eventsOf(server, runId);
      expect(events.filter(({ type }) => type === 'run.ended')).toHaveLength(1);
    });

    it('leaves a run that is over as it ended', async () => {
      const { runId } = await finishedRun(server, { input: 'say 1' });
      const before = await server.json(`/v1/runs/${runId}`);
      const response = await server.request(`/v1/runs/${runId}/cancel`, { method: 'POST' });
      expect(response.status).toBe(202);
      expect(await response.json()).toEqual(before);
      expect(await server.json(`/v1/runs/${runId}`)).toEqual(before);
    });
  });

  it('goes on without its reader: a disconnect cancels nothing here', async () => {
    const { runId, reader } = await startRun(server, { input: 'slow 300' });
    await reader.until('token');
    await reader.disconnect();
    await untilStatus(server, runId, 'completed');
    expect(server.relay.hub.size).toBe(0);
  });
});
