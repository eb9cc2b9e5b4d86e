/** The SDK over the real router, without a port. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { RelayApiError } from '@relay/sdk';
import { builtin, type InProcessServer, startInProcess } from './environment.ts';

let server: InProcessServer;
beforeAll(async () => {
  server = await startInProcess();
});
afterAll(() => server.dispose());

const failure = (call: Promise<unknown>) => call.catch((error: unknown) => error);

describe('SDK runs', () => {
  test('starts, follows and finishes a run', async () => {
    const { runs } = server.client;
    const run = await runs.create({
      model: 'demo',
      input: 'calculate 23*47',
      tools: [builtin('calculator')],
      labels: { team: 'a' },
    });
    const types: string[] = [];
    let last = 0;
    for await (const event of run) {
      types.push(event.type);
      expect(event.seq).toBeGreaterThan(last);
      last = event.seq;
      if (event.type === 'tool_result') expect(event.output).toBe(1081);
    }
    expect(types.slice(0, 3)).toEqual(['run', 'tool_call', 'tool_result']);
    expect(types.at(-1)).toBe('done');
    expect(run.textSoFar).toBe('23 * 47 is 1081.');
    expect(await run.text()).toBe('23 * 47 is 1081.');
    const stored = await runs.get(run.id);
    expect(stored).toMatchObject({ status: 'completed', lastSeq: last, labels: { team: 'a' } });
    const { input_tokens: inputTokens, output_tokens: outputTokens } = stored.usage;
    expect((await run.result()).usage).toEqual({ inputTokens, outputTokens });
    expect(await run.result()).toMatchObject({ agent: 'assistant' });
  });

  test('ends at once for a handle that starts after the last event', async () => {
    const { runs } = server.client;
    const run = await runs.create({ model: 'demo', input: 'say 3' });
    const result = await run.result();
    const again = runs.stream(run.id, { after: run.lastSeq, reconnectTimeoutMs: 0 });
    for await (const event of again) expect.fail(`There was a ${event.type}`);
    expect(await again.result()).toEqual(result);
  });

  test('iterates the journal in pages', async () => {
    const { runs } = server.client;
    const run = await runs.create({ model: 'demo', input: 'say 40' });
    await run.result();
    const types: string[] = [];
    let seq = 0;
    for await (const event of runs.events(run.id, { limit: 7 })) {
      expect(event.seq).toBe((seq += 1));
      types.push(event.type);
    }
    expect(types[0]).toBe('run.created');
    expect(types.at(-1)).toBe('run.ended');
    const page = await runs.events(run.id, { after: 5, limit: 3 }).page();
    expect(page.run.id).toBe(run.id);
    expect(page.items.map((event) => event.seq)).toEqual([6, 7, 8]);
    expect(page.nextCursor).toBe('8');
  });

  test('follows a run again after any seq', async () => {
    const { runs } = server.client;
    const run = await runs.create({ model: 'demo', input: 'say 20' });
    const seqs: number[] = [];
    for await (const { seq } of run) seqs.push(seq);
    const again: number[] = [];
    for await (const { seq } of runs.stream(run.id, { after: seqs[9] })) again.push(seq);
    expect(again).toEqual(seqs.slice(10));
  });

  test('lets a run continue after the reader has stopped', async () => {
    const { runs } = server.client;
    const gone = new AbortController();
    const run = await runs.create({ model: 'demo', input: 'slow 300' }, { signal: gone.signal });
    for await (const _ of run) break;
    gone.abort(new Error('closed the tab'));
    await expect(run.result()).rejects.toThrow('closed the tab');
    expect(await runs.stream(run.id).result()).toMatchObject({ status: 'completed' });
  });

  test('cancels a run', async () => {
    const { runs } = server.client;
    const run = await runs.create({ model: 'demo', input: 'slow 60000' });
    expect(await run.cancel()).toMatchObject({ id: run.id });
    expect(await run.result()).toMatchObject({ status: 'canceled' });
    await expect(run.text()).rejects.toMatchObject({ code: 'run_canceled' });
  });

  test('reports the limit that a run reached', async () => {
    const run = await server.client.runs.create({
      model: 'demo',
      input: 'use calculator {"a": 1, "b": 2, "op": "+"}',
      tools: [builtin('calculator')],
      limits: { toolCalls: 0 },
    });
    expect(await run.result()).toMatchObject({ limit: 'toolCalls' });
  });

  test('starts one run per idempotency key', async () => {
    const { runs } = server.client;
    const body = { model: 'demo', input: 'say 3', labels: { once: 'yes' } };
    const options = { idempotencyKey: 'order-17' };
    const [one, two] = await Promise.all([runs.create(body, options), runs.create(body, options)]);
    expect(two.id).toBe(one.id);
    expect(one.replayed).toBe(!two.replayed);
    expect(await two.text()).toBe(await one.text());
    const { items } = await runs.list({ label: 'once:yes' }).page();
    expect(items).toHaveLength(1);
    const other = failure(runs.create({ ...body, input: 'say 4' }, options));
    expect(await other).toMatchObject({ code: 'idempotency_mismatch', status: 422 });
  });

  test('starts one run if the response was lost', async () => {
    const { createClient } = await import('@relay/sdk');
    let lost = 0;
    const client = createClient({
      baseUrl: 'http://localhost',
      apiKey: server.apiKey,
      async fetch(url, init) {
        const response = await server.fetch(url, init);
        if (init.method !== 'POST' || lost >= 2) return response;
        lost += 1;
        await response.body?.cancel();
        throw new TypeError('fetch failed');
      },
    });
    const labels = { lost: 'twice' };
    const run = await client.runs.create({ model: 'demo', input: 'say 3', labels });
    expect(lost).toBe(2);
    expect(run.replayed).toBe(true);
    expect(await run.result()).toMatchObject({ status: 'completed' });
    const { items } = await client.runs.list({ label: 'lost:twice' }).page();
    expect(items.map(({ id }) => id)).toEqual([run.id]);
  });
});

describe('SDK lists', () => {
  test('iterate all items without gaps or duplicates, newest first', async () => {
    const { runs } = server.client;
    const started: string[] = [];
    for (let n = 0; n < 7; n += 1) {
      const run = await runs.create({ model: 'demo', input: 'say 1', labels: { page: 'yes' } });
      await run.result();
      started.unshift(run.id);
    }
    const found: string[] = [];
    const before = server.lines.length;
    for await (const { id } of runs.list({ label: 'page:yes', limit: 3 })) found.push(id);
    expect(found).toEqual(started);
    expect(server.lines.slice(before)).toEqual(['GET /v1/runs', 'GET /v1/runs', 'GET /v1/runs']);
    const page = await runs.list({ label: 'page:yes', limit: 3 }).page();
    expect(page.items).toHaveLength(3);
    const next = await runs.list({ label: 'page:yes', limit: 3 }).page(page.nextCursor ?? '');
    expect(next.items.map(({ id }) => id)).toEqual(started.slice(3, 6));
  });
});

describe('SDK approvals', () => {
  test('are decided by onApproval while the run is followed', async () => {
    const asked: string[] = [];
    const run = await server.client.runs.create(
      { model: 'demo', input: 'notify inline', tools: [builtin('send_note')] },
      {
        onApproval(approval) {
          asked.push(approval.display.text);
          return { approved: true, reason: 'as agreed' };
        },
      },
    );
    expect(await run.text()).toBe('The note was sent.');
    expect(asked).toHaveLength(1);
    expect(asked[0]).toContain('inline');
    expect(server.notes().filter((line) => line.includes('inline'))).toHaveLength(1);
    // A later reader is not asked about a decided approval.
    const later = server.client.runs.stream(run.id, {
      onApproval: () => {
        throw new Error('asked again');
      },
    });
    expect(await later.result()).toMatchObject({ status: 'completed' });
  });

  test('are listed and decided by another client', async () => {
    const { runs, approvals } = server.client;
    const run = await runs.create({
      model: 'demo',
      input: 'notify elsewhere',
      tools: [builtin('send_note')],
    });
    for await (const event of run) {
      if (event.type === 'approval_requested') break;
    }
    const [pending] = (await approvals.list({ status: 'pending', runId: run.id }).page()).items;
    expect(pending).toMatchObject({ tool: 'send_note', runId: run.id });
    expect(await approvals.get(pending?.id ?? '')).toEqual(pending);
    const denied = await approvals.deny(pending?.id ?? '', 'not now');
    expect(denied).toMatchObject({ status: 'denied', reason: 'not now' });
    // Repeating it changes nothing, contradicting it is an error.
    expect(await approvals.deny(denied.id, 'not now')).toMatchObject({ status: 'denied' });
    expect(await failure(approvals.approve(denied.id))).toMatchObject({
      code: 'approval_conflict',
    });
    expect(await run.result()).toMatchObject({ status: 'completed' });
    expect(server.notes().filter((line) => line.includes('elsewhere'))).toEqual([]);
  });
});

describe('SDK chat', () => {
  test('is followed, and its approval is answered', async () => {
    const chat = await server.client.chat({
      model: 'demo',
      messages: [{ role: 'user', content: 'notify by chat' }],
    });
    const types: string[] = [];
    for await (const event of chat) {
      types.push(event.type);
      if (event.type === 'relay') await chat.answer(event.id, { approved: true });
    }
    expect(types).toContain('relay');
    expect(types.at(-1)).toBe('harness_end');
    expect(server.notes().filter((line) => line.includes('by chat'))).toHaveLength(1);
  });
});

describe('SDK resources', () => {
  test('manage keys, credentials and the tenant', async () => {
    const { client } = server;
    expect(await client.health()).toMatchObject({ status: 'ok' });
    expect((await client.models()).models.map(({ id }) => id)).toContain('demo');
    const made = await client.keys.create({ name: 'ci', scopes: ['runs'] });
    const names: string[] = [];
    for await (const { name } of client.keys.list()) names.push(name);
    expect(names).toContain('ci');
    const ci = server.clientWith(made.apiKey);
    expect(await failure(ci.tenant.get())).toMatchObject({ code: 'scope_required', status: 403 });
    await client.keys.revoke(made.id);
    expect(await failure(ci.runs.list().page())).toMatchObject({ code: 'unauthorized' });
    const put = await client.credentials.put('openai', { apiKey: 'sk-test-1234', label: 'prod' });
    expect(put).toMatchObject({ provider: 'openai', last4: '1234' });
    expect((await client.credentials.list().page()).items).toHaveLength(1);
    await client.credentials.delete('openai');
    expect((await client.credentials.list().page()).items).toEqual([]);
    const budgets = { tenant: { period: 'day' as const, concurrentRuns: 100 } };
    expect((await client.tenant.update({ budgets })).budgets).toEqual(budgets);
    expect((await client.tenant.get()).paused).toBe(false);
    expect(await client.runs.cancelAll({ labels: { nobody: 'has' } })).toEqual({ canceled: 0 });
  });

  test('notify about changes through the feed', async () => {
    const { client } = server;
    const hints = client.feed();
    expect((await hints.next()).value).toEqual({ kind: 'connected' });
    const run = await client.runs.create({ model: 'demo', input: 'say 1' });
    expect((await hints.next()).value).toEqual({ kind: 'run', id: run.id });
    await hints.return();
    await run.result();
  });
});

describe('SDK errors', () => {
  test.each([
    ['an unknown model', { model: 'no-such', input: 'Hi' }, 400, 'unknown_model'],
    [
      'an unknown tool',
      { model: 'demo', input: 'Hi', tools: [builtin('no')] },
      400,
      'unknown_tool',
    ],
    ['an empty input', { model: 'demo', input: '' }, 400, 'invalid_request'],
  ])('report %s', async (_, body, status, code) => {
    const error = await failure(server.client.runs.create(body));
    expect(error).toBeInstanceOf(RelayApiError);
    expect(error).toMatchObject({ status, code, retryable: false });
  });

  test('name the invalid field', async () => {
    const error = await failure(server.client.runs.create({ model: 'demo', input: '' }));
    expect((error as RelayApiError).details?.[0]?.path).toBe('input');
  });

  test('of a provider have the id of the stored run', async () => {
    const error = await failure(server.client.runs.create({ model: 'demo', input: 'fail 400' }));
    expect(error).toMatchObject({ status: 502, code: 'provider_rejected' });
    const { runId = '' } = error as RelayApiError;
    expect(await server.client.runs.get(runId)).toMatchObject({ status: 'failed' });
  });

  test('distinguish a wrong key from a missing resource', async () => {
    const stranger = server.clientWith('relay_live_nonsense');
    expect(await failure(stranger.runs.list().page())).toMatchObject({ code: 'unauthorized' });
    const missing = '01a1dee0-12c9-7410-b8c0-07ace3495898';
    expect(await failure(server.client.runs.get(missing))).toMatchObject({ code: 'not_found' });
    const following = server.client.runs.stream(missing).result();
    expect(await failure(following)).toMatchObject({ code: 'not_found', status: 404 });
  });
});
