/** What an operator does on the machine of the server. */
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest';
import { createClient } from '@relay/sdk';
import { relay, values } from '../support/cli.ts';
import {
  decryptsCredential,
  useRecordingProvider,
  withCredential,
} from '../support/recorded-credential.ts';
import { LocalServer, TestServer } from '../support/server.ts';

vi.setConfig({ testTimeout: 60_000 });
useRecordingProvider();

/** For tests that leave it as it is. */
const unchanged = new LocalServer();
beforeAll(() => unchanged.start());
afterAll(() => unchanged.dispose());

function folder(): string {
  const dir = mkdtempSync(join(tmpdir(), 'relay-operator-'));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  return dir;
}

async function serverWith(env: Record<string, string> = {}): Promise<LocalServer> {
  const server = new LocalServer({ RELAY_PRIVATE_NETWORKS: '127.0.0.0/8', ...env });
  onTestFinished(() => server.dispose());
  return server.start();
}

/** As anyone can who can write the backup. */
function withoutChecksums(backup: string): void {
  const path = join(backup, 'backup.json');
  const { files, ...manifest } = JSON.parse(readFileSync(path, 'utf8')) as Record<string, unknown>;
  expect(files).toHaveProperty(['relay.db']);
  writeFileSync(path, JSON.stringify(manifest));
}

const keyOf = (dir: string) => readFileSync(join(dir, 'master-key'), 'utf8').trim();

test('bootstrap creates a key while the server runs, and prints only the key on standard output', async () => {
  const env = { RELAY_DATA_DIR: unchanged.dataDir, RELAY_URL: unchanged.url };
  const made = await relay(['bootstrap', '--tenant', 'acme'], { env });
  expect(made.code).toBe(0);
  expect(made.out.trim()).toMatch(/^relay_live_[0-9a-f]+$/);
  const used = await relay(['keys', 'list', '--json'], {
    env: { ...env, RELAY_API_KEY: made.out.trim() },
  });
  expect(values(used)).toHaveLength(1);
  const json = await relay(['bootstrap', '--tenant', 'acme', '--json'], { env });
  expect(Object.keys(values(json)[0] ?? {}).toSorted()).toEqual(['apiKey', 'keyId', 'tenantId']);
  const bad = await relay(['bootstrap', '--tenant', '../x'], { env });
  expect(bad).toMatchObject({ code: 1, out: '' });
});

test('a backup of a running server is consistent and can be restored', async () => {
  const server = await serverWith();
  await withCredential(server);
  const env = { RELAY_DATA_DIR: server.dataDir };
  const dir = folder();
  const client = createClient({ baseUrl: server.url, apiKey: server.apiKey });
  const waiting = await client.runs.create({
    model: 'demo',
    input: 'notify after the restore',
    tools: [{ name: 'send_note', kind: 'builtin' }],
  });
  let approvalId = '';
  for await (const event of waiting) {
    if (event.type !== 'approval_requested') continue;
    approvalId = event.id;
    break;
  }
  // Runs write while the backup is made.
  const writing = new AbortController();
  const busy = Promise.all(
    Array.from({ length: 4 }, async () => {
      while (!writing.signal.aborted)
        await (await client.runs.create({ model: 'demo', input: 'say 200' })).result();
    }),
  );
  const backup = await relay(['backup', join(dir, 'copy')], { env });
  writing.abort();
  await busy;
  expect(backup.code).toBe(0);
  expect(backup.out).toContain('The master key is NOT included');
  expect(backup.out).toContain(join(server.dataDir, 'master-key'));
  expect(readdirSync(join(dir, 'copy')).toSorted()).toEqual(['backup.json', 'relay.db']);
  expect(statSync(join(dir, 'copy')).mode & 0o777).toBe(0o700);
  expect(statSync(join(dir, 'copy', 'relay.db')).mode & 0o777).toBe(0o600);

  const restored = new LocalServer({ RELAY_PRIVATE_NETWORKS: '127.0.0.0/8' });
  onTestFinished(() => restored.dispose());
  const args = ['restore', join(dir, 'copy'), '--to', restored.dataDir];
  const keyless = await relay(args);
  expect(keyless).toMatchObject({ code: 1 });
  expect(keyless.err).toContain('--master-key-file');
  const keyFile = join(server.dataDir, 'master-key');
  expect((await relay([...args, '--master-key-file', keyFile])).code).toBe(0);
  expect(keyOf(restored.dataDir)).toBe(keyOf(server.dataDir));
  writeFileSync(join(restored.dataDir, 'first-key'), server.apiKey, { mode: 0o600 });
  await server.stop();
  await restored.start();
  expect(await decryptsCredential(restored)).toBe(true);
  const again = createClient({ baseUrl: restored.url, apiKey: server.apiKey });
  await again.approvals.approve(approvalId);
  expect(await again.runs.stream(waiting.id).text()).toBe('The note was sent.');
  expect(restored.notes.map(({ text }) => text)).toEqual(['after the restore']);
});

test('a copy that is restored paused continues no run and sends no webhook until it is unpaused', async () => {
  const received: string[] = [];
  let status = 500;
  const receiver = createServer((request, response) => {
    const text: Buffer[] = [];
    request.on('data', (chunk: Buffer) => text.push(chunk));
    request.on('end', () => {
      const { run } = JSON.parse(Buffer.concat(text).toString()) as { run: { id: string } };
      received.push(run.id);
      response.writeHead(status).end();
    });
  });
  await new Promise<void>((resolve) => receiver.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void receiver.close());
  const url = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/`;
  const server = new TestServer({ RELAY_PRIVATE_NETWORKS: '127.0.0.0/8' });
  onTestFinished(() => server.dispose());
  await server.start();
  const client = createClient({ baseUrl: server.url, apiKey: server.apiKey });
  const hook = await client.webhooks.create({ url, events: ['run.ended'] });
  const ended = await client.runs.create({ model: 'demo', input: 'say 1' });
  await ended.text();
  const running = await client.runs.create({ model: 'demo', input: 'slow 4000' });
  await vi.waitUntil(() => received.includes(ended.id), { timeout: 10_000 });
  const copy = join(folder(), 'copy');
  const env = { RELAY_DATA_DIR: server.dataDir };
  expect((await relay(['backup', copy, '--with-master-key'], { env })).code).toBe(0);
  const { apiKey } = server;
  await server.kill();
  received.length = 0;
  status = 200;

  const restored = new LocalServer({ RELAY_PRIVATE_NETWORKS: '127.0.0.0/8' });
  onTestFinished(() => restored.dispose());
  const live = await relay(['restore', copy, '--to', join(folder(), 'live')]);
  expect(live.out).toContain('restore with --paused');
  const made = await relay(['restore', copy, '--to', restored.dataDir, '--paused']);
  expect(made.out).toContain('All tenants are paused');
  await restored.start();
  const again = createClient({ baseUrl: restored.url, apiKey });
  expect((await again.tenant.get()).paused).toBe(true);
  await again.webhooks.redeliver(hook.id, `run.ended:${ended.id}`);
  // A new tenant is not paused: when its webhook has arrived, those before it would have, too.
  const other = await relay(['bootstrap', '--tenant', 'other'], {
    env: { RELAY_DATA_DIR: restored.dataDir },
  });
  const fresh = createClient({ baseUrl: restored.url, apiKey: other.out.trim() });
  await fresh.webhooks.create({ url, events: ['run.ended'] });
  const later = await fresh.runs.create({ model: 'demo', input: 'slow 1500' });
  await vi.waitUntil(() => received.length > 0, { timeout: 10_000 });
  expect(received).toEqual([later.id]);
  expect((await again.runs.get(running.id)).status).toBe('running');

  await again.tenant.update({ paused: false });
  await vi.waitUntil(() => received.length === 3, { timeout: 20_000 });
  expect(received.slice(1).toSorted()).toEqual([ended.id, running.id].toSorted());
});

test('a backup and the table of models are those of the server that runs, from any folder', async () => {
  const { url, dataDir } = await serverWith();
  const registered = { XDG_STATE_HOME: process.env['XDG_STATE_HOME'] ?? '' };
  const dir = folder();
  const run = (...args: string[]) => relay(args, { env: registered, cwd: dir });
  const backup = await run('backup', 'copy', '--url', url);
  expect(backup.out).toContain(`The backup of ${dataDir} is in ${join(dir, 'copy')}.`);
  const price = { inputPerMillion: 1, outputPerMillion: 2 };
  const models = { 'own-model': { contextTokens: 1000, price } };
  writeFileSync(join(dir, 'models.json'), JSON.stringify({ date: '2026-11-15', models }));
  expect((await run('models', 'update', 'models.json', '--url', url)).code).toBe(0);
  expect((await run('models', '--url', url)).out).toContain('own-model');
  expect(readdirSync(dir).toSorted()).toEqual(['copy', 'models.json']);
  expect((await relay(['models'], { cwd: dir })).out).not.toContain('own-model');
});

test('a rotation reads .env in the folder of the project, as the server does', async () => {
  const cwd = folder();
  writeFileSync(join(cwd, '.env'), `RELAY_DATA_DIR=${unchanged.dataDir}\n`);
  const rotation = await relay(['rotate-master-key'], { cwd });
  expect(rotation).toMatchObject({ code: 1, err: expect.stringContaining(unchanged.dataDir) });
});

test('neither a backup nor a restore overwrites anything', async () => {
  const env = { RELAY_DATA_DIR: unchanged.dataDir };
  const dir = folder();
  expect((await relay(['backup', join(dir, 'copy')], { env })).code).toBe(0);
  const before = readFileSync(join(dir, 'copy', 'backup.json'), 'utf8');
  const again = await relay(['backup', join(dir, 'copy')], { env });
  expect(again.err).toContain('is not empty. Choose an empty or new folder');
  expect(readFileSync(join(dir, 'copy', 'backup.json'), 'utf8')).toBe(before);
  const live = await relay(['restore', join(dir, 'copy'), '--without-master-key'], { env });
  expect(live).toMatchObject({ code: 1 });
  expect(live.err).toContain('is not empty; move it away');
  expect((await unchanged.request('/ready')).status).toBe(200);
});

test('a backup contains the master key on request; restore rejects a wrong key', async () => {
  const env = { RELAY_DATA_DIR: unchanged.dataDir };
  const dir = folder();
  const whole = await relay(['backup', join(dir, 'whole'), '--with-master-key', '--json'], { env });
  expect(values(whole)[0]).toMatchObject({ masterKey: { included: true } });
  expect(keyOf(join(dir, 'whole'))).toBe(keyOf(unchanged.dataDir));
  const target = join(dir, 'data');
  expect((await relay(['restore', join(dir, 'whole'), '--to', target])).code).toBe(0);
  expect(keyOf(target)).toBe(keyOf(unchanged.dataDir));
  await relay(['backup', join(dir, 'bare')], { env });
  const other = join(dir, 'other-key');
  writeFileSync(other, 'ab'.repeat(32), { mode: 0o600 });
  const to = ['--to', join(dir, 'data-2')];
  const wrong = await relay(['restore', join(dir, 'bare'), ...to, '--master-key-file', other]);
  expect(wrong.err).toContain('is not the master key that encrypted this backup');
  const inEnv = { RELAY_MASTER_KEY: 'ab'.repeat(32) };
  expect((await relay(['restore', join(dir, 'bare'), ...to], { env: inEnv })).code).toBe(1);
  expect(existsSync(join(dir, 'data-2'))).toBe(false);
  const right = { RELAY_MASTER_KEY: keyOf(unchanged.dataDir) };
  const restored = await relay(['restore', join(dir, 'bare'), ...to, '--json'], { env: right });
  expect(values(restored)[0]).toMatchObject({ key: 'environment' });
});

test('the audit trail in a backup is verified without a server, also against a saved head', async () => {
  const dir = folder();
  const server = await serverWith();
  const env = { RELAY_DATA_DIR: server.dataDir };
  const online = { RELAY_URL: server.url, RELAY_API_KEY: server.apiKey };
  await relay(['keys', 'create', 'first'], { env: online });
  const head = join(dir, 'head.json');
  writeFileSync(head, (await relay(['audit', 'head', '--json'], { env: online })).out);
  await relay(['keys', 'create', 'second'], { env: online });
  // Seals the last entry.
  const { out: now } = await relay(['audit', 'verify', '--json'], { env: online });
  expect((await relay(['backup', join(dir, 'copy')], { env })).code).toBe(0);
  await server.stop();

  const keyFile = join(server.dataDir, 'master-key');
  const verify = (...args: string[]) =>
    relay(['audit', 'verify', '--backup', join(dir, 'copy'), ...args], { env: {} });
  const keyed = ['--master-key-file', keyFile];
  const whole = await verify(...keyed, '--against', head, '--json');
  expect(whole).toMatchObject({ code: 0, err: '' });
  expect(JSON.parse(whole.out)).toEqual(JSON.parse(now));
  expect((await verify(...keyed, '--tenant', 'nobody')).err).toContain('no tenant nobody');
  expect((await verify()).err).toBe(
    'relay: The master key is not in this backup: name its file with --master-key-file, ' +
      'or set RELAY_MASTER_KEY [configuration]\n',
  );
  expect((await relay(['audit', 'verify', '--tenant', 'x'], { env: {} })).code).toBe(2);

  const db = new DatabaseSync(join(dir, 'copy', 'relay.db'));
  db.exec(`UPDATE audit_entries SET entry = replace(entry, 'first', 'forged')`);
  db.close();
  expect((await verify(...keyed)).err).toContain('relay.db has changed since the backup was made');
  withoutChecksums(join(dir, 'copy'));
  const forged = await verify(...keyed);
  expect(forged).toMatchObject({ code: 1, out: '' });
  expect(forged.err).toContain('[audit_broken]');
  expect(readdirSync(tmpdir()).filter((name) => name.startsWith('relay-verify-'))).toEqual([]);
});

test('restore rejects a file that was changed, removed or added since the backup', async () => {
  const dir = folder();
  const copy = join(dir, 'copy');
  await relay(['backup', copy, '--with-master-key'], {
    env: { RELAY_DATA_DIR: unchanged.dataDir },
  });
  const restore = () => relay(['restore', copy, '--to', join(dir, 'data')]);
  const wal = join(copy, 'relay.db-wal');
  writeFileSync(wal, '');
  expect((await restore()).err).toContain(`${wal} was added after the backup was made; remove it`);
  rmSync(wal);

  const key = keyOf(copy);
  rmSync(join(copy, 'master-key'));
  expect((await restore()).err).toContain(`${join(copy, 'master-key')} is missing; use another`);
  writeFileSync(
    join(copy, 'master-key'),
    key.replace(/^./, (first) => (first === '0' ? '1' : '0')),
  );
  expect((await restore()).err).toContain('master-key has changed since the backup was made');
  writeFileSync(join(copy, 'master-key'), `${key}\n`);

  const db = new DatabaseSync(join(copy, 'relay.db'));
  db.exec(`UPDATE tenants SET name = upper(name)`);
  db.close();
  const changed = await restore();
  expect(changed).toMatchObject({ code: 1, out: '' });
  expect(changed.err).toContain(
    `${join(copy, 'relay.db')} has changed since the backup was made; use another copy`,
  );
  expect(readdirSync(dir)).toEqual(['copy']);
  // As it was made by an older version.
  withoutChecksums(copy);
  expect((await restore()).code).toBe(0);
});

test('restore rejects a damaged backup and creates nothing', async () => {
  const dir = folder();
  await relay(['backup', join(dir, 'copy'), '--with-master-key'], {
    env: { RELAY_DATA_DIR: unchanged.dataDir },
  });
  const path = join(dir, 'copy', 'relay.db');
  const bytes = readFileSync(path);
  bytes.fill(0x5a, 8_192, 40_960);
  writeFileSync(path, bytes);
  withoutChecksums(join(dir, 'copy'));
  const target = join(dir, 'data');
  const damaged = await relay(['restore', join(dir, 'copy'), '--to', target]);
  expect(damaged).toMatchObject({ code: 1, err: expect.stringContaining(path) });
  expect(existsSync(target)).toBe(false);
  expect(readdirSync(dir)).toEqual(['copy']);
  mkdirSync(join(dir, 'nothing'));
  const none = await relay(['restore', join(dir, 'nothing'), '--to', target]);
  expect(none.err).toContain('is not a backup');
});

test('rotation is rejected while the server runs; afterwards the new key decrypts everything', async () => {
  const server = await serverWith();
  await withCredential(server);
  const env = { RELAY_DATA_DIR: server.dataDir };
  const old = keyOf(server.dataDir);
  const busy = await relay(['rotate-master-key'], { env });
  expect(busy).toMatchObject({ code: 1, out: '' });
  expect(busy.err).toContain('Another Relay server is using');
  expect(keyOf(server.dataDir)).toBe(old);
  await server.stop();
  const done = await relay(['rotate-master-key', '--data-dir', server.dataDir, '--json']);
  const [rotation] = values<{ kind: string; oldKeyFile: string }>(done);
  expect(rotation?.kind).toBe('replaced');
  expect(done.out + done.err).not.toContain(old);
  expect(done.out).not.toContain(keyOf(server.dataDir));
  expect(keyOf(server.dataDir)).not.toBe(old);
  expect(readFileSync(rotation?.oldKeyFile ?? '', 'utf8').trim()).toBe(old);
  expect(statSync(join(server.dataDir, 'master-key')).mode & 0o777).toBe(0o600);
  expect(existsSync(join(server.dataDir, 'master-key.next'))).toBe(false);
  await server.start();
  expect(await decryptsCredential(server)).toBe(true);
  // The old key no longer decrypts anything.
  await server.stop();
  await expect(server.start({ RELAY_MASTER_KEY: old })).rejects.toThrow(
    'The master key does not match',
  );
});

test('a key from the environment is replaced by hand, with printed instructions', async () => {
  const old = 'cd'.repeat(32);
  const server = await serverWith({ RELAY_MASTER_KEY: old });
  await withCredential(server);
  await server.stop();
  const keyFile = join(folder(), 'new-key');
  const env = { RELAY_DATA_DIR: server.dataDir, RELAY_MASTER_KEY: old };
  const done = await relay(['rotate-master-key', '--key-file', keyFile], { env });
  expect(done.code).toBe(0);
  expect(done.out).toContain('Set RELAY_MASTER_KEY to the contents of that file');
  await expect(server.start()).rejects.toThrow('The master key does not match');
  await server.start({ RELAY_MASTER_KEY: readFileSync(keyFile, 'utf8').trim() });
  expect(await decryptsCredential(server)).toBe(true);
});

test('a folder without a store is rejected, and nothing is created', async () => {
  const dir = folder();
  const env = { RELAY_DATA_DIR: join(dir, 'nothing') };
  for (const args of [['rotate-master-key'], ['backup', join(dir, 'copy')]]) {
    const outcome = await relay(args, { env });
    expect(outcome).toMatchObject({ code: 1, out: '' });
    expect(outcome.err).toContain('There is no store in');
  }
  expect(readdirSync(dir)).toEqual([]);
});
