import { expect, test } from 'vitest';
import { createClient } from '../src/client.ts';
import { done, FakeServer, options, said } from './support/fake-server.ts';

test('what is said to an agent is a run that is followed like any other', async () => {
  const server = FakeServer.saying(
    () => said([1, { type: 'run_started', status: 'running' }]),
    () => said([4, { type: 'token', text: 'Hello' }], [9, done('Hello')]),
  );
  const { runs } = createClient({ ...options, fetch: server.fetch });
  const run = await runs.converse({ message: 'Hi', conversationId: 'c1' }, { idempotencyKey: 'k' });
  expect(run.id).toBe('run-1');
  expect(await run.text()).toBe('Hello');
  expect(server.lines).toEqual(['POST /api/chat', 'GET /v1/runs/run-1/stream']);
  expect(server.asked[0]?.headers['idempotency-key']).toBe('k');
});
