/** Ends a call after a time without a message. The time while a person is asked does not count. */
export class SilenceTimeout {
  readonly #timeoutMs: number;
  readonly #onTimeout: () => void;
  #timer: NodeJS.Timeout | undefined;
  #openQuestions = 0;
  #ended = false;

  constructor(timeoutMs: number, onTimeout: () => void) {
    this.#timeoutMs = timeoutMs;
    this.#onTimeout = onTimeout;
    this.restart();
  }

  /** A message has arrived. */
  restart(): void {
    clearTimeout(this.#timer);
    if (this.#ended || this.#openQuestions > 0) return;
    this.#timer = setTimeout(this.#onTimeout, this.#timeoutMs);
    this.#timer.unref();
  }

  async pausedWhile<Value>(work: () => Promise<Value>): Promise<Value> {
    this.#openQuestions += 1;
    this.restart();
    try {
      return await work();
    } finally {
      this.#openQuestions -= 1;
      this.restart();
    }
  }

  end(): void {
    this.#ended = true;
    clearTimeout(this.#timer);
  }
}
