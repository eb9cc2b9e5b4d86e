import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { lockFolder } from '../../../src/drivers/sqlite/folder-lock.ts';

const module = new URL('../../../src/drivers/sqlite/folder-lock.ts', import.meta.url).href;

/** A process that holds the lock until it is ended. */
async function holder(dir: string): Promise<ChildProcess> {
  const script = `
    const { lockFolder } = await import(${JSON.stringify(module)});
    globalThis.lock = lockFolder(${JSON.stringify(dir)});
    console.log('locked');
    setInterval(() => {}, 1000);`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  await once(child.stdout, 'data');
  return child;
}

describe('the lock of a data folder', () => {
  let parent: string;
  let dir: string;
  beforeEach(() => {
    parent = mkdtempSync(join(tmpdir(), 'relay-lock-'));
    dir = join(parent, 'deep', 'data');
  });
  afterEach(() => rmSync(parent, { recursive: true, force: true }));

  const refusal = {
    code: 'storage_failed',
    message: expect.stringContaining('Another Relay server'),
  };

  test('makes the folder and the lock for their owner alone', () => {
    const lock = lockFolder(dir);
    expect(statSync(dir).mode & 0o777).toBe(0o700);
    expect(statSync(join(dir, 'server.lock')).mode & 0o777).toBe(0o600);
    lock.release();
  });

  test('refuses a second holder in the same process, in one clear line', () => {
    const lock = lockFolder(dir);
    expect(() => lockFolder(dir)).toThrow(`Another Relay server is using ${dir}/`);
    expect(() => lockFolder(`${dir}/`)).toThrow(`Another Relay server is using ${dir}/`);
    lock.release();
    lockFolder(dir).release();
  });

  test('is not lost when a second holder was refused', async () => {
    const lock = lockFolder(dir);
    expect(() => lockFolder(dir)).toThrow(expect.objectContaining(refusal));
    const script = `
      const { lockFolder } = await import(${JSON.stringify(module)});
      try { lockFolder(${JSON.stringify(dir)}); console.log('taken'); }
      catch (error) { console.log(error.message); }`;
    const child = spawn(process.execPath, ['--input-type=module', '-e', script]);
    const [said] = (await once(child.stdout, 'data')) as [Buffer];
    expect(said.toString().trim()).toBe(`Another Relay server is using ${dir}/`);
    lock.release();
  });

  test('can be released twice', () => {
    const lock = lockFolder(dir);
    lock.release();
    lock.release();
    const next = lockFolder(dir);
    lock.release();
    expect(() => lockFolder(dir)).toThrow(expect.objectContaining(refusal));
    next.release();
  });

  for (const signal of ['SIGKILL', 'SIGTERM'] as const) {
    test(`is free as soon as its holder ended by ${signal}`, async () => {
      const child = await holder(dir);
      expect(() => lockFolder(dir)).toThrow(expect.objectContaining(refusal));
      child.kill(signal);
      await once(child, 'exit');
      lockFolder(dir).release();
    });
  }

  test('a folder that cannot be created is refused in one clear line', () => {
    lockFolder(dir).release();
    const below = join(dir, 'server.lock', 'data');
    expect(() => lockFolder(below)).toThrow(`The data folder ${below} cannot be created`);
  });

  test('folders do not hinder each other', () => {
    const locks = ['a', 'b'].map((name) => lockFolder(join(dir, name)));
    for (const lock of locks) lock.release();
  });

  test('says at once that a folder cannot be made, also where the system would try for ever', () => {
    expect(() => lockFolder('/proc/relay/data')).toThrow(/cannot be created/);
  });
});
