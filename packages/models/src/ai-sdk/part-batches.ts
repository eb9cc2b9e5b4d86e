/**
 * The packages hand out one part at a time, each by a promise of its own. Here they are taken in as
 * they come, and all that has come since the last look is one batch.
 *
 *   reading ──the stream ends, or fails, or nobody looks any more──▶ over
 *
 * Only `#read` takes parts, and it waits while more than `maxWaiting` events are not yet taken out.
 */
import type { LanguageModelV4StreamPart } from '@ai-sdk/provider';
import { type ModelEvent, Signal } from '@relay/core';
import { callAborted } from '../http/provider-failure.ts';
import type { SdkAnswer } from './answer.ts';

const maxWaiting = 512;
/** How long a finished answer may take to end. */
const drainMs = 1_000;

export class PartBatches {
  readonly #reader: ReadableStreamDefaultReader<LanguageModelV4StreamPart>;
  readonly #answer: SdkAnswer;
  #waiting: ModelEvent[] = [];
  #over = false;
  #failure: { readonly cause: unknown } | undefined;
  readonly #news = new Signal();
  readonly #room = new Signal();
  #late: NodeJS.Timeout | undefined;

  constructor(stream: ReadableStream<LanguageModelV4StreamPart>, answer: SdkAnswer) {
    this.#reader = stream.getReader();
    this.#answer = answer;
  }

  async *all(signal: AbortSignal): AsyncGenerator<readonly ModelEvent[], void, undefined> {
    void this.#read();
    try {
      for (;;) {
        if (signal.aborted) throw callAborted();
        if (this.#waiting.length > 0) yield this.#take();
        else if (this.#over || this.#answer.finished) break;
        else await this.#news.wait();
      }
      if (this.#failure !== undefined) throw this.#failure.cause;
    } finally {
      this.#leave();
    }
  }

  /** An answer that is all there may still reach its end, which leaves the connection to the next. */
  #leave(): void {
    if (this.#answer.finished && !this.#over) {
      this.#late = setTimeout(() => this.#cancel(), drainMs).unref();
    } else {
      this.#cancel();
    }
  }

  #cancel(): void {
    this.#over = true;
    this.#room.notify();
    void this.#reader.cancel().catch(() => undefined);
  }

  #take(): readonly ModelEvent[] {
    const batch = this.#waiting;
    this.#waiting = [];
    this.#room.notify();
    return batch;
  }

  /** It never rejects. */
  async #read(): Promise<void> {
    try {
      for (;;) {
        const { done, value } = await this.#reader.read();
        if (done || this.#over) break;
        this.#waiting.push(...this.#answer.take(value));
        if (this.#waiting.length > 0) this.#news.notify();
        if (this.#waiting.length > maxWaiting) await this.#room.wait();
      }
    } catch (cause) {
      this.#failure = { cause };
    }
    this.#over = true;
    clearTimeout(this.#late);
    this.#news.notify();
  }
}
