/**
 * A run's journal: the only writer. Append, then publish (E1).
 *
 * States: idle ─write─▶ committing ─commit─▶ idle (or committing again, if more came meanwhile)
 *                            ├─refused─▶ committing, with other events in the same places
 *                            └─fenced or failed─▶ broken, for good
 *
 * - There is no timer. An idle journal commits at once; whatever arrives while it commits forms the
 *   next batch.
 * - `state` runs ahead of what is stored, so that the loop can go on; nothing outside the loop sees
 *   it, and no side effect starts before the promise of its write has resolved.
 * - Every append carries the expected `seq` and the lease epoch (E3). A journal that was fenced out
 *   or whose store failed is broken: all its promises reject, and the loop gives the run up.
 * - A step that uses up a grant may come too late (E7): nothing of it is stored, and what was decided
 *   by the grant is decided again. What came after it keeps its place, since others may know of it.
 */
import { isEnded, type RunEvent, type StoredEvent } from '@relay/protocol';
import { noticesOfEvents } from './governance/notifications.ts';
import type {
  Append,
  Clock,
  Log,
  MemoryRecord,
  NewAudit,
  Publisher,
  RunIdentity,
  TenantStore,
} from './ports/index.ts';
import { project } from './run/state/projection.ts';
import { evolveAll, type RunState } from './run/state/state.ts';

/** What else happens in the commit of some events. */
export interface CommitExtras {
  /** QueuedRunCommand that the events answer. */
  readonly take?: readonly string[];
  /** Gives the lease back. */
  readonly release?: boolean;
  /** Memories that the run leaves behind. */
  readonly remember?: readonly MemoryRecord[];
  /** What to write instead, event for event, if a grant that they use was used up meanwhile. */
  readonly otherwise?: OnGrantExhausted;
}

export type OnGrantExhausted = (events: readonly RunEvent[]) => Promise<readonly RunEvent[]>;

interface Batch {
  /** The state that its events follow. */
  before: RunState;
  /** One time for the whole batch, so that a live frame and a stored one are the same. */
  readonly at: number;
  events: RunEvent[];
  placed: StoredEvent[];
  otherwise: OnGrantExhausted | undefined;
  readonly take: string[];
  readonly remember: MemoryRecord[];
  release: boolean;
  /** Resolves when its commit is over, with whether it is stored; it never rejects. */
  readonly over: PromiseWithResolvers<boolean>;
}

export interface JournalOptions {
  readonly run: RunIdentity;
  readonly epoch: number;
  readonly state: RunState;
  readonly store: TenantStore;
  readonly clock: Clock;
  readonly publisher: Publisher;
  readonly log: Pick<Log, 'error'>;
  /** Sees events as they are taken in, before they are stored. */
  readonly observe: (events: readonly StoredEvent[]) => void;
  /** What the audit trail says of them. */
  readonly audit?: (events: readonly StoredEvent[]) => readonly NewAudit[];
}

/** The run went to another node, or its store failed: this node must not go on with it. */
export class JournalBroken extends Error {
  override readonly name = 'JournalBroken';
  readonly fenced: boolean;

  /** `cause` is `fenced`, or what the store threw. */
  constructor(cause: unknown) {
    super('The journal no longer takes writes from this node', { cause });
    this.fenced = cause === 'fenced';
  }
}

export class RunJournal {
  readonly #options: JournalOptions;
  #state: RunState;
  #storedSeq: number;
  #next: Batch | undefined;
  #committing: Batch | undefined;
  #broken: JournalBroken | undefined;
  #closed = false;

  constructor(options: JournalOptions) {
    this.#options = options;
    this.#state = options.state;
    this.#storedSeq = options.state.seq;
  }

  get state(): RunState {
    return this.#state;
  }

  get broken(): boolean {
    return this.#broken !== undefined;
  }

  /** The run is over or its lease is given back: nothing may follow. */
  get closed(): boolean {
    return this.#closed || isEnded(this.#state.status);
  }

  /** How many events wait for their commit: what a fast model is slowed down by. */
  get backlog(): number {
    return this.#next?.events.length ?? 0;
  }

  /** Takes events in without starting a commit: the next `write` carries them. */
  stage(events: readonly RunEvent[], along: CommitExtras = {}): void {
    const { take, release, otherwise } = along;
    if (events.length === 0 && (take ?? otherwise) === undefined && release !== true) return;
    const batch = (this.#next ??= emptyBatch(this.#options.clock.now(), this.#state));
    const at = batch.placed[0]?.at ?? new Date(batch.at).toISOString();
    const { seq } = this.#state;
    const placed = events.map((event, n) => ({ ...event, seq: seq + 1 + n, at }));
    this.#state = evolveAll(this.#state, placed);
    batch.events.push(...events);
    batch.placed.push(...placed);
    this.#options.observe(placed);
    if (take !== undefined) batch.take.push(...take);
    if (otherwise !== undefined) batch.otherwise = otherwise;
    if (along.remember !== undefined) batch.remember.push(...along.remember);
    if (release === true) this.#closed = batch.release = true;
  }

  /** Takes events in and sees to their commit; a failure shows at the next awaited write. */
  append(events: readonly RunEvent[]): void {
    this.stage(events);
    this.#start();
  }

  /** Resolves when these events and all before them are stored. */
  write(events: readonly RunEvent[], along: CommitExtras = {}): Promise<void> {
    this.stage(events, along);
    return this.settled();
  }

  /** Resolves when everything taken in so far is stored; rejects with `JournalBroken`. */
  async settled(): Promise<void> {
    const last = this.#next ?? this.#committing;
    this.#start();
    const stored = last === undefined ? this.#broken === undefined : await last.over.promise;
    if (!stored) throw this.#broken ?? new JournalBroken(undefined);
  }

  #start(): void {
    if (this.#committing === undefined) void this.#commit();
  }

  /** Never rejects: a failure breaks the journal instead. */
  async #commit(): Promise<void> {
    while (this.#next !== undefined) {
      const batch = this.#next;
      this.#next = undefined;
      if (this.#broken !== undefined) {
        batch.over.resolve(false);
        return;
      }
      this.#committing = batch;
      try {
        const { store } = this.#options;
        let outcome = await store.append(this.#appendOf(batch, this.#state));
        while (outcome === 'refused' && batch.otherwise !== undefined) {
          const state = this.#replace(batch, await batch.otherwise(batch.events));
          outcome = await store.append(this.#appendOf(batch, state));
        }
        if (outcome !== 'committed') {
          this.#broken = new JournalBroken('fenced');
        } else {
          this.#storedSeq += batch.events.length;
          this.#publish(batch);
        }
      } catch (error) {
        this.#broken = new JournalBroken(error);
      }
      this.#committing = undefined;
      batch.over.resolve(this.#broken === undefined);
    }
  }

  /** Never throws: the events are stored, whether or not they can be published. */
  #publish({ placed }: Batch): void {
    const { run, publisher, log } = this.#options;
    try {
      publisher.publish(run.id, placed, run.tenantId);
    } catch (error) {
      log.error('Stored events could not be published', { runId: run.id, error });
    }
  }

  /** Puts others in the place of events that were not stored; the state after them. */
  #replace(batch: Batch, events: readonly RunEvent[]): RunState {
    const { before, placed: refused } = batch;
    if (events.length !== refused.length) throw new TypeError('Every event keeps its place');
    const isNew = events.map((event, n) => event !== batch.events[n]);
    const at = new Date(batch.at).toISOString();
    batch.events = [...events];
    batch.placed = events.map((event, n) => ({ ...event, seq: before.seq + 1 + n, at }));
    const state = evolveAll(before, batch.placed);
    this.#state = evolveAll(state, this.#next?.placed ?? []);
    if (this.#next !== undefined) this.#next.before = state;
    this.#options.observe(batch.placed.filter((_, n) => isNew[n]));
    return state;
  }

  /** `state` is what it is after the batch, and no later. */
  #appendOf(batch: Batch, state: RunState): Append {
    const { run, epoch, audit } = this.#options;
    const { progress, ...rows } = project(batch.placed, state, run);
    return {
      ...rows,
      // Whoever hears that a run is given away must be able to tell whether there is anything to do.
      progress: batch.release ? { status: state.status, ...progress } : progress,
      runId: run.id,
      epoch,
      afterSeq: this.#storedSeq,
      at: batch.at,
      events: batch.events,
      consumeCommands: batch.take,
      memories: batch.remember,
      release: batch.release,
      notices: noticesOfEvents(run, batch.placed),
      ...(audit === undefined ? {} : { audit: audit(batch.placed) }),
    };
  }
}

function emptyBatch(at: number, before: RunState): Batch {
  const over = Promise.withResolvers<boolean>();
  const nothing = { events: [], placed: [], take: [], remember: [] };
  return { at, before, ...nothing, otherwise: undefined, release: false, over };
}
