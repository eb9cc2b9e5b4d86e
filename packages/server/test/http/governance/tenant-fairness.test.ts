/** Fairness: the load of one tenant does not block the others. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { addKey, bootServer, type TestServer, until } from '../../support/server.ts';
import { finishedRun, startRun } from '../../support/requests.ts';

describe('a tenant beside one that floods the store', () => {
  let server: TestServer;
  beforeAll(async () => {
    server = await bootServer({ env: { RELAY_MAX_ACTIVE_RUNS: '2' } });
  });
  afterAll(() => server.stop());

  it('has its turn long before the flood is over', async () => {
    const { apiKey: key } = await addKey(server.store, { tenant: 'flood' });
    // A response starts with the first output: waiting for it would let the flood pass.
    const flood = Array.from({ length: 30 }, () =>
      startRun(server, { input: 'slow 300' }, { key }),
    );
    const queued = async () => {
      const { runs } = await server.json('/v1/runs?status=queued&limit=100', { key });
      return (runs as unknown[]).length;
    };
    await until(async () => (await queued()) >= 20, 'the flood to queue');
    const { frames } = await finishedRun(server, { input: 'say 1' });
    expect(frames.at(-1)?.data).toMatchObject({ status: 'completed' });
    // It waited for a slot, not for the other runs: most of them are still queued.
    expect(await queued()).toBeGreaterThan(10);
    await server.request('/v1/runs/cancel', { key, body: { agent: 'assistant' } });
    for (const { reader } of await Promise.all(flood)) await reader.rest();
  });
});
