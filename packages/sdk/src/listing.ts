import { defined } from '@relay/protocol/wire';
import type { CallOptions, Http, Query } from './http.ts';

export interface Page<Item> {
  readonly items: readonly Item[];
  /**
   * The cursor of the next page; `null` on the last page. A page can have fewer items than its limit, even
   * none, and be followed by others.
   */
  readonly nextCursor: string | null;
  /** With `count: 'true'`: how many items match, or how many at least. */
  readonly total?: number;
  readonly totalIsMinimum?: boolean;
}

/** A list that fetches its pages while it is iterated. */
export class Listing<
  Item,
  PageType extends Page<Item> = Page<Item>,
> implements AsyncIterable<Item> {
  readonly #load: (cursor: string | undefined) => Promise<PageType>;

  constructor(load: (cursor: string | undefined) => Promise<PageType>) {
    this.#load = load;
  }

  /** The first page, or the page at `cursor`. */
  page(cursor?: string): Promise<PageType> {
    return this.#load(cursor);
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Item, void> {
    let cursor: string | undefined;
    do {
      const { items, nextCursor }: PageType = await this.#load(cursor);
      yield* items;
      cursor = nextCursor ?? undefined;
    } while (cursor !== undefined);
  }
}

interface ListOptions extends CallOptions {
  /** The field of the response that holds the items. */
  readonly name: string;
  readonly query?: Query;
}

/** Every list of the API is `{<name>: […], nextCursor}`, and its next page is at `?cursor=`. */
export function listOf<Item>(http: Http, path: string, options: ListOptions): Listing<Item> {
  const { name, query = {}, signal } = options;
  return new Listing(async (cursor) => {
    const response = await http.json<Record<string, unknown>>('GET', path, {
      query: cursor === undefined ? query : { ...query, cursor },
      signal,
    });
    const { total, totalIsMinimum } = response as Partial<Page<Item>>;
    return {
      items: response[name] as readonly Item[],
      nextCursor: (response['nextCursor'] ?? null) as string | null,
      ...defined({ total, totalIsMinimum }),
    };
  });
}
