/** Messages to runs that are going on. How a run takes them is tested with the loop. */
import { uuidv7 } from 'uuidv7';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { finishedRun, startRun, untilStatus } from '../../support/requests.ts';
import {
  addKey,
  bootServer,
  type RequestOptions,
  type TestServer,
  until,
} from '../../support/server.ts';

let server: TestServer;

beforeAll(async () => {
  server = await bootServer({ env: { RELAY_INBOX_LIMIT: '2' } });
});

afterAll(async () => {
  await server.stop();
  expect(server.logged).toEqual([]);
});

const message = (runId: string, options: RequestOptions = {}) =>
  server.ask(`/v1/runs/${runId}/messages`, { body: { text: 'say 2' }, ...options });

/** A run that waits for an approval. */
async function asking() {
  const { runId, reader } = await startRun(server, { input: 'notify the build is green' });
  const { data } = await reader.until('approval_requested');
  return { runId, reader, approvalId: String(data['id']) };
}

describe('POST /v1/runs/:id/messages', () => {
  it('stores a message, which the agent reads with the results of its tools', async () => {
    const { runId, reader, approvalId } = await asking();
    const { status, body } = await message(runId);
    expect([status, body]).toMatchObject([
      201,
      { id: expect.any(String), runId, text: 'say 2', mode: 'next-message', from: { type: 'key' } },
    ]);
    await server.json(`/v1/approvals/${approvalId}`, { body: { approved: true } });
    const frames = await reader.rest();
    expect(frames.at(-1)?.data).toMatchObject({ status: 'completed', output: '1 2' });
    const { events } = await server.json(`/v1/runs/${runId}/events`);
    const added = (events as { type: string }[]).filter(({ type }) => type === 'message.added');
    expect(added).toMatchObject([{ messageId: body['id'], content: 'say 2' }]);
  });

  it('is refused for a run that has ended, and for one that does not exist', async () => {
    const { runId } = await finishedRun(server, { input: 'say 1' });
    expect(await message(runId)).toMatchObject({ status: 409, body: { code: 'run_ended' } });
    expect(await message(uuidv7())).toMatchObject({ status: 404, body: { code: 'not_found' } });
  });

  it('is for the owner of the run, whose grants hold in it, and not even for administrators', async () => {
    const { runId } = await asking();
    const scopes = ['runs', 'admin', 'approve'];
    const { apiKey: key } = await addKey(server.store, { scopes, owner: 'eve' });
    expect(await message(runId, { key })).toMatchObject({
      status: 403,
      body: { code: 'not_run_owner' },
    });
    expect((await message(runId)).status).toBe(201);
    await server.request(`/v1/runs/${runId}/cancel`, { method: 'POST' });
  });

  it('is refused if the run has too many that it has not read', async () => {
    const { runId } = await asking();
    for (let n = 0; n < 2; n += 1) expect((await message(runId)).status).toBe(201);
    expect(await message(runId)).toMatchObject({ status: 429, body: { code: 'inbox_full' } });
    await server.request(`/v1/runs/${runId}/cancel`, { method: 'POST' });
    await untilStatus(server, runId, 'canceled');
  });

  it('is refused for a turn, whose session receives messages', async () => {
    const body = { harness: 'native', handle: 'worker', model: 'demo' };
    const { id } = await server.json('/v1/sessions', { body });
    await server.json('/v1/messages', { body: { to: '@worker', text: 'notify green' } });
    const runId = await until(async () => {
      const { activeRunId } = await server.json(`/v1/sessions/${String(id)}`);
      return activeRunId as string | undefined;
    }, 'the turn');
    expect(await message(runId)).toMatchObject({
      status: 409,
      body: { code: 'session_conflict', error: expect.stringContaining('@worker') },
    });
    await server.request(`/v1/sessions/${String(id)}`, { method: 'DELETE' });
  });
});
