/**
 * The journal of one run, read in pages and folded as it arrives.
 *
 * The end of a long journal, or what surrounds a given event, is read and shown first. Meanwhile the whole
 * journal is read from its start and folded in short slices, and replaces that when it is complete. After
 * that the run is followed, while the page is visible. `seq` has no gaps: what was missed while the
 * connection was lost is read after it is back.
 */
import type { Run, StoredEvent } from '@relay/protocol/wire';
import type { EventsPage } from '@relay/sdk';
import { client } from '../api/client.ts';
import { onFeedEvent } from '../api/feed.ts';
import { queries } from '../api/queries.ts';
import { Timeline } from './timeline.ts';
import { Transcript } from './transcript.ts';

/** Consecutive events of a journal with what is made of them. */
export class Fold {
  readonly events: StoredEvent[] = [];
  readonly transcript = new Transcript();
  readonly timeline = new Timeline();

  add(event: StoredEvent): void {
    // Parsed JSON has a string of its own for each id: one is enough.
    if ('agentId' in event) share(event);
    this.events.push(event);
    this.transcript.add(event);
    this.timeline.add(event);
  }

  get firstSeq(): number {
    return this.events[0]?.seq ?? 1;
  }

  get lastSeq(): number {
    return this.events.at(-1)?.seq ?? 0;
  }

  at(seq: number): StoredEvent | undefined {
    return this.events[seq - this.firstSeq];
  }

  /** The last event at or before a time. */
  seqAt(time: number): number {
    let [low, high] = [0, this.events.length];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (Date.parse(this.events[middle]?.at ?? '') <= time) low = middle + 1;
      else high = middle;
    }
    return this.firstSeq + Math.max(0, low - 1);
  }
}

const shared = new Map<string, string>();

interface WithIds {
  agentId?: string | undefined;
  textId?: string | undefined;
  reasoningId?: string | undefined;
}

function share(event: WithIds): void {
  if (shared.size > 10_000) shared.clear();
  if (event.agentId !== undefined) event.agentId = oneOf(event.agentId);
  if (event.textId !== undefined) event.textId = oneOf(event.textId);
  if (event.reasoningId !== undefined) event.reasoningId = oneOf(event.reasoningId);
}

function oneOf(text: string): string {
  const known = shared.get(text);
  if (known !== undefined) return known;
  shared.set(text, text);
  return text;
}

/** What the page has just read need not be read again. */
const freshMs = 2_000;
/** Events per request. */
const pageSize = 5_000;
/** Events that are read first, if the journal is longer than a page. */
const previewSize = 1_000;
/** A slice of folding, so that the page stays responsive. */
const sliceMs = 8;
/** A burst of new events is drawn together. */
const drawMs = 80;

export interface Disconnection {
  /** In milliseconds. */
  readonly since: number;
  readonly until: number | undefined;
}

export interface JournalState {
  /** Changes whenever something was added. */
  readonly version: number;
  readonly fold: Fold;
  /** Whether `fold` has all events from the first. */
  readonly isWhole: boolean;
  /** Of the whole journal. */
  readonly lastSeq: number;
  readonly loaded: number;
  readonly error: unknown;
  readonly disconnection: Disconnection | undefined;
}

export class RunJournal {
  readonly #id: string;
  readonly #watchers = new Set<() => void>();
  readonly #stop = new AbortController();
  readonly #whole = new Fold();
  #preview: Fold | undefined;
  #lastSeq: number;
  #isWhole = false;
  #error: unknown;
  #disconnection: Disconnection | undefined;
  #state: JournalState;
  #drawTimer: ReturnType<typeof setTimeout> | undefined;

  /** `lastSeq`: of the whole journal, if that is known. */
  constructor(id: string, lastSeq = 0) {
    this.#id = id;
    this.#lastSeq = lastSeq;
    this.#state = this.#snapshot(0);
  }

  readonly subscribe = (watcher: () => void): (() => void) => {
    this.#watchers.add(watcher);
    return () => void this.#watchers.delete(watcher);
  };

  readonly getState = (): JournalState => this.#state;

  /**
   * Reads the journal and follows it; after an error, again. `around`: the event to show first, instead of
   * the last one.
   */
  start(around?: number): void {
    this.#error = undefined;
    void this.#read(around);
  }

  stop(): void {
    this.#stop.abort();
    clearTimeout(this.#drawTimer);
  }

  async #read(around: number | undefined): Promise<void> {
    const { signal } = this.#stop;
    try {
      if (this.#lastSeq === 0) this.#lastSeq = (await this.#run()).lastSeq;
      if (this.#lastSeq > pageSize) await this.#readPreview(around ?? this.#lastSeq);
      await this.#readRest();
      this.#isWhole = true;
      this.#preview = undefined;
      this.#draw();
      await this.#follow();
    } catch (error) {
      if (signal.aborted) return;
      this.#error = error;
      this.#draw();
    }
  }

  async #run(): Promise<Run> {
    const { signal } = this.#stop;
    const key = ['run', this.#id];
    const { data, dataUpdatedAt = 0 } = queries.getQueryState<Run>(key) ?? {};
    if (data !== undefined && Date.now() - dataUpdatedAt < freshMs) return data;
    // Not through the cache, whose reads are cancelled when the feed reports a change.
    const run = await client.runs.get(this.#id, { signal });
    queries.setQueryData(key, run);
    return run;
  }

  async #readPreview(around: number): Promise<void> {
    const after = Math.max(0, Math.min(around, this.#lastSeq) - previewSize);
    const page = await this.#page(after, previewSize);
    const preview = new Fold();
    for (const event of page.items) preview.add(event);
    this.#preview = preview;
    this.#draw();
  }

  /** Reads from the last event that is known to the present end. The next page is read while one is folded. */
  async #readRest(): Promise<void> {
    let next: Promise<EventsPage> | undefined = this.#page(this.#whole.lastSeq, pageSize);
    while (next !== undefined) {
      const page: EventsPage = await next;
      const { items, run, nextCursor } = page;
      this.#lastSeq = Math.max(this.#lastSeq, run.lastSeq);
      next = nextCursor === null ? undefined : this.#page(Number(nextCursor), pageSize);
      // It is awaited only after the slices; its failure must not be reported as unhandled before.
      next?.catch(() => undefined);
      await this.#addInSlices(items);
    }
  }

  #page(after: number, limit: number): Promise<EventsPage> {
    return client.runs.events(this.#id, { after, limit }, { signal: this.#stop.signal }).page();
  }

  async #addInSlices(events: readonly StoredEvent[]): Promise<void> {
    let sliceEnd = performance.now() + sliceMs;
    for (const event of events) {
      if (event.seq <= this.#whole.lastSeq) continue;
      this.#whole.add(event);
      if (event.seq % 64 === 0 && performance.now() > sliceEnd) {
        await nextTask();
        sliceEnd = performance.now() + sliceMs;
      }
    }
    this.#stop.signal.throwIfAborted();
    this.#scheduleDraw();
  }

  /** Until the run ends. Nothing is read while the page is hidden. */
  async #follow(): Promise<void> {
    const { signal } = this.#stop;
    while (!signal.aborted && !this.#whole.timeline.isOver) {
      await untilVisible(signal);
      const pause = new AbortController();
      const hide = () => {
        if (document.visibilityState === 'hidden') pause.abort();
      };
      document.addEventListener('visibilitychange', hide);
      try {
        await this.#followUntil(AbortSignal.any([pause.signal, signal]));
      } catch (error) {
        if (!pause.signal.aborted) throw error;
      } finally {
        document.removeEventListener('visibilitychange', hide);
      }
    }
  }

  async #followUntil(signal: AbortSignal): Promise<void> {
    // After a reconnect there may be no event for hours: the feed says sooner that the server is back.
    const stopListening = onFeedEvent(({ kind }) => {
      if (kind === 'connected') this.#reconnected();
    });
    try {
      const events = client.runs.followEvents(this.#id, {
        after: this.#whole.lastSeq,
        signal,
        reconnectTimeoutMs: Infinity,
        onDisconnect: () => this.#disconnected(),
      });
      for await (const event of events) {
        this.#reconnected();
        this.#whole.add(event);
        this.#scheduleDraw();
      }
    } finally {
      stopListening();
    }
  }

  #disconnected(): void {
    if (this.#disconnection !== undefined && this.#disconnection.until === undefined) return;
    this.#disconnection = { since: Date.now(), until: undefined };
    this.#draw();
  }

  #reconnected(): void {
    if (this.#disconnection === undefined || this.#disconnection.until !== undefined) return;
    this.#disconnection = { ...this.#disconnection, until: Date.now() };
    this.#draw();
  }

  #scheduleDraw(): void {
    this.#drawTimer ??= setTimeout(() => this.#draw(), drawMs);
  }

  #draw(): void {
    clearTimeout(this.#drawTimer);
    this.#drawTimer = undefined;
    this.#state = this.#snapshot(this.#state.version + 1);
    for (const watcher of this.#watchers) watcher();
  }

  #snapshot(version: number): JournalState {
    const isWhole = this.#isWhole || this.#preview === undefined;
    return {
      version,
      fold: this.#isWhole ? this.#whole : (this.#preview ?? this.#whole),
      isWhole,
      lastSeq: Math.max(this.#lastSeq, this.#whole.lastSeq),
      loaded: this.#whole.lastSeq,
      error: this.#error,
      disconnection: this.#disconnection,
    };
  }
}

async function untilVisible(signal: AbortSignal): Promise<void> {
  while (document.visibilityState === 'hidden' && !signal.aborted) {
    await new Promise<void>((resolve) => {
      document.addEventListener('visibilitychange', () => resolve(), { once: true });
      signal.addEventListener('abort', () => resolve(), { once: true });
    });
  }
}

/** Lets the browser draw and handle input. */
function nextTask(): Promise<void> {
  return new Promise((resolve) => {
    const channel = new MessageChannel();
    channel.port1.addEventListener('message', () => resolve(), { once: true });
    channel.port1.start();
    channel.port2.postMessage(undefined);
  });
}
