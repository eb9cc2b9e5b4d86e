import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Patience } from '../../src/mcp/patience.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

describe('patience', () => {
  it('ends after a silence, which begins anew with every word', () => {
    const over = vi.fn();
    const patience = new Patience(100, over);
    vi.advanceTimersByTime(90);
    patience.renew();
    vi.advanceTimersByTime(90);
    expect(over).not.toHaveBeenCalled();
    vi.advanceTimersByTime(10);
    expect(over).toHaveBeenCalledTimes(1);
  });

  it('does not count while a person is asked, however many questions there are', async () => {
    const over = vi.fn();
    const patience = new Patience(100, over);
    const [one, two] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const asking = [
      patience.whileAsking(() => one.promise),
      patience.whileAsking(() => two.promise),
    ];
    vi.advanceTimersByTime(1_000_000);
    one.resolve();
    await asking[0];
    patience.renew();
    vi.advanceTimersByTime(1_000_000);
    expect(over).not.toHaveBeenCalled();
    two.reject(new Error('no'));
    await expect(asking[1]).rejects.toThrow('no');
    vi.advanceTimersByTime(100);
    expect(over).toHaveBeenCalledTimes(1);
  });

  it('is over with its call', () => {
    const over = vi.fn();
    const patience = new Patience(100, over);
    patience.end();
    patience.renew();
    vi.advanceTimersByTime(1_000);
    expect(over).not.toHaveBeenCalled();
  });
});
