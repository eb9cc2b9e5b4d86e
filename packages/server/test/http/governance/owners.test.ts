/** Whose conversations and runs they are: what another person's key may do with them. */
import { uuidv7 } from 'uuidv7';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startApiChat, startChat, startRun } from '../../support/requests.ts';
import { addKey, bootServer, type TestServer } from '../../support/server.ts';

const note = 'use send_note {"to":"ada","text":"hello"}';

describe('a conversation of another person', () => {
  let server: TestServer;
  let ada: string;
  let adasOther: string;
  let eve: string;
  let admin: string;

  beforeAll(async () => {
    server = await bootServer();
    const key = async (scopes: readonly string[], owner?: string) =>
      (await addKey(server.store, { scopes, ...(owner === undefined ? {} : { owner }) })).apiKey;
    ada = await key(['runs', 'approve'], 'ada');
    adasOther = await key(['runs'], 'ada');
    eve = await key(['runs']);
    admin = await key(['runs', 'admin']);
  });
  afterAll(() => server.stop());

  /** A conversation of Ada with a grant for `note`. */
  async function withGrant(): Promise<string> {
    const conversationId = uuidv7();
    const run = await startRun(server, { input: note, conversationId }, { key: ada });
    const { data } = await run.reader.until('approval_requested');
    const decided = await server.request(`/v1/approvals/${String(data['id'])}`, {
      key: ada,
      body: { approved: true, always: true },
    });
    expect(decided.status).toBe(200);
    await run.reader.rest();
    return conversationId;
  }

  it.each([
    ['/v1/runs', { model: 'demo', input: note }],
    ['/api/chat', { model: 'demo', message: note }],
    ['/chat', { model: 'demo', messages: [{ role: 'user', content: note }] }],
  ])('cannot be continued on %s, and its grant is not used', async (path, body) => {
    const conversationId = await withGrant();
    const notes = server.notes().length;
    const options = { key: eve, body: { ...body, conversationId } };
    const response = await server.request(path, options);
    expect(response.status).toBe(404);
    expect(await response.json()).toEqual({ error: 'No such conversation', code: 'not_found' });
    expect(response.headers.has('x-run-id')).toBe(false);
    expect(server.notes()).toHaveLength(notes);
    const listed = await server.json(`/v1/runs?conversationId=${conversationId}`);
    expect(listed['runs']).toHaveLength(1);
  });

  it('can be continued with another key of its owner, and uses its grants', async () => {
    const conversationId = await withGrant();
    const run = await startRun(server, { input: note, conversationId }, { key: adasOther });
    await run.reader.rest();
    expect(run.reader.types).not.toContain('approval_requested');
  });

  it('can be continued by an administrator, without its grants', async () => {
    const conversationId = await withGrant();
    const run = await startRun(server, { input: note, conversationId }, { key: admin });
    await run.reader.until('approval_requested');
    await server.request(`/v1/runs/${run.runId}/cancel`, { method: 'POST' });
    await run.reader.rest();
  });

  it('stays with its owner after an administrator has continued it', async () => {
    const conversationId = await withGrant();
    const run = await startRun(server, { input: 'say 1', conversationId }, { key: admin });
    await run.reader.rest();
    const mine = await startRun(server, { input: note, conversationId }, { key: ada });
    await mine.reader.rest();
    expect(mine.reader.types).not.toContain('approval_requested');
  });

  it('is forked into a conversation of one’s own, without its grants', async () => {
    const conversationId = await withGrant();
    const { runs } = (await server.json(`/v1/runs?conversationId=${conversationId}`)) as {
      runs: { id: string }[];
    };
    const forked = await server.request(`/v1/runs/${runs[0]?.id}/fork`, {
      key: eve,
      body: { input: note },
    });
    expect(forked.status).toBe(201);
    const fork = (await forked.json()) as { id: string; conversationId: string };
    expect(fork.conversationId).not.toBe(conversationId);
    await expect
      .poll(async () => (await server.json(`/v1/runs/${fork.id}`))['status'])
      .toBe('waiting');
    await server.request(`/v1/runs/${fork.id}/cancel`, { method: 'POST' });
  });

  it('is not the one of callers without a key', async () => {
    const conversationId = uuidv7();
    const local = await startChat(server, 'say 1', { key: null, body: { conversationId } });
    await local.reader.rest();
    const again = await startChat(server, 'say 1', { key: null, body: { conversationId } });
    await again.reader.rest();
    await expect(
      startApiChat(server, 'say 1', { key: eve, body: { conversationId } }),
    ).rejects.toThrow('404');
  });
});

describe('a function call of another person', () => {
  let server: TestServer;
  beforeAll(async () => {
    server = await bootServer();
  });
  afterAll(() => server.stop());

  const lookUp = {
    name: 'look_up',
    kind: 'function',
    description: 'x',
    inputSchema: { type: 'object' },
  };

  it('is answered and claimed only by its owner, or with the scope worker', async () => {
    const key = async (scopes: readonly string[], owner: string) =>
      (await addKey(server.store, { scopes, owner })).apiKey;
    const ada = await key(['runs'], 'ada');
    for (const [name, other, status] of [
      ['another owner', await key(['runs', 'approve', 'admin'], 'eve'), 403],
      ['a worker', await key(['worker'], 'eve'), 200],
      ['another key of the owner', await key(['runs'], 'ada'), 200],
    ] as const) {
      const run = await startRun(
        server,
        { input: 'use look_up {}', tools: [lookUp] },
        { key: ada },
      );
      const { data } = await run.reader.until('tool_call');
      const path = `/v1/runs/${run.runId}/tool-results/${String(data['id'])}`;
      await expect
        .poll(async () => (await server.json(`/v1/runs/${run.runId}`))['status'])
        .toBe('waiting');
      const claimed = await server.request(`${path}/claim`, { key: other, body: {} });
      expect([name, claimed.status]).toEqual([name, status]);
      const posted = await server.request(path, { key: other, body: { output: 'forged' } });
      expect([name, posted.status]).toEqual([name, status]);
      if (status === 403) {
        expect(await posted.json()).toMatchObject({ code: 'not_run_owner' });
        const own = await server.request(path, { key: ada, body: { output: 'mine' } });
        expect(own.status).toBe(200);
      }
      await run.reader.rest();
    }
  });
});
