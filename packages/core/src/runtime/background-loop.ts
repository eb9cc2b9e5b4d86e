/**
 * Runs a step again and again in the background, one at a time.
 *
 *   new ──start──▶ stepping ──done──▶ waiting ──interval over, or wake──▶ stepping
 *                     └────────────────┴──stop──▶ stopped, when the step under way is over
 *
 * - A `wake` while a step is under way is not lost: another step follows at once.
 * - A step that throws is reported, and the loop continues. Each consecutive failure doubles the wait,
 *   up to `maxBackoffMs`.
 * - `stop` aborts the signal that the step has, waits for the step, and never rejects.
 */
import type { Clock } from '../ports/index.ts';
import { Signal } from './signal.ts';

export interface BackgroundLoopOptions {
  readonly clock: Clock;
  /** From the end of a step to the beginning of the next. */
  readonly intervalMs: number;
  /** The longest wait after failures. Default: the interval. */
  readonly maxBackoffMs?: number;
  /** The first step waits for the interval too. */
  readonly delayFirst?: boolean;
  /** May return how long to wait before the next step instead of the interval. */
  readonly step: (signal: AbortSignal) => Promise<number | void>;
  readonly onError: (error: unknown) => void;
}

export class BackgroundLoop {
  readonly #options: BackgroundLoopOptions;
  readonly #stopping = new AbortController();
  readonly #wake = new Signal();
  #isWoken = false;
  #failures = 0;
  #running: Promise<void> | undefined;

  constructor(options: BackgroundLoopOptions) {
    this.#options = options;
  }

  /** Aborted by `stop`. */
  get signal(): AbortSignal {
    return this.#stopping.signal;
  }

  start(): void {
    this.#running ??= this.#run();
  }

  /** The next step begins now, or as soon as the one under way is over. */
  wake(): void {
    this.#isWoken = true;
    this.#wake.notify();
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#running;
  }

  async #run(): Promise<void> {
    const { intervalMs, delayFirst = false } = this.#options;
    if (delayFirst) await this.#wait(intervalMs);
    while (!this.signal.aborted) {
      this.#isWoken = false;
      await this.#wait(await this.#step());
    }
  }

  async #wait(ms: number): Promise<void> {
    const { clock } = this.#options;
    if (!this.#isWoken) await this.#wake.waitFor({ clock, ms, signal: this.signal });
  }

  /** How long to wait after it. */
  async #step(): Promise<number> {
    const { intervalMs, maxBackoffMs = intervalMs, step, onError } = this.#options;
    try {
      const ms = await step(this.signal);
      this.#failures = 0;
      return ms ?? intervalMs;
    } catch (error) {
      try {
        onError(error);
      } catch {
        // A report that fails must not end the loop.
      }
      this.#failures += 1;
      return Math.max(intervalMs, Math.min(intervalMs * 2 ** this.#failures, maxBackoffMs));
    }
  }
}
