/**
 * Let an agent remember between runs. Needs a server (npm start) and RELAY_API_KEY:
 * npx node examples/memory/main.ts
 */
import assert from 'node:assert/strict';
import { createClient } from '@relay/sdk';

const client = createClient({
  baseUrl: process.env['RELAY_URL'] ?? 'http://127.0.0.1:4000',
  apiKey: process.env['RELAY_API_KEY'],
});

// A namespace belongs to whom you say: a user, a team, a project.
const ada = { namespace: 'example:ada' };
const bob = { namespace: 'example:bob' };
for (const { namespace } of [ada, bob]) await client.memories.clear(namespace);

/** What a run is reminded of before it answers. */
async function remindedOf(input: string, memory: { namespace: string }): Promise<string[]> {
  const run = await client.runs.create({ model: 'demo', input, memory });
  await run.result();
  for await (const event of client.runs.events(run.id)) {
    if (event.type === 'memory.recalled') return event.memories.map(({ text }) => text);
  }
  return [];
}

// The agent itself decides what is worth keeping, by its tool `memory`.
const fact = { action: 'remember', text: 'The dog of Ada is called Turing' };
const first = await client.runs.create({
  model: 'demo',
  input: `use memory ${JSON.stringify(fact)}`,
  tools: [{ name: 'memory', kind: 'builtin' }],
  memory: ada,
});
console.log(await first.text());

const reminded = await remindedOf('What is my dog called?', ada);
console.log('a later run knows:', reminded);
assert.ok(reminded.some((text) => text.includes('Turing')));

assert.deepEqual(await remindedOf('What is my dog called?', bob), []);
console.log('another namespace knows nothing of it');

// People can look at what is remembered, and have it forgotten.
const { items } = await client.memories.list({ ...ada, q: 'dog' }).page();
for (const { source, score } of items) console.log(source, score?.toFixed(2));
for (const { id } of items) await client.memories.delete(id);
const left = await remindedOf('What is my dog called?', ada);
assert.ok(!left.some((text) => text.includes('Turing')));
console.log('forgotten');
