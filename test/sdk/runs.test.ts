/** The SDK over the real router, without a port. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { RelayApiError } from '@relay/sdk';
import { builtin, type Inside, openInside } from './scene.ts';

let inside: Inside;
beforeAll(async () => {
  inside = await openInside();
});
afterAll(() => inside.dispose());

const failure = (asking: Promise<unknown>) => asking.catch((error: unknown) => error);

describe('a run', () => {
  test('is started, followed and finished', async () => {
    const { runs } = inside.client;
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
    expect(types.slice(0, 2)).toEqual(['tool_call', 'tool_result']);
    expect(types.at(-1)).toBe('done');
    expect(run.textSoFar).toBe('23 * 47 is 1081.');
    expect(await run.text()).toBe('23 * 47 is 1081.');
    const stored = await runs.get(run.id);
    expect(stored).toMatchObject({ status: 'completed', lastSeq: last, labels: { team: 'a' } });
    expect((await run.result()).usage).toEqual(stored.usage);
  });

  test('has a journal that can be walked through in pages', async () => {
    const { runs } = inside.client;
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

  test('can be followed again from any place', async () => {
    const { runs } = inside.client;
    const run = await runs.create({ model: 'demo', input: 'say 20' });
    const seqs: number[] = [];
    for await (const { seq } of run) seqs.push(seq);
    const again: number[] = [];
    for await (const { seq } of runs.stream(run.id, { after: seqs[9] })) again.push(seq);
    expect(again).toEqual(seqs.slice(10));
  });

  test('goes on when nobody follows it any more', async () => {
    const { runs } = inside.client;
    const gone = new AbortController();
    const run = await runs.create({ model: 'demo', input: 'slow 300' }, { signal: gone.signal });
    for await (const _ of run) break;
    gone.abort(new Error('closed the tab'));
    await expect(run.result()).rejects.toThrow('closed the tab');
    expect(await runs.stream(run.id).result()).toMatchObject({ status: 'completed' });
  });

  test('can be canceled, which is something else', async () => {
    const { runs } = inside.client;
    const run = await runs.create({ model: 'demo', input: 'slow 60000' });
    expect(await run.cancel()).toMatchObject({ id: run.id });
    expect(await run.result()).toMatchObject({ status: 'canceled' });
    await expect(run.text()).rejects.toMatchObject({ code: 'run_canceled' });
  });

  test('that fails says why', async () => {
    const run = await inside.client.runs.create({
      model: 'demo',
      input: 'use calculator {"a": 1, "b": 2, "op": "+"}',
      tools: [builtin('calculator')],
      limits: { toolCalls: 0 },
    });
    expect(await run.result()).toMatchObject({ limit: 'toolCalls' });
  });

  test('with the same key is the same run, and only one', async () => {
    const { runs } = inside.client;
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

  test('is one also if the answer to its start was lost', async () => {
    const { createClient } = await import('@relay/sdk');
    let lost = 0;
    const client = createClient({
      baseUrl: 'http://localhost',
      apiKey: inside.apiKey,
      async fetch(url, init) {
        const response = await inside.fetch(url, init);
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

describe('a list', () => {
  test('is walked through without gap or repeat, newest first', async () => {
    const { runs } = inside.client;
    const started: string[] = [];
    for (let n = 0; n < 7; n += 1) {
      const run = await runs.create({ model: 'demo', input: 'say 1', labels: { page: 'yes' } });
      await run.result();
      started.unshift(run.id);
    }
    const found: string[] = [];
    const before = inside.lines.length;
    for await (const { id } of runs.list({ label: 'page:yes', limit: 3 })) found.push(id);
    expect(found).toEqual(started);
    expect(inside.lines.slice(before)).toEqual(['GET /v1/runs', 'GET /v1/runs', 'GET /v1/runs']);
    const page = await runs.list({ label: 'page:yes', limit: 3 }).page();
    expect(page.items).toHaveLength(3);
    const next = await runs.list({ label: 'page:yes', limit: 3 }).page(page.nextCursor ?? '');
    expect(next.items.map(({ id }) => id)).toEqual(started.slice(3, 6));
  });
});

describe('an approval', () => {
  test('is given while the run is followed', async () => {
    const asked: string[] = [];
    const run = await inside.client.runs.create(
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
    expect(inside.notes().filter((line) => line.includes('inline'))).toHaveLength(1);
    // Whoever follows it later is not asked about what was answered.
    const later = inside.client.runs.stream(run.id, {
      onApproval: () => {
        throw new Error('asked again');
      },
    });
    expect(await later.result()).toMatchObject({ status: 'completed' });
  });

  test('is found and given by somebody else', async () => {
    const { runs, approvals } = inside.client;
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
    expect(inside.notes().filter((line) => line.includes('elsewhere'))).toEqual([]);
  });
});

describe('a chat', () => {
  test('is followed, and its approval answered', async () => {
    const chat = await inside.client.chat({
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
    expect(inside.notes().filter((line) => line.includes('by chat'))).toHaveLength(1);
  });
});

describe('the rest of the API', () => {
  test('is there', async () => {
    const { client } = inside;
    expect(await client.health()).toMatchObject({ status: 'ok' });
    expect((await client.models()).models.map(({ id }) => id)).toContain('demo');
    const made = await client.keys.create({ name: 'ci', scopes: ['runs'] });
    const names: string[] = [];
    for await (const { name } of client.keys.list()) names.push(name);
    expect(names).toContain('ci');
    const ci = inside.clientWith(made.apiKey);
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

  test('hints at what changes', async () => {
    const { client } = inside;
    const hints = client.feed();
    expect((await hints.next()).value).toEqual({ kind: 'connected' });
    const run = await client.runs.create({ model: 'demo', input: 'say 1' });
    expect((await hints.next()).value).toEqual({ kind: 'run', id: run.id });
    await hints.return();
    await run.result();
  });
});

describe('an error', () => {
  test.each([
    ['an unknown model', { model: 'no-such', input: 'Hi' }, 400, 'unknown_model'],
    [
      'an unknown tool',
      { model: 'demo', input: 'Hi', tools: [builtin('no')] },
      400,
      'unknown_tool',
    ],
    ['an empty input', { model: 'demo', input: '' }, 400, 'invalid_request'],
  ])('says what is wrong with %s', async (_, body, status, code) => {
    const error = await failure(inside.client.runs.create(body));
    expect(error).toBeInstanceOf(RelayApiError);
    expect(error).toMatchObject({ status, code, retryable: false });
  });

  test('points at the field', async () => {
    const error = await failure(inside.client.runs.create({ model: 'demo', input: '' }));
    expect((error as RelayApiError).details?.[0]?.path).toBe('input');
  });

  test('of a provider names the run, which is kept', async () => {
    const error = await failure(inside.client.runs.create({ model: 'demo', input: 'fail 400' }));
    expect(error).toMatchObject({ status: 502, code: 'provider_rejected' });
    const { runId = '' } = error as RelayApiError;
    expect(await inside.client.runs.get(runId)).toMatchObject({ status: 'failed' });
  });

  test('is told from a wrong key and from what is not there', async () => {
    const stranger = inside.clientWith('relay_live_nonsense');
    expect(await failure(stranger.runs.list().page())).toMatchObject({ code: 'unauthorized' });
    const missing = '01a1dee0-12c9-7410-b8c0-07ace3495898';
    expect(await failure(inside.client.runs.get(missing))).toMatchObject({ code: 'not_found' });
    const following = inside.client.runs.stream(missing).result();
    expect(await failure(following)).toMatchObject({ code: 'not_found', status: 404 });
  });
});
