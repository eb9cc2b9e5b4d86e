/** `/decide/:token`: one approval, one decision, and none by opening the link. */
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  addKey,
  bootServer,
  type TestServer,
  until,
  type RequestOptions,
} from '../../support/server.ts';
import { startRun, untilStatus } from '../../support/requests.ts';

describe('a decision link', () => {
  let server: TestServer;
  let receiver: Server;
  const links = new Map<string, string>();
  let keyId: string;

  beforeAll(async () => {
    receiver = createServer((request, response) => {
      let body = '';
      request.on('data', (chunk: Buffer) => (body += chunk.toString()));
      request.on('end', () => {
        const payload = JSON.parse(body) as { approval: { id: string }; decisionUrl?: string };
        links.set(payload.approval.id, payload.decisionUrl ?? '');
        response.end();
      });
    });
    await new Promise<void>((resolve) => receiver.listen(0, '127.0.0.1', resolve));
    const { port } = receiver.address() as AddressInfo;
    const env = { RELAY_PRIVATE_NETWORKS: '127.0.0.0/8', RELAY_PUBLIC_URL: 'http://127.0.0.1:1' };
    server = await bootServer({ env });
    const maker = await addKey(server.store, {});
    keyId = maker.keyId;
    await server.json('/v1/webhooks', {
      key: maker.apiKey,
      body: { url: `http://127.0.0.1:${port}/`, events: ['approval.requested'] },
    });
  });
  afterAll(async () => {
    await server.stop();
    receiver.closeAllConnections();
    receiver.close();
  });

  async function asked(input: string) {
    const run = await startRun(server, { input });
    const relay = await run.reader.until('approval_requested');
    const approvalId = String(relay.data['id']);
    const url = await until(() => links.get(approvalId), 'the link');
    return { run, approvalId, path: new URL(url).pathname };
  }

  const form = { 'content-type': 'application/x-www-form-urlencoded' };
  const post = (path: string, body: string, options: RequestOptions = {}) =>
    server.request(path, { key: null, body, ...options, headers: { ...form, ...options.headers } });

  it('shows the call, and decides nothing when it is opened', async () => {
    const { run, approvalId, path } = await asked('notify <script>alert(1)</script> \u202e evil');
    for (let n = 0; n < 3; n += 1) {
      const response = await server.request(path, { key: null });
      expect(response.status).toBe(200);
      const html = await response.text();
      expect(html).not.toContain('<script');
      expect(html).toContain('&#60;script&#62;alert(1)');
      expect(html).toContain('\\u{202e}');
      expect(html).toContain('such as a right-to-left override');
      expect(html.match(/<form method="post">/g)).toHaveLength(2);
      const headers = Object.fromEntries(response.headers);
      expect(headers).toMatchObject({
        'referrer-policy': 'no-referrer',
        'cache-control': 'no-store',
        'x-frame-options': 'DENY',
      });
      expect(headers['content-security-policy']).toMatch(/^default-src 'none'; style-src 'sha256-/);
      expect(headers['content-security-policy']).toContain("form-action 'self'");
      expect(headers['content-security-policy']).not.toMatch(/script|unsafe|\*/);
    }
    expect(await server.json(`/v1/approvals/${approvalId}`)).toMatchObject({ status: 'pending' });
    const denied = await post(path, 'approved=false');
    expect(denied.status).toBe(200);
    await run.reader.rest();
    expect(server.notes().filter((line) => line.includes('evil'))).toEqual([]);
  });

  it('decides once: a repetition succeeds, a contradiction is 409', async () => {
    const { run, approvalId, path } = await asked('notify by link');
    const answers = await Promise.all(
      Array.from({ length: 10 }, () => post(path, 'approved=true')),
    );
    expect(answers.map(({ status }) => status)).toEqual(Array(10).fill(200));
    expect(await answers[0]?.text()).toContain('This request is approved');
    await run.reader.rest();
    expect(server.notes().filter((line) => line.includes('by link'))).toHaveLength(1);
    const late = await post(path, 'approved=false');
    expect(late.status).toBe(409);
    const shown = await (await server.request(path, { key: null })).text();
    expect(shown).toContain('This request is approved');
    expect(shown).not.toContain('<form');
    expect(await server.json(`/v1/approvals/${approvalId}`)).toMatchObject({
      status: 'approved',
      decidedBy: { type: 'key', id: keyId, name: 'key of default (link)' },
    });
    const { entries } = (await server.json(`/v1/audit?runId=${run.runId}`)) as {
      entries: { action: string; who: object }[];
    };
    expect(entries.filter(({ action }) => action === 'approval.decided')).toMatchObject([
      { who: { name: 'key of default (link)' } },
    ]);
  });

  it('passes the reason of a denial to the agent', async () => {
    const { run, approvalId, path } = await asked('notify with a reason');
    const body = (reason: string) => new URLSearchParams({ approved: 'false', reason }).toString();
    expect((await post(path, body('x'.repeat(501)))).status).toBe(400);
    expect((await post(path, body('x'.repeat(10_000)))).status).toBe(413);
    expect(await server.json(`/v1/approvals/${approvalId}`)).toMatchObject({ status: 'pending' });
    const reason = 'Nicht am Freitag & nicht <b>so</b> 🙅'.padEnd(500, '字');
    expect((await post(path, body(` ${reason} `))).status).toBe(200);
    expect(await server.json(`/v1/approvals/${approvalId}`)).toMatchObject({
      status: 'denied',
      reason,
    });
    await run.reader.rest();
    expect(await server.json(`/v1/runs/${run.runId}`)).toMatchObject({
      output: expect.stringContaining('Nicht am Freitag'),
    });
    // The reason of an approval and an empty reason are ignored.
    const other = await asked('notify without a reason');
    expect((await post(other.path, 'approved=false&reason=++')).status).toBe(200);
    expect(await server.json(`/v1/approvals/${other.approvalId}`)).not.toHaveProperty('reason');
    await other.run.reader.rest();
  });

  it('is invalid if it is changed, or for another approval', async () => {
    const [one, two] = [await asked('notify one'), await asked('notify two')];
    const token = one.path.slice('/decide/'.length);
    const [approvalId, webhookId, proof] = token.split('.') as [string, string, string];
    const flipped = `${proof.startsWith('A') ? 'B' : 'A'}${proof.slice(1)}`;
    const wrong = [
      `${approvalId}.${webhookId}.${flipped}`,
      `${two.approvalId}.${webhookId}.${proof}`,
      `${approvalId}.${approvalId}.${proof}`,
      `${approvalId}.${webhookId}.`,
      `${approvalId}.${webhookId}`,
      `${token}.x`,
      'x',
    ];
    for (const each of wrong) {
      const shown = await server.request(`/decide/${each}`, { key: null });
      expect(shown.status).toBe(404);
      expect(await shown.json()).toEqual({ error: 'No such path', code: 'not_found' });
      expect((await post(`/decide/${each}`, 'approved=true')).status).toBe(404);
    }
    for (const { run } of [one, two]) {
      await untilStatus(server, run.runId, 'waiting');
      await server.request(`/v1/runs/${run.runId}/cancel`, { method: 'POST' });
      await run.reader.rest();
    }
    const over = await post(one.path, 'approved=true');
    expect(over.status).toBe(409);
    expect(await over.text()).toContain('This request is closed');
    expect(server.notes().some((line) => /one|two/.test(line))).toBe(false);
  });

  it('accepts an unambiguous answer from its own page only', async () => {
    const { run, approvalId, path } = await asked('notify careful');
    for (const body of [
      '',
      'approved=',
      'approved=yes',
      'approved=true&approved=false',
      'x=true',
    ]) {
      expect((await post(path, body)).status).toBe(400);
    }
    const json = { 'content-type': 'application/json' };
    expect((await post(path, '{"approved":true}', { headers: json })).status).toBe(415);
    for (const site of ['cross-site', 'same-site']) {
      const response = await post(path, 'approved=true', { headers: { 'sec-fetch-site': site } });
      expect(response.status).toBe(403);
    }
    expect(await server.json(`/v1/approvals/${approvalId}`)).toMatchObject({ status: 'pending' });
    // A page that sends no referrer sends the origin null.
    const own = { 'sec-fetch-site': 'same-origin', origin: 'null' };
    expect((await post(path, 'approved=false', { headers: own })).status).toBe(200);
    await run.reader.rest();
    // No other route accepts a form.
    const elsewhere = await server.request('/v1/runs', { body: 'a=b', headers: form });
    expect(elsewhere.status).toBe(415);
  });

  it('reports errors as a page to browsers and as JSON to programs', async () => {
    const { run, approvalId, path } = await asked('notify refused by policy');
    const accept = { accept: 'text/html,application/xhtml+xml' };
    const nowhere = await server.request('/decide/x', { key: null, headers: accept });
    expect(nowhere.status).toBe(404);
    expect(nowhere.headers.get('content-type')).toBe('text/html; charset=utf-8');
    expect(nowhere.headers.get('content-security-policy')).toContain("default-src 'none'");
    expect(await nowhere.text()).toContain('Link not found');
    const { version } = await server.json('/v1/policy');
    const policy = { version, deny: [{ tool: 'send_note' }] };
    const changed = await server.request('/v1/policy', { method: 'PUT', body: policy });
    expect(changed.status).toBe(200);
    const refused = await post(path, 'approved=true', { headers: accept });
    expect(refused.status).toBe(403);
    expect(await refused.text()).toMatch(/not recorded.*of the policy denies the call/s);
    const plain = await post(path, 'approved=true');
    expect(await plain.json()).toMatchObject({ code: 'denied_by_rule' });
    expect(await server.json(`/v1/approvals/${approvalId}`)).toMatchObject({ status: 'pending' });
    const { version: now } = await server.json('/v1/policy');
    await server.request('/v1/policy', { method: 'PUT', body: { version: now } });
    expect((await post(path, 'approved=false')).status).toBe(200);
    await run.reader.rest();
  });

  it('accepts one of fifty concurrent decisions', async () => {
    const { run, approvalId, path } = await asked('notify fifty');
    const answers = await Promise.all(
      Array.from({ length: 50 }, (_, n) => post(path, `approved=${n % 2 === 0}`)),
    );
    const { status } = await server.json(`/v1/approvals/${approvalId}`);
    const lost = answers.filter((answer) => answer.status === 409);
    expect(lost).toHaveLength(25);
    for (const answer of answers) {
      expect(await answer.text()).toContain(`This request is ${String(status)}`);
    }
    await run.reader.rest();
    const notes = server.notes().filter((line) => line.includes('fifty'));
    expect(notes).toHaveLength(status === 'approved' ? 1 : 0);
    const { entries } = (await server.json(`/v1/audit?runId=${run.runId}`)) as {
      entries: { action: string }[];
    };
    expect(entries.filter(({ action }) => action === 'approval.decided')).toHaveLength(1);
  });

  it('cannot decide where the policy names approvers, and says who can', async () => {
    const setApprovers = async (...approvers: readonly unknown[]) => {
      const { version } = await server.json('/v1/policy');
      await server.json('/v1/policy', { method: 'PUT', body: { version, approvers } });
    };
    for (const rule of [{ quorum: 2 }, { roles: ['admin'] }, { notRequester: true }]) {
      await setApprovers({ tool: 'send_note', ...rule });
      const { run, approvalId, path } = await asked(`notify ${JSON.stringify(rule)}`);
      if ('quorum' in rule) {
        await server.json(`/v1/approvals/${approvalId}`, { body: { approved: true } });
      }
      const html = await (await server.request(path, { key: null })).text();
      expect(html).toContain('This link cannot decide: the policy demands');
      expect(html.includes('1 of 2 approvals')).toBe('quorum' in rule);
      expect(html).not.toContain('<form');
      for (const approved of [true, false]) {
        const refused = await post(path, `approved=${approved}`);
        expect(refused.status).toBe(403);
        expect(await refused.text()).toContain('the policy demands');
      }
      expect(await server.json(`/v1/approvals/${approvalId}`)).toMatchObject({ status: 'pending' });
      await server.request(`/v1/runs/${run.runId}/cancel`, { method: 'POST' });
      await run.reader.rest();
    }
    // Any approver will do.
    await setApprovers({ tool: 'send_note' });
    const { run, path } = await asked('notify anyone');
    expect((await post(path, 'approved=true')).status).toBe(200);
    await run.reader.rest();
    await setApprovers();
  });

  it('is invalid once the key that created the webhook is revoked', async () => {
    const { run, path } = await asked('notify revoked');
    expect((await server.request(path, { key: null })).status).toBe(200);
    await server.request(`/v1/keys/${keyId}`, { method: 'DELETE' });
    expect((await server.request(path, { key: null })).status).toBe(404);
    expect((await post(path, 'approved=true')).status).toBe(404);
    await server.request(`/v1/runs/${run.runId}/cancel`, { method: 'POST' });
    await run.reader.rest();
  });
});
