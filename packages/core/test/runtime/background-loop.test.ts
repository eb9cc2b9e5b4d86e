import { describe, expect, test } from 'vitest';
import { BackgroundLoop, type BackgroundLoopOptions } from '../../src/runtime/background-loop.ts';
import { ManualClock } from '../support/index.ts';

function loopWith(options: Partial<BackgroundLoopOptions> = {}) {
  const clock = new ManualClock(0);
  const steps: number[] = [];
  const errors: unknown[] = [];
  const loop = new BackgroundLoop({
    clock,
    intervalMs: 100,
    step: async () => void steps.push(clock.now()),
    onError: (error) => errors.push(error),
    ...options,
  });
  /** Resolves when the first step is over. */
  const start = async () => {
    loop.start();
    await expect.poll(() => clock.sleepers).toBe(1);
  };
  return { clock, loop, start, steps, errors };
}

describe('BackgroundLoop', () => {
  test('steps at once, and then after each interval', async () => {
    const { clock, loop, start, steps } = loopWith();
    await start();
    loop.start();
    await clock.advance(250);
    expect(steps).toEqual([0, 100, 200]);
    await loop.stop();
    await clock.advance(1_000);
    expect(steps).toHaveLength(3);
    expect(clock.sleepers).toBe(0);
  });

  test('waits for the interval before the first step where that is asked for', async () => {
    const { clock, loop, start, steps } = loopWith({ delayFirst: true });
    await start();
    await clock.advance(150);
    expect(steps).toEqual([100]);
    await loop.stop();
  });

  test('stops before its first step without taking it', async () => {
    const { loop, steps } = loopWith({ delayFirst: true });
    loop.start();
    await loop.stop();
    expect(steps).toEqual([]);
  });

  test('lets a step choose the wait that follows it', async () => {
    const { clock, loop, start, steps } = loopWith({
      step: async () => {
        steps.push(clock.now());
        return steps.length === 1 ? 10 : undefined;
      },
    });
    await start();
    await clock.advance(150);
    expect(steps).toEqual([0, 10, 110]);
    await loop.stop();
  });

  test('steps at once when it is woken', async () => {
    const { clock, loop, start, steps } = loopWith();
    await start();
    await clock.advance(30);
    loop.wake();
    await expect.poll(() => steps).toEqual([0, 30]);
    await loop.stop();
  });

  test('does not lose a wake-up during a step', async () => {
    const under = Promise.withResolvers<void>();
    let steps = 0;
    const { loop } = loopWith({
      step: async () => {
        steps += 1;
        if (steps === 1) await under.promise;
      },
    });
    loop.start();
    loop.wake();
    loop.wake();
    under.resolve();
    await expect.poll(() => steps).toBe(2);
    await loop.stop();
    expect(steps).toBe(2);
  });

  test('reports a failure, continues, and waits longer after each consecutive failure', async () => {
    const failing = new Set([0, 1, 2, 4]);
    const steps: number[] = [];
    const { clock, loop, start, errors } = loopWith({
      maxBackoffMs: 300,
      step: async () => {
        steps.push(clock.now());
        if (failing.has(steps.length - 1)) throw new Error(`step ${steps.length}`);
      },
    });
    await start();
    await clock.advance(1_300);
    expect(steps).toEqual([0, 200, 500, 800, 900, 1_100, 1_200, 1_300]);
    expect(errors.map(String)).toEqual([1, 2, 3, 5].map((n) => `Error: step ${n}`));
    await loop.stop();
  });

  test('continues when the report of a failure fails', async () => {
    let steps = 0;
    const { clock, loop, start } = loopWith({
      step: async () => {
        steps += 1;
        throw new Error('a step');
      },
      onError: () => {
        throw new Error('a report');
      },
    });
    await start();
    await clock.advance(100);
    expect(steps).toBe(2);
    await loop.stop();
  });

  test('aborts the current step and stops when it is over', async () => {
    const under = Promise.withResolvers<void>();
    let hurried = false;
    const { loop } = loopWith({
      step: async (signal) => {
        signal.addEventListener('abort', () => (hurried = true));
        await under.promise;
        throw new Error('too late');
      },
    });
    loop.start();
    let stopped = false;
    const stopping = loop.stop().then(() => (stopped = true));
    await Promise.resolve();
    expect([hurried, stopped]).toEqual([true, false]);
    under.resolve();
    await stopping;
  });

  test('can be stopped without having been started', async () => {
    const { loop } = loopWith();
    await loop.stop();
  });
});
