import {
  copyFileSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { readConfig } from '../../src/config/config.ts';
import { openStore } from '../../src/config/open-store.ts';
import { inspectStore } from '../../src/operator/inspect.ts';
import { rotateMasterKey } from '../../src/operator/rotate.ts';
import { makeTenantKey } from '../../src/operator/tenant-key.ts';
import { hashApiKey } from '../../src/secrets/keys.ts';

/** A folder whose store was sealed by a start. */
async function installation() {
  const dataDir = mkdtempSync(join(tmpdir(), 'relay-rotate-'));
  onTestFinished(() => rmSync(dataDir, { recursive: true, force: true }));
  const target = { env: { RELAY_DATA_DIR: dataDir }, cwd: '/' };
  const opened = await openStore(readConfig(target.env, '/'), 'exclusive');
  await opened.close();
  await rotateMasterKey(target);
  const path = (name: string) => join(dataDir, name);
  return { target, path, read: (name: string) => readFileSync(path(name), 'utf8'), dataDir };
}

test('each rotation leaves a valid new key and renames the old one', async () => {
  const { target, read, dataDir } = await installation();
  const first = read('master-key');
  await rotateMasterKey(target);
  const second = read('master-key');
  await rotateMasterKey(target);
  expect(new Set([first, second, read('master-key')]).size).toBe(3);
  const kept = readdirSync(dataDir).filter((name) => name.endsWith('.old'));
  expect(kept.map(read)).toEqual(expect.arrayContaining([first, second]));
  expect(await inspectStore(target)).toMatchObject({ masterKey: 'fits' });
});

test('keys and grants stay valid, and their rows are signed with the new key', async () => {
  const { target } = await installation();
  const { apiKey } = await makeTenantKey(target, 'acme');
  await rotateMasterKey(target);
  expect(await inspectStore(target)).toMatchObject({ masterKey: 'fits', damagedRows: [] });
  const opened = await openStore(readConfig(target.env, '/'), 'shared');
  expect(await opened.store.findKey(hashApiKey(apiKey))).toMatchObject({ name: 'bootstrap' });
  await opened.close();
});

test('after a crash with a new key file, a second attempt uses that key', async () => {
  const { target, path, read } = await installation();
  const key = 'ab'.repeat(32);
  writeFileSync(path('master-key.next'), key, { mode: 0o600 });
  expect(await inspectStore(target)).toMatchObject({
    masterKey: 'fits',
    unfinishedRotation: path('master-key.next'),
  });
  await rotateMasterKey(target);
  expect(read('master-key')).toBe(key);
  expect(await inspectStore(target)).toMatchObject({ masterKey: 'fits' });
});

test('after a crash with a resealed store, a second attempt finishes', async () => {
  const { target, path, read } = await installation();
  const old = read('master-key');
  copyFileSync(path('master-key'), path('before'));
  await rotateMasterKey(target);
  const fresh = read('master-key');
  // As if it had been cut off just before the files changed their names.
  renameSync(path('master-key'), path('master-key.next'));
  renameSync(path('before'), path('master-key'));
  expect(await inspectStore(target)).toMatchObject({ masterKey: 'wrong' });
  await rotateMasterKey(target);
  expect(read('master-key')).toBe(fresh);
  expect(fresh).not.toBe(old);
  expect(await inspectStore(target)).toMatchObject({ masterKey: 'fits' });
  expect(existsSync(path('master-key.next'))).toBe(false);
});

test('a key that does not open the store is not replaced', async () => {
  const { target, path, read } = await installation();
  writeFileSync(path('master-key'), 'ef'.repeat(32));
  await expect(rotateMasterKey(target)).rejects.toThrow('The master key does not match the one');
  expect(read('master-key')).toBe('ef'.repeat(32));
  expect(await inspectStore(target)).toMatchObject({ masterKey: 'wrong' });
});

test('the key in use or an invalid file is refused as the new key', async () => {
  const { target, path, read } = await installation();
  const current = read('master-key').trim();
  const env = { ...target.env, RELAY_MASTER_KEY: current };
  const keyFile = path('master-key');
  await expect(rotateMasterKey({ env, cwd: '/' }, { keyFile })).rejects.toThrow('is in use');
  writeFileSync(path('letter'), 'Dear Ada');
  const other = { keyFile: path('letter') };
  await expect(rotateMasterKey({ env, cwd: '/' }, other)).rejects.toThrow('must be 32 bytes');
  expect(read('letter')).toBe('Dear Ada');
});

test('an inspection creates neither a folder nor a key', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'relay-rotate-'));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  const target = { env: { RELAY_DATA_DIR: join(dir, 'data') }, cwd: '/' };
  expect(await inspectStore(target)).toMatchObject({ store: 'absent', masterKey: 'unused' });
  expect(readdirSync(dir)).toEqual([]);
});
