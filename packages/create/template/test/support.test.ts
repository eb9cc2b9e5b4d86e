import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { embed, type InProcessRelay } from 'relay-kit';
import { createClient, type RelayClient } from 'relay-kit/sdk';

// The whole server in this process, without a port, with the agents of relay.config.ts.
const project = process.cwd();
const folder = mkdtempSync(join(tmpdir(), 'relay-test-'));
let relay: InProcessRelay;
let client: RelayClient;

before(async () => {
  process.chdir(folder);
  relay = await embed({ env: { RELAY_DATA_DIR: join(folder, 'data') }, cwd: project });
  client = createClient(relay);
});
after(async () => {
  await relay.stop();
  process.chdir(project);
  rmSync(folder, { recursive: true });
});

// The model `demo` needs no key. It calls the tool that its message names.
const refund = 'use refund_order {"order": "A-17", "amount": 49.9, "reason": "It arrived broken"}';

test('a refund is made after a person has approved it', async () => {
  const asked: string[] = [];
  const run = await client.runs.create(
    { agent: 'support', model: 'demo', input: refund },
    {
      onApproval: ({ tool }) => {
        asked.push(tool);
        return { approved: true };
      },
    },
  );
  assert.match(await run.text(), /refunded/);
  assert.deepEqual(asked, ['refund_order']);
  assert.equal(readFileSync('refunds.log', 'utf8'), 'A-17 $49.9 It arrived broken\n');
});

test('an order is found without an approval', async () => {
  const input = 'use find_order {"order": "B-42"}';
  const run = await client.runs.create({ agent: 'support', model: 'demo', input });
  assert.match(await run.text(), /120/);
});
