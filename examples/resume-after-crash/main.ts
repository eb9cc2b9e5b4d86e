/**
 * Kill the server while a run waits for an approval, start it again, and continue the run. Starts its
 * own server: npx node examples/resume-after-crash/main.ts
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createClient } from 'relay-kit/sdk';

const dataDir = mkdtempSync(join(tmpdir(), 'relay-example-'));
const main = new URL('../../packages/server/src/main.ts', import.meta.url).pathname;

async function startServer(port: string) {
  const quiet = { RELAY_LOG_LEVEL: 'warn' };
  const env = { ...process.env, ...quiet, RELAY_DATA_DIR: dataDir, RELAY_PORT: port };
  const server = spawn(process.execPath, [main], { env, stdio: ['ignore', 'pipe', 'inherit'] });
  const said = await new Promise<string>((resolve) => {
    let output = '';
    server.stdout.on('data', (chunk) => {
      output += String(chunk);
      if (output.includes('listening on')) resolve(output);
    });
  });
  const kill = () => new Promise((resolve) => server.once('exit', resolve).kill('SIGKILL'));
  return { kill, url: /listening on (\S+)/.exec(said)?.[1] ?? '' };
}

let server = await startServer('0');
const { url } = server;
const apiKey = readFileSync(join(dataDir, 'first-key'), 'utf8').trim();
const client = createClient({ baseUrl: url, apiKey });

const run = await client.runs.create({
  model: 'demo',
  input: 'notify I survived',
  tools: [{ name: 'send_note', kind: 'builtin' }],
});
for await (const event of run) {
  if (event.type !== 'approval_requested') continue;
  console.log('It waits for an approval. Killing the server …');
  await server.kill();
  server = await startServer(new URL(url).port);
  console.log('… and it is back.');
  await client.approvals.approve(event.id);
}
console.log(await run.text());

const notes = readFileSync(join(dataDir, 'notes.log'), 'utf8').trim().split('\n');
assert.equal(notes.length, 1);
assert.equal((await client.runs.get(run.id)).status, 'completed');
await server.kill();
rmSync(dataDir, { recursive: true });
