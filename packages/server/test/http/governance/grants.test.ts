/** `/v1/grants` and `/v1/permissions/explain`. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { addKey, bootServer, type TestServer } from '../../support/server.ts';
import { finishedRun, startRun } from '../../support/requests.ts';

const missing = '01963a5c-7891-7abc-8ef0-123456789abc';
const later = '2099-01-01T00:00:00.000Z';

describe('/v1/grants', () => {
  let server: TestServer;

  beforeAll(async () => {
    server = await bootServer();
  });

  afterAll(async () => {
    await server.stop();
  });

  async function grant(body: Record<string, unknown>) {
    const response = await server.request('/v1/grants', { body: { tool: 'send_note', ...body } });
    const made = (await response.json()) as Record<string, unknown>;
    return { status: response.status, made, path: `/v1/grants/${String(made['id'])}` };
  }

  const revoke = (path: string) => server.request(path, { method: 'DELETE' });

  it('allows calls without an approval until it is revoked, which is idempotent', async () => {
    const { status, made, path } = await grant({
      params: { text: 'granted *' },
      scope: 'tenant',
      expiresAt: later,
    });
    expect(status).toBe(201);
    expect(made).toEqual({
      id: expect.any(String),
      status: 'active',
      tool: 'send_note',
      params: { text: 'granted *' },
      scope: 'tenant',
      createdAt: expect.stringMatching(/Z$/),
      createdBy: { type: 'key', id: expect.any(String), name: expect.any(String), role: 'admin' },
      expiresAt: later,
    });
    const { frames } = await finishedRun(server, { input: 'notify granted by rule' });
    expect(frames.map(({ data }) => data.type)).not.toContain('approval_requested');
    expect(server.notes().join()).toContain('granted by rule');
    expect((await revoke(path)).status).toBe(204);
    expect((await revoke(path)).status).toBe(204);
    const asked = await startRun(server, { input: 'notify granted no more' });
    await asked.reader.until('approval_requested');
    await asked.reader.disconnect();
  });

  it('allows as many calls as its uses', async () => {
    const { made } = await grant({ params: { text: 'twice' }, scope: 'tenant', uses: 2 });
    for (let n = 0; n < 2; n += 1) await finishedRun(server, { input: 'notify twice' });
    const asked = await startRun(server, { input: 'notify twice' });
    await asked.reader.until('approval_requested');
    await asked.reader.disconnect();
    const { grants } = await server.json('/v1/grants?status=all&limit=1');
    expect(grants).toEqual([{ ...made, status: 'used', usesLeft: 0 }]);
    expect(server.notes().filter((line) => line.includes('twice'))).toHaveLength(2);
  });

  it('lists what is active, or all, page by page, and by scope and tool', async () => {
    const own = await bootServer();
    const made: string[] = [];
    for (let n = 0; n < 5; n += 1) {
      const tool = n % 2 === 0 ? 'calculator' : 'send_note';
      const { id } = await own.json('/v1/grants', { body: { tool, scope: 'tenant' } });
      made.unshift(String(id));
    }
    await own.request(`/v1/grants/${made[0]}`, { method: 'DELETE' });
    const list = async (query: string) => {
      const { grants, nextCursor } = await own.json(`/v1/grants${query}`);
      return { ids: (grants as { id: string }[]).map(({ id }) => id), nextCursor };
    };
    const first = await list('?limit=3');
    const second = await list(`?limit=3&cursor=${String(first.nextCursor)}`);
    const all = await list('?status=all');
    const byTool = await list('?tool=send_note');
    const byScope = await list('?scope=run');
    await own.stop();
    expect([...first.ids, ...second.ids]).toEqual(made.slice(1));
    expect(second.nextCursor).toBeNull();
    expect(all).toEqual({ ids: made, nextCursor: null });
    expect(byTool.ids).toEqual([made[1], made[3]]);
    expect(byScope.ids).toEqual([]);
  });

  it('is created by a decision with its scope, expiry and uses', async () => {
    const talk = await startRun(server, { input: 'notify always here' });
    const relay = await talk.reader.until('approval_requested');
    const path = `/v1/approvals/${String(relay.data['id'])}`;
    const body = { approved: true, always: true, scope: 'run', uses: 4, expiresAt: later };
    expect((await server.request(path, { body })).status).toBe(200);
    expect((await server.request(path, { body })).status).toBe(200);
    const other = await server.request(path, { body: { ...body, uses: 5 } });
    expect(other.status).toBe(409);
    await talk.reader.rest();
    const { grants } = await server.json(`/v1/grants?scope=run&scopeId=${talk.runId}`);
    expect(grants).toMatchObject([
      {
        tool: 'send_note',
        exact: { to: 'operator', text: 'always here' },
        scope: 'run',
        scopeId: talk.runId,
        uses: 4,
        usesLeft: 4,
        expiresAt: later,
        createdBy: { type: 'key' },
      },
    ]);
  });

  it.each([
    ['a scope without always', { approved: true, scope: 'run' }],
    ['a count without always', { approved: true, uses: 1 }],
    ['a session, of which there are none yet', { approved: true, always: true, scope: 'session' }],
    ['no uses', { approved: true, always: true, uses: 0 }],
    ['a time that has passed', { approved: true, always: true, expiresAt: '2001-01-01T00:00:00Z' }],
    ['a proposal that the tool does not make', { approved: true, always: true, rule: 'suggested' }],
  ])('refuses a decision with %s, and the approval stays pending', async (_what, body) => {
    const talk = await startRun(server, { input: 'notify refused terms' });
    const relay = await talk.reader.until('approval_requested');
    const path = `/v1/approvals/${String(relay.data['id'])}`;
    const response = await server.request(path, { body });
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ code: 'invalid_request' });
    expect(await server.json(path)).toMatchObject({ status: 'pending' });
    await talk.reader.disconnect();
  });

  it.each([
    ['no scope', {}, 'invalid_request'],
    ['a scope that there is not', { scope: 'session' }, 'invalid_request'],
    ['a run that is not named', { scope: 'run' }, 'invalid_request'],
    ['a run that is not there', { scope: 'run', scopeId: missing }, 'invalid_request'],
    ['a tenant that is named', { scope: 'tenant', scopeId: missing }, 'invalid_request'],
    ['a negated pattern', { scope: 'tenant', params: { to: '!x' } }, 'invalid_pattern'],
    ['an empty pattern', { scope: 'tenant', params: { to: '' } }, 'invalid_pattern'],
    ['a time that has passed', { scope: 'tenant', expiresAt: '2001-01-01T00:00:00Z' }, undefined],
    ['half a use', { scope: 'tenant', uses: 0.5 }, 'invalid_request'],
    ['a pattern as the tool', { scope: 'tenant', tool: 'send_*' }, 'invalid_pattern'],
    ['an empty tool', { scope: 'tenant', tool: '' }, 'invalid_request'],
  ])('refuses %s with 400', async (_what, body, code) => {
    const { status, made } = await grant(body);
    expect(status).toBe(400);
    expect(made).toMatchObject({ code: code ?? 'invalid_request' });
  });

  it('refuses a run of another tenant', async () => {
    const { apiKey: key } = await addKey(server.store, { tenant: 'stranger' });
    const { runId } = await finishedRun(server, { input: 'say 1' });
    const body = { tool: 'send_note', scope: 'run', scopeId: runId };
    expect((await server.request('/v1/grants', { body, key })).status).toBe(400);
  });

  it('previews the latest approvals that it would have allowed', async () => {
    const own = await bootServer();
    const talks = [];
    for (const text of ['see one', 'see two', 'other']) {
      const talk = await startRun(own, { input: `notify ${text}` });
      const relay = await talk.reader.until('approval_requested');
      talks.push({ ...talk, approvalId: relay.data['id'] });
    }
    const ask = (body: unknown) => own.json('/v1/grants/preview', { body });
    const rule = { tool: 'send_note', params: { text: 'see *' } };
    const wide = await ask(rule);
    const narrow = await ask({ ...rule, scope: 'run', scopeId: talks[0]?.runId });
    const { conversationId } = await own.json(`/v1/runs/${talks[1]?.runId}`);
    const talking = await ask({ ...rule, scope: 'conversation', scopeId: conversationId });
    const none = await ask({ tool: 'calculator' });
    const { approvals } = await own.json('/v1/approvals?status=pending');
    const { grants } = await own.json('/v1/grants?status=all');
    for (const { reader } of talks) await reader.disconnect();
    await own.stop();
    expect(wide).toMatchObject({
      looked: 3,
      matched: 2,
      calls: [
        { approvalId: talks[1]?.approvalId, runId: talks[1]?.runId, status: 'pending' },
        { approvalId: talks[0]?.approvalId, params: { to: 'operator', text: 'see one' } },
      ],
    });
    expect(narrow).toMatchObject({ matched: 1, calls: [{ approvalId: talks[0]?.approvalId }] });
    expect(talking).toMatchObject({ matched: 1, calls: [{ approvalId: talks[1]?.approvalId }] });
    expect(none).toEqual({ looked: 3, matched: 0, calls: [] });
    expect(approvals).toHaveLength(3);
    expect(grants).toEqual([]);
  });
});

it('refuses to preview a pattern as the tool, and warns about a tool that is not registered', async () => {
  const server = await bootServer();
  const preview = (tool: string) => server.request('/v1/grants/preview', { body: { tool } });
  const refused = await preview('*');
  const warned = await preview('Send-Note');
  const known = await preview('send_note');
  await server.stop();
  expect(refused.status).toBe(400);
  expect(await refused.json()).toMatchObject({
    code: 'invalid_pattern',
    details: [{ path: 'tool', message: expect.stringContaining('names are exact, not patterns') }],
  });
  expect(await warned.json()).toMatchObject({
    matched: 0,
    warning: 'No tool of this name is registered; did you mean `send_note`?',
  });
  expect(await known.json()).not.toHaveProperty('warning');
});

describe('/v1/permissions/explain', () => {
  let server: TestServer;

  beforeAll(async () => {
    server = await bootServer();
  });

  afterAll(async () => {
    await server.stop();
  });

  const explain = (body: Record<string, unknown>) =>
    server.json('/v1/permissions/explain', {
      body: { tool: 'send_note', params: { to: 'ada', text: 'hi' }, ...body },
    });
  const toAda = { tool: 'send_note', params: { to: 'ada' } };

  it('asks if no rule matches', async () => {
    const answer = await explain({});
    expect(answer).toEqual({
      decision: 'ask',
      reason: expect.stringContaining('requires an approval'),
    });
  });

  it('denies if no approval is possible', async () => {
    expect(await explain({ permissions: { headless: true } })).toMatchObject({
      decision: 'deny',
      rule: { list: 'headless', source: 'request' },
      reason: expect.stringContaining('headless'),
    });
    expect(await explain({ permissions: { headless: true, allowlist: [toAda] } })).toMatchObject({
      decision: 'allow',
    });
  });

  it('names the rule of the request that allows or denies', async () => {
    const other = { tool: 'send_note', params: { to: 'eve' } };
    expect(await explain({ permissions: { allowlist: [other, toAda] } })).toEqual({
      decision: 'allow',
      rule: { list: 'allowlist', index: 1, source: 'request', ...toAda },
      reason: 'Rule 2 of `allowlist` in the request allows it.',
    });
    expect(await explain({ permissions: { allowlist: [toAda], denylist: [toAda] } })).toEqual({
      decision: 'deny',
      rule: { list: 'denylist', index: 0, source: 'request', ...toAda },
      reason: 'Rule 1 of `denylist` in the request denies it.',
    });
    expect(await explain({ permissions: { allowOnce: [toAda] } })).toMatchObject({
      decision: 'allow',
      rule: { list: 'allowOnce', index: 0 },
    });
  });

  it('says of an ask rule that it demands a person, whatever allows the call', async () => {
    expect(await explain({ permissions: { allowlist: [toAda], ask: [toAda] } })).toEqual({
      decision: 'ask',
      rule: { list: 'ask', index: 0, source: 'request', ...toAda },
      reason: 'Rule 1 of `ask` in the request requires an approval, whatever allows it.',
    });
    const bad = await server.request('/v1/permissions/explain', {
      body: { tool: 'x', params: {}, permissions: { ask: [{ tool: 'x', params: { a: '!b' } }] } },
    });
    expect(bad.status).toBe(400);
    expect(await bad.json()).toMatchObject({
      details: [{ path: 'permissions.ask[0].params.a' }],
    });
  });

  it('says whether a function tool runs unasked', async () => {
    const declared = { name: 'delete_user', kind: 'function', inputSchema: { type: 'object' } };
    const call = { tool: 'delete_user', params: { id: 'u_1' } };
    const unknown = await explain(call);
    expect(unknown).toMatchObject({ decision: 'ask' });
    expect(unknown['reason']).toContain('No tool of this name is registered');
    expect(unknown['reason']).toContain('As a function tool of the request');
    const allowed = await explain({ ...call, tools: [declared] });
    expect(allowed).toMatchObject({ decision: 'allow', rule: { list: 'builtin' } });
    expect(allowed['reason']).toMatch(/^A function tool is the caller’s own code/);
    const asked = await explain({ ...call, tools: [{ ...declared, needsApproval: true }] });
    expect(asked).toMatchObject({ decision: 'ask', rule: { list: 'needsApproval' } });
    expect(asked['reason']).toContain('declares `needsApproval`');
    const byRule = { ask: [{ tool: 'delete_user' }] };
    expect(await explain({ ...call, tools: [declared], permissions: byRule })).toMatchObject({
      decision: 'ask',
      rule: { list: 'ask', source: 'request' },
    });
    const headless = { headless: true };
    const denied = await explain({
      ...call,
      tools: [{ ...declared, needsApproval: true }],
      permissions: headless,
    });
    expect(denied).toMatchObject({ decision: 'deny', rule: { list: 'headless' } });
  });

  it('knows the function tools of a run', async () => {
    const response = await server.request('/v1/runs', {
      body: {
        model: 'demo',
        input: 'say 1',
        tools: [{ name: 'delete_user', kind: 'function', inputSchema: { type: 'object' } }],
      },
    });
    const runId = response.headers.get('x-run-id');
    await response.text();
    const call = { tool: 'delete_user', params: {} };
    expect(await explain({ ...call, runId })).toMatchObject({ decision: 'allow' });
    expect(await explain(call)).toMatchObject({ decision: 'ask' });
  });

  it('applies the permissions, the used allow-once rules and the agent of a run', async () => {
    const call = { tool: 'delete_user', params: { id: 'u1' } };
    const functions = [{ name: 'delete_user', kind: 'function', inputSchema: { type: 'object' } }];
    const started = async (body: Record<string, unknown>) =>
      (await finishedRun(server, { input: 'say 1', ...body })).runId;
    const asking = await started({
      tools: functions,
      permissions: { ask: [{ tool: 'delete_user' }] },
    });
    expect(await explain({ ...call, runId: asking })).toMatchObject({
      decision: 'ask',
      rule: { list: 'ask', source: 'request' },
    });
    // What the caller names replaces the permissions of the run.
    expect(await explain({ ...call, runId: asking, permissions: {} })).toMatchObject({
      decision: 'allow',
    });
    const params = { to: 'ann', text: 'once' };
    const once = await started({
      input: `use send_note ${JSON.stringify(params)}`,
      permissions: { allowOnce: [{ tool: 'send_note' }] },
    });
    expect(await explain({ tool: 'send_note', params, runId: once })).toMatchObject({
      decision: 'ask',
    });
  });

  it('refuses function tools that a run could not have', async () => {
    const body = {
      tool: 'send_note',
      params: {},
      tools: [{ name: 'send_note', kind: 'function', inputSchema: {} }],
    };
    const response = await server.request('/v1/permissions/explain', { body });
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ details: [{ path: 'tools[0].name' }] });
  });

  it('names the tool’s own rule', async () => {
    const params = { a: 1, b: 2, op: '+' };
    expect(await explain({ tool: 'calculator', params })).toMatchObject({
      decision: 'allow',
      rule: { list: 'builtin', source: 'builtin', tool: 'calculator' },
    });
  });

  it('names a grant without using it', async () => {
    const exact = { to: 'bob', text: 'counted' };
    const { id } = await server.json('/v1/grants', {
      body: { tool: 'send_note', exact, scope: 'tenant', uses: 1 },
    });
    for (let n = 0; n < 2; n += 1) {
      expect(await explain({ params: exact })).toMatchObject({
        decision: 'allow',
        rule: { list: 'grants', source: 'grant', id, tool: 'send_note', exact },
      });
    }
    const denylist = [{ tool: 'send_note', params: { to: 'bob' } }];
    expect(await explain({ params: exact, permissions: { denylist } })).toMatchObject({
      decision: 'deny',
    });
  });

  it('applies grants of a conversation only if it is named', async () => {
    const conversationId = missing;
    const exact = { to: 'carol', text: 'x' };
    await server.json('/v1/grants', {
      body: { tool: 'send_note', exact, scope: 'conversation', scopeId: conversationId },
    });
    expect(await explain({ params: exact })).toMatchObject({ decision: 'ask' });
    expect(await explain({ params: exact, conversationId })).toMatchObject({ decision: 'allow' });
  });

  it('treats the parameters of an unregistered tool as text', async () => {
    const allowlist = [{ tool: 'unheard_of', params: { command: 'ls*' } }];
    const answer = await explain({
      tool: 'unheard_of',
      params: { command: 'ls; rm x' },
      permissions: { allowlist },
    });
    expect(answer).toMatchObject({
      decision: 'allow',
      reason: expect.stringContaining('No tool of this name'),
    });
  });

  it.each([
    ['Calculator', 'calculator'],
    ['Send-Note', 'send_note'],
    ['sendnote', 'send_note'],
  ])('suggests a tool for the unregistered name %s', async (tool, suggestion) => {
    expect(await explain({ tool, params: {} })).toMatchObject({
      reason: expect.stringContaining(`did you mean \`${suggestion}\`? Its parameters`),
    });
  });

  it('names the rules that seem to be about the tool, but name it differently', async () => {
    const permissions = { denylist: [{ tool: 'Send_Note' }, { tool: 'calculator' }] };
    expect(await explain({ permissions })).toMatchObject({
      decision: 'ask',
      reason: expect.stringMatching(
        /denylist\[0\] of the request names `Send_Note`, so it does not apply to `send_note`\.$/,
      ),
    });
  });

  it('reports invalid arguments', async () => {
    expect(await explain({ params: { to: 7 } })).toMatchObject({
      decision: 'ask',
      reason: expect.stringContaining('do not match'),
    });
  });

  it.each([
    ['a bad pattern', { permissions: { denylist: [{ tool: 'x', params: { a: '!b' } }] } }],
    ['a bad pattern as the tool of a rule', { permissions: { denylist: [{ tool: 'send_*' }] } }],
    ['a bad pattern as the tool', { tool: '*' }],
    ['no parameters', { params: null }],
    ['parameters that are a list', { params: [] }],
    ['an unknown field', { call: 1 }],
  ])('refuses %s with 400', async (what, body) => {
    const response = await server.request('/v1/permissions/explain', {
      body: { tool: 'send_note', params: {}, ...body },
    });
    expect(response.status).toBe(400);
    const code = what.startsWith('a bad pattern') ? 'invalid_pattern' : 'invalid_request';
    expect(await response.json()).toMatchObject({ code });
  });

  it('does not require the scope approve', async () => {
    const { apiKey: key } = await addKey(server.store, { scopes: ['runs'] });
    const body = { tool: 'send_note', params: {}, permissions: { allowlist: [toAda] } };
    expect((await server.request('/v1/permissions/explain', { body, key })).status).toBe(200);
  });
});
