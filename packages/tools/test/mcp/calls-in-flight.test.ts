import { describe, expect, it } from 'vitest';
import { type Asker, CallsInFlight } from '../../src/mcp/calls-in-flight.ts';

const never = new AbortController().signal;

/** Calls that end when they are told to. */
function scene() {
  const calls = new CallsInFlight<Asker>();
  const begin = (runId: string, open = 0) => {
    const stop = new AbortController();
    const call = { runId, open, signal: stop.signal };
    const { promise, resolve, reject } = Promise.withResolvers<string>();
    const running = calls.run(call, () => promise);
    running.catch(() => undefined);
    return {
      call,
      running,
      answer: () => resolve('done'),
      fail: () => reject(new Error('broken')),
      giveUp: () => {
        stop.abort();
        reject(new Error('late'));
      },
    };
  };
  return { calls, begin };
}

describe('a question of a server', () => {
  it('belongs to nobody while nothing is called', async () => {
    expect(await scene().calls.whose(never)).toBeUndefined();
  });

  it('belongs to the one call that is under way', async () => {
    const { calls, begin } = scene();
    const { call } = begin('a');
    expect(await calls.whose(never)).toBe(call);
  });

  it('belongs to the call in whose context it comes, whatever else is under way', async () => {
    const { calls, begin } = scene();
    begin('a');
    const own = { runId: 'b', open: 0, signal: never };
    const found = await calls.run(own, async () => {
      await new Promise((resolve) => setImmediate(resolve));
      return calls.whose(never);
    });
    expect(found).toBe(own);
  });

  it('does not belong to a call whose context it is and that is over', async () => {
    const { calls, begin } = scene();
    const own = { runId: 'b', open: 0, signal: never };
    const late = Promise.withResolvers<void>();
    let found: Promise<Asker | undefined> | undefined;
    await calls.run(own, async () => {
      found = late.promise.then(() => calls.whose(never));
    });
    const { call } = begin('a');
    late.resolve();
    expect(await found).toBe(call);
  });

  it('is shown in the run that all the calls are of, at one that has not asked yet', async () => {
    const { calls, begin } = scene();
    begin('a', 1);
    const { call } = begin('a');
    expect(await calls.whose(never)).toBe(call);
  });

  it('waits while it could be of several runs, and is of the last one that is not answered', async () => {
    const { calls, begin } = scene();
    const first = begin('a');
    const second = begin('b');
    const third = begin('c');
    const whose = calls.whose(never);
    // What begins after the question cannot have asked it.
    const later = begin('d');
    third.answer();
    await third.running;
    first.answer();
    expect(await whose).toBe(second.call);
    later.answer();
  });

  it('belongs to nobody as soon as a call is given up that might have asked it', async () => {
    const { calls, begin } = scene();
    const first = begin('a');
    begin('b');
    const whose = calls.whose(never);
    first.giveUp();
    expect(await whose).toBeUndefined();
  });

  it('belongs to nobody else after a call that was given up and might have asked it', async () => {
    const { calls, begin } = scene();
    const gone = begin('a');
    gone.giveUp();
    await expect(gone.running).rejects.toThrow('late');
    const other = begin('b');
    expect(await calls.whose(never)).toBeUndefined();
    other.answer();
    await other.running;
    const { call } = begin('a');
    expect(await calls.whose(never)).toBe(call);
  });

  it('belongs to nobody if the last one left is of another run than what was given up', async () => {
    const { calls, begin } = scene();
    const gone = begin('a');
    gone.giveUp();
    await expect(gone.running).rejects.toThrow('late');
    const again = begin('a');
    begin('b');
    const whose = calls.whose(never);
    again.answer();
    expect(await whose).toBeUndefined();
  });

  it('is of the last one left also where the server answered another with an error', async () => {
    const { calls, begin } = scene();
    const broken = begin('a');
    const { call } = begin('b');
    const whose = calls.whose(never);
    broken.fail();
    expect(await whose).toBe(call);
  });

  it('wears a connection out only if a call was given up, and nothing is under way', async () => {
    const { calls, begin } = scene();
    const first = begin('a');
    await calls.whose(never);
    expect(calls.isSpent).toBe(false);
    const second = begin('b');
    first.giveUp();
    await expect(first.running).rejects.toThrow('late');
    expect(calls.isSpent).toBe(false);
    second.answer();
    await second.running;
    expect(calls.isSpent).toBe(true);
  });

  it('belongs to nobody when the server withdraws it', async () => {
    const { calls, begin } = scene();
    begin('a');
    begin('b');
    const withdrawn = new AbortController();
    const whose = calls.whose(withdrawn.signal);
    withdrawn.abort();
    expect(await whose).toBeUndefined();
  });

  it('outside of any call belongs to no call', async () => {
    const { calls } = scene();
    const own = { runId: 'a', open: 0, signal: never };
    const current = await calls.run(own, async () => calls.outside(() => calls.current));
    expect(current).toBeUndefined();
  });
});
