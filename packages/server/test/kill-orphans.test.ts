import { spawn } from 'node:child_process';
import { readFileSync, readlinkSync } from 'node:fs';
import { createToolRegistry } from '@relay/tools';
import { afterEach, describe, expect, it } from 'vitest';
import { requiresLinux } from '../../../test/support/requires.ts';
import { isAlive, McpFixture } from '../../../test/support/mcp/fixture.ts';
import { bootServer } from './support/server.ts';

const fixture = new McpFixture();
const pids: number[] = [];
afterEach(() => {
  for (const pid of pids.splice(0)) if (isAlive(pid)) process.kill(pid, 'SIGKILL');
  fixture.dispose();
});

/** A program with the mark of a server of this number that began at this time. */
function leftBy(pid: number, beganAt: number): number {
  const space = readlinkSync('/proc/self/ns/pid').replace(/\D/g, '');
  const env = { ...process.env, RELAY_COMMAND: `${space}.${pid}.${beganAt}.a-program` };
  const child = spawn('sleep', ['600'], { env, stdio: 'ignore', detached: true });
  child.unref();
  pids.push(child.pid ?? 0);
  return child.pid ?? 0;
}

const beganAt = (): number => {
  const stat = readFileSync('/proc/self/stat', 'utf8');
  return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19]);
};

describe('killOrphans', requiresLinux(), () => {
  it('kills only orphaned programs, also without bash', async () => {
    const orphan = leftBy(process.pid, beganAt() - 1);
    const other = leftBy(process.pid, beganAt());
    const tools = createToolRegistry([]);
    const file = { mcpServers: { shop: fixture.program('during') } };
    const relay = await bootServer({ tools, file });
    try {
      await expect.poll(() => isAlive(orphan)).toBe(false);
      expect(isAlive(other)).toBe(true);
    } finally {
      await relay.stop();
    }
  });
});
