/** Whatever a server does, it is at most a tool error. */
import { systemClock } from '@relay/core';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { requiresLinux } from '../../../../test/support/requires.ts';
import { isAlive, McpFixture } from '../../../../test/support/mcp/fixture.ts';
import { createToolContext } from '../support/tool-context.ts';
import { usualPauses } from '../../src/mcp/link.ts';
import { McpServers } from '../../src/mcp/mcp-servers.ts';
import { qualifiedName } from '../../src/mcp/tool-names.ts';

let scene: McpFixture;
let servers: McpServers | undefined;
let logged: string[];
beforeEach(() => {
  scene = new McpFixture();
  logged = [];
});
afterEach(async () => {
  await servers?.stop();
  scene.dispose();
});

const everyone = () => true;
/** The machine may be busy. */
const poll = <Value>(look: () => Value) => expect.poll(look, { timeout: 15_000 });

async function start(how: string, more: { timeoutMs?: number; connectTimeoutMs?: number } = {}) {
  const log = (message: string, fields = {}) => logged.push(`${message} ${JSON.stringify(fields)}`);
  servers = new McpServers({
    servers: { odd: { ...scene.hostile(how), ...more } },
    version: '1',
    fetch,
    env: { PATH: process.env['PATH'] },
    homes: scene.dir,
    cwd: scene.dir,
    clock: systemClock,
    log: { warn: log, error: log },
    isTaken: (name) => name === 'odd_taken',
    pauses: { ...usualPauses, firstMs: 5, mostMs: 50, timeoutMs: 1_000 },
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
  it('with odd tools brings those that can be used, under names that every provider takes', async () => {
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
    ]) {
      expect(logged.join('\n')).toContain(left);
    }
  });

  it('whose schemas have no bottom is not connected', async () => {
    await start('abyss');
    expect(names()).toEqual([]);
    expect(logged).toHaveLength(1);
  });

  it('with thousands of tools brings some of them', async () => {
    await start('many');
    expect(names()).toHaveLength(256);
    expect(logged.join('\n').length).toBeLessThan(10_000);
  });

  it('whose list never ends is not connected, and says so', async () => {
    await start('endless-pages');
    expect(names()).toEqual([]);
    await expect(call()).rejects.toThrow('The MCP server odd is not connected');
  });

  it('that writes rubbish between its words is understood, and its rubbish an error', async () => {
    await start('rubbish', { timeoutMs: 500 });
    await expect(call()).rejects.toThrow(/The MCP server odd/);
  });

  it('that sends a line without end is ended and started again', async () => {
    await start('endless-line');
    await expect(call()).rejects.toThrow(/MCP server odd/);
    await poll(() => logged.join('\n')).toContain('a line of over');
    await poll(names).toContain('odd_go');
    await poll(() => scene.traces().filter((line) => line === 'initialize').length).toBe(2);
  });

  it('that makes noise all the time holds nobody up, and is understood in spite of it', async () => {
    await start('noise');
    let turns = 0;
    const turning = setInterval(() => (turns += 1), 5);
    expect(await call()).toEqual({ context: 'through' });
    clearInterval(turning);
    expect(turns).toBeGreaterThan(10);
  });

  it('that answers with too much is cut short', async () => {
    await start('huge');
    const { context = '' } = await call();
    expect(context.length).toBeLessThan(61_000);
    expect(context).toContain('1940000 characters are left out');
  });

  it('that asks something of its own accord is shown to nobody', async () => {
    await start('stranger');
    const asked: unknown[] = [];
    const ask = async (question: unknown) => void asked.push(question);
    await call('odd_go', createToolContext());
    expect(await call('odd_go', createToolContext({ ask: ask as never }))).toEqual({ context: '' });
    expect(asked.length).toBeLessThanOrEqual(1);
  });

  it('that fails with too many words is cut short', async () => {
    await start('long-error');
    const error = await call().then(
      () => undefined,
      (thrown: Error) => thrown,
    );
    expect(error?.message).toContain('characters are left out');
    expect(error?.message.length).toBeLessThan(5_000);
  });

  it('that asks late for a call that was given up asks nobody else, and is begun anew', async () => {
    await start('asks-late');
    const stop = new AbortController();
    const first = call('odd_go', createToolContext({ runId: 'first', signal: stop.signal }));
    await poll(() => scene.traces()).toContain('called');
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
    await poll(() => scene.traces().filter((line) => line === 'initialize').length).toBe(2);
    expect(logged).toEqual([]);
  });

  it('that ends when it is asked what it does not know is spoken to in the old way', async () => {
    await start('exits-on-probe');
    expect(names()).toEqual(['odd_go']);
    expect(scene.traces()).toEqual(['initialize']);
  });

  it('that ends at once is tried again, ever more slowly, and told in one line', async () => {
    await start('ends-at-once');
    await poll(() => scene.traces().length).toBeGreaterThan(3);
    expect(logged).toHaveLength(1);
    expect(logged[0]).toContain('Ended with exit code 7: the config is missing');
    await expect(call('odd_whatever')).rejects.toThrow('The MCP server odd is not connected');
  });

  it('that never answers holds up neither the start nor the end', async () => {
    await start('silent', { connectTimeoutMs: 300 });
    expect(names()).toEqual([]);
    await poll(() => logged.join('\n')).toContain('It did not answer within 300 ms');
  });

  it('that clings on is ended, with what it has started', requiresLinux(), async () => {
    await start('clings');
    await poll(() => scene.traces().some((line) => line.startsWith('pids'))).toBe(true);
    const line = scene.traces().find((found) => found.startsWith('pids')) ?? '';
    const pids = line.split(' ').slice(1).map(Number);
    expect(pids.map(isAlive)).toEqual([true, true]);
    await servers?.stop();
    await poll(() => pids.map(isAlive)).toEqual([false, false]);
  });

  it('that is not there is told in one line', async () => {
    const log = (message: string, fields = {}) =>
      logged.push(`${message} ${JSON.stringify(fields)}`);
    servers = new McpServers({
      servers: { odd: { command: 'no-such-program-anywhere' } },
      version: '1',
      fetch,
      env: {},
      homes: scene.dir,
      cwd: scene.dir,
      clock: systemClock,
      log: { warn: log, error: log },
      isTaken: () => false,
    });
    await servers.start();
    expect(logged).toEqual([expect.stringContaining('no-such-program-anywhere ENOENT')]);
  });
});
