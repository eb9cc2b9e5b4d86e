import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { registerServer, runningServers } from '../src/registration.ts';
import { serve } from '../src/serve.ts';

let home: string;
let env: Record<string, string>;

beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'relay-registration-'));
  env = { XDG_STATE_HOME: home };
  onTestFinished(() => rmSync(home, { recursive: true, force: true }));
});

const folder = () => join(home, 'relay', 'servers');

const main = fileURLToPath(new URL('../src/main.ts', import.meta.url));

async function startServer(more: Record<string, string> = {}) {
  const dataDir = mkdtempSync(join(tmpdir(), 'relay-registered-'));
  const settings = { RELAY_DATA_DIR: dataDir, RELAY_PORT: '0', ...env, ...more };
  const child = spawn(process.execPath, [main], {
    env: { ...process.env, ...settings },
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const exited = once(child, 'exit');
  onTestFinished(async () => {
    child.kill('SIGKILL');
    await exited;
    rmSync(dataDir, { recursive: true, force: true });
  });
  let said = '';
  child.stdout.on('data', (chunk) => (said += String(chunk)));
  await expect.poll(() => said).toMatch(/listening on [^]*pid +\d+\n/);
  return {
    pid: child.pid,
    dataDir,
    url: /listening on (\S+)/.exec(said)?.[1],
    child,
    exited,
    said,
  };
}

describe('the registration of a running server', () => {
  it('names its process, URL and data folder, without a secret and for its owner alone', async () => {
    const { pid, url, dataDir, said } = await startServer();
    expect(runningServers(env)).toEqual([
      { pid, url, dataDir, cwd: process.cwd(), startedAt: expect.any(String) },
    ]);
    expect(said).toContain(`pid      ${pid}`);
    const path = join(folder(), `${pid}.json`);
    expect(statSync(path).mode & 0o777).toBe(0o600);
    const apiKey = readFileSync(join(dataDir, 'first-key'), 'utf8').trim();
    expect(readFileSync(path, 'utf8')).not.toContain(apiKey.slice(-20));
  });

  it('is one file per server; that of a stopped server is deleted', async () => {
    const [first, second] = [await startServer(), await startServer()];
    expect(runningServers(env).map(({ pid }) => pid)).toEqual([first.pid, second.pid]);
    first.child.kill('SIGTERM');
    await first.exited;
    expect(readdirSync(folder())).toEqual([`${second.pid}.json`]);
  });

  it('is ignored and deleted after kill -9', async () => {
    const { child, exited } = await startServer();
    child.kill('SIGKILL');
    await exited;
    expect(readdirSync(folder())).toHaveLength(1);
    expect(runningServers(env)).toEqual([]);
    expect(readdirSync(folder())).toEqual([]);
  });

  it.runIf(process.platform === 'linux')('is ignored if another process has its pid', () => {
    registerServer(env, { url: 'http://127.0.0.1:4000', dataDir: '/data', cwd: '/' });
    const path = join(folder(), `${process.pid}.json`);
    const registration = JSON.parse(readFileSync(path, 'utf8')) as { processStart: number };
    expect(runningServers(env)).toHaveLength(1);
    const earlier = { ...registration, processStart: registration.processStart - 1 };
    writeFileSync(path, JSON.stringify(earlier));
    expect(runningServers(env)).toEqual([]);
    expect(existsSync(path)).toBe(false);
  });

  it.each([
    ['http://0.0.0.0:4000', 'http://127.0.0.1:4000'],
    ['http://[::]:4000', 'http://[::1]:4000'],
    ['http://localhost:4000', 'http://localhost:4000'],
  ])('of a server that listens on %s has the URL %s', (url, reachable) => {
    registerServer(env, { url, dataDir: '/data', cwd: '/' });
    expect(runningServers(env)).toMatchObject([{ url: reachable }]);
  });

  it('is not required: the server starts without a home that it can write to', async () => {
    writeFileSync(join(home, 'file'), '');
    const { url } = await startServer({ XDG_STATE_HOME: join(home, 'file') });
    expect((await fetch(`${url}/health`)).status).toBe(200);
  });

  it('ends when the server stops, before its port is free', async () => {
    const dataDir = mkdtempSync(join(tmpdir(), 'relay-registered-'));
    onTestFinished(() => rmSync(dataDir, { recursive: true, force: true }));
    const settings = { ...env, RELAY_DATA_DIR: dataDir, RELAY_PORT: '0', RELAY_LOG_LEVEL: 'warn' };
    const print = () => undefined;
    const server = await serve({
      env: settings,
      cwd: dataDir,
      terminal: false,
      register: true,
      print,
    });
    expect(runningServers(env)).toMatchObject([{ url: server.url, cwd: dataDir }]);
    const stopped = server.stop();
    const isClosed = () =>
      fetch(`${server.url}/health`).then(
        () => false,
        () => true,
      );
    while (!(await isClosed()));
    expect(runningServers(env)).toEqual([]);
    await stopped;
  });

  const valid = {
    pid: process.pid,
    url: 'http://127.0.0.1:4000',
    dataDir: '/data',
    cwd: '/',
    startedAt: '2026-11-16T00:00:00.000Z',
    processStart: 0,
  };

  it.each([
    ['null', 'null'],
    ['no JSON', 'not JSON'],
    ['a list', '[]'],
    ['a registration without a URL', JSON.stringify({ ...valid, url: undefined })],
    ['a data folder that is no text', JSON.stringify({ ...valid, dataDir: 7 })],
    ['a start that is no text', JSON.stringify({ ...valid, startedAt: null })],
    ['a pid that is no number', JSON.stringify({ ...valid, pid: '1' })],
    ['the pid of a group of processes', JSON.stringify({ ...valid, pid: -1 })],
    ['an address of another machine', JSON.stringify({ ...valid, url: 'http://192.0.2.7:4000' })],
    ['a name', JSON.stringify({ ...valid, url: 'http://relay.example:4000' })],
    ['a name that looks local', JSON.stringify({ ...valid, url: 'http://127.relay.example:4000' })],
  ])('is ignored if it is %s', (_, content) => {
    registerServer(env, { url: 'http://127.0.0.1:4001', dataDir: '/data', cwd: '/' });
    const write = (text: string) => writeFileSync(join(folder(), '1.json'), text, { mode: 0o600 });
    write(JSON.stringify(valid));
    expect(runningServers(env)).toHaveLength(2);
    write(content);
    expect(runningServers(env)).toMatchObject([{ url: 'http://127.0.0.1:4001' }]);
  });

  it('is ignored if other users can change or read it, or if it is a symbolic link', () => {
    registerServer(env, { url: 'http://127.0.0.1:4000', dataDir: '/data', cwd: '/' });
    const path = join(folder(), `${process.pid}.json`);
    for (const mode of [0o604, 0o620]) {
      chmodSync(path, mode);
      expect(runningServers(env)).toEqual([]);
    }
    chmodSync(path, 0o600);
    expect(runningServers(env)).toHaveLength(1);
    renameSync(path, join(home, 'elsewhere'));
    symlinkSync(join(home, 'elsewhere'), path);
    expect(runningServers(env)).toEqual([]);
  });

  it.runIf(process.getuid?.() === 0)('is ignored if another user wrote it', () => {
    registerServer(env, { url: 'http://127.0.0.1:4000', dataDir: '/data', cwd: '/' });
    chownSync(join(folder(), `${process.pid}.json`), 12_345, 12_345);
    expect(runningServers(env)).toEqual([]);
  });
});
