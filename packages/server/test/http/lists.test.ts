/** `GET /v1/runs` and `GET /v1/approvals`: filters, pages and tenant isolation. */
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { uuidv7 } from 'uuidv7';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import {
  addKey,
  bootServer,
  type TestServer,
  until,
  type RequestOptions,
} from '../support/server.ts';
import { readPageBySize } from '../../src/http/views/pagination.ts';
import { eventsOf, finishedRun, startRun, untilStatus } from '../support/requests.ts';

type Item = Readonly<Record<string, unknown>> & { readonly id: string };

interface Page {
  readonly items: readonly Item[];
  readonly nextCursor: string | null;
}

type ListName = 'runs' | 'approvals';

async function pageOf(
  server: TestServer,
  name: ListName,
  options: RequestOptions & { query?: object } = {},
) {
  const { query, ...rest } = options;
  const search = new URLSearchParams(query as Record<string, string>).toString();
  const response = await server.request(`/v1/${name}?${search}`, rest);
  expect(response.status).toBe(200);
  const body = (await response.json()) as Record<string, unknown>;
  expect(Object.keys(body).toSorted()).toEqual(['nextCursor', name].toSorted());
  return { items: body[name], nextCursor: body['nextCursor'] } as Page;
}

/** Reads all pages, and calls `between` in between. */
async function allPages(
  server: TestServer,
  name: ListName,
  {
    between,
    ...query
  }: { limit: number; between?: () => Promise<unknown>; [filter: string]: unknown },
): Promise<Item[]> {
  const items: Item[] = [];
  for (let cursor: string | null = ''; cursor !== null;) {
    const page: Page = await pageOf(server, name, {
      query: { ...query, ...(cursor === '' ? {} : { cursor }) },
    });
    expect(page.items.length).toBeLessThanOrEqual(query.limit);
    if (page.nextCursor !== null) expect(page.items).toHaveLength(query.limit);
    items.push(...page.items);
    cursor = page.nextCursor;
    await between?.();
  }
  return items;
}

const idsOf = (items: readonly Item[]) => items.map(({ id }) => id);

const nonsense: [string, string][] = [
  ['limit', '0'],
  ['limit', '201'],
  ['limit', '-1'],
  ['limit', '1.5'],
  ['limit', '1e2'],
  ['limit', 'all'],
  ['limit', ''],
  ['limit', ' 5'],
  ['limit', '9'.repeat(16)],
  ['cursor', ''],
  ['cursor', 'x'],
  ['cursor', 'null'],
  ['cursor', '7'],
  ['cursor', 'MTIz'],
  ['cursor', '%00'],
  ['cursor', 'A'.repeat(257)],
  ['status', 'succeeded'],
  ['status', ''],
  ['status', 'COMPLETED'],
  ['status', 'completed,'],
  ['status', 'completed,succeeded'],
  ['status', 'failed, completed'],
  ['colour', 'red'],
];

describe('GET /v1/runs', () => {
  let server: TestServer;

  beforeAll(async () => {
    const file = { agents: [{ name: 'other', model: 'demo' }] };
    server = await bootServer({ file });
  });

  afterAll(async () => {
    await server.stop();
  });

  const list = async (query: object) => (await pageOf(server, 'runs', { query })).items;
  const made = async (body: Record<string, unknown> = {}) =>
    (await finishedRun(server, { input: 'say 1', ...body })).runId;

  it('returns each run without its checkpoint', async () => {
    const labels = { team: 'red' };
    const runId = await made({ input: 'calculate 2*3', labels, workflowId: 'flow-1' });
    const { checkpoint, ...run } = await server.json(`/v1/runs/${runId}`);
    expect(checkpoint).toBeDefined();
    expect(run).toMatchObject({
      status: 'completed',
      input: 'calculate 2*3',
      output: '2 * 3 is 6.',
    });
    expect((await list({ limit: 1 }))[0]).toEqual(run);
    const failed = await server.request('/v1/runs', { body: { model: 'demo', input: 'fail 400' } });
    const [shown] = await list({ limit: 1 });
    expect(shown).toMatchObject({
      id: failed.headers.get('x-run-id'),
      status: 'failed',
      error: { code: 'provider_rejected', retryable: false },
    });
  });

  it('omits a very long input, which GET /v1/runs/:id returns', async () => {
    const runId = await made({ input: `say 1 ${'x'.repeat(10_000)}` });
    expect((await list({ limit: 1 }))[0]).toMatchObject({ id: runId, input: null });
    expect((await server.json(`/v1/runs/${runId}`))['input']).toHaveLength(10_006);
  });

  it('is filtered by status', async () => {
    const done = await made();
    const waiting = await startRun(server, { input: 'notify me' });
    await untilStatus(server, waiting.runId, 'waiting');
    const running = await startRun(server, { input: 'slow 60000' });
    await running.reader.until('token');
    const of = async (status: string) => idsOf(await list({ status, limit: 200 }));
    expect(await of('waiting')).toEqual([waiting.runId]);
    expect(await of('running')).toEqual([running.runId]);
    expect(await of('completed')).toContain(done);
    expect(await of('queued')).toEqual([]);
    expect((await of('queued,waiting,running')).toSorted()).toEqual(
      [waiting.runId, running.runId].toSorted(),
    );
    for (const { runId, reader } of [waiting, running]) {
      await server.request(`/v1/runs/${runId}/cancel`, { method: 'POST' });
      await reader.rest();
    }
    expect((await of('canceled')).toSorted()).toEqual([waiting.runId, running.runId].toSorted());
    expect(await of('waiting')).toEqual([]);
    for (const status of ['completed', 'failed', 'canceled']) {
      for (const item of await list({ status })) expect(item['status']).toBe(status);
    }
  });

  it('is filtered by agent, conversation and workflow together', async () => {
    const [conversationId, workflowId] = [uuidv7(), `flow ${uuidv7()} "’ß`];
    const one = await made({ conversationId, workflowId });
    const two = await made({ conversationId, agent: 'other' });
    const three = await made({ workflowId, agent: 'other' });
    expect(idsOf(await list({ conversationId }))).toEqual([two, one]);
    expect(idsOf(await list({ workflowId }))).toEqual([three, one]);
    expect(idsOf(await list({ agent: 'other' }))).toEqual([three, two]);
    expect(idsOf(await list({ agent: 'other', workflowId }))).toEqual([three]);
    const all = { conversationId, workflowId, agent: 'assistant', status: 'completed' };
    expect(idsOf(await list(all))).toEqual([one]);
    expect(await list({ ...all, status: 'failed' })).toEqual([]);
    expect(await list({ agent: 'OTHER' })).toEqual([]);
    expect(await list({ conversationId: uuidv7() })).toEqual([]);
  });

  it('is filtered by the parent run', async () => {
    const parent = await made();
    const child = await made({ parentRunId: parent });
    await made({ parentRunId: child });
    expect(idsOf(await list({ parentRunId: parent }))).toEqual([child]);
  });

  it.each([
    ['plain', 'colour', 'red'],
    ['with colons', 'url', 'https://example.com:8080/a:b'],
    ['that is a colon', 'mark', ':'],
    ['that is empty', 'nothing', ''],
    ['with signs of SQL and JSON', 'sign', `%_'"\\{}[]$.*?`],
    ['in other letters', 'größe', '高い 😀'],
    ['as long as can be', 'n'.repeat(64), 'v'.repeat(256)],
    ['named like a path', 'a.b[0]', 'x'],
  ])('is filtered by a label %s', async (_what, name, value) => {
    const runId = await made({ labels: { [name]: value, other: 'x' } });
    await made({ labels: { [name]: `${value.slice(0, 200)}!` } });
    await made({ labels: { other: value } });
    expect(idsOf(await list({ label: `${name}:${value}` }))).toEqual([runId]);
  });

  it('finds nothing for an unknown label', async () => {
    for (const label of [
      'constructor:x',
      '__proto__:x',
      'team:',
      'team:re',
      'team:%',
      'tea_:red',
    ]) {
      expect(await list({ label })).toEqual([]);
    }
  });

  it('refuses a label whose name has a colon, because the filter could not match it', async () => {
    const body = { model: 'demo', input: 'say 1', labels: { 'a:b': 'c' } };
    const response = await server.request('/v1/runs', { body });
    expect(response.status).toBe(400);
    expect(await response.text()).toContain('labels');
  });

  it('is filtered by since (inclusive) and until (exclusive)', async () => {
    const ids: string[] = [];
    for (let n = 0; n < 3; n += 1) {
      ids.push(await made());
      await new Promise((resolve) => setTimeout(resolve, 3));
    }
    const [first, second, third] = await Promise.all(
      ids.map(async (id) => String((await server.json(`/v1/runs/${id}`))['createdAt'])),
    );
    const between = async (since: string | undefined, until: string | undefined) =>
      idsOf(await list({ ...(since && { since }), ...(until && { until }) })).filter((id) =>
        ids.includes(id),
      );
    expect(await between(second, undefined)).toEqual([ids[2], ids[1]]);
    expect(await between(undefined, second)).toEqual([ids[0]]);
    expect(await between(first, third)).toEqual([ids[1], ids[0]]);
    expect(await between(second, second)).toEqual([]);
    expect(await between(third, first)).toEqual([]);
    // The same time in another zone is the same time.
    const local = new Date(Date.parse(second ?? '') - 7 * 3_600_000).toISOString();
    expect(await between(local.replace('Z', '-07:00'), undefined)).toEqual([ids[2], ids[1]]);
  });

  it('pages over 120 runs, each once, while new ones are created', async () => {
    const workflowId = `pages`;
    const ids: string[] = [];
    for (let n = 0; n < 12; n += 1) {
      ids.push(...(await Promise.all(Array.from({ length: 10 }, () => made({ workflowId })))));
    }
    const older = idsOf(await allPages(server, 'runs', { limit: 200, workflowId }));
    expect(older.toSorted()).toEqual(ids.toSorted());
    const paged = await allPages(server, 'runs', {
      limit: 7,
      workflowId,
      between: () => made({ workflowId }),
    });
    expect(idsOf(paged)).toEqual(older);
    const times = paged.map(({ createdAt }) => String(createdAt));
    expect(times).toEqual(times.toSorted().toReversed());
    // Without a filter too, and with those that came in meanwhile now at the top.
    const everything = idsOf(await allPages(server, 'runs', { limit: 23, between: () => made() }));
    expect(new Set(everything).size).toBe(everything.length);
    expect(everything.filter((id) => ids.includes(id))).toEqual(older);
  });

  it('returns 50 runs by default and 200 at most', async () => {
    expect(await list({})).toHaveLength(50);
    expect((await list({ limit: 200 })).length).toBeGreaterThan(130);
  });

  it.each([
    ...nonsense,
    ['agent', ''],
    ['conversationId', 'mine'],
    ['parentRunId', 'mine'],
    ['workflowId', ''],
    ['workflowId', 'x'.repeat(257)],
    ['label', 'team'],
    ['label', ':red'],
    ['label', ''],
    ['label', `${'n'.repeat(65)}:v`],
    ['label', `n:${'v'.repeat(257)}`],
    ['since', 'yesterday'],
    ['since', '2026-01-01'],
    ['since', '2026-01-01T00:00:00'],
    ['until', '2026-13-01T00:00:00Z'],
    ['until', '1767225600000'],
  ])('refuses %s=%s with 400 and its path', async (name, value) => {
    const search = new URLSearchParams({ [name]: value }).toString();
    const response = await server.request(`/v1/runs?${search}`);
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({
      code: 'invalid_request',
      details: [{ path: name }],
    });
  });

  it.each(['limit=5&limit=6', 'status=failed&status=completed', 'cursor[]=x', 'label[a]=b'])(
    'refuses ?%s with 400',
    async (query) => {
      expect((await server.request(`/v1/runs?${query}`)).status).toBe(400);
    },
  );

  it('returns nothing of another tenant, whatever the filter', async () => {
    const { apiKey: key, tenantId } = await addKey(server.store, { tenant: 'stranger' });
    const conversationId = uuidv7();
    const mine = await made({ conversationId, labels: { whose: 'mine' } });
    const before = await pageOf(server, 'runs', { key });
    expect(before).toEqual({ items: [], nextCursor: null });
    const theirs = await startRun(
      server,
      { input: 'say 1', conversationId, labels: { whose: 'mine' } },
      { key },
    );
    await theirs.reader.rest();
    for (const query of [{}, { conversationId }, { label: 'whose:mine' }, { limit: '200' }]) {
      expect(idsOf((await pageOf(server, 'runs', { key, query })).items)).toEqual([theirs.runId]);
      expect(idsOf(await list(query))).not.toContain(theirs.runId);
    }
    // A cursor is a position in time, which every tenant applies to its own runs.
    const { nextCursor: cursor } = await pageOf(server, 'runs', { query: { limit: 1 } });
    expect(cursor).not.toContain(tenantId);
    const { items } = await pageOf(server, 'runs', { key, query: { cursor } });
    expect(idsOf(items)).not.toContain(mine);
    expect(idsOf(items).filter((id) => id !== theirs.runId)).toEqual([]);
  });
});

describe('a run whose output is damaged', () => {
  it('does not fail the list, and can still be read', async () => {
    const server = await bootServer({ kind: 'sqlite' });
    onTestFinished(() => server.stop());
    const ids = [];
    for (const input of ['say 1', 'say 2', 'say 3']) {
      ids.push((await finishedRun(server, { input })).runId);
    }
    const database = new DatabaseSync(join(server.config.dataDir, 'relay.db'));
    const harms = [
      `UPDATE events SET json = '[]' WHERE run_id = ? AND last_seq > 3`,
      `UPDATE runs SET answer_seq = NULL, output_json = '{"output":"1 2' WHERE id = ?`,
    ];
    for (const harm of harms) {
      expect(database.prepare(harm).run(ids[1] ?? '').changes).toBeGreaterThan(0);
      const { items } = await pageOf(server, 'runs');
      expect(items.map(({ output }) => output)).toEqual(['1 2 3', undefined, '1']);
      const run = await server.json(`/v1/runs/${ids[1]}`);
      expect(run).toMatchObject({ id: ids[1], status: 'completed' });
      expect(run).not.toHaveProperty('output');
    }
    database.close();
  });
});

describe('GET /v1/approvals', () => {
  let server: TestServer;

  beforeAll(async () => {
    server = await bootServer();
  });

  afterAll(async () => {
    await server.stop();
  });

  const list = async (query: object) => (await pageOf(server, 'approvals', { query })).items;

  /** A run that asks about so many calls at once. */
  async function asking(count: number, options: RequestOptions = {}) {
    const note = (n: number) => `use send_note {"to":"ann","text":"${n}"}`;
    const input = Array.from({ length: count }, (_, n) => note(n)).join('\n');
    const talk = await startRun(server, { input }, options);
    const { key } = options;
    const query = { runId: talk.runId, limit: 200 };
    const items = await until(async () => {
      const found = await pageOf(server, 'approvals', { ...(key && { key }), query });
      return found.items.length === count && found.items;
    }, `${count} approvals`);
    return { ...talk, items };
  }

  const cancel = async ({ runId, reader }: Awaited<ReturnType<typeof asking>>) => {
    await server.request(`/v1/runs/${runId}/cancel`, { method: 'POST' });
    await reader.rest();
  };

  it('is filtered by run, status and kind together', async () => {
    const [one, two] = [await asking(3), await asking(1)];
    const [newest, middle, oldest] = one.items;
    await server.request(`/v1/approvals/${middle?.id}`, { body: { approved: false } });
    await server.request(`/v1/approvals/${oldest?.id}`, { body: { approved: true } });
    const of = async (query: object) => idsOf(await list({ runId: one.runId, ...query }));
    expect(await of({})).toEqual(idsOf(one.items));
    expect(await of({ status: 'pending' })).toEqual([newest?.id]);
    expect(await of({ status: 'denied' })).toEqual([middle?.id]);
    expect(await of({ status: 'approved' })).toEqual([oldest?.id]);
    expect(await of({ status: 'approved,denied' })).toEqual([middle?.id, oldest?.id]);
    const decided = { tool: 'send_note', status: 'approved,denied' };
    expect(await of(decided)).toEqual([middle?.id, oldest?.id]);
    expect(await of({ ...decided, tool: 'other' })).toEqual([]);
    expect(await of({ kind: 'permission' })).toHaveLength(3);
    expect(await of({ kind: 'outcome' })).toEqual([]);
    expect(await of({ kind: 'permission', status: 'expired' })).toEqual([]);
    const pending = idsOf(await list({ status: 'pending' }));
    expect(pending).toEqual([two.items[0]?.id, newest?.id]);
    expect((await list({ limit: 1 }))[0]).toEqual(
      await server.json(`/v1/approvals/${two.items[0]?.id}`),
    );
    await Promise.all([cancel(one), cancel(two)]);
    expect(await of({ status: 'closed' })).toEqual([newest?.id]);
    expect(await list({ status: 'pending' })).toEqual([]);
  });

  it('pages over 30 approvals, each once, while new ones are requested', async () => {
    const [one, two] = [await asking(20), await asking(10)];
    const more: Awaited<ReturnType<typeof asking>>[] = [];
    const paged = await allPages(server, 'approvals', {
      limit: 4,
      status: 'pending',
      between: async () => more.push(await asking(1)),
    });
    expect(idsOf(paged).toSorted()).toEqual([...idsOf(one.items), ...idsOf(two.items)].toSorted());
    const times = paged.map(({ requestedAt }) => String(requestedAt));
    expect(times).toEqual(times.toSorted().toReversed());
    await Promise.all([one, two, ...more].map(cancel));
  });

  it('returns as pending only approvals that can still be decided', async () => {
    const hasty = await bootServer({ env: { RELAY_APPROVAL_TTL_MS: '30' } });
    onTestFinished(() => hasty.stop());
    const { runId, reader } = await startRun(hasty, { input: 'notify too late' });
    await reader.until('approval_requested');
    const { events } = await eventsOf(hasty, runId);
    const raised = events.find(({ type }) => type === 'approval.requested');
    await until(() => Date.now() > Date.parse(String(raised?.['expiresAt'])), 'the expiry');
    expect((await pageOf(hasty, 'approvals', { query: { status: 'pending' } })).items).toEqual([]);
    const { items } = await pageOf(hasty, 'approvals');
    expect(items.map(({ status }) => status)).toEqual(['expired']);
    await reader.rest();
  });

  it.each([...nonsense, ['status', 'open'], ['runId', 'mine'], ['kind', 'wish'], ['kind', '']])(
    'refuses %s=%s with 400 and its path',
    async (name, value) => {
      const search = new URLSearchParams({ [name]: value }).toString();
      const response = await server.request(`/v1/approvals?${search}`);
      expect(response.status).toBe(400);
      expect(await response.json()).toMatchObject({ details: [{ path: name }] });
    },
  );

  it('returns nothing of another tenant, whatever the filter', async () => {
    const { apiKey: key } = await addKey(server.store, { tenant: 'stranger' });
    const mine = await asking(3);
    const { nextCursor: cursor } = await pageOf(server, 'approvals', { query: { limit: 1 } });
    for (const query of [
      {},
      { runId: mine.runId },
      { status: 'pending' },
      { cursor: cursor ?? '' },
    ]) {
      expect(await pageOf(server, 'approvals', { key, query })).toEqual({
        items: [],
        nextCursor: null,
      });
    }
    await cancel(mine);
  });
});

describe('long values', () => {
  it('are left out of a list of runs and marked; the run itself has them', async () => {
    const server = await bootServer();
    onTestFinished(() => server.stop());
    const input = `say 4000 ${'x'.repeat(10_000)}`;
    const long = await finishedRun(server, { input });
    const short = await finishedRun(server, { input: 'say 2' });
    const { items } = await pageOf(server, 'runs');
    const listed = Object.fromEntries(items.map((item) => [item.id, item]));
    expect(listed[long.runId]).toMatchObject({
      input: null,
      inputTruncated: true,
      outputTruncated: true,
    });
    expect(listed[long.runId]).not.toHaveProperty('output');
    expect(listed[short.runId]).toMatchObject({ input: 'say 2', output: '1 2' });
    expect(listed[short.runId]).not.toHaveProperty('outputTruncated');
    const whole = await server.json(`/v1/runs/${long.runId}`);
    expect(whole).toMatchObject({ input, output: expect.stringContaining('4000') });
    expect(whole).not.toHaveProperty('outputTruncated');
  });

  it('end a page of grants and of policy versions, and the calls that a preview shows', async () => {
    const server = await bootServer();
    onTestFinished(() => server.stop());
    const text = 'x'.repeat(300_000);
    const erase = {
      name: 'erase',
      kind: 'function',
      inputSchema: { type: 'object' },
      needsApproval: true,
    };
    const count = 8;
    for (let n = 0; n < count; n += 1) {
      const exact = { text: `${n}${text}` };
      await server.json('/v1/grants', { body: { tool: 'erase', exact, scope: 'tenant' } });
      const input = `use erase ${JSON.stringify(exact)}`;
      const { runId } = await startRun(server, { input, tools: [erase] });
      await untilStatus(server, runId, 'waiting');
    }
    const versions = 40;
    for (let version = 0; version < versions; version += 1) {
      const rule = { tool: 'other', params: { text: `${version}${'x'.repeat(900)}` } };
      const deny = Array.from({ length: 35 }, () => rule);
      await server.json('/v1/policy', { method: 'PUT', body: { version, deny } });
    }
    const maxChars = 2 * 1024 * 1024;
    for (const [path, name, listed] of [
      ['/v1/grants', 'grants', count],
      ['/v1/policy/versions', 'versions', versions],
    ] as const) {
      let [cursor, found, pages]: [string | null, number, number] = ['', 0, 0];
      while (cursor !== null) {
        const query: string = cursor === '' ? '' : `&cursor=${cursor}`;
        const body = await (await server.request(`${path}?limit=200${query}`)).text();
        expect(body.length).toBeLessThan(maxChars);
        const page = JSON.parse(body) as Record<string, unknown[]> & { nextCursor: string | null };
        found += page[name]?.length ?? 0;
        pages += 1;
        cursor = page.nextCursor;
      }
      expect([name, found, pages > 1]).toEqual([name, listed, true]);
    }
    for (const [path, body, list, total] of [
      ['/v1/grants/preview', { tool: 'erase' }, 'calls', 'matched'],
      ['/v1/policy/preview', { deny: [{ tool: 'erase' }] }, 'changes', 'changed'],
    ] as const) {
      const text = await (await server.request(path, { body })).text();
      expect(text.length).toBeLessThan(maxChars);
      const preview = JSON.parse(text) as Record<string, unknown>;
      expect([path, preview[total]]).toEqual([path, count]);
      expect((preview[list] as unknown[]).length).toBeLessThan(count);
    }
  });

  it('end a page of a list whose items are complete, such as approvals', async () => {
    const all = Array.from({ length: 30 }, (_, n) => ({
      id: uuidv7(),
      requestedAt: 1_000 - n,
      params: 'x'.repeat(n < 4 ? 400_000 : 10),
    }));
    const read: number[] = [];
    const list = async ({ limit, before }: { limit: number; before?: { id: string } }) => {
      read.push(limit);
      const from = before === undefined ? 0 : all.findIndex(({ id }) => id === before.id) + 1;
      return all.slice(from, from + limit);
    };
    const sizes: number[] = [];
    const found: string[] = [];
    for (let cursor: string | undefined; ;) {
      const page = await readPageBySize({ limit: 25, cursor }, list, (item) => ({
        at: item.requestedAt,
        id: item.id,
      }));
      sizes.push(page.items.length);
      found.push(...page.items.map(({ id }) => id));
      if (page.nextCursor === null) break;
      cursor = page.nextCursor;
    }
    expect(sizes).toEqual([3, 25, 2]);
    expect(found).toEqual(all.map(({ id }) => id));
    expect(Math.max(...read)).toBe(10);
  });
});
