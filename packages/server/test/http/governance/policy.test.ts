/** `/v1/policy`: versions, conflicts and previews. */
import { scopesOfRole } from '@relay/protocol';
import { defineTool } from '@relay/tools';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { addKey, bootServer, type TestServer } from '../../support/server.ts';
import { startRun } from '../../support/requests.ts';

const note = { tool: 'send_note' };
const toEve = { tool: 'send_note', params: { to: 'eve' } };

/** Demands a person for each call by its paths. */
const guarded = defineTool({
  name: 'guarded',
  description: 'Changes a file',
  schema: z.object({}),
  resolvePaths: async () => ({ ok: true, needsApproval: 'programs run it' }),
  execute: () => ({}),
});

describe('a policy', () => {
  let server: TestServer;
  beforeAll(async () => {
    server = await bootServer({ file: { tools: [guarded] } });
  });
  afterAll(() => server.stop());

  const put = (body: object, headers: Record<string, string> = {}) =>
    server.request('/v1/policy', { method: 'PUT', body, headers });

  async function current(): Promise<number> {
    return Number((await server.json('/v1/policy'))['version']);
  }

  /** Replaces the policy, whatever its version. */
  async function set(rules: object): Promise<void> {
    expect((await put({ ...rules, version: await current() })).status).toBe(200);
  }

  it('is empty at first, with version 0', async () => {
    const response = await server.request('/v1/policy?agent=nobody');
    expect(response.headers.get('etag')).toBe('"0"');
    expect(await response.json()).toEqual({
      agent: 'nobody',
      version: 0,
      allow: [],
      deny: [],
      ask: [],
      approvers: [],
    });
  });

  it('is replaced with the current version, in the body or as If-Match', async () => {
    const first = await put({ deny: [toEve], version: 0 });
    expect(first.status).toBe(200);
    expect(await first.json()).toMatchObject({
      version: 1,
      deny: [toEve],
      updatedBy: { type: 'key', name: 'key of default' },
      updatedAt: expect.any(String),
    });
    for (const late of [put({ version: 0 }), put({}, { 'if-match': '"0"' }), put({ version: 7 })]) {
      const response = await late;
      expect(response.status).toBe(409);
      expect(await response.json()).toMatchObject({ code: 'policy_conflict' });
    }
    const second = await put({ ask: [note] }, { 'if-match': '"1"' });
    expect(await second.json()).toMatchObject({ version: 2, deny: [], ask: [note] });
    for (const [body, headers] of [
      [{}, {}],
      [{}, { 'if-match': '*' }],
      [{ version: 2 }, { 'if-match': '"1"' }],
      [{ version: -1 }, {}],
    ] as [object, Record<string, string>][]) {
      expect((await put(body, headers)).status).toBe(400);
    }
    const { versions } = (await server.json('/v1/policy/versions')) as { versions: object[] };
    expect(versions).toMatchObject([{ version: 2 }, { version: 1, deny: [toEve] }]);
    const paged = await server.json('/v1/policy/versions?limit=1');
    expect(
      await server.json(`/v1/policy/versions?cursor=${String(paged['nextCursor'])}`),
    ).toMatchObject({ versions: [{ version: 1 }], nextCursor: null });
    const { entries } = (await server.json('/v1/audit?action=policy.changed')) as {
      entries: { what: unknown }[];
    };
    expect(entries.map(({ what }) => what)).toEqual([
      { agent: null, version: 2, allow: 0, deny: 0, ask: 1, approvers: 0 },
      { agent: null, version: 1, allow: 0, deny: 1, ask: 0, approvers: 0 },
    ]);
  });

  it('takes new allow rules only from a key with the scope approve', async () => {
    await set({ allow: [toEve] });
    const { apiKey: key } = await addKey(server.store, { scopes: scopesOfRole.admin });
    const as = async (rules: object) =>
      server.request('/v1/policy', {
        method: 'PUT',
        key,
        body: { ...rules, version: await current() },
      });
    const refused = await as({ allow: [toEve, note] });
    expect(refused.status).toBe(403);
    expect(await refused.json()).toMatchObject({
      code: 'approve_scope_required',
      details: [{ path: 'allow[1]' }],
    });
    expect((await as({ allow: [toEve], deny: [note] })).status).toBe(200);
    expect((await as({})).status).toBe(200);
    expect((await as({ allow: [toEve] })).status).toBe(403);
  });

  it('refuses malformed patterns', async () => {
    for (const [list, path] of [
      ['allow', 'allow[0].params.to'],
      ['deny', 'deny[0].params.to'],
      ['ask', 'ask[0].params.to'],
    ] as const) {
      const bad = [{ tool: 'send_note', params: { to: '!x' } }];
      const response = await put({ [list]: bad, version: await current() });
      expect(response.status).toBe(400);
      expect(await response.json()).toMatchObject({
        code: 'invalid_pattern',
        details: [{ path }],
      });
    }
  });

  it('refuses a pattern as the tool of a rule, when it is written and when it is previewed', async () => {
    for (const list of ['allow', 'deny', 'ask'] as const) {
      const body = { [list]: [{ tool: 'send_note' }, { tool: '*' }], version: await current() };
      const { version: _, ...draft } = body;
      for (const response of [
        await put(body),
        await server.request('/v1/policy/preview', { body: draft }),
      ]) {
        expect(response.status).toBe(400);
        expect(await response.json()).toMatchObject({
          code: 'invalid_pattern',
          details: [{ path: `${list}[1].tool`, message: expect.stringContaining('"*"') }],
        });
      }
    }
  });

  it('is named by explain', async () => {
    await set({ deny: [toEve], ask: [{ tool: 'calculator' }], allow: [note] });
    const version = await current();
    const explain = (tool: string, params: object) =>
      server.json('/v1/permissions/explain', { body: { tool, params } });
    expect(await explain('send_note', { to: 'eve', text: 'x' })).toEqual({
      decision: 'deny',
      rule: { list: 'deny', index: 0, source: 'policy', id: `*@${version}`, ...toEve },
      reason: 'Rule 1 of `deny` in the policy denies it.',
    });
    expect(await explain('calculator', { a: 1, b: 2, op: '+' })).toMatchObject({
      decision: 'ask',
      rule: { list: 'ask', source: 'policy', tool: 'calculator' },
      reason: 'Rule 1 of `ask` in the policy requires an approval.',
    });
    expect(await explain('send_note', { to: 'ada', text: 'x' })).toMatchObject({
      decision: 'allow',
      rule: { list: 'allow', source: 'policy' },
    });
  });

  it('decides what runs, also against rules of the request', async () => {
    await set({ ask: [note] });
    const permissions = { allowlist: [note] };
    const asked = await startRun(server, { input: 'notify x', permissions });
    const relay = await asked.reader.until('approval_requested');
    await set({ deny: [note] });
    const refused = await server.request(`/v1/approvals/${String(relay.data['id'])}`, {
      body: { approved: true },
    });
    expect(refused.status).toBe(403);
    expect(await refused.json()).toMatchObject({ code: 'denied_by_rule' });
    await set({});
    const approved = await server.request(`/v1/approvals/${String(relay.data['id'])}`, {
      body: { approved: true },
    });
    expect(approved.status).toBe(200);
    await asked.reader.rest();
  });

  it('can be previewed on the calls of the last week', async () => {
    await set({});
    const since = new Date().toISOString();
    const asked = await startRun(server, { input: 'notify asked' });
    const relay = await asked.reader.until('approval_requested');
    await server.request(`/v1/approvals/${String(relay.data['id'])}`, {
      body: { approved: false },
    });
    await asked.reader.rest();
    const allowed = await startRun(server, {
      input: 'notify allowed',
      permissions: { allowlist: [note] },
    });
    await allowed.reader.rest();
    const sum = await startRun(server, {
      input: 'calculate 2*3',
      tools: [{ name: 'calculator', kind: 'builtin' }],
    });
    await sum.reader.rest();
    const demanded = await startRun(server, {
      input: 'use guarded {}',
      tools: [{ name: 'guarded', kind: 'builtin' }],
      permissions: { allowlist: [{ tool: 'guarded' }] },
    });
    await demanded.reader.until('approval_requested');
    await demanded.reader.disconnect();
    const preview = (body: object) =>
      server.json('/v1/policy/preview', { body: { since, ...body } }) as Promise<{
        runs: number;
        calls: number;
        complete: boolean;
        changed: number;
        changes: { runId: string; was: string; now: string; tool: string; rule?: object }[];
      }>;
    const same = await preview({});
    expect(same).toMatchObject({ complete: true, changed: 0, changes: [] });
    expect(same.calls).toBe(4);
    const strict = await preview({ deny: [note], ask: [{ tool: 'calculator' }] });
    expect(strict.changes.find(({ runId }) => runId === allowed.runId)).toMatchObject({
      was: 'allow',
      now: 'deny',
      rule: { list: 'deny', source: 'policy', id: '*@draft' },
    });
    expect(strict.changes.find(({ runId }) => runId === sum.runId)).toMatchObject({
      tool: 'calculator',
      was: 'allow',
      now: 'ask',
    });
    const lax = await preview({ allow: [note] });
    expect(lax.changes).toMatchObject([{ runId: asked.runId, was: 'ask', now: 'allow' }]);
    const others = await preview({ deny: [note], agent: 'somebody else' });
    expect(others.changed).toBe(0);
    const future = new Date(Date.now() + 60_000).toISOString();
    expect(await preview({ deny: [note], since: future })).toMatchObject({ runs: 0, changed: 0 });
    // The preview changes nothing.
    expect(await server.json('/v1/policy')).toMatchObject({ deny: [], ask: [], allow: [] });
  });

  it('belongs to one tenant', async () => {
    await set({ deny: [note] });
    const { apiKey: key } = await addKey(server.store, { tenant: `other` });
    expect(await server.json('/v1/policy', { key })).toMatchObject({ version: 0, deny: [] });
    expect(await server.json('/v1/policy/versions', { key })).toEqual({
      versions: [],
      nextCursor: null,
    });
    expect(await server.json('/v1/policy/preview', { key, body: {} })).toMatchObject({ runs: 0 });
  });

  it('of an agent also binds the sub-agents that it starts', async () => {
    const { apiKey: key } = await addKey(server.store, {
      scopes: ['runs', 'approve'],
      owner: 'eve',
    });
    const own = { agent: 'assistant' };
    const setOwn = async (rules: object) => {
      const { version } = await server.json('/v1/policy?agent=assistant');
      expect((await put({ ...own, ...rules, version })).status).toBe(200);
    };
    await set({ allow: [note] });
    const tools = [note, { tool: 'agent' }].map(({ tool: name }) => ({ name, kind: 'builtin' }));
    const input = 'use agent {"prompt": "notify from below"}';
    const start = () => startRun(server, { input, tools }, { key });
    const sent = () => server.notes().filter((line) => line.includes('from below')).length;
    const asking = async () => {
      const { reader, runId } = await start();
      const { data } = await reader.until('approval_requested');
      const path = `/v1/approvals/${String(data['id'])}`;
      const answer = await server.request(path, { key, body: { approved: true } });
      await server.request(`/v1/runs/${runId}/cancel`, { method: 'POST' });
      await reader.rest();
      return answer.status;
    };

    await setOwn({ deny: [note] });
    await (await start()).reader.rest();
    expect(sent()).toBe(0);

    const approvers = [{ ...note, groups: ['release'] }];
    await setOwn({ ask: [note], approvers });
    expect(await asking()).toBe(403);
    await setOwn({ ask: [note] });
    await set({ approvers: [{ ...approvers[0], ...own }] });
    expect(await asking()).toBe(403);
    expect(sent()).toBe(0);

    await setOwn({});
    await set({ allow: [note] });
    await (await start()).reader.rest();
    expect(sent()).toBe(1);
  });
});
