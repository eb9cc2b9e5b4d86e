/**
 * Use the tools of an MCP server and answer its request for input. The server is in wardrobe.ts, its
 * configuration in relay.config.ts: npx node examples/mcp-tools/main.ts
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { createClient, type OnApproval, type OnQuestion } from 'relay-kit/sdk';
import { embed } from 'relay-kit';

const dataDir = mkdtempSync(join(tmpdir(), 'relay-example-'));
const config = fileURLToPath(new URL('relay.config.ts', import.meta.url));
const relay = await embed({ env: { RELAY_DATA_DIR: dataDir, RELAY_CONFIG: config } });
const client = createClient(relay);

/** First the approval of the call. */
const onApproval: OnApproval = (approval) => {
  console.log(`May it? ${approval.tool} ${JSON.stringify(approval.params)}`);
  return { approved: true };
};

/** Then the question of the server. */
const onQuestion: OnQuestion = (approval) => {
  console.log(`It asks: ${approval.prompt}`);
  return { approved: true, input: { size: 'M' } };
};

const run = await client.runs.create(
  {
    model: 'demo',
    input: 'use wardrobe_order {"what": "coat"}',
    tools: [{ name: 'wardrobe_order', kind: 'builtin' }],
  },
  { onApproval, onQuestion },
);
for await (const event of run) {
  if (event.type === 'tool_result') {
    console.log(event.output);
    assert.equal(event.output, 'Ordered: coat M');
  }
}

assert.equal((await run.result()).status, 'completed');
await relay.stop();
rmSync(dataDir, { recursive: true });
