/** `kill -9` of the real server while a program of an MCP server runs that does not end by itself. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { requiresLinux } from '../support/requires.ts';
import { until } from '../support/kernel.ts';
import { isAlive, McpFixture } from '../support/mcp/fixture.ts';
import { TestServer } from '../support/server.ts';

let fixture: McpFixture;
let server: TestServer;
beforeEach(async () => {
  fixture = new McpFixture();
  const config = join(fixture.dir, 'relay.config.mjs');
  const mcpServers = { odd: fixture.hostile('clings') };
  writeFileSync(config, `export default ${JSON.stringify({ mcpServers })}`);
  server = await new TestServer({ RELAY_CONFIG: config }).start();
});
afterEach(async () => {
  await server.dispose();
  fixture.dispose();
});

/** Each program with its child, in the order in which they began. */
const programs = (): number[][] =>
  fixture
    .traces()
    .filter((line) => line.startsWith('pids'))
    .map((line) => line.split(' ').slice(1).map(Number));

/** A process that was killed is there until its parent, or the system, has looked at it. */
const ended = (pids: number[]) => async () => !pids.some(isAlive);

describe('kill -9 of the server', requiresLinux(), () => {
  test('leaves MCP programs that the next start ends', { timeout: 60_000 }, async () => {
    await until(async () => programs().length === 1, 'the program to run');
    await server.kill();
    await server.start();
    await until(async () => programs().length === 2, 'the next program to run');
    const [before = [], now = []] = programs();
    await until(ended(before), 'the first programs to be gone');
    expect(now.map(isAlive)).toEqual([true, true]);
    await server.stop();
    await until(ended(now), 'the next programs to be gone');
  });
});

test('a server stopped during startup leaves no MCP process', async () => {
  await server.kill();
  const starting = server.start().catch(() => undefined);
  await until(async () => programs().length === 2, 'the program to run');
  server.signal('SIGTERM');
  const [, pids = []] = programs();
  await until(ended(pids), 'the programs to be gone');
  await starting;
  const isGone = () =>
    server.request('/health').then(
      () => false,
      () => true,
    );
  await until(isGone, 'the server to be gone');
}, 60_000);
