import {
  closeSync,
  existsSync,
  mkdtempSync,
  openSync,
  rmSync,
  statSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Statement } from '../../../src/drivers/driver.ts';
import { openSqliteDriver } from '../../../src/drivers/sqlite/file-driver.ts';
import type { SqliteDriver } from '../../../src/drivers/sqlite/file-driver.ts';

describe('SQLite', () => {
  let dir: string;
  let path: string;
  let driver: SqliteDriver;

  beforeEach(async () => {
    dir = mkdtempSync(join(tmpdir(), 'relay-faults-'));
    path = join(dir, 'test.db');
    driver = await openSqliteDriver({ path });
    const sql = 'CREATE TABLE things (id BIGINT NOT NULL PRIMARY KEY, body TEXT)';
    await driver.transact([{ sql, params: [] }]);
  });
  afterEach(async () => {
    await driver.close();
    rmSync(dir, { recursive: true, force: true });
  });

  const insert = (id: number, body = ''): Statement => ({
    sql: 'INSERT INTO things (id, body) VALUES (?, ?)',
    params: [id, body],
  });
  const count = async () => (await driver.read('SELECT COUNT(*) AS n FROM things', []))[0]?.['n'];

  /** Makes units of any size go to the writer thread, as large ones do once it has started. */
  const padding: Statement = { sql: 'SELECT ? AS padding', params: ['x'.repeat(100_000)] };
  const startThread = async () => {
    while (driver.stats.commitsOnThread === 0) {
      await driver.transact([padding]);
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  };

  test.each(['main', 'writer'])('the %s thread syncs the WAL at each commit', async (thread) => {
    if (thread === 'writer') await startThread();
    const { commitsOnThread } = driver.stats;
    const unit = ['journal_mode', 'synchronous'].map((name) => ({
      sql: `PRAGMA ${name}`,
      params: [],
    }));
    const result = await driver.transact(thread === 'writer' ? [...unit, padding] : unit);
    const rows = result.ok ? result.results.slice(0, 2).map(({ rows: [row] }) => row) : [];
    expect(rows).toEqual([{ journal_mode: 'wal' }, { synchronous: 2 }]);
    expect(driver.stats.commitsOnThread - commitsOnThread).toBe(thread === 'writer' ? 1 : 0);
  });

  test('checkpoints keep the WAL small, also if all units are small', async () => {
    const body = 'x'.repeat(40_000);
    for (let id = 0; id < 700; id += 1) await driver.transact([insert(id, body)]);
    expect(driver.stats.commitsOnThread).toBeGreaterThan(0);
    expect(statSync(path).size).toBeGreaterThan(4_000_000);
    expect(statSync(`${path}-wal`).size).toBeLessThan(25_000_000);
  });

  test('both threads see what the other has written', async () => {
    await startThread();
    for (let id = 0; id < 20; id += 2) {
      await driver.transact([insert(id)]);
      expect(await driver.transact([insert(id + 1), padding])).toMatchObject({ ok: true });
      const taken = driver.transact([insert(id + 1)]);
      await expect(taken).rejects.toMatchObject({ code: 'storage_failed' });
      const result = await driver.transact([
        { sql: 'SELECT COUNT(*) AS n FROM things', params: [] },
      ]);
      expect(result).toMatchObject({ results: [{ rows: [{ n: id + 2 }] }] });
    }
  });

  test('units that come together share a commit', async () => {
    const { commits, units } = driver.stats;
    await Promise.all(Array.from({ length: 500 }, (_, i) => driver.transact([insert(i)])));
    expect(driver.stats.units - units).toBe(500);
    expect(driver.stats.commits - commits).toBe(1);
  });

  test('16 that each wait for their commit share it as well', async () => {
    const { commits, units } = driver.stats;
    await Promise.all(
      Array.from({ length: 16 }, async (_, lane) => {
        for (let i = 0; i < 50; i += 1) await driver.transact([insert(lane * 1_000 + i)]);
      }),
    );
    expect(driver.stats.units - units).toBe(800);
    expect(driver.stats.commits - commits).toBeLessThan(200);
  });

  test('a unit that comes alone is committed alone, at once', async () => {
    const { commits } = driver.stats;
    for (let i = 0; i < 10; i += 1) await driver.transact([insert(i)]);
    expect(driver.stats.commits - commits).toBe(10);
  });

  test('the event loop goes on and reads are answered while the writer waits', async () => {
    const other = new DatabaseSync(path);
    other.exec('BEGIN IMMEDIATE');
    let isStored = false;
    const blocked = driver.transact([insert(1)]).then(() => (isStored = true));
    for (let i = 0; i < 10; i += 1) {
      await new Promise((resolve) => setTimeout(resolve, 5));
      expect(await count()).toBe(0);
    }
    expect(isStored).toBe(false);
    other.exec('COMMIT');
    other.close();
    await blocked;
    expect(await count()).toBe(1);
  });

  test('a writer elsewhere that does not give way is a failure, not a hang', async () => {
    const impatient = await openSqliteDriver({ path, busyTimeoutMs: 100 });
    const other = new DatabaseSync(path);
    other.exec('BEGIN IMMEDIATE');
    const refused = [1, 2].map((id) => impatient.transact([insert(id)]));
    for (const each of await Promise.allSettled(refused)) {
      expect(each).toMatchObject({ reason: { code: 'storage_failed' } });
    }
    other.exec('ROLLBACK');
    other.close();
    expect(await impatient.transact([insert(3)])).toMatchObject({ ok: true });
    expect(await count()).toBe(1);
    await impatient.close();
  });

  test.each(['main', 'writer'])(
    'a full disk on the %s thread fails the batch as such, loses nothing, and is over once there is room',
    async (thread) => {
      if (thread === 'writer') await startThread();
      const pragma = async (name: string) => {
        const sql = `PRAGMA ${name}`;
        const unit = [{ sql, params: [] }, ...(thread === 'writer' ? [padding] : [])];
        const result = await driver.transact(unit);
        return result.ok ? Object.values(result.results[0]?.rows[0] ?? {})[0] : undefined;
      };
      await driver.transact([insert(1, 'kept')]);
      const pages = await pragma('page_count');
      const body = 'x'.repeat(100_000);
      // A limit holds for one connection, so it is set and removed in the batch that it concerns.
      const [, ...failed] = await Promise.allSettled([
        pragma(`max_page_count = ${Number(pages) + 4}`),
        driver.transact([insert(2, 'with the large one')]),
        driver.transact([insert(3, body)]),
      ]);
      expect(failed).toMatchObject([
        { reason: { code: 'storage_full', status: 503 } },
        { reason: { code: 'storage_full' } },
      ]);
      expect(await count()).toBe(1);
      expect(await driver.transact([insert(4, 'small')])).toMatchObject({ ok: true });
      const [, stored] = await Promise.all([
        pragma('max_page_count = 1000000'),
        driver.transact([insert(3, body)]),
      ]);
      expect(stored).toMatchObject({ ok: true });
      expect(await count()).toBe(3);
      expect(await pragma('integrity_check')).toBe('ok');
    },
  );

  test('a file that is no database is refused as damaged', async () => {
    const bad = join(dir, 'bad.db');
    writeFileSync(bad, 'this is not a database, but it is long enough to be looked at '.repeat(40));
    await expect(openSqliteDriver({ path: bad })).rejects.toMatchObject({
      code: 'journal_corrupt',
    });
  });

  test('a folder that is not there is refused', async () => {
    const nowhere = openSqliteDriver({ path: join(dir, 'missing', 'test.db') });
    await expect(nowhere).rejects.toMatchObject({ code: 'storage_failed' });
  });

  test('a damaged page fails as such, for readers and writers', async () => {
    for (let id = 0; id < 200; id += 1) await driver.transact([insert(id, 'x'.repeat(500))]);
    await driver.close();
    const rubbish = Buffer.alloc(4096, 0x5a);
    const db = new DatabaseSync(path);
    const { rootpage } = db
      .prepare(`SELECT rootpage FROM sqlite_master WHERE name = 'things'`)
      .get() as { rootpage: number };
    db.close();
    const file = openSync(path, 'r+');
    writeSync(file, rubbish, 0, 4096, (rootpage - 1) * 4096);
    closeSync(file);
    driver = await openSqliteDriver({ path });
    const read = driver.read('SELECT body FROM things', []);
    await expect(read).rejects.toMatchObject({ code: 'journal_corrupt' });
    await expect(driver.transact([insert(999)])).rejects.toMatchObject({ code: 'journal_corrupt' });
  });

  test('closing leaves one file, with everything in it', async () => {
    await Promise.all(Array.from({ length: 100 }, (_, i) => driver.transact([insert(i)])));
    await driver.close();
    expect(existsSync(`${path}-wal`) && statSync(`${path}-wal`).size > 0).toBe(false);
    const db = new DatabaseSync(path, { readOnly: true });
    expect(db.prepare('SELECT COUNT(*) AS n FROM things').get()).toMatchObject({ n: 100 });
    db.close();
  });

  test('reading cannot write', async () => {
    const sneaky = driver.read('DELETE FROM things', []);
    await expect(sneaky).rejects.toMatchObject({ code: 'storage_failed' });
  });
});
