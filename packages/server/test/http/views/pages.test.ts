import { RelayError } from '@relay/protocol';
import fc from 'fast-check';
import { uuidv7 } from 'uuidv7';
import { describe, expect, it } from 'vitest';
import { cutPage, pageOf } from '../../../src/http/views/pages.ts';

const id = '01963a5c-7891-7abc-8ef0-123456789abc';
const positionOf = (item: { at: number; id: string }) => item;

function cursorAfter(position: { at: number; id: string }): string {
  const { nextCursor } = cutPage([position, { at: 0, id }], 1, positionOf);
  if (nextCursor === null) throw new Error('There is no next page');
  return nextCursor;
}

describe('a page', () => {
  it('begins with the newest, and asks for one more than it shows', () => {
    expect(pageOf({ limit: 7 })).toEqual({ limit: 8 });
  });

  it.each([0, 1, 6, 7])('of %i among at most 7 is the last one', (count) => {
    const found = Array.from({ length: count }, (_, at) => ({ at, id }));
    expect(cutPage(found, 7, positionOf)).toEqual({ items: found, nextCursor: null });
  });

  it('that is followed by another ends with the last item that it shows', () => {
    const found = Array.from({ length: 8 }, (_, n) => ({ at: 100 - n, id: uuidv7() }));
    const { items, nextCursor } = cutPage(found, 7, positionOf);
    expect(items).toEqual(found.slice(0, 7));
    expect(pageOf({ limit: 7, cursor: nextCursor ?? '' })).toEqual({
      limit: 8,
      before: found[6],
    });
  });
});

describe('a cursor', () => {
  it('leads back to its place, whatever that is', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 999_999_999_999_999 }), fc.uuid(), (at, uuid) => {
        const cursor = cursorAfter({ at, id: uuid });
        expect(cursor).toMatch(/^[\w-]+$/);
        expect(pageOf({ limit: 1, cursor }).before).toEqual({ at, id: uuid });
      }),
    );
  });

  const encoded = (text: string) => Buffer.from(text, 'utf8').toString('base64url');

  it.each([
    ['nothing', ''],
    ['no base64', '!!!'],
    ['of no form', encoded('hello')],
    ['an id alone', encoded(id)],
    ['without an id', encoded('5 ')],
    ['of an id that is none', encoded('5 me')],
    ['before all time', encoded(`-5 ${id}`)],
    ['of half a time', encoded(`1.5 ${id}`)],
    ['of a time with a sign', encoded(`+5 ${id}`)],
    ['of a time that begins with zeros', encoded(`005 ${id}`)],
    ['of a time that no number holds', encoded(`${'9'.repeat(16)} ${id}`)],
    ['of a time in other digits', encoded(`٥ ${id}`)],
    ['with more behind it', encoded(`5 ${id} x`)],
    ['with a line behind it', encoded(`5 ${id}\n`)],
    ['with two spaces', encoded(`5  ${id}`)],
    ['of ordinary base64', Buffer.from(`5 ${id}`).toString('base64')],
    ['cut off', cursorAfter({ at: 5, id }).slice(0, -1)],
    ['prolonged', `${cursorAfter({ at: 5, id })}A`],
    ['padded', `${cursorAfter({ at: 5, id })}=`],
    ['with a space behind it', `${cursorAfter({ at: 5, id })} `],
    ['of JSON', encoded(JSON.stringify({ at: 5, id }))],
  ])('that is %s is refused', (_what, cursor) => {
    expect(() => pageOf({ limit: 1, cursor })).toThrow(RelayError);
    try {
      pageOf({ limit: 1, cursor });
    } catch (error) {
      expect(error).toMatchObject({
        code: 'invalid_request',
        status: 400,
        details: [{ path: 'cursor', message: 'Not one that a list has given' }],
      });
    }
  });

  it('that nobody has given is refused, however it was made up', () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 80 }), (cursor) => {
        expect(() => pageOf({ limit: 1, cursor })).toThrow(RelayError);
        expect(() => pageOf({ limit: 1, cursor: encoded(cursor) })).toThrow(RelayError);
      }),
    );
  });
});
