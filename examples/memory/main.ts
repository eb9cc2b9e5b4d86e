/**
 * Store and recall memories between runs. Needs a server (npm start) and RELAY_API_KEY:
 * npx node examples/memory/main.ts
 */
import assert from 'node:assert/strict';
import { createClient } from 'relay-kit/sdk';

const client = createClient({
  baseUrl: process.env['RELAY_URL'] ?? 'http://127.0.0.1:4000',
  apiKey: process.env['RELAY_API_KEY'],
});

// A namespace can stand for a user, a team or a project.
const ada = { namespace: 'example:ada' };
const bob = { namespace: 'example:bob' };
for (const { namespace } of [ada, bob]) await client.memories.clear(namespace);

/** The memories that a run recalls before it answers. */
async function recalledFor(input: string, memory: { namespace: string }): Promise<string[]> {
  const run = await client.runs.create({ model: 'demo', input, memory });
  await run.result();
  for await (const event of client.runs.events(run.id)) {
    if (event.type === 'memory.recalled') return event.memories.map(({ text }) => text);
  }
  return [];
}

// With the tool `memory`, the agent itself stores a fact.
const fact = { action: 'remember', text: 'The dog of Ada is called Turing' };
const first = await client.runs.create({
  model: 'demo',
  input: `use memory ${JSON.stringify(fact)}`,
  tools: [{ name: 'memory', kind: 'builtin' }],
  memory: ada,
});
console.log(await first.text());

const recalled = await recalledFor('What is my dog called?', ada);
console.log('a later run knows:', recalled);
assert.ok(recalled.some((text) => text.includes('Turing')));

assert.deepEqual(await recalledFor('What is my dog called?', bob), []);
console.log('another namespace knows nothing of it');

// The API lists and deletes memories.
const { items } = await client.memories.list({ ...ada, q: 'dog' }).page();
for (const { source, score } of items) console.log(source, score?.toFixed(2));
for (const { id } of items) await client.memories.delete(id);
const left = await recalledFor('What is my dog called?', ada);
assert.ok(!left.some((text) => text.includes('Turing')));
console.log('forgotten');
