/**
 * Two agents, a program and a person work in one channel. Needs a server (npm start) and
 * RELAY_API_KEY: npx node examples/team/main.ts
 */
import assert from 'node:assert/strict';
import { createClient } from 'relay-kit/sdk';

const client = createClient({
  baseUrl: process.env['RELAY_URL'] ?? 'http://127.0.0.1:4000',
  apiKey: process.env['RELAY_API_KEY'],
});

// Two agents. The clerk may order nothing unless a person agrees.
const permissions = { ask: [{ tool: 'invoke_action' }] };
const [buyer, clerk] = await Promise.all([
  client.sessions.create({ harness: 'native', handle: 'buyer', model: 'demo' }),
  client.sessions.create({ harness: 'native', handle: 'clerk', model: 'demo', permissions }),
]);

// A program, whose function they can call.
const orders: object[] = [];
const shop = await client.sessions.serve({
  handle: 'shop',
  onMessage: ({ from, text }) => console.log(`shop hears ${from.name}: ${text}`),
  actions: {
    order: {
      description: 'Orders an article',
      inputSchema: { type: 'object', properties: { article: { type: 'string' } } },
      run: (order: { article: string }) => ({ number: orders.push(order) }),
    },
  },
});

// A person, who reads here what is written to her.
const ada = await client.sessions.serve({
  handle: 'ada',
  identity: { name: 'Ada', kind: 'human' },
  onMessage: ({ from, text }) => console.log(`ada reads ${from.name}: ${text}`),
});

await client.channels.put('orders', { topic: 'What we need' });
for (const handle of ['buyer', 'clerk', 'shop', 'ada']) {
  await client.channels.addMember('orders', handle);
}

// The model demo does what it reads: Ada lets the buyer write to the clerk, where all can read it.
const use = (tool: string, input: object) => `use ${tool} ${JSON.stringify(input)}`;
const task = use('invoke_action', { name: 'order', input: { article: 'tea' } });
const work = client.sessions.stream(clerk);
const text = use('send_message', { to: ['#orders', '@clerk'], text: task });
await ada.send({ to: '@buyer', text });

// The clerk has to wait for a person.
await work.waitFor({ type: 'status.waiting' });
const [approval] = (await client.approvals.list({ sessionId: clerk.id }).page()).items;
assert.equal(orders.length, 0);
console.log(`May it? ${approval?.tool} ${JSON.stringify(approval?.params)}`);
await client.approvals.approve(approval?.id ?? '');

// The answer goes to the channel.
await work.waitFor({ type: 'message.sent' });
const [answer, asked] = (await client.messages.list({ channel: 'orders' }).page()).items;
assert.equal(asked?.text, task);
assert.equal(answer?.replyTo, asked?.id);
const read = await client.messages.deliveries(answer?.id ?? '', { wait: 'consumed' });
const readers = read.map(({ handle, status }) => `${handle} ${status}`).toSorted();
assert.deepEqual(readers, ['ada consumed', 'buyer consumed', 'shop consumed']);
assert.deepEqual(orders, [{ article: 'tea' }]);

for (const { id } of [buyer, clerk, shop, ada]) await client.sessions.drop(id);
await Promise.all([shop.closed, ada.closed]);
