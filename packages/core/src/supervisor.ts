/**
 * The supervisor: decides which runs this node drives.
 *
 * For this node, a run is in one of these states; only `#activate` and `#deactivate` change it:
 *   inactive  suspended, ended, or on another node
 *   queued    waits for a free slot and for memory; tenants take turns
 *   active    driven here, under the lease, exactly once
 *
 * - `wake` may be called at any time and any number of times. A wake-up of an active run is never lost:
 *   the loop reads the inbox, and a run that is just leaving is activated again.
 * - Runs that were driven before, by this node or another, are claimed and loaded in portions: a few at
 *   a time, and only while there is memory for them.
 * - A decision on a suspended run resumes it, if this node has a slot and memory for it: the run is loaded
 *   without a lease, and its first commit stores the decision and claims the run. If this fails, because
 *   another node or another command came first, nothing is stored and nothing has started. The decision
 *   is then stored in the inbox, and whichever node claims the run applies it.
 * - A suspect, whose process died several times in a row while it drove the run, is driven while no
 *   other suspect is, and not before this process has run for some seconds. If the process still dies,
 *   the run fails. The store counts, so nodes agree. A lease that expired while its process lives does
 *   not count.
 * - A run that the store failed for is released, and nothing terminal is written. The scan finds it
 *   again, on any node. If the store keeps failing, each attempt waits longer than the one before.
 * - Leases are renewed three times within their lifetime. A run whose lease could not be renewed is
 *   stopped at once; the epoch fences out writes that are still on their way (E3).
 * - A periodic scan finds abandoned, due and queued runs, and commands that other nodes accepted.
 *   Wake-ups only reduce latency; correctness does not depend on them.
 */
import { isEnded, RelayError, type RunError } from '@relay/protocol';
import { BackgroundLoop } from './runtime/background-loop.ts';
import { exponentialBackoff } from './runtime/backoff.ts';
import { FairQueue } from './runtime/fair-queue.ts';
import type { Engine } from './engine.ts';
import { JournalBroken } from './journal.ts';
import {
  type ApprovalDecision,
  type Claim,
  maxCrashes,
  type QueuedRunCommand,
  type RunRef,
  wakesSuspendedRun,
} from './ports/index.ts';
import { publishStored } from './publisher.ts';
import { fail, failCorruptRun, toolsToWaitFor, yieldRun } from './run/end.ts';
import { isStoreFault, runErrorOf } from './run/errors.ts';
import { bytesPerChar, bytesPerRun, type LiveRun } from './run/live-run.ts';
import type { MemoryAccount } from './runtime/memory-budget.ts';
import { drive } from './run/loop.ts';
import { load } from './run/recover.ts';

interface ActiveRun {
  readonly ref: RunRef;
  /** Undefined until it is loaded. */
  live: LiveRun | undefined;
  /** Of the lease that this node holds; undefined until it is claimed. */
  epoch: number | undefined;
  /** A wake-up arrived that the loop may not have noticed. */
  hasPendingWakeUp: boolean;
  done: Promise<void>;
}

/** A decision that resumes a run, and what is called once it is stored. */
interface Resuming {
  readonly decision: ApprovalDecision;
  readonly onStored: () => void;
}

/** Of the store, while it drove a run. */
interface StoreFaults {
  readonly count: number;
  /** Until then this node does not try again. */
  readonly until: number;
}

const tenantPaused = { kind: 'yield', reason: 'The tenant is paused' } as const;
const shuttingDown = { kind: 'yield', reason: 'The server is shutting down' } as const;
const leaseLost = { kind: 'yield', reason: 'The lease was lost', isLeaseLost: true } as const;
const scanIntervalMs = 1_000;
const scanLimit = 1_000;
/** How many runs are claimed and loaded at the same time. */
const maxLoading = 16;
const maxBackoffMs = 15_000;
/** A larger journal is loaded under the lease: the store counts if the process dies of it. */
const maxSizeWithoutLease = 1024 * 1024;

export class Supervisor {
  readonly #engine: Engine;
  readonly #active = new Map<string, ActiveRun>();
  readonly #queue = new FairQueue<RunRef>();
  /** No more runs are activated. */
  #stopped = false;
  readonly #scanning: BackgroundLoop;
  /** It continues while the server stops: tools that finish gracefully need their lease. */
  readonly #renewal: BackgroundLoop;
  readonly #paused = new Set<string>();
  readonly #onResumed = new Map<string, Set<() => void>>();
  readonly #storeFaults = new Map<string, StoreFaults>();
  #reserved = 0;
  #loading = 0;
  /** The suspect that is driven now. */
  #suspect: string | undefined;
  #startedAt = 0;

  constructor(engine: Engine) {
    const { clock, settings, log } = engine;
    this.#engine = engine;
    this.#scanning = new BackgroundLoop({
      clock,
      intervalMs: scanIntervalMs,
      step: () => this.#scan(),
      onError: (error) => log.warn('The scan for due runs failed', { error: describe(error) }),
    });
    this.#renewal = new BackgroundLoop({
      clock,
      intervalMs: settings.leaseTtlMs / 3,
      delayFirst: true,
      step: () => this.#renew(),
      onError: (error) => log.warn('Renewing leases failed', { error: describe(error) }),
    });
  }

  get activeRuns(): number {
    return this.#active.size;
  }

  /** The tools that a stop waits for. */
  get toolsToWaitFor(): { readonly runId: string; readonly name: string }[] {
    return [...this.#active.values()].flatMap(({ ref, live }) =>
      live === undefined
        ? []
        : toolsToWaitFor(live).map(({ name }) => ({ runId: ref.runId, name })),
    );
  }

  /** Reserves a slot for a run that is about to be created; `adopt` or `cancelReservation` releases it. */
  reserve(): boolean {
    if (!this.#hasFreeSlot || !this.#engine.memory.hasRoom) return false;
    this.#reserved += 1;
    return true;
  }

  cancelReservation(): void {
    this.#reserved -= 1;
    this.#activateQueued();
  }

  get #hasFreeSlot(): boolean {
    const used = this.#active.size + this.#reserved;
    return !this.#stopped && used < this.#engine.settings.maxActiveRuns;
  }

  /** Whether a run that has to be loaded can be activated. */
  get #canLoad(): boolean {
    return this.#hasFreeSlot && this.#loading < maxLoading && this.#engine.memory.hasRoom;
  }

  start(): void {
    this.#startedAt = this.#engine.clock.now();
    this.#scanning.start();
    this.#renewal.start();
  }

  /** Drives the run if it has something to do. An urgent wake-up does not wait for a free slot. */
  wake(ref: RunRef, priority: 'queued' | 'immediate' = 'queued'): void {
    const active = this.#active.get(ref.runId);
    if (active !== undefined) {
      active.hasPendingWakeUp = true;
      void active.live?.commandsArrived().catch((error: unknown) => this.#warn(ref, error));
      return;
    }
    if (this.#stopped) return;
    if (priority === 'queued' && this.#paused.has(ref.tenantId)) return;
    if (priority === 'queued' && this.#isBackingOff(ref.runId)) return;
    if (priority === 'queued' && !this.#canLoad) {
      this.#queue.add(ref.tenantId, ref.runId, ref);
      return;
    }
    this.#activate(ref);
  }

  /** The run has a command that matters only while it is driven. */
  notify(ref: RunRef): void {
    const { live } = this.#active.get(ref.runId) ?? {};
    void live?.commandsArrived().catch((error: unknown) => this.#warn(ref, error));
  }

  /** Stores a decision, with its consequences if this node can resume the run. False if it is outdated. */
  async decide(tenantId: string, decision: ApprovalDecision): Promise<boolean> {
    const ref = { tenantId, runId: decision.runId };
    if (await this.#resumeWith(ref, decision)) return true;
    const isStored = await this.#engine.store.tenant(tenantId).decideApproval(decision);
    if (isStored) this.wake(ref);
    return isStored;
  }

  /** True when the decision is stored and the run is driven here; false if nothing was stored. */
  #resumeWith(ref: RunRef, decision: ApprovalDecision): Promise<boolean> {
    const isBusy = this.#active.has(ref.runId) || !this.#canLoad;
    if (isBusy || this.isPaused(ref.tenantId) || this.#isBackingOff(ref.runId)) {
      return Promise.resolve(false);
    }
    return new Promise((resolve) => {
      const resuming = { decision, onStored: () => resolve(true) };
      void this.#activate(ref, { resuming }).done.then(() => resolve(false));
    });
  }

  get pausedTenants(): Iterable<string> {
    return this.#paused;
  }

  isPaused(tenantId: string): boolean {
    return this.#paused.has(tenantId);
  }

  /** Yields a tenant's runs, or allows them again. Cancellations are still applied. */
  setPaused(tenantId: string, paused: boolean): void {
    if (!paused) {
      this.#paused.delete(tenantId);
      const waiting = this.#onResumed.get(tenantId) ?? [];
      this.#onResumed.delete(tenantId);
      for (const notify of waiting) notify();
      return;
    }
    this.#paused.add(tenantId);
    for (const { ref, live } of this.#active.values()) {
      if (ref.tenantId === tenantId) live?.stopWith(tenantPaused);
    }
  }

  /** Calls it once when the tenant is resumed, unless the returned function was called before. */
  onResumed(tenantId: string, notify: () => void): () => void {
    const waiting = this.#onResumed.get(tenantId) ?? new Set();
    this.#onResumed.set(tenantId, waiting.add(notify));
    return () => {
      waiting.delete(notify);
      if (waiting.size === 0 && this.#onResumed.get(tenantId) === waiting) {
        this.#onResumed.delete(tenantId);
      }
    };
  }

  /** Reads which tenants were paused or resumed by other nodes or before the start. */
  async refreshPausedTenants(): Promise<void> {
    const paused = new Set(await this.#engine.store.pausedTenants());
    for (const tenantId of this.#paused) if (!paused.has(tenantId)) this.setPaused(tenantId, false);
    for (const tenantId of paused) if (!this.isPaused(tenantId)) this.setPaused(tenantId, true);
  }

  /** Drives a run that was created with a lease, in its reserved slot. */
  adopt(live: LiveRun): void {
    this.#reserved -= 1;
    if (!this.#active.has(live.identity.id)) this.#activate(live.ref, { adopted: live });
  }

  /** Yields all runs gracefully. No more runs are activated. */
  async stop(): Promise<void> {
    this.#stopped = true;
    const scanning = this.#scanning.stop();
    this.#queue.clear();
    this.#engine.memory.close();
    for (const { live } of this.#active.values()) {
      live?.stopWith(shuttingDown);
    }
    await Promise.all([...this.#active.values()].map(({ done }) => done));
    await Promise.all([scanning, this.#renewal.stop()]);
  }

  /** By default the run is claimed, then loaded. */
  #activate(ref: RunRef, taken: { adopted?: LiveRun; resuming?: Resuming } = {}): ActiveRun {
    const active: ActiveRun = {
      ref,
      live: undefined,
      epoch: taken.adopted?.epoch,
      hasPendingWakeUp: false,
      done: Promise.resolve(),
    };
    this.#active.set(ref.runId, active);
    if (taken.adopted === undefined) this.#loading += 1;
    active.done = this.#drive(active, taken).finally(() => this.#deactivate(active));
    return active;
  }

  #deactivate(active: ActiveRun): void {
    this.#active.delete(active.ref.runId);
    if (this.#suspect === active.ref.runId) {
      this.#suspect = undefined;
      if (active.epoch !== undefined) this.#resumeNextSuspect();
    }
    if (active.hasPendingWakeUp) this.wake(active.ref);
    this.#activateQueued();
  }

  #activateQueued(): void {
    while (this.#canLoad) {
      const next = this.#queue.take();
      if (next === undefined) return;
      this.wake(next);
    }
  }

  /** Drives a run once: until it is settled, suspended or yielded. It never rejects. */
  async #drive(
    active: ActiveRun,
    { adopted, resuming }: { adopted?: LiveRun; resuming?: Resuming },
  ): Promise<void> {
    const { ref } = active;
    const memory = adopted?.memory ?? this.#engine.memory.open();
    try {
      let live = adopted;
      if (live === undefined) {
        try {
          live = await (resuming === undefined
            ? this.#claimAndLoad(active, memory)
            : this.#loadToResume(active, resuming, memory));
        } finally {
          this.#loading -= 1;
          this.#activateQueued();
        }
      }
      if (live === undefined) return;
      active.live = live;
      if (this.#stopped) live.stopWith(shuttingDown);
      else if (this.isPaused(ref.tenantId)) live.stopWith(tenantPaused);
      const outcome = await drive(live);
      // Observers drop what they hold of a run that continues elsewhere.
      if (outcome === 'yielded') publishStored(this.#engine, ref, []);
      // A wake-up during the suspension may not have been noticed.
      if (outcome !== 'suspended') active.hasPendingWakeUp = false;
      else if ((await live.store.readInbox(ref.runId)).some(wakes)) active.hasPendingWakeUp = true;
      this.#storeFaults.delete(ref.runId);
    } catch (error) {
      await this.#recoverFrom(error, active);
    } finally {
      memory.close();
    }
  }

  #newClaim(): Claim {
    const { clock, settings } = this.#engine;
    const now = clock.now();
    return { owner: settings.node, now, until: now + settings.leaseTtlMs };
  }

  /** Claims a run, and loads it as soon as there is memory for it. */
  async #claimAndLoad(active: ActiveRun, memory: MemoryAccount): Promise<LiveRun | undefined> {
    const { store } = this.#engine;
    const { ref } = active;
    const suspect = ref.runId === this.#suspect;
    const claimed = await store.claimRun(ref.runId, this.#newClaim(), { suspect });
    active.hasPendingWakeUp = false;
    if (claimed === undefined) return undefined;
    const { epoch, crashes, journalSize } = claimed;
    active.epoch = epoch;
    if (crashes >= maxCrashes) {
      await failCorruptRun(this.#engine, ref, epoch, crashError(crashes));
      return undefined;
    }
    memory.add(bytesPerRun + journalSize * bytesPerChar);
    while (!memory.mayGrow) await memory.wait();
    const record = await store.tenant(ref.tenantId).readRun(ref.runId);
    return record === undefined ? undefined : load(this.#engine, record, { epoch, memory });
  }

  /** Loads a suspended run without a lease: its first commit takes it, with the decision. */
  async #loadToResume(
    active: ActiveRun,
    { decision, onStored }: Resuming,
    memory: MemoryAccount,
  ): Promise<LiveRun | undefined> {
    const { tenantId, runId } = active.ref;
    const record = await this.#engine.store.tenant(tenantId).readRun(runId);
    if (record?.status !== 'waiting' || record.journalSize > maxSizeWithoutLease) return undefined;
    memory.add(bytesPerRun + record.journalSize * bytesPerChar);
    if (!memory.mayGrow) return undefined;
    const epoch = record.epoch + 1;
    const claim = {
      make: () => this.#newClaim(),
      onStored: () => {
        active.epoch = epoch;
        onStored();
      },
    };
    return load(this.#engine, record, { epoch, memory, resumption: { decision, claim } });
  }

  /** Drives the suspect with the fewest crashes, unless one is driven already. */
  #resumeNextSuspect(): void {
    if (this.#suspect !== undefined || this.#stopped) return;
    const { store, clock, log, settings } = this.#engine;
    if (clock.now() < this.#startedAt + settings.suspectDelayMs) return;
    store
      .suspectRuns(clock.now(), 1)
      .then(([ref]) => {
        if (ref === undefined || this.#suspect !== undefined || !this.#canLoad) return;
        if (this.#active.has(ref.runId)) return;
        this.#suspect = ref.runId;
        this.#activate(ref);
      })
      .catch((error: unknown) => {
        log.warn('The search for suspect runs failed', { error: describe(error) });
      });
  }

  /** After a bug or a fault of the store, what is stored decides what happens to the run. */
  async #recoverFrom(error: unknown, { ref, live, epoch }: ActiveRun): Promise<void> {
    const fenced = error instanceof JournalBroken && error.fenced;
    const isPassing = fenced || isStoreFault(error);
    if (isPassing && !fenced) this.#backOff(ref.runId);
    live?.stopWith({ kind: 'yield', reason: 'The run is abandoned on this node' });
    // The last events may be stored and not published: subscribers read the journal again.
    publishStored(this.#engine, ref, []);
    if (!fenced) this.#warn(ref, error);
    if (epoch === undefined) return;
    try {
      // Where only reading failed, the results of running tools are kept.
      if (isPassing && live !== undefined && (await hasYielded(live))) return;
      live?.stopTools();
      await live?.journal.settled().catch(() => undefined);
      if (isPassing) await this.#engine.store.releaseRun(ref.runId, epoch);
      else if (live === undefined || !(await failRun(live, error))) {
        const cause = error instanceof JournalBroken ? error.cause : error;
        await failCorruptRun(this.#engine, ref, epoch, runErrorOf(cause));
      }
    } catch (second) {
      // The lease expires, and the scan finds the run again.
      this.#warn(ref, second);
    }
  }

  #backOff(runId: string): void {
    const count = (this.#storeFaults.get(runId)?.count ?? 0) + 1;
    // A single fault, such as a lost connection, costs no more than the time until the next scan.
    const ms = count === 1 ? 0 : exponentialBackoff(count, maxBackoffMs);
    this.#storeFaults.set(runId, { count, until: this.#engine.clock.now() + ms });
  }

  #isBackingOff(runId: string): boolean {
    return (this.#storeFaults.get(runId)?.until ?? 0) > this.#engine.clock.now();
  }

  /** Other nodes may have driven these runs on. */
  #forgetOldFaults(): void {
    const oldest = this.#engine.clock.now() - 4 * maxBackoffMs;
    for (const [runId, { until }] of this.#storeFaults) {
      if (until < oldest) this.#storeFaults.delete(runId);
    }
  }

  async #scan(): Promise<void> {
    const { store, clock } = this.#engine;
    await this.refreshPausedTenants();
    this.#forgetOldFaults();
    for (const { isCanceled, ...ref } of await store.dueRuns(clock.now(), scanLimit)) {
      if (this.#active.has(ref.runId)) continue;
      if (!this.isPaused(ref.tenantId)) this.wake(ref);
      else if (isCanceled) this.wake(ref, 'immediate');
    }
    this.#activateQueued();
    this.#resumeNextSuspect();
    await this.#collectCommands();
  }

  /** Finds commands for active runs that other nodes accepted, or whose wake-up was lost. */
  async #collectCommands(): Promise<void> {
    if (this.#active.size === 0) return;
    const { store, log } = this.#engine;
    for (const runId of await store.runsWithCommands([...this.#active.keys()])) {
      await this.#active
        .get(runId)
        ?.live?.commandsArrived()
        .catch((error: unknown) => {
          log.warn('Reading the inbox of a run failed', { runId, error: describe(error) });
        });
    }
  }

  async #renew(): Promise<void> {
    const { store } = this.#engine;
    const runIds = [...this.#active.values()].flatMap(({ epoch, ref }) =>
      epoch === undefined ? [] : [ref.runId],
    );
    if (runIds.length === 0) return;
    const { owner, now, until } = this.#newClaim();
    const held = new Set(await store.renewLeases(owner, { runIds, now, until }));
    for (const runId of runIds) {
      if (held.has(runId)) continue;
      this.#active.get(runId)?.live?.stopWith(leaseLost);
    }
  }

  #warn(ref: RunRef, error: unknown): void {
    const code = error instanceof RelayError ? error.code : undefined;
    this.#engine.log.warn('A run was abandoned on this node', {
      runId: ref.runId,
      error: describe(error),
      code,
    });
  }
}

/** Yields a run whose journal can still be written; otherwise it does nothing. */
async function hasYielded(live: LiveRun): Promise<boolean> {
  if (live.journal.broken || live.journal.closed) return false;
  try {
    await yieldRun(live);
    return true;
  } catch {
    return false;
  }
}

function wakes({ command }: QueuedRunCommand): boolean {
  return wakesSuspendedRun(command);
}

function crashError(crashes: number): RunError {
  return {
    code: 'resume_crashed',
    message:
      `The server process died ${crashes} times while it drove this run, the last times without ` +
      'other suspect runs. The run is not resumed again',
    retryable: false,
  };
}

function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause instanceof Error ? `${error.message}: ${error.cause.message}` : error.message;
}

/** Fails a run with every call settled; false if its journal cannot be written. */
async function failRun(live: LiveRun, error: unknown): Promise<boolean> {
  if (live.journal.broken || isEnded(live.state.status)) return false;
  try {
    await fail(live, runErrorOf(error));
    return true;
  } catch {
    return false;
  }
}
