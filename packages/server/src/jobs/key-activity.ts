/**
 * What keys are used for, written in the background: their last use, and what was refused to them. A
 * repeated refusal is counted, so that nobody fills the audit trail or slows the server by repeating it.
 */
import {
  type AuditEntry,
  auditRecordsOf,
  BackgroundLoop,
  type Engine,
  type KeyUse,
  type SystemStore,
} from '@relay/core';

const minuteMs = 60_000;
/** Further refusals in the same minute are logged, but have no entries. */
const maxCounted = 10_000;

type Refusal = Omit<AuditEntry, 'at'>;

interface Counted {
  readonly tenantId: string;
  readonly refusal: Refusal;
  writtenAt: number;
  /** Since it was written. */
  count: number;
}

export interface KeyActivityOptions extends Pick<Engine, 'clock' | 'log' | 'audit'> {
  readonly store: SystemStore;
}

export class KeyActivity {
  readonly #options: KeyActivityOptions;
  readonly #loop: BackgroundLoop;
  #uses = new Map<string, KeyUse>();
  readonly #refusals = new Map<string, Counted>();

  constructor(options: KeyActivityOptions) {
    const { clock, log } = options;
    this.#options = options;
    this.#loop = new BackgroundLoop({
      clock,
      intervalMs: minuteMs,
      maxBackoffMs: minuteMs,
      step: () => this.flush(),
      onError: (error) => log.warn('The use of keys was not stored', { error: String(error) }),
    });
  }

  start(): void {
    this.#loop.start();
  }

  async stop(): Promise<void> {
    await this.#loop.stop();
    await this.flush(Infinity);
  }

  used(tenantId: string, keyId: string): void {
    this.#uses.set(keyId, { tenantId, keyId, at: this.#options.clock.now() });
  }

  /** Writes an entry, at most one a minute for each `subject`; the next one has the count. */
  refused(tenantId: string, subject: string, refusal: Refusal): void {
    const { clock, log } = this.#options;
    const id = JSON.stringify([tenantId, refusal.action, subject]);
    const counted = this.#refusals.get(id);
    if (counted !== undefined) {
      counted.count += 1;
      return;
    }
    if (this.#refusals.size >= maxCounted) {
      log.warn('A refusal has no audit entry: there are too many', { tenantId });
      return;
    }
    const first = { tenantId, refusal, writtenAt: clock.now(), count: 1 };
    this.#refusals.set(id, first);
    void this.#write(first).catch((error: unknown) => {
      log.warn('A refusal was not stored', { tenantId, error: String(error) });
    });
  }

  /** Stores what has happened; refusals if their last entry is a minute old at `now`. */
  async flush(now = this.#options.clock.now()): Promise<void> {
    const uses = this.#uses;
    this.#uses = new Map();
    if (uses.size > 0) await this.#options.store.recordKeyUses([...uses.values()]);
    for (const [id, counted] of this.#refusals) {
      if (now - counted.writtenAt < minuteMs) continue;
      if (counted.count === 0) this.#refusals.delete(id);
      else await this.#write(counted);
    }
  }

  async #write(counted: Counted): Promise<void> {
    const { store, clock } = this.#options;
    const { tenantId, refusal, count } = counted;
    const at = clock.now();
    counted.count = 0;
    counted.writtenAt = at;
    const entry = { at, ...refusal, what: { ...refusal.what, count } };
    await store.tenant(tenantId).audit.add(auditRecordsOf(this.#options, tenantId, [entry]));
  }
}
