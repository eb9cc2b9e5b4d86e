/**
 * Batches the parts of an AI SDK stream, which delivers one part per promise: all events that arrived
 * since the last batch form the next one. After the first batch they are taken together with those of
 * other answers.
 *
 *   reading ──the stream ends or fails, or the consumer stops──▶ over
 *
 * Only `#read` reads parts; it pauses while more than `maxPending` events are pending.
 */
import type { LanguageModelV4StreamPart } from '@ai-sdk/provider';
import { type ModelEvent, Signal } from '@relay/core';
import { answerPacer } from '../pacer.ts';
import { callAborted } from '../http/provider-failure.ts';
import type { SdkAnswer } from './answer.ts';

const maxPending = 512;
/** How long a finished stream may take to end. */
const drainMs = 1_000;

export class PartBatches {
  readonly #reader: ReadableStreamDefaultReader<LanguageModelV4StreamPart>;
  readonly #answer: SdkAnswer;
  #pending: ModelEvent[] = [];
  #hasOutput = false;
  #over = false;
  #failure: { readonly cause: unknown } | undefined;
  readonly #changed = new Signal();
  /** What arrived may have been taken since. */
  readonly #wake = (): void => {
    if (this.#pending.length > 0) this.#changed.notify();
  };
  readonly #capacity = new Signal();
  #drainTimer: NodeJS.Timeout | undefined;

  constructor(stream: ReadableStream<LanguageModelV4StreamPart>, answer: SdkAnswer) {
    this.#reader = stream.getReader();
    this.#answer = answer;
  }

  async *all(signal: AbortSignal): AsyncGenerator<readonly ModelEvent[], void, undefined> {
    void this.#read();
    try {
      for (;;) {
        if (!signal.aborted) await this.#arrival();
        if (signal.aborted) throw callAborted();
        if (this.#pending.length > 0) yield this.#take();
        else if (this.#isOver) break;
      }
      if (this.#failure !== undefined) throw this.#failure.cause;
    } finally {
      this.#close();
    }
  }

  get #isOver(): boolean {
    return this.#over || this.#answer.finished;
  }

  /** Events may be taken without waiting for those of other answers. */
  get #isUrgent(): boolean {
    return this.#isOver || this.#pending.length > (this.#hasOutput ? maxPending : 0);
  }

  /** Resolves when there are events to take, or there will be none; undefined if that is so already. */
  #arrival(): Promise<void> | undefined {
    if (this.#isUrgent) return undefined;
    const change = this.#changed.wait();
    if (this.#pending.length > 0) answerPacer.add(this.#wake);
    return change;
  }

  /** A finished answer may still reach the end of its stream, so that the connection is reused. */
  #close(): void {
    if (this.#answer.finished && !this.#over) {
      this.#drainTimer = setTimeout(() => this.#cancel(), drainMs).unref();
    } else {
      this.#cancel();
    }
  }

  #cancel(): void {
    this.#over = true;
    this.#capacity.notify();
    void this.#reader.cancel().catch(() => undefined);
  }

  #take(): readonly ModelEvent[] {
    const batch = this.#pending;
    this.#pending = [];
    this.#hasOutput = true;
    this.#capacity.notify();
    return batch;
  }

  /** It never rejects. */
  async #read(): Promise<void> {
    try {
      for (;;) {
        const { done, value } = await this.#reader.read();
        if (done || this.#over) break;
        this.#pending.push(...this.#answer.take(value));
        if (this.#isUrgent) this.#changed.notify();
        else if (this.#pending.length > 0) answerPacer.add(this.#wake);
        if (this.#pending.length > maxPending) await this.#capacity.wait();
      }
    } catch (cause) {
      this.#failure = { cause };
    }
    this.#over = true;
    clearTimeout(this.#drainTimer);
    this.#changed.notify();
  }
}
