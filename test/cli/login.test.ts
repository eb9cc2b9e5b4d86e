import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createClient } from '@relay/sdk';
import { registerServer } from '@relay/server/registration';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { connectionOf } from '../../packages/cli/src/connection.ts';
import { type CliOptions, relay, values } from '../support/cli.ts';
import { createDatabase } from '../support/postgres.ts';
import { LocalServer, TestServer } from '../support/server.ts';

/** The home of a user: its servers and profiles. */
let home: string;
let env: Record<string, string>;

beforeEach(() => {
  home = folder();
  env = { XDG_STATE_HOME: join(home, 'state'), XDG_CONFIG_HOME: join(home, 'config') };
});

function folder(): string {
  const dir = mkdtempSync(join(tmpdir(), 'relay-login-'));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  return dir;
}

async function started(more: Record<string, string> = {}): Promise<LocalServer> {
  const server = new LocalServer({ ...env, ...more });
  onTestFinished(() => server.dispose());
  return server.start();
}

async function startedInProcess(): Promise<TestServer> {
  const server = new TestServer(env);
  onTestFinished(() => server.dispose());
  return server.start();
}

/** From a folder that is not the server's. */
function run(args: readonly string[], options: CliOptions = {}) {
  return relay(args, { cwd: folder(), ...options, env: { ...env, ...options.env } });
}

const profilesFile = () => join(home, 'config', 'relay', 'profiles.json');

describe('a server that runs on this machine', () => {
  test('is found from any folder, with its key', async () => {
    const server = await started();
    const status = await run(['status', '--json']);
    expect(status.code).toBe(0);
    expect(values(status)[0]).toMatchObject({
      url: server.url,
      store: 'SQLite',
      process: { dataDir: server.dataDir, pid: expect.any(Number) },
      key: { name: 'cli', tenant: { name: 'default', paused: false } },
      activity: { openRuns: 0, pendingApprovals: 0, sessions: 0 },
    });
    expect((await run(['status'])).out).toMatch(/^server +http:.*\n(?:.*\n)*data +\S+ \(SQLite\)/);
  });

  test('is found no longer after kill -9', async () => {
    const server = await startedInProcess();
    await server.kill();
    const status = await run(['status'], { env: { RELAY_PORT: '1' } });
    expect(status).toMatchObject({ code: 6, out: '' });
    expect(connectionOf(environment(), {}).url).toBe('http://127.0.0.1:4000');
  });

  test('is the one of the current folder if several run; otherwise they are listed', async () => {
    const project = folder();
    mkdirSync(join(project, '.relay'), { mode: 0o700 });
    const here = await started({ RELAY_DATA_DIR: join(project, '.relay') });
    const other = await startedInProcess();
    expect(connectionOf(environment(project), {}).url).toBe(here.url);
    const refused = await run(['status']);
    expect(refused).toMatchObject({ code: 2, out: '' });
    expect(refused.err).toContain(
      '2 servers run on this machine [several_servers] – choose one with --url',
    );
    expect(refused.err).toContain(`${other.url} (${other.dataDir})`);
    expect(connectionOf(environment(), { url: other.url }).apiKey).toBe(other.apiKey);
    const named = { ...env, RELAY_DATA_DIR: other.dataDir };
    expect(connectionOf({ ...environment(), env: named }, {}).url).toBe(other.url);
    expect(connectionOf(environment(), { dataDir: other.dataDir }).url).toBe(other.url);
  });

  test('has its data folder found by bootstrap and doctor', async () => {
    const server = await started();
    const made = await run(['bootstrap', '--tenant', 'acme']);
    const client = createClient({ baseUrl: server.url, apiKey: made.out.trim() });
    expect(await client.keys.current()).toMatchObject({ tenant: { name: 'acme' } });
    const found = await run(['doctor', '--json']);
    expect(values(found)).toContainEqual(
      expect.objectContaining({
        check: 'data folder',
        message: `${server.dataDir} is private to its owner`,
      }),
    );
    const elsewhere = folder();
    const named = await run(['doctor', '--json', '--data-dir', elsewhere]);
    expect(named.out).toContain(elsewhere);
  });

  test('keeps working for the CLI after the holder of the first key signed in to the console', async () => {
    const server = await started();
    const { apiKey } = server;
    const first = join(server.dataDir, 'first-key');
    const link = (await run(['console'])).out.trim();
    expect(existsSync(first)).toBe(true);
    const client = createClient({ baseUrl: server.url, apiKey });
    await client.console.login({ apiKey });
    expect(existsSync(first)).toBe(false);
    await client.console.login({ link: new URL(link).hash.slice(1) });
    expect((await run(['keys', 'list'])).code).toBe(0);
    // It is the same person.
    const own = createClient({
      baseUrl: server.url,
      apiKey: readFileSync(join(server.dataDir, 'cli-key'), 'utf8').trim(),
    });
    const { id } = await client.keys.current();
    expect(await own.keys.current()).toMatchObject({ name: 'cli', owner: id });
  });
});

function environment(cwd = folder()) {
  const { stdin, stdout, stderr } = process;
  return { env, cwd, stdin, stdout, stderr };
}

describe('relay login on the machine of the server', () => {
  test('makes a key from the first key, and deletes its file', async () => {
    const server = await started();
    const before = server.apiKey;
    const done = await run(['login']);
    expect(done.code).toBe(0);
    expect(done.out).toContain(`Signed in to ${server.url} with the key cli (tenant default;`);
    const own = join(server.dataDir, 'cli-key');
    expect(statSync(own).mode & 0o777).toBe(0o600);
    expect(readFileSync(own, 'utf8').trim()).not.toBe(before);
    expect(existsSync(join(server.dataDir, 'first-key'))).toBe(false);
    expect((await run(['keys', 'list'])).code).toBe(0);
    expect((await fetchKeys(server.url, before)).status).toBe(200);
  });

  test('makes one from the data folder if there is none, or a revoked one', async () => {
    const server = await started();
    const firstKey = createClient({ baseUrl: server.url, apiKey: server.apiKey });
    rmSync(join(server.dataDir, 'first-key'));
    expect((await run(['keys', 'list'])).code).toBe(4);
    expect((await run(['login'])).code).toBe(0);
    expect((await run(['logout'])).out).toContain('Revoked the key');
    expect(existsSync(join(server.dataDir, 'cli-key'))).toBe(false);
    expect((await run(['logout'])).code).toBe(1);
    expect((await run(['login'])).code).toBe(0);
    const apiKey = readFileSync(join(server.dataDir, 'cli-key'), 'utf8').trim();
    const client = createClient({ baseUrl: server.url, apiKey });
    const { id, owner } = await client.keys.current();
    // The same person each time.
    expect(owner).toBe((await firstKey.keys.current()).id);
    await client.keys.revoke(id);
    expect((await run(['keys', 'list'])).code).toBe(4);
    expect((await run(['login'])).code).toBe(0);
    expect((await run(['keys', 'list'])).code).toBe(0);
  });

  test('works with PostgreSQL by the first key; without it, it needs the database', async () => {
    const database = await createDatabase();
    onTestFinished(() => database.drop());
    const settings = { RELAY_DATABASE_URL: database.url, RELAY_MASTER_KEY: 'ab'.repeat(32) };
    const server = await started(settings);
    expect((await run(['login'])).code).toBe(0);
    rmSync(join(server.dataDir, 'cli-key'));
    const refused = await run(['login']);
    expect(refused).toMatchObject({ code: 1, out: '' });
    expect(refused.err).toContain('uses PostgreSQL [database_unknown] – set RELAY_DATABASE_URL');
    expect((await run(['bootstrap'])).code).toBe(1);
    expect(existsSync(join(server.dataDir, 'relay.db'))).toBe(false);
    expect((await run(['login'], { env: settings })).code).toBe(0);
    expect((await run(['status'])).out).toContain('(PostgreSQL)');
  });

  test('exits with 6 if no server runs', async () => {
    expect(await run(['login'], { env: { RELAY_PORT: '1' } })).toMatchObject({ code: 6, out: '' });
  });
});

/** A program on a port that is registered as a server with this data folder. */
async function registered(dataDir: string, status: number): Promise<string> {
  const server = createServer(({ url }, response) => {
    const isHealth = url === '/health';
    response.writeHead(isHealth ? 200 : status, { 'content-type': 'application/json' });
    const error = { error: 'No', code: status === 401 ? 'unauthorized' : 'internal' };
    response.end(JSON.stringify(isHealth ? { status: 'ok', version: '0.1.0' } : error));
  });
  onTestFinished(() => void server.close());
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  onTestFinished(registerServer(env, { url, dataDir, cwd: dataDir }));
  return url;
}

describe('relay login without a registered server', () => {
  test('creates nothing, and names other ways to sign in', async () => {
    const server = await started({ XDG_STATE_HOME: folder() });
    const cwd = folder();
    const { port } = new URL(server.url);
    for (const named of [{}, { RELAY_DATA_DIR: server.dataDir }]) {
      const refused = await run(['login'], { cwd, env: { RELAY_PORT: port, ...named } });
      expect(refused).toMatchObject({ code: 1, out: '' });
      expect(refused.err).toContain('is not registered on this machine');
      expect(refused.err).toContain(`"relay login ${server.url}" or RELAY_API_KEY`);
    }
    expect(readdirSync(cwd)).toEqual([]);
    expect(existsSync(join(server.dataDir, 'cli-key'))).toBe(false);
    const keyless = await run(['keys', 'list'], { env: { RELAY_URL: server.url } });
    expect(keyless.code).toBe(4);
    expect(keyless.err).toMatch(/relay login.*RELAY_API_KEY/);
  });

  test('revokes the key that it created if the server rejects it', async () => {
    const server = await started({ XDG_STATE_HOME: folder() });
    const { apiKey } = server;
    await registered(server.dataDir, 401);
    expect(await run(['login'])).toMatchObject({ code: 4, out: '' });
    expect(existsSync(join(server.dataDir, 'cli-key'))).toBe(false);
    const client = createClient({ baseUrl: server.url, apiKey });
    const { items } = await client.keys.list().page();
    expect(items).toHaveLength(2);
    expect(items.filter(({ revokedAt }) => typeof revokedAt === 'string')).toHaveLength(1);
  });
});

describe('relay logout', () => {
  test('of the profile local revokes the key in the data folder', async () => {
    const server = await started();
    await run(['login']);
    const stdin = 'relay_live_secret\n';
    await run(['profile', 'add', 'one', '--server', 'https://one.example'], { stdin });
    expect((await run(['logout', 'local'])).out).toContain('Revoked the key in');
    expect(existsSync(join(server.dataDir, 'cli-key'))).toBe(false);
    expect(connectionOf(environment(), {}).profile).toBe('one');
  });

  test('keeps the key if the server fails, and deletes it if the server rejects it', async () => {
    const dataDir = folder();
    const path = join(dataDir, 'cli-key');
    writeFileSync(path, `relay_live_${'0'.repeat(72)}\n`, { mode: 0o600 });
    const failing = await registered(dataDir, 500);
    expect(await run(['logout', '--url', failing])).toMatchObject({ code: 1, out: '' });
    expect(existsSync(path)).toBe(true);
    const rejecting = await registered(dataDir, 401);
    const done = await run(['logout', '--url', rejecting]);
    expect(done.out).toContain('the server did not accept it');
    expect(existsSync(path)).toBe(false);
  });
});

describe('bootstrap in a project with .env', () => {
  test('uses its master key, and creates no other', async () => {
    const project = folder();
    const text = `RELAY_DATA_DIR=./data\nRELAY_MASTER_KEY=${'ab'.repeat(32)}\n`;
    writeFileSync(join(project, '.env'), text, { mode: 0o600 });
    expect((await run(['bootstrap'], { cwd: project })).code).toBe(0);
    expect(readdirSync(project)).toEqual(['.env', 'data']);
    const names = readdirSync(join(project, 'data'));
    expect(names).toContain('relay.db');
    expect(names).not.toContain('master-key');
    rmSync(join(project, '.env'));
    const refused = await run(['bootstrap', '--data-dir', 'data'], { cwd: project });
    expect(refused).toMatchObject({ code: 1, out: '' });
    expect(refused.err).toContain('master-key is missing, and RELAY_MASTER_KEY is not set');
    expect(readdirSync(join(project, 'data'))).not.toContain('master-key');
  });
});

function fetchKeys(url: string, apiKey: string): Promise<Response> {
  return fetch(`${url}/v1/keys`, { headers: { authorization: `Bearer ${apiKey}` } });
}

describe('relay login with a URL', () => {
  /** A server whose registration this user cannot see. */
  const elsewhere = () => started({ XDG_STATE_HOME: folder() });

  test('checks the key and stores it in a private profile, the first one as the default', async () => {
    const server = await elsewhere();
    const login = ['login', server.url, '--name', 'prod'];
    const wrong = await run(login, { stdin: 'relay_live_nonsense\n' });
    expect(wrong).toMatchObject({ code: 4, out: '' });
    expect(existsSync(profilesFile())).toBe(false);
    const done = await run(login, { stdin: `${server.apiKey}\n` });
    expect(done.code).toBe(0);
    expect(done.out).toContain('It is the default.');
    expect(done.out + done.err).not.toContain(server.apiKey);
    expect(statSync(profilesFile()).mode & 0o777).toBe(0o600);
    expect((await run(['status'])).out).toContain(`${server.url} (profile prod)`);
    // Variables come first, as before.
    const other = { RELAY_URL: 'http://127.0.0.1:1' };
    expect((await run(['status'], { env: other })).code).toBe(6);
    const keyed = connectionOf({ ...environment(), env: { ...env, RELAY_API_KEY: 'x' } }, {});
    expect(keyed.url).toBe('http://127.0.0.1:4000');
    expect((await run(['logout'])).out).toContain('Removed the profile prod.');
    expect(connectionOf(environment(), {}).url).toBe('http://127.0.0.1:4000');
  });

  test('asks for no key if no server responds', async () => {
    const stdin = 'relay_live_x\n';
    const outcome = await run(['login', 'http://127.0.0.1:1'], { stdin });
    expect(outcome).toMatchObject({ code: 6, out: '' });
  });
});

describe('profiles', () => {
  test('are added, listed without their keys, selected and removed', async () => {
    const add = (name: string) => ['profile', 'add', name, '--server', `https://${name}.example`];
    const stdin = 'relay_live_secret\n';
    expect((await run(add('one'), { stdin })).code).toBe(0);
    expect((await run(add('two'), { stdin })).code).toBe(0);
    const listed = async () => {
      const { out } = await run(['profile', 'list', '--json']);
      expect(out).not.toContain('relay_live_secret');
      return values({ code: 0, out, err: '' }).map(({ name, isDefault }) => [name, isDefault]);
    };
    expect(await listed()).toEqual([
      ['local', false],
      ['one', true],
      ['two', false],
    ]);
    await run(['profile', 'use', 'two']);
    expect(connectionOf(environment(), {})).toMatchObject({
      url: 'https://two.example',
      apiKey: 'relay_live_secret',
    });
    await run(['profile', 'use', 'local']);
    expect(connectionOf(environment(), {}).url).toBe('http://127.0.0.1:4000');
    expect((await run(['profile', 'use', 'three'])).code).toBe(2);
    expect((await run(['profile', 'remove', 'two'])).code).toBe(0);
    expect((await run(['profile', 'remove', 'two'])).code).toBe(2);
    expect(await listed()).toEqual([
      ['local', true],
      ['one', false],
    ]);
  });
});

describe('relay credentials set', () => {
  test('checks the server and the key before it reads the secret', async () => {
    const server = await started();
    const made = await run(['keys', 'create', 'small', '--role', 'operator']);
    // Without input it would wait for the secret, or say that there is none.
    const small = { RELAY_URL: server.url, RELAY_API_KEY: made.out.trim() };
    expect((await run(['credentials', 'set', 'openai'], { env: small })).code).toBe(4);
    const gone = { RELAY_URL: 'http://127.0.0.1:1' };
    expect((await run(['credentials', 'set', 'openai'], { env: gone })).code).toBe(6);
    const set = await run(['credentials', 'set', 'openai'], { stdin: 'sk-0042\n' });
    expect(set).toMatchObject({ code: 0, err: 'Try it: relay chat --model openai:MODEL\n' });
  });
});
