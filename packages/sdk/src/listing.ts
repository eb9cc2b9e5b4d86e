import type { CallOptions, Http, Query } from './http.ts';

export interface Page<Item> {
  readonly items: readonly Item[];
  /** Where the next page begins; `null` on the last one. */
  readonly nextCursor: string | null;
}

/** A list that is fetched page by page as it is walked through, and not before. */
export class Listing<Item> implements AsyncIterable<Item> {
  readonly #load: (cursor: string | undefined) => Promise<Page<Item>>;

  constructor(load: (cursor: string | undefined) => Promise<Page<Item>>) {
    this.#load = load;
  }

  /** One page: the first, or the one that begins at `cursor`. */
  page(cursor?: string): Promise<Page<Item>> {
    return this.#load(cursor);
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Item, void> {
    let cursor: string | undefined;
    do {
      const { items, nextCursor }: Page<Item> = await this.#load(cursor);
      yield* items;
      cursor = nextCursor ?? undefined;
    } while (cursor !== undefined);
  }
}

interface ListWish extends CallOptions {
  /** Under which name the answer holds the items. */
  readonly name: string;
  readonly query?: Query;
}

/** Every list of the API is `{<name>: […], nextCursor}` and goes on by `?cursor=`. */
export function listOf<Item>(http: Http, path: string, wish: ListWish): Listing<Item> {
  const { name, query = {}, signal } = wish;
  return new Listing(async (cursor) => {
    const asked = cursor === undefined ? query : { ...query, cursor };
    const answer = await http.json<Record<string, unknown>>('GET', path, { query: asked, signal });
    return {
      items: answer[name] as readonly Item[],
      nextCursor: (answer['nextCursor'] ?? null) as string | null,
    };
  });
}
