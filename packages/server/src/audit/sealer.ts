/**
 * Gives entries of the audit trail their places. Every node does; a place is taken by
 * compare-and-set, so that whoever comes second finds the work done. See
 * `docs/decisions/2026-11-15-audit-chain.md`.
 */
import type { AuditRecord, Clock, Log, NewAudit, SystemStore } from '@relay/core';
import { genesis, type AuditSigner } from './signer.ts';
import { type Place, verifyTrail, type Verdict } from './verify.ts';

const everyMs = 1_000;
const batchSize = 200;
/** How many entries that Relay did not write are looked past at most. */
const mostForeign = 12_800;
const mostRemembered = 10_000;
const tenantsAtOnce = 100;
/** Others are at it: they come on as fast. */
const attempts = 20;

export interface KeeperOptions {
  readonly store: SystemStore;
  readonly notary: AuditSigner;
  readonly clock: Clock;
  readonly log: Log;
}

export interface AuditHead {
  readonly seq: number;
  readonly hash: string;
  readonly sealedAt?: number;
}

export class AuditSealer {
  readonly #options: KeeperOptions;
  readonly #stopped = new AbortController();
  /** How far this process has sealed: the trail of a tenant never ends before that. */
  readonly #sealed = new Map<string, Place>();
  readonly #warned = new Set<string>();
  #work: Promise<void> = Promise.resolve();

  constructor(options: KeeperOptions) {
    this.#options = options;
  }

  start(): void {
    this.#work = this.#keep();
  }

  async stop(): Promise<void> {
    this.#stopped.abort();
    await this.#work;
  }

  /** Gives all that a tenant has a place. */
  async seal(tenantId: string): Promise<void> {
    for (let lost = 0; lost < attempts;) {
      const sealed = await this.#sealBatch(tenantId);
      if (sealed === 'nothing') return;
      if (sealed === 'lost') lost += 1;
    }
  }

  async head(tenantId: string): Promise<AuditHead> {
    const seal = await this.#trail(tenantId).head();
    if (seal === undefined) return { seq: 0, hash: genesis(tenantId) };
    return { seq: seal.lastSeq, hash: seal.hash, sealedAt: seal.at };
  }

  /** Against a head that was put aside elsewhere, and what this process remembers itself. */
  verify(tenantId: string, known?: Place): Promise<Verdict> {
    const { notary } = this.#options;
    const heads = [known, this.#sealed.get(tenantId)].filter((head) => head !== undefined);
    return verifyTrail({ tenantId, notary, trail: this.#trail(tenantId) }, heads);
  }

  async #sealBatch(tenantId: string): Promise<'sealed' | 'lost' | 'nothing'> {
    const { notary, clock } = this.#options;
    const trail = this.#trail(tenantId);
    const waiting = await this.#waiting(tenantId);
    if (waiting.length === 0) return 'nothing';
    const head = await this.head(tenantId);
    const entries: AuditRecord[] = [];
    for (const entry of waiting) {
      entries.push(notary.place(tenantId, entry, entries.at(-1) ?? head));
    }
    const last = entries.at(-1) ?? head;
    const place = { firstSeq: head.seq + 1, lastSeq: last.seq, hash: last.hash };
    const seal = notary.seal(tenantId, { ...place, at: clock.now() });
    if (!(await trail.seal({ seal, entries }))) return 'lost';
    this.#remember(tenantId, { seq: last.seq, hash: last.hash });
    return 'sealed';
  }

  #remember(tenantId: string, head: Place): void {
    this.#sealed.delete(tenantId);
    this.#sealed.set(tenantId, head);
    const [oldest] = this.#sealed.keys();
    if (this.#sealed.size > mostRemembered && oldest !== undefined) this.#sealed.delete(oldest);
  }

  /** What somebody else wrote in front of them keeps no entries from their places. */
  async #waiting(tenantId: string): Promise<NewAudit[]> {
    const trail = this.#trail(tenantId);
    for (let limit = batchSize; ; limit *= 4) {
      const found = await trail.unsealed(limit);
      const own = this.#own(tenantId, found);
      if (own.length > 0 || found.length < limit || limit >= mostForeign) {
        return own.slice(0, batchSize);
      }
    }
  }

  /** What somebody else wrote never becomes part of the trail; `verify` tells of it. */
  #own(tenantId: string, entries: readonly NewAudit[]): NewAudit[] {
    const { notary, log } = this.#options;
    const own = entries.filter((entry) => notary.isOwn(tenantId, entry));
    if (own.length < entries.length && !this.#warned.has(tenantId)) {
      this.#warned.add(tenantId);
      log.error('The audit trail holds entries that Relay did not write', { tenantId });
    }
    return own;
  }

  #trail(tenantId: string) {
    return this.#options.store.tenant(tenantId).audit;
  }

  async #keep(): Promise<void> {
    const { store, clock, log } = this.#options;
    while (!this.#stopped.signal.aborted) {
      try {
        for (const tenantId of await store.tenantsToSeal(tenantsAtOnce)) await this.seal(tenantId);
      } catch (error) {
        // Nothing is lost: the entries are stored, and get their places next time.
        log.warn('The audit trail could not be sealed', { error: String(error) });
      }
      await clock.sleep(everyMs, this.#stopped.signal);
    }
  }
}
