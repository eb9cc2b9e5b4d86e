import type { AuditRecord, AuditTrail } from '@relay/core';
import { genesis, type AuditSigner } from './signer.ts';

export interface Verdict {
  readonly ok: boolean;
  /** How many entries, from the first on, are what they were. */
  readonly entries: number;
  readonly head: Place;
  readonly firstBad?: Fault;
}

export interface Place {
  readonly seq: number;
  readonly hash: string;
}

interface Fault {
  readonly seq: number;
  readonly problem: string;
}

export interface Examined {
  readonly tenantId: string;
  readonly trail: AuditTrail;
  readonly notary: AuditSigner;
}

/** Little enough to be looked at between two requests of others. */
const pageSize = 200;
/** Before every place, also before those that there cannot be. */
const nowhere = Number.MIN_SAFE_INTEGER;

/**
 * Walks the whole trail, seal by seal, and stops at the first place that is not what it was. `known`
 * are heads that were put aside: without one nobody can tell a trail that was cut off from a short one.
 */
export async function verifyTrail(
  examined: Examined,
  known: readonly Place[] = [],
): Promise<Verdict> {
  const walk = new Walk(examined, known);
  const fault = (await walk.walk()) ?? (await walk.foreign()) ?? walk.cutOff();
  const { head } = walk;
  if (fault === undefined) return { ok: true, entries: head.seq, head };
  return { ok: false, entries: Math.min(head.seq, fault.seq - 1), head, firstBad: fault };
}

class Walk {
  readonly #examined: Examined;
  readonly #known: readonly Place[];
  #head: Place;
  /** Entries that were read, and not looked at yet: a page at most, however small the batches are. */
  #ahead: readonly AuditRecord[] = [];
  #next = 0;

  constructor(examined: Examined, known: readonly Place[]) {
    this.#examined = examined;
    this.#known = known;
    this.#head = { seq: 0, hash: genesis(examined.tenantId) };
  }

  get head(): Place {
    return this.#head;
  }

  /** An entry and its seal are stored together: where one is seen, the other is there by now. */
  async walk(): Promise<Fault | undefined> {
    const { tenantId, trail, notary } = this.#examined;
    for (;;) {
      const beyond = await this.#entry();
      const seals = await trail.seals({ after: this.#after, limit: pageSize });
      if (seals.length === 0) {
        return beyond === undefined ? undefined : this.#bad('The entry is not part of any batch');
      }
      for (const seal of seals) {
        if (seal.firstSeq !== this.#head.seq + 1)
          return this.#bad('The seal of its batch is missing');
        const fault = await this.#walkTo(seal.lastSeq);
        if (fault !== undefined) return fault;
        if (seal.hash !== this.#head.hash || !notary.isSealed(tenantId, seal)) {
          return { seq: seal.firstSeq, problem: 'The seal of its batch was changed' };
        }
      }
    }
  }

  async #walkTo(lastSeq: number): Promise<Fault | undefined> {
    const { tenantId, notary } = this.#examined;
    while (this.#head.seq < lastSeq) {
      const entry = await this.#entry();
      if (entry === undefined) return this.#bad('The entry is missing');
      const problem = notary.faultOf(tenantId, entry, this.#head);
      if (problem !== undefined) return this.#bad(problem);
      if (this.#known.some(({ seq, hash }) => seq === entry.seq && hash !== entry.hash)) {
        return this.#bad('The entry is another one than when the head was put aside');
      }
      this.#head = { seq: entry.seq, hash: entry.hash };
      this.#next += 1;
    }
    return undefined;
  }

  /** The one after the head, as it lies there. */
  async #entry(): Promise<AuditRecord | undefined> {
    const here = this.#ahead[this.#next];
    if (here !== undefined) return here;
    this.#ahead = await this.#examined.trail.read({ after: this.#after, limit: pageSize });
    this.#next = 0;
    return this.#ahead[0];
  }

  get #after(): number {
    return this.#head.seq === 0 ? nowhere : this.#head.seq;
  }

  /** What waits for its place, and was not written by Relay. */
  async foreign(): Promise<Fault | undefined> {
    const { tenantId, trail, notary } = this.#examined;
    const waiting = await trail.unsealed(pageSize);
    return waiting.every((entry) => notary.isOwn(tenantId, entry))
      ? undefined
      : this.#bad('An entry that waits for its place was not written by Relay');
  }

  cutOff(): Fault | undefined {
    if (this.#known.every(({ seq }) => seq <= this.#head.seq)) return undefined;
    return this.#bad('The trail ends before the head that was put aside');
  }

  #bad(problem: string): Fault {
    return { seq: this.#head.seq + 1, problem };
  }
}
