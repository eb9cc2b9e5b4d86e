/**
 * Start a run, stream its events and read its answer. Needs a server (npm start) and RELAY_API_KEY:
 * npx node examples/hello-run/main.ts
 */
import assert from 'node:assert/strict';
import { createClient } from 'relay-kit/sdk';

const client = createClient({
  baseUrl: process.env['RELAY_URL'] ?? 'http://127.0.0.1:4000',
  apiKey: process.env['RELAY_API_KEY'],
});

const run = await client.runs.create({
  model: 'demo',
  input: 'calculate 23*47',
  tools: [{ name: 'calculator', kind: 'builtin' }],
});

for await (const event of run) {
  if (event.type === 'tool_call') console.log(`calls ${event.name}`, event.input);
  if (event.type === 'tool_result') console.log('gets', event.output);
}
console.log(await run.text());

assert.equal(await run.text(), '23 * 47 is 1081.');
const stored = await client.runs.get(run.id);
assert.equal(stored.status, 'completed');
