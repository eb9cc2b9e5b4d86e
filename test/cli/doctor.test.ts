import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { type AddressInfo, createServer as createTcpServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest';
import { relay, values } from '../support/cli.ts';
import { createDatabase } from '../support/postgres.ts';
import { LocalServer } from '../support/server.ts';

vi.setConfig({ testTimeout: 60_000 });

const server = new LocalServer();
beforeAll(() => server.start());
afterAll(() => server.dispose());

interface Finding {
  readonly check: string;
  readonly state: string;
  readonly message: string;
  readonly fix?: string;
}

/** Where the servers of tests register themselves. */
const registered = { XDG_STATE_HOME: process.env['XDG_STATE_HOME'] ?? '' };

async function diagnose(env: Record<string, string> = {}, ...args: string[]) {
  const outcome = await relay(['doctor', '--json', ...args], {
    env: { ...registered, RELAY_URL: server.url, RELAY_DATA_DIR: server.dataDir, ...env },
  });
  const findings = values<Finding>(outcome);
  return {
    code: outcome.code,
    findings,
    of: (check: string) => findings.find((f) => f.check === check),
  };
}

function empty(): string {
  const dir = mkdtempSync(join(tmpdir(), 'relay-doctor-'));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  return dir;
}

async function listening(fake: Server | ReturnType<typeof createTcpServer>): Promise<string> {
  await new Promise<void>((resolve) => fake.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void fake.close());
  return `http://127.0.0.1:${(fake.address() as AddressInfo).port}`;
}

test('a key whose scopes were changed in the database is named', async () => {
  const other = new LocalServer({ XDG_STATE_HOME: empty() });
  await other.start();
  onTestFinished(() => other.dispose());
  const db = new DatabaseSync(join(other.dataDir, 'relay.db'), { timeout: 5_000 });
  db.exec(`UPDATE keys SET scopes = '["admin"]'`);
  db.close();
  const { code, of } = await diagnose({ RELAY_URL: other.url, RELAY_DATA_DIR: other.dataDir });
  expect(code).toBe(1);
  expect(of('rights')).toMatchObject({
    state: 'wrong',
    message: expect.stringMatching(/^Changed in the database past Relay: keys \S+ of tenant \S+$/),
  });
});

test('the sandbox of commands is reported, and that it is missing', async () => {
  const off = await diagnose({ RELAY_SANDBOX: 'off' });
  expect(off.of('sandbox')).toMatchObject({
    state: 'ok',
    message: 'No command runs in a sandbox: RELAY_SANDBOX is off',
  });
  // The modules remember whether there is a sandbox, also for the next files of this worker.
  vi.stubEnv('PATH', empty());
  vi.resetModules();
  onTestFinished(() => {
    vi.unstubAllEnvs();
    vi.resetModules();
  });
  const missing = await diagnose();
  expect(missing.of('sandbox')).toMatchObject({
    state: 'warning',
    message: expect.stringContaining('bubblewrap is not installed') as string,
  });
  const required = await diagnose({ RELAY_SANDBOX: 'bwrap' });
  expect(required.of('settings')).toMatchObject({
    state: 'wrong',
    message: expect.stringContaining('RELAY_SANDBOX is bwrap, but') as string,
  });
});

test('a healthy setup has no failed check', async () => {
  const { code, findings, of } = await diagnose();
  expect(code).toBe(0);
  expect(findings.filter(({ state }) => state === 'wrong')).toEqual([]);
  for (const check of [
    'node',
    'settings',
    'data folder',
    'store',
    'master key',
    'rights',
    'server',
    'version',
  ]) {
    expect(of(check)?.state, check).toBe('ok');
  }
  expect(of('key')).toMatchObject({
    state: 'ok',
    message: expect.stringContaining('read, runs, worker, approve, admin'),
  });
  expect(of('providers')).toMatchObject({ state: 'warning' });
  // The server has another port: these are the settings of the next one.
  expect(of('settings')?.message).toBe(
    'Valid; a server started here listens on 127.0.0.1, port 4000',
  );
  const text = await relay(['doctor'], {
    env: { ...registered, RELAY_URL: server.url, RELAY_DATA_DIR: server.dataDir },
  });
  expect(text.out).toMatch(/^✓ node/);
  expect(text.out).not.toContain(server.apiKey);
});

test('every warning and failure has a fix', async () => {
  const { findings } = await diagnose({ RELAY_URL: 'http://127.0.0.1:1', RELAY_API_KEY: 'x' });
  for (const { state, fix } of findings)
    if (state !== 'ok') expect(fix?.length).toBeGreaterThan(10);
});

test('distinguishes no server, another HTTP server, and no HTTP server', async () => {
  const none = await diagnose({ RELAY_URL: 'http://127.0.0.1:1' });
  expect(none.code).toBe(1);
  expect(none.of('server')?.message).toContain('No server responds');
  expect(none.of('server')?.fix).toContain('relay serve');
  const other = await listening(createServer((_, response) => response.end('<html>')));
  const otherServer = await diagnose({ RELAY_URL: other });
  expect(otherServer.of('server')?.message).toContain('is not Relay');
  const notHttp = await listening(
    createTcpServer((socket) => {
      socket.on('error', () => {});
      socket.end('220 ready\r\n');
    }),
  );
  expect((await diagnose({ RELAY_URL: notHttp })).of('server')?.message).toContain(
    'does not respond as Relay does',
  );
});

test('reports another version and a wrong clock', async () => {
  const odd = await listening(
    createServer((request, response) => {
      response.setHeader('date', new Date(Date.now() - 600_000).toUTCString());
      response.end(JSON.stringify({ status: 'ok', version: '9.9.9', url: request.url }));
    }),
  );
  const { of } = await diagnose({ RELAY_URL: odd }, '--remote');
  expect(of('version')).toMatchObject({
    state: 'warning',
    message: expect.stringContaining('9.9.9'),
  });
  expect(of('clock')?.message).toMatch(/(59\d|60\d) s behind/);
  expect(of('data folder')).toBeUndefined();
});

test('reports an invalid key, a key with few scopes, and no key', async () => {
  const bad = await diagnose({ RELAY_API_KEY: 'relay_live_nonsense' });
  expect(bad).toMatchObject({ code: 1 });
  expect(bad.of('key')).toMatchObject({
    state: 'wrong',
    message: expect.stringContaining('RELAY_API_KEY'),
  });
  const made = await server.request('/v1/keys', { body: { name: 'small', scopes: ['runs'] } });
  const { apiKey } = (await made.json()) as { apiKey: string };
  const small = await diagnose({ RELAY_API_KEY: apiKey });
  expect(small.of('key')).toMatchObject({
    state: 'warning',
    message: expect.stringMatching(/: runs, read$/),
  });
  expect(small.of('providers')).toBeUndefined();
  const none = await diagnose({ RELAY_DATA_DIR: empty() });
  expect(none.of('key')).toMatchObject({ state: 'warning' });
});

test('reports a readable data folder, a missing or wrong master key, and a damaged store', async () => {
  const own = new LocalServer({ XDG_STATE_HOME: empty() });
  onTestFinished(() => own.dispose());
  await own.start();
  await own.stop();
  const env = { RELAY_DATA_DIR: own.dataDir };
  chmodSync(own.dataDir, 0o755);
  const open = await diagnose(env);
  expect(open.of('data folder')).toMatchObject({
    state: 'wrong',
    fix: expect.stringContaining('chmod'),
  });
  chmodSync(own.dataDir, 0o700);
  const keyFile = join(own.dataDir, 'master-key');
  writeFileSync(keyFile, 'ab'.repeat(32));
  expect((await diagnose(env)).of('master key')?.message).toContain('encrypted with another key');
  writeFileSync(keyFile, 'damaged');
  expect((await diagnose(env)).of('master key')?.message).toContain('must be 32 bytes');
  rmSync(keyFile);
  expect((await diagnose(env)).of('master key')?.message).toContain('is missing');
  // The write-ahead log could repair the damage.
  rmSync(join(own.dataDir, 'relay.db-wal'), { force: true });
  rmSync(join(own.dataDir, 'relay.db-shm'), { force: true });
  writeFileSync(join(own.dataDir, 'relay.db'), 'not a database'.repeat(100));
  const damaged = await diagnose(env);
  expect(damaged.of('store')).toMatchObject({ state: 'wrong' });
  expect(damaged.code).toBe(1);
});

test('checks the data folder of the current folder, also if other servers run', async () => {
  const project = empty();
  const own = new LocalServer({ XDG_STATE_HOME: empty(), RELAY_DATA_DIR: join(project, '.relay') });
  onTestFinished(() => own.dispose());
  await own.start();
  await own.stop();
  rmSync(join(project, '.relay/master-key'));
  writeFileSync(join(project, '.env'), 'RELAY_PORT=9\n');
  const here = async (state: string, RELAY_URL = '', ...options: string[]) => {
    const env = { XDG_STATE_HOME: state, RELAY_URL, RELAY_DATA_DIR: '' };
    const run = await relay(['doctor', '--json', ...options], { env, cwd: project });
    const findings = values<Finding>(run);
    return (check: string) => findings.filter((each) => each.check === check);
  };
  const isDown = [{ state: 'wrong', message: expect.stringContaining('http://127.0.0.1:9') }];
  expect((await here(empty()))('server')).toMatchObject(isDown);
  const state = empty();
  const one = new LocalServer({ XDG_STATE_HOME: state });
  const other = new LocalServer({ XDG_STATE_HOME: state });
  for (const each of [one, other]) {
    onTestFinished(() => each.dispose());
    await each.start();
    const found = await here(state);
    expect(found('master key')).toMatchObject([{ state: 'wrong' }]);
    expect(found('server')).toMatchObject(isDown);
  }
  const message = expect.stringContaining(
    `another data folder than the one that was checked: ${other.dataDir}`,
  );
  const found = await here(state, other.url, '--data-dir', '.relay');
  expect(found('server')).toMatchObject([{ state: 'ok' }, { state: 'warning', message }]);
});

test('reports a store that the server cannot use, and the server gives the same reason', async () => {
  for (const [damage, problem] of [
    ['DROP TABLE metadata', /no table metadata/],
    ['DROP TABLE approvals', /no table approvals/],
    ['ALTER TABLE runs DROP COLUMN crashed_nodes', /no column crashed_nodes/],
  ] as const) {
    const own = new LocalServer({ XDG_STATE_HOME: empty() });
    onTestFinished(() => own.dispose());
    await own.start();
    await own.stop();
    const database = new DatabaseSync(join(own.dataDir, 'relay.db'));
    database.exec(damage);
    database.close();
    const { code, of } = await diagnose({ RELAY_DATA_DIR: own.dataDir });
    expect(code, damage).toBe(1);
    expect(of('store'), damage).toMatchObject({
      state: 'wrong',
      message: expect.stringMatching(problem),
      fix: expect.stringContaining('version of Relay'),
    });
    await expect(own.start(), damage).rejects.toThrow(problem);
  }
});

test('reports a file with keys that others can read, and goes on', async () => {
  const profiles = join(empty(), 'profiles.json');
  writeFileSync(profiles, '{}', { mode: 0o644 });
  const { findings, of } = await diagnose(
    { RELAY_URL: '', RELAY_DATA_DIR: '', RELAY_PROFILES: profiles, XDG_STATE_HOME: '/nowhere' },
    '--data-dir',
    empty(),
  );
  expect(of('key')).toMatchObject({
    state: 'wrong',
    message: `Other users can read ${profiles}`,
    fix: `chmod 600 ${profiles}`,
  });
  expect(findings.map(({ check }) => check)).toContain('server');
});

test('reports invalid settings', async () => {
  const { code, of } = await diagnose({ RELAY_MAX_ACTIVE_RUNS: 'many' });
  expect(code).toBe(1);
  expect(of('settings')?.message).toContain('RELAY_MAX_ACTIVE_RUNS');
});

test('reports a mistyped setting, which the server ignores', async () => {
  const { code, findings } = await diagnose({ RELAY_RETENTION_DAY: '30' });
  expect(code).toBe(0);
  expect(findings).toContainEqual(
    expect.objectContaining({
      check: 'settings',
      state: 'warning',
      message: expect.stringContaining('did you mean RELAY_RETENTION_DAYS?'),
    }),
  );
});

test('reports an unreachable database and a missing master key', async () => {
  const database = await createDatabase();
  onTestFinished(() => database.drop());
  const well = { RELAY_DATABASE_URL: database.url, RELAY_MASTER_KEY: 'ab'.repeat(32) };
  const fresh = await diagnose(well);
  expect(fresh.of('store')).toMatchObject({ state: 'ok' });
  expect(fresh.of('master key')).toMatchObject({ state: 'ok' });
  const tables = await database.sql(`SELECT tablename FROM pg_tables WHERE schemaname = 'public'`);
  expect(tables).toEqual([]);
  const keyless = await diagnose({ RELAY_DATABASE_URL: database.url });
  expect(keyless.of('master key')?.message).toBe('RELAY_MASTER_KEY is not set');
  const gone = { ...well, RELAY_DATABASE_URL: 'postgres://relay:hush-hush@127.0.0.1:1/relay' };
  const dead = await diagnose(gone);
  expect(dead.of('store')).toMatchObject({ state: 'wrong' });
  expect(JSON.stringify(dead.findings)).not.toContain('hush-hush');
});

test('reports where relay.config.ts is wrong, and that it is valid', async () => {
  const dir = empty();
  const path = join(dir, 'relay.config.ts');
  const check = async (text: string) => {
    writeFileSync(path, text);
    return (await diagnose({ RELAY_CONFIG: path })).of('config');
  };
  expect(await check('console.log("hi");\nexport default {\n  agents [],\n};\n')).toMatchObject({
    state: 'wrong',
    message: expect.stringContaining(`${path}:3:`),
    excerpt: expect.stringMatching(/^ {2}3 \| {3}agents \[\],\n +\^$/),
    fix: expect.any(String),
  });
  expect(await check('export default { limits: { maxTurns: -1 } };')).toMatchObject({
    state: 'wrong',
    message: expect.stringContaining(`${path}: limits.`),
  });
  expect(await check("export default { agents: [{ name: 'a', tools: ['no'] }] };")).toMatchObject({
    state: 'wrong',
    message: 'relay.config: the agent a uses the tool no, which does not exist',
  });
  expect(await check('process.exit(3);')).toMatchObject({
    message: expect.stringContaining('it ended the process with the code 3'),
  });
  // What the file has started does not keep it from ending.
  const valid = "setInterval(() => {}, 1000);\nexport default { agents: [{ name: 'a' }] };";
  expect(await check(valid)).toMatchObject({
    state: 'ok',
    message: `${path} is valid (agents: 1, tools: 0)`,
  });
});
