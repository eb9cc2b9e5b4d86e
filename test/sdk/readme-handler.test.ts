/** Programs with a copied handler, and a server that dies in the middle of a tool. */
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { createClient } from '@relay/sdk';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { ReadmeExamples, runExample } from '../support/readme-examples.ts';
import { until } from '../support/kernel.ts';
import { TestServer } from '../support/server.ts';
import { TcpProxy } from '../support/tcp-proxy.ts';

/** `pay` appends to `notes.log`, then blocks while TEST_HOLD is set. It is not idempotent. */
const secret = 'a-secret-of-16-or-more';
const server = new TestServer(
  { TEST_ASK: 'yes', RELAY_INTERNAL_SECRET: secret },
  'test/support/servers/blocking-tools.ts',
);
let port: string;

beforeAll(async () => {
  const probe = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => probe.once('listening', resolve));
  port = String((probe.address() as AddressInfo).port);
  await new Promise((resolve) => probe.close(resolve));
});
afterAll(() => server.dispose());

test('the handler of the SDK README, copied into a program, refunds once although the server is killed in the middle', async () => {
  const { all } = new ReadmeExamples('packages/sdk/README.md');
  const example = all.find(({ title }) => title === 'Decide approvals')?.code ?? '';
  expect(example).toContain('onApproval');
  await server.start({ RELAY_PORT: port, TEST_HOLD: 'yes' });
  const proxy = new TcpProxy(server.url);
  onTestFinished(() => proxy.close());
  let sent = '';
  proxy.fate = (piece) => {
    sent += piece;
    return 'pass';
  };
  // The program of the README, with another server and another task.
  const program = example
    .replaceAll('http://127.0.0.1:4000', new URL(await proxy.open()).origin)
    .replace('notify The build is green', 'use pay {"text":"refund 17"}')
    .replaceAll('send_note', 'pay');
  const running = runExample(program, { ...process.env, RELAY_API_KEY: server.apiKey });
  const refunds = () => server.notes.filter(({ text }) => text === 'refund 17').length;
  await until(async () => refunds() === 1, 'the refund');
  await server.kill();
  await server.start({ RELAY_PORT: port });
  const client = createClient({ baseUrl: server.url, apiKey: server.apiKey });
  const pending = async () => (await client.approvals.list({ status: 'pending' }).page()).items;
  const [asked] = await until(async () => {
    const open = await pending();
    return open.length > 0 ? open : undefined;
  }, 'the question about the outcome');
  expect(asked).toMatchObject({ kind: 'outcome', tool: 'pay' });
  const events = client.runs.events(asked?.runId ?? '');
  let seq = 0;
  for await (const event of events) {
    if (event.type === 'approval.requested' && event['approvalId'] === asked?.id) seq = event.seq;
  }
  // A program that asks for what follows the request has read it, and has called its handler if it has one.
  await until(async () => {
    if (sent.includes(`last-event-id: ${seq}\r\n`)) return true;
    const headers = { authorization: `Internal ${secret}` };
    const response = await server.request('/metrics', { keyless: true, headers });
    const metrics = await response.text();
    if (/^relay_open_streams [1-9]/m.test(metrics)) proxy.cut();
    return false;
  }, 'the program to read the question about the outcome');
  expect(sent).not.toContain(`/v1/approvals/${asked?.id}`);
  expect(await pending()).toHaveLength(1);
  await client.approvals.decide(asked?.id ?? '', { outcome: 'failed', reason: 'Not booked' });
  const { exit, output } = await running;
  expect(exit).toBe(0);
  expect(output).toContain('Not booked');
  expect(refunds()).toBe(1);
  expect(sent).not.toContain(`/v1/approvals/${asked?.id}`);
}, 60_000);
