/** 003 over HTTP: listing runs. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { allFrames } from '../support/frames.ts';
import { LocalServer } from '../support/server.ts';
import { otherOrg } from './runtime-client.ts';
import { verifies } from './verifies.ts';

const server = new LocalServer();
beforeAll(() => server.start());
afterAll(() => server.dispose());

interface Listing {
  readonly runs: readonly (Record<string, unknown> & { readonly id: string })[];
  readonly nextCursor: string | null;
}

async function list(query = '', apiKey = server.apiKey): Promise<Listing> {
  const headers = { authorization: `Bearer ${apiKey}` };
  const response = await server.request(`/v1/runs${query}`, { keyless: true, headers });
  expect(response.status).toBe(200);
  return (await response.json()) as Listing;
}

async function start(input: string, apiKey = server.apiKey): Promise<string> {
  const headers = { authorization: `Bearer ${apiKey}` };
  const body = { model: 'demo', input };
  const response = await server.request('/v1/runs', { keyless: true, headers, body });
  if (response.status === 200) await allFrames(response);
  return response.headers.get('x-run-id') ?? '';
}

async function pages(query: string): Promise<Listing[]> {
  const all: Listing[] = [];
  for (let cursor: string | null = ''; cursor !== null;) {
    const next: Listing = await list(`?${query}${cursor === '' ? '' : `&cursor=${cursor}`}`);
    all.push(next);
    cursor = next.nextCursor;
  }
  return all;
}

describe('GET /v1/runs', () => {
  test('lists the runs of this tenant, and none of another', async () => {
    verifies('003:endpoint:runs-list', '003:endpoint:runs-list-own');
    const apiKey = await otherOrg(server);
    expect(await list()).toEqual({ runs: [], nextCursor: null });
    const mine = [await start('say 1'), await start('fail 400')];
    const theirs = await start('say 1', apiKey);
    const { runs } = await list();
    expect(runs).toMatchObject([
      { id: mine[1], status: 'failed', input: 'fail 400' },
      { id: mine[0], status: 'completed', input: 'say 1', output: '1' },
    ]);
    expect((await list('', apiKey)).runs.map(({ id }) => id)).toEqual([theirs]);
  });

  test('lists completed runs only with ?status=completed, and 20 at most with ?limit=20', async () => {
    verifies('003:runs-list:status-filter', '003:runs-list:limit');
    for (let n = 0; n < 25; n += 1) await start(n % 5 === 0 ? 'fail 400' : `say ${n}`);
    const { runs, nextCursor } = await list('?status=completed&limit=20');
    expect(runs).toHaveLength(20);
    expect(nextCursor).not.toBeNull();
    for (const { status } of runs) expect(status).toBe('completed');
    const failed = await list('?status=failed&limit=200');
    expect(failed.runs.length).toBeGreaterThanOrEqual(5);
    for (const { status } of failed.runs) expect(status).toBe('failed');
    for (const limit of [1, 2, 19])
      expect((await list(`?limit=${limit}`)).runs).toHaveLength(limit);
  });

  test('holds every run once, page after page, while new ones come in', async () => {
    verifies('003:runs-list:pages');
    const before = (await list('?limit=200')).runs.map(({ id }) => id);
    const seen: string[] = [];
    let cursor: string | null = '';
    while (cursor !== null) {
      const page: Listing = await list(`?limit=4${cursor === '' ? '' : `&cursor=${cursor}`}`);
      seen.push(...page.runs.map(({ id }) => id));
      cursor = page.nextCursor;
      await start('say 1');
    }
    expect(seen).toEqual(before);
    const completed = await pages('limit=3&status=completed');
    expect(completed.slice(0, -1).every(({ runs }) => runs.length === 3)).toBe(true);
    const whole = (await list('?limit=200&status=completed')).runs;
    expect(completed.flatMap(({ runs }) => runs)).toEqual(whole);
  });

  test('is 400 for a limit, a status or a cursor that there is not', async () => {
    verifies('003:runs-list:limit', '003:runs-list:status-filter', '003:runs-list:pages');
    for (const query of ['limit=0', 'limit=x', 'status=done', 'cursor=x', 'limit=5&limit=5']) {
      expect((await server.request(`/v1/runs?${query}`)).status).toBe(400);
    }
  });
});
