import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { openSqliteStore } from '../../../src/index.ts';
import { checkSqlite, copySqlite, readSqliteMetadata } from '../../../src/drivers/sqlite/copy.ts';

async function storeIn() {
  const dir = mkdtempSync(join(tmpdir(), 'relay-copy-'));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  const store = await openSqliteStore({ dir });
  onTestFinished(() => store.close());
  return { dir, store, path: join(dir, 'relay.db'), copy: join(dir, 'copy.db') };
}

describe('a copy of a store', () => {
  test('is one moment of it, although its writer goes on', async () => {
    const { store, path, copy } = await storeIn();
    await store.writeMetadata('before', 'there');
    const later = Array.from({ length: 50 }, (_, index) => store.writeMetadata(`n${index}`, 'x'));
    copySqlite(path, copy);
    await Promise.all(later);
    await store.writeMetadata('after', 'not there');
    expect(readSqliteMetadata(copy, 'before')).toBe('there');
    expect(readSqliteMetadata(copy, 'after')).toBeUndefined();
    expect(() => checkSqlite(copy)).not.toThrow();
    expect(statSync(copy).mode & 0o777).toBe(0o600);
  });

  test('is never written over something else', async () => {
    const { path, copy } = await storeIn();
    writeFileSync(copy, 'mine');
    expect(() => copySqlite(path, copy)).toThrow(/cannot be read/);
  });

  test('opens as a store of its own', async () => {
    const { store, path, dir } = await storeIn();
    await store.writeMetadata('kept', 'yes');
    const other = mkdtempSync(join(dir, 'other-'));
    copySqlite(path, join(other, 'relay.db'));
    const opened = await openSqliteStore({ dir: other });
    onTestFinished(() => opened.close());
    expect(await opened.readMetadata('kept')).toBe('yes');
  });
});

test.each([
  ['not a database', 'nonsense'.repeat(200)],
  ['empty', ''],
])('a file that is %s is refused, and stays as it is', async (_, content) => {
  const { dir } = await storeIn();
  const path = join(dir, 'odd.db');
  writeFileSync(path, content);
  expect(() => checkSqlite(path)).toThrow(/odd\.db/);
  expect(statSync(path).size).toBe(content.length);
});

test('a file that is not there is not made', async () => {
  const { dir } = await storeIn();
  expect(() => checkSqlite(join(dir, 'none.db'))).toThrow(/none\.db cannot be read/);
  expect(() => statSync(join(dir, 'none.db'))).toThrow(/ENOENT/);
});
