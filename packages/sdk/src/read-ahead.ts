/**
 * Reads on while the consumer is still busy with what it has, so that a call of one of its functions
 * does not wait for a slow loop. What is read ahead is bounded: beyond that, the source waits.
 */
export interface Ahead<Item> {
  readonly source: AsyncIterable<Item>;
  readonly limit: number;
  /** EventBuffer of each item when it is read, before the consumer gets it. */
  readonly heard: (item: Item) => void;
  /** Aborted when the consumer leaves; the source has to end then. */
  readonly left: AbortController;
}

export async function* readAhead<Item>(ahead: Ahead<Item>): AsyncGenerator<Item, void> {
  const { source, limit, heard, left } = ahead;
  const gone = left.signal;
  const read: Item[] = [];
  const news = new Bell();
  const room = new Bell();
  let outcome: { error?: unknown } | undefined;
  const pump = async () => {
    try {
      for await (const item of source) {
        heard(item);
        read.push(item);
        news.ring();
        while (read.length >= limit && !gone.aborted) await room.rung();
        if (gone.aborted) break;
      }
      outcome = {};
    } catch (error) {
      outcome = { error };
    }
    news.ring();
  };
  const pumping = pump();
  try {
    for (;;) {
      for (let item = read.shift(); item !== undefined; item = read.shift()) {
        room.ring();
        yield item;
      }
      if (outcome === undefined) await news.rung();
      else if (read.length === 0) break;
    }
    if ('error' in outcome) throw outcome.error;
  } finally {
    left.abort();
    room.ring();
    await pumping;
  }
}

/** Rings for one who waits; a ring while nobody waits is kept. */
class Bell {
  #rang = false;
  #wake: (() => void) | undefined;

  ring(): void {
    this.#rang = true;
    this.#wake?.();
  }

  async rung(): Promise<void> {
    if (!this.#rang) await new Promise<void>((resolve) => (this.#wake = resolve));
    this.#rang = false;
    this.#wake = undefined;
  }
}
