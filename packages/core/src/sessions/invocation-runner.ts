/**
 * Carries out the invocations of functions and URLs, and ends those that need attention without a request.
 *
 * The node that started a handler extends `dueAt` while the handler runs. Any node finds what is due: a
 * handler whose node is gone, one that was not started yet, and an invocation of a session that has timed
 * out or whose session has ended. Of several nodes one takes it, by compare-and-set on `dueAt`.
 *
 * The handlers of a node share its places (`SharedPlaces`). One without a place stays in the store; what the
 * last scan found starts in turns of the tenants, as soon as places become free.
 */
import { RelayError } from '@relay/protocol';
import { attendWaiting } from '../commands/sessions/attend-invocation.ts';
import {
  endInvocation,
  type InvocationEngine,
  type InvocationResult,
  readInvocation,
} from '../commands/sessions/end-invocation.ts';
import type { InvocationRecord, InvocationRef, Log, TenantStore } from '../ports/index.ts';
import { errorText } from '../run/errors.ts';
import { BackgroundLoop } from '../runtime/background-loop.ts';
import { FairQueue } from '../runtime/fair-queue.ts';
import { SharedPlaces } from '../runtime/shared-places.ts';
import { Signal } from '../runtime/signal.ts';
import { type Action, ActionFailed, actionOf, inputOf } from './actions.ts';

export interface UrlCall {
  readonly tenantId: string;
  readonly action: Action & { readonly url: string };
  readonly invocation: InvocationRecord;
  readonly input: unknown;
  readonly signal: AbortSignal;
}

export interface InvocationRunnerOptions {
  readonly engine: () => InvocationEngine & { readonly log: Log };
  /** The actions of the configuration, by name. */
  readonly own: ReadonlyMap<string, Action>;
  /** Calls the URL of an action. Throws `ActionFailed`. */
  readonly call: (request: UrlCall) => Promise<unknown>;
  /** No handler is started for a tenant that is paused. */
  readonly isPaused: (tenantId: string) => boolean;
}

const intervalMs = 1_000;
const batchSize = 100;
/** How often a waiting request reads the store: another node may have ended the invocation. */
const pollMs = 500;
const maxRunning = 256;
/** As many tenants as have a place may be skipped: the others must be among those that are found. */
const maxQueued = 2 * maxRunning;
/** A handler that each of its starts kills the server with is not started for ever. */
const restartMs = 60 * 60 * 1000;

interface Waiter {
  isChanged: boolean;
  readonly signal: Signal;
}

export class InvocationRunner {
  readonly own: ReadonlyMap<string, Action>;
  readonly #options: InvocationRunnerOptions;
  readonly #places = new SharedPlaces(maxRunning);
  readonly #queue = new FairQueue<InvocationRef>();
  readonly #running = new Map<string, Promise<void>>();
  /** Invocations whose handlers run. */
  readonly #handled = new Map<string, InvocationRecord>();
  readonly #waiting = new Map<string, Set<Waiter>>();
  #loop: BackgroundLoop | undefined;
  #isStopped = false;

  constructor(options: InvocationRunnerOptions) {
    this.own = options.own;
    this.#options = options;
  }

  begin(): void {
    const { clock, log } = this.#options.engine();
    this.#loop ??= new BackgroundLoop({
      clock,
      intervalMs,
      step: (signal) => this.#attendDue(signal),
      onError: (error) => log.warn('Failed to attend to invocations', { error: String(error) }),
    });
    this.#loop.start();
  }

  /** Handlers get time to end, those that can run again less. What they leave is found as after a crash. */
  async stop(): Promise<void> {
    const { graceMs, stopTimeoutMs } = this.#options.engine().settings;
    this.#isStopped = true;
    await this.#loop?.stop();
    const firstMs = Math.min(graceMs, stopTimeoutMs);
    await this.#untilEnded([...this.#running.keys()], firstMs);
    const ids = this.handlersToWaitFor.map(({ invocationId }) => invocationId);
    await this.#untilEnded(ids, stopTimeoutMs - firstMs);
  }

  async #untilEnded(invocationIds: readonly string[], ms: number): Promise<void> {
    const { clock } = this.#options.engine();
    const isOver = new AbortController();
    const running = invocationIds.flatMap((id) => this.#running.get(id) ?? []);
    const ended = Promise.all(running);
    await Promise.race([ended.then(() => isOver.abort()), clock.sleep(ms, isOver.signal)]);
  }

  /** The handlers that a stop waits for: their outcome would be unknown. */
  get handlersToWaitFor(): { readonly invocationId: string; readonly name: string }[] {
    return [...this.#handled.values()]
      .filter(({ idempotent }) => !idempotent)
      .map(({ id, action }) => ({ invocationId: id, name: action }));
  }

  /** Reserves a place for an invocation that is about to be stored. `release` follows in any case. */
  reserve(tenantId: string, invocationId: string): boolean {
    return !this.#isStopped && this.#places.take(tenantId, invocationId);
  }

  /** A handler that was started keeps its place until it ends. */
  release(tenantId: string, invocationId: string): void {
    if (this.#running.has(invocationId)) return;
    this.#places.release(tenantId, invocationId);
    this.#startQueued();
  }

  isPaused(tenantId: string): boolean {
    return this.#options.isPaused(tenantId);
  }

  /** Of an invocation that was just stored: starts its handler, if that has a place. */
  start(tenantId: string, invocation: InvocationRecord, action: Action): void {
    const { id, sessionId, startedAt, status } = invocation;
    if (sessionId !== null || status !== 'running') return;
    if (startedAt !== null) this.#track(tenantId, id, this.#run(tenantId, invocation, action));
    else this.#enqueue({ tenantId, invocationId: id });
  }

  /** It may be started now, here if nothing else took it. */
  due(tenantId: string, invocationId: string): void {
    const { log } = this.#options.engine();
    this.attend(tenantId, invocationId).catch((error: unknown) => {
      // It is found when it is due.
      log.warn('Failed to start an invocation', { invocationId, error: String(error) });
    });
  }

  /** Wakes the requests that wait for it. */
  changed(invocationId: string): void {
    for (const waiter of this.#waiting.get(invocationId) ?? []) {
      waiter.isChanged = true;
      waiter.signal.notify();
    }
  }

  /** The invocation when it has ended, or no longer waits for an approval; or as it is after `ms`. */
  async waitFor(
    tenantId: string,
    invocationId: string,
    {
      ms,
      signal,
      until = 'ended',
    }: { readonly ms: number; readonly signal?: AbortSignal; readonly until?: 'decided' | 'ended' },
  ): Promise<InvocationRecord> {
    const { store, clock } = this.#options.engine();
    const deadline = clock.now() + ms;
    const waiter: Waiter = { isChanged: false, signal: new Signal() };
    const waiters = this.#waiting.get(invocationId) ?? new Set();
    this.#waiting.set(invocationId, waiters.add(waiter));
    try {
      for (;;) {
        waiter.isChanged = false;
        const invocation = await readInvocation(store.tenant(tenantId), invocationId);
        const left = deadline - clock.now();
        const isReached =
          until === 'ended' ? invocation.endedAt !== null : invocation.status !== 'waiting';
        if (isReached || left <= 0 || signal?.aborted === true) return invocation;
        if (waiter.isChanged) continue;
        await waiter.signal.waitFor({ clock, ms: Math.min(left, pollMs), signal });
      }
    } finally {
      waiters.delete(waiter);
      if (waiters.size === 0) this.#waiting.delete(invocationId);
    }
  }

  async #attendDue(signal: AbortSignal): Promise<void> {
    const { store, clock, log } = this.#options.engine();
    const handlers = await store.sessions.dueHandlers(clock.now(), maxQueued);
    this.#queue.clear();
    for (const ref of handlers) this.#queue.add(ref.tenantId, ref.invocationId, ref);
    this.#startQueued();
    // Each once per round: one that stays due must not keep the others waiting.
    const found = new Set<string>();
    for (;;) {
      const due = await store.sessions.dueInvocations(clock.now(), batchSize + found.size);
      const left = due.filter(({ invocationId }) => !found.has(invocationId));
      for (const { tenantId, invocationId } of left) {
        if (signal.aborted) return;
        found.add(invocationId);
        try {
          await this.attend(tenantId, invocationId);
        } catch (error) {
          log.warn('Failed to attend to an invocation', { invocationId, error: String(error) });
        }
      }
      if (left.length === 0) return;
    }
  }

  /** Nothing happens before its `dueAt`, and while the tenant is paused. A handler waits for its turn. */
  async attend(tenantId: string, invocationId: string): Promise<void> {
    const engine = this.#options.engine();
    const store = engine.store.tenant(tenantId);
    const invocation = await this.#readDue({ tenantId, invocationId });
    if (invocation === undefined) return;
    if (invocation.status === 'waiting') return attendWaiting(engine, tenantId, invocation);
    if (invocation.status !== 'running') return;
    if (invocation.sessionId === null) return this.#enqueue({ tenantId, invocationId });
    const result = await this.#overdue(store, invocation);
    await endInvocation(engine, tenantId, invocationId, result);
  }

  async #readDue({ tenantId, invocationId }: InvocationRef): Promise<InvocationRecord | undefined> {
    if (this.isPaused(tenantId)) return undefined;
    const { store, clock } = this.#options.engine();
    const invocation = await store.tenant(tenantId).actions.readInvocation(invocationId);
    return (invocation?.dueAt ?? Infinity) > clock.now() ? undefined : invocation;
  }

  #enqueue(ref: InvocationRef): void {
    this.#queue.add(ref.tenantId, ref.invocationId, ref);
    this.#startQueued();
  }

  #startQueued(): void {
    while (!this.#isStopped) {
      const ref = this.#queue.take((tenantId) => this.#places.hasRoomFor(tenantId));
      if (ref === undefined) return;
      const { tenantId, invocationId } = ref;
      if (!this.#places.take(tenantId, invocationId)) continue;
      this.#track(tenantId, invocationId, this.#startHandler(ref));
    }
  }

  /** Runs in a place, which is free again when it is over. */
  #track(tenantId: string, invocationId: string, work: Promise<void>): void {
    const { log } = this.#options.engine();
    const running = work
      .catch((error: unknown) => {
        // The store has what is known of it: it is found when it is due.
        log.warn('An invocation was not carried out, or its result not stored', {
          invocationId,
          error: String(error),
        });
      })
      .finally(() => {
        this.#running.delete(invocationId);
        this.#handled.delete(invocationId);
        this.release(tenantId, invocationId);
      });
    this.#running.set(invocationId, running);
  }

  /** Of an invocation that is due: the handler was not started, or its node is gone. */
  async #startHandler(ref: InvocationRef): Promise<void> {
    const { tenantId, invocationId } = ref;
    const engine = this.#options.engine();
    const store = engine.store.tenant(tenantId);
    const invocation = await this.#readDue(ref);
    if (invocation === undefined || invocation.status !== 'running') return;
    const end = (result: InvocationResult) =>
      endInvocation(engine, tenantId, invocationId, result).then(() => undefined);
    const action = await actionOf(this.own, store, invocation);
    const { startedAt, idempotent, at } = invocation;
    const isFirst = startedAt === null;
    if (isFirst && action === undefined) {
      return end({ code: 'action_gone', error: 'The action was removed before it was started' });
    }
    const mayRestart = idempotent && action !== undefined && engine.clock.now() < at + restartMs;
    if (!isFirst && !mayRestart) {
      return end({
        code: 'outcome_unknown',
        error: 'The server stopped while the action ran; it may have taken effect',
      });
    }
    if (action === undefined) return;
    const taken = await this.#take(store, invocation);
    if (taken !== undefined) await this.#run(tenantId, taken, action);
  }

  async #overdue(store: TenantStore, invocation: InvocationRecord): Promise<InvocationResult> {
    const { sessionId, startedAt } = invocation;
    const session = await store.sessions.read(sessionId ?? '');
    if (session !== undefined && session.releasedAt === null) {
      return { code: 'action_timed_out', error: 'The session did not answer in time' };
    }
    return startedAt === null
      ? { code: 'action_gone', error: 'The session of the action has ended' }
      : {
          code: 'outcome_unknown',
          error: 'The session ended while the action ran; it may have taken effect',
        };
  }

  /** Undefined if another node has taken it. */
  async #take(
    store: TenantStore,
    invocation: InvocationRecord,
  ): Promise<InvocationRecord | undefined> {
    const { clock, settings } = this.#options.engine();
    const { id, dueAt } = invocation;
    const at = clock.now();
    const taken = { startedAt: at, dueAt: at + settings.leaseTtlMs };
    const outcome = await store.sessions.change({
      changes: [],
      invocationChanges: [{ id, from: ['running'], to: 'running', at, ifDueAt: dueAt, ...taken }],
    });
    return outcome.kind === 'committed' ? { ...invocation, ...taken } : undefined;
  }

  async #run(tenantId: string, invocation: InvocationRecord, action: Action): Promise<void> {
    const engine = this.#options.engine();
    const { id, timeoutMs } = invocation;
    this.#handled.set(id, invocation);
    const ending = new AbortController();
    const extending = this.#extend(tenantId, invocation, ending);
    const timeout = engine.clock.sleep(timeoutMs, ending.signal).then((): InvocationResult => {
      return { code: 'action_timed_out', error: `The action took longer than ${timeoutMs} ms` };
    });
    const result = await Promise.race([
      this.#call(tenantId, invocation, { action, signal: ending.signal }),
      timeout,
    ]);
    ending.abort();
    await extending;
    await endInvocation(engine, tenantId, id, result);
  }

  async #call(
    tenantId: string,
    invocation: InvocationRecord,
    { action, signal }: { readonly action: Action; readonly signal: AbortSignal },
  ): Promise<InvocationResult> {
    const { id: invocationId, by } = invocation;
    const input = inputOf(invocation);
    const { handler, url } = action;
    try {
      if (url !== null) {
        const request = { tenantId, action: { ...action, url }, invocation, input, signal };
        return { output: await this.#options.call(request) };
      }
      if (handler === undefined) throw new RelayError('internal', 'The action has no handler');
      const context = { invocationId, tenantId, by, idempotencyKey: invocationId, signal };
      return { output: await handler(structuredClone(input) as Record<string, unknown>, context) };
    } catch (error) {
      const retryable = error instanceof ActionFailed && error.retryable;
      return { error: errorText(error), retryable };
    }
  }

  /** While its handler runs, no other node may think that this one is gone. */
  async #extend(
    tenantId: string,
    { id }: InvocationRecord,
    ending: AbortController,
  ): Promise<void> {
    const { clock, settings, store } = this.#options.engine();
    const { signal } = ending;
    for (;;) {
      await clock.sleep(settings.leaseTtlMs / 3, signal);
      if (signal.aborted) return;
      const at = clock.now();
      const dueAt = at + settings.leaseTtlMs;
      const change = { id, from: ['running'], to: 'running', at, dueAt } as const;
      // After a failure of the store, the next one counts.
      const outcome = await store
        .tenant(tenantId)
        .sessions.change({ changes: [], invocationChanges: [change] })
        .catch(() => undefined);
      if (outcome?.kind === 'conflict') return ending.abort();
    }
  }
}
