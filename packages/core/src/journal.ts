/**
 * The journal of a run: the only writer of its events. Append, then publish (E1).
 *
 *   idle ─write─▶ committing ─commit─▶ idle, or committing again if more events are due
 *                     ├─refused─▶ committing, with the refused events replaced
 *                     └─fenced or failed─▶ broken, permanently
 *
 * - An idle journal commits at once; events that arrive during a commit form the next batch.
 * - `state` runs ahead of the store, so that the loop can continue. Only the loop sees it, and no side
 *   effect starts before the promise of its write has resolved.
 * - Every append carries the expected `seq` and the lease epoch (E3). A journal that was fenced out, or
 *   whose store failed, is broken: all its promises reject, and the loop abandons the run.
 * - A suspended run may be loaded without a lease, to be resumed by a decision. Its first append claims it
 *   and carries the decision. Without the decision nothing is written: the journal counts as fenced out.
 * - A run that is the turn of a session changes the session in the same append. If the session has changed
 *   meanwhile, nothing is stored, and that part is made again.
 * - A batch that uses an exhausted grant is refused as a whole (E7). Every write with an
 *   `onGrantExhausted` then replaces its own events, one for one, so that later events keep their `seq`.
 */
import { defined, type EventOf, isEnded, type RunEvent, type StoredEvent } from '@relay/protocol';
import { noticesOfEvents } from './governance/notifications.ts';
import type {
  Append,
  AppendOutcome,
  ApprovalDecision,
  Claim,
  Clock,
  Log,
  MemoryRecord,
  NewAuditEntry,
  Publisher,
  RunIdentity,
  RunRef,
  SessionWrite,
  TenantStore,
} from './ports/index.ts';
import { publishStored } from './publisher.ts';
import type { DeferredMessage } from './sessions/turn.ts';
import { project } from './run/state/projection.ts';
import { evolveAll, type RunState } from './run/state/state.ts';

/** What is committed together with events. */
export interface CommitExtras {
  /** Ids of queued commands that the events answer: they are removed from the inbox. */
  readonly consumeCommands?: readonly string[];
  /** A decision that is not stored yet and that the events apply. */
  readonly decision?: ApprovalDecision;
  /** Releases the lease. */
  readonly release?: boolean;
  /** Memories that the run stores. */
  readonly memories?: readonly MemoryRecord[];
  /** Messages to the session of the run that have to wait. */
  readonly deferred?: readonly DeferredMessage[];
  readonly onGrantExhausted?: OnGrantExhausted | undefined;
}

/**
 * Replaces the events of one write, one for one, after a grant that they use was exhausted.
 * `preceding` are the events before them in the same commit: these may use the same grant.
 */
export type OnGrantExhausted = (
  events: readonly RunEvent[],
  preceding: readonly RunEvent[],
) => Promise<readonly RunEvent[]>;

/** The events of one write within a batch, and how they are replaced. */
interface Replaceable {
  readonly from: number;
  readonly count: number;
  readonly replace: OnGrantExhausted;
}

interface Batch {
  /** The state before its events. */
  before: RunState;
  /** One time for the whole batch, so that a live frame equals the stored one. */
  readonly at: number;
  events: RunEvent[];
  /** The events with `seq` and time. */
  stored: StoredEvent[];
  readonly replaceable: Replaceable[];
  readonly consumeCommands: string[];
  decision: ApprovalDecision | undefined;
  readonly memories: MemoryRecord[];
  readonly deferred: DeferredMessage[];
  release: boolean;
  /** To be committed as soon as no other batch is. */
  isDue: boolean;
  /** Resolves after the commit with whether it succeeded; it never rejects. */
  readonly done: PromiseWithResolvers<boolean>;
}

export interface JournalOptions {
  readonly run: RunIdentity;
  readonly epoch: number;
  /** Of a run without a lease: the first append claims it, with `epoch`. */
  readonly claim?: FirstClaim | undefined;
  readonly state: RunState;
  readonly store: TenantStore;
  readonly clock: Clock;
  readonly publisher: Publisher;
  readonly log: Pick<Log, 'error'>;
  /** Receives events as they are staged, before they are stored. */
  readonly observe: (events: readonly StoredEvent[]) => void;
  /** Of a run that is the turn of a session. */
  readonly session?: SessionWriter | undefined;
  /** The audit entries of the events. */
  readonly audit?: (events: readonly StoredEvent[]) => readonly NewAuditEntry[];
}

/** A batch of events of a run, and the state before them. */
export interface StoredBatch {
  readonly at: number;
  readonly stored: readonly StoredEvent[];
  readonly before: RunState;
  readonly deferred: readonly DeferredMessage[];
}

export interface SessionWriter {
  readonly sessionId: string;
  /**
   * What a batch changes in the session of its run, and in those that it replies to. `outdated`: it can no
   * longer be stored, because a message that it adds was edited or withdrawn; the run is then recovered.
   * `full`: sessions without space for a reply.
   */
  write(
    batch: StoredBatch,
    full: ReadonlySet<string>,
  ): Promise<SessionWrite | undefined | 'outdated'>;
  onStored(write: SessionWrite): void;
}

export interface FirstClaim {
  /** At the time of the append. */
  readonly make: () => Claim;
  readonly onStored: () => void;
}

/** Another node holds the run, or the store failed: this node must not continue it. */
export class JournalBroken extends Error {
  override readonly name = 'JournalBroken';
  readonly fenced: boolean;

  /** `cause` is `fenced`, or what the store threw. */
  constructor(cause: unknown) {
    super('The journal no longer accepts writes from this node', { cause });
    this.fenced = cause === 'fenced';
  }
}

export class RunJournal {
  readonly #options: JournalOptions;
  readonly #ref: RunRef;
  #state: RunState;
  #storedSeq: number;
  /** Until it is stored. */
  #claim: FirstClaim | undefined;
  #next: Batch | undefined;
  #committing: Batch | undefined;
  #broken: JournalBroken | undefined;
  #closed = false;

  constructor(options: JournalOptions) {
    this.#options = options;
    this.#state = options.state;
    this.#storedSeq = options.state.seq;
    this.#claim = options.claim;
    this.#ref = { tenantId: options.run.tenantId, runId: options.run.id };
  }

  get state(): RunState {
    return this.#state;
  }

  get broken(): boolean {
    return this.#broken !== undefined;
  }

  /** The run has ended or its lease is released: nothing may follow. */
  get closed(): boolean {
    return this.#closed || isEnded(this.#state.status);
  }

  /** This node holds the lease of the run, as far as it knows. */
  get isClaimed(): boolean {
    return this.#claim === undefined;
  }

  /** How many events wait for their commit; a fast model is slowed down by it. */
  get backlog(): number {
    return this.#next?.events.length ?? 0;
  }

  /** Adds events without starting a commit: the next `append` or `write` commits them. */
  stage(events: readonly RunEvent[], extras: CommitExtras = {}): void {
    const { consumeCommands = [], decision, release = false, memories = [] } = extras;
    const { onGrantExhausted, deferred = [] } = extras;
    const isEmpty = events.length === 0 && consumeCommands.length === 0 && decision === undefined;
    if (isEmpty && !release && deferred.length === 0) return;
    const batch = (this.#next ??= emptyBatch(this.#options.clock.now(), this.#state));
    const at = batch.stored[0]?.at ?? new Date(batch.at).toISOString();
    const { seq } = this.#state;
    const stored = events.map((event, index) => ({ ...event, seq: seq + 1 + index, at }));
    this.#state = evolveAll(this.#state, stored);
    if (onGrantExhausted !== undefined) {
      const [from, count] = [batch.events.length, events.length];
      batch.replaceable.push({ from, count, replace: onGrantExhausted });
    }
    batch.events.push(...events);
    batch.stored.push(...stored);
    this.#options.observe(stored);
    batch.consumeCommands.push(...consumeCommands);
    batch.decision ??= decision;
    batch.memories.push(...memories);
    batch.deferred.push(...deferred);
    if (release) this.#closed = batch.release = true;
  }

  /** Adds events and commits them at once. A failure surfaces at the next awaited write. */
  append(events: readonly RunEvent[], extras: CommitExtras = {}): void {
    this.stage(events, extras);
    this.#start();
  }

  /** Resolves when these events and all before them are stored. */
  write(events: readonly RunEvent[], extras: CommitExtras = {}): Promise<void> {
    this.stage(events, extras);
    return this.settled();
  }

  /** Resolves when everything added so far is stored; rejects with `JournalBroken`. */
  async settled(): Promise<void> {
    const last = this.#next ?? this.#committing;
    this.#start();
    const isStored = last === undefined ? this.#broken === undefined : await last.done.promise;
    if (!isStored) throw this.#broken ?? new JournalBroken(undefined);
  }

  #start(): void {
    if (this.#next === undefined) return;
    this.#next.isDue = true;
    if (this.#committing === undefined) void this.#commit();
  }

  /** Never rejects: a failure breaks the journal instead. */
  async #commit(): Promise<void> {
    while (this.#next?.isDue === true) {
      const batch = this.#next;
      this.#next = undefined;
      if (this.#broken !== undefined) {
        batch.done.resolve(false);
        return;
      }
      this.#committing = batch;
      try {
        const mayStore = this.#claim === undefined || batch.decision !== undefined;
        let outcome = mayStore ? await this.#append(batch, this.#state) : 'fenced';
        while (outcome === 'refused' && batch.replaceable.length > 0) {
          const state = this.#replace(batch, await replacementsOf(batch));
          outcome = await this.#append(batch, state);
        }
        if (outcome !== 'committed') {
          this.#broken = new JournalBroken('fenced');
        } else {
          this.#storedSeq += batch.events.length;
          this.#claim?.onStored();
          this.#claim = undefined;
          publishStored(this.#options, this.#ref, batch.stored);
        }
      } catch (error) {
        this.#broken = new JournalBroken(error);
      }
      this.#committing = undefined;
      batch.done.resolve(this.#broken === undefined);
    }
  }

  /** Replaces the events of a batch that was not stored, and returns the state after them. */
  #replace(batch: Batch, events: RunEvent[]): RunState {
    const { before } = batch;
    const isNew = events.map((event, index) => event !== batch.events[index]);
    const at = new Date(batch.at).toISOString();
    batch.events = events;
    batch.stored = events.map((event, index) => ({ ...event, seq: before.seq + 1 + index, at }));
    const state = evolveAll(before, batch.stored);
    this.#state = evolveAll(state, this.#next?.stored ?? []);
    if (this.#next !== undefined) this.#next.before = state;
    this.#options.observe(batch.stored.filter((_, index) => isNew[index]));
    return state;
  }

  /** With what it changes in the session of the run, from the session as it is now. */
  async #append(batch: Batch, state: RunState): Promise<AppendOutcome> {
    const { store, session } = this.#options;
    const append = this.#appendOf(batch, state);
    if (session === undefined) return store.append(append);
    const full = new Set<string>();
    for (;;) {
      const write = await session.write(batch, full);
      if (write === 'outdated') return 'fenced';
      const outcome = await store.append({ ...append, ...defined({ session: write }) });
      if (outcome === 'committed' && write !== undefined) session.onStored(write);
      if (typeof outcome === 'string') return outcome;
      if (outcome.kind === 'inbox-full') full.add(outcome.sessionId);
    }
  }

  /** `state` is the state after the batch, and no later. */
  #appendOf(batch: Batch, state: RunState): Append {
    const { run, epoch, audit, session } = this.#options;
    const ofSession = { ...run, sessionId: session?.sessionId };
    const { progress, ...rows } = project(batch.stored, state, ofSession, batch.before);
    return {
      ...rows,
      // Nodes that are notified of a released run must see whether it can continue.
      progress: batch.release ? { status: state.status, ...progress } : progress,
      runId: run.id,
      epoch,
      afterSeq: this.#storedSeq,
      at: batch.at,
      events: batch.events,
      writer: this,
      consumeCommands: batch.consumeCommands,
      memories: batch.memories,
      release: batch.release,
      ...defined({ claim: this.#claim?.make(), decision: batch.decision }),
      notices: noticesOfEvents(run, batch.stored),
      audit: audit?.(batch.stored) ?? [],
    };
  }
}

/** Whether the event is a piece of what a model streams. */
export function isDelta(event: RunEvent): event is EventOf<'text.appended' | 'reasoning.appended'> {
  return event.type === 'text.appended' || event.type === 'reasoning.appended';
}

function emptyBatch(at: number, before: RunState): Batch {
  return {
    before,
    at,
    events: [],
    stored: [],
    replaceable: [],
    consumeCommands: [],
    decision: undefined,
    memories: [],
    deferred: [],
    release: false,
    isDue: false,
    done: Promise.withResolvers<boolean>(),
  };
}

async function replacementsOf({ events, replaceable }: Batch): Promise<RunEvent[]> {
  const replaced = [...events];
  for (const { from, count, replace } of replaceable) {
    const end = from + count;
    const replacement = await replace(replaced.slice(from, end), replaced.slice(0, from));
    if (replacement.length !== count) throw new TypeError('Events must be replaced one for one');
    replaced.splice(from, count, ...replacement);
  }
  return replaced;
}

const pageSize = 2000;
/** `maxBytes` of a page that is read, parsed and sent in a few milliseconds. */
export const pageBytes = 256 * 1024;

/** The events of a run after `after`, page by page; the journal may end before `to`. */
export async function* readJournal(
  store: TenantStore,
  runId: string,
  range: { after: number; to: number },
): AsyncGenerator<StoredEvent[], void> {
  let { after } = range;
  while (after < range.to) {
    const limit = Math.min(pageSize, range.to - after);
    const size = { limit, maxBytes: pageBytes };
    const { events, isLast } = await store.readPage(runId, { after, ...size });
    if (events.length > 0) yield events;
    if (isLast) return;
    after += events.length;
  }
}
