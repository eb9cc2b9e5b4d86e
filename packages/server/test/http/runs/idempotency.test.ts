/** `Idempotency-Key`: a repeated request returns the existing run. */
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest';
import { allFrames, FrameReader } from '../../support/frames.ts';
import {
  addKey,
  bootServer,
  type TestServer,
  until,
  type RequestOptions,
} from '../../support/server.ts';
import { eventsOf, startChat, startRun, untilStatus } from '../../support/requests.ts';

let keys = 0;
/** A key that no other test uses. */
const freshKey = () => `test-${(keys += 1)}`;

const routes: [string, (text: string) => Record<string, unknown>][] = [
  [
    '/v1/runs',
    (input) => ({ model: 'demo', input, tools: [{ name: 'send_note', kind: 'builtin' }] }),
  ],
  ['/api/chat', (message) => ({ model: 'demo', message })],
];

describe('an idempotency key', () => {
  let server: TestServer;

  beforeAll(async () => {
    server = await bootServer();
  });

  afterAll(async () => {
    await server.stop();
  });

  const send = (path: string, key: string, options: RequestOptions) =>
    server.request(path, { ...options, headers: { 'idempotency-key': key, ...options.headers } });
  const runIdOf = (response: Response) => response.headers.get('x-run-id');
  const isReplay = (response: Response) => response.headers.get('idempotent-replayed');
  const notes = (text: string) => server.notes().filter((line) => line.includes(text));

  async function countRuns(): Promise<number> {
    let count = 0;
    for (let cursor: string | null = ''; cursor !== null;) {
      const query: string = cursor === '' ? '' : `&cursor=${cursor}`;
      const page = await server.json(`/v1/runs?limit=200${query}`);
      count += (page['runs'] as unknown[]).length;
      cursor = page['nextCursor'] as string | null;
    }
    return count;
  }

  describe.each(routes)('of %s', (path, bodyOf) => {
    const allowed = { permissions: { allowlist: [{ tool: 'send_note' }] } };

    it('returns the existing run with the same frames, and runs nothing twice', async () => {
      const key = freshKey();
      const text = `once for ${path}`;
      const body = { ...bodyOf(`notify ${text}`), ...allowed };
      const first = await send(path, key, { body });
      const frames = await allFrames(first);
      for (let n = 0; n < 3; n += 1) {
        const again = await send(path, key, { body });
        expect(again.status).toBe(200);
        expect(isReplay(again)).toBe('true');
        expect(runIdOf(again)).toBe(runIdOf(first));
        expect(again.headers.get('content-type')).toMatch(/^text\/event-stream/);
        expect(await allFrames(again)).toEqual(frames);
      }
      expect(isReplay(first)).toBeNull();
      expect(frames.at(-1)?.data.type).toBe('done');
      expect(notes(text)).toHaveLength(1);
    });

    it('follows an active run from its beginning', async () => {
      const key = freshKey();
      const body = bodyOf('slow 250');
      const first = new FrameReader(await send(path, key, { body }));
      await first.until(path === '/v1/runs' ? 'token' : 'text_delta');
      const again = await send(path, key, { body });
      expect(isReplay(again)).toBe('true');
      expect(await allFrames(again)).toEqual(await first.rest());
    });

    it('depends on the content of the body, not on its formatting', async () => {
      const key = freshKey();
      const ruled = (params: object) => ({ permissions: { denylist: [{ tool: 'pay', params }] } });
      const body = { ...bodyOf('say 1'), ...ruled({ to: 'ann', amount: '7' }) };
      const first = await send(path, key, { body: JSON.stringify(body) });
      await first.text();
      const turned = { ...ruled({ amount: '7', to: 'ann' }), ...bodyOf('say 1') };
      const again = await send(path, key, { body: JSON.stringify(turned, null, 3) });
      await again.text();
      expect(again.status).toBe(200);
      expect(runIdOf(again)).toBe(runIdOf(first));
    });

    it('is refused with 422 for another body', async () => {
      const key = freshKey();
      const first = await send(path, key, { body: bodyOf('say 1') });
      await first.text();
      const before = await countRuns();
      for (const other of [
        bodyOf('say 2'),
        { ...bodyOf('say 1'), limits: { tokens: 5 } },
        { ...bodyOf('say 1'), conversationId: '01963a5c-7891-7abc-8ef0-123456789abc' },
      ]) {
        const response = await send(path, key, { body: other });
        expect(response.status).toBe(422);
        expect(response.headers.has('x-run-id')).toBe(false);
        expect(await response.json()).toMatchObject({ code: 'idempotency_mismatch' });
      }
      expect(await countRuns()).toBe(before);
    });

    it('starts one run for 50 concurrent requests, which receive the same frames', async () => {
      const key = freshKey();
      const text = `fifty for ${path}`;
      const body = { ...bodyOf(`notify ${text}`), ...allowed };
      const before = await countRuns();
      const answers = await Promise.all(
        Array.from({ length: 50 }, () => send(path, key, { body })),
      );
      const frames = await Promise.all(answers.map(allFrames));
      expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: 50 }, () => 200));
      expect(new Set(answers.map(runIdOf)).size).toBe(1);
      expect(answers.filter((answer) => isReplay(answer) === null)).toHaveLength(1);
      for (const each of frames) expect(each).toEqual(frames[0]);
      expect(await countRuns()).toBe(before + 1);
      expect(notes(text)).toHaveLength(1);
    });

    it.each([
      ['nothing', ''],
      ['256 characters', 'x'.repeat(256)],
    ])('of %s is refused with 400', async (_what, key) => {
      const before = await countRuns();
      const response = await send(path, key, { body: bodyOf('say 1') });
      expect(response.status).toBe(400);
      expect(await response.json()).toEqual({
        error: 'Idempotency-Key: Must have 1 to 255 characters',
        code: 'invalid_request',
        details: [{ path: 'Idempotency-Key', message: 'Must have 1 to 255 characters' }],
      });
      expect(await countRuns()).toBe(before);
    });

    it.each([
      ['one character', path === '/v1/runs' ? 'r' : 'c'],
      ['255 characters', path.padEnd(255, 'y')],
      ['odd characters', `'; DROP TABLE runs; -- %00 é "${path}`],
      ['the name of an inherited property', path === '/v1/runs' ? '__proto__' : 'constructor'],
    ])('may be of %s', async (_what, key) => {
      const body = bodyOf('say 1');
      const [first, again] = [await send(path, key, { body }), await send(path, key, { body })];
      expect([first.status, again.status]).toEqual([200, 200]);
      expect(runIdOf(again)).toBe(runIdOf(first));
      await Promise.all([first.text(), again.text()]);
    });

    it('is not used by a refused request', async () => {
      const key = freshKey();
      const refused = await send(path, key, { body: { ...bodyOf('say 1'), model: 'nope' } });
      expect(refused.status).toBe(400);
      const { apiKey } = await addKey(server.store, { scopes: ['runs'] });
      const narrow = await send(path, key, { body: { ...bodyOf('x'), ...allowed }, key: apiKey });
      expect(narrow.status).toBe(403);
      const taken = await send(path, key, { body: bodyOf('say 1') });
      expect(taken.status).toBe(200);
      expect(isReplay(taken)).toBeNull();
      await taken.text();
    });

    it('belongs to one tenant', async () => {
      const key = freshKey();
      const stranger = await addKey(server.store, { tenant: 'stranger' });
      const colleague = await addKey(server.store, {});
      const body = bodyOf('say 1');
      const mine = await send(path, key, { body });
      await mine.text();
      const theirs = await send(path, key, { body, key: stranger.apiKey });
      await theirs.text();
      expect(theirs.status).toBe(200);
      expect(isReplay(theirs)).toBeNull();
      expect(runIdOf(theirs)).not.toBe(runIdOf(mine));
      // The other tenant’s key is not revealed: another body is not a conflict.
      const other = freshKey();
      await (await send(path, other, { body })).text();
      const free = await send(path, other, { body: bodyOf('say 2'), key: stranger.apiKey });
      expect(free.status).toBe(200);
      await free.text();
      const ours = await send(path, key, { body, key: colleague.apiKey });
      await ours.text();
      expect(runIdOf(ours)).toBe(runIdOf(mine));
    });
  });

  it('of one route is refused on another', async () => {
    const key = freshKey();
    const [[runs, runsBody], [chat, chatBody]] = routes as [(typeof routes)[0], (typeof routes)[0]];
    await (await send(runs, key, { body: runsBody('say 1') })).text();
    const other = await send(chat, key, { body: chatBody('say 1') });
    expect(other.status).toBe(422);
    expect(await other.json()).toMatchObject({ code: 'idempotency_mismatch' });
  });

  it('replays a 502 as a 502 of the same run', async () => {
    const key = freshKey();
    const body = { model: 'demo', input: 'fail 400' };
    const first = await send('/v1/runs', key, { body });
    const error = await first.json();
    expect(first.status).toBe(502);
    expect(error).toMatchObject({ code: 'provider_rejected' });
    for (let n = 0; n < 2; n += 1) {
      const again = await send('/v1/runs', key, { body });
      expect(again.status).toBe(502);
      expect(isReplay(again)).toBe('true');
      expect(runIdOf(again)).toBe(runIdOf(first));
      expect(await again.json()).toEqual(error);
    }
    expect((await eventsOf(server, runIdOf(first) ?? '')).run['status']).toBe('failed');
  });

  it('follows a waiting run: one decision ends both streams', async () => {
    const key = freshKey();
    const body = { model: 'demo', message: 'notify both of us' };
    const readers = [
      new FrameReader(await send('/api/chat', key, { body })),
      new FrameReader(await send('/api/chat', key, { body })),
    ];
    const [asked] = await Promise.all(readers.map((each) => each.until('tool_approval_requested')));
    const [runId, toolCallId] = [asked?.data['runId'], asked?.data['toolCallId']];
    await server.request('/api/chat/tool-approval', {
      body: { runId, toolCallId, action: 'approve' },
    });
    const [one, two] = await Promise.all(readers.map((each) => each.rest()));
    expect(two).toEqual(one);
    expect(notes('both of us')).toHaveLength(1);
  });

  it('expires after 24 hours', async () => {
    const key = freshKey();
    const body = { model: 'demo', input: 'say 1' };
    const first = await send('/v1/runs', key, { body });
    await first.text();
    const day = 24 * 60 * 60 * 1000;
    const { createdAt } = (await eventsOf(server, runIdOf(first) ?? '')).run;
    const clock = vi.spyOn(server.relay.control.engine.clock, 'now');
    onTestFinished(() => clock.mockRestore());
    clock.mockReturnValue(Date.parse(String(createdAt)) + day - 1);
    const early = await send('/v1/runs', key, { body });
    await early.text();
    expect(runIdOf(early)).toBe(runIdOf(first));
    clock.mockReturnValue(Date.parse(String(createdAt)) + day);
    const late = await send('/v1/runs', key, { body: { ...body, input: 'say 2' } });
    await late.text();
    expect(late.status).toBe(200);
    expect(isReplay(late)).toBeNull();
    expect(runIdOf(late)).not.toBe(runIdOf(first));
  });

  it('is ignored by /chat, where a session is its connection', async () => {
    const options = { headers: { 'idempotency-key': freshKey() } };
    const first = await startChat(server, 'notify in a chat', options);
    const second = await startChat(server, 'notify in a chat', options);
    await Promise.all([first, second].map(({ reader }) => reader.until('relay')));
    expect(second.runId).not.toBe(first.runId);
    await second.reader.disconnect();
    await untilStatus(server, second.runId, 'canceled');
    expect((await eventsOf(server, first.runId)).run['status']).toBe('waiting');
    await first.reader.disconnect();
    await untilStatus(server, first.runId, 'canceled');
  });

  it('releases the concurrency slots of replayed requests', async () => {
    const narrow = await bootServer({ env: { RELAY_MAX_ACTIVE_RUNS: '2' } });
    onTestFinished(() => narrow.stop());
    const headers = { 'idempotency-key': freshKey() };
    const body = { model: 'demo', input: 'say 3' };
    for (let round = 0; round < 3; round += 1) {
      const answers = await Promise.all(
        Array.from({ length: 20 }, () => narrow.request('/v1/runs', { body, headers })),
      );
      await Promise.all(answers.map((answer) => answer.text()));
      expect(new Set(answers.map(runIdOf)).size).toBe(1);
    }
    // Both concurrency slots are still free.
    const [one, two] = [
      await startRun(narrow, { input: 'slow 60000' }),
      await startRun(narrow, { input: 'slow 60000' }),
    ];
    await Promise.all([one, two].map(({ reader }) => reader.until('token')));
    await until(() => narrow.relay.control.supervisor.activeRuns === 2, 'two active runs');
    for (const { runId, reader } of [one, two]) {
      await narrow.request(`/v1/runs/${runId}/cancel`, { method: 'POST' });
      await reader.rest();
    }
  });
});
