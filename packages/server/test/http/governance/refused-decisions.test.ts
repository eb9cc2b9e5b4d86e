/** A decision, grant or rule that is refused has an audit entry, whatever surface it came by. */
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { uuidv7 } from 'uuidv7';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startApiChat, startChat, startRun } from '../../support/requests.ts';
import { addKey, bootServer, type TestServer, until } from '../../support/server.ts';

type Json = Readonly<Record<string, unknown>>;

interface Entry {
  readonly action: string;
  readonly who: { readonly id: string; readonly name: string };
  readonly what: Json;
}

let server: TestServer;
let receiver: Server;
const links = new Map<string, string>();

/** One caller per test, so that its entries are its own. */
async function caller(scopes: readonly string[], groups: readonly string[] = []) {
  const { apiKey: key, keyId } = await addKey(server.store, { scopes, groups });
  return { key, keyId };
}

beforeAll(async () => {
  receiver = createServer((request, response) => {
    let body = '';
    request.on('data', (chunk: Buffer) => (body += chunk.toString()));
    request.on('end', () => {
      const sent = JSON.parse(body) as { approval: { id: string }; decisionUrl?: string };
      links.set(sent.approval.id, sent.decisionUrl ?? '');
      response.end();
    });
  });
  await new Promise<void>((resolve) => receiver.listen(0, '127.0.0.1', resolve));
  const { port } = receiver.address() as AddressInfo;
  const env = { RELAY_PRIVATE_NETWORKS: '127.0.0.0/8', RELAY_PUBLIC_URL: 'http://127.0.0.1:1' };
  server = await bootServer({ env });
  await server.json('/v1/webhooks', {
    body: { url: `http://127.0.0.1:${port}/`, events: ['approval.requested'] },
  });
  const approvers = [{ tool: 'send_note', groups: ['release'] }];
  const policy = { version: 0, approvers };
  expect((await server.request('/v1/policy', { method: 'PUT', body: policy })).status).toBe(200);
});

afterAll(async () => {
  await server.stop();
  receiver.closeAllConnections();
  receiver.close();
});

async function entriesBy(id: string): Promise<readonly Entry[]> {
  const { entries } = await server.json(`/v1/audit?actor=${id}`);
  return (entries as readonly Entry[]).filter(({ action }) => action.endsWith('.refused'));
}

/** Of a run that waits for an approval of `send_note`. */
async function waitingApproval(): Promise<{ runId: string; approvalId: string }> {
  const { runId, reader } = await startRun(server, { input: 'notify wait' });
  const { data } = await reader.until('approval_requested');
  await reader.disconnect();
  return { runId, approvalId: String(data['id']) };
}

/** Decides on each surface. */
const decisions: Readonly<Record<string, (key: string) => Promise<Response>>> = {
  'POST /v1/approvals/:id': async (key) => {
    const { approvalId } = await waitingApproval();
    return server.request(`/v1/approvals/${approvalId}`, { key, body: { approved: true } });
  },
  'POST /chat/relay/:relayId': async (key) => {
    const { sessionId, reader } = await startChat(server, 'notify wait');
    const { data } = await reader.until('relay');
    const body = { sessionId, response: { approved: true } };
    return server.request(`/chat/relay/${String(data['id'])}`, { key, body });
  },
  'POST /api/chat/tool-approval': async (key) => {
    const { runId, reader } = await startApiChat(server, 'notify wait');
    await reader.until('tool_approval_requested');
    const body = { runId, toolCallId: 'call_1', action: 'approve' };
    return server.request('/api/chat/tool-approval', { key, body });
  },
};

const grant = { tool: 'send_note', exact: { to: 'a', text: 'b' }, scope: 'tenant' };
const allow = { permissions: { allowlist: [{ tool: 'send_note' }] } };
const once = { permissions: { allowOnce: [{ tool: 'send_note' }] } };

describe('a refused decision', () => {
  it.each(Object.entries(decisions))(
    'by %s of a key without the scope approve has an entry',
    async (route, decide) => {
      const { key, keyId } = await caller(['runs']);
      expect((await decide(key)).status).toBe(403);
      const what = { route, code: 'scope_required', count: 1 };
      await expect
        .poll(() => entriesBy(keyId))
        .toMatchObject([{ action: 'decision.refused', who: { id: keyId }, what }]);
    },
  );

  it.each(Object.entries(decisions))(
    'by %s of a person whom the policy does not name has an entry',
    async (_route, decide) => {
      const { key, keyId } = await caller(['runs', 'approve']);
      const refused = await decide(key);
      expect(refused.status).toBe(403);
      expect(await refused.json()).toMatchObject({ code: 'not_an_approver' });
      const what = { tool: 'send_note', approvalId: expect.any(String), count: 1 };
      await expect
        .poll(() => entriesBy(keyId))
        .toMatchObject([{ action: 'approval.refused', who: { id: keyId }, what }]);
    },
  );

  it('by a decision link has an entry, and its repetitions have none of their own', async () => {
    const { approvalId } = await waitingApproval();
    const link = await until(() => links.get(approvalId), 'the link');
    const headers = { 'content-type': 'application/x-www-form-urlencoded' };
    for (let n = 0; n < 5; n += 1) {
      const body = 'approved=true';
      const path = new URL(link).pathname;
      expect((await server.request(path, { key: null, body, headers })).status).toBe(403);
    }
    const entries = async () =>
      ((await server.json('/v1/audit?action=approval.refused'))['entries'] as Entry[]).filter(
        ({ what }) => what['approvalId'] === approvalId,
      );
    await expect.poll(entries).toHaveLength(1);
    expect((await entries())[0]?.who.name).toMatch(/ \(link\)$/);
  });
});

interface Refused {
  readonly what: string;
  readonly scopes: readonly string[];
  readonly groups?: readonly string[];
  readonly code: string;
  readonly route: string;
  readonly send: (key: string) => Promise<Response>;
}

const message = { model: 'demo', messages: [{ role: 'user', content: 'say 1' }] };

const refused: readonly Refused[] = [
  {
    what: 'a grant without the scope approve',
    scopes: ['runs'],
    code: 'scope_required',
    route: 'POST /v1/grants',
    send: (key) => server.request('/v1/grants', { key, body: grant }),
  },
  {
    what: 'a grant of a call that others must approve',
    scopes: ['approve'],
    code: 'not_an_approver',
    route: 'POST /v1/grants',
    send: (key) => server.request('/v1/grants', { key, body: grant }),
  },
  {
    what: 'a grant of a whole tool without the scope admin',
    scopes: ['approve'],
    groups: ['release'],
    code: 'scope_required',
    route: 'POST /v1/grants',
    send: (key) =>
      server.request('/v1/grants', { key, body: { tool: 'send_note', scope: 'tenant' } }),
  },
  {
    what: 'the end of a grant without the scope approve',
    scopes: ['runs'],
    code: 'scope_required',
    route: 'DELETE /v1/grants/:id',
    send: (key) => server.request(`/v1/grants/${uuidv7()}`, { key, method: 'DELETE' }),
  },
  {
    what: 'an allow rule of a run',
    scopes: ['runs'],
    code: 'approve_scope_required',
    route: 'POST /v1/runs',
    send: (key) =>
      server.request('/v1/runs', { key, body: { model: 'demo', input: 'say 1', ...allow } }),
  },
  {
    what: 'a call that a run allows once',
    scopes: ['runs'],
    code: 'approve_scope_required',
    route: 'POST /v1/runs',
    send: (key) =>
      server.request('/v1/runs', { key, body: { model: 'demo', input: 'say 1', ...once } }),
  },
  {
    what: 'an allow rule of a fork',
    scopes: ['runs'],
    code: 'approve_scope_required',
    route: 'POST /v1/runs/:id/fork',
    send: async (key) => {
      const { runId, reader } = await startRun(server, { input: 'say 1' });
      await reader.rest();
      return server.request(`/v1/runs/${runId}/fork`, { key, body: { input: 'say 1', ...allow } });
    },
  },
  {
    what: 'an allow rule of /api/chat',
    scopes: ['runs'],
    code: 'approve_scope_required',
    route: 'POST /api/chat',
    send: (key) =>
      server.request('/api/chat', { key, body: { model: 'demo', message: 'say 1', ...allow } }),
  },
  {
    what: 'an allow rule of /chat',
    scopes: ['runs'],
    code: 'approve_scope_required',
    route: 'POST /chat',
    send: (key) => server.request('/chat', { key, body: { ...message, ...allow } }),
  },
  {
    what: 'a new allow rule of the policy',
    scopes: ['admin'],
    code: 'approve_scope_required',
    route: 'PUT /v1/policy',
    send: (key) =>
      server.request('/v1/policy', {
        key,
        method: 'PUT',
        body: { version: 1, allow: [{ tool: 'send_note' }] },
      }),
  },
];

describe('what would allow calls', () => {
  it.each(refused)(
    '$what is refused with an entry',
    async ({ scopes, groups, code, route, send }) => {
      const { key, keyId } = await caller(scopes, groups);
      const response = await send(key);
      expect([response.status, await response.json()]).toMatchObject([403, { code }]);
      await expect
        .poll(() => entriesBy(keyId))
        .toMatchObject([
          { action: 'decision.refused', who: { id: keyId }, what: { route, code, count: 1 } },
        ]);
    },
  );

  it('is refused to a caller without a key with an entry', async () => {
    const body = { ...message, ...allow };
    expect((await server.request('/chat', { key: null, body })).status).toBe(403);
    await expect
      .poll(() => entriesBy('local'))
      .toMatchObject([{ action: 'decision.refused', who: { id: 'local', type: 'system' } }]);
  });
});

it('A caller who invents ids does not fill the audit trail with refused decisions', async () => {
  const { key, keyId } = await caller(['runs']);
  for (let n = 0; n < 20; n += 1) {
    const body = { approved: true };
    expect((await server.request(`/v1/approvals/${uuidv7()}`, { key, body })).status).toBe(403);
  }
  await expect.poll(() => entriesBy(keyId)).toHaveLength(1);
  const { keyId: other } = await caller(['runs']);
  expect(await entriesBy(other)).toEqual([]);
});

it('A person who repeats a refused decision does not fill the audit trail', async () => {
  const { key, keyId } = await caller(['approve']);
  const { approvalId } = await waitingApproval();
  for (let n = 0; n < 10; n += 1) {
    const body = { approved: true };
    expect((await server.request(`/v1/approvals/${approvalId}`, { key, body })).status).toBe(403);
  }
  await expect.poll(() => entriesBy(keyId)).toHaveLength(1);
});
