/**
 * Bounds the memory of all runs that this node drives. Each run charges an estimate of what it holds to
 * its account.
 *
 *   free       no run waits, and others are admitted
 *   exhausted  no run is admitted, and one that wants to grow beyond its share waits, except for
 *              `maxOverdrafts` of them: they finish, and release what they hold
 *
 * - An account that may grow keeps its overdraft until its `settle` or `close`. Waiting accounts get it
 *   in the order in which they began to wait, so every run finishes sooner or later.
 * - The memory in use is at most the limit, the shares, and what the overdrafts add.
 */
const maxOverdrafts = 4;
/** Of the limit. A run with a short answer never waits for those with long ones. */
const share = 1 / 2048;

export class MemoryBudget {
  readonly #limit: number;
  #used = 0;
  readonly #overdrafts = new Set<MemoryAccount>();
  readonly #waiting = new Map<MemoryAccount, PromiseWithResolvers<void>>();
  #isClosed = false;

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Whether a run may be admitted. */
  get hasRoom(): boolean {
    return this.#used < this.#limit;
  }

  get used(): number {
    return this.#used;
  }

  /** An account that nothing is charged to yet. */
  open(): MemoryAccount {
    return new MemoryAccount(this);
  }

  /** No account waits any more: their runs are stopped. */
  close(): void {
    this.#isClosed = true;
    for (const { resolve } of this.#waiting.values()) resolve();
    this.#waiting.clear();
  }

  charge(bytes: number): void {
    this.#used += bytes;
    if (bytes < 0) this.#admitWaiting();
  }

  /** Takes an overdraft if one is needed and left. */
  mayGrow(account: MemoryAccount): boolean {
    if (this.hasRoom || this.#isClosed || this.#overdrafts.has(account)) return true;
    if (account.bytes <= this.#limit * share) return true;
    if (this.#overdrafts.size >= maxOverdrafts) return false;
    this.#overdrafts.add(account);
    return true;
  }

  wait(account: MemoryAccount): Promise<void> {
    const waiting = this.#waiting.get(account) ?? Promise.withResolvers<void>();
    this.#waiting.set(account, waiting);
    return waiting.promise;
  }

  endOverdraft(account: MemoryAccount): void {
    if (this.#overdrafts.delete(account)) this.#admitWaiting();
  }

  endWait(account: MemoryAccount): void {
    this.#waiting.get(account)?.resolve();
    this.#waiting.delete(account);
  }

  #admitWaiting(): void {
    for (const account of this.#waiting.keys()) {
      if (!this.mayGrow(account)) return;
      this.endWait(account);
    }
  }
}

/** What one run holds. */
export class MemoryAccount {
  readonly #budget: MemoryBudget;
  #bytes = 0;

  constructor(budget: MemoryBudget) {
    this.#budget = budget;
  }

  get bytes(): number {
    return this.#bytes;
  }

  add(bytes: number): void {
    this.#bytes += bytes;
    this.#budget.charge(bytes);
  }

  /** Whether the run may go on reading what it will hold. */
  get mayGrow(): boolean {
    return this.#budget.mayGrow(this);
  }

  /** Resolves when the run may grow, or its account is closed. */
  wait(): Promise<void> {
    return this.#budget.wait(this);
  }

  /** The run does not grow for now; it holds this much. */
  settle(bytes: number): void {
    this.add(bytes - this.#bytes);
    this.#budget.endOverdraft(this);
  }

  close(): void {
    this.#budget.endWait(this);
    this.settle(0);
  }
}

/** The size of a value in memory, roughly: its texts, and a little for everything else. */
export function charsIn(value: unknown): number {
  if (typeof value === 'string') return value.length;
  if (typeof value !== 'object' || value === null) return 8;
  return Object.values(value).reduce<number>((sum, inner) => sum + charsIn(inner), 16);
}
