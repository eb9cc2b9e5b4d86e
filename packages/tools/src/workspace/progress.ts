/** What a command says, told while it says it: in pieces that are few and not endless. */
export interface ProgressBounds {
  readonly everyMs: number;
  readonly maxChars: number;
}

export class Progress {
  readonly #tell: (text: string) => void;
  readonly #bounds: ProgressBounds;
  #waiting = '';
  #told = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(tell: (text: string) => void, bounds: ProgressBounds) {
    this.#tell = tell;
    this.#bounds = bounds;
  }

  /** The first words at once, what comes after them a little later and together. */
  add(text: string): void {
    const { everyMs, maxChars } = this.#bounds;
    if (text === '' || this.#told > maxChars) return;
    this.#waiting += text.slice(0, maxChars + 1);
    if (this.#timer !== undefined) return;
    this.flush();
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.flush();
    }, everyMs);
    this.#timer.unref();
  }

  flush(): void {
    if (this.#waiting === '') return;
    const room = this.#bounds.maxChars - this.#told;
    const text = this.#waiting.slice(0, Math.max(room, 0));
    const cut = this.#waiting.length > room;
    this.#waiting = '';
    this.#told += text.length + (cut ? 1 : 0);
    this.#tell(cut ? `${text}\n… more is not shown while it runs …` : text);
  }

  end(): void {
    clearTimeout(this.#timer);
    this.flush();
  }
}
