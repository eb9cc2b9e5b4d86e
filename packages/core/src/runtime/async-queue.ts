/**
 * A queue that is read with `for await`, by one reader.
 *
 *   open ──end, fail──▶ ended ──the reader gets there──▶ finished
 *     │  ◀──reopen────────┘                                 ▲
 *     └──────────────────────the reader leaves──────────────┘
 *
 * - Items that are in it can be read after its end. A failure comes after them, and once.
 * - A reader that leaves receives nothing more, also if it waits for the next item at that moment.
 *   The owner receives the items that were not read.
 * - A queue that is not open ignores `push`: a producer need not know that the reader left.
 * - It is not bounded: the producer is this process, and its output is bounded elsewhere.
 */

/** To be read with `for await`, once. */
export interface EventStream<Item> extends AsyncIterableIterator<Item, undefined, undefined> {
  return(): Promise<IteratorResult<Item, undefined>>;
  [Symbol.asyncDispose](): Promise<void>;
}

export interface AsyncQueueOwner<Item> {
  /** The first read. */
  started?(): void;
  /** The reader left before it had everything. Awaited before its loop continues; may not reject. */
  left?(unread: readonly Item[]): Promise<void>;
  /** There will be no more reads: the reader left, or has reached the end. */
  finished?(): void;
}

type Result<Item> = IteratorResult<Item, undefined>;

/** Read items are released in chunks of at least this many. */
const releaseSize = 1024;

export class AsyncQueue<Item> implements EventStream<Item> {
  readonly #owner: AsyncQueueOwner<Item>;
  readonly #waiting: PromiseWithResolvers<Result<Item>>[] = [];
  #items: Item[] = [];
  /** How many of the items have been read. */
  #read = 0;
  #failure: { readonly error: unknown } | undefined;
  #state: 'open' | 'ended' | 'finished' = 'open';
  #started = false;

  constructor(owner: AsyncQueueOwner<Item> = {}) {
    this.#owner = owner;
  }

  push(item: Item): void {
    if (this.#state !== 'open') return;
    const reader = this.#waiting.shift();
    if (reader === undefined) this.#items.push(item);
    else reader.resolve({ done: false, value: item });
  }

  /** Nothing follows. */
  end(): void {
    if (this.#state !== 'open') return;
    this.#state = 'ended';
    // A reader that waits has read everything.
    if (this.#waiting.length > 0) this.#finish();
  }

  fail(error: unknown): void {
    if (this.#state !== 'open') return;
    const reader = this.#waiting.shift();
    if (reader === undefined) this.#failure = { error };
    else reader.reject(error);
    this.#state = 'ended';
    if (reader !== undefined) this.#finish();
  }

  /** Reopens the queue, unless the reader has left or has received the end. */
  reopen(): void {
    if (this.#state === 'ended' && this.#failure === undefined) this.#state = 'open';
  }

  async next(): Promise<Result<Item>> {
    if (!this.#started) {
      this.#started = true;
      this.#owner.started?.();
    }
    if (this.#read < this.#items.length) return { done: false, value: this.#take() };
    if (this.#state !== 'open') return this.#ending();
    const reader = Promise.withResolvers<Result<Item>>();
    this.#waiting.push(reader);
    return reader.promise;
  }

  async return(): Promise<Result<Item>> {
    if (this.#state === 'finished') return { done: true, value: undefined };
    const unread = this.#items.slice(this.#read);
    this.#items = [];
    this.#read = 0;
    this.#failure = undefined;
    this.#finish();
    await this.#owner.left?.(unread);
    return { done: true, value: undefined };
  }

  async throw(error: unknown): Promise<Result<Item>> {
    await this.return();
    throw error;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.return();
  }

  #take(): Item {
    const item = this.#items[this.#read] as Item;
    this.#read += 1;
    if (this.#read === this.#items.length || this.#read >= releaseSize) {
      this.#items = this.#items.slice(this.#read);
      this.#read = 0;
    }
    return item;
  }

  #ending(): Result<Item> {
    const failure = this.#failure;
    this.#failure = undefined;
    this.#finish();
    if (failure !== undefined) throw failure.error;
    return { done: true, value: undefined };
  }

  #finish(): void {
    if (this.#state === 'finished') return;
    this.#state = 'finished';
    this.#owner.finished?.();
    for (const reader of this.#waiting.splice(0)) reader.resolve({ done: true, value: undefined });
  }
}
