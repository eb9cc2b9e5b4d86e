/**
 * Run the whole server inside this program, without a port: durable runs for a script or a test.
 * npx node examples/embed-in-process/main.ts
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createClient } from 'relay-kit/sdk';
import { embed } from 'relay-kit';

const dataDir = mkdtempSync(join(tmpdir(), 'relay-example-'));
const open = () => embed({ env: { RELAY_DATA_DIR: dataDir } });

// All data is in the folder, so a run outlives the process that started it.
let relay = await open();
let client = createClient(relay);
const run = await client.runs.create({
  model: 'demo',
  input: 'notify the night shift',
  tools: [{ name: 'send_note', kind: 'builtin' }],
});
for await (const event of run) {
  if (event.type === 'approval_requested') break;
}
await relay.stop();

// A second server on the same folder resumes the run.
relay = await open();
client = createClient(relay);
for await (const { id, tool } of client.approvals.list({ status: 'pending' })) {
  console.log(`${tool} has been waiting`);
  await client.approvals.approve(id);
}
console.log(await client.runs.stream(run.id).text());

assert.equal((await client.runs.get(run.id)).status, 'completed');
await relay.stop();
rmSync(dataDir, { recursive: true });
