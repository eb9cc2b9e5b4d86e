import {
  existsSync,
  lstatSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createServer, type Server } from 'node:net';
import { once } from 'node:events';
import { spawn } from 'node:child_process';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { kindOfSecret } from '../src/secrets/keys.ts';
import { registerServer } from '../src/registration.ts';
import { serve, type RunningServer } from '../src/serve.ts';

let dataDir: string;
const serving: RunningServer[] = [];

beforeEach(() => {
  dataDir = mkdtempSync(join(tmpdir(), 'relay-serve-'));
});

afterEach(async () => {
  for (const each of serving.splice(0)) await each.stop();
  rmSync(dataDir, { recursive: true, force: true });
});

interface StartOptions {
  readonly port?: number;
  readonly terminal?: boolean;
  readonly said?: string[];
  readonly env?: Readonly<Record<string, string>>;
}

async function start(options: StartOptions = {}) {
  const { said = [] } = options;
  const one = await serve({
    env: {
      ...options.env,
      RELAY_DATA_DIR: dataDir,
      RELAY_PORT: String(options.port ?? 0),
      RELAY_LOG_LEVEL: 'warn',
    },
    cwd: dataDir,
    terminal: options.terminal ?? false,
    print: (line) => said.push(line),
  });
  serving.push(one);
  return { url: one.url, said };
}

async function takenPort(): Promise<{ port: number; server: Server }> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  return { port: typeof address === 'object' ? (address?.port ?? 0) : 0, server };
}

function keyIn(said: readonly string[]): string | undefined {
  return said.map((line) => line.trim()).find((line) => kindOfSecret(line) === 'api');
}

describe('the first start', () => {
  it('prints its URL and writes its key to a file that only the owner can read', async () => {
    const { url, said } = await start();
    const file = join(dataDir, 'first-key');
    expect(said).toEqual([
      `The first API key is in ${file}`,
      `Relay is listening on ${url}`,
      `  console  ${url}/console/`,
      `  data     ${dataDir} (SQLite)`,
      `  pid      ${process.pid}`,
    ]);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    const apiKey = readFileSync(file, 'utf8').trim();
    expect(keyIn(said)).toBeUndefined();
    const response = await fetch(`${url}/models`, {
      headers: { authorization: `Bearer ${apiKey}` },
    });
    expect(response.status).toBe(200);
  });

  it('says which commands run in a sandbox if there is a workspace for them', async () => {
    const workspace = mkdtempSync(join(tmpdir(), 'relay-workspace-'));
    try {
      const { said } = await start({ env: { RELAY_WORKSPACE: workspace } });
      expect(said.at(-1)).toMatch(
        /^ {2}sandbox {2}(?:No command runs|Commands .* run) in a sandbox/,
      );
    } finally {
      rmSync(workspace, { recursive: true });
    }
  });

  it('prints its key on a terminal and writes it to no file', async () => {
    const { url, said } = await start({ terminal: true });
    const response = await fetch(`${url}/models`, {
      headers: { authorization: `Bearer ${keyIn(said)}` },
    });
    expect(response.status).toBe(200);
    expect(readdirSync(dataDir)).not.toContain('first-key');
  });

  it('writes a key for the CLI on a terminal, whose holder is the same person', async () => {
    const { url, said } = await start({ terminal: true });
    const file = join(dataDir, 'cli-key');
    expect(statSync(file).mode & 0o777).toBe(0o600);
    const current = async (apiKey: string | undefined) => {
      const headers = { authorization: `Bearer ${apiKey}` };
      const response = await fetch(`${url}/v1/keys/current`, { headers });
      return (await response.json()) as { id: string; scopes: string[] };
    };
    const printed = await current(keyIn(said));
    const own = await current(readFileSync(file, 'utf8').trim());
    expect(own).toMatchObject({ name: 'cli', owner: printed.id, scopes: printed.scopes });
    await serving.pop()?.stop();
    rmSync(file);
    await start({ terminal: true });
    expect(existsSync(file)).toBe(false);
  });

  it('replaces an open file or a symbolic link with the key for the CLI', async () => {
    const file = join(dataDir, 'cli-key');
    const target = join(dataDir, 'target');
    writeFileSync(target, 'kept', { mode: 0o644 });
    symlinkSync(target, file);
    await start({ terminal: true });
    expect(lstatSync(file).isFile()).toBe(true);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(readFileSync(target, 'utf8')).toBe('kept');
  });

  it('names a console that a browser can open if it listens on all addresses', async () => {
    const { url, said } = await start({ terminal: true, env: { RELAY_HOST: '0.0.0.0' } });
    const { port } = new URL(url);
    expect(said).toContain(`  console  http://127.0.0.1:${port}/console/`);
    expect(said.join('\n')).toContain(`http://127.0.0.1:${port}/console/login#`);
  });

  it('writes no key for the CLI without a terminal', async () => {
    await start();
    expect(readdirSync(dataDir)).not.toContain('cli-key');
  });

  it('prints a link on a terminal that signs in to the console once', async () => {
    const { url, said } = await start({ terminal: true });
    const link = said.map((line) => line.trim()).find((line) => line.includes('#'));
    expect(link).toMatch(new RegExp(`^${url}/console/login#relay_link_[0-9a-f]{72}$`));
    const login = () =>
      fetch(`${url}/console/login`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ link: new URL(link ?? '').hash.slice(1) }),
      });
    const first = await login();
    expect(await first.json()).toMatchObject({ kind: 'console', name: 'bootstrap' });
    expect((await login()).status).toBe(401);
  });

  it.each([
    ['relay', {}],
    ['npx relay', { npm_lifecycle_event: 'dev' }],
  ])('names the command as a shell finds it: %s', async (command, env) => {
    const { said } = await start({ terminal: true, env });
    expect(said.join('\n')).toContain(`Try "${command} chat"`);
  });

  it.each(['/health', '/ready'])('answers %s only after the key is written', async (path) => {
    const { port, server } = await takenPort();
    server.close();
    await once(server, 'close');
    let early: Promise<string> | undefined;
    const { env } = process;
    const running = await serve({
      env: { PATH: env['PATH'], RELAY_DATA_DIR: dataDir, RELAY_PORT: String(port) },
      cwd: dataDir,
      terminal: false,
      print() {
        early ??= fetch(`http://127.0.0.1:${port}${path}`).then(
          () => 'answered',
          () => 'refused',
        );
      },
    });
    serving.push(running);
    expect(await early).toBe('refused');
    expect((await fetch(`${running.url}${path}`)).status).toBe(200);
    expect(existsSync(join(dataDir, 'first-key'))).toBe(true);
  });

  it('is the only one that shows a key', async () => {
    await start({ terminal: true });
    await serving.pop()?.stop();
    const { said } = await start({ terminal: true });
    expect(keyIn(said)).toBeUndefined();
    expect(said[0]).toMatch(/^Relay is listening on/);
  });

  it('creates nothing and shows no key if its port is in use', async () => {
    const { port, server } = await takenPort();
    const said: string[] = [];
    await expect(start({ port, terminal: true, said })).rejects.toMatchObject({
      code: 'EADDRINUSE',
    });
    server.close();
    expect(said).toEqual([]);
    expect(readdirSync(dataDir)).toEqual([]);
  });

  it('names the Relay server that uses its port', async () => {
    const { port, server } = await takenPort();
    const env = { XDG_STATE_HOME: dataDir };
    const other = { url: `http://127.0.0.1:${port}`, dataDir: '/srv/data', cwd: '/srv/app' };
    const unregister = registerServer(env, other);
    await expect(start({ port, env })).rejects.toThrow(
      `Port ${port} is in use by another Relay server: pid ${process.pid}, started in /srv/app, data in /srv/data. Stop it`,
    );
    unregister();
    server.close();
  });
});

describe('an uncaught exception', () => {
  it('exits with one redacted line in the log', async () => {
    const config = join(dataDir, 'broken.config.mjs');
    const secret = 'sk-abcdefghijklmnopqrstuvwx';
    writeFileSync(
      config,
      `const timer = setInterval(() => {
        if (process.listenerCount('uncaughtException') === 0) return;
        clearInterval(timer);
        throw new Error('no more ${secret}');
      }, 5);
      export default {};`,
    );
    const main = fileURLToPath(new URL('../src/main.ts', import.meta.url));
    const env = { RELAY_DATA_DIR: dataDir, RELAY_PORT: '0', RELAY_CONFIG: config };
    const child = spawn(process.execPath, [main], {
      env: { ...process.env, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let said = '';
    child.stderr.on('data', (chunk) => (said += String(chunk)));
    child.stdout.resume();
    const [code] = (await once(child, 'close')) as [number | null];
    expect(code).toBe(1);
    expect(said).not.toContain(secret);
    const line = said.split('\n').find((each) => each.includes('Uncaught exception')) ?? '{}';
    expect(JSON.parse(line)).toMatchObject({
      level: 'error',
      error: { message: 'no more [redacted]', stack: expect.stringContaining('broken.config') },
    });
  });
});

describe('a start that fails', () => {
  it('unlocks the data folder', async () => {
    const { port, server } = await takenPort();
    await expect(start({ port })).rejects.toMatchObject({ code: 'EADDRINUSE' });
    server.close();
    await expect(start()).resolves.toHaveProperty('url');
  });

  it('is explained in one line if another server uses the folder', async () => {
    await start();
    const error = await start().catch((thrown: unknown) => thrown);
    expect((error as Error).message).toContain(dataDir);
    expect((error as Error).message.split('\n')).toHaveLength(1);
  });

  it.each([
    ['a port that is taken', {}],
    ['a host that is none', { RELAY_HOST: 'no such host' }],
  ])('ends the process with one line for %s', async (_what, env) => {
    const { port, server } = await takenPort();
    const main = fileURLToPath(new URL('../src/main.ts', import.meta.url));
    const child = spawn(process.execPath, [main], {
      env: { ...process.env, RELAY_DATA_DIR: dataDir, RELAY_PORT: String(port), ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let complaint = '';
    child.stderr.on('data', (chunk) => (complaint += String(chunk)));
    child.stdout.resume();
    const [code] = (await once(child, 'close')) as [number | null];
    server.close();
    expect(code).toBe(1);
    expect(complaint.trimEnd()).toMatch(/^[^\n]+$/);
  });
});
