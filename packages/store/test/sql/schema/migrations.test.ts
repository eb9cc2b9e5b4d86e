import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { checkSqlite } from '../../../src/drivers/sqlite/copy.ts';
import { openSqliteDriver } from '../../../src/drivers/sqlite/file-driver.ts';
import { migrate, migrations } from '../../../src/sql/schema/migrations.ts';
import type { Migration } from '../../../src/sql/schema/migrations.ts';

describe('migrations', () => {
  let dir: string;
  let path: string;
  beforeEach(() => {
    dir = mkdtempSync(join(tmpdir(), 'relay-migrations-'));
    path = join(dir, 'test.db');
  });
  afterEach(() => rmSync(dir, { recursive: true, force: true }));

  const steps = (...ids: number[]): Migration[] =>
    ids.map((id) => ({ id, statements: [`CREATE TABLE step_${id} (id BIGINT)`] }));

  async function withDriver<Value>(
    use: (driver: Awaited<ReturnType<typeof openSqliteDriver>>) => Promise<Value>,
  ) {
    const driver = await openSqliteDriver({ path });
    try {
      return await use(driver);
    } finally {
      await driver.close();
    }
  }

  const applied = () =>
    withDriver(async (driver) =>
      (await driver.read('SELECT id FROM migrations ORDER BY id', [])).map(({ id }) => id),
    );

  test('are numbered 1, 2, 3 …', () => {
    expect(migrations.map(({ id }) => id)).toEqual(migrations.map((_, i) => i + 1));
  });

  test('are applied in order, each once, and remembered', async () => {
    await withDriver((driver) => migrate(driver, steps(1, 2)));
    await withDriver((driver) => migrate(driver, steps(1, 2)));
    await withDriver((driver) => migrate(driver, steps(1, 2, 3)));
    expect(await applied()).toEqual([1, 2, 3]);
  });

  test('a step that fails is undone as a whole, and those before it stay', async () => {
    const broken = { id: 2, statements: ['CREATE TABLE half (id BIGINT)', 'CREATE TABLE'] };
    const failed = withDriver((driver) => migrate(driver, [...steps(1), broken]));
    await expect(failed).rejects.toMatchObject({ code: 'storage_failed' });
    expect(await applied()).toEqual([1]);
    await withDriver((driver) =>
      migrate(driver, [...steps(1), { id: 2, statements: ['CREATE TABLE half (id BIGINT)'] }]),
    );
    expect(await applied()).toEqual([1, 2]);
  });

  test('a database that only has more in it is not refused', async () => {
    await withDriver((driver) => migrate(driver, steps(1, 2, 3)));
    await withDriver((driver) => migrate(driver, steps(1, 2)));
    expect(await applied()).toEqual([1, 2, 3]);
  });

  test('a step beyond the first only adds, or says who cannot follow', () => {
    const adds =
      /^\s*(?:CREATE|INSERT|DROP INDEX|ALTER TABLE \w+ SET \(|ALTER TABLE \w+ ADD COLUMN (?!.*NOT NULL(?!.*DEFAULT)))/i;
    expect('DROP TABLE runs').not.toMatch(adds);
    expect('ALTER TABLE runs ADD COLUMN a TEXT NOT NULL').not.toMatch(adds);
    for (const { id, statements, floor } of migrations.slice(1)) {
      if (floor !== undefined) continue;
      const written = 'sqlite' in statements ? Object.values(statements).flat() : statements;
      for (const sql of written) expect([id, sql]).toEqual([id, expect.stringMatching(adds)]);
    }
  });

  test('a database from which something was taken away is refused in one clear line', async () => {
    const breaking = { id: 3, statements: ['DROP TABLE step_1'], floor: 3 };
    await withDriver((driver) => migrate(driver, [...steps(1, 2), breaking]));
    await withDriver((driver) => migrate(driver, [...steps(1, 2), breaking, ...steps(4)]));
    const refused = withDriver((driver) => migrate(driver, steps(1, 2)));
    await expect(refused).rejects.toMatchObject({
      code: 'storage_failed',
      message:
        'The database has schema version 4; this Relay supports up to version 2. Upgrade Relay',
    });
  });

  describe('a database that this Relay cannot use', () => {
    const change = async (...statements: string[]) => {
      await withDriver((driver) => migrate(driver));
      await withDriver((driver) => driver.transact(statements.map((sql) => ({ sql, params: [] }))));
    };
    const refusal = () => withDriver((driver) => migrate(driver));

    test.each([
      ['DROP TABLE metadata', 'schema version 2, but no table metadata'],
      ['ALTER TABLE runs DROP COLUMN surface', 'its table runs has no column surface'],
      [
        'CREATE TABLE again AS SELECT * FROM nodes; DROP TABLE nodes; ALTER TABLE again RENAME TO nodes; ALTER TABLE nodes DROP COLUMN alive_until',
        'its table nodes has no column alive_until',
      ],
    ])('is refused with what it lacks, and left as it is: %s', async (statements, what) => {
      await change(...statements.split('; '));
      await expect(refusal()).rejects.toMatchObject({
        code: 'storage_failed',
        message: expect.stringContaining(what),
      });
      await expect(refusal()).rejects.toThrow(/created by another version of Relay/);
      expect(() => checkSqlite(path)).toThrow(what);
    });

    test('is refused if one of its tables requires what this Relay does not know', async () => {
      await change(
        'DROP TABLE probes',
        'CREATE TABLE probes (id BIGINT NOT NULL PRIMARY KEY, count BIGINT NOT NULL, node TEXT NOT NULL)',
      );
      await expect(refusal()).rejects.toThrow(/table probes requires the column node/);
    });

    test('is refused if it belongs to another program', async () => {
      const sql = 'CREATE TABLE runs (id TEXT)';
      await withDriver((driver) => driver.transact([{ sql, params: [] }]));
      await expect(refusal()).rejects.toThrow(/has a table runs that this Relay did not create/);
      expect(await withDriver((driver) => driver.read('SELECT * FROM runs', []))).toEqual([]);
    });
  });

  test('several that start together apply each step once', async () => {
    const drivers = await Promise.all(Array.from({ length: 4 }, () => openSqliteDriver({ path })));
    await Promise.all(drivers.map((driver) => migrate(driver)));
    await Promise.all(drivers.map((driver) => driver.close()));
    expect(await applied()).toEqual(migrations.map(({ id }) => id));
  });

  test('every table that belongs to tenants has the tenant in it', async () => {
    const columns = await withDriver(async (driver) => {
      await migrate(driver);
      return driver.read(
        `SELECT m.name AS name, p.name AS "column" FROM sqlite_master m
          JOIN pragma_table_info(m.name) p WHERE m.type = 'table'`,
        [],
      );
    });
    const tables = Map.groupBy(columns, ({ name }) => String(name));
    const systemTables = [
      'metadata',
      'migration_floors',
      'migrations',
      'nodes',
      'probes',
      'tenants',
    ];
    for (const [name, fields] of tables) {
      // The index of words: each begins with the fingerprint of a tenant and a namespace.
      if (/^(?:memory|message)_index/.test(name)) continue;
      const names = fields.map(({ column }) => column);
      expect([name, names.includes('tenant_id')]).toEqual([name, !systemTables.includes(name)]);
    }
    const runs = tables.get('runs')?.map(({ column }) => column);
    expect(runs).toEqual(expect.arrayContaining(['serialized_state', 'output_json']));
  });
});
