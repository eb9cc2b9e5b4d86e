/**
 * The messages of a hosted session: handed over one at a time and in order, an attempt is stored before each.
 * What the harness throws, and what takes too long, becomes a failed receipt. A message that would start a turn
 * is deferred while the session has no budget.
 */
import {
  type Engine,
  exhaustedBudget,
  exponentialBackoff,
  findKeyInForce,
  type Harness,
  type HarnessContext,
  type HarnessMessage,
  type HarnessSession,
  type InboxEntry,
  isRedelivered,
  type Receipt,
  recordAttempts,
  recordDeferral,
  recordReceipt,
  sendableKinds,
  type SessionRecord,
  type SessionRef,
} from '@relay/core';
import {
  defined,
  effectiveScopes,
  fieldIssues,
  issueMessage,
  receiptBodySchema,
  RelayError,
} from '@relay/protocol';
import type { EventPump } from './event-pump.ts';
import { messageOf, within } from './harness-call.ts';

const maxBackoffMs = 60_000;
/** How often a session without budget looks whether there is some. */
const budgetCheckMs = 2_000;
/** Deferred at once, for want of budget. */
const maxDeferred = 100;
const maxDeferredBytes = 1024 * 1024;

/** How often messages look whether their tenant is still paused. */
const pauseCheckMs = 1_000;

export interface HostedInboxOptions {
  readonly engine: Engine;
  readonly ref: SessionRef;
  readonly streamId: string;
  readonly harness: Harness;
  readonly session: HarnessSession;
  readonly context: HarnessContext;
  readonly events: EventPump;
  readonly timeoutMs: number;
  /** Aborted when the node stops. */
  readonly stopping: AbortSignal;
  /** A message was handed over, or not. */
  readonly onHanded: () => void;
}

export class HostedInbox {
  readonly #options: HostedInboxOptions;
  /** The message that is with the harness now. */
  #handing: Promise<void> | undefined;
  /** When the next message that is deferred becomes available. */
  availableAt = Infinity;

  constructor(options: HostedInboxOptions) {
    this.#options = options;
  }

  /** Resolves when the harness has no message. */
  get finished(): Promise<void> {
    return this.#handing ?? Promise.resolve();
  }

  /** Hands over the next message, unless the harness has one. */
  async handNext(session: SessionRecord): Promise<void> {
    if (this.#handing !== undefined || this.#isPaused(session)) return;
    const entry = await this.#next(session);
    if (entry === undefined) return;
    this.#handing = this.#hand(session, entry).finally(() => {
      this.#handing = undefined;
      this.#options.onHanded();
    });
  }

  /** The tenant is: no turn starts, and messages wait. */
  #isPaused({ queue }: SessionRecord): boolean {
    const { engine, ref } = this.#options;
    if (engine.invocations?.isPaused(ref.tenantId) !== true) return false;
    this.availableAt = queue.length === 0 ? Infinity : engine.clock.now() + pauseCheckMs;
    return true;
  }

  async #next(session: SessionRecord): Promise<InboxEntry | undefined> {
    const { id, state, queue } = session;
    const { engine, ref, streamId } = this.#options;
    const { messages } = engine.store.tenant(ref.tenantId);
    const now = engine.clock.now();
    const query = { streamId, kinds: sendableKinds(state), now, limit: 1, maxBytes: 1 };
    this.availableAt = Infinity;
    const [next] = query.kinds.length === 0 ? [] : await messages.sendable(id, query);
    if (next === undefined && queue.length > 0) {
      this.availableAt = (await messages.nextAvailable(id, now)) ?? Infinity;
    }
    if (next === undefined || !isMetered(session)) return next;
    const exhausted = await exhaustedBudget(engine, session);
    if (exhausted === undefined) return next;
    this.availableAt = now + budgetCheckMs;
    const kinds = query.kinds.filter(({ status }) => status === 'accepted');
    const more = { ...query, kinds, limit: maxDeferred, maxBytes: maxDeferredBytes };
    const others = kinds.length === 0 ? [] : await messages.sendable(id, more);
    const waiting = [next, ...others.filter((other) => other.id !== next.id)];
    await recordDeferral(engine, session, streamId, waiting, exhausted);
    return undefined;
  }

  /** Never rejects. */
  async #hand(session: SessionRecord, entry: InboxEntry): Promise<void> {
    const { engine, streamId, events, stopping } = this.#options;
    try {
      if (!(await recordAttempts(engine, session, streamId, [entry]))) return;
      const receipt = await this.#receiptOf(entry);
      await events.flushed();
      if (receipt !== undefined) await this.#settleSurely(entry.id, receipt);
    } catch (error) {
      this.#log('Failed to hand over a message', error);
      await engine.clock.sleep(1_000, stopping);
    }
  }

  /**
   * Undefined if the harness holds the message, or failed because this node stops: then the message is handed
   * over again.
   */
  async #receiptOf(entry: InboxEntry): Promise<StoredReceipt | undefined> {
    const { engine, session, context, timeoutMs } = this.#options;
    try {
      const isFromApprover = await this.#isFromApprover(entry);
      const message = { ...messageFor(entry), isFromApprover };
      const receive = () => session.receiveMessage(message, context);
      const receipt = await within(engine.clock, timeoutMs, receive);
      return receipt?.status === 'held' ? undefined : readReceipt(receipt);
    } catch (error) {
      if (context.signal.aborted) return undefined;
      const reason = `The harness failed: ${messageOf(error)}`;
      return { status: 'failed', reason, retryable: true };
    }
  }

  /** The key may have been revoked since. */
  async #isFromApprover({ message: { from } }: InboxEntry): Promise<boolean> {
    const { engine, ref } = this.#options;
    if (from.type !== 'key') return false;
    const store = engine.store.tenant(ref.tenantId);
    const key = await findKeyInForce(store, from.id, engine.clock.now());
    const scopes = effectiveScopes(key?.scopes ?? []);
    return scopes.has('runs') && scopes.has('approve');
  }

  /** Repeated until it is stored: without it the message would be handed over again. */
  async #settleSurely(deliveryId: string, receipt: StoredReceipt): Promise<void> {
    const { engine, stopping } = this.#options;
    for (let failures = 1; ; failures += 1) {
      try {
        return await store(this.#options, deliveryId, receipt);
      } catch (error) {
        // The harness has given another receipt by itself, or the session has ended.
        if (error instanceof RelayError && !error.retryable) return;
        this.#log('Failed to store a receipt', error);
        if (stopping.aborted) return;
        await engine.clock.sleep(exponentialBackoff(failures, maxBackoffMs), stopping);
      }
    }
  }

  #log(message: string, error: unknown): void {
    const { engine, ref } = this.#options;
    engine.log.warn(message, { ...ref, error: String(error) });
  }
}

/** A message starts a turn, whose usage the session reports. What it is given during a turn is part of that. */
function isMetered({ state, capabilities }: SessionRecord): boolean {
  return state.turn === 'none' && capabilities.events.emits.includes('usage.updated');
}

type Receiver = Pick<HostedInboxOptions, 'engine' | 'ref' | 'harness'>;

/** A receipt that comes later. Throws `invalid_request`, and as `recordReceipt` does. */
export async function settle(
  receiver: Receiver,
  deliveryId: string,
  receipt: Receipt,
): Promise<void> {
  await store(receiver, deliveryId, readReceipt(receipt));
}

async function store(
  { engine, ref, harness }: Receiver,
  deliveryId: string,
  receipt: StoredReceipt,
): Promise<void> {
  const isObservable = harness.observesConsumption ?? true;
  await recordReceipt(engine, ref, deliveryId, { ...receipt, isObservable });
}

function messageFor(entry: InboxEntry): Omit<HarnessMessage, 'isFromApprover'> {
  const { id: deliveryId, mode } = entry;
  const { id, to, text, attachments, replyTo, from } = entry.message;
  const redelivered = isRedelivered(entry);
  return { id, deliveryId, to, text, attachments, replyTo, from, mode, redelivered };
}

type StoredReceipt = Parameters<typeof recordReceipt>[3];

/** Throws `invalid_request`. */
function readReceipt(receipt: Receipt): StoredReceipt {
  const { fidelity, ...body } = { fidelity: undefined, ...receipt };
  const parsed = receiptBodySchema.safeParse(withIsoTime(body), { error: issueMessage });
  if (!parsed.success) {
    const [issue] = fieldIssues(parsed.error.issues);
    const where = issue?.path === '' ? 'receipt' : `receipt.${issue?.path}`;
    throw new RelayError('invalid_request', `${where}: ${issue?.message}`);
  }
  const { status, availableAt, reason, retryable } = parsed.data;
  const at = availableAt === undefined ? undefined : Date.parse(availableAt);
  const marks = defined({ fidelity: fidelity === 'inferred' ? fidelity : undefined });
  return { status, ...defined({ availableAt: at, reason, retryable }), ...marks };
}

function withIsoTime(receipt: Receipt): unknown {
  const isDate = receipt?.status === 'deferred' && receipt.availableAt instanceof Date;
  return isDate ? { ...receipt, availableAt: receipt.availableAt.toISOString() } : receipt;
}
