import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { StatusLine } from '../../src/output/status-line.ts';
import { fakeEnvironment, settled } from '../support/environment.ts';

beforeEach(
  () => void vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] }),
);
afterEach(() => void vi.useRealTimers());

const erase = '\r\u001B[K';

function statusLine(env: Record<string, string> = {}, isTTY = true) {
  const environment = fakeEnvironment({ env, isTTY, columns: 20 });
  return { environment, status: new StatusLine(environment, environment.stdout, { isOff: false }) };
}

test('a status line shows what goes on and its seconds, cut to the screen, and is erased', async () => {
  const { environment, status } = statusLine();
  status.show('thinking');
  expect(environment.out()).toBe('');
  vi.advanceTimersByTime(2_100);
  await settled();
  expect(environment.out()).toMatch(/ thinking 2s/);
  status.show('running a_tool_with_a_long_name');
  vi.advanceTimersByTime(100);
  await settled();
  expect(environment.out()).toContain(' running a_tool_w…');
  status.clear();
  await settled();
  const shown = environment.out();
  expect(shown.endsWith(erase)).toBe(true);
  vi.advanceTimersByTime(1_000);
  await settled();
  expect(environment.out()).toBe(shown);
});

test.each([
  ['a pipe', {}, false],
  ['NO_COLOR', { NO_COLOR: '1' }, true],
  ['a dumb terminal', { TERM: 'dumb' }, true],
] as const)('there is no status line with %s', async (_, env, isTTY) => {
  const { environment, status } = statusLine(env, isTTY);
  status.show('thinking');
  vi.advanceTimersByTime(1_000);
  status.clear();
  await settled();
  expect(environment.out()).toBe('');
});
