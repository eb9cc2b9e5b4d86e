/** Tools of MCP servers over HTTP: listed, decided, asked, canceled, killed. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { dot } from '../../../../../test/support/mcp/tool-server.ts';
import { McpFixture } from '../../../../../test/support/mcp/fixture.ts';
import { Endpoint } from '../../../../../test/support/mcp/endpoint.ts';
import { addKey, bootServer, type TestServer, until } from '../../support/server.ts';
import {
  answerApproval,
  decideCall,
  eventsOf,
  finishedRun,
  resumeRun,
  startChat,
  startRun,
  untilStatus,
} from '../../support/requests.ts';

const allowed = (tool: string) => ({ permissions: { allowlist: [{ tool }] } });
const tools = (...names: string[]) => ({
  tools: names.map((name) => ({ name, kind: 'builtin' })),
});
const resultIn = (frames: readonly { data: Record<string, unknown> }[]) =>
  frames.find(({ data }) => data['type'] === 'tool_result')?.data['output'];

describe('an MCP server that changes the definition of a tool', () => {
  const fixture = new McpFixture();
  let server: TestServer;

  beforeAll(async () => {
    server = await bootServer({ file: { mcpServers: { shop: fixture.program('during') } } });
  });
  afterAll(async () => {
    await server.stop();
    fixture.dispose();
  });

  const explain = (over: object = {}) =>
    server.json('/v1/permissions/explain', { body: { tool: 'shop_stall', params: {}, ...over } });

  it('is asked about again: no grant and no approval holds for another definition', async () => {
    const { runId, reader } = await startRun(server, {
      input: 'use shop_stall {}',
      ...tools('shop_stall'),
    });
    const first = (await reader.until('approval_requested')).data;
    const scope = { tool: 'shop_stall', scope: 'tenant' };
    const granted = await server.json('/v1/grants', { body: scope });
    expect(granted['definitionDigest']).toMatch(/^[0-9a-f]{64}$/);
    expect(await explain()).toMatchObject({ decision: 'allow', rule: { source: 'grant' } });

    await finishedRun(server, {
      input: 'use shop_grow {}',
      ...tools('shop_grow'),
      ...allowed('shop_grow'),
    });
    await until(async () => (await explain())['decision'] === 'ask', 'the new definition');
    expect((await explain())['reason']).toContain('has changed the definition of the tool');

    await server.request(`/v1/approvals/${String(first['id'])}`, { body: { approved: true } });
    const again = (await reader.until('approval_requested')).data;
    expect(again).toMatchObject({ tool: 'shop_stall', params: {} });
    expect(again['id']).not.toBe(first['id']);
    expect(fixture.traces()).not.toContain('stall');

    const always = { approved: true, always: true };
    await server.request(`/v1/approvals/${String(again['id'])}`, { body: always });
    await until(() => fixture.traces().includes('stall'), 'the call');
    expect(await explain({ runId })).toMatchObject({ decision: 'allow' });
    const { grants } = (await server.json('/v1/grants')) as { grants?: Record<string, unknown>[] };
    const digests = grants?.map(({ definitionDigest }) => definitionDigest) ?? [];
    expect([digests.length, new Set(digests).size]).toEqual([2, 2]);
  });
});

describe.each(['during', 'instead'] as const)('an MCP server that asks (%s)', (asks) => {
  const fixture = new McpFixture();
  let server: TestServer;

  beforeAll(async () => {
    const program = fixture.program(asks);
    server = await bootServer({
      kind: 'sqlite',
      file: {
        mcpServers: {
          shop: { ...program, kinds: { echo: { text: 'path' } } },
          trusted: { ...program, readOnly: 'annotated', tools: ['look', 'echo'] },
        },
        agents: [{ name: 'tailor', tools: ['shop_fit', 'calculator'] }],
      },
    });
  });
  afterAll(async () => {
    await server.stop();
    fixture.dispose();
  });

  async function asking(what: string) {
    const talk = await startRun(server, {
      input: `use shop_fit {"what":"${what}"}`,
      ...tools('shop_fit'),
      ...allowed('shop_fit'),
    });
    const relay = await talk.reader.until('approval_requested');
    const path = `/v1/approvals/${String(relay.data['id'])}`;
    return { ...talk, relay, decide: (body: unknown) => server.request(path, { body }) };
  }

  it('requires approvals for its calls', async () => {
    const { runId, reader } = await startRun(server, {
      input: 'use shop_echo {"text":"hi"}',
      ...tools('shop_echo'),
    });
    const relay = await reader.until('approval_requested');
    expect(relay.data).toMatchObject({
      kind: 'permission',
      tool: 'shop_echo',
      params: { text: 'hi' },
    });
    expect(fixture.traces()).not.toContain('echo hi');
    await server.request(`/v1/approvals/${String(relay.data['id'])}`, {
      body: { approved: true },
    });
    expect(resultIn(await reader.rest())).toBe('hi');
    expect((await eventsOf(server, runId)).events.map(({ type }) => type)).toContain(
      'tool.started',
    );
  });

  it('is matched by rules about its parameters, with the kinds that the operator configured', async () => {
    const explain = (text: string) =>
      server.json('/v1/permissions/explain', {
        body: {
          tool: 'shop_echo',
          params: { text },
          permissions: { allowlist: [{ tool: 'shop_echo', params: { text: 'src/*' } }] },
        },
      });
    expect(await explain('src/a.ts')).toMatchObject({ decision: 'allow' });
    expect(await explain('src/../key')).toMatchObject({ decision: 'ask' });
  });

  it('runs only tools that the operator configured as read-only without an approval', async () => {
    const { frames } = await finishedRun(server, {
      input: 'use trusted_look {}',
      ...tools('trusted_look'),
    });
    expect(resultIn(frames)).toMatchObject({ env: { TERM: 'dumb' } });
    const { reader } = await startRun(server, {
      input: 'use trusted_echo {"text":"x"}',
      ...tools('trusted_echo'),
    });
    expect((await reader.until('approval_requested')).data).toMatchObject({ kind: 'permission' });
    const missing = await server.request('/v1/runs', {
      body: { model: 'demo', input: 'x', ...tools('trusted_fail') },
    });
    expect(missing.status).toBe(400);
  });

  it('has its tools listed with all the others', async () => {
    const { tools: listed } = (await server.json('/v1/tools')) as { tools?: { name: string }[] };
    const found = (name: string) => listed?.find((tool) => tool.name === name);
    expect(found('calculator')).toMatchObject({ allowedByDefault: true });
    expect(found('shop_echo')).toEqual({
      name: 'shop_echo',
      description: 'Says it again',
      inputSchema: expect.objectContaining({ type: 'object' }),
      allowedByDefault: false,
      needsApproval: false,
      idempotent: false,
      kinds: { text: 'path' },
    });
    expect(found('trusted_look')).toMatchObject({ allowedByDefault: true });
    expect(found('trusted_fit')).toBeUndefined();
  });

  it('refuses invalid arguments before it requests an approval', async () => {
    const { frames } = await finishedRun(server, {
      input: 'use shop_echo {"text":5}',
      ...tools('shop_echo'),
    });
    expect(JSON.stringify(resultIn(frames))).toContain('text: ');
  });

  it('has its images in the journal, for the model, and in the frames of every surface', async () => {
    const attachments = [{ type: 'image', mediaType: 'image/png', data: dot }];
    const run = await startRun(server, {
      input: 'use shop_show {}',
      ...tools('shop_show'),
      ...allowed('shop_show'),
    });
    const { data } = await run.reader.until('tool_result');
    expect(data).toMatchObject({ attachments });
    await run.reader.rest();
    const { events } = await eventsOf(server, run.runId);
    expect(events.find(({ type }) => type === 'tool.completed')).toMatchObject({ attachments });
    const { reader, ...chat } = await startChat(server, 'use shop_show {}');
    const relay = await reader.until('relay');
    const answer = { approvalId: relay.data['id'], response: { approved: true } };
    await answerApproval(server, chat, answer);
    const shown = await reader.until('tool_result');
    expect(shown.data['output']).toMatchObject({ attachments });
    await reader.rest();
  });

  it('can be used from /chat', async () => {
    const { reader, ...chat } = await startChat(server, 'use shop_echo {"text":"chat"}');
    const { data } = await reader.until('relay');
    await answerApproval(server, chat, { approvalId: data['id'], response: { approved: true } });
    expect(JSON.stringify(await reader.rest())).toContain('"context":"chat"');
  });

  it('asks a question by an approval, waits, and gets the answer', async () => {
    const { relay, runId, reader, decide } = await asking('coat');
    expect(relay.data).toMatchObject({
      kind: 'question',
      tool: 'shop_fit',
      prompt: 'Which size of coat?',
      schema: { properties: { size: { enum: ['S', 'M'] } } },
    });
    expect((await decide({ approved: true, input: { size: 'XL' } })).status).toBe(400);
    expect(await resumeRun(server, runId)).toMatchObject({ body: { status: 'waiting' } });
    expect((await decide({ approved: true, input: { size: 'M' } })).status).toBe(200);
    expect(resultIn(await reader.rest())).toBe('coat: accept {"size":"M"}');
  });

  it('receives the refusal of a question', async () => {
    const { decide, reader } = await asking('hat');
    expect((await decide({ approved: false, reason: 'Not now' })).status).toBe(200);
    expect(resultIn(await reader.rest())).toBe('hat: decline null');
  });

  it('can be used by an agent from /api/chat', async () => {
    const { runId, reader } = await startRun(server, {
      input: 'use shop_fit {"what":"sock"}',
      tools: undefined,
      agent: 'tailor',
      ...allowed('shop_fit'),
    });
    await reader.until('approval_requested');
    const wanted = { runId, toolCallId: 'call_1', kind: 'question', action: 'approve' };
    const answered = await decideCall(server, { ...wanted, input: { size: 'S' } });
    expect(answered).toMatchObject({ code: 200, body: { status: 'succeeded' } });
    expect(resultIn(await reader.rest())).toBe('sock: accept {"size":"S"}');
  });

  it('receives a cancel during a call', async () => {
    const { runId, reader } = await startRun(server, {
      input: 'use shop_work {"ms":60000}',
      ...tools('shop_work'),
      ...allowed('shop_work'),
    });
    const progress = await until(async () => {
      const { events } = await eventsOf(server, runId);
      return events.find(({ type }) => type === 'tool.progressed');
    }, 'progress');
    expect(progress).toMatchObject({ name: 'shop_work', content: 'half of it\n' });
    await server.request(`/v1/runs/${runId}/cancel`, { method: 'POST' });
    await untilStatus(server, runId, 'canceled');
    await reader.rest();
    await until(
      () => fixture.traces().includes('work was withdrawn'),
      'the server to receive the cancel',
    );
  });

  it('closes its question when the run is canceled', async () => {
    const { runId, reader, relay } = await asking('glove');
    await server.request(`/v1/runs/${runId}/cancel`, { method: 'POST' });
    await reader.rest();
    const path = `/v1/approvals/${String(relay.data['id'])}`;
    expect(await server.json(path)).toMatchObject({ status: 'closed' });
  });

  it('fails the call if it crashes, and is restarted for the next one', async () => {
    const { frames } = await finishedRun(server, {
      input: 'use shop_die {}',
      ...tools('shop_die'),
      ...allowed('shop_die'),
    });
    expect(resultIn(frames)).toMatchObject({ status: 'error' });
    const again = await finishedRun(server, {
      input: 'use shop_echo {"text":"back"}',
      ...tools('shop_echo'),
      ...allowed('shop_echo'),
    });
    expect(resultIn(again.frames)).toBe('back');
    expect(fixture.traces().filter((line) => line === 'die')).toHaveLength(1);
  });
});

describe('an MCP server that is killed, or times out', () => {
  const fixture = new McpFixture();
  let server: TestServer;
  beforeAll(async () => {
    const shop = { ...fixture.program('during', 300), readOnly: ['look'] };
    server = await bootServer({ file: { mcpServers: { shop } } });
  });
  afterAll(async () => {
    await server.stop();
    fixture.dispose();
  });

  const run = (tool: string, input: object) =>
    startRun(server, {
      input: `use ${tool} ${JSON.stringify(input)}`,
      ...tools(tool),
      ...allowed(tool),
    });

  it('fails the call when it is killed, and is restarted', async () => {
    const look = async () => {
      const { reader } = await run('shop_look', {});
      return (resultIn(await reader.rest()) as { pid: number }).pid;
    };
    const pid = await look();
    const { reader, runId } = await run('shop_work', { ms: 60_000 });
    await until(() => fixture.traces().includes('work'), 'the call');
    process.kill(pid, 'SIGKILL');
    expect(resultIn(await reader.rest())).toMatchObject({ status: 'error' });
    expect(await server.json(`/v1/runs/${runId}`)).toMatchObject({ status: 'completed' });
    expect(await look()).not.toBe(pid);
    expect(fixture.traces().filter((line) => line === 'work')).toHaveLength(1);
  });

  it('closes the question of a server that gives up waiting', async () => {
    const { reader } = await run('shop_fit', { what: 'coat' });
    const { data } = await reader.until('approval_requested');
    expect(resultIn(await reader.rest())).toContain('timed out');
    const path = `/v1/approvals/${String(data['id'])}`;
    expect(await server.json(path)).toMatchObject({ kind: 'question', status: 'closed' });
  });
});

it('of an MCP server that is down, a call fails with the reason instead of asking for an approval', async () => {
  const command = '/no/such-program';
  const server = await bootServer({ file: { mcpServers: { shop: { command } } } });
  try {
    const { frames } = await finishedRun(server, {
      input: 'use shop_echo {"text":"x"}',
      ...tools('shop_echo'),
    });
    const reason = `There is no program ${command}`;
    expect(frames.map(({ data }) => data['type'])).not.toContain('approval_requested');
    expect(JSON.stringify(resultIn(frames))).toContain(
      `The MCP server shop is not connected: ${reason}`,
    );
    const explained = await server.json('/v1/permissions/explain', {
      body: { tool: 'shop_echo', params: {} },
    });
    expect(explained['reason']).toContain(`A call would fail now: The MCP server shop is not`);
    expect((await server.json('/v1/tools'))['mcpServers']).toEqual([
      { name: 'shop', connected: false, problem: reason, tools: 0, warnings: [] },
    ]);
  } finally {
    await server.stop();
  }
});

describe('an MCP server over HTTP', () => {
  const fixture = new McpFixture();
  let endpoint: Endpoint;
  beforeAll(async () => {
    endpoint = await Endpoint.listen({ asks: 'during', trace: fixture.trace });
  });
  afterAll(async () => {
    await endpoint.close();
    fixture.dispose();
  });

  it('on a private address fails the start unless the operator allows its network', async () => {
    const file = { mcpServers: { shop: { url: endpoint.url } } };
    await expect(bootServer({ file })).rejects.toThrow(
      'relay.config: mcpServers.shop.url: Without TLS the address must be in RELAY_PRIVATE_NETWORKS',
    );
    expect(endpoint.requests).toEqual([]);
  });

  it('is not connected to if its name resolves to a private address', async () => {
    const url = endpoint.url.replace('127.0.0.1', 'localhost');
    const env = { RELAY_PRIVATE_NETWORKS: '10.0.0.0/8' };
    const server = await bootServer({ env, file: { mcpServers: { shop: { url } } } });
    try {
      await until(() => server.logged.length > 0, 'a line in the log');
      expect(server.logged.join()).toContain(
        'localhost resolves to an address that is not allowed',
      );
      expect(endpoint.requests).toEqual([]);
      const { frames } = await finishedRun(server, {
        input: 'use shop_echo {"text":"x"}',
        ...tools('shop_echo'),
        ...allowed('shop_echo'),
      });
      expect(JSON.stringify(resultIn(frames))).toContain('The MCP server shop is not connected');
    } finally {
      await server.stop();
    }
  });

  it('starts the runs of an agent without a tool that it does not offer', async () => {
    const agent = { name: 'clerk', model: 'demo', tools: ['shop_ecko', 'shop_echo'] };
    const server = await bootServer({
      env: { RELAY_PRIVATE_NETWORKS: '127.0.0.0/8' },
      file: { agents: [agent], mcpServers: { shop: { url: endpoint.url } } },
    });
    try {
      expect(server.logged.join()).toContain(
        'The agent clerk names the tool shop_ecko, which the MCP server shop does not offer; did you mean shop_echo?',
      );
      const input = 'use shop_echo {"text":"x"}\nuse shop_ecko {}';
      const body = { agent: 'clerk', input, ...allowed('shop_echo') };
      const text = await (await server.request('/v1/runs', { body })).text();
      expect(text).toContain('"output":"x"');
      expect(text).toContain(' shop_ecko.');
    } finally {
      await server.stop();
    }
  });

  it('is used by the configured tenants if the operator allows its network', async () => {
    const server = await bootServer({
      env: { RELAY_PRIVATE_NETWORKS: '127.0.0.0/8' },
      file: { mcpServers: { shop: { url: endpoint.url, tenants: ['acme'] } } },
    });
    try {
      const options = { body: { model: 'demo', input: 'use shop_echo {"text":"y"}' } };
      const body = { ...options.body, ...tools('shop_echo'), ...allowed('shop_echo') };
      const refused = await server.request('/v1/runs', { body });
      expect(refused.status).toBe(400);
      expect(await refused.json()).toMatchObject({ code: 'unknown_tool' });
      expect(JSON.stringify(await server.json('/v1/tools'))).not.toContain('shop_');
      const { apiKey } = await addKey(server.store, { tenant: 'acme' });
      const answered = await until(async () => {
        const response = await server.request('/v1/runs', { body, key: apiKey });
        return response.status === 200 ? response.text() : undefined;
      }, 'the tenant to have the tool');
      expect(answered).toContain('"output":"y"');
      const theirs = await server.request('/v1/tools', { key: apiKey });
      expect(await theirs.text()).toContain('"shop_echo"');
    } finally {
      await server.stop();
    }
  });
});
