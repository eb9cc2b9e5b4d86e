import type { Clock } from '@relay/core';
import { expect, it } from 'vitest';
import type { McpConnection } from '../../src/mcp/connection.ts';
import { McpLink, usualPauses } from '../../src/mcp/link.ts';

const { lookMs } = usualPauses;

/** A clock that tells for how long it was waited, without waiting for less than a look. */
function hastyClock() {
  const slept: number[] = [];
  const clock: Clock = {
    now: () => 0,
    async sleep(ms, signal) {
      slept.push(ms);
      await new Promise<void>((resolve) => {
        if (ms < lookMs) setImmediate(resolve);
        signal?.addEventListener('abort', () => resolve());
      });
    },
  };
  return { clock, slept };
}

it('asks a server that says every moment that its tools have changed ever more seldom', async () => {
  const { clock, slept } = hastyClock();
  const over = Promise.withResolvers<string>();
  let listed = 0;
  const link = new McpLink({
    name: 'odd',
    open: async (changed) => {
      const connection: Partial<McpConnection> = {
        isOver: false,
        ended: over.promise,
        list: async () => {
          listed += 1;
          await new Promise((resolve) => setImmediate(resolve));
          setImmediate(changed);
          return [];
        },
        close: async () => over.resolve('closed'),
      };
      return connection as McpConnection;
    },
    listed: () => undefined,
    clock,
    log: { warn: () => undefined, error: () => undefined },
  });
  await link.start();
  await expect.poll(() => slept.filter((ms) => ms === lookMs)).toHaveLength(2);
  await link.stop();
  const seconds = [1, 2, 4, 8, 16, 32, 64, 128, 256];
  expect(slept).toEqual([lookMs, ...seconds.map((each) => each * 1_000), lookMs]);
  expect(listed).toBe(11);
});
