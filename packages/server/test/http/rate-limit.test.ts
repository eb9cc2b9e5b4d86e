import { connect } from 'node:net';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ConcurrencyLimiter, RateLimiter } from '../../src/http/rate-limit.ts';
import { addKey, bootServer, until } from '../support/server.ts';

describe('RateLimiter', () => {
  it('allows a burst of one minute’s tokens, and then one call per refill', () => {
    const limiter = new RateLimiter(60);
    const taken = Array.from({ length: 61 }, () => limiter.take('a', 0).ok);
    expect(taken.filter((ok) => ok)).toHaveLength(60);
    expect(limiter.take('a', 500)).toEqual({ ok: false, retryAfterMs: 500 });
    expect(limiter.take('a', 1000)).toEqual({ ok: true });
    expect(limiter.take('a', 1000)).toEqual({ ok: false, retryAfterMs: 1000 });
  });

  it('keeps one bucket per caller', () => {
    const limiter = new RateLimiter(1);
    expect(limiter.take('a', 0).ok).toBe(true);
    expect(limiter.take('a', 0).ok).toBe(false);
    expect(limiter.take('b', 0).ok).toBe(true);
  });

  it('never exceeds the rate, whatever the pattern of calls', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(500), { maxLength: 200 }), (pauses) => {
        const limiter = new RateLimiter(120);
        let now = 0;
        let through = 0;
        for (const pause of pauses) {
          now += pause;
          if (limiter.take('a', now).ok) through += 1;
        }
        expect(through).toBeLessThanOrEqual(120 + (now * 120) / 60_000 + 1e-6);
      }),
    );
  });

  it('tolerates a clock that goes backwards', () => {
    const limiter = new RateLimiter(1);
    limiter.take('a', 100_000);
    expect(limiter.take('a', 0).ok).toBe(false);
  });

  it('removes full buckets', () => {
    const limiter = new RateLimiter(60);
    for (let n = 0; n < 1000; n += 1) limiter.take(`caller ${n}`, 0);
    expect(limiter.size).toBe(1000);
    limiter.take('late', 120_000);
    expect(limiter.size).toBe(1);
  });
});

describe('rate limits over HTTP', () => {
  it('answer 429 with Retry-After to a key that calls too often, and serve others', async () => {
    const server = await bootServer({ file: { rateLimit: { requestsPerMinute: 3 } } });
    const other = await addKey(server.store, { tenant: 'other' });
    const answers = [];
    for (let n = 0; n < 5; n += 1) answers.push(await server.request('/models'));
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 429, 429]);
    const refused = answers.at(-1)!;
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
    expect(refused.headers.get('ratelimit-limit')).toBe('3');
    expect(refused.headers.get('ratelimit-remaining')).toBe('0');
    expect(Number(refused.headers.get('ratelimit-reset'))).toBeGreaterThan(0);
    expect(await refused.json()).toMatchObject({ code: 'rate_limited' });
    expect((await server.request('/models', { key: other.apiKey })).status).toBe(200);
    expect((await server.request('/health', { key: null })).status).toBe(200);
    await server.stop();
  });

  it('stop an address that guesses keys, and serve valid keys from the same address', async () => {
    const server = await bootServer({ file: { rateLimit: { failuresPerMinute: 3 } } });
    const statuses = [];
    for (let n = 0; n < 5; n += 1) {
      statuses.push((await server.request('/v1/runs', { key: `relay_live_${n}` })).status);
    }
    expect(statuses).toEqual([401, 401, 401, 429, 429]);
    expect((await server.request('/v1/runs')).status).toBe(200);
    expect((await server.request('/health', { key: null })).status).toBe(200);
    await server.stop();
  });

  it('bound the open streams of a key, and free one when it is closed', async () => {
    const server = await bootServer({ env: { RELAY_MAX_STREAMS_PER_KEY: '2' } });
    const open = new AbortController();
    const first = await server.request('/v1/feed', { signal: open.signal });
    const second = await server.request('/v1/feed');
    const refused = await server.request('/v1/feed');
    expect([first.status, second.status, refused.status]).toEqual([200, 200, 429]);
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
    expect(await refused.json()).toMatchObject({
      code: 'too_many_open',
      error: expect.stringContaining('at most 2 of this key (RELAY_MAX_STREAMS_PER_KEY)'),
    });
    expect((await server.request('/v1/runs')).status).toBe(200);
    const other = await addKey(server.store, { tenant: 'other' });
    expect((await server.request('/v1/feed', { key: other.apiKey })).status).toBe(200);
    open.abort();
    await expect
      .poll(async () => (await server.request('/v1/feed')).status, { timeout: 5_000 })
      .toBe(200);
    expect(await (await server.request('/metrics')).text()).toContain(
      'relay_refused_requests_total',
    );
    await server.stop();
  });

  it('count a refusal for the tenant of the caller', async () => {
    const server = await bootServer({ file: { rateLimit: { requestsPerMinute: 3 } } });
    for (let n = 0; n < 4; n += 1) await server.request('/models');
    const admin = await addKey(server.store, { tenant: 'default', scopes: ['admin'] });
    const other = await addKey(server.store, { tenant: 'other', scopes: ['admin'] });
    const counted = 'relay_refused_requests_total{code="rate_limited"} 1';
    const metricsOf = async (key: string) => (await server.request('/metrics', { key })).text();
    expect(await metricsOf(admin.apiKey)).toContain(counted);
    expect(await metricsOf(other.apiKey)).not.toContain(counted);
    await server.stop();
  });

  it('bound the requests of a tenant, whichever key it uses', async () => {
    const server = await bootServer({ file: { rateLimit: { tenantRequestsPerMinute: 3 } } });
    const second = await addKey(server.store, { tenant: 'default' });
    const statuses = [];
    for (const key of [undefined, second.apiKey, undefined, second.apiKey]) {
      statuses.push((await server.request('/models', key === undefined ? {} : { key })).status);
    }
    expect(statuses).toEqual([200, 200, 200, 429]);
    await server.stop();
  });

  it('bound the memory of bodies that a tenant is sending, and free it when a sender leaves', async () => {
    // Half of it for one tenant: ten bodies of 1 MB.
    const server = await bootServer({ env: { RELAY_REQUEST_MEMORY_MB: '20' } });
    const { hostname, port } = new URL(server.url);
    const head = [
      'POST /v1/permissions/explain HTTP/1.1',
      `host: ${hostname}`,
      `authorization: Bearer ${server.apiKey}`,
      'content-type: application/json',
      'content-length: 1048576',
    ];
    const senders = Array.from({ length: 10 }, () => {
      const socket = connect(Number(port), hostname);
      socket.on('error', () => undefined);
      // The rest of the body never comes.
      socket.write(`${head.join('\r\n')}\r\n\r\n{`);
      return socket;
    });
    const body = { tool: 'send_note', params: { text: 'x'.repeat(100_000) } };
    const explain = () => server.request('/v1/permissions/explain', { method: 'POST', body });
    await until(async () => (await explain()).status === 429 || undefined, 'the limit');
    const other = await addKey(server.store, { tenant: 'other' });
    const options = { method: 'POST', body, key: other.apiKey };
    expect((await server.request('/v1/permissions/explain', options)).status).toBe(200);
    for (const socket of senders) socket.destroy();
    await until(async () => (await explain()).status === 200 || undefined, 'the memory');
    await server.stop();
  });

  it('bound the bytes of a key', async () => {
    const server = await bootServer({ file: { rateLimit: { megabytesPerMinute: 1 } } });
    const body = { tool: 'send_note', params: { text: 'x'.repeat(900_000) } };
    const explain = () => server.request('/v1/permissions/explain', { method: 'POST', body });
    expect((await explain()).status).toBe(200);
    const refused = await explain();
    expect(refused.status).toBe(429);
    expect(await refused.json()).toMatchObject({
      error: expect.stringContaining('1 megabytes of a key per minute'),
    });
    await server.stop();
  });
});

describe('ConcurrencyLimiter', () => {
  const setting = 'X';
  const caller = (tenantId: string, id: string) => ({ tenantId, actor: { id, type: 'key' } });

  it('counts for the key, the tenant and the node, and releases once', () => {
    const limiter = new ConcurrencyLimiter('streams', {
      perKey: { most: 2, setting },
      perTenant: { most: 3, setting },
      perNode: { most: 4, setting },
    });
    const release = limiter.acquire(caller('t', 'a'));
    limiter.acquire(caller('t', 'a'));
    expect(() => limiter.acquire(caller('t', 'a'))).toThrow('of this key');
    limiter.acquire(caller('t', 'b'));
    expect(() => limiter.acquire(caller('t', 'b'))).toThrow('of this tenant');
    limiter.acquire(caller('u', 'c'));
    expect(() => limiter.acquire(caller('v', 'd'))).toThrow('of this node');
    release();
    release();
    limiter.acquire(caller('v', 'd'));
    expect(() => limiter.acquire(caller('w', 'e'))).toThrow('of this node');
  });
});
