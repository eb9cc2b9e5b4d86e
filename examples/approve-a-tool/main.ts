/**
 * Decide approvals while you follow a run. Needs a server (npm start) and
 * RELAY_API_KEY: npx node examples/approve-a-tool/main.ts
 */
import assert from 'node:assert/strict';
import { createClient, type OnApproval } from 'relay-kit/sdk';

const client = createClient({
  baseUrl: process.env['RELAY_URL'] ?? 'http://127.0.0.1:4000',
  apiKey: process.env['RELAY_API_KEY'],
});

/** A real program would ask a person here; the run waits as long as needed. */
const onApproval: OnApproval = (approval) => {
  console.log(`May it? ${approval.display.text.replaceAll(/\s+/g, ' ')}`);
  const isFine = JSON.stringify(approval.params).includes('green');
  console.log(isFine ? 'Yes.' : 'No.');
  return isFine ? { approved: true } : { approved: false, reason: 'Good news only' };
};

const input = `use send_note {"to": "operator", "text": "The build is green"}
use send_note {"to": "everybody", "text": "We are doomed"}`;
const tools = [{ name: 'send_note', kind: 'builtin' as const }];
const run = await client.runs.create({ model: 'demo', input, tools }, { onApproval });

const outputs: unknown[] = [];
for await (const event of run) {
  if (event.type === 'tool_result') outputs.push(event.output);
}
console.log(await run.text());

assert.equal(outputs.length, 2);
assert.ok(outputs.some((output) => JSON.stringify(output).includes('"denied"')));

// Decisions are stored with the time and the decider.
const decided = await client.approvals.list({ runId: run.id }).page();
const statuses = decided.items.map(({ status }) => status);
assert.deepEqual(statuses.toSorted(), ['approved', 'denied']);
