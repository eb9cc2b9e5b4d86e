/**
 * A run as its client sees it. Nothing is read before somebody reads: by the loop, or by `result()`
 * and `text()`, which read on from wherever the loop has come. Each event is handed out once.
 */
import type { EndedStatus, LimitName, Run, RunsFrame, WireUsage } from '@relay/protocol/wire';
import { RelayApiError, type RelayApiErrorCode } from './errors.ts';
import { type FollowOptions, framesOf } from './frames.ts';
import { at, type Http } from './http.ts';
import { anyOf } from './pause.ts';
import { readAhead } from './read-ahead.ts';

/** A frame of the run and its place in the journal. */
export type RunStreamEvent = RunsFrame & { readonly seq: number };

export interface RunResult {
  readonly id: string;
  readonly status: EndedStatus;
  /** The final answer, or what there was of it. */
  readonly output: string;
  readonly usage: WireUsage;
  /** The limit that the run had reached when it gave its answer. */
  readonly limit?: LimitName;
  /** Why it failed. */
  readonly error?: { readonly message: string; readonly code: string; readonly retryable: boolean };
}

/** Hears every event once, in order, as soon as it is read. It may not throw. */
export interface Watcher {
  hear(event: RunStreamEvent): void;
}

export interface RunHandleOptions extends FollowOptions {
  readonly http: Http;
  readonly id: string;
  readonly replayed?: boolean;
  readonly after?: number | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly first?: Response | undefined;
  /** Makes what listens in; `fail` ends the reading with an error. */
  readonly watchers: (fail: (error: unknown) => void) => readonly Watcher[];
}

const readAheadEvents = 1_000;

export class RunHandle implements AsyncIterable<RunStreamEvent> {
  readonly id: string;
  /** The request had been made before, and this is the run that it started then. */
  readonly replayed: boolean;
  readonly #options: RunHandleOptions;
  readonly #failed = new AbortController();
  readonly #watchers: readonly Watcher[];
  #first: Response | undefined;
  #after: number;
  /** How far the watchers have heard. */
  #heard = 0;
  #text = '';
  /** Where each token ends in the text, so that a reset can take it back. */
  #tokens: { readonly seq: number; readonly end: number }[] = [];
  #error: RunResult['error'];
  #result: RunResult | undefined;
  #reading: Promise<void> | undefined;

  constructor(options: RunHandleOptions) {
    this.#options = options;
    this.id = options.id;
    this.replayed = options.replayed ?? false;
    this.#after = options.after ?? 0;
    this.#first = options.first;
    this.#watchers = options.watchers((error) => this.#failed.abort(error));
  }

  /** The `seq` of the last event that was handed out: where to go on later, in another process too. */
  get lastSeq(): number {
    return this.#after;
  }

  /** The answer as far as it was handed out, without what a `reset` made void. */
  get textSoFar(): string {
    return this.#text;
  }

  /** Leaving the loop stops the reading; the run goes on. */
  async *[Symbol.asyncIterator](): AsyncGenerator<RunStreamEvent, void> {
    if (this.#reading !== undefined) {
      throw new TypeError('This handle is being read already; runs.stream(id) gives another');
    }
    let done = () => {};
    this.#reading = new Promise((resolve) => (done = resolve));
    try {
      if (this.#result === undefined) yield* this.#read();
    } finally {
      this.#reading = undefined;
      done();
    }
  }

  /** How the run ended, also if it failed or was canceled. */
  async result(): Promise<RunResult> {
    while (this.#result === undefined) {
      if (this.#reading !== undefined) await this.#reading;
      else for await (const _ of this);
    }
    return this.#result;
  }

  /** The final answer; throws if the run failed or was canceled. */
  async text(): Promise<string> {
    const { status, output, error } = await this.result();
    if (status === 'completed') return output;
    const { message, code, retryable } = error ?? {
      message: status === 'canceled' ? 'The run was canceled' : 'The run failed',
      code: status === 'canceled' ? 'run_canceled' : 'internal',
      retryable: false,
    };
    throw new RelayApiError(code as RelayApiErrorCode, message, { retryable, runId: this.id });
  }

  /** Lets go of a run that nobody wants to follow here. It goes on, and can be read later all the same. */
  async detach(): Promise<void> {
    const first = this.#first;
    this.#first = undefined;
    await first?.body?.cancel();
  }

  cancel(): Promise<Run> {
    return this.#options.http.json('POST', at`/v1/runs/${this.id}/cancel`, { repeatable: true });
  }

  async *#read(): AsyncGenerator<RunStreamEvent, void> {
    const left = new AbortController();
    const signal = anyOf(left.signal, this.#failed.signal, this.#options.signal);
    if (signal.aborted) throw signal.reason;
    const events = readAhead({
      source: this.#events(signal),
      limit: readAheadEvents,
      heard: (event) => this.#hear(event),
      left,
    });
    for await (const event of events) {
      if (event.seq <= this.#after) continue;
      this.#take(event);
      yield event;
    }
  }

  /** Events from where one has to look, until the run is over. */
  async *#events(signal: AbortSignal): AsyncGenerator<RunStreamEvent, void> {
    const { http, deliveryTimeoutMs, onDisconnect } = this.#options;
    const first = this.#first;
    this.#first = undefined;
    // Who has functions or answers to give must know what is open, however long ago it was said.
    const isNew = this.#watchers.length > 0 && this.#heard === 0;
    const after = first === undefined && !isNew ? this.#after : 0;
    const open = (after: number, signal: AbortSignal) =>
      http.stream('GET', at`/v1/runs/${this.id}/stream`, {
        headers: { 'last-event-id': String(after) },
        signal,
        maxRetries: 0,
      });
    for await (const frame of framesOf({
      open,
      after,
      signal,
      first,
      deliveryTimeoutMs,
      onDisconnect,
    })) {
      const seq = Number(frame.id);
      const event = { ...(JSON.parse(frame.data) as RunsFrame), seq };
      yield event;
      if (event.type === 'done') return;
    }
  }

  #hear(event: RunStreamEvent): void {
    if (event.seq <= this.#heard) return;
    this.#heard = event.seq;
    for (const watcher of this.#watchers) watcher.hear(event);
  }

  #take(event: RunStreamEvent): void {
    this.#after = event.seq;
    switch (event.type) {
      case 'token':
        this.#text += event.text;
        this.#tokens.push({ seq: event.seq, end: this.#text.length });
        break;
      case 'reset':
        this.#tokens = this.#tokens.filter(({ seq }) => seq <= event.after);
        this.#text = this.#text.slice(0, this.#tokens.at(-1)?.end ?? 0);
        break;
      case 'error':
        this.#error = { message: event.error, code: event.code, retryable: event.retryable };
        break;
      case 'done':
        this.#result = {
          id: this.id,
          status: event.status,
          output: event.output,
          usage: event.usage,
          ...(event.limit === undefined ? {} : { limit: event.limit }),
          ...(this.#error === undefined ? {} : { error: this.#error }),
        };
        break;
      default:
    }
  }
}
