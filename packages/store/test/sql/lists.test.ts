/** How much is read to find what several filters match together. */
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Row, SqlAccess, SqlDriver } from '../../src/drivers/driver.ts';
import { openMemoryDriver } from '../../src/drivers/sqlite/memory-driver.ts';
import { readList } from '../../src/sql/lists.ts';
import { auditLists, selectAudit } from '../../src/sql/tenants/audit.ts';
import { migrate } from '../../src/sql/schema/migrations.ts';

describe('a list by several filters', () => {
  let driver: SqlDriver;
  let statements: string[];
  beforeEach(async () => {
    driver = openMemoryDriver();
    await migrate(driver);
    statements = [];
  });
  afterEach(() => driver.close());

  /** `actor` and `action` are SQL expressions of the number of an entry. */
  async function fill(count: number, actor: string, action: string): Promise<void> {
    const sql = `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
      INSERT INTO audit_entries (id, tenant_id, at, action, actor, run_id, entry, proof, seq, hash)
      SELECT printf('%08d', i), 't', i, ${action}, ${actor}, NULL, '', '', i, '' FROM n`;
    await driver.transact([{ sql, params: [count] }]);
  }

  async function list(page: { limit: number; before?: { at: number; id: string } }) {
    const access: SqlAccess = {
      dialect: driver.dialect,
      transact: (unit) => driver.transact(unit),
      read: (sql, params) => {
        statements.push(sql);
        return driver.read(sql, params);
      },
    };
    const lists = auditLists('t', { actor: 'a', action: 'x' });
    const { items, next } = await readList(access, lists, page, selectAudit);
    return { ids: items.map(({ id }: Row) => Number(id)), next };
  }

  test('reads by the filter that matches fewer, however many match the other', async () => {
    await fill(40_000, `CASE WHEN i % 10000 = 1 THEN 'a' ELSE 'b' END`, `'x'`);
    expect(await list({ limit: 50 })).toEqual({ ids: [30_001, 20_001, 10_001, 1], next: null });
    expect(statements).toHaveLength(3);
  });

  test('ends a page after a bounded part, and goes on where it ended', async () => {
    await fill(
      30_000,
      `CASE WHEN i % 2 = 0 THEN 'a' ELSE 'b' END`,
      `CASE WHEN i % 2 = 0 AND i > 2 THEN 'y' ELSE 'x' END`,
    );
    const first = await list({ limit: 50 });
    expect(first).toEqual({ ids: [], next: { at: 10_001, id: '00010001' } });
    expect(statements).toHaveLength(20 * 3);
    expect(await list({ limit: 50, before: first.next! })).toEqual({ ids: [2], next: null });
  });

  test('a full page ends with its last match', async () => {
    await fill(
      3_000,
      `CASE WHEN i % 3 = 0 THEN 'a' ELSE 'b' END`,
      `CASE WHEN i % 2 = 0 THEN 'x' ELSE 'y' END`,
    );
    const { ids, next } = await list({ limit: 2 });
    expect(ids).toEqual([3_000, 2_994]);
    expect(next).toEqual({ at: 2_994, id: '00002994' });
    expect(statements).toHaveLength(3);
  });
});
