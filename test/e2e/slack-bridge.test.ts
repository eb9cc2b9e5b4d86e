/** The bridge of the guide: from the request over the message and its link to the decision and the update. */
import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { createClient, type RelayClient } from '@relay/sdk';
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import { createBridge } from '../../examples/slack-bridge/bridge.ts';
import { until } from '../support/kernel.ts';
import { LocalServer } from '../support/server.ts';

interface Call {
  readonly method: string;
  readonly token: string | undefined;
  readonly body: {
    channel: string;
    ts?: string;
    text: string;
    blocks: { text: { text: string } }[];
  };
}

const folder = mkdtempSync(join(tmpdir(), 'relay-bridge-'));
const server = new LocalServer({
  RELAY_PRIVATE_NETWORKS: '127.0.0.0/8',
  RELAY_PUBLIC_URL: 'http://127.0.0.1:4000',
});
const calls: Call[] = [];
const slack = createServer((request, response) => {
  void text(request).then((body) => {
    const method = request.url?.split('/').at(-1) ?? '';
    const parsed = JSON.parse(body) as Call['body'];
    calls.push({ method, token: request.headers.authorization, body: parsed });
    const ts = parsed.ts ?? `1405894322.00276${calls.length}`;
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify({ ok: true, channel: 'C024BE91L', ts }));
  });
});
let bridge: Server;
let client: RelayClient;

async function listening(target: Server): Promise<string> {
  target.listen(0, '127.0.0.1');
  await once(target, 'listening');
  return `http://127.0.0.1:${(target.address() as AddressInfo).port}`;
}

beforeAll(async () => {
  await server.start();
  client = createClient({ baseUrl: server.url, apiKey: server.apiKey });
  // Its URL is part of the webhook, and the secret of the webhook is part of the bridge.
  const entry = createServer((request, response) => void bridge.emit('request', request, response));
  const url = await listening(entry);
  const { secret } = await client.webhooks.create({
    url,
    events: ['approval.requested', 'approval.decided', 'approval.expired'],
  });
  const sendmail = join(folder, 'sendmail');
  writeFileSync(sendmail, `#!/bin/sh\ncat > ${folder}/mail\n`);
  chmodSync(sendmail, 0o700);
  bridge = createBridge({
    relay: client,
    secret,
    slack: { token: 'xoxb-test', channel: '#approvals', api: `${await listening(slack)}/api` },
    mail: { to: 'ops@example.com', command: [sendmail, '-t'] },
    stateFile: join(folder, 'state.json'),
  });
  afterAll(() => {
    entry.closeAllConnections();
    entry.close();
  });
});
afterAll(async () => {
  slack.closeAllConnections();
  slack.close();
  await server.dispose();
  rmSync(folder, { recursive: true, force: true });
});

test('a request is posted with its call and its link, and the message is updated when it is decided', async () => {
  const run = await client.runs.create({
    model: 'demo',
    input: 'notify <!channel> the build is green',
    tools: [{ name: 'send_note', kind: 'builtin' }],
  });
  await until(async () => calls.length > 0);
  const [posted] = calls;
  expect(posted).toMatchObject({ method: 'chat.postMessage', token: 'Bearer xoxb-test' });
  expect(posted?.body).toMatchObject({ channel: '#approvals', text: 'send_note needs approval' });
  const shown = posted?.body.blocks.map((block) => block.text) ?? [];
  // What the model wrote is plain text: it mentions nobody.
  expect(shown[1]).toMatchObject({
    type: 'plain_text',
    text: expect.stringContaining('<!channel>'),
  });
  const link = /<(http[^|]+)\|/.exec(shown[2]?.text ?? '')?.[1] ?? '';
  await until(async () => existsSync(join(folder, 'state.json')));
  expect(readFileSync(join(folder, 'mail'), 'utf8')).toContain(`Subject: send_note needs approval`);
  expect(readFileSync(join(folder, 'mail'), 'utf8')).toContain(link);

  const page = link.replace('http://127.0.0.1:4000', server.url);
  expect(await (await fetch(page)).text()).toContain('the build is green');
  expect(server.notes).toEqual([]);
  const form = new URLSearchParams({ approved: 'true' });
  expect((await fetch(page, { method: 'POST', body: form })).status).toBe(200);

  await until(async () => calls.length > 1);
  expect(calls[1]?.method).toBe('chat.update');
  expect(calls[1]?.body).toMatchObject({ channel: 'C024BE91L', ts: '1405894322.002761' });
  expect(calls[1]?.body.text).toMatch(/^send_note: approved by .*\(link\)$/);
  expect(JSON.stringify(calls[1]?.body.blocks)).not.toContain('decide/');
  expect(await run.text()).toBe('The note was sent.');
}, 60_000);

test('what Relay did not sign is refused', async () => {
  const entry = await listening(
    createServer((request, response) => void bridge.emit('request', request, response)),
  );
  const body = JSON.stringify({ type: 'approval.requested', approval: { id: 'x', tool: 'y' } });
  const headers = {
    'webhook-id': 'x',
    'webhook-timestamp': String(Math.floor(Date.now() / 1000)),
    'webhook-signature': `v1,${Buffer.alloc(32).toString('base64')}`,
  };
  expect((await fetch(entry, { method: 'POST', body, headers })).status).toBe(401);
  expect((await fetch(entry, { method: 'POST', body })).status).toBe(401);
});

describe('the bridge alone', () => {
  const secret = `whsec_${Buffer.from('a secret of the webhook').toString('base64')}`;

  /** A bridge whose Relay, Slack and mail command are given, and a function that sends it an event. */
  async function bridgeWith(
    answer: (method: string) => Promise<object>,
    mailScript = `echo sent >> ${folder}/mails`,
  ) {
    const posts: string[] = [];
    const api = createServer((request, response) => {
      const method = request.url?.slice(1) ?? '';
      posts.push(method);
      void answer(method).then((body) => response.end(JSON.stringify(body)));
    });
    const approval = { tool: 't', status: 'pending', display: { text: 'x'.repeat(2_000_000) } };
    const command = join(folder, 'mail-command');
    writeFileSync(command, `#!/bin/sh\n${mailScript}\n`);
    chmodSync(command, 0o700);
    rmSync(`${folder}/mails`, { force: true });
    const alone = createBridge({
      relay: { approvals: { get: async () => approval } } as unknown as RelayClient,
      secret,
      slack: { token: 'x', channel: '#a', api: await listening(api) },
      mail: { to: 'ops@example.com', command: [command] },
      stateFile: join(mkdtempSync(join(folder, 'state-')), 'state.json'),
    });
    const url = await listening(alone);
    const send = async (type: string) => {
      const body = JSON.stringify({ type, approval: { id: 'one', tool: 't' } });
      const timestamp = String(Math.floor(Date.now() / 1000));
      const key = Buffer.from(secret.replace('whsec_', ''), 'base64');
      const hmac = createHmac('sha256', key).update(`i.${timestamp}.${body}`).digest('base64');
      const headers = {
        'webhook-id': 'i',
        'webhook-timestamp': timestamp,
        'webhook-signature': `v1,${hmac}`,
      };
      return (await fetch(url, { method: 'POST', body, headers })).status;
    };
    onTestFinished(() => {
      for (const each of [alone, api]) {
        each.closeAllConnections();
        each.close();
      }
    });
    return { url, send, posts };
  }
  const accepted = { ok: true, channel: 'C', ts: '1' };
  const silent = () => vi.spyOn(console, 'error').mockImplementation(() => {});

  test('a retry after Slack refused sends no second e-mail', async () => {
    const errors = silent();
    const answers = [{ ok: false, error: 'rate_limited' }, accepted];
    const { send, posts } = await bridgeWith(async () => answers.shift() ?? accepted);
    expect([await send('approval.requested'), await send('approval.requested')]).toEqual([
      500, 204,
    ]);
    expect(posts).toHaveLength(2);
    expect(readFileSync(join(folder, 'mails'), 'utf8')).toBe('sent\n');
    errors.mockRestore();
  });

  test('events of one approval are handled one after another', async () => {
    const { promise: gate, resolve: openGate } = Promise.withResolvers<void>();
    const { send, posts } = await bridgeWith(async () => {
      await gate;
      return accepted;
    });
    const first = send('approval.requested');
    await until(async () => posts.length > 0);
    const others = [send('approval.requested'), send('approval.decided')];
    openGate();
    expect(await Promise.all([first, ...others])).toEqual([204, 204, 204]);
    expect(posts).toEqual(['chat.postMessage', 'chat.update']);
  });

  test('a mail command that does not read its input fails the delivery only', async () => {
    const errors = silent();
    const { send } = await bridgeWith(async () => accepted, 'exec 0<&-; exit 3');
    for (let times = 0; times < 5; times += 1) expect(await send('approval.requested')).toBe(500);
    expect(errors).toHaveBeenCalledWith(
      expect.objectContaining({ message: expect.stringContaining('ended with code 3') }),
    );
    errors.mockRestore();
  });

  test('a body of more than 1 MB is refused before its signature is checked', async () => {
    const { url } = await bridgeWith(async () => accepted);
    const body = 'x'.repeat(1024 * 1024 + 1);
    expect((await fetch(url, { method: 'POST', body })).status).toBe(413);
    const stream = new Blob([body]).stream();
    const chunked = fetch(url, { method: 'POST', body: stream, duplex: 'half' } as RequestInit);
    // The connection can be closed before the answer is read.
    const outcome = await chunked.then(({ status }) => status).catch(() => 'closed');
    expect([413, 'closed']).toContain(outcome);
  });
});
