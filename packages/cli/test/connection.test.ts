import { chmodSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { registerServer } from '@relay/server/registration';
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { clientFor, connectionOf, rejectedKey } from '../src/connection.ts';
import { installationOf } from '../src/local-server.ts';
import { runCli } from '../src/main.ts';
import { fakeEnvironment } from './support/environment.ts';

const apiKey = `relay_live_${'0'.repeat(72)}`;
const url = 'http://127.0.0.1:4321';
let dataDir: string;
let env: Record<string, string>;

function folder(): string {
  const dir = mkdtempSync(join(tmpdir(), 'relay-connection-'));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  return dir;
}

beforeEach(() => {
  dataDir = folder();
  env = { XDG_STATE_HOME: folder() };
});

const writeKey = (name: string) => writeFileSync(join(dataDir, name), apiKey, { mode: 0o600 });
const environment = (more: Record<string, string> = {}) =>
  fakeEnvironment({ env: { ...env, ...more } });
const keyAt = (to: string | undefined, more?: Record<string, string>) =>
  connectionOf(environment(more), { url: to }).apiKey;

/** This process plays the server. */
function register(at = url): () => void {
  const unregister = registerServer(env, { url: at, dataDir, cwd: dataDir });
  onTestFinished(unregister);
  return unregister;
}

describe('the URL of a server that does not run', () => {
  const urlIn = (cwd: string) => connectionOf({ ...environment(), cwd }, {}).url;

  it.each([
    ['RELAY_PORT=4807\n', 'http://127.0.0.1:4807'],
    ['RELAY_PORT=none\nRELAY_URL=http://example.com\n', 'http://127.0.0.1:4000'],
    [undefined, 'http://127.0.0.1:4000'],
  ])('has the port of .env in the current folder: %j', (text, expected) => {
    const cwd = folder();
    if (text !== undefined) writeFileSync(join(cwd, '.env'), text);
    expect(urlIn(cwd)).toBe(expected);
  });

  it.each(['.env', 'relay.config.ts', '.relay/relay.db'])(
    'is not that of a server elsewhere, if the current folder has %s',
    (name) => {
      const cwd = folder();
      register();
      expect(urlIn(cwd)).toBe(url);
      mkdirSync(join(cwd, '.relay'));
      writeFileSync(join(cwd, name), 'RELAY_PORT=4807\n');
      expect(() => urlIn(cwd)).toThrow(`The server of this folder, ${cwd}, is not running`);
      onTestFinished(registerServer(env, { url: 'http://127.0.0.1:4807', dataDir: cwd, cwd }));
      expect(urlIn(cwd)).toBe('http://127.0.0.1:4807');
    },
  );
});

describe('the key of a data folder', () => {
  it.each(['cli-key', 'first-key'])('in %s is sent to the server that uses the folder', (name) => {
    writeKey(name);
    register();
    expect(keyAt(undefined)).toBe(apiKey);
    expect(keyAt(url)).toBe(apiKey);
    expect(keyAt(undefined, { RELAY_DATA_DIR: dataDir })).toBe(apiKey);
    expect(keyAt(undefined, { RELAY_PORT: '4321' })).toBe(apiKey);
  });

  it('is not sent to another port or address', () => {
    writeKey('cli-key');
    register();
    for (const other of ['http://127.0.0.1:4322', 'http://[::1]:4321', 'http://127.0.0.2:4321']) {
      expect(keyAt(other)).toBeUndefined();
      expect(keyAt(other, { RELAY_DATA_DIR: dataDir })).toBeUndefined();
    }
    expect(keyAt(undefined, { RELAY_PORT: '4322', RELAY_DATA_DIR: dataDir })).toBeUndefined();
  });

  it('is sent to nothing if its server is stopped', () => {
    writeKey('cli-key');
    const unregister = register();
    unregister();
    const named = { RELAY_DATA_DIR: dataDir };
    expect(keyAt(url, named)).toBeUndefined();
    expect(keyAt(undefined, named)).toBeUndefined();
    const inProject = { ...environment(), cwd: join(dataDir, '..') };
    expect(connectionOf(inProject, {}).apiKey).toBeUndefined();
  });

  it('is not sent to a server with another data folder', () => {
    writeKey('cli-key');
    register();
    const other = folder();
    writeFileSync(join(other, 'cli-key'), apiKey, { mode: 0o600 });
    expect(keyAt(url, { RELAY_DATA_DIR: other })).toBeUndefined();
  });

  it('is refused if other users can read it', () => {
    writeKey('cli-key');
    register();
    chmodSync(join(dataDir, 'cli-key'), 0o644);
    expect(() => keyAt(url)).toThrow(`Other users can read ${join(dataDir, 'cli-key')}`);
  });

  it('is sent to the registered address of localhost', () => {
    writeKey('cli-key');
    register();
    expect(connectionOf(environment(), { url: 'http://localhost:4321' })).toMatchObject({
      url,
      apiKey,
    });
    expect(connectionOf(environment(), { url: 'http://localhost:4322' })).toMatchObject({
      url: 'http://localhost:4322',
      apiKey: undefined,
    });
  });
});

async function listening(
  respond: (request: IncomingMessage, response: ServerResponse) => unknown,
): Promise<string> {
  const server = createServer((request, response) => {
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify(respond(request, response)));
  });
  onTestFinished(() => void server.close());
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

describe("the CLI's own key", () => {
  it.each([
    ['a key', { id: 'k2', apiKey: `relay_live_${'1'.repeat(72)}` }, true],
    ['no key', { id: 'k2' }, false],
    ['a text that is no key', { id: 'k2', apiKey: 'relay_live_1\nx' }, false],
  ])('is stored if the server responds with %s: %s', async (_, made, isStored) => {
    const at = await listening(({ method }) =>
      method === 'POST' ? made : { id: 'k1', scopes: ['read'] },
    );
    writeKey('first-key');
    register(at);
    await clientFor(connectionOf(environment(), {}));
    expect(existsSync(join(dataDir, 'cli-key'))).toBe(isStored);
  });
});

describe('a server that starts after it was looked for', () => {
  const starting = async (commandLine: string) => {
    const keys: unknown[] = [];
    let unregister = () => {};
    onTestFinished(() => unregister());
    const at: string = await listening(({ url: path, headers: { authorization } }, response) => {
      keys.push(authorization);
      // As a server does before its first response.
      if (keys.length === 1) unregister = registerServer(env, { url: at, dataDir, cwd: dataDir });
      if (path === '/health') return { status: 'ok' };
      response.statusCode = authorization === undefined ? 401 : 404;
      return authorization === undefined
        ? { error: 'No key', code: 'unauthorized' }
        : { error: 'No such thing', code: 'not_found' };
    });
    writeKey('cli-key');
    const { port: RELAY_PORT } = new URL(at);
    const command = environment({ RELAY_PORT });
    return { keys, code: await runCli(commandLine.split(' '), command), err: command.err() };
  };

  it.each(['approvals list', 'chat --agent support hello', 'status'])(
    'is found again, with its key: %s',
    async (commandLine) => {
      const { keys, code, err } = await starting(commandLine);
      expect(err).toContain('No such thing');
      expect(code).toBe(3);
      expect(keys[0]).toBeUndefined();
      expect(keys[1]).toBe(`Bearer ${apiKey}`);
    },
  );
});

describe('the settings of an installation', () => {
  const settings = async (cwd: string, more?: Record<string, string>, named?: string) =>
    (await installationOf({ ...environment(more), cwd }, {}, named)).env;

  it('are those of .env in the current folder, as for a server that is started there', async () => {
    const project = folder();
    writeFileSync(join(project, '.env'), 'RELAY_DATA_DIR=./data\nRELAY_MASTER_KEY=abc\n');
    expect(await settings(project)).toMatchObject({
      RELAY_DATA_DIR: join(project, 'data'),
      RELAY_MASTER_KEY: 'abc',
    });
    expect(await settings(project, { RELAY_MASTER_KEY: 'set' })).toMatchObject({
      RELAY_MASTER_KEY: 'set',
    });
    expect(await settings(project, {}, 'elsewhere')).toMatchObject({
      RELAY_DATA_DIR: join(project, 'elsewhere'),
    });
    const isPublic = await settings(project, { RELAY_HOST: '0.0.0.0' });
    expect(isPublic).toMatchObject({ RELAY_DATA_DIR: join(project, '.relay') });
    expect(isPublic['RELAY_MASTER_KEY']).toBeUndefined();
  });

  it('are those of the folder that the running server was started in', async () => {
    writeFileSync(join(dataDir, '.env'), 'RELAY_MASTER_KEY=abc\n');
    register();
    const found = { RELAY_DATA_DIR: dataDir, RELAY_MASTER_KEY: 'abc' };
    expect(await settings(folder())).toMatchObject(found);
    expect(await settings(folder(), {}, dataDir)).toMatchObject(found);
  });

  it('are those of a data folder in the current folder, if another server runs elsewhere', async () => {
    register();
    const project = folder();
    mkdirSync(join(project, '.relay'));
    expect(await settings(project)).toMatchObject({ RELAY_DATA_DIR: dataDir });
    writeFileSync(join(project, '.relay/relay.db'), '');
    expect(await settings(project)).toMatchObject({ RELAY_DATA_DIR: join(project, '.relay') });
    // Settings name a server, as for every other command.
    for (const named of [{ RELAY_PORT: '4321' }, { RELAY_URL: url }]) {
      expect(await settings(project, named)).toMatchObject({ RELAY_DATA_DIR: dataDir });
    }
    // A server that was started here means its own data folder.
    mkdirSync(join(dataDir, '.relay'));
    expect(await settings(dataDir)).toMatchObject({ RELAY_DATA_DIR: dataDir });
  });
});

it('a key that the server rejects is named by its source, with the command that replaces it', () => {
  const rejected = (more: Partial<Parameters<typeof rejectedKey>[0]>) =>
    rejectedKey({ url: 'https://relay.test', apiKey: 'k', keyFrom: 'RELAY_API_KEY', ...more });
  expect(rejected({})?.hint).toContain('unset it');
  const profile = rejected({ keyFrom: 'the profile', profile: 'prod' });
  expect(profile?.key).toBe('the key of the profile prod');
  expect(profile?.hint).toContain('relay login https://relay.test --name prod');
  expect(rejected({ keyFrom: '/data/cli-key' })?.key).toBe('the key from /data/cli-key');
  expect(rejected({ apiKey: undefined })).toBeUndefined();
});
