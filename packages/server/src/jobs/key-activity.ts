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
/** Of one tenant. Further refusals in the same minute have no entries of their own; the log says so once. */
const maxCounted = 1_000;
/** Keys per transaction, so that other writes are not delayed. */
const portion = 200;

type Refusal = Omit<AuditEntry, 'at'>;

interface Counted {
  readonly tenantId: string;
  readonly refusal: Refusal;
  writtenAt: number;
  /** Since it was written. */
  count: number;
}

interface Refusals {
  readonly bySubject: Map<string, Counted>;
  /** Of subjects beyond the maximum, since the last flush. */
  uncounted: number;
}

export interface KeyActivityOptions extends Pick<Engine, 'clock' | 'log' | 'audit'> {
  readonly store: SystemStore;
}

export class KeyActivity {
  readonly #options: KeyActivityOptions;
  readonly #loop: BackgroundLoop;
  readonly #uses = new Map<string, KeyUse>();
  readonly #refusals = new Map<string, Refusals>();

  constructor(options: KeyActivityOptions) {
    const { clock } = options;
    this.#options = options;
    this.#loop = new BackgroundLoop({
      clock,
      intervalMs: minuteMs,
      maxBackoffMs: minuteMs,
      step: () => this.flush(),
      onError: (error) => this.#report(error),
    });
  }

  start(): void {
    this.#loop.start();
  }

  async stop(): Promise<void> {
    await this.#loop.stop();
    await this.flush(Infinity).catch((error: unknown) => this.#report(error));
  }

  #report(error: unknown): void {
    this.#options.log.warn('The use of keys was not stored', { error: String(error) });
  }

  used(tenantId: string, keyId: string): void {
    this.#uses.set(keyId, { tenantId, keyId, at: this.#options.clock.now() });
  }

  /**
   * Writes an entry, at most one a minute for each action and `subject`; the next one has the count.
   * Never rejects.
   */
  async refused(tenantId: string, subject: readonly string[], refusal: Refusal): Promise<void> {
    const { clock } = this.#options;
    const refusals = this.#refusals.get(tenantId) ?? { bySubject: new Map(), uncounted: 0 };
    this.#refusals.set(tenantId, refusals);
    const id = JSON.stringify([refusal.action, ...subject]);
    const counted = refusals.bySubject.get(id);
    if (counted !== undefined) {
      counted.count += 1;
      return;
    }
    if (refusals.bySubject.size >= maxCounted) {
      refusals.uncounted += 1;
      return;
    }
    const first = { tenantId, refusal, writtenAt: clock.now(), count: 1 };
    refusals.bySubject.set(id, first);
    await this.#write(first);
  }

  /** Stores what has happened; refusals if their last entry is a minute old at `now`. */
  async flush(now = this.#options.clock.now()): Promise<void> {
    for (const [tenantId, refusals] of this.#refusals) {
      await this.#flushRefusals(tenantId, refusals, now);
    }
    const { store } = this.#options;
    const uses = [...this.#uses.values()];
    for (let start = 0; start < uses.length; start += portion) {
      const stored = uses.slice(start, start + portion);
      await store.recordKeyUses(stored);
      // A use that failed to be stored, or came meanwhile, is for the next time.
      for (const use of stored) {
        if (this.#uses.get(use.keyId) === use) this.#uses.delete(use.keyId);
      }
    }
  }

  async #flushRefusals(tenantId: string, refusals: Refusals, now: number): Promise<void> {
    const { bySubject, uncounted } = refusals;
    if (uncounted > 0) {
      this.#options.log.warn('Refusals have no audit entries: there are too many', {
        tenantId,
        count: uncounted,
      });
      refusals.uncounted = 0;
    }
    for (const [id, counted] of bySubject) {
      if (now - counted.writtenAt < minuteMs) continue;
      if (counted.count === 0) bySubject.delete(id);
      else await this.#write(counted);
    }
    if (bySubject.size === 0) this.#refusals.delete(tenantId);
  }

  /** If it fails, the count stays for the next entry. */
  async #write(counted: Counted): Promise<void> {
    const { store, clock, log } = this.#options;
    const { tenantId, refusal, count } = counted;
    const at = clock.now();
    counted.count = 0;
    counted.writtenAt = at;
    const { who, action, what, why } = refusal;
    const entry = { at, who, action, what: { ...what, count }, why };
    try {
      await store.tenant(tenantId).audit.add(auditRecordsOf(this.#options, tenantId, [entry]));
    } catch (error) {
      counted.count += count;
      log.warn('A refusal was not stored', { tenantId, error: String(error) });
    }
  }
}
