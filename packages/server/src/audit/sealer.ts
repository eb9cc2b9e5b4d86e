/**
 * Chains new entries of the audit trail and seals them in batches. Every node does so; a position is
 * claimed by compare-and-set, so a node that comes second finds the work done. See
 * `docs/decisions/2026-11-15-audit-chain.md`.
 */
import {
  type AuditRecord,
  BackgroundLoop,
  type Engine,
  type NewAuditEntry,
  type UnsealedEntry,
} from '@relay/core';
import { checkCursor, exportLines, type HeadSigner, positionOf } from './export.ts';
import { type AuditPosition, initialHash, type AuditSigner } from './signer.ts';
import { verifyTrail, type Verdict } from './verify.ts';

const intervalMs = 1_000;
const maxBackoffMs = 10_000;
const batchSize = 200;
const maxUnsigned = 12_800;
const maxRemembered = 10_000;
const tenantsAtOnce = 100;
/** Lost races with other nodes, which seal the same entries. */
const maxLostRaces = 20;

export interface SealerOptions extends Pick<Engine, 'store' | 'clock' | 'log'> {
  readonly signer: AuditSigner;
  readonly heads: HeadSigner;
}

export interface AuditHead extends AuditPosition {
  readonly sealedAt?: number;
}

export class AuditSealer {
  readonly #options: SealerOptions;
  readonly #loop: BackgroundLoop;
  /** How far this process has sealed: the trail of a tenant never ends before that. */
  readonly #sealed = new Map<string, AuditPosition>();
  readonly #warned = new Set<string>();

  constructor(options: SealerOptions) {
    const { clock, log } = options;
    this.#options = options;
    this.#loop = new BackgroundLoop({
      clock,
      intervalMs,
      maxBackoffMs,
      step: () => this.#sealAll(),
      // Nothing is lost: the entries are stored and get sealed later.
      onError: (error) => log.warn('The audit trail could not be sealed', { error: String(error) }),
    });
  }

  start(): void {
    this.#loop.start();
  }

  stop(): Promise<void> {
    return this.#loop.stop();
  }

  async seal(tenantId: string): Promise<void> {
    for (let lost = 0; lost < maxLostRaces;) {
      const sealed = await this.#sealBatch(tenantId);
      if (sealed === 'nothing') return;
      if (sealed === 'lost') lost += 1;
    }
  }

  async head(tenantId: string): Promise<AuditHead> {
    const seal = await this.#trail(tenantId).head();
    if (seal === undefined) return { seq: 0, hash: initialHash(tenantId) };
    return { seq: seal.lastSeq, hash: seal.hash, sealedAt: seal.at };
  }

  /** Against a head that was recorded elsewhere, and the last one that this process sealed. */
  verify(tenantId: string, known?: AuditPosition): Promise<Verdict> {
    const { signer } = this.#options;
    const heads = [known, this.#sealed.get(tenantId)].filter((head) => head !== undefined);
    return verifyTrail({ tenantId, signer, trail: this.#trail(tenantId) }, heads);
  }

  /** The lines of the trail after a cursor. Throws if the trail does not contain it. */
  async export(
    tenantId: string,
    range: { readonly after?: string | undefined; readonly limit?: number | undefined },
  ): Promise<AsyncGenerator<string>> {
    const { signer, heads, clock } = this.#options;
    const { after, limit } = range;
    const options = {
      tenantId,
      trail: this.#trail(tenantId),
      signer,
      heads,
      end: await this.head(tenantId),
      after: after === undefined ? undefined : positionOf(after),
      limit,
      now: clock.now(),
    };
    await checkCursor(options);
    return exportLines(options);
  }

  get publicKey(): string {
    return this.#options.heads.publicKey;
  }

  async #sealBatch(tenantId: string): Promise<'sealed' | 'lost' | 'nothing'> {
    const { signer, clock } = this.#options;
    const trail = this.#trail(tenantId);
    const waiting = await this.#waiting(tenantId);
    if (waiting.length === 0) return 'nothing';
    const head = await this.head(tenantId);
    const entries: AuditRecord[] = [];
    for (const entry of waiting) {
      entries.push(signer.chain(tenantId, entry, entries.at(-1) ?? head));
    }
    const last = entries.at(-1) ?? head;
    const range = { firstSeq: head.seq + 1, lastSeq: last.seq, hash: last.hash };
    const seal = signer.seal(tenantId, { ...range, at: clock.now() });
    if (!(await trail.seal({ seal, entries }))) return 'lost';
    this.#remember(tenantId, { seq: last.seq, hash: last.hash });
    return 'sealed';
  }

  #remember(tenantId: string, head: AuditPosition): void {
    this.#sealed.delete(tenantId);
    this.#sealed.set(tenantId, head);
    const [oldest] = this.#sealed.keys();
    if (this.#sealed.size > maxRemembered && oldest !== undefined) this.#sealed.delete(oldest);
  }

  /** Such entries in front must not keep others from being sealed. */
  async #waiting(tenantId: string): Promise<NewAuditEntry[]> {
    const trail = this.#trail(tenantId);
    for (let limit = batchSize; ; limit *= 4) {
      const found = await trail.unsealed(limit);
      const own = this.#own(tenantId, found);
      if (own.length > 0 || found.length < limit || limit >= maxUnsigned) {
        return own.slice(0, batchSize);
      }
    }
  }

  /** Unsigned and repeated entries never become part of the trail; `verify` reports them. */
  #own(tenantId: string, entries: readonly UnsealedEntry[]): NewAuditEntry[] {
    const { signer, log } = this.#options;
    const own = entries.filter((entry) => signer.isNew(tenantId, entry));
    if (own.length < entries.length && !this.#warned.has(tenantId)) {
      this.#warned.add(tenantId);
      const message = 'The audit trail contains entries that Relay did not write, or not again';
      log.error(message, { tenantId });
    }
    return own;
  }

  #trail(tenantId: string) {
    return this.#options.store.tenant(tenantId).audit;
  }

  /** Tenants take turns, a batch each: one that fails or has a long backlog delays no other. */
  async #sealAll(): Promise<void> {
    const { store } = this.#options;
    const failures = new Map<string, unknown>();
    for (let hasSealed = true; hasSealed && !this.#loop.signal.aborted;) {
      hasSealed = false;
      for (let after: string | undefined = ''; after !== undefined;) {
        const tenants: string[] = await store.tenantsToSeal({ after, limit: tenantsAtOnce });
        for (const tenantId of tenants.filter((each) => !failures.has(each))) {
          try {
            if ((await this.#sealBatch(tenantId)) === 'sealed') hasSealed = true;
          } catch (error) {
            failures.set(tenantId, error);
          }
        }
        after = tenants.at(-1);
      }
    }
    for (const error of failures.values()) throw error;
  }
}
