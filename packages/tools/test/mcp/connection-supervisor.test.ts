import type { Clock } from '@relay/core';
import { expect, it } from 'vitest';
import type { ConnectionEnd, McpConnection } from '../../src/mcp/connection.ts';
import { ConnectionSupervisor, defaultTimings } from '../../src/mcp/connection-supervisor.ts';

const { refreshIntervalMs } = defaultTimings;

/** A clock that records its sleeps, and skips those shorter than a refresh interval. */
function recordingClock() {
  const slept: number[] = [];
  const clock: Clock = {
    now: () => 0,
    async sleep(ms, signal) {
      slept.push(ms);
      await new Promise<void>((resolve) => {
        if (ms < refreshIntervalMs) setImmediate(resolve);
        signal?.addEventListener('abort', () => resolve());
      });
    },
  };
  return { clock, slept };
}

it('lists the tools of a server that keeps announcing changes with growing pauses', async () => {
  const { clock, slept } = recordingClock();
  const ended = Promise.withResolvers<ConnectionEnd>();
  let listed = 0;
  const supervisor = new ConnectionSupervisor({
    name: 'odd',
    open: async (onToolsChanged) => {
      const connection: Partial<McpConnection> = {
        isOver: false,
        ended: ended.promise,
        list: async () => {
          listed += 1;
          await new Promise((resolve) => setImmediate(resolve));
          setImmediate(onToolsChanged);
          return [];
        },
        close: async () => ended.resolve({ kind: 'failed', problem: 'closed' }),
      };
      return connection as McpConnection;
    },
    listed: () => undefined,
    clock,
    redact: (text) => text,
    log: { info: () => undefined, warn: () => undefined, error: () => undefined },
  });
  await supervisor.start();
  await expect.poll(() => slept.filter((ms) => ms === refreshIntervalMs)).toHaveLength(2);
  await supervisor.stop();
  const seconds = [1, 2, 4, 8, 16, 32, 64, 128, 256];
  expect(slept).toEqual([
    refreshIntervalMs,
    ...seconds.map((each) => each * 1_000),
    refreshIntervalMs,
  ]);
  expect(listed).toBe(11);
});
