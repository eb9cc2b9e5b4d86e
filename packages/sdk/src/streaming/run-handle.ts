/**
 * A handle of a run. It reads lazily: by iteration, or by `result()` and `text()`, which continue where
 * the iteration stopped. Each event is yielded once.
 */
import {
  defined,
  type DoneFrame,
  type EndedStatus,
  type FinishReason,
  type LimitName,
  type Run,
  type RunsFrame,
  type Usage,
  type WireUsage,
} from '@relay/protocol/wire';
import { RelayApiError, type RelayApiErrorCode } from '../errors.ts';
import { type FollowOptions, framesOf } from './frames.ts';
import { type Http, pathOf } from '../http.ts';
import { anyOf } from '../timing.ts';
import { readAhead } from './read-ahead.ts';

/** A frame of the run with the `seq` of its event; `usage` has camel-case names. */
export type RunStreamEvent = (
  | Exclude<RunsFrame, DoneFrame>
  | (Omit<DoneFrame, 'usage'> & { usage: Usage })
) & { readonly seq: number };

export interface RunResult {
  readonly id: string;
  readonly status: EndedStatus;
  /** The final answer, or the part of it that was produced. */
  readonly output: string;
  readonly usage: Usage;
  /** The agent that answered. */
  readonly agent?: string;
  /** The limit that the run had reached when it answered. */
  readonly limit?: LimitName;
  /**
   * How the last answer ended. Anything but `stop` means that `output` is not a whole answer: it was
   * cut, refused or filtered. Unset if the provider did not say.
   */
  readonly finishReason?: FinishReason;
  /** Why it failed. */
  readonly error?: { readonly message: string; readonly code: string; readonly retryable: boolean };
}

/** Receives every event once, in order, when it is read. It must not throw. */
export interface Watcher {
  onEvent(event: RunStreamEvent): void;
}

export interface RunHandleOptions extends FollowOptions {
  readonly http: Http;
  readonly id: string;
  readonly replayed?: boolean;
  readonly after?: number | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly first?: Response | undefined;
  /** Creates the watchers; `fail` ends the iteration with an error. */
  readonly watchers: (fail: (error: unknown) => void) => readonly Watcher[];
}

const maxBufferedEvents = 1_000;

export class RunHandle implements AsyncIterable<RunStreamEvent> {
  readonly id: string;
  /** The idempotency key was used before, and this is the run that it started. */
  readonly replayed: boolean;
  readonly #options: RunHandleOptions;
  readonly #failed = new AbortController();
  readonly #watchers: readonly Watcher[];
  #first: Response | undefined;
  #after: number;
  /** The `seq` of the last event that the watchers received. */
  #watchedSeq = 0;
  #text = '';
  /** The end of each token in the text, so that a reset can remove it. */
  #tokens: { readonly seq: number; readonly end: number }[] = [];
  #error: RunResult['error'];
  #result: RunResult | undefined;
  #isOutputTruncated = false;
  /** The run has ended, and all of its events were read here or have a `seq` up to `after`. */
  #isOver = false;
  #reading: Promise<void> | undefined;

  constructor(options: RunHandleOptions) {
    this.#options = options;
    this.id = options.id;
    this.replayed = options.replayed ?? false;
    this.#after = options.after ?? 0;
    this.#first = options.first;
    this.#watchers = options.watchers((error) => this.#failed.abort(error));
  }

  /** The `seq` of the last event yielded: pass it as `after` to continue later, also in another process. */
  get lastSeq(): number {
    return this.#after;
  }

  /** The answer so far, without tokens discarded by a `reset`. */
  get textSoFar(): string {
    return this.#text;
  }

  /** Leaving the loop stops reading; the run continues. */
  async *[Symbol.asyncIterator](): AsyncGenerator<RunStreamEvent, void> {
    if (this.#reading !== undefined) {
      throw new TypeError(
        'This handle is already being read; create another one with runs.stream(id)',
      );
    }
    let done = () => {};
    this.#reading = new Promise((resolve) => (done = resolve));
    try {
      if (!this.#isOver) yield* this.#read();
    } finally {
      this.#reading = undefined;
      done();
    }
  }

  /** How the run ended, also if it failed or was canceled. */
  async result(): Promise<RunResult> {
    while (!this.#isOver) {
      if (this.#reading !== undefined) await this.#reading;
      else for await (const _ of this);
    }
    const { http } = this.#options;
    if (this.#result === undefined || this.#isOutputTruncated) {
      // The last event was before `after`, or has only the beginning of a long output.
      const whole = resultOf(await http.json<Run>('GET', pathOf`/v1/runs/${this.id}`));
      this.#result = { ...whole, ...this.#result, output: whole.output };
      this.#isOutputTruncated = false;
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

  /** Closes the connection without reading. The run continues, and the handle can still be read later. */
  async detach(): Promise<void> {
    const first = this.#first;
    this.#first = undefined;
    await first?.body?.cancel();
  }

  cancel(): Promise<Run> {
    return this.#options.http.json('POST', pathOf`/v1/runs/${this.id}/cancel`, {
      repeatable: true,
    });
  }

  async *#read(): AsyncGenerator<RunStreamEvent, void> {
    const stopped = new AbortController();
    const signal = anyOf(stopped.signal, this.#failed.signal, this.#options.signal);
    if (signal.aborted) throw signal.reason;
    const events = readAhead({
      source: this.#events(signal),
      limit: maxBufferedEvents,
      onItem: (event) => this.#notify(event),
      stopped,
    });
    for await (const event of events) {
      if (event.seq <= this.#after) continue;
      this.#apply(event);
      yield event;
    }
    this.#isOver = true;
  }

  async *#events(signal: AbortSignal): AsyncGenerator<RunStreamEvent, void> {
    const { http, reconnectTimeoutMs, onDisconnect, onReconnect } = this.#options;
    const first = this.#first;
    this.#first = undefined;
    // New watchers need all events, to find open calls and approvals.
    const needsAll = this.#watchers.length > 0 && this.#watchedSeq === 0;
    const after = first === undefined && !needsAll ? this.#after : 0;
    const open = (after: number, signal: AbortSignal) =>
      http.stream('GET', pathOf`/v1/runs/${this.id}/stream`, {
        headers: { 'last-event-id': String(after) },
        signal,
        maxRetries: 0,
      });
    for await (const frame of framesOf({
      open,
      after,
      signal,
      first,
      reconnectTimeoutMs,
      onDisconnect,
      onReconnect,
    })) {
      const seq = Number(frame.id);
      const event = eventOf(JSON.parse(frame.data) as RunsFrame, seq);
      yield event;
      if (event.type === 'done') return;
    }
  }

  #notify(event: RunStreamEvent): void {
    if (event.seq <= this.#watchedSeq) return;
    this.#watchedSeq = event.seq;
    for (const watcher of this.#watchers) watcher.onEvent(event);
  }

  #apply(event: RunStreamEvent): void {
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
        this.#isOver = true;
        this.#isOutputTruncated = event.outputTruncated === true;
        this.#result = defined({
          id: this.id,
          status: event.status,
          output: event.output,
          usage: event.usage,
          agent: event.agent,
          limit: event.limit,
          finishReason: event.finishReason,
          error: this.#error,
        });
        break;
      default:
    }
  }
}

function eventOf(frame: RunsFrame, seq: number): RunStreamEvent {
  return frame.type === 'done' ? { ...frame, usage: usageOf(frame.usage), seq } : { ...frame, seq };
}

function usageOf(usage: WireUsage): Usage {
  return defined({
    inputTokens: usage.input_tokens,
    outputTokens: usage.output_tokens,
    cachedInputTokens: usage.cached_input_tokens,
    cacheWriteTokens: usage.cache_write_tokens,
    reasoningTokens: usage.reasoning_tokens,
  });
}

function resultOf({ id, status, output = '', usage, agent, finishReason, error }: Run): RunResult {
  return defined({
    id,
    status: status as EndedStatus,
    output,
    usage: usageOf(usage),
    agent,
    finishReason,
    error,
  });
}
