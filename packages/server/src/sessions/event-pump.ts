/**
 * Stores the events of a session in this process, in order and several per commit.
 *
 * The queue is bounded. A session that waits for each event never fills it; the events of one that does not
 * wait are dropped while it is full, and an `error` event says how many. An event that is invalid, not
 * declared or not possible is refused with an `error` event, too.
 */
import {
  type Engine,
  exponentialBackoff,
  recordHarnessFault,
  reportEvents,
  type SessionRef,
  Signal,
} from '@relay/core';
import {
  type AgentSessionEvent,
  fieldIssues,
  issueMessage,
  RelayError,
  type SessionEvent,
  sessionEventSchema,
} from '@relay/protocol';

export const maxQueuedEvents = 1_000;
const maxQueuedChars = 4 * 1024 * 1024;
const maxEventChars = 1024 * 1024;
const eventsPerCommit = 100;
const charsPerCommit = 1024 * 1024;
const maxBackoffMs = 10_000;

interface Fault {
  readonly error: string;
  readonly code: string;
}

interface Queued {
  /** Neither an event nor a fault: only `done` is called. */
  readonly event?: SessionEvent;
  readonly fault?: Fault;
  readonly chars: number;
  readonly done: () => void;
}

export class EventPump {
  readonly #engine: Engine;
  readonly #ref: SessionRef;
  readonly #signal: AbortSignal;
  readonly #queued = new Signal();
  #queue: Queued[] = [];
  #chars = 0;
  #dropped = 0;
  /** The next ones are stored one by one: one of them was refused. */
  #single = 0;
  #failures = 0;

  constructor(engine: Engine, ref: SessionRef, signal: AbortSignal) {
    this.#engine = engine;
    this.#ref = ref;
    this.#signal = signal;
  }

  /** Resolves when the event is stored, refused or dropped. It never throws. */
  readonly push = (event: AgentSessionEvent): Promise<void> => {
    if (this.#signal.aborted) return Promise.resolve();
    const item = readEvent(event);
    const isFull =
      this.#queue.length >= maxQueuedEvents || this.#chars + item.chars > maxQueuedChars;
    if (!isFull) return this.#add(item);
    this.#dropped += 1;
    return Promise.resolve();
  };

  /** Resolves when everything that was pushed before is stored. */
  flushed(): Promise<void> {
    if (this.#queue.length === 0 || this.#signal.aborted) return Promise.resolve();
    return this.#add({ chars: 0 });
  }

  #add(item: Omit<Queued, 'done'>): Promise<void> {
    return new Promise((resolve) => {
      this.#queue.push({ ...item, done: resolve });
      this.#chars += item.chars;
      this.#queued.notify();
    });
  }

  /** Until the signal is aborted; what is still queued then is lost. */
  async run(): Promise<void> {
    const { clock, log } = this.#engine;
    const wake = () => this.#queued.notify();
    this.#signal.addEventListener('abort', wake);
    while (!this.#signal.aborted) {
      if (this.#queue.length === 0 && this.#dropped === 0) {
        await this.#queued.wait();
        continue;
      }
      try {
        await this.#storeSome();
        this.#failures = 0;
      } catch (error) {
        this.#failures += 1;
        log.warn('Failed to store events of a session', { ...this.#ref, error: String(error) });
        await clock.sleep(exponentialBackoff(this.#failures, maxBackoffMs), this.#signal);
      }
    }
    this.#signal.removeEventListener('abort', wake);
    for (const { done } of this.#queue) done();
    this.#queue = [];
  }

  /** Throws what may be different the next time. */
  async #storeSome(): Promise<void> {
    const [first] = this.#queue;
    if (first === undefined) return this.#reportDropped();
    if (first.fault !== undefined) {
      await this.#storeFault(first.fault);
      return this.#remove(1);
    }
    const some = this.#nextEvents();
    const events = some.flatMap(({ event }) => event ?? []);
    try {
      if (events.length > 0) await reportEvents(this.#engine, this.#ref, events);
    } catch (error) {
      if (!(error instanceof RelayError) || error.retryable) throw error;
      if (some.length > 1) {
        this.#single = some.length;
        return;
      }
      const { message, code } = error;
      await this.#storeFault({ error: message, code });
    }
    this.#remove(some.length);
    if (this.#queue.length === 0) await this.#reportDropped();
  }

  #nextEvents(): Queued[] {
    const most = this.#single > 0 ? 1 : eventsPerCommit;
    let chars = 0;
    const end = this.#queue.findIndex((item, index) => {
      chars += item.chars;
      const isOver = index >= most || (index > 0 && chars > charsPerCommit);
      return isOver || item.fault !== undefined;
    });
    return this.#queue.slice(0, end === -1 ? undefined : end);
  }

  #remove(count: number): void {
    for (const { chars, done } of this.#queue.splice(0, count)) {
      this.#chars -= chars;
      done();
    }
    this.#single = Math.max(0, this.#single - count);
  }

  async #reportDropped(): Promise<void> {
    const dropped = this.#dropped;
    if (dropped === 0) return;
    await this.#storeFault({
      error: `${dropped} events were dropped: the session emits them faster than they are stored. Wait for the promise of the listener`,
      code: 'events_dropped',
    });
    this.#dropped -= dropped;
  }

  async #storeFault(fault: Fault): Promise<void> {
    const { log } = this.#engine;
    log.warn('A harness emitted an event that is refused', { ...this.#ref, ...fault });
    try {
      await recordHarnessFault(this.#engine, this.#ref, fault);
    } catch (error) {
      if (!(error instanceof RelayError) || error.retryable) throw error;
    }
  }
}

function readEvent(event: AgentSessionEvent): Omit<Queued, 'done'> {
  const parsed = sessionEventSchema.safeParse(event, { error: issueMessage });
  if (!parsed.success) {
    const [issue] = fieldIssues(parsed.error.issues);
    const error = `The harness emitted an invalid event: ${issue?.path}: ${issue?.message}`;
    return { fault: { error, code: 'invalid_request' }, chars: error.length };
  }
  const chars = JSON.stringify(parsed.data).length;
  if (chars <= maxEventChars) return { event: parsed.data, chars };
  const error = `The harness emitted an event ${parsed.data.type} with ${chars} characters; at most ${maxEventChars} are possible`;
  return { fault: { error, code: 'payload_too_large' }, chars: error.length };
}
