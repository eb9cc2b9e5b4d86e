/**
 * The pending approvals, all in memory: thousands of them stay responsive because a change reads one of
 * them again, not the list. Approvals that were decided stay readable until the list is loaded again.
 *
 * Every response is applied only if nothing newer is known: a request that was sent before the last
 * answer about an approval arrived does not overwrite it.
 */
import type { Approval } from '@relay/protocol/wire';
import type { Page } from '@relay/sdk';

export interface ApprovalSource {
  /** A page of the pending approvals. */
  page(cursor: string | undefined): Promise<Page<Approval>>;
  /** `isListed`: whether the list would contain it now. */
  get(id: string): Promise<{ readonly approval: Approval; readonly isListed: boolean }>;
}

export interface PendingApprovals {
  /** In the order in which they should be decided. */
  readonly pending: readonly Approval[];
  /** False while only the newest ones are known. */
  readonly isComplete: boolean;
  readonly isLoading: boolean;
  /** Why the list could not be loaded. */
  readonly error: unknown;
}

interface Entry {
  readonly approval: Approval;
  readonly isListed: boolean;
  /** When it was applied, by the clock of this store. */
  readonly appliedAt: number;
}

/** Requests for single approvals at a time. */
const maxRequests = 4;
/** From so many changed approvals on, loading the list again is cheaper. */
const maxChanged = 200;

export class ApprovalStore {
  readonly #source: ApprovalSource;
  readonly #entries = new Map<string, Entry>();
  readonly #errors = new Map<string, unknown>();
  readonly #watchers = new Set<() => void>();
  readonly #newListeners = new Set<(approval: Approval) => void>();
  /** Approvals that are shown: they are read again when the list no longer contains them. */
  readonly #shown = new Map<string, number>();
  readonly #changed = new Set<string>();
  readonly #requested = new Set<string>();
  #sorted: readonly Approval[] = [];
  #unsorted = new Set<string>();
  #clock = 0;
  #load = 0;
  /** How often it was cleared. */
  #clears = 0;
  #nextCursor: string | undefined;
  #readers = 0;
  #state: PendingApprovals = {
    pending: [],
    isComplete: false,
    isLoading: true,
    error: undefined,
  };

  constructor(source: ApprovalSource) {
    this.#source = source;
  }

  readonly subscribe = (watcher: () => void): (() => void) => {
    this.#watchers.add(watcher);
    return () => void this.#watchers.delete(watcher);
  };

  readonly state = (): PendingApprovals => this.#state;

  get(id: string): Approval | undefined {
    return this.#entries.get(id)?.approval;
  }

  errorOf(id: string): unknown {
    return this.#errors.get(id);
  }

  /** Calls the listener for each approval that is requested from now on. */
  onNew(listener: (approval: Approval) => void): () => void {
    this.#newListeners.add(listener);
    return () => void this.#newListeners.delete(listener);
  }

  /** Loads all pages, not only the first, until the returned function is called. */
  readAll(): () => void {
    this.#readers += 1;
    if (this.#nextCursor !== undefined && !this.#state.isLoading) {
      void this.#loadPages(this.#load, this.#nextCursor);
    }
    return () => void (this.#readers -= 1);
  }

  /** Keeps an approval readable, whatever its status, until the returned function is called. */
  show(id: string): () => void {
    this.#shown.set(id, (this.#shown.get(id) ?? 0) + 1);
    if (!this.#entries.has(id)) this.change(id);
    return () => {
      const count = (this.#shown.get(id) ?? 1) - 1;
      if (count === 0) this.#shown.delete(id);
      else this.#shown.set(id, count);
    };
  }

  /** Reads the list again from its start. What is known stays until the new list is complete. */
  async reload(): Promise<void> {
    this.#load += 1;
    await this.#loadPages(this.#load, undefined);
  }

  /** An approval has changed on the server. */
  change(id: string): void {
    this.#changed.add(id);
    if (this.#changed.size > maxChanged) {
      this.#changed.clear();
      void this.reload();
    } else void this.#readChanged();
  }

  /** An answer of the server that is newer than all requests before. */
  put(approval: Approval): void {
    this.#apply(approval, approval.status === 'pending', this.#tick());
    this.#publish({});
  }

  /** Forgets everything, and what is under way. */
  clear(): void {
    this.#load += 1;
    this.#clears += 1;
    this.#entries.clear();
    this.#errors.clear();
    this.#changed.clear();
    this.#sorted = [];
    this.#unsorted.clear();
    this.#nextCursor = undefined;
    this.#publish({ isComplete: false, isLoading: true, error: undefined });
  }

  #tick(): number {
    this.#clock += 1;
    return this.#clock;
  }

  async #loadPages(load: number, from: string | undefined): Promise<void> {
    let cursor = from;
    const startedAt = this.#clock;
    this.#publish({ isLoading: true });
    try {
      do {
        const requestedAt = this.#tick();
        const { items, nextCursor } = await this.#source.page(cursor);
        if (load !== this.#load) return;
        for (const approval of items) this.#apply(approval, true, requestedAt);
        cursor = nextCursor ?? undefined;
        this.#nextCursor = cursor;
        this.#publish({ error: undefined });
      } while (cursor !== undefined && this.#readers > 0);
      if (from === undefined) this.#forgetBefore(startedAt);
      this.#publish({ isLoading: false, isComplete: cursor === undefined });
    } catch (error) {
      if (load === this.#load) this.#publish({ isLoading: false, error });
    }
  }

  /** What the new list does not contain is no longer pending, or no longer of this list. */
  #forgetBefore(time: number): void {
    for (const [id, { appliedAt }] of this.#entries) {
      if (appliedAt > time) continue;
      if (this.#shown.has(id)) this.change(id);
      else {
        this.#entries.delete(id);
        this.#unsorted.add(id);
      }
    }
  }

  async #readChanged(): Promise<void> {
    for (const id of this.#changed) {
      if (this.#requested.size >= maxRequests) return;
      // The request that is under way may have read the state before this change.
      if (this.#requested.has(id)) continue;
      this.#changed.delete(id);
      this.#requested.add(id);
      void this.#read(id).finally(() => {
        this.#requested.delete(id);
        void this.#readChanged();
      });
    }
  }

  async #read(id: string): Promise<void> {
    const requestedAt = this.#tick();
    const clears = this.#clears;
    try {
      const { approval, isListed } = await this.#source.get(id);
      if (clears !== this.#clears) return;
      const isNew = isListed && !this.#entries.has(id);
      this.#errors.delete(id);
      this.#apply(approval, isListed, requestedAt);
      this.#publish({});
      if (isNew) for (const listener of this.#newListeners) listener(approval);
    } catch (error) {
      if (clears !== this.#clears) return;
      this.#errors.set(id, error);
      this.#publish({});
    }
  }

  #apply(approval: Approval, isListed: boolean, requestedAt: number): void {
    const { id } = approval;
    const known = this.#entries.get(id);
    if (known !== undefined && known.appliedAt > requestedAt) return;
    this.#entries.set(id, { approval, isListed, appliedAt: this.#tick() });
    this.#unsorted.add(id);
  }

  #publish(change: Partial<PendingApprovals>): void {
    this.#sort();
    this.#state = { ...this.#state, ...change, pending: this.#sorted };
    for (const watcher of this.#watchers) watcher();
  }

  /** The rest is sorted already, which makes this fast. */
  #sort(): void {
    if (this.#unsorted.size === 0) return;
    const kept = this.#sorted.filter(({ id }) => !this.#unsorted.has(id));
    const added = [...this.#unsorted].flatMap((id) => {
      const entry = this.#entries.get(id);
      return entry?.isListed === true && entry.approval.status === 'pending'
        ? [entry.approval]
        : [];
    });
    this.#sorted = [...kept, ...added].sort(byUrgency);
    this.#unsorted = new Set();
  }
}

/** Unknown outcomes first, then flagged calls, then those that expire next. */
export function byUrgency(one: Approval, other: Approval): number {
  const rank = rankOf(one) - rankOf(other);
  if (rank !== 0) return rank;
  if (one.expiresAt !== other.expiresAt) return one.expiresAt < other.expiresAt ? -1 : 1;
  if (one.id === other.id) return 0;
  return one.id < other.id ? -1 : 1;
}

function rankOf({ kind, display }: Approval): number {
  if (kind === 'outcome') return 0;
  return display.flags.length > 0 ? 1 : 2;
}
