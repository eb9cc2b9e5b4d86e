import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { createClient } from '../src/client.ts';
import type { OnApproval } from '../src/approval-watcher.ts';
import { FakeServer, FakeStream, json, options, refusal } from './support/fake-server.ts';

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

function scene(onApproval: OnApproval, decide: () => Response = () => json(200, {})) {
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

describe('an open approval', () => {
  test('is asked about, with all that a person needs to see, and answered', async () => {
    const onApproval = vi.fn<OnApproval>(() => ({ approved: true, reason: 'fine' }));
    const { stream, server } = scene(onApproval);
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
    expect(server.asked.at(-1)?.body).toEqual({ approved: true, reason: 'fine' });
  });

  test('may be left to somebody else', async () => {
    const { stream, server } = scene(() => undefined);
    stream.frame(3, approval);
    await later(1000);
    expect(server.lines.slice(1)).toEqual(['GET /v1/approvals/relay-1']);
  });

  test('does not hold up the events', async () => {
    const { stream, result } = scene(() => new Promise(() => {}));
    stream.frame(3, approval).frame(4, resolved).frame(5, done);
    await later(1);
    expect(await result).toMatchObject({ status: 'completed' });
  });

  test('is answered again if the answer did not get through', async () => {
    let asked = 0;
    const flaky = () => ((asked += 1) < 3 ? refusal(503, 'shutting_down') : json(200, {}));
    const { stream, server } = scene(() => ({ approved: true }), flaky);
    stream.frame(3, approval);
    await later(10_000);
    expect(server.lines.filter((line) => line.startsWith('POST'))).toHaveLength(3);
  });
});

describe('an approval that is not open', () => {
  test.each([
    ['was answered long ago', (at: ReturnType<typeof scene>) => at.stream.frame(4, resolved)],
    ['was answered a moment ago', (at: ReturnType<typeof scene>) => at.is('denied')],
  ])('because it %s is not asked about', async (_, happen) => {
    const onApproval = vi.fn<OnApproval>(() => ({ approved: true }));
    const it = scene(onApproval);
    it.stream.frame(3, approval);
    happen(it);
    await later(1000);
    expect(onApproval).not.toHaveBeenCalled();
    expect(it.server.lines.filter((line) => line.startsWith('POST'))).toEqual([]);
  });

  test('because somebody was faster tells the one who is asked, and is answered no more', async () => {
    let told: AbortSignal | undefined;
    let answer: (decision: { approved: boolean }) => void = () => {};
    const { stream, server } = scene((_, { signal }) => {
      told = signal;
      return new Promise((resolve) => (answer = resolve));
    });
    stream.frame(3, approval);
    await later(1);
    expect(told?.aborted).toBe(false);
    stream.frame(4, resolved);
    await later(1);
    expect(told?.aborted).toBe(true);
    answer({ approved: false });
    await later(1000);
    expect(server.lines.filter((line) => line.startsWith('POST'))).toEqual([]);
  });

  test('because somebody was faster by a hair is no error', async () => {
    const { stream, result } = scene(
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

describe('what goes wrong in answering', () => {
  test('ends the reading: a question that is lost would make the run wait for ever', async () => {
    const { stream, result } = scene(() => {
      throw new Error('no terminal');
    });
    stream.frame(3, approval);
    await later(1);
    expect(await result).toMatchObject({ message: 'no terminal' });
  });

  test('ends the reading also if this key may not answer', async () => {
    const { stream, result } = scene(
      () => ({ approved: true }),
      () => refusal(403, 'scope_required'),
    );
    stream.frame(3, approval);
    await later(1);
    expect(await result).toMatchObject({ code: 'scope_required', status: 403 });
  });
});
