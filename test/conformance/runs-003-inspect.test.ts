/** 003 over HTTP: looking at a run, while it goes on and after it has ended. */
import { dialects, type StoredEvent } from '@relay/protocol';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { allFrames, type Frame, FrameReader } from '../support/frames.ts';
import { LocalServer } from '../support/server.ts';
import { verifies } from './verifies.ts';

const server = new LocalServer();
beforeAll(() => server.start());
afterAll(() => server.dispose());

const tools = ['calculator', 'send_note'].map((name) => ({ name, kind: 'builtin' }));

async function start(input: string): Promise<{ runId: string; response: Response }> {
  const response = await server.request('/v1/runs', { body: { model: 'demo', input, tools } });
  return { runId: response.headers.get('x-run-id') ?? '', response };
}

interface Page {
  readonly run: { readonly id: string };
  readonly events: readonly StoredEvent[];
  readonly nextCursor: string | null;
}

async function page(runId: string, query = ''): Promise<Page> {
  const response = await server.request(`/v1/runs/${runId}/events${query}`);
  expect(response.status).toBe(200);
  return (await response.json()) as Page;
}

function expectShown(
  runId: string,
  frames: readonly Frame[],
  events: readonly StoredEvent[],
): void {
  const header = { runId, conversationId: '', correlationId: '' };
  const expected = events.flatMap((event) => {
    const data = dialects.runs.project(event, header);
    return data === undefined ? [] : [{ id: event.seq, data: { ...data } }];
  });
  expect(frames.map(({ id, data }) => ({ id, data }))).toEqual(expected);
}

describe('GET /v1/runs/:id', () => {
  test('has the metadata of a run: its id, status and input', async () => {
    verifies('003:endpoint:runs-get', '003:runs-get:metadata');
    const { runId, response } = await start('notify somebody');
    const reader = new FrameReader(response);
    const approval = await reader.until('approval_requested');
    const look = async () =>
      (await (await server.request(`/v1/runs/${runId}`)).json()) as Record<string, unknown>;
    await expect.poll(look).toMatchObject({
      id: runId,
      status: 'waiting',
      model: 'demo',
      input: 'notify somebody',
    });
    const path = `/v1/approvals/${String(approval.data['id'])}`;
    await server.request(path, { body: { approved: false } });
    await reader.rest();
    const run = await look();
    expect(run).toMatchObject({ id: runId, status: 'completed', model: 'demo' });
    expect(run['output']).toBe('The note was not sent: it was denied.');
    expect(Date.parse(String(run['endedAt']))).toBeGreaterThanOrEqual(
      Date.parse(String(run['createdAt'])),
    );
  });

  test('is 404 for a run that does not exist', async () => {
    verifies('003:endpoint:runs-get');
    for (const id of ['01963a5c-7893-7abc-8ef0-123456789abc', 'no-id']) {
      const response = await server.request(`/v1/runs/${id}`);
      expect(response.status).toBe(404);
      expect(await response.json()).toMatchObject({ error: expect.any(String) });
    }
  });
});

describe('GET /v1/runs/:id/events', () => {
  test('has everything that the stream showed, in its order, after the run has ended', async () => {
    verifies(
      '003:endpoint:runs-events',
      '003:runs-events:complete',
      '003:runs-events:ordered',
      '003:runs-events:after-end',
    );
    const { runId, response } = await start(
      'use calculator {"a":23,"b":47,"op":"*"}\nuse calculator {"a":1,"b":0,"op":"/"}',
    );
    const frames = await allFrames(response);
    expect(frames.at(-1)?.data).toMatchObject({ type: 'done', status: 'completed' });
    const { run, events, nextCursor } = await page(runId);
    expect(run).toMatchObject({ id: runId, status: 'completed' });
    expect(nextCursor).toBeNull();
    expect(events.map(({ seq }) => seq)).toEqual(events.map((_, index) => index + 1));
    const times = events.map(({ at }) => Date.parse(at));
    expect(times).toEqual(times.toSorted((a, b) => a - b));
    expectShown(runId, frames, events);
    // Neither the first event nor the last one is missing.
    expect(events[0]?.type).toBe('run.created');
    expect(events.at(-1)?.type).toBe('run.ended');
    expect(await page(runId)).toEqual({ run, events, nextCursor });
  });

  test('is full in one response, however long the run is', async () => {
    verifies('003:endpoint:runs-events', '003:runs-events:complete', '003:runs-events:ordered');
    const { runId, response } = await start('say 6000');
    const frames = await allFrames(response);
    const { run, events, nextCursor } = await page(runId);
    expect(nextCursor).toBeNull();
    expect(events).toHaveLength((run as unknown as { lastSeq: number }).lastSeq);
    expect(events.length).toBeGreaterThan(6000);
    expect(events.map(({ seq }) => seq)).toEqual(events.map((_, index) => index + 1));
    expectShown(runId, frames, events);
    expect(events.at(-1)?.type).toBe('run.ended');
  });

  test('is read in pages by those who want them', async () => {
    verifies('003:runs-events:complete');
    const { runId, response } = await start('say 30');
    await allFrames(response);
    const { events } = await page(runId);
    const first = await page(runId, '?limit=10');
    expect(first).toMatchObject({ events: events.slice(0, 10), nextCursor: '10' });
    const rest = await page(runId, '?after=10');
    expect(rest).toMatchObject({ events: events.slice(10), nextCursor: null });
    expect((await server.request(`/v1/runs/${runId}/events?limit=5001`)).status).toBe(400);
  });

  test('can be read while the run continues', async () => {
    verifies('003:endpoint:runs-events');
    const { runId, response } = await start('slow 600000');
    const reader = new FrameReader(response);
    const token = await reader.until('token');
    const { events } = await page(runId);
    expect(events.find(({ seq }) => seq === token.id)).toMatchObject({
      type: 'text.appended',
      text: token.data['text'],
    });
    await server.request(`/v1/runs/${runId}/cancel`, { method: 'POST' });
    await reader.rest();
  });
});
