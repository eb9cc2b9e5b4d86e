/**
 * Provide your own function as a tool: it runs in this process. Needs a server
 * (npm start) and RELAY_API_KEY: npx node examples/function-tool/main.ts
 */
import assert from 'node:assert/strict';
import { createClient, defineTool } from 'relay-kit/sdk';
import { z } from 'zod';

const client = createClient({
  baseUrl: process.env['RELAY_URL'] ?? 'http://127.0.0.1:4000',
  apiKey: process.env['RELAY_API_KEY'],
});

const users = new Map([['u_001', { name: 'Ada', plan: 'pro' }]]);

const getUser = defineTool({
  name: 'get_user',
  description: 'Finds a user by id',
  schema: z.object({ id: z.string().startsWith('u_') }),
  execute({ id }) {
    const user = users.get(id);
    if (user === undefined) throw new Error(`There is no user ${id}`);
    return user;
  },
});

const input = 'use get_user {"id": "u_001"}\nuse get_user {"id": "u_404"}';
const run = await client.runs.create({ model: 'demo', input, tools: [getUser] });

const asked: unknown[] = [];
const outputs = new Map<string, unknown>();
for await (const event of run) {
  if (event.type === 'tool_call') asked.push(event.id);
  if (event.type === 'tool_call') console.log('asks for', event.input);
  if (event.type === 'tool_result') outputs.set(event.id, event.output);
}
// Both calls run in parallel; either can finish first.
const [found, missing] = asked.map((id) => outputs.get(String(id)));
console.log([found, missing]);

assert.deepEqual(found, { name: 'Ada', plan: 'pro' });
assert.match(JSON.stringify(missing), /There is no user u_404/);
assert.equal((await run.result()).status, 'completed');
