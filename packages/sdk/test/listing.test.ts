import { describe, expect, test } from 'vitest';
import { Http } from '../src/http.ts';
import { listOf } from '../src/listing.ts';
import { collect, FakeServer, json, options } from './support/fake-server.ts';

function numbers(): FakeServer {
  return new FakeServer(({ query }) => {
    const from = Number(query['cursor'] ?? 0);
    const limit = Number(query['limit'] ?? 50);
    const items = [1, 2, 3, 4, 5].slice(from, from + limit);
    const next = from + limit < 5 ? String(from + limit) : null;
    return json(200, { numbers: items, nextCursor: next });
  });
}

describe('Listing', () => {
  test('iterates page by page', async () => {
    const server = numbers();
    const http = new Http({ ...options, fetch: server.fetch });
    const list = listOf<number>(http, '/n', { name: 'numbers', query: { limit: 2, a: 'b c' } });
    expect(server.requests).toHaveLength(0);
    expect(await collect(list)).toEqual([1, 2, 3, 4, 5]);
    expect(server.requests.map(({ query }) => query)).toEqual([
      { limit: '2', a: 'b c' },
      { limit: '2', a: 'b c', cursor: '2' },
      { limit: '2', a: 'b c', cursor: '4' },
    ]);
    // It can be walked through again.
    expect(await collect(list)).toHaveLength(5);
  });

  test('fetches no page that is not needed', async () => {
    const server = numbers();
    const http = new Http({ ...options, fetch: server.fetch });
    for await (const _ of listOf<number>(http, '/n', { name: 'numbers', query: { limit: 1 } }))
      break;
    expect(server.requests).toHaveLength(1);
  });

  test('returns a single page with one request', async () => {
    const server = numbers();
    const http = new Http({ ...options, fetch: server.fetch });
    const list = listOf<number>(http, '/n', { name: 'numbers', query: { limit: 3 } });
    const first = await list.page();
    expect(first).toEqual({ items: [1, 2, 3], nextCursor: '3' });
    expect(await list.page(first.nextCursor ?? '')).toEqual({ items: [4, 5], nextCursor: null });
    expect(server.requests).toHaveLength(2);
  });
});
