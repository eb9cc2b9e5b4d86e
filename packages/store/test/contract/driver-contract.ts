import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { SqlDriver, SqlValue, Statement, UnitScope } from '../../src/drivers/driver.ts';
import { readLong } from '../../src/sql/statements.ts';

export interface OpenDriver {
  readonly driver: SqlDriver;
  dispose(): Promise<void>;
}

const insertSql = 'INSERT INTO things (id, name, size) VALUES (?, ?, ?)';

function insert(id: string, size: number | null = 0, name: string | null = null): Statement {
  return { sql: insertSql, params: [id, name, size] };
}

/** Compare-and-set on one row. */
function set(id: string, from: number, to: number): Statement {
  const sql = 'UPDATE things SET size = ? WHERE id = ? AND size = ?';
  return { sql, params: [to, id, from], expect: 1 };
}

/** `open` gives a driver on an empty database each time. */
export function driverContract(name: string, open: () => Promise<OpenDriver>): void {
  describe(`${name} keeps the contract of a driver`, () => {
    let opened: OpenDriver;
    let driver: SqlDriver;

    beforeEach(async () => {
      opened = await open();
      driver = opened.driver;
      const sql = 'CREATE TABLE things (id TEXT NOT NULL PRIMARY KEY, name TEXT, size BIGINT)';
      await driver.transact([{ sql, params: [] }]);
    });
    afterEach(() => opened.dispose());

    const all = async () => {
      const rows = await driver.read('SELECT id, size FROM things ORDER BY id', []);
      return Object.fromEntries(rows.map(({ id, size }) => [String(id), size]));
    };

    describe('reading', () => {
      test('rows come back with the values that were stored', async () => {
        const time = Date.UTC(2200, 0, 1);
        await driver.transact([insert('a', time, 'ä €😀'), insert('b', null, null)]);
        const rows = await driver.read('SELECT * FROM things ORDER BY id', []);
        expect(rows.map((row) => ({ ...row }))).toEqual([
          { id: 'a', name: 'ä €😀', size: time },
          { id: 'b', name: null, size: null },
        ]);
      });

      test('parameters are values and never SQL', async () => {
        const name = `'); DROP TABLE things; -- ? ? "`;
        await driver.transact([insert('a', 1, name)]);
        const sql = `SELECT id, '?' AS mark FROM things WHERE name = ?`;
        const rows = await driver.read(sql, [name]);
        expect(rows.map((row) => ({ ...row }))).toEqual([{ id: 'a', mark: '?' }]);
      });

      test('long reads see what was committed before, answer in order, and report their own errors', async () => {
        await driver.transact([insert('a', 1), insert('b', 2)]);
        const sizes = (sql: string, params: readonly SqlValue[] = []) =>
          readLong(driver, { sql, params }).then((rows) => rows.map(({ size }) => size));
        const [all, wrong, one] = await Promise.allSettled([
          sizes('SELECT size FROM things ORDER BY id'),
          sizes('SELECT nothing FROM things'),
          sizes('SELECT size FROM things WHERE id = ?', ['b']),
        ]);
        expect(all).toEqual({ status: 'fulfilled', value: [1, 2] });
        expect(wrong).toMatchObject({ status: 'rejected', reason: { code: 'storage_failed' } });
        expect(one).toEqual({ status: 'fulfilled', value: [2] });
        await driver.transact([insert('c', 3)]);
        expect(await sizes('SELECT size FROM things ORDER BY id')).toEqual([1, 2, 3]);
      });

      test('nothing found is no rows', async () => {
        expect(await driver.read('SELECT * FROM things', [])).toEqual([]);
      });

      test('a statement that is wrong rejects, and the next one works', async () => {
        const wrong = driver.read('SELECT nothing FROM nowhere', []);
        await expect(wrong).rejects.toMatchObject({ code: 'storage_failed' });
        expect(await driver.read('SELECT * FROM things', [])).toEqual([]);
      });
    });

    describe('units', () => {
      test('a unit reports the changes and the rows of each statement', async () => {
        const result = await driver.transact([
          insert('a', 1),
          insert('b', 1),
          { sql: 'UPDATE things SET size = 2 WHERE size = ? RETURNING id', params: [1] },
          { sql: 'UPDATE things SET size = 3 WHERE size = 2', params: [] },
          { sql: 'DELETE FROM things WHERE size = 99', params: [] },
          { sql: 'SELECT COUNT(*) AS n FROM things', params: [] },
        ]);
        if (!result.ok) throw new Error('not stored');
        expect(result.results.map(({ changes }) => changes)).toEqual([1, 1, 2, 2, 0, 1]);
        const ids = result.results[2]?.rows.map(({ id }) => String(id));
        expect(ids?.toSorted()).toEqual(['a', 'b']);
        expect(result.results[0]?.rows).toEqual([]);
        expect(result.results[5]?.rows[0]?.['n']).toBe(2);
      });

      test('a unit without statements is done', async () => {
        expect(await driver.transact([])).toEqual({ ok: true, results: [] });
      });

      test('a statement may use what an earlier one of its unit created', async () => {
        const result = await driver.transact([
          { sql: 'CREATE TABLE more (id BIGINT)', params: [] },
          { sql: 'INSERT INTO more (id) VALUES (?)', params: [7] },
          { sql: 'SELECT id FROM more', params: [], expect: 1 },
        ]);
        expect(result.ok).toBe(true);
      });

      test('an insert that conflicts quietly changes nothing and says so', async () => {
        const sql = `${insertSql} ON CONFLICT DO NOTHING`;
        const params: SqlValue[] = ['a', null, 1];
        await driver.transact([{ sql, params }]);
        expect(await driver.transact([{ sql, params, expect: 1 }])).toEqual({
          ok: false,
          failedAt: 0,
        });
      });
    });

    describe('expectations', () => {
      test('one that is not met is a value, and the whole unit is undone', async () => {
        await driver.transact([insert('a', 1)]);
        const result = await driver.transact([
          insert('b'),
          set('a', 1, 2),
          set('a', 1, 3),
          insert('c'),
        ]);
        expect(result).toEqual({ ok: false, failedAt: 2 });
        expect(await all()).toEqual({ a: 1 });
      });

      test('they count affected rows, and returned ones where there are any', async () => {
        await driver.transact([insert('a', 1), insert('b', 1)]);
        const touch = 'UPDATE things SET size = 1 WHERE size = ?';
        const outcome = async (sql: string, params: SqlValue[], expected: number) =>
          (await driver.transact([{ sql, params, expect: expected }])).ok;
        expect(await outcome(touch, [1], 2)).toBe(true);
        expect(await outcome(touch, [1], 1)).toBe(false);
        expect(await outcome(touch, [9], 0)).toBe(true);
        expect(await outcome(`${touch} RETURNING id`, [1], 2)).toBe(true);
        expect(await outcome(`${touch} RETURNING id`, [9], 1)).toBe(false);
        expect(await outcome('SELECT id FROM things', [], 2)).toBe(true);
      });

      test('of 50 racing units that expect the same row one is stored', async () => {
        await driver.transact([insert('a', 0)]);
        const results = await Promise.all(
          Array.from({ length: 50 }, (_, i) =>
            driver.transact([set('a', 0, i + 1), insert(`winner ${i + 1}`)]),
          ),
        );
        expect(results.filter(({ ok }) => ok)).toHaveLength(1);
        const winner = results.findIndex(({ ok }) => ok) + 1;
        expect(await all()).toEqual({ a: winner, [`winner ${winner}`]: 0 });
      });
    });

    describe('many at once', () => {
      const orders: Record<string, UnitScope | undefined> = {
        'of one run': { run: 'a' },
        'of none': undefined,
      };
      test.each(Object.entries(orders))(
        'units %s are applied in the order in which they came',
        async (_name, of) => {
          await driver.transact([insert('a', 0)]);
          const count = of === undefined ? 300 : 3_000;
          const results = await Promise.all(
            Array.from({ length: count }, (_, i) => driver.transact([set('a', i, i + 1)], of)),
          );
          expect(results.every(({ ok }) => ok)).toBe(true);
          expect(await all()).toEqual({ a: count });
        },
      );

      test('neither an exclusive unit nor one that fails changes the order of its run', async () => {
        const runs = ['a', 'b', 'c', 'd', 'e'];
        await driver.transact(runs.map((id) => insert(id, 0)));
        const results = await Promise.all(
          Array.from({ length: 200 }, (_, i) => i).flatMap((i) =>
            runs.map((run, n) => {
              const isToFail = i % 50 === 10 + n;
              const unit = isToFail ? [set(run, -1, i)] : [set(run, i, i + 1)];
              const next = { run, exclusive: (i + n) % 7 === 0 };
              return Promise.all([
                driver.transact(unit, next),
                ...(isToFail ? [driver.transact([set(run, i, i + 1)], next)] : []),
              ]);
            }),
          ),
        );
        expect(results.filter(([first]) => !first?.ok)).toHaveLength(20);
        expect(results.every((each) => each.at(-1)?.ok)).toBe(true);
        expect(await all()).toEqual(Object.fromEntries(runs.map((run) => [run, 200])));
      });

      test('units that fail in any way do not affect others of the batch', async () => {
        await driver.transact([insert('taken')]);
        const settled = await Promise.allSettled([
          driver.transact([insert('a')]),
          driver.transact([insert('b'), set('a', 9, 9)]),
          driver.transact([insert('c'), insert('taken')]),
          driver.transact([insert('d'), { sql: 'INSERT INTO nowhere VALUES (1)', params: [] }]),
          driver.transact([
            insert('e'),
            { sql: insertSql, params: ['e', null, 0, 'one too many'] },
          ]),
          driver.transact([insert('f')]),
        ]);
        expect(settled.map(({ status }) => status)).toEqual([
          'fulfilled',
          'fulfilled',
          'rejected',
          'rejected',
          'rejected',
          'fulfilled',
        ]);
        expect(settled[1]).toMatchObject({ value: { ok: false, failedAt: 1 } });
        expect(settled[2]).toMatchObject({ reason: { code: 'storage_failed' } });
        expect(Object.keys(await all())).toEqual(['a', 'f', 'taken']);
      });

      test('a large unit among small ones goes through', async () => {
        const large = 'x'.repeat(12 * 1024 * 1024);
        const results = await Promise.all([
          driver.transact([insert('a')]),
          driver.transact([insert('b', 0, large)]),
          driver.transact([insert('c')]),
        ]);
        expect(results.every(({ ok }) => ok)).toBe(true);
        const rows = await driver.read('SELECT LENGTH(name) AS n FROM things WHERE id = ?', ['b']);
        expect(rows[0]?.['n']).toBe(large.length);
      });

      test('what was answered is visible to the next read', async () => {
        for (let i = 0; i < 50; i += 1) {
          await driver.transact([insert(`${i}`)]);
          const rows = await driver.read('SELECT id FROM things WHERE id = ?', [`${i}`]);
          expect(rows).toHaveLength(1);
        }
      });
    });

    describe('closing', () => {
      test('what was submitted before is still stored', async () => {
        const submitted = Array.from({ length: 100 }, (_, i) => driver.transact([insert(`${i}`)]));
        const closed = driver.close();
        const results = await Promise.all(submitted);
        await closed;
        expect(results.every(({ ok }) => ok)).toBe(true);
      });

      test('afterwards everything rejects, and closing again does nothing', async () => {
        await driver.close();
        const refusal = { code: 'storage_failed' };
        await expect(driver.transact([insert('a')])).rejects.toMatchObject(refusal);
        await expect(driver.read('SELECT * FROM things', [])).rejects.toMatchObject(refusal);
        await expect(driver.close()).resolves.toBeUndefined();
      });
    });
  });
}
