/** `/v1/audit`: every action is recorded, without secrets. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { addKey, bootServer, type TestServer, type RequestOptions } from '../../support/server.ts';
import { startRun } from '../../support/requests.ts';

interface Entry {
  readonly id: string;
  readonly seq: number;
  readonly at: string;
  readonly action: string;
  readonly who: { readonly type: string; readonly id: string; readonly name: string };
  readonly what: Readonly<Record<string, unknown>>;
  readonly why?: string;
}

const canary = 'sk-canary-0123456789abcdef';

describe('the audit trail', () => {
  let server: TestServer;
  beforeAll(async () => {
    server = await bootServer();
  });
  afterAll(() => server.stop());

  async function list(query = '', options: RequestOptions = {}) {
    return (await server.json(`/v1/audit${query}`, options)) as {
      entries: Entry[];
      nextCursor: string | null;
    };
  }

  async function last(action: string): Promise<Entry | undefined> {
    return (await list(`?action=${action}&limit=1`)).entries[0];
  }

  async function answered(body: object) {
    const asked = await startRun(server, { input: `notify ${canary}` });
    const relay = await asked.reader.until('approval_requested');
    const id = String(relay.data['id']);
    const response = await server.request(`/v1/approvals/${id}`, { body });
    expect(response.status).toBe(200);
    await asked.reader.rest();
    return { runId: asked.runId, approvalId: id };
  }

  it('records a run and its decision: who, what and why, without content', async () => {
    const { runId, approvalId } = await answered({ approved: true, reason: 'Looks fine' });
    const { entries } = await list(`?runId=${runId}`);
    expect(entries.map(({ action }) => action)).toEqual(['approval.decided', 'run.started']);
    expect(entries[0]).toMatchObject({
      who: { type: 'key', name: 'key of default' },
      what: { runId, approvalId, tool: 'send_note', kind: 'permission', approved: true },
      why: 'Looks fine',
    });
    expect(entries[0]?.what['digest']).toMatch(/^[0-9a-f]{64}$/);
    expect(entries[1]).toMatchObject({
      who: { type: 'key' },
      what: { runId, agent: 'assistant', model: 'demo', surface: 'runs' },
    });
    expect(JSON.stringify(entries)).not.toContain(canary);
  });

  it('records a grant by a decision, and the rule that allowed a call', async () => {
    const { approvalId } = await answered({ approved: true, always: true, scope: 'tenant' });
    const made = await last('grant.created');
    expect(made?.what).toMatchObject({
      tool: 'send_note',
      scope: 'tenant',
      params: ['to', 'text'],
      approvalId,
    });
    expect(made?.what['runId']).toBe((await last('approval.decided'))?.what['runId']);
    expect((await last('approval.decided'))?.what['approvalId']).toBe(approvalId);
    const free = await startRun(server, { input: `notify ${canary}` });
    await free.reader.rest();
    const grantId = String(made?.what['grantId']);
    const { entries } = await list(`?actor=${grantId}`);
    expect(entries).toMatchObject([
      { action: 'call.allowed', who: { type: 'rule', id: grantId }, what: { runId: free.runId } },
    ]);
    const deleted = await server.request(`/v1/grants/${grantId}`, { method: 'DELETE' });
    expect(deleted.status).toBe(204);
    await server.request(`/v1/grants/${grantId}`, { method: 'DELETE' });
    const revoked = await list('?action=grant.revoked');
    expect(revoked.entries.map(({ what }) => what['grantId'])).toEqual([grantId]);
  });

  it('records the rule that denied a call', async () => {
    const denylist = [{ tool: 'send_note' }];
    const run = await startRun(server, { input: 'notify x', permissions: { denylist } });
    await run.reader.rest();
    expect(await last('call.denied')).toMatchObject({
      who: { type: 'rule', id: 'request.denylist[0]' },
      what: { runId: run.runId, tool: 'send_note', source: 'request', list: 'denylist', index: 0 },
    });
  });

  it('records a cancellation, and the approval that it closed', async () => {
    const run = await startRun(server, { input: 'notify x' });
    await run.reader.until('approval_requested');
    await server.request(`/v1/runs/${run.runId}/cancel`, { method: 'POST' });
    await run.reader.rest();
    const { entries } = await list(`?runId=${run.runId}`);
    expect(entries.map(({ action, who }) => [action, who.type])).toEqual([
      ['approval.closed', 'system'],
      ['run.canceled', 'key'],
      ['run.started', 'key'],
    ]);
    expect(entries[0]?.what).toMatchObject({ tool: 'send_note', kind: 'permission' });
  });

  it('records keys, credentials, budgets and pauses once, without secrets', async () => {
    const made = await server.json('/v1/keys', { body: { name: 'ci', scopes: ['runs'] } });
    const keyId = String(made['id']);
    await server.request(`/v1/keys/${keyId}`, { method: 'DELETE' });
    await server.request(`/v1/keys/${keyId}`, { method: 'DELETE' });
    const put = { apiKey: canary, baseUrl: 'https://models.example/secret-path' };
    await server.request('/v1/credentials/openai', { method: 'PUT', body: put });
    for (const _ of [1, 2]) await server.request('/v1/credentials/openai', { method: 'DELETE' });
    await server.request('/v1/tenant', { method: 'PUT', body: { paused: true } });
    const budgets = { tenant: { tokens: 1_000_000 } };
    await server.request('/v1/tenant', { method: 'PUT', body: { paused: false, budgets } });
    const { entries } = await list('?limit=7');
    expect(entries.map(({ action }) => action).toSorted()).toEqual(
      [
        'credential.deleted',
        'credential.put',
        'key.created',
        'key.revoked',
        'tenant.budgets-changed',
        'tenant.paused',
        'tenant.resumed',
      ].toSorted(),
    );
    expect(entries.find(({ action }) => action === 'key.created')?.what).toMatchObject({
      keyId,
      name: 'ci',
      scopes: ['runs'],
    });
    const factsOf = (wanted: string) => entries.find(({ action }) => action === wanted)?.what;
    expect(factsOf('credential.put')).toMatchObject({ origin: 'https://models.example' });
    expect(factsOf('tenant.budgets-changed')).toMatchObject({ 'tenant.tokens': 1_000_000 });
    const shown = JSON.stringify(await list('?limit=200'));
    expect(shown).not.toContain('secret-path');
    expect(shown).not.toContain(canary);
    expect(shown).not.toContain(String(made['apiKey']));
  });

  it('is paginated, and its seq has no gaps', async () => {
    const whole = await list('?limit=200');
    const paged: Entry[] = [];
    for (let cursor: string | null = ''; cursor !== null;) {
      const next: Awaited<ReturnType<typeof list>> = await list(
        `?limit=3${cursor === '' ? '' : `&cursor=${cursor}`}`,
      );
      paged.push(...next.entries);
      cursor = next.nextCursor;
    }
    expect(paged).toEqual(whole.entries);
    const places = whole.entries.map(({ seq }) => seq).toSorted((a, b) => a - b);
    expect(places).toEqual(places.map((_, n) => n + 1));
    const [first] = whole.entries;
    const later = await list(`?since=${new Date(Date.parse(first?.at ?? '') + 1).toISOString()}`);
    expect(later.entries).toEqual([]);
    for (const query of ['?action=nothing', '?since=yesterday', '?cursor=x', '?runId=x', '?x=1']) {
      expect((await server.request(`/v1/audit${query}`)).status).toBe(400);
    }
  });

  it('has a head that can be verified later', async () => {
    const head = await server.json('/v1/audit/head');
    expect(head).toMatchObject({ seq: expect.any(Number), sealedAt: expect.any(String) });
    await server.json('/v1/keys', { body: { name: 'later', scopes: ['runs'] } });
    const verdict = await server.json(
      `/v1/audit/verify?seq=${String(head['seq'])}&hash=${String(head['hash'])}`,
    );
    expect(verdict).toMatchObject({ ok: true, entries: Number(head['seq']) + 1 });
    const other = await server.json(`/v1/audit/verify?seq=1&hash=${'0'.repeat(64)}`);
    expect(other).toMatchObject({ ok: false, firstBad: { seq: 1 } });
    for (const query of ['?seq=1', `?hash=${'0'.repeat(64)}`, '?seq=0&hash=x', '?seq=-1']) {
      expect((await server.request(`/v1/audit/verify${query}`)).status).toBe(400);
    }
  });

  it('belongs to one tenant', async () => {
    const { apiKey: key } = await addKey(server.store, { tenant: `other` });
    expect(await list('', { key })).toEqual({ entries: [], nextCursor: null });
    await server.json('/v1/keys', { key, body: { name: 'theirs', scopes: ['runs'] } });
    const { entries } = await list('', { key });
    expect(entries).toMatchObject([{ seq: 1, action: 'key.created', what: { name: 'theirs' } }]);
    expect(JSON.stringify(await list('?limit=200'))).not.toContain('theirs');
    expect(await server.json('/v1/audit/verify', { key })).toMatchObject({ ok: true, entries: 1 });
  });
});
