/**
 * The supervisor: which runs this node drives.
 *
 * A run is in one of these places, and only `#enter` and `#leave` move it:
 *   away     not here: parked, over, or on another node
 *   queued   here, but all places are taken; tenants take turns
 *   driven   here, with the lease, in exactly one drain
 *
 * - `wake` may be called by anyone at any time, also twice. A wake during a drain is never lost: the
 *   loop hears of its inbox, and a drain that is just ending is followed by another look.
 * - Leases are renewed three times within their lifetime. A lease that could not be renewed is given
 *   up at once; the epoch fences out whatever was still on its way (E3).
 * - Runs that nobody told us about (left behind, due, queued), and commands that came in elsewhere, are
 *   found by a look around. It makes wake-ups a matter of speed and never of correctness.
 */
import { isEnded, RelayError } from '@relay/protocol';
import { BackgroundLoop } from './runtime/background-loop.ts';
import { FairQueue } from './runtime/fair-queue.ts';
import type { Engine } from './engine.ts';
import { JournalBroken } from './journal.ts';
import type { RunRef } from './ports/index.ts';
import { drive, fail, type Outcome } from './run/loop.ts';
import type { LiveRun } from './run/live-run.ts';
import { load } from './run/recover.ts';
import { failCorruptRun, runErrorOf } from './run/state/corrupt.ts';

interface Drain {
  readonly ref: RunRef;
  live: LiveRun | undefined;
  /** Someone called while the drain was ending, or before it had begun. */
  wokenAgain: boolean;
  done: Promise<void>;
}

const tenantPaused = { kind: 'yield', reason: 'The tenant is paused' } as const;
const lookAroundMs = 1_000;
const lookAroundLimit = 1_000;

export class Supervisor {
  readonly #engine: Engine;
  readonly #drains = new Map<string, Drain>();
  readonly #queue = new FairQueue<RunRef>();
  /** No more runs are taken. */
  readonly #stopped = new AbortController();
  readonly #lookingAround: BackgroundLoop;
  /** Also while the server stops: tools that finish in good order need their lease. */
  readonly #renewing: BackgroundLoop;
  /** Tenants of which nothing is driven for the time being. */
  readonly #paused = new Set<string>();
  #reserved = 0;

  constructor(engine: Engine) {
    const { clock, settings, log } = engine;
    this.#engine = engine;
    this.#lookingAround = new BackgroundLoop({
      clock,
      intervalMs: lookAroundMs,
      step: () => this.#lookAround(),
      onError: (error) => log.warn('Looking for due runs failed', { error: String(error) }),
    });
    this.#renewing = new BackgroundLoop({
      clock,
      intervalMs: settings.leaseTtlMs / 3,
      delayFirst: true,
      step: () => this.#renew(),
      onError: (error) => log.warn('Renewing leases failed', { error: describe(error) }),
    });
  }

  get activeRuns(): number {
    return this.#drains.size;
  }

  /** Keeps a place for a run that is about to be created; `adopt` or `cancelReservation` uses it. */
  reserve(): boolean {
    if (!this.#hasRoom) return false;
    this.#reserved += 1;
    return true;
  }

  cancelReservation(): void {
    this.#reserved -= 1;
    this.#fillUp();
  }

  get #hasRoom(): boolean {
    const taken = this.#drains.size + this.#reserved;
    return !this.#stopped.signal.aborted && taken < this.#engine.settings.maxActiveRuns;
  }

  /** Begins to renew leases and to look around for work. */
  start(): void {
    this.#lookingAround.start();
    this.#renewing.start();
  }

  /** There is something to do for this run. What is urgent does not wait for a free place. */
  wake(ref: RunRef, urgency: 'in-turn' | 'urgent' = 'in-turn'): void {
    const drain = this.#drains.get(ref.runId);
    if (drain !== undefined) {
      drain.wokenAgain = true;
      void drain.live?.commandsArrived().catch((error: unknown) => this.#warn(ref, error));
      return;
    }
    if (this.#stopped.signal.aborted) return;
    if (urgency === 'in-turn' && this.#paused.has(ref.tenantId)) return;
    if (urgency === 'in-turn' && !this.#hasRoom) {
      this.#queue.add(ref.tenantId, ref.runId, ref);
      return;
    }
    this.#enter(ref, undefined);
  }

  isPaused(tenantId: string): boolean {
    return this.#paused.has(tenantId);
  }

  /** Lets go of a tenant's runs, or looks for them again. A cancel is heard all the same. */
  setPaused(tenantId: string, paused: boolean): void {
    if (!paused) {
      this.#paused.delete(tenantId);
      return;
    }
    this.#paused.add(tenantId);
    for (const { ref, live } of this.#drains.values()) {
      if (ref.tenantId === tenantId) live?.stopWith(tenantPaused);
    }
  }

  /** What was paused, or let go on, by another node or before the start. */
  async lookForPauses(): Promise<void> {
    const paused = new Set(await this.#engine.store.pausedTenants());
    for (const tenantId of this.#paused) if (!paused.has(tenantId)) this.#paused.delete(tenantId);
    for (const tenantId of paused) if (!this.isPaused(tenantId)) this.setPaused(tenantId, true);
  }

  /** Drives a run whose place was reserved and whose lease was taken when it was created. */
  adopt(live: LiveRun): void {
    this.#reserved -= 1;
    if (!this.#drains.has(live.identity.id)) this.#enter(live.ref, live);
  }

  /** Lets go of all runs in good order. New ones are no longer taken. */
  async stop(): Promise<void> {
    this.#stopped.abort();
    const lookingAround = this.#lookingAround.stop();
    this.#queue.clear();
    for (const { live } of this.#drains.values()) {
      live?.stopWith({ kind: 'yield', reason: 'The server is shutting down' });
    }
    await Promise.all([...this.#drains.values()].map((drain) => drain.done));
    await Promise.all([lookingAround, this.#renewing.stop()]);
  }

  #enter(ref: RunRef, adopted: LiveRun | undefined): void {
    const drain: Drain = { ref, live: undefined, wokenAgain: false, done: Promise.resolve() };
    this.#drains.set(ref.runId, drain);
    drain.done = this.#drain(drain, adopted).finally(() => this.#leave(drain));
  }

  #leave(drain: Drain): void {
    this.#drains.delete(drain.ref.runId);
    if (drain.wokenAgain) this.wake(drain.ref);
    this.#fillUp();
  }

  #fillUp(): void {
    while (this.#hasRoom) {
      const next = this.#queue.take();
      if (next === undefined) return;
      this.wake(next);
    }
  }

  /** One drain of one run. It never rejects. */
  async #drain(drain: Drain, adopted: LiveRun | undefined): Promise<void> {
    const { ref } = drain;
    let epoch = adopted?.epoch;
    try {
      epoch ??= await this.#claim(ref);
      drain.wokenAgain = false;
      if (epoch === undefined) return;
      drain.live = adopted ?? (await load(this.#engine, ref, epoch));
      if (drain.live === undefined) return;
      if (this.#stopped.signal.aborted) {
        drain.live.stopWith({ kind: 'yield', reason: 'The server is shutting down' });
      } else if (this.isPaused(ref.tenantId)) {
        drain.live.stopWith(tenantPaused);
      }
      const outcome: Outcome = await drive(drain.live);
      // Observers drop what they hold of a run that goes on elsewhere.
      if (outcome === 'yielded') this.#engine.publisher.publish(ref.runId, [], ref.tenantId);
      // A wake-up while the run was being parked may not have been noticed.
      if (outcome !== 'suspended') drain.wokenAgain = false;
      else if ((await drain.live.store.readInbox(ref.runId)).length > 0) drain.wokenAgain = true;
    } catch (error) {
      await this.#recoverFrom(error, drain, epoch);
    }
  }

  async #claim(ref: RunRef): Promise<number | undefined> {
    const { store, clock, settings } = this.#engine;
    const now = clock.now();
    const until = now + settings.leaseTtlMs;
    const claim = await store.claimRun(ref.runId, { owner: settings.node, now, until });
    return claim?.epoch;
  }

  /** A fault of ours or of the store. What is stored decides what happens next. */
  async #recoverFrom(error: unknown, drain: Drain, epoch: number | undefined): Promise<void> {
    drain.live?.stopWith({ kind: 'yield', reason: 'The run is given up here' });
    drain.live?.abandonTools();
    // What was stored last may not have been told: whoever follows the run had better look.
    this.#engine.publisher.publish(drain.ref.runId, [], drain.ref.tenantId);
    const fenced = error instanceof JournalBroken && error.fenced;
    if (!fenced) this.#warn(drain.ref, error);
    if (epoch === undefined) return;
    try {
      const { live } = drain;
      await live?.journal.settled().catch(() => undefined);
      if (isStoreFault(error)) await this.#engine.store.releaseRun(drain.ref.runId, epoch);
      else if (live === undefined || !(await endsSoundly(live, error))) {
        await failCorruptRun(this.#engine, { ref: drain.ref, epoch, error: runErrorOf(error) });
      }
    } catch (second) {
      // The lease runs out by itself; the look-around finds the run again.
      this.#warn(drain.ref, second);
    }
  }

  async #lookAround(): Promise<void> {
    const { store, clock } = this.#engine;
    await this.lookForPauses();
    for (const ref of await store.dueRuns(clock.now(), lookAroundLimit)) {
      if (this.#drains.has(ref.runId)) continue;
      if (!this.isPaused(ref.tenantId)) this.wake(ref);
      else if (await this.#isToStop(ref)) this.wake(ref, 'urgent');
    }
    await this.#collectCommands();
  }

  /** Of a paused tenant a cancel is heard, and nothing else. */
  async #isToStop({ tenantId, runId }: RunRef): Promise<boolean> {
    const queued = await this.#engine.store.tenant(tenantId).readInbox(runId);
    return queued.some(({ command }) => command.kind === 'cancel');
  }

  /** QueuedRunCommand for runs that are driven here but that another node took in, or whose wake-up was lost. */
  async #collectCommands(): Promise<void> {
    if (this.#drains.size === 0) return;
    const { store, settings, log } = this.#engine;
    for (const runId of await store.leasedRunsWithCommands(settings.node)) {
      await this.#drains
        .get(runId)
        ?.live?.commandsArrived()
        .catch((error: unknown) => {
          log.warn('Looking for mail failed', { runId, error: describe(error) });
        });
    }
  }

  async #renew(): Promise<void> {
    const { store, clock, settings } = this.#engine;
    const runIds = [...this.#drains.values()].flatMap(({ live, ref }) =>
      live === undefined ? [] : [ref.runId],
    );
    if (runIds.length === 0) return;
    const now = clock.now();
    const until = now + settings.leaseTtlMs;
    const held = new Set(await store.renewLeases(settings.node, { runIds, now, until }));
    for (const runId of runIds) {
      if (held.has(runId)) continue;
      this.#drains.get(runId)?.live?.stopWith({ kind: 'yield', reason: 'The lease was lost' });
    }
  }

  #warn(ref: RunRef, error: unknown): void {
    const code = error instanceof RelayError ? error.code : undefined;
    this.#engine.log.warn('A run was given up on this node', {
      runId: ref.runId,
      error: describe(error),
      code,
    });
  }
}

/** The store will do again what it could not do now; the run itself is sound. */
function isStoreFault(error: unknown): boolean {
  if (error instanceof JournalBroken) return error.fenced || isStoreFault(error.cause);
  return (
    error instanceof RelayError &&
    (error.code === 'storage_failed' || error.code === 'storage_full')
  );
}

function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause instanceof Error ? `${error.message}: ${error.cause.message}` : error.message;
}

/** Ends a run that met a fault, with every call settled; false if its journal cannot be trusted. */
async function endsSoundly(live: LiveRun, error: unknown): Promise<boolean> {
  if (live.journal.broken || isEnded(live.state.status)) return false;
  try {
    await fail(live, runErrorOf(error));
    return true;
  } catch {
    return false;
  }
}
