import type { AuditRecord, AuditTrail } from '@relay/core';
import { type AuditPosition, initialHash, type AuditSigner } from './signer.ts';

export interface Verdict {
  readonly ok: boolean;
  /** How many entries, from the first on, are intact. */
  readonly entries: number;
  readonly head: AuditPosition;
  readonly firstBad?: AuditProblem;
}

export interface AuditProblem {
  readonly seq: number;
  readonly problem: string;
}

export interface VerifyOptions {
  readonly tenantId: string;
  readonly trail: AuditTrail;
  readonly signer: AuditSigner;
}

/** Small, so that other requests are served between two pages. */
const pageSize = 200;
/** Before every position, also before invalid ones. */
const beforeAll = Number.MIN_SAFE_INTEGER;

/**
 * Walks the whole trail, seal by seal, and stops at the first problem. `known` are heads that were
 * recorded elsewhere: without one, a truncated trail cannot be distinguished from a short one.
 */
export async function verifyTrail(
  options: VerifyOptions,
  known: readonly AuditPosition[] = [],
): Promise<Verdict> {
  const verifier = new TrailVerifier(options, known);
  const problem = (await verifier.walk()) ?? (await verifier.unsigned()) ?? verifier.truncated();
  const { head } = verifier;
  if (problem === undefined) return { ok: true, entries: head.seq, head };
  return { ok: false, entries: Math.min(head.seq, problem.seq - 1), head, firstBad: problem };
}

class TrailVerifier {
  readonly #options: VerifyOptions;
  readonly #known: readonly AuditPosition[];
  #head: AuditPosition;
  /** Entries that were read but not checked yet: at most one page. */
  #ahead: readonly AuditRecord[] = [];
  #next = 0;

  constructor(options: VerifyOptions, known: readonly AuditPosition[]) {
    this.#options = options;
    this.#known = known;
    this.#head = { seq: 0, hash: initialHash(options.tenantId) };
  }

  get head(): AuditPosition {
    return this.#head;
  }

  /** An entry and its seal are stored in one transaction: once one is visible, so is the other. */
  async walk(): Promise<AuditProblem | undefined> {
    const { tenantId, trail, signer } = this.#options;
    for (;;) {
      const entryAfterSeal = await this.#entry();
      const seals = await trail.seals({ after: this.#after, limit: pageSize });
      if (seals.length === 0) {
        return entryAfterSeal === undefined
          ? undefined
          : this.#problem('The entry is not part of any batch');
      }
      for (const seal of seals) {
        if (seal.firstSeq !== this.#head.seq + 1)
          return this.#problem('The seal of its batch is missing');
        const problem = await this.#walkTo(seal.lastSeq);
        if (problem !== undefined) return problem;
        if (seal.hash !== this.#head.hash || !signer.isSealed(tenantId, seal)) {
          return { seq: seal.firstSeq, problem: 'The seal of its batch was changed' };
        }
      }
    }
  }

  async #walkTo(lastSeq: number): Promise<AuditProblem | undefined> {
    const { tenantId, signer } = this.#options;
    while (this.#head.seq < lastSeq) {
      const entry = await this.#entry();
      if (entry === undefined) return this.#problem('The entry is missing');
      const reason = signer.problemOf(tenantId, entry, this.#head);
      if (reason !== undefined) return this.#problem(reason);
      if (this.#known.some(({ seq, hash }) => seq === entry.seq && hash !== entry.hash)) {
        return this.#problem('The entry does not match the recorded head');
      }
      this.#head = { seq: entry.seq, hash: entry.hash };
      this.#next += 1;
    }
    return undefined;
  }

  async #entry(): Promise<AuditRecord | undefined> {
    const here = this.#ahead[this.#next];
    if (here !== undefined) return here;
    this.#ahead = await this.#options.trail.read({ after: this.#after, limit: pageSize });
    this.#next = 0;
    return this.#ahead[0];
  }

  get #after(): number {
    return this.#head.seq === 0 ? beforeAll : this.#head.seq;
  }

  async unsigned(): Promise<AuditProblem | undefined> {
    const { tenantId, trail, signer } = this.#options;
    const waiting = await trail.unsealed(pageSize);
    if (waiting.some(({ isRepeated }) => isRepeated === true)) {
      return this.#problem('A sealed entry was stored again');
    }
    return waiting.every((entry) => signer.isNew(tenantId, entry))
      ? undefined
      : this.#problem('An entry that is not sealed yet was not written by Relay');
  }

  truncated(): AuditProblem | undefined {
    if (this.#known.every(({ seq }) => seq <= this.#head.seq)) return undefined;
    return this.#problem('The trail ends before the recorded head');
  }

  #problem(problem: string): AuditProblem {
    return { seq: this.#head.seq + 1, problem };
  }
}
