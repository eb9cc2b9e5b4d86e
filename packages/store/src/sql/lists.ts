/**
 * Lists, newest first. A page is found by an index whose last columns are the time and the id: it
 * begins where the page before it ended and is read in order, so that it costs what it shows.
 */
import type { Page } from '@relay/core';
import type { SqlValue, Statement } from '../drivers/driver.ts';

/** A part of a WHERE clause. */
export interface Condition {
  readonly sql: string;
  readonly params: readonly SqlValue[];
}

export interface List {
  readonly tenantId: string;
  /** Its alias in conditions is `t`. */
  readonly table: string;
  /** Its columns of time and id. */
  readonly at: string;
  readonly id: string;
  /** Conditions that the index is searched by: rows that meet any one of them. */
  readonly leading: readonly Condition[];
  /** Further conditions, which no index is chosen for. */
  readonly others: readonly Condition[];
  readonly since?: number;
}

/** The `id` and the time, as `at`, of the rows on a page. */
export function selectPage(list: List, page: Page): Statement {
  const limit = Math.min(page.limit, Number.MAX_SAFE_INTEGER);
  const ways = list.leading.length === 0 ? [everything] : list.leading;
  const parts = ways.map((leading) => inOrder(list, leading, { ...page, limit }));
  const [only] = parts;
  if (only !== undefined && parts.length === 1) return only;
  const merged = parts.map(({ sql }, way) => `SELECT id, at FROM (${sql}) AS way${way}`);
  return {
    sql: `SELECT id, at FROM (${merged.join(' UNION ALL ')}) AS merged
      ORDER BY at DESC, id DESC LIMIT ?`,
    params: [...parts.flatMap(({ params }) => params), limit],
  };
}

/** The rows whose ids are on a page, in its order; their alias in columns and join is `r`. */
export function rowsOn(
  page: Statement,
  rows: { tenantId: string; table: string; columns: readonly string[]; join?: string },
): Statement {
  const { tenantId, table, columns, join = '' } = rows;
  return {
    // The cross join makes SQLite begin with the page.
    sql: `SELECT ${columns.join(', ')} FROM (${page.sql}) AS page CROSS JOIN ${table} r ${join}
      WHERE r.id = page.id AND r.tenant_id = ? ORDER BY page.at DESC, page.id DESC`,
    params: [...page.params, tenantId],
  };
}

const everything: Condition = { sql: '', params: [] };

function inOrder(list: List, leading: Condition, page: Page): Statement {
  const { tenantId, table, at, id, others, since = Number.MIN_SAFE_INTEGER } = list;
  const { before = { at: Number.MAX_SAFE_INTEGER, id: '' }, limit } = page;
  const range = {
    sql: `t.${at} >= ? AND (t.${at}, t.${id}) < (?, ?)`,
    params: [since, before.at, before.id],
  };
  const owner = { sql: 't.tenant_id = ?', params: [tenantId] };
  const where = allOf([owner, leading, range, ...others]);
  return {
    sql: `SELECT t.${id} AS id, t.${at} AS at FROM ${table} t
      WHERE ${where.sql} ORDER BY t.${at} DESC, t.${id} DESC LIMIT ?`,
    params: [...where.params, limit],
  };
}

export function allOf(conditions: readonly Condition[]): Condition {
  return {
    sql: conditions
      .map(({ sql }) => sql)
      .filter((sql) => sql !== '')
      .join(' AND '),
    params: conditions.flatMap(({ params }) => params),
  };
}

/** A column must have one of these values. */
export interface ColumnFilter {
  readonly column: string;
  readonly values: readonly string[];
}

export function leadingBy({ column, values }: ColumnFilter): Condition[] {
  return values.map((value) => ({ sql: `t.${column} = ?`, params: [value] }));
}

/** The function around the column keeps the index of another filter from being chosen. */
export function besides({ column, values }: ColumnFilter, row = 't'): Condition {
  const marks = values.map(() => '?').join(', ');
  return { sql: `COALESCE(${row}.${column}, '') IN (${marks})`, params: values };
}
