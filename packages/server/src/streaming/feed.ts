/**
 * Hints for user interfaces: which runs, approvals and sessions of a tenant have changed, not how. The client
 * reads the current state itself, so hints may be merged, and a lost hint only costs time.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { Signal } from '@relay/core';
import type { FeedFrame, StoredEvent } from '@relay/protocol';

export type FeedEvent = Exclude<FeedFrame, { kind: 'connected' }>;

const maxPending = 1_000;
/** Of one session; more are merged into one hint without an id. */
const maxDeliveries = 20;
/** Between two batches, so that what changes often is sent seldom. */
const pauseMs = 50;

export class Feed {
  readonly #readers = new Map<string, Set<FeedReader>>();

  /** Called after each commit. It may not throw. */
  publish(tenantId: string, runId: string, events: readonly StoredEvent[]): void {
    if (!this.#readers.has(tenantId)) return;
    for (const event of events) {
      const hint = feedEventOf(event, runId);
      if (hint !== undefined) this.add(tenantId, hint);
    }
  }

  add(tenantId: string, hint: FeedEvent): void {
    for (const reader of this.#readers.get(tenantId) ?? []) reader.add(hint);
  }

  addToAll(hint: FeedEvent): void {
    for (const tenantId of this.#readers.keys()) this.add(tenantId, hint);
  }

  read(tenantId: string, signal: AbortSignal): FeedReader {
    const readers = this.#readers.get(tenantId) ?? new Set();
    this.#readers.set(tenantId, readers);
    const reader = new FeedReader(signal);
    readers.add(reader);
    signal.addEventListener('abort', () => {
      readers.delete(reader);
      if (readers.size === 0 && this.#readers.get(tenantId) === readers) {
        this.#readers.delete(tenantId);
      }
    });
    return reader;
  }

  get size(): number {
    return [...this.#readers.values()].reduce((sum, readers) => sum + readers.size, 0);
  }
}

/**
 * The hints that one reader has not received yet: one per run, approval, session, message or delivery,
 * however often it changed. The first is sent at once, others in batches.
 */
export class FeedReader implements AsyncIterable<readonly FeedEvent[]> {
  readonly #signal: AbortSignal;
  readonly #pending = new Map<string, FeedEvent>();
  /** Pending deliveries by session, unless they are merged. */
  readonly #deliveries = new Map<string, Set<string>>();
  readonly #changed = new Signal();

  constructor(signal: AbortSignal) {
    this.#signal = signal;
    signal.addEventListener('abort', () => this.#changed.notify());
  }

  add(hint: FeedEvent): void {
    if (this.#pending.has('all')) return;
    if (hint.kind === 'all' || this.#pending.size >= maxPending) {
      this.#clear();
      this.#pending.set('all', { kind: 'all' });
    } else if (hint.kind === 'delivery') {
      this.#addDelivery(hint);
    } else {
      this.#pending.set(`${hint.kind} ${hint.id}`, hint);
    }
    this.#changed.notify();
  }

  #addDelivery({ id, sessionId }: Extract<FeedEvent, { kind: 'delivery' }>): void {
    const merged = `deliveries ${sessionId}`;
    if (this.#pending.has(merged)) return;
    const named = this.#deliveries.get(sessionId) ?? new Set();
    if (id !== undefined && (named.size < maxDeliveries || named.has(id))) {
      this.#deliveries.set(sessionId, named.add(id));
      this.#pending.set(`delivery ${id}`, { kind: 'delivery', id, sessionId });
      return;
    }
    for (const each of named) this.#pending.delete(`delivery ${each}`);
    this.#deliveries.delete(sessionId);
    this.#pending.set(merged, { kind: 'delivery', sessionId });
  }

  #clear(): void {
    this.#pending.clear();
    this.#deliveries.clear();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<readonly FeedEvent[], void> {
    const signal = this.#signal;
    while (!signal.aborted) {
      if (this.#pending.size === 0) {
        await this.#changed.wait();
        continue;
      }
      const hints = [...this.#pending.values()];
      this.#clear();
      yield hints;
      await sleep(pauseMs, undefined, { signal }).catch(() => undefined);
    }
  }
}

function feedEventOf(event: StoredEvent, runId: string): FeedEvent | undefined {
  switch (event.type) {
    case 'run.created':
    case 'run.started':
    case 'run.suspended':
    case 'run.resumed':
    case 'run.ended':
      return { kind: 'run', id: runId };
    case 'approval.requested':
    case 'approval.expiring':
    case 'approval.decided':
    case 'approval.expired':
    case 'approval.closed':
      return { kind: 'approval', id: event.approvalId };
    default:
      return undefined;
  }
}
