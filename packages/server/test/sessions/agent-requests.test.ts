/** What agents ask for, on both databases: rules, persons, and how a request ends. */
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { PermissionAnswer, SystemStore } from '@relay/core';
import { uuidv7 } from 'uuidv7';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Agents } from '../support/agents.ts';
import { bootServer, type TestServer, until } from '../support/server.ts';
import { stores } from '../support/stores.ts';

type Json = Record<string, unknown>;

const agents = new Agents('coder');

const rules = {
  allowlist: [
    ...['ls *', 'ls', 'cat *', 'echo *', 'git log*'].map((command) => ({
      tool: 'bash',
      params: { command },
    })),
    { tool: 'patch', params: { filePath: 'shop/src/**' } },
    { tool: 'read', params: { filePath: 'shop/src/**' } },
    { tool: 'fetch', params: { url: 'https://example.com/**' } },
  ],
  denylist: [
    ...['rm *', 'curl *'].map((command) => ({ tool: 'bash', params: { command } })),
    { tool: 'patch', params: { filePath: 'shop/secret/**' } },
  ],
};

describe.each(Object.entries(stores))('requests of agents on %s', (_name, open) => {
  let store: SystemStore;
  let server: TestServer;
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'relay-requests-')));
  const workspace = join(folder, 'workspace');
  const dataDir = join(folder, 'data');

  const boot = () =>
    bootServer({
      store,
      file: { harnesses: [agents.harness] },
      env: {
        RELAY_NODE_ID: 'one',
        RELAY_MAX_AGENTS: '1000',
        RELAY_DATA_DIR: dataDir,
        RELAY_WORKSPACE: workspace,
        RELAY_SANDBOX: 'off',
      },
    });

  beforeAll(async () => {
    mkdirSync(join(workspace, 'shop', 'src'), { recursive: true });
    mkdirSync(join(workspace, 'other', 'src'), { recursive: true });
    mkdirSync(dataDir);
    writeFileSync(join(workspace, 'shop', 'src', 'a.ts'), '');
    symlinkSync(join(workspace, 'other'), join(workspace, 'shop', 'src', 'link'));
    symlinkSync('/etc', join(workspace, 'shop', 'src', 'out'));
    store = await open();
    server = await boot();
  });

  afterAll(async () => {
    await server.stop();
    await store.close();
    rmSync(folder, { recursive: true, force: true });
  });

  async function created(more: Json = {}) {
    const handle = `h-${uuidv7()}`;
    const body = { harness: 'coder', handle, workspace: 'shop', ...more };
    const { status, body: session } = await server.ask('/v1/sessions', { body });
    expect([status, session]).toEqual([201, expect.anything()]);
    const id = String(session['id']);
    const agent = agents.of(handle);
    await agent.is('active');
    return { id, handle, path: `/v1/sessions/${id}`, agent };
  }

  const tenant = () => store.tenant(server.tenantId);
  const statusOf = async (id: string) => (await tenant().sessions.read(id))?.status;

  function sessionIs(id: string, status: string) {
    return until(async () => (await statusOf(id)) === status, `the session to be ${status}`);
  }

  function openApprovals(sessionId: string, count = 1) {
    return until(async () => {
      const filter = { sessionId, status: 'pending' } as const;
      const found = (await tenant().listApprovals(filter, { limit: 100 })).items;
      return found.length === count && found;
    }, `${count} approvals`);
  }

  async function openApproval(sessionId: string) {
    const [approval] = await openApprovals(sessionId);
    if (approval === undefined) throw new Error('There is no approval');
    return approval;
  }

  const decide = (id: string, body: Json) => server.ask(`/v1/approvals/${id}`, { body });

  /** How the rules decide; a request that a person would decide is withdrawn. */
  async function verdictOn(sessionId: string, handle: string, tool: string, input: unknown) {
    const aborting = new AbortController();
    const { signal } = aborting;
    const answer = agents.of(handle).context.requestPermission({ tool, input, signal });
    const isAsked = until(async () => {
      const filter = { sessionId, status: 'pending' } as const;
      return (await tenant().listApprovals(filter, { limit: 1 })).items.length > 0;
    }, 'an approval').then(() => 'asked' as const);
    const first: PermissionAnswer | 'asked' = await Promise.race([answer, isAsked]);
    aborting.abort();
    await answer;
    if (first === 'asked') return 'ask';
    return first.allowed ? 'allow' : first.by === 'rule' ? 'deny' : first.by;
  }

  it.each([
    ['bash', { command: 'ls -l src' }, 'allow'],
    ['bash', { command: 'ls; rm x' }, 'deny'],
    ['bash', { command: 'ls && rm x' }, 'deny'],
    ['bash', { command: 'ls | rm x' }, 'deny'],
    ['bash', { command: 'ls\nrm x' }, 'deny'],
    ['bash', { command: '/bin/rm x' }, 'deny'],
    ['bash', { command: '"rm" x' }, 'deny'],
    ['bash', { command: 'env rm x' }, 'deny'],
    ['bash', { command: 'timeout 1 rm x' }, 'deny'],
    ['bash', { command: 'echo x > file' }, 'ask'],
    ['bash', { command: 'A=1 ls' }, 'ask'],
    ['bash', { command: 'node -e "1"' }, 'ask'],
    ['bash', { command: '' }, 'ask'],
    ['bash', { command: ['ls'] }, 'ask'],
    ['bash', {}, 'ask'],
    ['bash', 'ls', 'ask'],
    ['bash', { command: 'ls', cwd: 'src' }, 'ask'],
    ['bash', { command: `cat ${dataDir}/relay.db` }, 'deny'],
    ['patch', { filePath: 'src/a.ts', diff: '' }, 'allow'],
    ['patch', { filePath: './src//a.ts', diff: '' }, 'allow'],
    ['patch', { filePath: join(workspace, 'shop/src/a.ts'), diff: '' }, 'allow'],
    ['patch', { filePath: 'src/x/../a.ts', diff: '' }, 'ask'],
    ['patch', { filePath: 'src/link/../a.ts', diff: '' }, 'ask'],
    ['patch', { filePath: '../other/src/a.ts', diff: '' }, 'ask'],
    ['patch', { filePath: 'src/link/src/a.ts', diff: '' }, 'ask'],
    ['patch', { filePath: 'src/out/passwd', diff: '' }, 'deny'],
    ['patch', { filePath: '/etc/passwd', diff: '' }, 'deny'],
    ['patch', { filePath: 'secret/key', diff: '' }, 'deny'],
    ['patch', { filePath: '../shop/secret/key', diff: '' }, 'deny'],
    ['patch', { filePath: ['src/a.ts'], diff: '' }, 'ask'],
    ['patch', { filePath: 'src/a\0.ts', diff: '' }, 'deny'],
    ['patch', { filePath: '.git/hooks/pre-commit', diff: '' }, 'deny'],
    ['read', { filePath: 'src/a.ts' }, 'allow'],
    ['read', { filePath: 'README.md' }, 'ask'],
    ['fetch', { url: 'https://example.com/a' }, 'allow'],
    ['fetch', { url: 'https://example.com@evil.test/a' }, 'ask'],
    ['fetch', { url: 'https://evil.test/' }, 'ask'],
    ['coder.Deploy', { to: 'production' }, 'ask'],
  ])('judges %s %j as the tool of that name: %s', async (tool, input, expected) => {
    const { id, handle } = await created({ permissions: rules });
    expect(await verdictOn(id, handle, tool, input)).toBe(expected);
  });

  it('is waiting while a person is asked, and goes on with the decision', async () => {
    const { id, path, agent } = await created();
    const input = { command: 'make' };
    const answer = agent.context.requestPermission({ tool: 'bash', input });
    const approval = await openApproval(id);
    expect(await statusOf(id)).toBe('waiting');
    // What the harness reports of the turn counts when the answer is there.
    await agent.is('active');
    expect(await statusOf(id)).toBe('waiting');
    const shown = (await server.ask(`/v1/approvals/${approval.id}`)).body;
    expect(shown).toMatchObject({
      sessionId: id,
      tool: 'bash',
      params: input,
      resolvedPaths: { cwd: join(workspace, 'shop') },
    });
    expect((await decide(approval.id, { approved: true })).status).toBe(200);
    expect(await answer).toEqual({ allowed: true, input });
    expect(await statusOf(id)).toBe('active');
    const denied = agent.context.requestPermission({ tool: 'bash', input });
    const second = await openApproval(id);
    await decide(second.id, { approved: false, reason: 'Not today' });
    expect(await denied).toEqual({ allowed: false, reason: 'Not today', by: 'person' });
    const events = await tenant().sessions.readEvents(id, { after: 0, limit: 100 });
    const statuses = events.flatMap((event) =>
      event.type === 'status.changed' ? [event.status] : [],
    );
    expect(statuses.slice(2)).toEqual(['active', 'waiting', 'active', 'waiting', 'active']);
    expect((await server.ask(path)).body['status']).toBe('active');
  });

  it('is explained by the rules of the session', async () => {
    const permissions = { ...rules, ask: [{ tool: 'bash', params: { command: 'git log*' } }] };
    const { id, agent } = await created({ permissions });
    const explain = async (approval: { id: string; tool: string }, params: Json) => {
      const body = { approvalId: approval.id, tool: approval.tool, params };
      return (await server.ask('/v1/permissions/explain', { body })).body;
    };
    const input = { command: 'git log' };
    const answer = agent.context.requestPermission({ tool: 'bash', input });
    const approval = await openApproval(id);
    expect(await explain(approval, input)).toMatchObject({
      decision: 'ask',
      rule: { ...approval.rule, params: { command: 'git log*' } },
      reason: 'Rule 1 of `ask` in the session requires an approval, whatever allows it.',
    });
    expect(await explain(approval, { command: 'rm x' })).toMatchObject({
      decision: 'deny',
      rule: { list: 'denylist', index: 0 },
    });
    expect(await explain(approval, { command: 'ls' })).toMatchObject({ decision: 'allow' });
    await decide(approval.id, { approved: false });
    await answer;
    const unknown = agent.context.requestPermission({
      tool: 'coder.Deploy',
      input: { to: 'production' },
      isConcrete: false,
    });
    const deploy = await openApproval(id);
    const explained = await explain(deploy, { to: 'production' });
    expect(explained).toEqual({
      decision: 'ask',
      rule: { ...deploy.rule, tool: 'coder.Deploy' },
      reason: 'This call requires an approval, whatever allows it: what it would do is not known.',
    });
    await decide(deploy.id, { approved: false });
    await unknown;
  });

  it('is waiting until all of several requests are answered', async () => {
    const { id, agent } = await created();
    const answers = ['one', 'two'].map((command) =>
      agent.context.requestPermission({ tool: 'bash', input: { command } }),
    );
    const [first, second] = await openApprovals(id, 2);
    await decide(first?.id ?? '', { approved: true });
    expect(await statusOf(id)).toBe('waiting');
    await decide(second?.id ?? '', { approved: true });
    expect(await statusOf(id)).toBe('active');
    expect(await Promise.all(answers)).toMatchObject([{ allowed: true }, { allowed: true }]);
  });

  it('gets no message while a request is open, whatever its mode', async () => {
    const { id, handle, agent } = await created();
    const answer = agent.context.requestPermission({ tool: 'bash', input: { command: 'make' } });
    const approval = await openApproval(id);
    const sent = [];
    for (const mode of ['immediate', 'next-tool-call']) {
      const body = { to: `@${handle}`, text: mode, mode };
      sent.push((await server.ask('/v1/messages', { body })).body);
    }
    expect(sent[0]).toMatchObject({ deliveries: [{ status: 'deferred' }] });
    await agent.emit({ type: 'log', level: 'info', message: 'still waiting' });
    expect(agent.received).toEqual([]);
    await decide(approval.id, { approved: true });
    await answer;
    await until(() => agent.received.length === 2, 'the messages');
  });

  it('begins nothing while its tenant is paused: no turn, and no call that is allowed', async () => {
    const { handle, path, agent } = await created({ permissions: rules });
    const pause = async (paused: boolean) => {
      const answer = await server.ask('/v1/tenant', { method: 'PUT', body: { paused } });
      expect(answer.status).toBe(200);
    };
    await agent.is('idle');
    await pause(true);
    let isAnswered = false;
    const input = { command: 'ls' };
    const answer = agent.context.requestPermission({ tool: 'bash', input });
    void answer.then(() => (isAnswered = true));
    const aborting = new AbortController();
    const { signal } = aborting;
    const aborted = agent.context.requestPermission({ tool: 'bash', input, signal });
    await server.ask('/v1/messages', { body: { to: `@${handle}`, text: 'hi' } });
    for (let count = 0; count < 10; count += 1) await server.ask(path);
    aborting.abort();
    expect(await aborted).toMatchObject({ allowed: false, by: 'closed' });
    expect([isAnswered, agent.received]).toEqual([false, []]);
    await pause(false);
    expect(await answer).toEqual({ allowed: true, input });
    await until(() => agent.received.length === 1, 'the message');
  });

  it('grants a command to the whole tenant only in the folder of all', async () => {
    const input = { command: 'make everything' };
    const always = { approved: true, always: true, scope: 'tenant' };
    const inFolder = await created();
    const first = inFolder.agent.context.requestPermission({ tool: 'bash', input });
    const { id } = await openApproval(inFolder.id);
    expect(await decide(id, always)).toMatchObject({
      status: 400,
      body: { details: [{ path: 'scope' }] },
    });
    expect((await decide(id, { ...always, scope: 'session' })).status).toBe(200);
    await first;
    const other = await created({ workspace: '.' });
    const second = other.agent.context.requestPermission({ tool: 'bash', input });
    expect((await decide((await openApproval(other.id)).id, always)).status).toBe(200);
    expect(await second).toEqual({ allowed: true, input });
  });

  it('remembers a grant for an equal call, and asks about any other', async () => {
    const { id, agent } = await created();
    const request = { tool: 'patch', input: { filePath: 'src/a.ts', diff: '+1' } };
    const first = agent.context.requestPermission({ ...request, shown: { description: 'a' } });
    const approval = await openApproval(id);
    expect(await decide(approval.id, { approved: true, always: true })).toMatchObject({
      status: 200,
    });
    await first;
    const absolute = { ...request.input, filePath: join(workspace, 'shop/src/a.ts') };
    for (const input of [request.input, absolute]) {
      expect(await agent.context.requestPermission({ tool: 'patch', input })).toEqual({
        allowed: true,
        input,
      });
    }
    const other = agent.context.requestPermission({
      tool: 'patch',
      input: { filePath: 'src/a.ts', diff: '+2' },
    });
    await decide((await openApproval(id)).id, { approved: false });
    expect(await other).toMatchObject({ allowed: false, by: 'person' });
  });

  it('has audit entries of what rules and grants answer', async () => {
    const { id, agent } = await created({ permissions: rules });
    const patch = { tool: 'patch', input: { filePath: 'lib/b.ts', diff: '+1' } };
    const first = agent.context.requestPermission(patch);
    await decide((await openApproval(id)).id, { approved: true, always: true });
    await first;
    await agent.context.requestPermission(patch);
    await agent.context.requestPermission({ tool: 'bash', input: { command: 'rm x' } });
    const { body } = await server.ask('/v1/audit?limit=10');
    const entries = (body['entries'] as Json[]).filter(
      ({ what }) => (what as Json)['sessionId'] === id,
    );
    expect(entries).toMatchObject([
      { action: 'call.denied', who: { type: 'rule' }, what: { tool: 'bash' } },
      { action: 'call.allowed', who: { type: 'rule' }, what: { tool: 'patch', source: 'grant' } },
      { action: 'approval.decided' },
      { action: 'session.attached' },
    ]);
  });

  it('shows what the agent says about a call, which is not part of what is approved', async () => {
    const { id, agent } = await created();
    const { token } = agent.process.mcp;
    const digests = new Set<string>();
    for (const description of ['Builds it', `Uses ${token}`]) {
      const aborting = new AbortController();
      const answer = agent.context.requestPermission({
        tool: 'bash',
        input: { command: 'make' },
        shown: { description },
        signal: aborting.signal,
      });
      const { id: approvalId } = await openApproval(id);
      const { body } = await server.ask(`/v1/approvals/${approvalId}`);
      digests.add(String(body['digest']));
      const { text } = body['display'] as { text: string };
      expect(text).toContain('The session says about it');
      expect(text).toContain(description.slice(0, 5));
      expect(JSON.stringify(body)).not.toContain(token);
      aborting.abort();
      expect(await answer).toMatchObject({ allowed: false, by: 'closed' });
    }
    expect(digests.size).toBe(1);
  });

  it('asks a person each time where nothing concrete is known, unless a rule denies it', async () => {
    const allowAll = { allowlist: [{ tool: 'patch' }], denylist: [{ tool: 'bash' }] };
    const { id, agent } = await created({ permissions: allowAll });
    const unknown = { input: { title: 'Edit files' }, isConcrete: false };
    const denied = await agent.context.requestPermission({ ...unknown, tool: 'bash' });
    expect(denied).toMatchObject({ allowed: false, by: 'rule' });
    const answer = agent.context.requestPermission({ ...unknown, tool: 'patch' });
    const approval = await openApproval(id);
    const { body } = await server.ask(`/v1/approvals/${approval.id}`);
    expect(body).toMatchObject({ concrete: false });
    const always = await decide(approval.id, { approved: true, always: true });
    expect([always.status, always.body['details']]).toMatchObject([400, [{ path: 'always' }]]);
    await decide(approval.id, { approved: true });
    expect(await answer).toEqual({ allowed: true, input: unknown.input });
  });

  it('takes changed arguments, which are checked by the rules and have absolute paths', async () => {
    const { id, agent } = await created({ permissions: { denylist: rules.denylist } });
    const answer = agent.context.requestPermission({
      tool: 'patch',
      input: { filePath: 'src/a.ts', diff: '+1' },
    });
    const approval = await openApproval(id);
    expect(approval.params).toEqual({ filePath: 'shop/src/a.ts', diff: '+1' });
    const edit = (filePath: string) =>
      decide(approval.id, { approved: true, input: { filePath, diff: '+1' } });
    expect((await edit('shop/secret/key')).body['code']).toBe('denied_by_rule');
    expect((await edit('/etc/passwd')).body['code']).toBe('tool_input_invalid');
    expect((await edit('shop/src/b.ts')).status).toBe(200);
    const filePath = join(workspace, 'shop/src/b.ts');
    expect(await answer).toEqual({ allowed: true, input: { filePath, diff: '+1' } });
    const unknown = agent.context.requestPermission({ tool: 'coder.Deploy', input: { to: 'a' } });
    await decide((await openApproval(id)).id, { approved: true, input: { to: 'b' } });
    expect(await unknown).toEqual({ allowed: true, input: { to: 'b' } });
  });

  it('refuses changed arguments where the agent cannot run them', async () => {
    const { id, agent } = await created();
    const input = { command: 'make' };
    const answer = agent.context.requestPermission({ tool: 'bash', input, isEditable: false });
    const approval = await openApproval(id);
    const changed = await decide(approval.id, { approved: true, input: { command: 'ls' } });
    expect(changed).toMatchObject({
      status: 409,
      body: {
        code: 'capability_missing',
        details: { path: 'approval.input', asked: true, offered: false },
      },
    });
    expect((await server.ask(`/v1/approvals/${approval.id}`)).body['editable']).toBe(false);
    // The same arguments are no change.
    expect((await decide(approval.id, { approved: true, input })).status).toBe(200);
    expect(await answer).toEqual({ allowed: true, input });
  });

  it('asks again if a path leads elsewhere when it is approved', async () => {
    const { id, agent } = await created();
    const link = join(workspace, 'shop', 'src', 'moving');
    symlinkSync(join(workspace, 'shop', 'src', 'a.ts'), link);
    const input = { filePath: 'src/moving', diff: '+1' };
    const answer = agent.context.requestPermission({ tool: 'patch', input });
    const first = await openApproval(id);
    expect(first.resolvedPaths).toEqual({ filePath: join(workspace, 'shop/src/a.ts') });
    rmSync(link);
    symlinkSync(join(workspace, 'other', 'src', 'b.ts'), link);
    writeFileSync(join(workspace, 'other', 'src', 'b.ts'), '');
    await decide(first.id, { approved: true });
    const second = await until(async () => {
      const approval = await openApproval(id);
      return approval.id !== first.id && approval;
    }, 'another approval');
    expect(second.resolvedPaths).toEqual({ filePath: join(workspace, 'other/src/b.ts') });
    await decide(second.id, { approved: true });
    expect(await answer).toEqual({ allowed: true, input });
    rmSync(link);
  });

  it('is denied by a policy that is made after it was requested', async () => {
    const { id, agent } = await created();
    const answer = agent.context.requestPermission({
      tool: 'fetch',
      input: { url: 'https://EXAMPLE.org/x' },
    });
    const approval = await openApproval(id);
    const policy = { deny: [{ tool: 'fetch', params: { url: 'https://example.org/**' } }] };
    const { version } = (await server.ask('/v1/policy')).body as { version: number };
    const put = await server.ask('/v1/policy', { method: 'PUT', body: { version, ...policy } });
    expect([put.status, put.body]).toEqual([200, expect.anything()]);
    const approved = await decide(approval.id, { approved: true });
    expect(approved).toMatchObject({ status: 403, body: { code: 'denied_by_rule' } });
    await decide(approval.id, { approved: false });
    expect(await answer).toMatchObject({ by: 'person' });
    const none = { version: version + 1 };
    expect((await server.ask('/v1/policy', { method: 'PUT', body: none })).status).toBe(200);
  });

  it('closes what it asked for with the turn, the session and its process, and never denies it', async () => {
    const ends: [string, (session: Awaited<ReturnType<typeof created>>) => Promise<unknown>][] = [
      ['idle', ({ agent }) => agent.is('idle')],
      ['offline', ({ agent }) => agent.emit({ type: 'status.changed', status: 'offline' })],
      ['failed', ({ agent }) => agent.emit({ type: 'status.changed', status: 'failed' })],
      ['released', ({ path }) => server.ask(`${path}/release`, { method: 'POST' })],
    ];
    for (const [status, end] of ends) {
      const session = await created();
      const { id, agent } = session;
      const answer = agent.context.requestPermission({ tool: 'bash', input: { command: 'make' } });
      const question = agent.context.ask({ message: 'Which?' });
      const approvals = await openApprovals(id, 2);
      await end(session);
      await sessionIs(id, status);
      expect(await answer).toMatchObject({ allowed: false, by: 'closed' });
      expect(await question).toMatchObject({ action: 'cancel' });
      for (const { id: approvalId, kind } of approvals) {
        expect(await tenant().readApproval(approvalId)).toMatchObject({ status: 'closed' });
        const given = kind === 'question' ? { input: 'x' } : {};
        const late = await decide(approvalId, { approved: true, ...given });
        expect(late.status).toBe(409);
      }
      expect((await tenant().sessions.read(id))?.state.requests).toBeUndefined();
    }
  });

  it('closes what it asked for when the server starts again', async () => {
    const { id, handle, agent } = await created();
    const answer = agent.context.requestPermission({ tool: 'bash', input: { command: 'make' } });
    const approval = await openApproval(id);
    await server.relay.stop();
    expect(await answer).toMatchObject({ allowed: false, by: 'closed' });
    // As if the server had been killed.
    const { state, version = 0 } = (await tenant().sessions.read(id)) ?? {};
    if (state === undefined) throw new Error('There is no session');
    const lost = { ...approval, id: uuidv7() };
    const { status: _, ...pending } = lost;
    await tenant().sessions.change({
      changes: [
        {
          sessionId: id,
          at: Date.now(),
          ifVersion: version,
          events: [],
          progress: {
            status: 'waiting',
            state: { ...state, turn: 'waiting', requests: { ids: [lost.id], turn: 'active' } },
          },
        },
      ],
      approvals: [pending],
    });
    server = await boot();
    await until(() => agents.of(handle) !== agent, 'the attached agent');
    await until(
      async () => (await tenant().readApproval(lost.id))?.status === 'closed',
      'the approval to be closed',
    );
    await sessionIs(id, 'idle');
  });

  it('asks a person a question, whose answer matches the schema', async () => {
    const { id, agent } = await created();
    const schema = {
      type: 'object',
      properties: { port: { type: 'integer' } },
      required: ['port'],
    };
    const answer = agent.context.ask({ message: 'Which port?', schema });
    const approval = await openApproval(id);
    expect(await statusOf(id)).toBe('waiting');
    const { body } = await server.ask(`/v1/approvals/${approval.id}`);
    expect(body).toMatchObject({ kind: 'question', prompt: 'Which port?', schema, sessionId: id });
    const wrong = await decide(approval.id, { approved: true, input: { port: 'x' } });
    expect(wrong.status).toBe(400);
    await decide(approval.id, { approved: true, input: { port: 80 } });
    expect(await answer).toEqual({ action: 'accept', content: { port: 80 } });
    expect(await statusOf(id)).toBe('active');
    const declined = agent.context.ask({ message: 'And?' });
    await decide((await openApproval(id)).id, { approved: false, reason: 'No' });
    expect(await declined).toEqual({ action: 'decline', reason: 'No' });
    await expect(
      agent.context.ask({ message: 'x', schema: { type: 'nope' } }),
    ).rejects.toMatchObject({ code: 'invalid_request' });
  });

  it('decides once, however many decide at once, and stays consistent with its session', async () => {
    const { id, agent } = await created();
    const answer = agent.context.requestPermission({ tool: 'bash', input: { command: 'make' } });
    const approval = await openApproval(id);
    const outcomes = await Promise.all(
      Array.from({ length: 8 }, (_, n) => decide(approval.id, { approved: n % 2 === 0 })),
    );
    const [won] = outcomes.filter(({ status }) => status === 200);
    const stored = await tenant().readApproval(approval.id);
    expect(won?.body['status']).toBe(stored?.status);
    expect(await answer).toMatchObject({ allowed: stored?.status === 'approved' });
    expect(await statusOf(id)).toBe('active');
  });
});
