/** No process of an agent outlives its session, or a server that was killed. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createClient } from '@relay/sdk';
import { bubblewrapProblem } from '@relay/processes';
import { expect, onTestFinished, test } from 'vitest';
import { requires } from '../support/requires.ts';
import { processesWith } from '../../packages/harnesses/test/acp/agent-fixture.ts';
import { TestServer } from '../support/server.ts';

const processes = () => processesWith('HOSTILE_KEY=hunter22');

/** A server with an agent that has started commands in sessions of their own, which ignore SIGTERM. */
async function start(sandbox: 'off' | 'auto') {
  const workspace = mkdtempSync(join(tmpdir(), 'relay-workspace-'));
  const server = new TestServer({
    RELAY_WORKSPACE: workspace,
    RELAY_CONFIG: 'test/support/configs/hostile-agents.config.ts',
    RELAY_SANDBOX: sandbox,
  });
  onTestFinished(async () => {
    await server.dispose();
    rmSync(workspace, { recursive: true, force: true });
  });
  await server.start();
  const client = createClient({ baseUrl: server.url, apiKey: server.apiKey });
  const { id } = await client.sessions.create({ harness: 'children', handle: 'parent' });
  await client.messages.send({ to: '@parent', text: 'Start them' });
  await expect.poll(() => processes().length, { timeout: 20_000 }).toBeGreaterThanOrEqual(4);
  return { server, client, id };
}

const gone = () => expect.poll(processes, { timeout: 20_000 }).toEqual([]);

const isHidden = import.meta.dirname.startsWith('/tmp/');
const hidden = isHidden ? 'a sandbox hides this clone, which is below /tmp' : undefined;
const sandboxed = requires('sandbox', (await bubblewrapProblem()) ?? hidden);

async function releaseEndsAll(sandbox: 'off' | 'auto') {
  const { client, id } = await start(sandbox);
  await client.sessions.release(id);
  await gone();
}

test('a release ends them all', () => releaseEndsAll('off'));

test('a release ends them all in the sandbox', sandboxed, () => releaseEndsAll('auto'));

test('the end of the server ends them all', async () => {
  const { server } = await start('off');
  await server.stop();
  expect(processes()).toEqual([]);
});

test('the next start ends what a killed server has left', async () => {
  const { server } = await start('off');
  await server.kill();
  expect(processes().length).toBeGreaterThan(0);
  await server.start();
  await gone();
});

test('in the sandbox they end with a killed server', sandboxed, async () => {
  const { server } = await start('auto');
  await server.kill();
  await gone();
});
