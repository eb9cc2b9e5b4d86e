/** Whatever a server does, it is at most a tool error. */
import { systemClock } from '@relay/core';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { requiresLinux } from '../../../../test/support/requires.ts';
import { isAlive, McpFixture } from '../../../../test/support/mcp/fixture.ts';
import { createToolContext } from '../support/tool-context.ts';
import { defaultTimings, type RetryTimings } from '../../src/mcp/connection-supervisor.ts';
import { McpServers } from '../../src/mcp/mcp-servers.ts';
import { qualifiedName } from '../../src/mcp/tool-names.ts';

let fixture: McpFixture;
let servers: McpServers | undefined;
let logged: string[];
beforeEach(() => {
  fixture = new McpFixture();
  logged = [];
});
afterEach(async () => {
  await servers?.stop();
  fixture.dispose();
});

const everyone = () => true;
/** The machine may be busy. */
const poll = <Value>(look: () => Value) => expect.poll(look, { timeout: 15_000 });

async function start(
  how: string,
  more: { timeoutMs?: number; connectTimeoutMs?: number } = {},
  timings: Partial<RetryTimings> = {},
) {
  const log = (message: string, fields = {}) => logged.push(`${message} ${JSON.stringify(fields)}`);
  servers = new McpServers({
    servers: { odd: { ...fixture.hostile(how), ...more } },
    version: '1',
    fetch,
    env: { PATH: process.env['PATH'] },
    homes: fixture.dir,
    cwd: fixture.dir,
    clock: systemClock,
    log: { info: log, warn: log, error: log },
    isTaken: (name) => name === 'odd_taken',
    timings: { ...defaultTimings, initialDelayMs: 5, maxDelayMs: 50, timeoutMs: 1_000, ...timings },
  });
  await servers.start();
  return servers;
}

const names = () => servers?.list(everyone).map(({ name }) => name) ?? [];
const call = (name = 'odd_go', context = createToolContext()) => {
  const tool = servers?.find(name, everyone);
  if (tool === undefined) throw new Error(`There is no ${name}`);
  return tool.execute({}, context);
};

describe('a hostile or broken server', () => {
  it('with invalid tools provides the valid ones, under names that every provider accepts', async () => {
    await start('weird');
    const long = qualifiedName('odd', 'l'.repeat(200));
    expect(names().toSorted()).toEqual(
      ['odd_fine', long, qualifiedName('odd', 'ünïcode ☃')].toSorted(),
    );
    expect(names().every((name) => /^[a-zA-Z0-9_-]{1,64}$/.test(name))).toBe(true);
    expect(servers?.find('odd_fine', everyone)?.description.length).toBeLessThan(5_000);
    for (const left of [
      'odd_a_b: 2 tools',
      'odd_twice: 2 tools',
      'odd_remote: its schema',
      'odd_deep',
      'odd_task: it can be called only as an MCP task',
    ]) {
      expect(logged.join('\n')).toContain(left);
    }
  });

  it('has its omitted tools logged once, however often it is listed', async () => {
    await start('weird', {}, { refreshIntervalMs: 5 });
    await poll(() => fixture.traces().filter((line) => line === 'list').length).toBeGreaterThan(2);
    expect(logged.filter((line) => line.includes('odd_twice: 2 tools'))).toHaveLength(1);
  });

  it('whose schemas are nested too deep is not connected', async () => {
    await start('abyss');
    expect(names()).toEqual([]);
    expect(logged).toHaveLength(1);
  });

  it('with thousands of tools provides some of them', async () => {
    await start('many');
    expect(names()).toHaveLength(256);
    expect(logged.join('\n').length).toBeLessThan(10_000);
  });

  it('whose list never ends is not connected, and logs it', async () => {
    await start('endless-pages');
    expect(names()).toEqual([]);
    await expect(call()).rejects.toThrow('The MCP server odd is not connected');
  });

  it('that writes invalid lines between messages is understood', async () => {
    await start('rubbish', { timeoutMs: 500 });
    await expect(call()).rejects.toThrow(/The MCP server odd/);
  });

  it('that sends an endless line is restarted', async () => {
    await start('endless-line');
    await expect(call()).rejects.toThrow(/MCP server odd/);
    await poll(() => logged.join('\n')).toContain('a line of more than');
    await poll(names).toContain('odd_go');
    await poll(() => fixture.traces().filter((line) => line === 'initialize').length).toBe(2);
  });

  it('that writes noise all the time does not block others, and is understood', async () => {
    await start('noise');
    let turns = 0;
    const turning = setInterval(() => (turns += 1), 5);
    expect(await call()).toEqual({ context: 'through' });
    clearInterval(turning);
    expect(turns).toBeGreaterThan(10);
  });

  it('that returns too much text has it truncated', async () => {
    await start('huge');
    const { context = '' } = await call();
    expect(context.length).toBeLessThan(61_000);
    expect(context).toContain('1940000 characters are omitted');
  });

  it('that asks without a call has its question canceled', async () => {
    await start('stranger');
    const asked: unknown[] = [];
    const ask = async (question: unknown) => void asked.push(question);
    await call('odd_go', createToolContext());
    expect(await call('odd_go', createToolContext({ ask: ask as never }))).toEqual({ context: '' });
    expect(asked.length).toBeLessThanOrEqual(1);
  });

  it('that fails with a long message has it truncated', async () => {
    await start('long-error');
    const error = await call().then(
      () => undefined,
      (thrown: Error) => thrown,
    );
    expect(error?.message).toContain('characters are omitted');
    expect(error?.message.length).toBeLessThan(5_000);
  });

  it('that asks late for an abandoned call has its question canceled, and is reconnected', async () => {
    await start('asks-late');
    const stop = new AbortController();
    const first = call('odd_go', createToolContext({ runId: 'first', signal: stop.signal }));
    await poll(() => fixture.traces()).toContain('called');
    stop.abort(new Error('enough'));
    await expect(first).rejects.toThrow('enough');
    const asked: unknown[] = [];
    const ask = async (question: unknown) => {
      asked.push(question);
      return { size: 'M' };
    };
    const second = await call('odd_go', createToolContext({ runId: 'second', ask }));
    expect(second).toEqual({ context: '{"action":"cancel"}' });
    expect(asked).toEqual([]);
    await poll(() => fixture.traces().filter((line) => line === 'initialize').length).toBe(2);
    expect(logged).toEqual([]);
  });

  it('that exits on version negotiation is connected with the legacy protocol', async () => {
    await start('exits-on-probe');
    expect(names()).toEqual(['odd_go']);
    expect(fixture.traces()).toEqual(['initialize']);
  });

  it('that exits at once is restarted with growing pauses, and logged once', async () => {
    await start('ends-at-once');
    await poll(() => fixture.traces().length).toBeGreaterThan(3);
    expect(logged).toHaveLength(1);
    expect(logged[0]).toContain('The MCP program exited with code 7. Relay retries');
    expect(logged[0]).toContain('{"output":"the config is missing"}');
    await expect(call('odd_whatever')).rejects.toThrow('The MCP server odd is not connected');
  });

  it('that never responds delays neither start nor stop', async () => {
    await start('silent', { connectTimeoutMs: 300 });
    expect(names()).toEqual([]);
    await poll(() => logged.join('\n')).toContain('No response within 300 ms');
  });

  it('that clings on is ended, with what it has started', requiresLinux(), async () => {
    await start('clings');
    await poll(() => fixture.traces().some((line) => line.startsWith('pids'))).toBe(true);
    const line = fixture.traces().find((found) => found.startsWith('pids')) ?? '';
    const pids = line.split(' ').slice(1).map(Number);
    expect(pids.map(isAlive)).toEqual([true, true]);
    await servers?.stop();
    await poll(() => pids.map(isAlive)).toEqual([false, false]);
  });

  it('that does not exist is logged once', async () => {
    const log = (message: string, fields = {}) =>
      logged.push(`${message} ${JSON.stringify(fields)}`);
    servers = new McpServers({
      servers: { odd: { command: 'no-such-program-anywhere' } },
      version: '1',
      fetch,
      env: {},
      homes: fixture.dir,
      cwd: fixture.dir,
      clock: systemClock,
      log: { info: log, warn: log, error: log },
      isTaken: () => false,
    });
    await servers.start();
    expect(logged).toEqual([
      expect.stringContaining('There is no program no-such-program-anywhere'),
    ]);
  });
});
