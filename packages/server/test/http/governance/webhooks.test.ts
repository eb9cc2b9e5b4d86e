/** `/v1/webhooks`: subscriptions receive signed events, with retries. */
import { createHmac } from 'node:crypto';
import { createServer, type IncomingHttpHeaders, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Webhook } from 'standardwebhooks';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { addKey, bootServer, type TestServer, until } from '../../support/server.ts';
import { startRun } from '../../support/requests.ts';

interface Delivery {
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
  readonly json: Record<string, unknown> & { relay?: Record<string, unknown> };
}

/** Records deliveries and answers them with `status`. */
class Receiver {
  readonly deliveries: Delivery[] = [];
  status = 200;
  readonly #server: Server = createServer((request, response) => {
    let body = '';
    request.on('data', (chunk: Buffer) => (body += chunk.toString()));
    request.on('end', () => {
      const { url: path = '', headers } = request;
      this.deliveries.push({ path, headers, body, json: JSON.parse(body) as Delivery['json'] });
      response.writeHead(this.status, { location: '/elsewhere' }).end('secret words');
    });
  });

  async listen(): Promise<string> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve));
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  close(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }

  at(path: string, type: string): Delivery | undefined {
    return this.deliveries.find((each) => each.path === path && each.json['type'] === type);
  }
}

describe('webhooks', () => {
  let server: TestServer;
  let base: string;
  const receiver = new Receiver();

  beforeAll(async () => {
    base = await receiver.listen();
    const env = {
      RELAY_PRIVATE_NETWORKS: '127.0.0.0/8',
      RELAY_PUBLIC_URL: 'https://relay.example/',
    };
    server = await bootServer({ env });
  });
  afterAll(async () => {
    await server.stop();
    receiver.close();
  });

  async function hook(path: string, events: readonly string[], key?: string) {
    const body = { url: `${base}${path}`, events };
    const made = await server.json('/v1/webhooks', { body, ...(key === undefined ? {} : { key }) });
    return { id: String(made['id']), secret: String(made['secret']) };
  }

  const all = [
    'approval.requested',
    'approval.expiring',
    'approval.expired',
    'approval.decided',
    'run.ended',
  ];

  async function deliveriesOf(id: string) {
    const { deliveries } = await server.json(`/v1/webhooks/${id}/deliveries`);
    return deliveries as Record<string, unknown>[];
  }

  it('receive the events that they subscribe to, signed, without the content of calls', async () => {
    const { id, secret } = await hook('/all', all);
    await hook('/ends', ['run.ended']);
    const run = await startRun(server, { input: 'notify sk-canary' });
    const relay = await run.reader.until('approval_requested');
    const approvalId = String(relay.data['id']);
    const raised = await until(
      () => receiver.at('/all', 'approval.requested'),
      'approval.requested',
    );
    expect(raised.json).toMatchObject({
      id: `approval.requested:${approvalId}`,
      run: { id: run.runId, agent: 'assistant' },
      approval: {
        id: approvalId,
        kind: 'permission',
        tool: 'send_note',
        expiresAt: expect.any(String),
      },
      decisionUrl: expect.stringContaining(`https://relay.example/decide/${approvalId}.`),
    });
    expect(raised.headers).toMatchObject({
      'relay-event': 'approval.requested',
      'relay-delivery': `approval.requested:${approvalId}`,
      'content-type': 'application/json',
    });
    const [, time, mac] = /^t=(\d+),v1=([0-9a-f]{64})$/.exec(
      String(raised.headers['relay-signature']),
    ) as unknown as [string, string, string];
    expect(createHmac('sha256', secret).update(`${time}.${raised.body}`).digest('hex')).toBe(mac);
    expect(Math.abs(Number(time) - Date.now() / 1000)).toBeLessThan(600);
    const standard = {
      'webhook-id': String(raised.headers['webhook-id']),
      'webhook-timestamp': String(raised.headers['webhook-timestamp']),
      'webhook-signature': String(raised.headers['webhook-signature']),
    };
    expect(standard).toMatchObject({
      'webhook-id': `approval_requested:${approvalId}`,
      'webhook-timestamp': time,
    });
    expect(secret).toMatch(/^whsec_[\w+/]{43}=$/);
    const standardWebhook = new Webhook(secret);
    expect(standardWebhook.verify(raised.body, standard)).toEqual(raised.json);
    expect(() => standardWebhook.verify(`${raised.body} `, standard)).toThrow(/signature/);
    await server.request(`/v1/approvals/${approvalId}`, {
      body: { approved: false, reason: 'no' },
    });
    await run.reader.rest();
    const decided = await until(() => receiver.at('/all', 'approval.decided'), 'approval.decided');
    expect(decided.json).toMatchObject({ approval: { id: approvalId, status: 'denied' } });
    const ended = await until(() => receiver.at('/ends', 'run.ended'), 'run.ended');
    expect(ended.json).toMatchObject({ run: { id: run.runId, status: 'completed' } });
    const sent = JSON.stringify(receiver.deliveries);
    expect(sent).not.toContain('sk-canary');
    expect(receiver.deliveries.filter(({ path }) => path === '/ends')).toHaveLength(1);
    const shown = await until(async () => {
      const found = await deliveriesOf(id);
      return found.length === 3 && found.every(({ status }) => status === 'delivered') && found;
    }, 'three deliveries');
    expect(shown).toMatchObject([
      { event: 'run.ended', lastStatus: 200, attempts: 1 },
      { event: 'approval.decided' },
      { event: 'approval.requested' },
    ]);
    const first = await server.json(`/v1/webhooks/${id}/deliveries?limit=1`);
    const next = await server.json(
      `/v1/webhooks/${id}/deliveries?limit=2&cursor=${String(first['nextCursor'])}`,
    );
    expect(next['deliveries']).toEqual(shown.slice(1));
    // The secret is returned once, and not stored.
    expect(JSON.stringify(await server.json('/v1/webhooks'))).not.toContain(secret);
    expect(JSON.stringify(await server.json('/v1/audit?limit=200'))).not.toContain(secret);
  });

  it('are retried with the same id after an error, and redirects are not followed', async () => {
    receiver.status = 302;
    const { id } = await hook('/again', ['run.ended']);
    const run = await startRun(server, { input: 'say 1' });
    await run.reader.rest();
    await until(() => receiver.at('/again', 'run.ended'), 'the first attempt');
    const [waiting] = await until(async () => {
      const found = await deliveriesOf(id);
      return found[0]?.['lastStatus'] === 302 && found;
    }, 'the failed attempt');
    expect(waiting).toMatchObject({ status: 'pending', attempts: 1, id: `run.ended:${run.runId}` });
    expect(Date.parse(String(waiting?.['nextAttemptAt']))).toBeGreaterThan(Date.now());
    expect(receiver.deliveries.some(({ path }) => path === '/elsewhere')).toBe(false);
    receiver.status = 200;
    await server.request(`/v1/webhooks/${id}`, { method: 'DELETE' });
  });

  it('receive a delivery again on request, with the same id and a new signature', async () => {
    const { id, secret } = await hook('/repeated', ['run.ended']);
    const run = await startRun(server, { input: 'say 1' });
    await run.reader.rest();
    const delivered = async (attempts: number) =>
      until(async () => {
        const [found] = await deliveriesOf(id);
        const received = receiver.deliveries.filter(({ path }) => path === '/repeated');
        return found?.['status'] === 'delivered' && received.length === attempts && received;
      }, `delivery ${attempts}`);
    const [first] = await delivered(1);
    const deliveryId = `run.ended:${run.runId}`;
    const path = `/v1/webhooks/${id}/deliveries/${encodeURIComponent(deliveryId)}/redeliver`;
    const response = await server.request(path, { method: 'POST' });
    expect(response.status).toBe(202);
    const answer = (await response.json()) as Record<string, unknown>;
    expect(answer).toMatchObject({ id: deliveryId, status: 'pending', attempts: 0 });
    expect(answer['lastStatus']).toBeUndefined();
    const [, second] = await delivered(2);
    expect(second?.body).toBe(first?.body);
    expect(second?.headers['webhook-id']).toBe(first?.headers['webhook-id']);
    const headers = second?.headers as Record<string, string>;
    expect(new Webhook(secret).verify(second?.body ?? '', headers)).toEqual(second?.json);
    expect((await deliveriesOf(id))[0]).toMatchObject({ attempts: 1, lastStatus: 200 });
    const unknown = `/v1/webhooks/${id}/deliveries/run.ended:unknown/redeliver`;
    expect((await server.request(unknown, { method: 'POST' })).status).toBe(404);
    const { entries } = (await server.json('/v1/audit?action=webhook.redelivered')) as {
      entries: object[];
    };
    expect(entries).toMatchObject([{ what: { webhookId: id, deliveryId } }]);
    await server.request(`/v1/webhooks/${id}`, { method: 'DELETE' });
    expect((await server.request(path, { method: 'POST' })).status).toBe(404);
  });

  it('receive a decision link only if their creator may approve', async () => {
    const { apiKey } = await addKey(server.store, { scopes: ['admin'] });
    await hook('/plain', ['approval.requested'], apiKey);
    const run = await startRun(server, { input: 'notify x' });
    await run.reader.until('approval_requested');
    const raised = await until(
      () => receiver.at('/plain', 'approval.requested'),
      'approval.requested',
    );
    expect(raised.json['decisionUrl']).toBeUndefined();
    await server.request(`/v1/runs/${run.runId}/cancel`, { method: 'POST' });
    await run.reader.rest();
  });

  it('cannot have a private URL', async () => {
    for (const url of [
      'http://10.0.0.1/',
      'https://169.254.169.254/x',
      'https://[::1]/',
      'http://u:p@127.0.0.1/',
    ]) {
      const response = await server.request('/v1/webhooks', { body: { url, events: all } });
      expect(response.status).toBe(400);
      expect(await response.json()).toMatchObject({ code: 'base_url_refused' });
    }
    for (const body of [
      { url: 'ftp://x/', events: all },
      { url: base, events: [] },
      { url: base, events: ['x'] },
    ]) {
      expect((await server.request('/v1/webhooks', { body })).status).toBe(400);
    }
  });

  it('belong to one tenant, and can be deleted', async () => {
    const { apiKey: key } = await addKey(server.store, { tenant: `other` });
    const { id } = await hook('/other', ['run.ended'], key);
    const run = await startRun(server, { input: 'say 1' });
    await run.reader.rest();
    await until(
      () =>
        receiver.deliveries.some(
          ({ path, json }) => path === '/ends' && json['id'] === `run.ended:${run.runId}`,
        ),
      'the own one',
    );
    expect(receiver.deliveries.some(({ path }) => path === '/other')).toBe(false);
    for (const _ of [1, 2]) {
      const deleted = await server.request(`/v1/webhooks/${id}`, { method: 'DELETE', key });
      expect(deleted.status).toBe(204);
    }
    expect(await server.json('/v1/webhooks', { key })).toEqual({ webhooks: [], nextCursor: null });
    expect((await server.request(`/v1/webhooks/${id}/deliveries`, { key })).status).toBe(404);
    const { entries } = (await server.json('/v1/audit', { key })) as { entries: object[] };
    expect(entries).toMatchObject([
      { action: 'webhook.deleted', what: { webhookId: id } },
      { action: 'webhook.created', what: { webhookId: id, origin: base, events: ['run.ended'] } },
    ]);
  });
});
