import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { SilenceTimeout } from '../../src/mcp/connection.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

describe('the silence timeout', () => {
  it('fires after a time without a message, and restarts with every message', () => {
    const onTimeout = vi.fn();
    const timeout = new SilenceTimeout(100, onTimeout);
    vi.advanceTimersByTime(90);
    timeout.restart();
    vi.advanceTimersByTime(90);
    expect(onTimeout).not.toHaveBeenCalled();
    vi.advanceTimersByTime(10);
    expect(onTimeout).toHaveBeenCalledTimes(1);
  });

  it('is paused while a person is asked, however many questions there are', async () => {
    const onTimeout = vi.fn();
    const timeout = new SilenceTimeout(100, onTimeout);
    const [one, two] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const asking = [timeout.pausedWhile(() => one.promise), timeout.pausedWhile(() => two.promise)];
    vi.advanceTimersByTime(1_000_000);
    one.resolve();
    await asking[0];
    timeout.restart();
    vi.advanceTimersByTime(1_000_000);
    expect(onTimeout).not.toHaveBeenCalled();
    two.reject(new Error('no'));
    await expect(asking[1]).rejects.toThrow('no');
    vi.advanceTimersByTime(100);
    expect(onTimeout).toHaveBeenCalledTimes(1);
  });

  it('does not fire after its end', () => {
    const onTimeout = vi.fn();
    const timeout = new SilenceTimeout(100, onTimeout);
    timeout.end();
    timeout.restart();
    vi.advanceTimersByTime(1_000);
    expect(onTimeout).not.toHaveBeenCalled();
  });
});
