/**
 * Bounds how much text all runs process in one turn of the event loop, so that requests are answered in
 * between. A run takes its share before it processes a piece; what exceeds the budget waits for a later
 * turn, in the order of arrival. A piece that is larger than the budget gets a turn of its own; a small
 * one never waits, so that short answers are not delayed by long ones.
 */
const smallPiece = 1 / 64;

export class EventLoopBudget {
  readonly #limit: number;
  #used = 0;
  readonly #waiting: { readonly chars: number; readonly resolve: () => void }[] = [];

  /** In characters per turn. */
  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Undefined if the caller may continue at once. */
  take(chars: number): Promise<void> | undefined {
    const isSmall = chars <= this.#limit * smallPiece;
    if (isSmall || (this.#waiting.length === 0 && this.#fits(chars))) {
      this.#charge(chars);
      return undefined;
    }
    return new Promise((resolve) => this.#waiting.push({ chars, resolve }));
  }

  #fits(chars: number): boolean {
    return this.#used === 0 || this.#used + chars <= this.#limit;
  }

  #charge(chars: number): void {
    if (this.#used === 0 && chars > 0) setTimeout(() => this.#nextTurn(), 0);
    this.#used += chars;
  }

  #nextTurn(): void {
    this.#used = 0;
    for (;;) {
      const [next] = this.#waiting;
      if (next === undefined || !this.#fits(next.chars)) return;
      this.#waiting.shift();
      this.#charge(next.chars);
      next.resolve();
    }
  }
}

/** Of this process. It takes some ten milliseconds to parse, store and stream so much. */
export const eventLoop = new EventLoopBudget(256 * 1024);
