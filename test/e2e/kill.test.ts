/** `kill -9` of the real server, with a client that was watching. */
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { allFrames, type Frame, FrameReader } from '../support/frames.ts';
import { until } from '../support/kernel.ts';
import { TestServer } from '../support/server.ts';
import { verifies } from '../conformance/verifies.ts';

let server: TestServer;
beforeEach(async () => {
  server = await new TestServer().start();
});
afterEach(() => server.dispose());

function start(input: string, extra: object = {}): Promise<Response> {
  const tools = [
    { name: 'calculator', kind: 'builtin' },
    { name: 'send_note', kind: 'builtin' },
  ];
  return server.request('/v1/runs', { body: { model: 'demo', input, tools, ...extra } });
}

async function journalOf(runId: string) {
  const response = await server.request(`/v1/runs/${runId}/events?limit=5000`);
  const { events } = (await response.json()) as {
    events: ({ seq: number; type: string } & Record<string, unknown>)[];
  };
  return events;
}

/** Every frame that a client saw is the journal's, with its id, and none is missing or repeated. */
async function expectTrue(runId: string, seen: readonly Frame[]): Promise<void> {
  const whole = await allFrames(await server.request(`/v1/runs/${runId}/stream?after=0`));
  expect(seen.map(({ id, data }) => ({ id, data }))).toEqual(
    whole.map(({ id, data }) => ({ id, data })),
  );
  const events = await journalOf(runId);
  expect(events.map(({ seq }) => seq)).toEqual(events.map((_, index) => index + 1));
}

describe('kill -9 of the server', () => {
  test('with an approval pending: approved afterwards, the tool runs once and the run ends', async () => {
    const response = await start('notify the build is green');
    const runId = response.headers.get('x-run-id') ?? '';
    const reader = new FrameReader(response);
    const approval = await reader.until('approval_requested');
    await server.kill();
    await reader.close().catch(() => undefined);

    await server.start();
    const resumed = await server.request(`/v1/runs/${runId}/stream`, {
      headers: { 'last-event-id': String(approval.id) },
    });
    const decide = () =>
      server.request(`/v1/approvals/${String(approval.data['id'])}`, { body: { approved: true } });
    const answers = await Promise.all([decide(), decide()]);
    expect(answers.map(({ status }) => status)).toEqual([200, 200]);
    const rest = await allFrames(resumed);
    expect(rest[0]?.data).toMatchObject({ type: 'approval_resolved', status: 'approved' });
    expect(rest.at(-1)?.data).toMatchObject({ type: 'done', status: 'completed' });
    expect(server.notes.map(({ text }) => text)).toEqual(['the build is green']);
    await expectTrue(runId, [...reader.seen, ...rest]);
  });

  test('between a request and its repetition: the same key means the same run, once', async () => {
    const wish = {
      headers: { 'idempotency-key': 'order-4711' },
      body: {
        model: 'demo',
        input: 'notify only once',
        tools: [{ name: 'send_note', kind: 'builtin' }],
      },
    };
    const first = await server.request('/v1/runs', wish);
    const runId = first.headers.get('x-run-id') ?? '';
    const reader = new FrameReader(first);
    const approval = await reader.until('approval_requested');
    await server.kill();
    await reader.close().catch(() => undefined);

    await server.start();
    const again = await server.request('/v1/runs', wish);
    expect(again.headers.get('x-run-id')).toBe(runId);
    expect(again.headers.get('idempotent-replayed')).toBe('true');
    const other = { ...wish, body: { ...wish.body, input: 'notify something else' } };
    expect((await server.request('/v1/runs', other)).status).toBe(422);
    const path = `/v1/approvals/${String(approval.data['id'])}`;
    await server.request(path, { body: { approved: true } });
    expect((await allFrames(again)).at(-1)?.data).toMatchObject({ status: 'completed' });
    const notes = server.notes.map(({ text }) => text);
    expect(notes.filter((text) => text === 'only once')).toHaveLength(1);
    expect(notes).not.toContain('something else');
  });

  test('with an approval pending: the run waits on, and can be canceled', async () => {
    const response = await start('notify the build is green');
    const runId = response.headers.get('x-run-id') ?? '';
    const reader = new FrameReader(response);
    const approval = await reader.until('approval_requested');
    await server.kill();
    await reader.close().catch(() => undefined);

    await server.start();
    const run = (await (await server.request(`/v1/runs/${runId}`)).json()) as { status: string };
    expect(run.status).toBe('waiting');
    expect(server.notes).toEqual([]);

    // The stream continues right after the last received frame, and ends with the run.
    const resumed = await server.request(`/v1/runs/${runId}/stream`, {
      headers: { 'last-event-id': String(approval.id) },
    });
    const canceled = await server.request(`/v1/runs/${runId}/cancel`, { method: 'POST' });
    expect(canceled.status).toBe(202);
    const rest = await allFrames(resumed);
    expect(rest.map(({ data }) => data.type)).toEqual(['approval_resolved', 'tool_result', 'done']);
    expect(server.notes).toEqual([]);
    await expectTrue(runId, [...reader.seen, ...rest]);
  });

  test('in the middle of an answer: the partial answer is discarded and generated again', async () => {
    const response = await start('slow 3000');
    const runId = response.headers.get('x-run-id') ?? '';
    const reader = new FrameReader(response);
    await reader.until('token');
    await reader.until('token');
    await server.kill();
    await reader.rest().catch(() => undefined);
    const last = reader.seen.at(-1)?.id;
    expect(last).toBeDefined();

    await server.start();
    const rest = await allFrames(
      await server.request(`/v1/runs/${runId}/stream`, {
        headers: { 'last-event-id': String(last) },
      }),
    );
    const reset = rest.find(({ data }) => data.type === 'reset');
    const firstToken = reader.seen.find(({ data }) => data.type === 'token');
    expect(reset?.data['after']).toBeLessThan(firstToken?.id ?? 0);
    const done = rest.at(-1);
    expect(done?.data).toMatchObject({ type: 'done', status: 'completed' });

    // What a client keeps after the reset is the answer, to the letter.
    const kept = [...reader.seen, ...rest].reduce<{ id: number; text: string }[]>((all, frame) => {
      if (frame.data.type === 'reset')
        return all.filter(({ id }) => id <= Number(frame.data['after']));
      if (frame.data.type !== 'token') return all;
      return [...all, { id: frame.id ?? 0, text: String(frame.data['text']) }];
    }, []);
    expect(kept.map(({ text }) => text).join('')).toBe(done?.data['output']);
    await expectTrue(runId, [...reader.seen, ...rest]);
  });

  test('with a chat open: the chat is over, and its run is canceled by the next start', async () => {
    verifies('000:notes:session-needs-connection');
    const response = await server.request('/chat', {
      keyless: true,
      body: { model: 'demo', messages: [{ role: 'user', content: 'notify somebody' }] },
    });
    const runId = response.headers.get('x-run-id') ?? '';
    const reader = new FrameReader(response);
    const connected = await reader.until('connected');
    const approval = await reader.until('relay');
    await server.kill();
    await reader.close().catch(() => undefined);
    await server.start();
    const answer = await server.request(`/chat/relay/${String(approval.data['id'])}`, {
      keyless: true,
      body: { sessionId: connected.data['sessionId'], response: { approved: true } },
    });
    expect(answer.status).toBe(404);
    expect(await answer.json()).toMatchObject({ error: 'Session not found' });
    await until(async () => {
      const run = (await (await server.request(`/v1/runs/${runId}`)).json()) as { status: string };
      return run.status === 'canceled';
    });
    expect(server.notes).toEqual([]);
  });
});

describe('a second server', () => {
  test('on the same data folder gets one clear line', async () => {
    const second = new TestServer({ RELAY_DATA_DIR: server.dataDir });
    await expect(second.start()).rejects.toThrow(/Another Relay server is using/);
    expect(second.output.trim().split('\n')).toHaveLength(1);
    await second.dispose();
  });
});

describe('kill -9 of the server with a tool running', () => {
  const held = 'test/support/servers/blocking-tools.ts';

  async function killedWhileRunning(tool: string) {
    await server.dispose();
    server = await new TestServer({}, held).start({ TEST_HOLD: 'yes' });
    const response = await server.request('/v1/runs', {
      body: {
        model: 'demo',
        input: `use ${tool} {"text":"once"}`,
        tools: [{ name: tool, kind: 'builtin' }],
      },
    });
    const runId = response.headers.get('x-run-id') ?? '';
    await until(async () => server.notes.length === 1);
    await server.kill();
    await response.body?.cancel().catch(() => undefined);
    await server.start();
    return runId;
  }

  /** The approval that asks about the outcome. */
  async function outcomeApproval(runId: string): Promise<string> {
    const asked = await until(async () =>
      (await journalOf(runId)).find(
        (event) => event.type === 'approval.requested' && event['kind'] === 'outcome',
      ),
    );
    return String(asked['approvalId']);
  }

  async function doneOf(runId: string) {
    const frames = await allFrames(await server.request(`/v1/runs/${runId}/stream`));
    return frames;
  }

  test('requests an outcome approval, and uses the result that the approver supplies', async () => {
    const runId = await killedWhileRunning('pay');
    const approvalId = await outcomeApproval(runId);
    await server.request(`/v1/approvals/${approvalId}`, {
      body: { outcome: 'completed', output: { wrote: 'once' } },
    });
    const frames = await doneOf(runId);
    expect(frames.find(({ data }) => data.type === 'tool_result')?.data['output']).toEqual({
      wrote: 'once',
    });
    expect(frames.at(-1)?.data).toMatchObject({ type: 'done', status: 'completed' });
    expect(server.notes).toHaveLength(1);
  });

  test('requests an outcome approval, and reports a failure to the model if it is denied', async () => {
    const runId = await killedWhileRunning('pay');
    await server.request(`/v1/approvals/${await outcomeApproval(runId)}`, {
      body: { approved: false, reason: 'No trace of it' },
    });
    const frames = await doneOf(runId);
    expect(frames.find(({ data }) => data.type === 'tool_result')?.data['output']).toEqual({
      status: 'error',
      error: 'The tool was interrupted, and a person answered that it failed: No trace of it',
      code: 'tool_failed',
    });
    expect(server.notes).toHaveLength(1);
  });

  test('runs an idempotent tool again by itself, with the same key', async () => {
    const runId = await killedWhileRunning('look');
    const frames = await doneOf(runId);
    expect(frames.at(-1)?.data).toMatchObject({ type: 'done', status: 'completed' });
    const keys = server.notes.map(({ idempotencyKey }) => idempotencyKey);
    expect(keys).toHaveLength(2);
    expect(new Set(keys).size).toBe(1);
  });
});
