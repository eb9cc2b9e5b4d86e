/**
 * Hints for user interfaces: which runs, approvals and sessions of a tenant have changed, not how. The client
 * reads the current state itself, so hints may be merged, and a lost hint only costs time.
 */
import { type MessageNotice, Signal } from '@relay/core';
import type { StoredEvent } from '@relay/protocol';

export interface FeedEvent {
  /** `all`: too much has changed; read everything. */
  readonly kind: 'run' | 'approval' | 'session' | 'message' | 'delivery' | 'all';
  readonly id?: string;
}

const maxPending = 1_000;

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

  publishMessage(tenantId: string, { messageId, deliveries }: MessageNotice): void {
    this.add(tenantId, { kind: 'message', id: messageId });
    for (const { id } of deliveries) this.add(tenantId, { kind: 'delivery', id });
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

/** The hints that one reader has not received yet: one per run or approval, however often it changed. */
export class FeedReader implements AsyncIterable<readonly FeedEvent[]> {
  readonly #signal: AbortSignal;
  readonly #pending = new Map<string, FeedEvent>();
  readonly #changed = new Signal();

  constructor(signal: AbortSignal) {
    this.#signal = signal;
    signal.addEventListener('abort', () => this.#changed.notify());
  }

  add(hint: FeedEvent): void {
    if (this.#pending.has('all')) return;
    if (this.#pending.size >= maxPending) {
      this.#pending.clear();
      this.#pending.set('all', { kind: 'all' });
    } else {
      this.#pending.set(`${hint.kind} ${hint.id}`, hint);
    }
    this.#changed.notify();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<readonly FeedEvent[], void> {
    while (!this.#signal.aborted) {
      if (this.#pending.size === 0) {
        await this.#changed.wait();
        continue;
      }
      const hints = [...this.#pending.values()];
      this.#pending.clear();
      yield hints;
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
