/**
 * Lists, newest first. A page is found by an index whose last columns are the time and the id: it
 * begins where the page before it ended and is read in order, so its cost does not grow with the list.
 */
import type { Page, Position } from '@relay/core';
import type { SqlValue, Statement } from '../drivers/driver.ts';
import { placeholders } from './statements.ts';

/** A part of a WHERE clause. */
export interface Condition {
  readonly sql: string;
  readonly params: readonly SqlValue[];
}

export interface List {
  readonly tenantId: string;
  /** Its alias in conditions is `t`. */
  readonly table: string;
  /** The column of the time. Default: `created_at`. */
  readonly at?: string;
  /** The column of the id. Default: `id`. */
  readonly id?: string;
  /** Whether an index finds a row by its time and its id, and none by its id alone. */
  readonly isFoundByTime?: boolean;
  /** Conditions that choose the index. A row must meet any one of them. */
  readonly leading?: readonly Condition[];
  /** Further conditions, which no index is chosen for. */
  readonly others?: readonly Condition[];
  readonly since?: number | undefined;
  readonly until?: number | undefined;
}

/** The rows of a page. */
export function selectRows(list: List, columns: readonly string[], page: Page): Statement {
  const { tenantId, table, at, isFoundByTime = false } = list;
  const time = isFoundByTime ? at : undefined;
  return rowsOn(selectPage(list, page), { tenantId, table, columns, time });
}

/** The `id` and the time, as `at`, of the rows on a page. */
export function selectPage(list: List, page: Page): Statement {
  const limit = Math.min(page.limit, Number.MAX_SAFE_INTEGER);
  const { leading = [] } = list;
  const parts = (leading.length === 0 ? [everything] : leading).map((condition) =>
    inOrder(list, condition, { ...page, limit }),
  );
  const [only] = parts;
  if (only !== undefined && parts.length === 1) return only;
  const merged = parts.map(({ sql }, way) => `SELECT id, at FROM (${sql}) AS way${way}`);
  return {
    sql: `SELECT id, at FROM (${merged.join(' UNION ALL ')}) AS merged
      ORDER BY at DESC, id DESC LIMIT ?`,
    params: [...parts.flatMap(({ params }) => params), limit],
  };
}

interface PageRows {
  readonly tenantId: string;
  /** Its alias is `r`. */
  readonly table: string;
  readonly columns: readonly string[];
  /** The column of the time, if rows are found by it. */
  readonly time?: string | undefined;
  readonly joined?: { readonly columns: string; readonly join: string };
}

/** The rows whose ids are on a page, in its order. */
export function rowsOn(page: Statement, rows: PageRows): Statement {
  const { tenantId, table, columns, time, joined } = rows;
  const read = columns.map((column) => `r.${column}`);
  if (joined !== undefined) read.push(joined.columns);
  // The function around the tenant keeps PostgreSQL, while it has no statistics yet, from reading all
  // rows of the tenant instead of those on the page.
  const isOnPage =
    time === undefined
      ? `r.id = page.id AND COALESCE(r.tenant_id, '') = ?`
      : `r.id = page.id AND r.${time} = page.at AND r.tenant_id = ?`;
  return {
    // The cross join makes SQLite begin with the page.
    sql: `SELECT ${read.join(', ')} FROM (${page.sql}) AS page CROSS JOIN ${table} r ${joined?.join ?? ''}
      WHERE ${isOnPage} ORDER BY page.at DESC, page.id DESC`,
    params: [...page.params, tenantId],
  };
}

const everything: Condition = { sql: '', params: [] };

function inOrder(list: List, leading: Condition, { before, limit }: Page): Statement {
  const { tenantId, table, at = 'created_at', id = 'id', others = [] } = list;
  const { since = Number.MIN_SAFE_INTEGER, until = Number.MAX_SAFE_INTEGER } = list;
  const end = minPosition({ at: until, id: '' }, before);
  const range = {
    sql: `t.${at} >= ? AND (t.${at}, t.${id}) < (?, ?)`,
    params: [since, end.at, end.id],
  };
  const owner = { sql: 't.tenant_id = ?', params: [tenantId] };
  const where = allOf([owner, leading, range, ...others]);
  return {
    sql: `SELECT t.${id} AS id, t.${at} AS at FROM ${table} t
      WHERE ${where.sql} ORDER BY t.${at} DESC, t.${id} DESC LIMIT ?`,
    params: [...where.params, limit],
  };
}

/** The empty id sorts before all others: `{ at, id: '' }` is before the first row of that time. */
function minPosition(one: Position, other: Position | undefined): Position {
  if (other === undefined || one.at < other.at) return one;
  return one.at === other.at && one.id < other.id ? one : other;
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

type Wanted = string | readonly string[] | undefined;

/** Filters for the columns that have a wanted value, in the order of the columns. */
export function columnFilters(wanted: Readonly<Record<string, Wanted>>): ColumnFilter[] {
  return Object.entries(wanted).flatMap(([column, values]) => {
    if (values === undefined) return [];
    return [{ column, values: typeof values === 'string' ? [values] : values }];
  });
}

/** The `prefix` are the columns after the tenant with which an index begins. */
export function indexFilter(prefix: readonly ColumnFilter[], others: readonly ColumnFilter[]) {
  let leading: readonly Condition[] = [everything];
  for (const { column, values } of prefix) {
    leading = leading.flatMap((condition) =>
      values.map((value) => allOf([condition, { sql: `t.${column} = ?`, params: [value] }])),
    );
  }
  return { leading, others: others.map((other) => residualFilter(other)) };
}

/** The function around the column keeps its index from being chosen. */
export function residualFilter({ column, values }: ColumnFilter, row = 't'): Condition {
  const sql = `COALESCE(${row}.${column}, '') IN (${placeholders(values.length)})`;
  return { sql, params: values };
}
