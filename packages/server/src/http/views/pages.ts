/** Lists go newest first, page by page; a cursor is the place where the page before ended. */
import type { Page, Position } from '@relay/core';
import { idSchema, RelayError } from '@relay/protocol';

interface PageQuery {
  readonly limit: number;
  readonly cursor?: string | undefined;
}

/** One more than is shown tells whether another page follows. */
export function pageOf({ limit, cursor }: PageQuery): Page {
  return cursor === undefined
    ? { limit: limit + 1 }
    : { limit: limit + 1, before: readCursor(cursor) };
}

export function cutPage<Item>(
  found: readonly Item[],
  limit: number,
  positionOf: (item: Item) => Position,
): { items: Item[]; nextCursor: string | null } {
  const items = found.slice(0, limit);
  const last = items.at(-1);
  const nextCursor =
    found.length > limit && last !== undefined ? writeCursor(positionOf(last)) : null;
  return { items, nextCursor };
}

function writeCursor({ at, id }: Position): string {
  return Buffer.from(`${at} ${id}`, 'utf8').toString('base64url');
}

function readCursor(cursor: string): Position {
  const text = Buffer.from(cursor, 'base64url').toString('utf8');
  const [, at, id] = /^(\d{1,15}) (\S+)$/.exec(text) ?? [];
  // An event is known by its name and by what it is about.
  const isOurs =
    at !== undefined && idSchema.safeParse(id?.replace(/^[a-z]+\.[a-z]+:/, '')).success;
  if (!isOurs || id === undefined || writeCursor({ at: Number(at), id }) !== cursor) {
    throw new RelayError('invalid_request', 'cursor: is not one that a list has given', {
      details: [{ path: 'cursor', message: 'Not one that a list has given' }],
    });
  }
  return { at: Number(at), id };
}
