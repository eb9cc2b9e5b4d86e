/** Pagination cursors and ISO times. Lists are sorted newest first; a cursor is the end of the last page. */
import { charsIn, type Listed, type Page, type Position } from '@relay/core';
import { defined, idSchema } from '@relay/protocol';
import { invalidRequest } from '../errors.ts';

interface PageQuery {
  readonly limit: number;
  readonly cursor?: string | undefined;
  readonly count?: 'true' | undefined;
}

interface PageOf<Item> {
  readonly items: readonly Item[];
  readonly nextCursor: string | null;
  readonly total?: number;
  readonly totalIsMinimum?: true;
}

const mostCounted = 10_000;

function countOf({ count }: PageQuery): Pick<Page, 'countUpTo'> {
  return count === undefined ? {} : { countUpTo: mostCounted };
}

type Total = Pick<PageOf<unknown>, 'total' | 'totalIsMinimum'>;

function totalOf({ total }: Pick<Listed<unknown>, 'total'>): Total {
  if (total === undefined) return {};
  return { total: total.count, ...(total.isMinimum ? { totalIsMinimum: true as const } : {}) };
}

/** Reads one page of a list that says where the next one begins. */
export async function readListed<Item>(
  query: PageQuery,
  list: (page: Page) => Promise<Listed<Item>>,
): Promise<PageOf<Item>> {
  const { limit, cursor } = query;
  const before = cursor === undefined ? undefined : decodeCursor(cursor);
  const listed = await list({ limit, ...countOf(query), ...defined({ before }) });
  const { items, next } = listed;
  return { items, nextCursor: next === null ? null : encodeCursor(next), ...totalOf(listed) };
}

/** The same for other lists. It reads one item more to know whether another page follows. */
export async function readPage<Item>(
  { limit, cursor }: PageQuery,
  list: (page: Page) => Promise<readonly Item[]>,
  positionOf: (item: Item) => Position,
): Promise<PageOf<Item>> {
  const before = cursor === undefined ? undefined : decodeCursor(cursor);
  const found = await list({ limit: limit + 1, ...defined({ before }) });
  const items = found.slice(0, limit);
  const last = items.at(-1);
  const hasNext = found.length > limit && last !== undefined;
  return { items, nextCursor: hasNext ? encodeCursor(positionOf(last)) : null };
}

const itemsAtOnce = 10;
const maxPageChars = 1024 * 1024;

/**
 * The same for items of any size: a few are read at once, and the page ends with the item that makes it
 * large.
 */
export async function readPageBySize<Item>(
  { limit, cursor }: PageQuery,
  list: (page: Page) => Promise<readonly Item[]>,
  positionOf: (item: Item) => Position,
): Promise<PageOf<Item>> {
  let before = cursor === undefined ? undefined : decodeCursor(cursor);
  const items: Item[] = [];
  let chars = 0;
  for (;;) {
    const count = Math.min(itemsAtOnce, limit + 1 - items.length);
    const found = await list({ limit: count, ...defined({ before }) });
    for (const item of found) {
      if (items.length === limit || chars >= maxPageChars) {
        return { items, nextCursor: before === undefined ? null : encodeCursor(before) };
      }
      items.push(item);
      chars += charsIn(item);
      before = positionOf(item);
    }
    if (found.length < count) return { items, nextCursor: null };
  }
}

/** The same for such items of a list that says where the next page begins. */
export async function readListedBySize<Item>(
  query: PageQuery,
  list: (page: Page) => Promise<Listed<Item>>,
): Promise<PageOf<Item>> {
  const { limit, cursor } = query;
  let before = cursor === undefined ? undefined : decodeCursor(cursor);
  const items: Item[] = [];
  let chars = 0;
  let total: Total | undefined;
  for (;;) {
    const count = Math.min(itemsAtOnce, limit - items.length);
    const counted = total === undefined ? countOf(query) : {};
    const listed = await list({ limit: count, ...counted, ...defined({ before }) });
    const { items: found, next } = listed;
    total ??= totalOf(listed);
    items.push(...found);
    for (const item of found) chars += charsIn(item);
    // A list that finds fewer has read as much as it does at once.
    const isFull = items.length === limit || chars >= maxPageChars || found.length < count;
    if (next === null || isFull) {
      return { items, nextCursor: next === null ? null : encodeCursor(next), ...total };
    }
    before = next;
  }
}

/** The first items, at most `limit`. They end with the item that makes them large. */
export function firstBySize<Item>(items: readonly Item[], limit: number): Item[] {
  const first: Item[] = [];
  let chars = 0;
  for (const item of items) {
    if (first.length === limit || chars >= maxPageChars) break;
    first.push(item);
    chars += charsIn(item);
  }
  return first;
}

/** All items of a list, read page by page. */
export async function* readAll<Item>(
  list: (page: Page) => Promise<Listed<Item>>,
): AsyncGenerator<Item, void> {
  const limit = 200;
  let page = await list({ limit });
  for (;;) {
    yield* page.items;
    if (page.next === null) return;
    page = await list({ limit, before: page.next });
  }
}

export function byCreation(item: { readonly createdAt: number; readonly id: string }): Position {
  return { at: item.createdAt, id: item.id };
}

function encodeCursor({ at, id }: Position): string {
  return Buffer.from(`${at} ${id}`, 'utf8').toString('base64url');
}

function decodeCursor(cursor: string): Position {
  const text = Buffer.from(cursor, 'base64url').toString('utf8');
  const [, at, id] = /^(\d{1,15}) (\S+)$/.exec(text) ?? [];
  // The id of a delivery is the event's type and the id of its subject.
  const hasId = idSchema.safeParse(id?.replace(/^[a-z]+\.[a-z]+:/, '')).success;
  if (!hasId || id === undefined || encodeCursor({ at: Number(at), id }) !== cursor) {
    throw invalidRequest([{ path: 'cursor', message: 'Invalid cursor' }]);
  }
  return { at: Number(at), id };
}

export function iso(time: number): string {
  return new Date(time).toISOString();
}

export function isoOrUndefined(time: number | null | undefined): string | undefined {
  return time === null || time === undefined ? undefined : iso(time);
}

/** The time of a request's field, in milliseconds. */
export function parseTime(text: string | undefined): number | undefined {
  return text === undefined ? undefined : Date.parse(text);
}
