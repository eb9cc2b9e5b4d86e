/** `relay dev`: a server that restarts when its configuration changes. */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { relayBin } from '../support/cli.ts';

let dir: string;
let dev: ChildProcess;
let started: ChildProcess[] = [];
let said = '';
const write = (name: string, text: string) => writeFileSync(join(dir, name), text);
const starts = () => said.match(/listening on (\S+)/g)?.length ?? 0;
/** A busy machine can be slow. */
const polled = { timeout: 50_000 };
const agents = (text: string) => `export default { agents: [${text}] };`;

function environment() {
  const { OPENAI_API_KEY: _, GEMINI_API_KEY: _2, ...others } = process.env;
  return { cwd: dir, env: { ...others, RELAY_API_KEY: '', XDG_STATE_HOME: dir } };
}

/** The output of a command in the folder of the project. */
async function relay(...args: string[]): Promise<string> {
  const run = promisify(execFile);
  return (await run(process.execPath, [relayBin, ...args], environment())).stdout;
}

function start(...args: string[]): void {
  dev = spawn(process.execPath, [relayBin, 'dev', '--port', '0', ...args], environment());
  started.push(dev);
  for (const stream of [dev.stdout, dev.stderr]) {
    stream?.on('data', (chunk: Buffer) => (said += chunk.toString()));
  }
}

beforeEach(() => {
  said = '';
  dir = mkdtempSync(join(tmpdir(), 'relay-dev-'));
});
afterEach(async () => {
  await Promise.all(started.map(end));
  started = [];
  rmSync(dir, { recursive: true });
});

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = new Promise((resolve) => child.once('exit', resolve));
  child.kill('SIGTERM');
  await exited;
}

test('relay dev restarts for a change of the configuration or of a file that it imports', async () => {
  mkdirSync(join(dir, 'agents'));
  write('agents/one.ts', "export const one = { name: 'one', instructions: 'Help.' };");
  write('relay.config.ts', `import { one } from './agents/one.ts';\n${agents('one')}`);
  start();
  await expect.poll(starts, polled).toBe(1);
  write('agents/one.ts', "export const one = { name: 'two', instructions: 'Help more.' };");
  await expect.poll(starts, polled).toBe(2);
  expect(said).toContain('agents/one.ts has changed: the server restarts');
  const move = (from: string, to: string) => renameSync(join(dir, from), join(dir, to));
  move('relay.config.ts', 'elsewhere.ts');
  await expect
    .poll(() => said, polled)
    .toContain('relay.config.ts is gone: the server runs without its agents and tools');
  expect(starts()).toBe(3);
  move('elsewhere.ts', 'relay.config.mts');
  await expect.poll(starts, polled).toBe(4);
  expect(said).toContain('relay.config.mts has changed: the server restarts');
}, 180_000);

test('relay dev waits for a change after a mistake in the configuration, and restarts after a crash', async () => {
  write('relay.config.ts', "import './missing.ts';\nexport default {};");
  start();
  await expect.poll(() => said, polled).toContain('Waiting for a change of the configuration');
  expect(said).toContain('missing.ts');
  write('missing.ts', 'export {};');
  await expect.poll(starts, polled).toBe(1);
  write('relay.config.ts', 'process.exit(3);');
  await expect
    .poll(() => said, polled)
    .toContain('The server ended with exit code 3 before it was listening. Waiting for a change');
  write(
    'relay.config.ts',
    `import { existsSync, rmSync } from 'node:fs';
    const take = (name) => existsSync(name) && (rmSync(name), true);
    setInterval(() => {
      if (take('throw')) throw new Error('Late');
      if (take('exit')) process.exit(0);
    }, 20);
    export default {};`,
  );
  await expect.poll(starts, polled).toBe(2);
  write('throw', '');
  await expect.poll(starts, polled).toBe(3);
  expect(said).toContain('The server crashed (exit code 1): it restarts\n');
  write('exit', '');
  await expect.poll(starts, polled).toBe(4);
  expect(said).toContain('The server crashed (exit code 0): it restarts in 1 s\n');
  const pid = () => said.match(/(?<=pid +)\d+/g)?.[3];
  await expect.poll(pid, polled).toBeDefined();
  const code = new Promise((resolve) => dev.once('exit', resolve));
  process.kill(Number(pid()), 'SIGTERM');
  expect(await code).toBe(0);
}, 180_000);

test('relay dev reads .env, names the provider keys in it, and notices its changes', async () => {
  write('.env', 'OPENAI_API_KEY=sk-from-the-file-0001\n');
  start('--data-dir', 'data');
  await expect.poll(starts, polled).toBe(1);
  await expect
    .poll(() => said, polled)
    .toContain('Provider keys from the environment: openai (OPENAI_API_KEY)');
  write('.env', 'OPENAI_API_KEY=sk-from-the-file-0001\nGEMINI_API_KEY=sk-from-the-file-0002\n');
  await expect.poll(() => said, polled).toContain('google (GEMINI_API_KEY)');
  expect(said).not.toContain('sk-from');
}, 180_000);

test('relay dev gives provider keys of .env to no server that other machines reach', async () => {
  write('.env', 'ANTHROPIC_API_KEY=sk-ant-0001\n');
  start('--host', '0.0.0.0');
  await expect.poll(starts, polled).toBe(1);
  expect(said).toContain('Provider keys from the environment are not used, because other machines');
  expect(said).not.toContain('anthropic (ANTHROPIC_API_KEY)');
}, 60_000);

test.each(['SIGTERM', 'SIGINT'] as const)(
  'relay dev stops the server at %s',
  async (signal) => {
    start();
    await expect.poll(starts, polled).toBe(1);
    const url = /listening on (\S+)/.exec(said)?.[1] ?? '';
    const code = new Promise((resolve) => dev.once('exit', resolve));
    dev.kill(signal);
    expect(await code).toBe(0);
    await expect(fetch(`${url}/health`)).rejects.toThrow();
  },
  180_000,
);

test('relay dev waits for a running tool before it restarts, and a second signal ends it at once', async () => {
  const server = new URL('../../packages/server/src/index.ts', import.meta.url).href;
  const config = (text: string) => `
    import { existsSync, writeFileSync } from 'node:fs';
    import { defineTool } from '${server}';
    const refund = defineTool({
      name: 'refund', description: '${text}', schema: { type: 'object' }, allowedByDefault: true,
      async execute() {
        writeFileSync('started', '');
        while (!existsSync('finish')) await new Promise((resolve) => setTimeout(resolve, 20));
        return 'refunded';
      },
    });
    export default { agents: [{ name: 'shop', model: 'demo', instructions: 'Help.', tools: [refund] }] };`;
  write('relay.config.ts', config('One'));
  start();
  await expect.poll(starts, polled).toBe(1);
  const request = (path: string, init: RequestInit = {}) => {
    const url = said
      .match(/listening on (\S+)/g)
      ?.at(-1)
      ?.slice('listening on '.length);
    const key = readFileSync(join(dir, '.relay/first-key'), 'utf8').trim();
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
    return fetch(`${url}${path}`, { ...init, headers });
  };
  const body = JSON.stringify({ agent: 'shop', input: 'use refund {}' });
  const begin = async () => {
    rmSync(join(dir, 'started'), { force: true });
    const response = await request('/v1/runs', { method: 'POST', body });
    await expect.poll(() => existsSync(join(dir, 'started')), polled).toBe(true);
    return response.headers.get('x-run-id') ?? '';
  };
  const statusOf = async (id: string) =>
    ((await (await request(`/v1/runs/${id}`)).json()) as { status: string }).status;
  const first = await begin();
  write('relay.config.ts', config('Two'));
  await expect
    .poll(() => said, polled)
    .toContain(`Waiting up to 30 s for 1 call to finish: refund (run ${first}).`);
  expect(await relay('status')).toContain('stopping: it waits for its running tools');
  write('relay.config.ts', config('Three'));
  write('finish', '');
  await expect.poll(starts, polled).toBe(2);
  await expect.poll(() => statusOf(first), polled).toBe('completed');
  rmSync(join(dir, 'finish'));
  const second = await begin();
  dev.kill('SIGTERM');
  await expect.poll(() => said, polled).toContain(`refund (run ${second}).`);
  const ended = new Promise((resolve) => dev.once('exit', resolve));
  await new Promise((resolve) => setTimeout(resolve, 1_100));
  dev.kill('SIGTERM');
  await ended;
  expect(existsSync(join(dir, 'finish'))).toBe(false);
}, 180_000);

test('relay dev waits for a port and a data folder that another server uses', async () => {
  start();
  await expect.poll(starts, polled).toBe(1);
  const first = dev;
  const { port } = new URL(/listening on (\S+)/.exec(said)?.[1] ?? '');
  start('--port', port);
  await expect
    .poll(() => said, polled)
    .toMatch(
      /The data folder .* is in use by another server, with the pid .*Waiting until it is free/,
    );
  start();
  await expect
    .poll(() => said, polled)
    .toMatch(/Another Relay server is using .*Waiting until it is free/);
  await end(dev);
  await end(first);
  await expect.poll(starts, polled).toBe(2);
}, 180_000);

test('relay dev goes on without a reader of its output', async () => {
  write(
    'relay.config.ts',
    `import { existsSync, writeFileSync } from 'node:fs';
    let lines = 0;
    setInterval(() => {
      if (!existsSync('talk')) return;
      console.log('Still here');
      console.error('Still here');
      writeFileSync('lines', String((lines += 1)));
    }, 20);
    export default {};`,
  );
  start();
  await expect.poll(starts, polled).toBe(1);
  dev.stdout?.destroy();
  dev.stderr?.destroy();
  write('talk', '');
  const lines = () =>
    Number(existsSync(join(dir, 'lines')) && readFileSync(join(dir, 'lines'), 'utf8'));
  await expect.poll(lines, polled).toBeGreaterThan(20);
  expect(await relay('status')).toContain('version');
}, 180_000);
