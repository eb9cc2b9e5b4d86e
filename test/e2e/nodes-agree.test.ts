/**
 * Three real servers on one PostgreSQL: what one has acknowledged holds on the others. Most of it at the
 * very next request, because it is read where it is used; keys and pauses, which nodes remember, within
 * a second.
 */
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { until } from '../support/kernel.ts';
import { Nodes } from '../support/nodes.ts';
import type { TestServer } from '../support/server.ts';

let nodes: Nodes;
beforeAll(async () => {
  nodes = await Nodes.start({ env: { RELAY_PRIVATE_NETWORKS: '127.0.0.0/8' } });
}, 60_000);
afterAll(() => nodes.dispose(), 60_000);

const three = () => [nodes.node(0), nodes.node(1), nodes.node(2)] as const;
/** What a test has set, the next one does not find. */
afterEach(async () => {
  const body = { paused: false, budgets: {} };
  await nodes.request(nodes.node(0), '/v1/tenant', { method: 'PUT', body });
});

/** How a note is taken: sent at once, asked about, or refused. */
async function fateOfNote(node: TestServer, text: string): Promise<string> {
  const before = nodes.notes.length;
  const { runId, reader } = await nodes.run(node, `notify ${text}`);
  const approval = await reader.until('approval_requested').catch(() => undefined);
  if (approval !== undefined) {
    await nodes.approve(node, approval.data['id'], { approved: false });
    await reader.rest();
    return 'asked';
  }
  const events = await nodes.journal(node, runId);
  const denied = events.some(({ type }) => type === 'tool.denied');
  return denied ? 'denied' : nodes.notes.length > before ? 'sent' : 'lost';
}

describe('what one node has acknowledged holds at the next request on another', () => {
  test('a grant, and that it is revoked', async () => {
    const [a, b, c] = three();
    expect(await fateOfNote(b, 'one')).toBe('asked');
    const grant = await nodes.json<{ id: string }>(a, '/v1/grants', {
      body: { tool: 'send_note', scope: 'tenant' },
    });
    expect(await fateOfNote(b, 'two')).toBe('sent');
    expect(await fateOfNote(c, 'three')).toBe('sent');
    const revoked = await nodes.request(c, `/v1/grants/${grant.id}`, { method: 'DELETE' });
    expect(revoked.ok).toBe(true);
    expect(await fateOfNote(b, 'four')).toBe('asked');
    expect(await fateOfNote(a, 'five')).toBe('asked');
    expect(nodes.notes.map(({ text }) => text)).toEqual(['two', 'three']);
  });

  test('a policy, and the next one', async () => {
    const [a, b, c] = three();
    const put = (node: TestServer, body: object) =>
      nodes.request(node, '/v1/policy', { method: 'PUT', body });
    expect((await put(a, { deny: [{ tool: 'send_note' }], version: 0 })).status).toBe(200);
    expect(await fateOfNote(b, 'policy one')).toBe('denied');
    expect((await put(b, { ask: [{ tool: 'send_note' }], version: 0 })).status).toBe(409);
    expect((await put(c, { ask: [{ tool: 'send_note' }], version: 1 })).status).toBe(200);
    expect(await fateOfNote(a, 'policy two')).toBe('asked');
    expect(await fateOfNote(b, 'policy three')).toBe('asked');
    expect(nodes.notes.filter(({ text }) => text.startsWith('policy'))).toEqual([]);
  });

  test('a budget, and that it is used up by what ran elsewhere', async () => {
    const [a, b, c] = three();
    const set = await nodes.request(a, '/v1/tenant', {
      method: 'PUT',
      body: { budgets: { tenant: { tokens: 40 } } },
    });
    expect(set.status).toBe(200);
    let refused = '';
    for (let n = 0; n < 20 && refused === ''; n += 1) {
      const node = [b, c][n % 2] ?? b;
      const response = await nodes.request(node, '/v1/runs', {
        body: { model: 'demo', input: 'say 5' },
      });
      const said = await response.text();
      if (!response.ok) refused = said;
    }
    expect(refused).toContain('budget_exceeded');
    const options = { body: { model: 'demo', input: 'say 5' } };
    for (const node of [a, b, c]) {
      expect(await nodes.json(node, '/v1/runs', options)).toMatchObject({
        code: 'budget_exceeded',
      });
    }
  });
});

describe('caches of other nodes are invalidated within a second', () => {
  // The bound is what is promised; a machine that is busy with other tests needs a second chance.
  const promptly = { timeout: 1_000, interval: 20 };

  test('a key that was revoked, on a node that has just let it in', { retry: 2 }, async () => {
    const [a, b, c] = three();
    const key = await nodes.json<{ id: string; apiKey: string }>(a, '/v1/keys', {
      body: { name: 'ci', scopes: ['runs'] },
    });
    const headers = { authorization: `Bearer ${key.apiKey}` };
    const statusOn = async (node: TestServer) =>
      (await nodes.request(node, '/v1/runs', { headers })).status;
    for (const node of [a, b, c]) expect(await statusOn(node)).toBe(200);
    await nodes.request(a, `/v1/keys/${key.id}`, { method: 'DELETE' });
    for (const node of [b, c]) await expect.poll(() => statusOn(node), promptly).toBe(401);
  });

  test('that a tenant may run, and that it may not', { retry: 2 }, async () => {
    const [a, b, c] = three();
    const pause = (paused: boolean) =>
      nodes.request(a, '/v1/tenant', { method: 'PUT', body: { paused } });
    const { runId, reader } = await nodes.run(b, 'slow 60000');
    await reader.until('token');
    expect((await pause(true)).status).toBe(200);
    const holder = async () =>
      (await nodes.database.sql('SELECT lease_owner FROM runs WHERE id = $1', [runId]))[0];
    await expect.poll(holder, promptly).toEqual({ lease_owner: null });
    const options = { body: { model: 'demo', input: 'say 1' } };
    expect((await nodes.request(c, '/v1/runs', options)).status).toBe(409);
    expect((await pause(false)).status).toBe(200);
    const status = async () => {
      const response = await nodes.request(c, '/v1/runs', options);
      await response.text();
      return response.status;
    };
    await expect.poll(status, promptly).toBe(200);
    await nodes.request(c, `/v1/runs/${runId}/cancel`, { method: 'POST' });
    // Its end would be a delivery of the next test's webhook.
    await reader.rest();
  });
});

describe('a webhook', () => {
  /** The receiver of a webhook; it can reject the first attempt of each delivery. */
  class Receiver {
    readonly received: { id: string; status: number }[] = [];
    readonly #server: Server;

    constructor(refuses: (id: string) => boolean) {
      this.#server = createServer((request, response) => {
        request.resume().on('end', () => {
          const id = String(request.headers['relay-delivery']);
          const isFirst = !this.received.some((each) => each.id === id);
          const status = isFirst && refuses(id) ? 503 : 200;
          this.received.push({ id, status });
          response.writeHead(status).end();
        });
      });
    }

    async listen(): Promise<string> {
      await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve));
      return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/`;
    }

    close(): void {
      this.#server.closeAllConnections();
      this.#server.close();
    }
  }

  test('that was registered on one node receives one delivery per run, whichever node sends it', async () => {
    const [a, b, c] = three();
    let refused: string | undefined;
    const receiver = new Receiver((id) => (refused ??= id) === id);
    try {
      const url = await receiver.listen();
      const hook = await nodes.json<{ id: string }>(a, '/v1/webhooks', {
        body: { url, events: ['run.ended'] },
      });
      const runs = await Promise.all(
        Array.from({ length: 12 }, async (_, n) => {
          const { runId, reader } = await nodes.run([b, c, a][n % 3] ?? b, 'say 2');
          await reader.rest();
          return runId;
        }),
      );
      const path = `/v1/webhooks/${hook.id}/deliveries`;
      interface Delivery {
        readonly id: string;
        readonly status: string;
        readonly attempts: number;
      }
      let deliveries: Delivery[] = [];
      await until(async () => {
        ({ deliveries } = await nodes.json<{ deliveries: Delivery[] }>(c, path));
        return deliveries.length === 12 && deliveries.every(({ status }) => status === 'delivered');
      }, 'all deliveries');
      const taken = receiver.received.filter(({ status }) => status === 200).map(({ id }) => id);
      const expected = runs.map((runId) => `run.ended:${runId}`);
      expect(taken.toSorted()).toEqual(expected.toSorted());
      // What was refused came again under the same id, and nothing else did.
      const again = receiver.received.filter(({ status }) => status !== 200).map(({ id }) => id);
      expect(again).toEqual([refused]);
      expect(deliveries.filter(({ attempts }) => attempts !== 1)).toMatchObject([{ attempts: 2 }]);
    } finally {
      receiver.close();
    }
  }, 60_000);
});
