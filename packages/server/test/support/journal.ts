/** A journal that a test writes, and a store whose reads a test can block. */
import type { TenantStore } from '@relay/core';
import type { RunEvent, StoredEvent } from '@relay/protocol';
import { createMemoryStore } from '@relay/store';
import { uuidv7 } from 'uuidv7';

const agentId = uuidv7();
const textId = uuidv7();
const noon = Date.UTC(2026, 0, 1, 12);

export function token(text: string): RunEvent {
  return { type: 'text.appended', agentId, textId, text };
}

export const runEnded: RunEvent = {
  type: 'run.ended',
  status: 'completed',
  output: '',
  usage: { inputTokens: 0, outputTokens: 0 },
};

/** Events as they stand in a journal, without a store behind them. */
export function placed(events: readonly RunEvent[], after = 0): StoredEvent[] {
  const at = new Date(noon).toISOString();
  return events.map((event, n): StoredEvent => ({ ...event, seq: after + 1 + n, at }));
}

export class TestJournal {
  readonly store: TenantStore;
  readonly runId = uuidv7();
  #lastSeq = 0;

  private constructor(store: TenantStore) {
    this.store = store;
  }

  static async create(): Promise<TestJournal> {
    const tenantId = uuidv7();
    const journal = new TestJournal(createMemoryStore().tenant(tenantId));
    await journal.store.createRun({
      identity: {
        id: journal.runId,
        tenantId,
        conversationId: uuidv7(),
        correlationId: 'test',
        surface: 'runs',
        agent: 'assistant',
        model: 'demo',
        labels: {},
        parentRunId: null,
        workflowId: null,
        keyId: null,
        owner: 'ada',
        createdAt: noon,
      },
      lease: { owner: 'node', until: noon + 15_000 },
      events: [],
    });
    return journal;
  }

  get lastSeq(): number {
    return this.#lastSeq;
  }

  /** Stores events without publishing them. */
  async append(events: readonly RunEvent[]): Promise<StoredEvent[]> {
    const afterSeq = this.#lastSeq;
    const step = { runId: this.runId, epoch: 1, afterSeq, at: noon, events };
    if ((await this.store.append(step)) !== 'committed') throw new Error('The append was fenced');
    this.#lastSeq += events.length;
    return placed(events, afterSeq);
  }

  appendTokens(count: number): Promise<StoredEvent[]> {
    return this.append(Array.from({ length: count }, (_, n) => token(`${this.#lastSeq + n + 1}`)));
  }
}

/** Every read waits until the test releases it. */
export class HeldReads {
  readonly store: TenantStore;
  #waiting: (() => void)[] = [];
  #open = false;

  constructor(inner: TenantStore) {
    const look = () => this.#turn();
    this.store = new Proxy(inner, {
      get(target, name) {
        if (name === 'readPage') {
          return async (...args: Parameters<TenantStore['readPage']>) => {
            await look();
            return target.readPage(...args);
          };
        }
        if (name !== 'readEvents') throw new Error(`Unexpected call of ${String(name)}`);
        return async (...args: Parameters<TenantStore['readEvents']>) => {
          await look();
          return target.readEvents(...args);
        };
      },
    });
  }

  get waiting(): number {
    return this.#waiting.length;
  }

  /** Releases the oldest waiting read. */
  look(): void {
    this.#waiting.shift()?.();
  }

  open(): void {
    this.#open = true;
    for (const go of this.#waiting.splice(0)) go();
  }

  #turn(): Promise<void> {
    if (this.#open) return Promise.resolve();
    return new Promise((resolve) => {
      this.#waiting.push(resolve);
    });
  }
}

/** Resolves after pending callbacks have run. */
export function settled(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}
