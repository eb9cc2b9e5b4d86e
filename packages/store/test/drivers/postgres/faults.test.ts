import { Client } from 'pg';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { createDatabase, type TestDatabase } from '../../../../../test/support/postgres.ts';
import { TcpProxy, type Fate } from '../../../../../test/support/tcp-proxy.ts';
import type { Statement } from '../../../src/drivers/driver.ts';
import { openPostgresDriver, type PostgresDriver } from '../../../src/drivers/postgres/driver.ts';

describe('PostgreSQL', () => {
  let database: TestDatabase;
  let proxy: TcpProxy;
  let driver: PostgresDriver;

  beforeEach(async () => {
    database = await createDatabase();
    await database.sql('CREATE TABLE things (id TEXT NOT NULL, size BIGINT)');
    proxy = new TcpProxy(database.url);
    driver = await openPostgresDriver({ url: await proxy.open(), writers: 1, retryForMs: 3_000 });
  });
  afterEach(async () => {
    await driver.close();
    await proxy.close();
    await database.drop();
  });

  /** Without a key: whatever is repeated shows. */
  const insert = (id: string, size = 0): Statement => ({
    sql: 'INSERT INTO things (id, size) VALUES (?, ?)',
    params: [id, size],
  });
  const stored = async () =>
    (await database.sql('SELECT id FROM things ORDER BY id')).map(({ id }) => id);
  /** Once, for the first piece that holds the word. */
  const once = (word: string, fate: Fate) => {
    let isOver = false;
    proxy.fate = (piece) => {
      if (isOver || !piece.includes(word)) return 'pass';
      isOver = true;
      return fate;
    };
  };

  test('units that come together share a commit', async () => {
    await driver.transact([insert('first')]);
    const { commits, units } = driver.stats;
    await Promise.all(
      Array.from({ length: 60 }, (_, i) => driver.transact([insert(`${i}`)], { run: `${i}` })),
    );
    expect(driver.stats.units - units).toBe(60);
    expect(driver.stats.commits - commits).toBe(1);
  });

  test('a connection that is lost before COMMIT was sent costs time and nothing else', async () => {
    await driver.transact([insert('a')]);
    once('BEGIN', 'drop-now');
    const results = await Promise.all(
      ['b', 'c', 'd'].map((id) => driver.transact([insert(id)], { run: id })),
    );
    expect(results.every(({ ok }) => ok)).toBe(true);
    expect(await stored()).toEqual(['a', 'b', 'c', 'd']);
  });

  test('a COMMIT without a reply has an unknown outcome and is never repeated', async () => {
    await driver.transact([insert('a')]);
    once('COMMIT', 'deliver-then-drop');
    const lost = await Promise.allSettled(
      ['b', 'c'].map((id) => driver.transact([insert(id)], { run: id })),
    );
    for (const each of lost) {
      expect(each).toMatchObject({
        reason: {
          code: 'storage_failed',
          message: 'The connection was lost during COMMIT; the outcome of the write is unknown',
        },
      });
    }
    expect(await driver.transact([insert('d')])).toMatchObject({ ok: true });
    expect(await stored()).toEqual(['a', 'b', 'c', 'd']);
  });

  test('a server that ends all connections is asked again', async () => {
    await driver.transact([insert('a')]);
    await driver.read('SELECT id FROM things', []);
    await database.sql(
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid()`,
    );
    const [written, read] = await Promise.all([
      driver.transact([insert('b')]),
      driver.read('SELECT id FROM things WHERE id = ?', ['a']),
    ]);
    expect(written.ok).toBe(true);
    expect(read).toHaveLength(1);
    expect(await stored()).toEqual(['a', 'b']);
  });

  test('a database that is gone is a failure and no hang, and over when it is back', async () => {
    await driver.transact([insert('a')]);
    await proxy.close();
    const began = performance.now();
    const [written, read, ...others] = await Promise.allSettled([
      driver.transact([insert('b')]),
      driver.read('SELECT id FROM things', []),
      ...Array.from({ length: 200 }, (_, n) => driver.transact([insert(`b${n}`)])),
    ]);
    expect(new Set(others.map(({ status }) => status))).toEqual(new Set(['rejected']));
    expect(written).toMatchObject({ reason: { code: 'storage_failed' } });
    expect(read).toMatchObject({ reason: { code: 'storage_failed' } });
    expect(performance.now() - began).toBeLessThan(8_000);
    const waiting = driver.transact([insert('c')]);
    await proxy.open();
    expect(await waiting).toMatchObject({ ok: true });
    expect(await stored()).toEqual(['a', 'c']);
  });

  test('a node that stops in the middle of a transaction does not keep its locks', async () => {
    await driver.transact([insert('a', 0)]);
    const other = await openPostgresDriver({ url: database.url });
    const grow = { sql: 'UPDATE things SET size = size + 1 WHERE id = ?', params: ['a'] };
    let isHolding = false;
    proxy.fate = (piece) => {
      if (!piece.includes('COMMIT')) return 'pass';
      isHolding = true;
      return 'swallow';
    };
    const stopped = driver.transact([grow]).catch((error: unknown) => error);
    await expect.poll(() => isHolding).toBe(true);
    const began = performance.now();
    expect(await other.transact([grow])).toMatchObject({ ok: true });
    expect(performance.now() - began).toBeLessThan(5_000);
    await other.close();
    expect(await stopped).toMatchObject({
      message: 'The connection was lost during COMMIT; the outcome of the write is unknown',
    });
    expect(await database.sql('SELECT size FROM things')).toEqual([{ size: '1' }]);
  });

  test('a transaction in a deadlock is rolled back and retried', async () => {
    await driver.transact([insert('a', 0), insert('b', 0)]);
    const other = new Client({ connectionString: database.url });
    await other.connect();
    const grow = (id: string) => `UPDATE things SET size = size + 1 WHERE id = '${id}'`;
    await other.query('BEGIN');
    await other.query(grow('b'));
    const unit = ['a', 'b'].map((id) => ({ sql: grow(id), params: [] }));
    const grown = Promise.all([driver.transact(unit), driver.transact([insert('c')])]);
    await expect
      .poll(() => database.sql('SELECT 1 FROM pg_locks WHERE NOT granted'))
      .not.toEqual([]);
    // One of the two is the victim; ours comes again, and theirs gives up.
    await other.query(grow('a')).catch(() => undefined);
    await other.query('ROLLBACK');
    await other.end();
    expect((await grown).every(({ ok }) => ok)).toBe(true);
    expect(await database.sql('SELECT id, size FROM things ORDER BY id')).toEqual([
      { id: 'a', size: '1' },
      { id: 'b', size: '1' },
      { id: 'c', size: '0' },
    ]);
  });

  test('a full disk fails the batch as such, and is over once there is room', async () => {
    await database.sql(`CREATE FUNCTION fill() RETURNS trigger LANGUAGE plpgsql AS
      $$ BEGIN RAISE EXCEPTION 'no space left' USING ERRCODE = '53100'; END $$`);
    await database.sql(`CREATE TRIGGER full_disk BEFORE INSERT ON things
      FOR EACH ROW WHEN (NEW.size > 9) EXECUTE FUNCTION fill()`);
    const settled = await Promise.allSettled([
      driver.transact([insert('a')], { run: 'a' }),
      driver.transact([insert('b', 10)], { run: 'b' }),
    ]);
    for (const each of settled) expect(each).toMatchObject({ reason: { code: 'storage_full' } });
    expect(await stored()).toEqual([]);
    await database.sql('DROP TRIGGER full_disk ON things');
    expect(await driver.transact([insert('b', 10)])).toMatchObject({ ok: true });
  });

  test('a plan that a migration made invalid is made anew', async () => {
    await driver.transact([insert('a')]);
    expect(await driver.read('SELECT * FROM things', [])).toEqual([{ id: 'a', size: 0 }]);
    await database.sql('ALTER TABLE things ADD COLUMN later TEXT');
    expect(await driver.read('SELECT * FROM things', [])).toEqual([
      { id: 'a', size: 0, later: null },
    ]);
  });

  test('a number beyond the exact ones is not made inexact', async () => {
    await driver.transact([{ sql: 'INSERT INTO things VALUES (?, ?)', params: ['a', 2n ** 60n] }]);
    expect(await driver.read('SELECT size FROM things', [])).toEqual([{ size: 2n ** 60n }]);
  });

  test('an unreachable or refusing database is named in one line, without the password', async () => {
    const wrong = new URL(database.url);
    wrong.password = 'not-it';
    const refused = openPostgresDriver({ url: wrong.href });
    await expect(refused).rejects.toMatchObject({
      code: 'storage_failed',
      message: expect.stringMatching(/^The database 127\.0\.0\.1:\d+\/relay_\w+ cannot be used: /),
    });
    await expect(refused).rejects.not.toThrow(/not-it/);
    await expect(
      openPostgresDriver({ url: 'postgres://127.0.0.1:1/nowhere' }),
    ).rejects.toMatchObject({ message: expect.stringContaining('ECONNREFUSED') });
  });
});
