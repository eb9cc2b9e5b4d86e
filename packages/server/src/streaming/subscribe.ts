/**
 * Follows the journal of a run or a session from any position: first the stored events, then new ones as
 * they are stored, without gaps or repeats (E1).
 *
 * The journal is authoritative and the hub only reduces latency. A follower whose buffer overflows drops the buffer
 * and reads on from the store, so it holds a bounded number of events however slow its client is. The
 * hub also makes it read the store periodically, so a lost notification only costs time.
 */
import { charsIn, pageBytes, type PageRange, Signal, type TenantStore } from '@relay/core';
import type { StoredEvent, StoredSessionEvent } from '@relay/protocol';
import type { Follower, Hub } from './hub.ts';

/** What the events of both kinds of journals have. */
interface Numbered {
  readonly seq: number;
  readonly type: string;
}

export interface JournalSource<Event extends Numbered> {
  readonly id: string;
  readonly hub: Hub<Event>;
  readPage(
    range: PageRange,
  ): Promise<{ readonly events: readonly Event[]; readonly isLast: boolean }>;
  /** Whether nothing follows this event. */
  isEnd(event: Event): boolean;
  /** Whether nothing follows the event at `seq`, where nothing was found. `after` is where the reader began. */
  isOver(seq: number, after: number): Promise<boolean>;
}

export interface RunSource {
  readonly store: TenantStore;
  readonly hub: Hub<StoredEvent>;
  readonly runId: string;
}

export interface SessionSource {
  readonly store: TenantStore;
  readonly hub: Hub<StoredSessionEvent>;
  readonly sessionId: string;
}

export interface FollowOptions {
  readonly after: number;
  /** false: end at the journal's current end. */
  readonly follow: boolean;
  readonly signal: AbortSignal;
  /** The run is not created yet: the hub will publish every event, and the store need not be read. */
  readonly isNew?: boolean;
}

const size = { limit: 250, maxBytes: pageBytes };

export type BatchesOf<Event> = AsyncGenerator<readonly Event[], void>;
export type Batches = BatchesOf<StoredEvent>;

/** Yields batches in order; returns after `run.ended`, or as soon as the signal is aborted. */
export function followRun({ store, hub, runId }: RunSource, options: FollowOptions): Batches {
  const isEnd = ({ type }: StoredEvent) => type === 'run.ended';
  const source: JournalSource<StoredEvent> = {
    id: runId,
    hub,
    readPage: (range) => store.readPage(runId, range),
    isEnd,
    isOver: async (seq, after) => {
      if (seq === 0 || seq !== after) return false;
      const [event] = await store.readEvents(runId, { after: seq - 1, limit: 1 });
      return event !== undefined && isEnd(event);
    },
  };
  return followJournal(source, options);
}

/** The same for a session, which ends with `session.released`, or when it is dropped. */
export function followSession(
  { store: { sessions }, hub, sessionId }: SessionSource,
  options: FollowOptions,
): BatchesOf<StoredSessionEvent> {
  const source: JournalSource<StoredSessionEvent> = {
    id: sessionId,
    hub,
    readPage: (range) => sessions.readPage(sessionId, range),
    isEnd: ({ type }) => type === 'session.released',
    isOver: async (seq) => {
      const session = await sessions.read(sessionId);
      return session === undefined || (session.releasedAt !== null && seq >= session.lastSeq);
    },
  };
  return followJournal(source, options);
}

function followJournal<Event extends Numbered>(
  source: JournalSource<Event>,
  options: FollowOptions,
): BatchesOf<Event> {
  const buffer = new EventBuffer(source.hub, source.id);
  // Events of a new run may be published before the first batch is requested.
  if (options.isNew === true) buffer.listen(options.signal);
  const batches = batchesOf(source, options, buffer);
  // A generator that was never started skips its `finally` on `return`.
  const stop = batches.return.bind(batches);
  batches.return = (value) => {
    buffer.close();
    return stop(value);
  };
  return batches;
}

async function* batchesOf<Event extends Numbered>(
  source: JournalSource<Event>,
  options: FollowOptions,
  buffer: EventBuffer<Event>,
): BatchesOf<Event> {
  const { after, follow, signal } = options;
  let cursor = after;
  let behind = options.isNew !== true;
  if (follow) buffer.listen(signal);
  try {
    while (!signal.aborted && !buffer.isClosed) {
      const page = behind ? await source.readPage({ ...size, after: cursor }) : undefined;
      const batch = page?.events ?? buffer.take(cursor, size.limit);
      if (batch === 'gap') {
        behind = true;
        continue;
      }
      const last = batch.at(-1);
      if (last !== undefined) {
        cursor = last.seq;
        yield batch;
        if (source.isEnd(last)) return;
      } else if (behind && (await source.isOver(cursor, after))) {
        return;
      }
      // The buffer listened before the read: it has, or will receive, whatever was stored since.
      if (page?.isLast === false) continue;
      if (!follow) return;
      if (last === undefined && !behind) await buffer.waitForMore();
      behind = false;
    }
  } finally {
    buffer.close();
  }
}

const maxBufferedEvents = 1000;
const maxBufferedChars = 256 * 1024;

/** A batch is published to many buffers and measured once. */
const batchSizes = new WeakMap<readonly Numbered[], number>();

function charsOf(batch: readonly Numbered[]): number {
  let chars = batchSizes.get(batch);
  if (chars === undefined) {
    chars = batch.reduce(
      (sum, event) => sum + (isText(event) ? event.text.length : charsIn(event)),
      0,
    );
    batchSizes.set(batch, chars);
  }
  return chars;
}

function isText(event: Numbered): event is Numbered & { readonly text: string } {
  return event.type === 'text.appended';
}

/** Events of a journal that the hub has published and the follower has not taken yet. Bounded. */
export class EventBuffer<Event extends Numbered> implements Follower<Event> {
  readonly #hub: Hub<Event>;
  readonly #id: string;
  #batches: (readonly Event[])[] = [];
  #count = 0;
  #chars = 0;
  /** The follower has all events up to this one. */
  #cursor = 0;
  /** Events may be missing: the follower has to read the store. */
  #hasGap = false;
  readonly #added = new Signal();
  #stopListening: (() => void) | undefined;
  isClosed = false;

  constructor(hub: Hub<Event>, id: string) {
    this.#hub = hub;
    this.#id = id;
  }

  /** Buffers events from now on, until `close` or until the signal is aborted. */
  listen(signal: AbortSignal): void {
    if (this.#stopListening !== undefined || signal.aborted) return;
    const stop = this.#hub.add(this.#id, this);
    const close = () => this.close();
    signal.addEventListener('abort', close);
    this.#stopListening = () => {
      stop();
      signal.removeEventListener('abort', close);
    };
  }

  close(): void {
    this.isClosed = true;
    this.#stopListening?.();
    this.#added.notify();
  }

  /** The events right after `cursor`, at most `limit`; or `gap` if the store has to be read. */
  take(cursor: number, limit: number): readonly Event[] | 'gap' {
    this.#cursor = cursor;
    if (this.#hasGap) {
      this.#hasGap = false;
      this.#clear();
      return 'gap';
    }
    const [only] = this.#batches;
    if (this.#batches.length === 1 && only?.[0]?.seq === cursor + 1 && only.length <= limit) {
      this.#clear();
      return only;
    }
    const taken: Event[] = [];
    let next = cursor + 1;
    while (taken.length < limit) {
      const batch = this.#batches.shift();
      if (batch === undefined) break;
      const fresh = batch[0]?.seq === next ? batch : batch.filter(({ seq }) => seq >= next);
      const [first] = fresh;
      if (first === undefined) continue;
      if (first.seq !== next) {
        this.#hasGap = true;
        break;
      }
      const space = limit - taken.length;
      if (fresh.length > space) this.#batches.unshift(fresh.slice(space));
      taken.push(...fresh.slice(0, space));
      next = cursor + 1 + taken.length;
    }
    this.#count = this.#batches.reduce((sum, batch) => sum + batch.length, 0);
    this.#chars = this.#batches.reduce((sum, batch) => sum + charsOf(batch), 0);
    if (taken.length === 0 && this.#hasGap) return this.take(cursor, limit);
    return taken;
  }

  /** Resolves when there is something to take; undefined if there is already. */
  waitForMore(): Promise<void> | undefined {
    return this.#batches.length > 0 || this.#hasGap ? undefined : this.#added.wait();
  }

  get lastSeq(): number {
    return this.#batches.at(-1)?.at(-1)?.seq ?? this.#cursor;
  }

  receive(events: readonly Event[]): void {
    this.#count += events.length;
    this.#chars += charsOf(events);
    const isFull = this.#count > maxBufferedEvents || this.#chars > maxBufferedChars;
    if (events.length === 0 || (isFull && this.#batches.length > 0)) {
      this.#clear();
      this.#hasGap = true;
    }
    if (!this.#hasGap) this.#batches.push(events);
    this.#added.notify();
  }

  #clear(): void {
    this.#batches = [];
    this.#count = 0;
    this.#chars = 0;
  }
}
