/**
 * One interval that is shared by many subscribers. The timer runs only while there is a subscriber,
 * and does not keep the process alive.
 */
export class Ticker<Subscriber> {
  readonly #intervalMs: number;
  readonly #onTick: (subscribers: ReadonlySet<Subscriber>, tick: number) => void;
  readonly #subscribers = new Set<Subscriber>();
  #timer: ReturnType<typeof setInterval> | undefined;
  #tick = 0;

  /** `onTick` receives the number of ticks since the timer was started, from 1. It may not throw. */
  constructor(
    intervalMs: number,
    onTick: (subscribers: ReadonlySet<Subscriber>, tick: number) => void,
  ) {
    this.#intervalMs = intervalMs;
    this.#onTick = onTick;
  }

  get size(): number {
    return this.#subscribers.size;
  }

  add(subscriber: Subscriber): void {
    this.#subscribers.add(subscriber);
    if (this.#timer !== undefined) return;
    this.#timer = setInterval(() => {
      this.#tick += 1;
      this.#onTick(this.#subscribers, this.#tick);
    }, this.#intervalMs);
    // Only Node's timers have it.
    (this.#timer as { unref?: () => void }).unref?.();
  }

  delete(subscriber: Subscriber): void {
    if (this.#subscribers.delete(subscriber) && this.#subscribers.size === 0) this.clear();
  }

  clear(): void {
    this.#subscribers.clear();
    clearInterval(this.#timer);
    this.#timer = undefined;
    this.#tick = 0;
  }
}
