import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { systemClock, type Tool } from '@relay/core';
import { Endpoint } from '../../../../test/support/mcp/endpoint.ts';
import { isAlive, McpFixture } from '../../../../test/support/mcp/fixture.ts';
import { dot } from '../../../../test/support/mcp/tool-server.ts';
import { createToolContext } from '../support/tool-context.ts';
import { defaultTimings } from '../../src/mcp/connection-supervisor.ts';
import { type McpOptions, McpServers } from '../../src/mcp/mcp-servers.ts';
import { createPendingTool } from '../../src/mcp/mcp-tool.ts';
import type { McpServerConfig } from '../../src/mcp/settings.ts';

let fixture: McpFixture;
let open: McpServers[];
let logged: string[];
beforeEach(() => {
  fixture = new McpFixture();
  open = [];
  logged = [];
});
afterEach(async () => {
  await Promise.all(open.map((servers) => servers.stop()));
  fixture.dispose();
});

const timings = { ...defaultTimings, initialDelayMs: 5, maxDelayMs: 50 };

async function start(servers: Record<string, McpServerConfig>, more: Partial<McpOptions> = {}) {
  const log = (message: string, fields = {}) => logged.push(`${message} ${JSON.stringify(fields)}`);
  const started = new McpServers({
    servers,
    version: '1',
    fetch,
    env: { PATH: process.env['PATH'], RELAY_MASTER_KEY: 'the-master-key', OPENAI_API_KEY: 'sk-x' },
    homes: fixture.dir,
    cwd: fixture.dir,
    clock: systemClock,
    log: { info: log, warn: log, error: log },
    isTaken: () => false,
    timings,
    ...more,
  });
  open.push(started);
  await started.start();
  return started;
}

const everyone = () => true;
/** The machine may be busy. */
const poll = <Value>(look: () => Value) => expect.poll(look, { timeout: 15_000 });

async function find(servers: McpServers, name: string): Promise<Tool> {
  await poll(() => servers.list(everyone).map((tool) => tool.name)).toContain(name);
  const tool = servers.find(name, everyone);
  if (tool === undefined) throw new Error(`There is no ${name}`);
  return tool;
}

describe.each(['during', 'instead'] as const)('a program whose questions come %s', (asks) => {
  it('provides its tools with description and schema', async () => {
    const servers = await start({ shop: fixture.program(asks) });
    const names = servers.list(everyone).map(({ name }) => name);
    expect(names).toEqual(
      ['echo', 'look', 'fail', 'die', 'show', 'work', 'fit', 'measure', 'stall', 'grow'].map(
        (n) => `shop_${n}`,
      ),
    );
    const echo = await find(servers, 'shop_echo');
    expect(echo).toMatchObject({
      description: 'Says it again',
      allowedByDefault: false,
      idempotent: false,
      onUnknown: 'ask',
    });
    expect(echo.validate({ text: 1 })).toMatchObject({ ok: false, issues: [{ path: 'text' }] });
    expect(await echo.execute({ text: 'hi' }, createToolContext())).toEqual({ context: 'hi' });
    expect(fixture.traces()).toEqual(['echo hi']);
  });

  it('has a clean environment and its own variables, and its secrets are redacted', async () => {
    const env = { API_TOKEN: 'a-very-secret-token', MODE: 'plain-mode' };
    const servers = await start({ shop: { ...fixture.program(asks), env } });
    const look = await find(servers, 'shop_look');
    const { result } = await look.execute({}, createToolContext());
    const { env: seen } = result as { env: Record<string, string> };
    expect(seen).toMatchObject({ MODE: 'plain-mode', API_TOKEN: '[redacted]' });
    expect(Object.keys(seen).toSorted()).toEqual(
      ['API_TOKEN', 'HOME', 'MODE', 'PATH', 'RELAY_COMMAND', 'TERM'].toSorted(),
    );
    expect(JSON.stringify(seen)).not.toMatch(/the-master-key|sk-x/);
  });

  it('has its secrets redacted in descriptions, progress and questions, too', async () => {
    const env = { ONE_KEY: 'Says it again', TWO_KEY: 'half of it', THREE_KEY: 'Which size' };
    const servers = await start({ shop: { ...fixture.program(asks), env } });
    expect((await find(servers, 'shop_echo')).description).toBe('[redacted]');
    const published: string[] = [];
    const ask = async (question: unknown) => {
      published.push(JSON.stringify(question));
      return { size: 'M' };
    };
    const context = createToolContext({ progress: (text) => void published.push(text), ask });
    await (await find(servers, 'shop_work')).execute({ ms: 300 }, context);
    await (await find(servers, 'shop_fit')).execute({ what: 'coat' }, context);
    expect(published).toEqual(['[redacted]\n', expect.stringContaining('"[redacted] of coat?"')]);
  });

  it('maps texts, images and failures', async () => {
    const servers = await start({ shop: fixture.program(asks) });
    const show = await find(servers, 'shop_show');
    expect(await show.execute({}, createToolContext())).toEqual({
      context: 'a dot\n[image, image/png, 70 bytes]\n[resource file:///plan.txt]\nthe plan',
      result: {
        content: [
          { type: 'image', mediaType: 'image/png' },
          { type: 'resource', uri: 'file:///plan.txt', text: 'the plan' },
        ],
      },
      attachments: [{ type: 'image', mediaType: 'image/png', data: dot }],
    });
    const fail = await find(servers, 'shop_fail');
    await expect(fail.execute({}, createToolContext())).rejects.toThrow('the glue is out');
  });

  it('asks a person, and continues with the answer', async () => {
    const servers = await start({ shop: { ...fixture.program(asks), timeoutMs: 200 } });
    const fit = await find(servers, 'shop_fit');
    const asked: unknown[] = [];
    const ask = async (question: unknown) => {
      asked.push(question);
      // Longer than the server may be silent: a person does not count.
      await new Promise((resolve) => setTimeout(resolve, 400));
      return { size: 'M' };
    };
    const output = await fit.execute({ what: 'coat' }, createToolContext({ ask }));
    expect(output.context).toBe('coat: accept {"size":"M"}');
    expect(asked).toMatchObject([
      { prompt: 'Which size of coat?', schema: { properties: { size: { enum: ['S', 'M'] } } } },
    ]);
  });

  it('reports progress, and is notified when a call is canceled', async () => {
    const servers = await start({ shop: fixture.program(asks) });
    const work = await find(servers, 'shop_work');
    const stop = new AbortController();
    const published: string[] = [];
    const progress = (text: string) => published.push(text);
    const context = createToolContext({ signal: stop.signal, progress });
    const working = work.execute({ ms: 60_000 }, context);
    const failed = expect(working).rejects.toThrow('enough');
    await poll(() => published).toEqual(['half of it\n']);
    stop.abort(new Error('enough'));
    await failed;
    await poll(() => fixture.traces()).toEqual(['work', 'work was withdrawn']);
  });

  it('fails a call after its timeout, and is notified of the cancellation', async () => {
    const servers = await start({ shop: { ...fixture.program(asks), timeoutMs: 300 } });
    const work = await find(servers, 'shop_work');
    await expect(work.execute({ ms: 60_000 }, createToolContext())).rejects.toThrow(
      'The MCP server shop sent nothing for 300 ms',
    );
    await poll(() => fixture.traces()).toContain('work was withdrawn');
  });

  it('has its tools refreshed when it announces a change', async () => {
    const servers = await start({ shop: fixture.program(asks) });
    const grow = await find(servers, 'shop_grow');
    await grow.execute({}, createToolContext());
    const learned = await find(servers, 'shop_learned');
    expect(await learned.execute({}, createToolContext())).toEqual({ context: 'new' });
    expect(servers.find('shop_grow', everyone)).toBeUndefined();
    // Grants of the tool no longer hold, so the operator should notice the change.
    expect(logged).toEqual([expect.stringContaining('has changed the definitions of tools')]);
    expect(logged[0]).toContain('{"tools":["shop_stall"],"more":0}');
  });

  it('that dies during a call causes a tool error, and is restarted', async () => {
    const servers = await start({ shop: fixture.program(asks) });
    const die = await find(servers, 'shop_die');
    await expect(die.execute({}, createToolContext())).rejects.toThrow(
      'The connection to the MCP server shop was lost during the call. The call may have taken effect',
    );
    const echo = await find(servers, 'shop_echo');
    expect(await echo.execute({ text: 'again' }, createToolContext())).toEqual({
      context: 'again',
    });
    expect(fixture.traces()).toEqual(['die', 'echo again']);
    expect(logged.join('\n')).toContain('exited with code 3');
  });

  it('ends with this process', async () => {
    const servers = await start({ shop: fixture.program(asks) });
    const look = await find(servers, 'shop_look');
    const { result } = await look.execute({}, createToolContext());
    const { pid } = result as { pid: number };
    expect(isAlive(pid)).toBe(true);
    await servers.stop();
    expect(isAlive(pid)).toBe(false);
  });
});

describe.each(['during', 'instead'] as const)('an endpoint whose questions come %s', (asks) => {
  let endpoint: Endpoint;
  beforeEach(async () => {
    endpoint = await Endpoint.listen({ asks, trace: fixture.trace });
  });
  afterEach(() => endpoint.close());

  it('is called with the configured headers', async () => {
    const headers = { Authorization: 'Bearer a-very-secret-token' };
    const servers = await start({ shop: { url: endpoint.url, headers } });
    const echo = await find(servers, 'shop_echo');
    const output = await echo.execute({ text: 'a-very-secret-token' }, createToolContext());
    expect(output).toEqual({ context: '[redacted]' });
    expect(new Set(endpoint.requests.map(({ authorization }) => authorization))).toEqual(
      new Set(['Bearer a-very-secret-token']),
    );
  });

  it('asks during concurrent calls, each in the run of its call', async () => {
    const servers = await start({ shop: { url: endpoint.url } });
    // What the one does is of the earlier protocol, what the other does of the present one.
    const tool = await find(servers, asks === 'during' ? 'shop_measure' : 'shop_fit');
    const both = Promise.withResolvers<void>();
    let asked = 0;
    const call = async (what: string) => {
      const ask = async () => {
        asked += 1;
        if (asked === 2) both.resolve();
        await both.promise;
        return { size: 'M', by: what };
      };
      const { context } = await tool.execute({ what }, createToolContext({ ask, runId: what }));
      return context;
    };
    expect(await Promise.all([call('coat'), call('hat')])).toEqual([
      'coat: accept {"size":"M","by":"coat"}',
      'hat: accept {"size":"M","by":"hat"}',
    ]);
  });

  it('is notified when a call is canceled', async () => {
    const servers = await start({ shop: { url: endpoint.url } });
    const work = await find(servers, 'shop_work');
    const stop = new AbortController();
    const working = work.execute({ ms: 60_000 }, createToolContext({ signal: stop.signal }));
    const failed = expect(working).rejects.toThrow('enough');
    await poll(() => fixture.traces()).toEqual(['work']);
    stop.abort(new Error('enough'));
    await failed;
    await poll(() => fixture.traces()).toEqual(['work', 'work was withdrawn']);
  });

  it('that closes the connection during a call causes a tool error at once', async () => {
    const servers = await start({ shop: { url: endpoint.url } });
    const work = await find(servers, 'shop_work');
    const working = work.execute({ ms: 60_000 }, createToolContext());
    const failed = expect(working).rejects.toThrow('lost during the call. The call may have');
    await poll(() => fixture.traces()).toEqual(['work']);
    await endpoint.close();
    await failed;
    await Endpoint.listen({ asks, trace: fixture.trace }).then((other) => (endpoint = other));
  });
});

it('terminates the session when the connection is closed', async () => {
  const endpoint = await Endpoint.listen({ asks: 'during', trace: fixture.trace });
  try {
    const servers = await start({ shop: { url: endpoint.url } });
    await find(servers, 'shop_echo');
    expect(endpoint.methods).not.toContain('DELETE');
    await servers.stop();
    expect(endpoint.methods.filter((method) => method === 'DELETE')).toHaveLength(1);
  } finally {
    await endpoint.close();
  }
});

it('fails a call whose server requests input without limit', async () => {
  const servers = await start({ shop: fixture.program('instead') });
  const stall = await find(servers, 'shop_stall');
  await expect(stall.execute({}, createToolContext())).rejects.toThrow('more than 20 times');
  expect(fixture.traces()).toHaveLength(21);
});

describe.each([400, 404])('an endpoint that responds to an unknown session with %i', (status) => {
  let endpoint: Endpoint;
  const listen = async (port?: number) => {
    endpoint = await Endpoint.listen({ asks: 'during', trace: fixture.trace }, port);
    endpoint.unknownSession = status;
  };
  const restart = async () => {
    const { port } = new URL(endpoint.url);
    await endpoint.close();
    await listen(Number(port));
  };
  beforeEach(() => listen());
  afterEach(() => endpoint.close());

  it('executes the next call once after it has lost its sessions', async () => {
    const servers = await start({ shop: { url: endpoint.url } });
    const echo = await find(servers, 'shop_echo');
    await echo.execute({ text: 'one' }, createToolContext());
    endpoint.forgetSessions();
    expect(await echo.execute({ text: 'two' }, createToolContext())).toEqual({ context: 'two' });
    expect(fixture.traces()).toEqual(['echo one', 'echo two']);
    expect(logged.join('\n')).toContain('The server does not know the session');
    expect(logged.at(-1)).toMatch(/^The MCP server shop is connected \{"tools":\d+\}$/);
  });

  it('executes the next call once after a restart on the same port', async () => {
    const servers = await start({ shop: { url: endpoint.url } });
    const echo = await find(servers, 'shop_echo');
    await restart();
    expect(await echo.execute({ text: 'two' }, createToolContext())).toEqual({ context: 'two' });
    expect(fixture.traces()).toEqual(['echo two']);
  });

  it('has its tools listed after a restart, without a call', async () => {
    await start({ shop: { url: endpoint.url } });
    await restart();
    await poll(() => endpoint.messages).toContain('tools/list');
  });

  it('that lost its sessions during a call causes a tool error, and no second execution', async () => {
    const servers = await start({ shop: { url: endpoint.url } });
    const work = await find(servers, 'shop_work');
    const working = work.execute({ ms: 60_000 }, createToolContext());
    const failed = expect(working).rejects.toThrow('lost during the call. The call may have');
    await poll(() => fixture.traces()).toEqual(['work']);
    await restart();
    await failed;
    const echo = await find(servers, 'shop_echo');
    expect(await echo.execute({ text: 'on' }, createToolContext())).toEqual({ context: 'on' });
    expect(fixture.traces()).toEqual(['work', 'echo on']);
  });

  it.each([400, 500])('keeps the session if a call is answered with %i', async (refusal) => {
    const servers = await start({ shop: { url: endpoint.url } });
    const echo = await find(servers, 'shop_echo');
    endpoint.onCall = (response) => void response.writeHead(refusal).end('too long');
    await expect(echo.execute({ text: 'x' }, createToolContext())).rejects.toThrow('too long');
    endpoint.onCall = undefined;
    expect(await echo.execute({ text: 'y' }, createToolContext())).toEqual({ context: 'y' });
    expect(endpoint.messages.filter((method) => method === 'initialize')).toHaveLength(1);
  });
});

it('never repeats a call that may have been executed before the session was lost', async () => {
  const endpoint = await Endpoint.listen({ asks: 'during', trace: fixture.trace });
  endpoint.unknownSession = 400;
  try {
    const servers = await start({ shop: { url: endpoint.url } });
    const echo = await find(servers, 'shop_echo');
    let executed = 0;
    endpoint.onCall = (response) => {
      executed += 1;
      endpoint.forgetSessions();
      response.writeHead(400).end('it broke');
    };
    await expect(echo.execute({ text: 'x' }, createToolContext())).rejects.toThrow(
      'may have taken',
    );
    expect(executed).toBe(1);
    endpoint.onCall = undefined;
    expect(await echo.execute({ text: 'y' }, createToolContext())).toEqual({ context: 'y' });
  } finally {
    await endpoint.close();
  }
});

it('waits for an endpoint that is down when a tool is called', async () => {
  const before = await Endpoint.listen({ asks: 'instead', trace: fixture.trace });
  const { url } = before;
  const servers = await start({ shop: { url } });
  const echo = await find(servers, 'shop_echo');
  await before.close();
  const calling = echo.execute({ text: 'late' }, createToolContext());
  await poll(() => logged.join('\n')).toContain('is not connected');
  const options = { asks: 'instead', trace: fixture.trace } as const;
  const endpoint = await Endpoint.listen(options, Number(new URL(url).port));
  try {
    expect(await calling).toEqual({ context: 'late' });
  } finally {
    await endpoint.close();
  }
});

it('waits for a server that is down, and provides its tools once it is connected', async () => {
  const before = await Endpoint.listen({ asks: 'during', trace: fixture.trace });
  const { url } = before;
  await before.close();
  const kinds = { echo: { text: 'path' as const } };
  const servers = await start({ shop: { url, kinds } });
  expect(servers.list(everyone)).toEqual([]);
  // A run may name it already; the call waits for it for a moment.
  const awaited = servers.find('shop_echo', everyone);
  expect(awaited).toMatchObject({
    allowedByDefault: false,
    idempotent: false,
    onUnknown: 'ask',
    kinds: { text: 'path' },
  });
  const calling = awaited?.execute({ text: 'late' }, createToolContext());
  const wrong = awaited?.execute({ text: 5 }, createToolContext());
  const unknown = servers.find('shop_nothing', everyone)?.execute({}, createToolContext());
  const failed = expect(Promise.all([wrong, unknown])).rejects.toThrow();
  const endpoint = await Endpoint.listen(
    { asks: 'during', trace: fixture.trace },
    Number(new URL(url).port),
  );
  try {
    expect(await calling).toEqual({ context: 'late' });
    await failed;
    await expect(wrong).rejects.toThrow('Invalid arguments: text');
    await expect(unknown).rejects.toThrow('The MCP server shop has no such tool');
    expect(servers.find('shop_nothing', everyone)).toBeUndefined();
  } finally {
    await endpoint.close();
  }
});

it('logs that a server has not responded when the start does not wait any longer', async () => {
  const sleep = (_ms: number, signal?: AbortSignal) => systemClock.sleep(1, signal);
  const clock = { ...systemClock, now: () => systemClock.now(), sleep };
  await start({ slow: fixture.hostile('silent') }, { clock });
  expect(logged).toEqual([
    expect.stringContaining('The MCP server slow is not connected: It has not responded yet'),
  ]);
});

it('follows no redirect', async () => {
  const asked: string[] = [];
  const elsewhere: McpOptions['fetch'] = async (url) => {
    asked.push(url.toString());
    return new Response(null, { status: 307, headers: { location: 'http://10.0.0.1/mcp' } });
  };
  await start({ shop: { url: 'http://127.0.0.1:9/mcp' } }, { fetch: elsewhere });
  await poll(() => logged.length).toBeGreaterThan(0);
  expect(new Set(asked)).toEqual(new Set(['http://127.0.0.1:9/mcp']));
});

it('trusts annotations only if the operator says so', async () => {
  const program = fixture.program('during');
  const servers = await start({
    none: { ...program, tools: ['look', 'echo'] },
    said: { ...program, tools: ['look', 'echo'], readOnly: 'annotated', idempotent: ['echo'] },
    all: { ...program, tools: ['look', 'echo'], idempotent: true },
  });
  await find(servers, 'all_echo');
  const trust = (name: string) => {
    const tool = servers.find(name, everyone);
    return [tool?.allowedByDefault, tool?.idempotent];
  };
  expect(trust('none_look')).toEqual([false, false]);
  expect(trust('said_look')).toEqual([true, true]);
  expect(trust('said_echo')).toEqual([false, true]);
  expect(trust('all_look')).toEqual([false, true]);
  expect(servers.find('said_look', (server) => server !== 'said')).toBeUndefined();
  expect(servers.list((server) => server === 'none').map(({ name }) => name)).toEqual([
    'none_echo',
    'none_look',
  ]);
});

it('lists the tools of a server regularly, and reconnects if it is gone', async () => {
  const endpoint = await Endpoint.listen({ asks: 'during', trace: fixture.trace });
  const servers = await start(
    { shop: { url: endpoint.url } },
    { timings: { ...timings, refreshIntervalMs: 50 } },
  );
  await find(servers, 'shop_echo');
  const count = endpoint.requests.length;
  await poll(() => endpoint.requests.length).toBeGreaterThan(count + 1);
  expect(logged).toEqual([]);
  await endpoint.close();
  await poll(() => logged.join('\n')).toContain('The MCP server shop is not connected');
});

describe('a program that exits at its start', () => {
  const crash = (env = {}) => ({
    command: process.execPath,
    args: ['-e', 'console.error("one\\ntwo"); process.exit(7)'],
    env,
  });
  const shortWait = { timings: { ...timings, timeoutMs: 20 } };

  it('is reported once with its reason, and its error output as lines', async () => {
    const servers = await start({ shop: crash() }, shortWait);
    const reason = 'The MCP program exited with code 7';
    expect(servers.status(everyone)).toEqual([
      { name: 'shop', connected: false, problem: reason, tools: 0, warnings: [] },
    ]);
    expect(logged).toEqual([
      `The MCP server shop is not connected: ${reason}. Relay retries; check mcpServers.shop in relay.config {"output":"one\\ntwo"}`,
    ]);
  });

  it('fails the calls of its tools with that reason, without an approval', async () => {
    const servers = await start({ shop: { ...crash(), readOnly: ['look'] } }, shortWait);
    const reason = 'The MCP server shop is not connected: The MCP program exited with code 7';
    const look = servers.find('shop_look', everyone);
    expect(look?.allowedByDefault).toBe(true);
    await expect(look?.execute({}, createToolContext())).rejects.toThrow(reason);
    const echo = servers.find('shop_echo', everyone);
    expect(echo?.allowedByDefault).toBe(false);
    expect(echo?.unavailable?.()).toBe(reason);
  });

  it('that does not exist is named', async () => {
    const servers = await start({ shop: { command: '/no/such-program' } });
    expect(servers.status(everyone)).toMatchObject([
      { problem: 'There is no program /no/such-program' },
    ]);
  });
});

it('warns of names that the server does not offer, with the nearest', async () => {
  const servers = await start(
    {
      shop: {
        ...fixture.program('during'),
        readOnly: ['shop_look'],
        idempotent: ['ecko'],
        kinds: { unlike: {} },
      },
    },
    { agents: [{ name: 'clerk', tools: ['shop_echoo', 'shop_look', 'other_x'] }] },
  );
  await find(servers, 'shop_echo');
  const missing = 'which the MCP server shop does not offer';
  expect(servers.status(everyone)[0]?.warnings).toEqual([
    `mcpServers.shop.readOnly names the tool shop_look, ${missing}; did you mean look?`,
    `mcpServers.shop.idempotent names the tool ecko, ${missing}; did you mean echo?`,
    `mcpServers.shop.kinds names the tool unlike, ${missing}; it offers echo, look, fail, die, show, work, fit, measure and 2 more`,
    `The agent clerk names the tool shop_echoo, ${missing}; did you mean shop_echo?`,
  ]);
  expect(logged).toHaveLength(4);
});

it('runs no tool without approval whose qualified name only resembles that of a read-only one', async () => {
  const find = async () => ({ allowedByDefault: false }) as Tool;
  const config = { url: 'http://127.0.0.1:9/mcp', readOnly: ['a.b'] };
  const unavailable = () => undefined;
  const tool = createPendingTool({ name: 'shop_a_b', server: 'shop', config, unavailable, find });
  await expect(tool.execute({}, createToolContext())).rejects.toThrow('is not the tool that');
});
