import { describe, expect, test } from 'vitest';
import { systemClock } from '../../src/runtime/system-clock.ts';

describe('a sleep', () => {
  test('lasts as long as it should', async () => {
    const began = performance.now();
    await systemClock.sleep(20);
    expect(performance.now() - began).toBeGreaterThan(15);
  });

  test('ends at once when its signal is aborted, and never rejects', async () => {
    const controller = new AbortController();
    const sleeping = systemClock.sleep(60_000, controller.signal);
    controller.abort(new Error('Enough'));
    await expect(sleeping).resolves.toBeUndefined();
    await expect(systemClock.sleep(60_000, controller.signal)).resolves.toBeUndefined();
  });
});
