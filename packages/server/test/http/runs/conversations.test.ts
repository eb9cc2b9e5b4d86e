/** `/v1/conversations`. */
import { afterEach, describe, expect, it } from 'vitest';
import { addKey, bootServer, type TestServer } from '../../support/server.ts';
import { finishedRun, startRun, untilStatus } from '../../support/requests.ts';

let server: TestServer;
afterEach(() => server.stop());

interface Listed {
  readonly conversations: readonly Record<string, unknown>[];
  readonly nextCursor: string | null;
}

async function list(query = '', key = server.apiKey): Promise<Listed> {
  return (await server.json(`/v1/conversations${query}`, { key })) as unknown as Listed;
}

async function conversationOf(runId: string): Promise<string> {
  return String((await server.json(`/v1/runs/${runId}`))['conversationId']);
}

describe('conversations', () => {
  it('are listed with their first text, the last run and its status', async () => {
    server = await bootServer();
    const { runId: first } = await finishedRun(server, { input: 'say 2' });
    const id = await conversationOf(first);
    await finishedRun(server, { input: 'say 3' });
    const asked = await startRun(server, { input: 'notify me', conversationId: id });
    await untilStatus(server, asked.runId, 'waiting');
    const { conversations, nextCursor } = await list();
    expect(nextCursor).toBeNull();
    expect(conversations.map(({ title }) => title)).toEqual(['say 2', 'say 3']);
    expect(conversations[0]).toEqual({
      id,
      title: 'say 2',
      agent: 'assistant',
      status: 'waiting',
      lastRunId: asked.runId,
      runs: 2,
      owner: expect.any(String),
      createdAt: expect.any(String),
      updatedAt: expect.any(String),
    });
    expect(await server.json(`/v1/conversations/${id}`)).toEqual(conversations[0]);
    const { runs } = await server.json(`/v1/runs?conversationId=${id}`);
    expect(runs).toHaveLength(2);
    await asked.reader.disconnect();
  });

  it('are listed page by page, and found by their title', async () => {
    server = await bootServer();
    for (let n = 1; n <= 5; n += 1) await finishedRun(server, { input: `say ${n}` });
    const titles: unknown[] = [];
    let cursor: string | null = '';
    while (cursor !== null) {
      const page = await list(`?limit=2${cursor === '' ? '' : `&cursor=${cursor}`}`);
      titles.push(...page.conversations.map(({ title }) => title));
      cursor = page.nextCursor;
    }
    expect(titles).toEqual(['say 5', 'say 4', 'say 3', 'say 2', 'say 1']);
    const found = await list('?q=SAY%203');
    expect(found.conversations.map(({ title }) => title)).toEqual(['say 3']);
    const response = await server.request('/v1/conversations?q=');
    expect(response.status).toBe(400);
  });

  it('are read by all of the tenant, whoever owns them, and by nobody else', async () => {
    server = await bootServer();
    const { runId } = await finishedRun(server, { input: 'say 1' });
    const id = await conversationOf(runId);
    const viewer = await addKey(server.store, { scopes: ['read'], owner: 'eve' });
    expect((await list('', viewer.apiKey)).conversations).toMatchObject([{ id }]);
    const stranger = await addKey(server.store, { tenant: 'stranger' });
    expect((await list('', stranger.apiKey)).conversations).toEqual([]);
  });

  it('name the session whose turns are their runs', async () => {
    server = await bootServer();
    const session = await server.json('/v1/sessions', {
      body: { harness: 'native', handle: 'ada', model: 'demo' },
    });
    await server.json('/v1/messages', { body: { to: '@ada', text: 'say 1' } });
    await expect
      .poll(async () => (await list()).conversations, { timeout: 5_000 })
      .toMatchObject([{ id: session['conversationId'], sessionId: session['id'] }]);
  });
});
