/** The output of a call while it runs, in few chunks and up to a limit. */
export interface ProgressLimits {
  readonly everyMs: number;
  readonly maxChars: number;
}

export class Progress {
  readonly #publish: (text: string) => void;
  readonly #limits: ProgressLimits;
  #buffer = '';
  #published = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(publish: (text: string) => void, limits: ProgressLimits) {
    this.#publish = publish;
    this.#limits = limits;
  }

  /** Publishes the first text at once, and what follows together after `everyMs`. */
  add(text: string): void {
    const { everyMs, maxChars } = this.#limits;
    if (text === '' || this.#published > maxChars) return;
    this.#buffer += text.slice(0, maxChars + 1);
    if (this.#timer !== undefined) return;
    this.flush();
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.flush();
    }, everyMs);
    this.#timer.unref();
  }

  flush(): void {
    if (this.#buffer === '') return;
    const left = this.#limits.maxChars - this.#published;
    const text = this.#buffer.slice(0, Math.max(left, 0));
    const isCut = this.#buffer.length > left;
    this.#buffer = '';
    this.#published += text.length + (isCut ? 1 : 0);
    this.#publish(isCut ? `${text}\n… more is not shown while it runs …` : text);
  }

  end(): void {
    clearTimeout(this.#timer);
    this.flush();
  }
}
