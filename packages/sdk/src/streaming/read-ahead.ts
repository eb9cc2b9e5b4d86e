/**
 * Reads ahead while the consumer is busy, so that function tool calls do not wait for a slow loop. At
 * `limit` buffered items, reading pauses.
 */
export interface ReadAheadOptions<Item> {
  readonly source: AsyncIterable<Item>;
  readonly limit: number;
  /** Called for each item when it is read, before the consumer gets it. */
  readonly onItem: (item: Item) => void;
  /** Aborted when the consumer stops; the source has to end then. */
  readonly stopped: AbortController;
}

export async function* readAhead<Item>(
  options: ReadAheadOptions<Item>,
): AsyncGenerator<Item, void> {
  const { source, limit, onItem, stopped } = options;
  const buffer: Item[] = [];
  const itemAdded = new Signal();
  const itemTaken = new Signal();
  let outcome: { error?: unknown } | undefined;
  const read = async () => {
    try {
      for await (const item of source) {
        onItem(item);
        buffer.push(item);
        itemAdded.notify();
        while (buffer.length >= limit && !stopped.signal.aborted) await itemTaken.wait();
        if (stopped.signal.aborted) break;
      }
      outcome = {};
    } catch (error) {
      outcome = { error };
    }
    itemAdded.notify();
  };
  const reading = read();
  try {
    for (;;) {
      for (let item = buffer.shift(); item !== undefined; item = buffer.shift()) {
        itemTaken.notify();
        yield item;
      }
      if (outcome === undefined) await itemAdded.wait();
      else if (buffer.length === 0) break;
    }
    if ('error' in outcome) throw outcome.error;
  } finally {
    stopped.abort();
    itemTaken.notify();
    await reading;
  }
}

/** Wakes one waiter. A notification without a waiter is kept for the next one. */
class Signal {
  #isSet = false;
  #wake: (() => void) | undefined;

  notify(): void {
    this.#isSet = true;
    this.#wake?.();
  }

  async wait(): Promise<void> {
    if (!this.#isSet) await new Promise<void>((resolve) => (this.#wake = resolve));
    this.#isSet = false;
    this.#wake = undefined;
  }
}
