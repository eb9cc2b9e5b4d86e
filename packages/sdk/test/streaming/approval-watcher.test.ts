import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { createClient } from '../../src/client.ts';
import type { OnApproval } from '../../src/streaming/approval-watcher.ts';
import { FakeServer, FakeStream, json, options, refusal } from '../support/fake-server.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const later = (ms: number) => vi.advanceTimersByTimeAsync(ms);
const approval = {
  type: 'approval_requested',
  id: 'relay-1',
  kind: 'permission',
  tool: 'send_note',
  params: {},
};
const resolved = { type: 'approval_resolved', id: 'relay-1', status: 'approved' };
const done = { type: 'done', status: 'completed', output: '', usage: {} };

function followRun(onApproval: OnApproval, decide: () => Response = () => json(200, {})) {
  const stream = new FakeStream();
  let status = 'pending';
  const server = new FakeServer(({ method, path }) => {
    if (path.endsWith('/stream')) return stream.response;
    return method === 'GET' ? json(200, { id: 'relay-1', status, tool: 'send_note' }) : decide();
  });
  const { runs } = createClient({ ...options, fetch: server.fetch });
  const run = runs.stream('run-1', { onApproval });
  const result = run.result().catch((error: unknown) => error);
  return { stream, server, result, is: (now: string) => (status = now) };
}

describe('open approval of another kind', () => {
  const asked = (kind: string) => ({ ...approval, kind });

  test.each(['question', 'outcome'])('is not passed to onApproval: %s', async (kind) => {
    const onApproval = vi.fn<OnApproval>(() => ({ approved: true }));
    const { stream, server } = followRun(onApproval);
    stream.frame(3, asked(kind));
    await later(1000);
    expect(onApproval).not.toHaveBeenCalled();
    expect(server.lines.slice(1)).toEqual([]);
  });

  test.each([
    ['question', 'onQuestion', { approved: true, input: { size: 'M' } }],
    ['outcome', 'onOutcome', { outcome: 'completed', output: null }],
  ] as const)('has its own handler: %s', async (kind, name, decision) => {
    const stream = new FakeStream();
    const server = new FakeServer(({ method, path }) => {
      if (path.endsWith('/stream')) return stream.response;
      return json(200, method === 'GET' ? { id: 'relay-1', status: 'pending', kind } : {});
    });
    const { runs } = createClient({ ...options, fetch: server.fetch });
    const onApproval = vi.fn<OnApproval>(() => ({ approved: true }));
    void runs.stream('run-1', { onApproval, [name]: () => decision }).result();
    stream.frame(3, asked(kind));
    await later(1);
    expect(onApproval).not.toHaveBeenCalled();
    expect(server.requests.at(-1)).toMatchObject({ method: 'POST', body: decision });
  });
});

describe('open approval', () => {
  test('is passed to onApproval, and its decision is sent', async () => {
    const onApproval = vi.fn<OnApproval>(() => ({ approved: true, reason: 'fine' }));
    const { stream, server } = followRun(onApproval);
    stream.frame(3, approval);
    await later(1);
    expect(onApproval.mock.calls[0]?.[0]).toEqual({
      id: 'relay-1',
      status: 'pending',
      tool: 'send_note',
    });
    expect(server.lines.slice(1)).toEqual([
      'GET /v1/approvals/relay-1',
      'POST /v1/approvals/relay-1',
    ]);
    expect(server.requests.at(-1)?.body).toEqual({ approved: true, reason: 'fine' });
  });

  test('stays open if onApproval returns undefined', async () => {
    const { stream, server } = followRun(() => undefined);
    stream.frame(3, approval);
    await later(1000);
    expect(server.lines.slice(1)).toEqual(['GET /v1/approvals/relay-1']);
  });

  test('does not delay events', async () => {
    const { stream, result } = followRun(() => new Promise(() => {}));
    stream.frame(3, approval).frame(4, resolved).frame(5, done);
    await later(1);
    expect(await result).toMatchObject({ status: 'completed' });
  });

  test('retries a decision that was not received, for longer than other requests', async () => {
    let attempts = 0;
    const flaky = () => ((attempts += 1) < 8 ? refusal(503, 'shutting_down') : json(200, {}));
    const { stream, server } = followRun(() => ({ approved: true }), flaky);
    stream.frame(3, approval);
    await later(60_000);
    expect(server.lines.filter((line) => line.startsWith('POST'))).toHaveLength(8);
  });
});

describe('approval that is not open', () => {
  test.each([
    [
      'was decided in the same chunk',
      (at: ReturnType<typeof followRun>) => at.stream.frame(4, resolved),
    ],
    ['is no longer pending', (at: ReturnType<typeof followRun>) => at.is('denied')],
  ])('is not passed to onApproval if it %s', async (_, happen) => {
    const onApproval = vi.fn<OnApproval>(() => ({ approved: true }));
    const it = followRun(onApproval);
    it.stream.frame(3, approval);
    happen(it);
    await later(1000);
    expect(onApproval).not.toHaveBeenCalled();
    expect(it.server.lines.filter((line) => line.startsWith('POST'))).toEqual([]);
  });

  test('aborts the signal of onApproval and sends no decision', async () => {
    let received: AbortSignal | undefined;
    let answer: (decision: { approved: boolean }) => void = () => {};
    const { stream, server } = followRun((_, { signal }) => {
      received = signal;
      return new Promise((resolve) => (answer = resolve));
    });
    stream.frame(3, approval);
    await later(1);
    expect(received?.aborted).toBe(false);
    stream.frame(4, resolved);
    await later(1);
    expect(received?.aborted).toBe(true);
    answer({ approved: false });
    await later(1000);
    expect(server.lines.filter((line) => line.startsWith('POST'))).toEqual([]);
  });

  test('ignores approval_conflict', async () => {
    const { stream, result } = followRun(
      () => ({ approved: true }),
      () => refusal(409, 'approval_conflict'),
    );
    stream.frame(3, approval);
    await later(1);
    stream.frame(4, resolved).frame(5, done);
    await later(1);
    expect(await result).toMatchObject({ status: 'completed' });
  });
});

describe('failure of onApproval', () => {
  test('ends the iteration with its error', async () => {
    const { stream, result } = followRun(() => {
      throw new Error('no terminal');
    });
    stream.frame(3, approval);
    await later(1);
    expect(await result).toMatchObject({ message: 'no terminal' });
  });

  test('ends the iteration if the key may not decide', async () => {
    const { stream, result } = followRun(
      () => ({ approved: true }),
      () => refusal(403, 'scope_required'),
    );
    stream.frame(3, approval);
    await later(1);
    expect(await result).toMatchObject({ code: 'scope_required', status: 403 });
  });
});
