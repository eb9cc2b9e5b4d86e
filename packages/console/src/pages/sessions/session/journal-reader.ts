/** The journal of a session as far as a page has read it: from the end backwards, without gaps. */
import { RelayApiError, type StoredSessionEvent } from '@relay/sdk';

interface EventsPage {
  readonly events: readonly StoredSessionEvent[];
  readonly lastSeq: number;
}

/** Reads events after a position; without one, from the first event that is kept. */
type ReadEvents = (after: number | undefined, limit: number) => Promise<EventsPage>;

export interface JournalState {
  /** By `seq`, without gaps. */
  readonly events: readonly StoredSessionEvent[];
  /** Nothing older is kept. */
  readonly isComplete: boolean;
  readonly isLoading: boolean;
  readonly error: unknown;
}

const pageSize = 500;
const initial: JournalState = { events: [], isComplete: false, isLoading: true, error: undefined };

export class JournalReader {
  readonly #read: ReadEvents;
  readonly #watchers = new Set<() => void>();
  #state = initial;
  /** One request at a time; `isDue`: another one is to follow. */
  #isReading = false;
  #isDue = false;

  constructor(read: ReadEvents) {
    this.#read = read;
  }

  get state(): JournalState {
    return this.#state;
  }

  subscribe = (watcher: () => void): (() => void) => {
    this.#watchers.add(watcher);
    return () => void this.#watchers.delete(watcher);
  };

  /** Reads what is new; the first time, the end of the journal. */
  async update(): Promise<void> {
    if (this.#isReading) return void (this.#isDue = true);
    await this.#exclusively(async () => {
      do {
        this.#isDue = false;
        await this.#readNewer();
      } while (this.#isDue);
    });
  }

  /** A whole journal is read with few large pages. */
  async loadOlder(size = pageSize): Promise<void> {
    const first = this.#state.events[0];
    if (this.#isReading || this.#state.isComplete || first === undefined) return;
    await this.#exclusively(async () => {
      const page = await this.#readBefore(first.seq, size);
      this.#set({
        events: [...page.events, ...this.#state.events],
        isComplete: page.isComplete,
        error: undefined,
      });
    });
    if (this.#isDue) await this.update();
  }

  async #exclusively(action: () => Promise<void>): Promise<void> {
    this.#isReading = true;
    this.#set({ isLoading: true });
    try {
      await action();
    } catch (error) {
      this.#set({ error });
    } finally {
      this.#isReading = false;
      this.#set({ isLoading: false });
    }
  }

  async #readNewer(): Promise<void> {
    const last = this.#state.events.at(-1);
    if (last === undefined) {
      // The first request tells where the journal ends.
      const { lastSeq } = await this.#read(undefined, 1);
      const { events, isComplete } = await this.#readBefore(lastSeq + 1, pageSize);
      this.#set({ events, isComplete, error: undefined });
      return;
    }
    for (let after = last.seq; ;) {
      const { events } = await this.#read(after, pageSize);
      this.#set({ events: [...this.#state.events, ...events], error: undefined });
      if (events.length < pageSize) return;
      after = events.at(-1)?.seq ?? after;
    }
  }

  /** The page that ends before a `seq`. */
  async #readBefore(seq: number, size: number) {
    const after = Math.max(0, seq - 1 - size);
    try {
      const { events } = await this.#read(after, size);
      return { events: events.filter((event) => event.seq < seq), isComplete: after === 0 };
    } catch (error) {
      if (!(error instanceof RelayApiError) || error.code !== 'journal_pruned') throw error;
      // Less than a page is kept before it.
      const { events } = await this.#read(undefined, size);
      return { events: events.filter((event) => event.seq < seq), isComplete: true };
    }
  }

  #set(change: Partial<JournalState>): void {
    this.#state = { ...this.#state, ...change };
    for (const watcher of this.#watchers) watcher();
  }
}
