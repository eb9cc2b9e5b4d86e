/** How long a call may be silent. The time in which a person is asked does not count. */
export class Patience {
  readonly #silenceMs: number;
  readonly #over: () => void;
  #timer: NodeJS.Timeout | undefined;
  #asking = 0;
  #ended = false;

  constructor(silenceMs: number, over: () => void) {
    this.#silenceMs = silenceMs;
    this.#over = over;
    this.renew();
  }

  /** Something was heard. */
  renew(): void {
    clearTimeout(this.#timer);
    if (this.#ended || this.#asking > 0) return;
    this.#timer = setTimeout(this.#over, this.#silenceMs);
    this.#timer.unref();
  }

  async whileAsking<Value>(work: () => Promise<Value>): Promise<Value> {
    this.#asking += 1;
    this.renew();
    try {
      return await work();
    } finally {
      this.#asking -= 1;
      this.renew();
    }
  }

  end(): void {
    this.#ended = true;
    clearTimeout(this.#timer);
  }
}
