import { describe, expect, it } from 'vitest';
import { CallsInFlight, type PendingCall } from '../../src/mcp/calls-in-flight.ts';

const never = new AbortController().signal;

/** Calls that the test ends. */
function createCalls() {
  const calls = new CallsInFlight<PendingCall>();
  const begin = (runId: string, openQuestions = 0) => {
    const stop = new AbortController();
    const call = { runId, openQuestions, signal: stop.signal };
    const { promise, resolve, reject } = Promise.withResolvers<string>();
    const running = calls.run(call, () => promise);
    running.catch(() => undefined);
    return {
      call,
      running,
      respond: () => resolve('done'),
      fail: () => reject(new Error('broken')),
      abandon: () => {
        stop.abort();
        reject(new Error('late'));
      },
    };
  };
  return { calls, begin };
}

describe('a question of a server', () => {
  it('belongs to no call if none is active', async () => {
    expect(await createCalls().calls.callOfQuestion(never)).toBeUndefined();
  });

  it('belongs to the only active call', async () => {
    const { calls, begin } = createCalls();
    const { call } = begin('a');
    expect(await calls.callOfQuestion(never)).toBe(call);
  });

  it('belongs to the call of its asynchronous context, even if others are active', async () => {
    const { calls, begin } = createCalls();
    begin('a');
    const own = { runId: 'b', openQuestions: 0, signal: never };
    const found = await calls.run(own, async () => {
      await new Promise((resolve) => setImmediate(resolve));
      return calls.callOfQuestion(never);
    });
    expect(found).toBe(own);
  });

  it('does not belong to the call of its context if that has ended', async () => {
    const { calls, begin } = createCalls();
    const own = { runId: 'b', openQuestions: 0, signal: never };
    const late = Promise.withResolvers<void>();
    let found: Promise<PendingCall | undefined> | undefined;
    await calls.run(own, async () => {
      found = late.promise.then(() => calls.callOfQuestion(never));
    });
    const { call } = begin('a');
    late.resolve();
    expect(await found).toBe(call);
  });

  it('belongs to a call without open questions if all calls are of one run', async () => {
    const { calls, begin } = createCalls();
    begin('a', 1);
    const { call } = begin('a');
    expect(await calls.callOfQuestion(never)).toBe(call);
  });

  it('waits while it could be of several runs, and belongs to the last call without a response', async () => {
    const { calls, begin } = createCalls();
    const first = begin('a');
    const second = begin('b');
    const third = begin('c');
    const whose = calls.callOfQuestion(never);
    // What begins after the question cannot have asked it.
    const later = begin('d');
    third.respond();
    await third.running;
    first.respond();
    expect(await whose).toBe(second.call);
    later.respond();
  });

  it('belongs to no call as soon as a candidate is abandoned', async () => {
    const { calls, begin } = createCalls();
    const first = begin('a');
    begin('b');
    const whose = calls.callOfQuestion(never);
    first.abandon();
    expect(await whose).toBeUndefined();
  });

  it('belongs to no other run after an abandoned call', async () => {
    const { calls, begin } = createCalls();
    const gone = begin('a');
    gone.abandon();
    await expect(gone.running).rejects.toThrow('late');
    const other = begin('b');
    expect(await calls.callOfQuestion(never)).toBeUndefined();
    other.respond();
    await other.running;
    const { call } = begin('a');
    expect(await calls.callOfQuestion(never)).toBe(call);
  });

  it('belongs to no call if the last candidate is of another run than an abandoned call', async () => {
    const { calls, begin } = createCalls();
    const gone = begin('a');
    gone.abandon();
    await expect(gone.running).rejects.toThrow('late');
    const again = begin('a');
    begin('b');
    const whose = calls.callOfQuestion(never);
    again.respond();
    expect(await whose).toBeUndefined();
  });

  it('belongs to the last candidate also if another call ended with an error', async () => {
    const { calls, begin } = createCalls();
    const broken = begin('a');
    const { call } = begin('b');
    const whose = calls.callOfQuestion(never);
    broken.fail();
    expect(await whose).toBe(call);
  });

  it('requires a new connection only if a call was abandoned and none is active', async () => {
    const { calls, begin } = createCalls();
    const first = begin('a');
    await calls.callOfQuestion(never);
    expect(calls.needsNewConnection).toBe(false);
    const second = begin('b');
    first.abandon();
    await expect(first.running).rejects.toThrow('late');
    expect(calls.needsNewConnection).toBe(false);
    second.respond();
    await second.running;
    expect(calls.needsNewConnection).toBe(true);
  });

  it('belongs to no call if the server cancels it', async () => {
    const { calls, begin } = createCalls();
    begin('a');
    begin('b');
    const withdrawn = new AbortController();
    const whose = calls.callOfQuestion(withdrawn.signal);
    withdrawn.abort();
    expect(await whose).toBeUndefined();
  });

  it('outside of any call belongs to no call', async () => {
    const { calls } = createCalls();
    const own = { runId: 'a', openQuestions: 0, signal: never };
    const current = await calls.run(own, async () => calls.outside(() => calls.current));
    expect(current).toBeUndefined();
  });
});
