import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { embed } from '../src/embed.ts';

let dataDir: string;
beforeEach(() => {
  dataDir = mkdtempSync(join(tmpdir(), 'relay-embed-'));
});
afterEach(() => rmSync(dataDir, { recursive: true, force: true }));

const open = () => embed({ env: { RELAY_DATA_DIR: dataDir }, cwd: dataDir });

type Embedded = Awaited<ReturnType<typeof open>>;

function start({ fetch, baseUrl, apiKey }: Embedded): Promise<Response> {
  return fetch(`${baseUrl}/v1/runs`, {
    method: 'POST',
    headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'demo', input: 'say 3' }),
  });
}

test('runs agents without a port and stores their journal', async () => {
  const first = await open();
  const response = await start(first);
  const runId = response.headers.get('x-run-id');
  expect(await response.text()).toContain('"type":"done","status":"completed"');
  await first.stop();

  const second = await open();
  const { baseUrl, apiKey } = second;
  const headers = { authorization: `Bearer ${apiKey}` };
  const kept = await second.fetch(`${baseUrl}/v1/runs/${runId}`, { headers });
  expect(await kept.json()).toMatchObject({ id: runId, status: 'completed' });

  // The key of the first lived no longer than the first.
  const old = { authorization: `Bearer ${first.apiKey}` };
  expect((await second.fetch(`${baseUrl}/v1/runs`, { headers: old })).status).toBe(401);
  await second.stop();
});

test('reports invalid settings in one line and unlocks the folder', async () => {
  const wrong = { env: { RELAY_DATA_DIR: dataDir, RELAY_DEFAULT_MODEL: 'no-such' }, cwd: dataDir };
  await expect(embed(wrong)).rejects.toThrow(/RELAY_DEFAULT_MODEL/);
  const opened = await open();
  await expect(open()).rejects.toThrow();
  await opened.stop();
});

test('runs the programs of MCP servers in its folder', async () => {
  const args = ['-e', "require('node:fs').writeFileSync('here', '')"];
  const { stop } = await embed({
    env: { RELAY_DATA_DIR: dataDir, RELAY_LOG_LEVEL: 'off' },
    cwd: dataDir,
    config: { mcpServers: { probe: { command: process.execPath, args } } },
  });
  await stop();
  expect(existsSync(join(dataDir, 'here'))).toBe(true);
});
