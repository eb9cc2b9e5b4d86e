import { describe, expect, it } from 'vitest';
import { ManualClock } from './index.ts';

describe('a manual clock', () => {
  it('stands still until it is advanced', async () => {
    const clock = new ManualClock(1_000);
    expect([clock.now(), clock.now()]).toEqual([1_000, 1_000]);
    await clock.advance(250);
    expect(clock.now()).toBe(1_250);
  });

  it('resolves only the sleeps that are due, in the order of their times', async () => {
    const clock = new ManualClock(0);
    const woken: string[] = [];
    const sleep = async (name: string, ms: number) => {
      await clock.sleep(ms);
      woken.push(`${name} at ${clock.now()}`);
    };
    const all = [
      sleep('late', 30),
      sleep('early', 10),
      sleep('also early', 10),
      sleep('never', 31),
    ];
    expect(clock.sleepers).toBe(4);
    await clock.advance(9);
    expect(woken).toEqual([]);
    await clock.advance(21);
    expect(woken).toEqual(['early at 10', 'also early at 10', 'late at 30']);
    expect([clock.now(), clock.sleepers]).toEqual([30, 1]);
    await clock.advance(1);
    await Promise.all(all);
  });

  it('wakes one who sleeps again in the same advance', async () => {
    const clock = new ManualClock(0);
    const times: number[] = [];
    const ticking = (async () => {
      for (let n = 0; n < 5; n += 1) {
        await clock.sleep(10);
        times.push(clock.now());
      }
    })();
    await clock.advance(50);
    await ticking;
    expect(times).toEqual([10, 20, 30, 40, 50]);
  });

  it('resolves a sleep of 0 ms at once', async () => {
    const clock = new ManualClock();
    await clock.sleep(0);
    await clock.sleep(-5);
    expect(clock.sleepers).toBe(0);
  });

  it('wakes a sleeper whose signal is aborted, before its time', async () => {
    const clock = new ManualClock();
    const controller = new AbortController();
    const sleeping = clock.sleep(1_000, controller.signal);
    controller.abort();
    await sleeping;
    expect(clock.sleepers).toBe(0);
    await clock.sleep(1_000, controller.signal);
    expect(clock.sleepers).toBe(0);
  });
});
