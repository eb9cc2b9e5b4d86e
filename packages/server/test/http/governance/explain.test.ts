/** `/v1/permissions/explain` for the call of an approval: what a person reads before a decision. */
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { defined } from '@relay/protocol';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { addKey, bootServer, type TestServer } from '../../support/server.ts';
import { startRun } from '../../support/requests.ts';

type Json = Record<string, unknown>;

describe('the explanation of an approval', () => {
  let server: TestServer;
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'relay-explain-')));

  beforeAll(async () => {
    mkdirSync(join(folder, 'src'));
    symlinkSync(join(folder, 'src'), join(folder, 'link'));
    server = await bootServer({ env: { RELAY_WORKSPACE: folder } });
  });
  beforeEach(() => setPolicy({}));
  afterAll(async () => {
    await server.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  async function setPolicy(rules: Json, agent?: string): Promise<void> {
    const { version } = await server.json(
      `/v1/policy${agent === undefined ? '' : `?agent=${agent}`}`,
    );
    const body = { ...rules, version, ...defined({ agent }) };
    const put = await server.ask('/v1/policy', { method: 'PUT', body });
    expect([put.status, put.body]).toEqual([200, expect.anything()]);
  }

  /** The approval of the first call that a run asks about. */
  async function asked(input: string, tools: readonly string[], more: Json = {}): Promise<Json> {
    const { reader } = await startRun(server, {
      input,
      tools: tools.map((name) => ({ name, kind: 'builtin' })),
      ...more,
    });
    const { data } = await reader.until('approval_requested');
    return server.json(`/v1/approvals/${String(data['id'])}`);
  }

  const askedFor = (tool: string, params: Json, more: Json = {}) =>
    asked(`use ${tool} ${JSON.stringify(params)}`, [tool], more);

  const explain = ({ id, tool, params }: Json, more: Json = {}, key?: string) =>
    server.json('/v1/permissions/explain', {
      body: { approvalId: id, tool, params, ...more },
      ...defined({ key }),
    });

  it('says that no rule allows the call, and shows the command word by word', async () => {
    const command = 'sudo ls "a b" | wc -l; cat <<E\nx\nE';
    const approval = await askedFor('bash', { command, cwd: 'link' });
    const { cwd } = approval['resolvedPaths'] as Json;
    expect(approval['preview']).toMatchObject({ execution: { folder: cwd, sandboxed: false } });
    const { apiKey } = await addKey(server.store, { scopes: ['read'] });
    const explained = await explain(approval, {}, apiKey);
    expect(explained).toEqual({
      decision: 'ask',
      reason: 'No rule allows this call, so it requires an approval.',
      parameters: {
        command: {
          kind: 'command',
          understood: false,
          effects: ['privileges'],
          segments: [
            { text: 'sudo', role: 'wrapper' },
            { text: ' ', role: 'space' },
            { text: 'ls', role: 'command' },
            { text: ' ', role: 'space' },
            { text: '"a b"', role: 'argument' },
            { text: ' ', role: 'space' },
            { text: '|', role: 'operator' },
            { text: ' ', role: 'space' },
            { text: 'wc', role: 'command' },
            { text: ' ', role: 'space' },
            { text: '-l', role: 'option' },
            { text: ';', role: 'operator' },
            { text: ' ', role: 'space' },
            { text: 'cat', role: 'command' },
            { text: ' ', role: 'space' },
            { text: '<<E\nx\nE', role: 'unparsed' },
          ],
        },
        cwd: { kind: 'path', path: 'link', resolved: join(folder, 'src'), outside: false },
      },
    });
  });

  it('names the rule of the policy by its list and index, as the approval does', async () => {
    const rule = { tool: 'send_note', params: { to: 'ann' } };
    await setPolicy({ allow: [{ tool: 'send_note' }], ask: [{ tool: 'calculator' }, rule] });
    const approval = await askedFor('send_note', { to: 'ann', text: 'hi' });
    const { version } = await server.json('/v1/policy');
    const named = { list: 'ask', index: 1, source: 'policy', id: `*@${String(version)}` };
    expect(approval['rule']).toEqual(named);
    expect(await explain(approval)).toEqual({
      decision: 'ask',
      rule: { ...named, ...rule },
      reason: 'Rule 2 of `ask` in the policy requires an approval.',
    });
    // Changed arguments are decided by the same rules.
    expect(await explain(approval, { params: { to: 'eve', text: 'hi' } })).toMatchObject({
      decision: 'allow',
    });
  });

  it('applies the permissions of its run, and the grants of its conversation', async () => {
    const ask = [{ tool: 'send_note', params: { to: 'ann' } }];
    const denylist = [{ tool: 'send_note', params: { to: 'eve' } }];
    const approval = await askedFor(
      'send_note',
      { to: 'ann', text: 'hi' },
      { permissions: { ask, denylist } },
    );
    expect(await explain(approval)).toMatchObject({ decision: 'ask', rule: approval['rule'] });
    const edited = { to: 'eve', text: 'hi' };
    expect(await explain(approval, { params: edited })).toMatchObject({
      decision: 'deny',
      rule: { list: 'denylist', index: 0, source: 'request' },
    });
    const path = `/v1/approvals/${String(approval['id'])}`;
    const refused = await server.ask(path, { body: { approved: true, input: edited } });
    expect(refused.body).toMatchObject({ code: 'denied_by_rule' });

    const { conversationId: scopeId } = approval;
    const grant = { tool: 'send_note', exact: { to: 'bob', text: 'x' } };
    await server.json('/v1/grants', { body: { ...grant, scope: 'conversation', scopeId } });
    expect(await explain(approval, { params: grant.exact })).toMatchObject({
      decision: 'allow',
      rule: { source: 'grant' },
    });
  });

  it('applies the policies of the agents that delegated the call', async () => {
    await setPolicy({ allow: [{ tool: 'send_note' }] });
    await setPolicy({ ask: [{ tool: 'send_note' }] }, 'assistant');
    const below = 'use agent {"prompt": "notify from below"}';
    const approval = await asked(below, ['send_note', 'agent']);
    await setPolicy({ ask: [{ tool: 'calculator' }, { tool: 'send_note' }] }, 'assistant');
    expect(approval['agentPath']).toHaveLength(2);
    expect(await explain(approval)).toMatchObject({
      decision: 'ask',
      rule: { list: 'ask', index: 1, source: 'policy', id: expect.stringMatching(/^assistant@/) },
    });
    await setPolicy({}, 'assistant');
  });

  it('lists what the tool would refuse in changed arguments', async () => {
    const note = await askedFor('send_note', { to: 'ann', text: 'hi' });
    const { problems } = await explain(note, { params: { to: 7 } });
    expect(problems).toEqual([
      { path: 'to', message: expect.any(String) },
      { path: 'text', message: expect.any(String) },
    ]);
    const read = await askedFor('read', { filePath: 'src/a.ts' });
    expect(await explain(read, { params: { filePath: '../x' } })).toMatchObject({
      parameters: { filePath: { kind: 'path', path: '../x' } },
      problems: [{ path: '', message: expect.stringContaining('outside the workspace') }],
    });
    expect(await explain(read)).not.toHaveProperty('problems');
  });

  it('is refused for another tool, and for an approval that does not exist', async () => {
    const approval = await askedFor('send_note', { to: 'ann', text: 'hi' });
    const body = { approvalId: approval['id'], tool: 'calculator', params: {} };
    const other = await server.ask('/v1/permissions/explain', { body });
    expect([other.status, other.body]).toMatchObject([400, { details: [{ path: 'tool' }] }]);
    const { apiKey: key } = await addKey(server.store, { tenant: 'other', scopes: ['read'] });
    const foreign = await server.ask('/v1/permissions/explain', {
      body: { ...body, tool: 'send_note' },
      key,
    });
    expect([foreign.status, foreign.body]).toMatchObject([404, { code: 'not_found' }]);
  });

  it('decides by policies that are not saved, for administrators only', async () => {
    await setPolicy({ allow: [{ tool: 'send_note' }] });
    const body = {
      tool: 'send_note',
      params: { to: 'eve', text: 'hi' },
      policies: [
        { ask: [{ tool: 'send_note', params: { to: 'eve' } }] },
        { agent: 'assistant', deny: [{ tool: 'send_note', params: { to: 'ann' } }] },
      ],
    };
    expect(await server.json('/v1/permissions/explain', { body })).toMatchObject({
      decision: 'ask',
      rule: { list: 'ask', index: 0, source: 'policy', id: '*@draft' },
      nearMisses: [{ list: 'deny', id: 'assistant@draft', parameter: 'to', part: 'eve' }],
    });
    const { apiKey } = await addKey(server.store, { scopes: ['read'] });
    const refused = await server.ask('/v1/permissions/explain', { body, key: apiKey });
    expect(refused.status).toBe(403);
    const wrong = { ...body, policies: [{ allow: [{ tool: 'bash', params: { command: '[' } }] }] };
    const { body: problem } = await server.ask('/v1/permissions/explain', { body: wrong });
    expect(problem).toMatchObject({
      error: expect.stringMatching(/^policies\[0\]\.allow\[0\]\.params\.command: /),
    });
  });

  it('says which pattern of a rule does not match, and from where on', async () => {
    await setPolicy({
      allow: [
        { tool: 'bash', params: { command: 'npm *' } },
        { tool: 'bash', params: { command: 'npm run build' } },
        { tool: 'bash', params: { command: 'npm test *' } },
        { tool: 'bash', params: { cwd: 'src' } },
        { tool: 'calculator' },
      ],
    });
    const body = { tool: 'bash', params: { command: 'npm test' } };
    const { decision, nearMisses } = await server.json('/v1/permissions/explain', { body });
    expect(decision).toBe('ask');
    expect(nearMisses).toMatchObject([
      { index: 0, parameter: 'command', pattern: 'npm *', part: 'test' },
      { index: 1, parameter: 'command', pattern: 'npm run build', part: 'test' },
      { index: 2, parameter: 'command', pattern: 'npm test *', part: '' },
      { index: 3, parameter: 'cwd', pattern: 'src', reason: 'The call has no parameter `cwd`.' },
    ]);
    expect((nearMisses as Json[])[0]!['reason']).toBe(
      'A wildcard does not stand for a subcommand that does more than read, here `test`. Write it out in the pattern `npm *` to allow `npm test`.',
    );
  });
});
