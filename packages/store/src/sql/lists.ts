/**
 * Lists, newest first. A page is found by an index whose last columns are the time and the id: it
 * begins where the page before it ended and is read in order, so its cost does not grow with the list.
 *
 * Where no index finds just what matches, the list can be read by any of several: what each finds is
 * filtered by the other conditions. It is read in portions, each by the index that reaches back furthest
 * with so many rows, because that one has the fewest. A page ends after some portions, whatever it found.
 */
import type { Listed, Page, Position } from '@relay/core';
import { RelayError } from '@relay/protocol';
import type { Row, SqlAccess, SqlValue, Statement } from '../drivers/driver.ts';
import { placeholders, readLong } from './statements.ts';
import { number, text } from '../codec/values.ts';

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

export interface Range {
  readonly limit: number;
  /** It begins after this row. */
  readonly before?: Position | undefined;
  /** It ends with this row at the latest. */
  readonly from?: Position | undefined;
}

interface Portion {
  readonly list: List;
  /** Its last row, if others follow. */
  readonly end?: Position | undefined;
}

/** Rows of one index that are read at once, without other work in between: some milliseconds. */
const rowsAtOnce = 500;
/** Of one page. */
const mostPortions = 20;

/**
 * A page of a list that can be read in these `ways`. `select` selects the rows of a range with their `id`
 * and their time.
 */
export async function readList(
  driver: SqlAccess,
  ways: readonly List[],
  page: Page,
  select: (list: List, range: Range) => Statement,
): Promise<Listed<Row>> {
  const listed = await readPageOf(driver, ways, page, select);
  const { countUpTo } = page;
  if (countUpTo === undefined) return listed;
  const isWhole = listed.next === null && page.before === undefined;
  const total = isWhole
    ? { count: listed.items.length, isMinimum: false }
    : await countRows(driver, ways, countUpTo);
  return { ...listed, total };
}

/** As many portions as a page reads, and as many rows as asked for. Only indexes are read. */
async function countRows(
  driver: SqlAccess,
  ways: readonly List[],
  upTo: number,
): Promise<{ count: number; isMinimum: boolean }> {
  let count = 0;
  let before: Position | undefined;
  for (let n = 0; n < mostPortions; n += 1) {
    const { list, end } = await nextPortion(driver, ways, before);
    const { sql, params } = selectPage(list, { limit: upTo + 1 - count, before, from: end });
    const counted = { sql: `SELECT COUNT(*) AS found FROM (${sql}) AS counted`, params };
    const [row = {}] = await readLong(driver, counted);
    count += number(row, 'found');
    if (count > upTo) return { count: upTo, isMinimum: true };
    if (end === undefined) return { count, isMinimum: false };
    before = end;
  }
  return { count, isMinimum: true };
}

async function readPageOf(
  driver: SqlAccess,
  ways: readonly List[],
  page: Page,
  select: (list: List, range: Range) => Statement,
): Promise<Listed<Row>> {
  const items: Row[] = [];
  let { before } = page;
  for (let n = 0; n < mostPortions; n += 1) {
    if (n > 0) await new Promise((resolve) => setImmediate(resolve));
    const { list, end } = await nextPortion(driver, ways, before);
    const limit = page.limit + 1 - items.length;
    const { sql, params } = select(list, { limit, before, from: end });
    items.push(...(await driver.read(sql, params)));
    if (items.length > page.limit) {
      items.pop();
      const last = items.at(-1);
      return { items, next: last === undefined ? null : positionOf(last, list.at) };
    }
    if (end === undefined) return { items, next: null };
    before = end;
  }
  return { items, next: before ?? null };
}

/** The next portion of the list that has the fewest rows there. */
async function nextPortion(
  driver: SqlAccess,
  ways: readonly List[],
  before: Position | undefined,
): Promise<Portion> {
  const [only, ...others] = ways;
  if (only === undefined) throw new RelayError('internal', 'There is no way to read the list');
  if (others.length === 0 && (only.others ?? []).length === 0) return { list: only };
  const portions = ways.map(async (list): Promise<Portion> => {
    const { sql, params } = selectLast(list, { limit: rowsAtOnce, before });
    const [row] = await driver.read(sql, params);
    return { list, end: row === undefined ? undefined : positionOf(row, 'at') };
  });
  return (await Promise.all(portions)).reduce((one, other) => {
    if (one.end === undefined) return one;
    return other.end === undefined || isBefore(other.end, one.end) ? other : one;
  });
}

function positionOf(row: Row, at = 'created_at'): Position {
  return { at: number(row, at), id: text(row, 'id') };
}

/** The rows of a page. */
export function selectRows(list: List, columns: readonly string[], page: Range): Statement {
  const { tenantId, table, at, isFoundByTime = false } = list;
  const time = isFoundByTime ? at : undefined;
  return rowsOn(selectPage(list, page), { tenantId, table, columns, time });
}

/** The `id` and the time, as `at`, of the rows on a page. */
export function selectPage(list: List, range: Range): Statement {
  const limit = Math.min(range.limit, Number.MAX_SAFE_INTEGER);
  const { sql, params } = inOrder(list, { ...range, limit });
  return { sql: `${sql} LIMIT ?`, params: [...params, limit] };
}

/** The last row of a full page, of those that meet a leading condition. */
export function selectLast(list: List, page: Range): Statement {
  const { sql, params } = inOrder({ ...list, others: [] }, page);
  return { sql: `${sql} LIMIT 1 OFFSET ?`, params: [...params, page.limit - 1] };
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

/** Merged from what meets each of the leading conditions, of which no more than `limit` rows are read. */
function inOrder(list: List, range: Range): Statement {
  const { leading = [] } = list;
  const parts = (leading.length === 0 ? [everything] : leading).map((condition) =>
    partOf(list, condition, range),
  );
  const [only] = parts;
  if (only !== undefined && parts.length === 1) return only;
  const merged = parts.map(({ sql }, way) => `SELECT id, at FROM (${sql} LIMIT ?) AS way${way}`);
  return {
    sql: `SELECT id, at FROM (${merged.join(' UNION ALL ')}) AS merged ORDER BY at DESC, id DESC`,
    params: parts.flatMap(({ params }) => [...params, range.limit]),
  };
}

function partOf(list: List, leading: Condition, { before, from }: Range): Statement {
  const { tenantId, table, at = 'created_at', id = 'id', others = [] } = list;
  const { since = Number.MIN_SAFE_INTEGER, until = Number.MAX_SAFE_INTEGER } = list;
  const first = from ?? { at: since, id: '' };
  const end = minPosition({ at: until, id: '' }, before);
  const range = {
    sql: `(t.${at}, t.${id}) >= (?, ?) AND (t.${at}, t.${id}) < (?, ?)`,
    params: [first.at, first.id, end.at, end.id],
  };
  const owner = { sql: 't.tenant_id = ?', params: [tenantId] };
  const where = allOf([owner, leading, range, ...others]);
  return {
    sql: `SELECT t.${id} AS id, t.${at} AS at FROM ${table} t
      WHERE ${where.sql} ORDER BY t.${at} DESC, t.${id} DESC`,
    params: where.params,
  };
}

function minPosition(one: Position, other: Position | undefined): Position {
  return other === undefined || isBefore(one, other) ? one : other;
}

/** The empty id sorts before all others: `{ at, id: '' }` is before the first row of that time. */
function isBefore(one: Position, other: Position): boolean {
  return one.at === other.at ? one.id < other.id : one.at < other.at;
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
