import type { Page } from '@relay/core';
import { RelayError } from '@relay/protocol';
import fc from 'fast-check';
import { uuidv7 } from 'uuidv7';
import { describe, expect, it } from 'vitest';
import { readListed, readPage } from '../../../src/http/views/pagination.ts';

const id = '01963a5c-7891-7abc-8ef0-123456789abc';

interface Item {
  readonly at: number;
  readonly id: string;
}

/** Reads a page of a list that holds `items`, and records the page that the list was asked for. */
async function read(query: { limit: number; cursor?: string }, items: readonly Item[] = []) {
  let requested: Page | undefined;
  const list = async (page: Page) => {
    requested = page;
    return items;
  };
  const page = await readPage(query, list, (item) => item);
  return { ...page, requested };
}

async function cursorAfter(position: Item): Promise<string> {
  const { nextCursor } = await read({ limit: 1 }, [position, { at: 0, id }]);
  if (nextCursor === null) throw new Error('The list has no next page');
  return nextCursor;
}

describe('readPage', () => {
  it('requests one item more than the limit', async () => {
    expect((await read({ limit: 7 })).requested).toEqual({ limit: 8 });
  });

  it.each([0, 1, 6, 7])('returns no cursor for %i items of at most 7', async (count) => {
    const items = Array.from({ length: count }, (_, at) => ({ at, id }));
    expect(await read({ limit: 7 }, items)).toMatchObject({ items, nextCursor: null });
  });

  it('returns a cursor that continues after the last item of the page', async () => {
    const found = Array.from({ length: 8 }, (_, index) => ({ at: 100 - index, id: uuidv7() }));
    const { items, nextCursor } = await read({ limit: 7 }, found);
    expect(items).toEqual(found.slice(0, 7));
    const next = await read({ limit: 7, cursor: nextCursor ?? '' });
    expect(next.requested).toEqual({ limit: 8, before: found[6] });
  });
});

describe('readListed', () => {
  it('returns a cursor wherever the list goes on, also after an empty page', async () => {
    const next = { at: 7, id };
    const { items, nextCursor } = await readListed({ limit: 5 }, async () => ({ items: [], next }));
    expect(items).toEqual([]);
    let requested: Page | undefined;
    const last = await readListed({ limit: 5, cursor: nextCursor ?? '' }, async (page) => {
      requested = page;
      return { items: [id], next: null };
    });
    expect(requested).toEqual({ limit: 5, before: next });
    expect(last).toEqual({ items: [id], nextCursor: null });
  });
});

describe('a cursor', () => {
  it('encodes any position', async () => {
    const times = fc.integer({ min: 0, max: 999_999_999_999_999 });
    await fc.assert(
      fc.asyncProperty(times, fc.uuid(), async (at, uuid) => {
        const cursor = await cursorAfter({ at, id: uuid });
        expect(cursor).toMatch(/^[\w-]+$/);
        expect((await read({ limit: 1, cursor })).requested?.before).toEqual({ at, id: uuid });
      }),
    );
  });

  const encoded = (text: string) => Buffer.from(text, 'utf8').toString('base64url');

  const issued = encoded(`5 ${id}`);

  it.each([
    ['empty', ''],
    ['not base64', '!!!'],
    ['not a position', encoded('hello')],
    ['an id alone', encoded(id)],
    ['without an id', encoded('5 ')],
    ['of a malformed id', encoded('5 me')],
    ['of a negative time', encoded(`-5 ${id}`)],
    ['of a fractional time', encoded(`1.5 ${id}`)],
    ['of a time with a sign', encoded(`+5 ${id}`)],
    ['of a time that begins with zeros', encoded(`005 ${id}`)],
    ['of a time that is too long', encoded(`${'9'.repeat(16)} ${id}`)],
    ['of a time in other digits', encoded(`٥ ${id}`)],
    ['with more behind it', encoded(`5 ${id} x`)],
    ['with a line behind it', encoded(`5 ${id}\n`)],
    ['with two spaces', encoded(`5  ${id}`)],
    ['of ordinary base64', Buffer.from(`5 ${id}`).toString('base64')],
    ['cut off', issued.slice(0, -1)],
    ['prolonged', `${issued}A`],
    ['padded', `${issued}=`],
    ['with a space behind it', `${issued} `],
    ['of JSON', encoded(JSON.stringify({ at: 5, id }))],
  ])('that is %s is refused', async (_what, cursor) => {
    await expect(read({ limit: 1, cursor })).rejects.toMatchObject({
      code: 'invalid_request',
      status: 400,
      details: [{ path: 'cursor', message: 'Invalid cursor' }],
    });
  });

  it('that was not issued by a list is refused', async () => {
    await fc.assert(
      fc.asyncProperty(fc.string({ maxLength: 80 }), async (text) => {
        for (const cursor of [text, encoded(text)]) {
          await expect(read({ limit: 1, cursor })).rejects.toThrow(RelayError);
        }
      }),
    );
  });
});
