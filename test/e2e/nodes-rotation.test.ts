/** A new master key for a database that several nodes share. */
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import { relay } from '../support/cli.ts';
import { createDatabase } from '../support/postgres.ts';
import {
  decryptsCredential,
  useRecordingProvider,
  withCredential,
} from '../support/recorded-credential.ts';
import { TestServer } from '../support/server.ts';

vi.setConfig({ testTimeout: 60_000 });
useRecordingProvider();

function folder(): string {
  const dir = mkdtempSync(join(tmpdir(), 'relay-rotation-'));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  return dir;
}

async function serverWith(env: Record<string, string>): Promise<TestServer> {
  const server = new TestServer({ RELAY_PRIVATE_NETWORKS: '127.0.0.0/8', ...env });
  onTestFinished(() => server.dispose());
  return server.start();
}

test('nodes of one database switch to a new key one by one, and each can always decrypt', async () => {
  const database = await createDatabase();
  onTestFinished(() => database.drop());
  const old = 'ef'.repeat(32);
  const shared = { RELAY_DATABASE_URL: database.url, RELAY_MASTER_KEY: old };
  const node = await serverWith(shared);
  await withCredential(node);
  const keyFile = join(folder(), 'new-key');
  const env = { ...shared, RELAY_DATA_DIR: node.dataDir };
  const made = await relay(['rotate-master-key', '--key-file', keyFile], { env });
  expect(made.code).toBe(0);
  expect(made.out).toContain('Nothing is encrypted with it yet');
  const fresh = readFileSync(keyFile, 'utf8').trim();
  expect(made.out).not.toContain(fresh);
  await node.stop();
  await node.start({ RELAY_MASTER_KEY_PREVIOUS: fresh });
  const { apiKey } = node;
  const first = await serverWith({
    RELAY_DATABASE_URL: database.url,
    RELAY_MASTER_KEY: fresh,
    RELAY_MASTER_KEY_PREVIOUS: old,
  });
  // One node has re-encrypted everything; the other one still has the old key.
  expect(await decryptsCredential({ url: first.url, apiKey })).toBe(true);
  expect(await decryptsCredential(node)).toBe(true);
  await node.stop();
  await node.start({ RELAY_MASTER_KEY: fresh });
  expect(await decryptsCredential(node)).toBe(true);
  await node.stop();
  await expect(node.start()).rejects.toThrow('The master key does not match');
});

test('a database is re-encrypted at once only if no node uses it', async () => {
  const database = await createDatabase();
  onTestFinished(() => database.drop());
  const shared = { RELAY_DATABASE_URL: database.url, RELAY_MASTER_KEY: 'ef'.repeat(32) };
  const node = await serverWith(shared);
  await withCredential(node);
  const keyFile = join(folder(), 'new-key');
  const env = { ...shared, RELAY_DATA_DIR: node.dataDir };
  const args = ['rotate-master-key', '--nodes-stopped', '--key-file', keyFile];
  const refused = await relay(args, { env });
  expect(refused).toMatchObject({ code: 1, out: '' });
  expect(refused.err).toContain('A node uses this database');
  expect(existsSync(keyFile)).toBe(false);
  expect(await decryptsCredential(node)).toBe(true);
  await node.stop();
  expect((await relay(args, { env })).out).toContain('are encrypted with the new master key');
  await node.start({ RELAY_MASTER_KEY: readFileSync(keyFile, 'utf8').trim() });
  expect(await decryptsCredential(node)).toBe(true);
});
