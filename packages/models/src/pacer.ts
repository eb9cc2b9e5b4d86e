/**
 * Starts work that can wait a few milliseconds together with other such work, so that its fixed costs are
 * shared.
 *
 *   idle    what is added starts at once, and an interval begins
 *   pacing  what is added starts at the end of the interval, and the next one begins. The more starts
 *           together, the longer is the next; one in which nothing was added ends in `idle`
 *
 * So a single stream is not delayed, and many streams together take a bounded part of the time.
 */
export interface Pace {
  readonly baseMs: number;
  readonly msPerStart: number;
  readonly maxMs: number;
}

export class Pacer {
  readonly #pace: Pace;
  readonly #waiting = new Set<() => void>();
  #isPacing = false;

  constructor(pace: Pace) {
    this.#pace = pace;
  }

  /** Calls `start` once, now or at the end of the interval. It may not throw. */
  add(start: () => void): void {
    this.#waiting.add(start);
    if (!this.#isPacing) this.#startAll();
  }

  #startAll(): void {
    const starts = [...this.#waiting];
    this.#waiting.clear();
    this.#isPacing = starts.length > 0;
    if (!this.#isPacing) return;
    const { baseMs, msPerStart, maxMs } = this.#pace;
    setTimeout(() => this.#startAll(), Math.min(maxMs, baseMs + starts.length * msPerStart));
    for (const start of starts) start();
  }
}

/**
 * Of all answers that this process reads: under load each is read 40 times per second. See
 * `docs/decisions/2026-11-16-text-shares-commits.md`.
 */
export const answerPacer = new Pacer({ baseMs: 4, msPerStart: 0.4, maxMs: 25 });
