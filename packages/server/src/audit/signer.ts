/**
 * What makes the audit trail one that nobody can rewrite unnoticed.
 *
 * - An entry is written with a proof: an HMAC that only Relay can make.
 * - When it gets its place, `seq`, it gets a hash of its text, its place and the hash before it, which
 *   anyone can compute, and a proof of that hash, which only Relay can make. So whoever changes,
 *   removes, moves or adds a row breaks the chain there, and cannot mend it.
 * - A seal ends each batch. That the trail was not cut off at its end is shown by a head that was put
 *   aside elsewhere.
 */
import {
  createHmac,
  createSecretKey,
  hash as digest,
  type KeyObject,
  timingSafeEqual,
} from 'node:crypto';
import type { AuditEntry, AuditRecord, AuditSeal, Ids, NewAudit } from '@relay/core';

/** The place before the first one. */
export function genesis(tenantId: string): string {
  return sha256(['relay audit', 1, tenantId]);
}

export class AuditSigner {
  readonly #key: KeyObject;
  readonly #ids: Ids;

  constructor(key: Buffer, ids: Ids) {
    // Made once: from bytes, each proof would cost six times as much.
    this.#key = createSecretKey(key);
    this.#ids = ids;
  }

  write(tenantId: string, entry: AuditEntry): NewAudit {
    const { runId } = entry.what;
    const id = this.#ids.next();
    const text = JSON.stringify(entry);
    return {
      id,
      at: entry.at,
      action: entry.action,
      actor: entry.who.id,
      runId: typeof runId === 'string' ? runId : null,
      text,
      proof: this.#sign(['new', tenantId, id, text]),
    };
  }

  /** Relay wrote it, and this is what it wrote. */
  isOwn(tenantId: string, entry: NewAudit): boolean {
    return this.#isSigned(entry.proof, ['new', tenantId, entry.id, entry.text]);
  }

  /** The entry in the place after `before`. */
  place(tenantId: string, entry: NewAudit, before: { seq: number; hash: string }): AuditRecord {
    const seq = before.seq + 1;
    const hash = hashOf(entry, seq, before.hash);
    return { ...entry, seq, hash, proof: this.#sign(['placed', tenantId, entry.id, seq, hash]) };
  }

  /** What is wrong with an entry that lies in the place after `before`. */
  faultOf(
    tenantId: string,
    entry: AuditRecord,
    before: { seq: number; hash: string },
  ): string | undefined {
    const { id, seq, hash } = entry;
    if (seq !== before.seq + 1) return 'The entry is missing';
    if (hash !== hashOf(entry, seq, before.hash))
      return 'The entry is not the one that was written';
    if (!this.#isSigned(entry.proof, ['placed', tenantId, id, seq, hash])) {
      return 'The entry was not put here by Relay';
    }
    return agrees(entry) ? undefined : 'What the entry is found by is not what it says';
  }

  seal(tenantId: string, seal: Omit<AuditSeal, 'proof'>): AuditSeal {
    return { ...seal, proof: this.#sign(signedOf(tenantId, seal)) };
  }

  isSealed(tenantId: string, seal: AuditSeal): boolean {
    return this.#isSigned(seal.proof, signedOf(tenantId, seal));
  }

  #sign(parts: Parts): string {
    return createHmac('sha256', this.#key).update(JSON.stringify(parts)).digest('hex');
  }

  #isSigned(proof: string, parts: Parts): boolean {
    const wanted = Buffer.from(this.#sign(parts));
    const given = Buffer.from(proof);
    return given.byteLength === wanted.byteLength && timingSafeEqual(given, wanted);
  }
}

type Parts = readonly (string | number)[];

function hashOf({ id, text }: NewAudit, seq: number, before: string): string {
  return sha256([before, seq, id, text]);
}

function signedOf(tenantId: string, seal: Omit<AuditSeal, 'proof'>): Parts {
  return ['seal', tenantId, seal.firstSeq, seal.lastSeq, seal.hash, seal.at];
}

/** As JSON, so that no two lists are written the same way. */
function sha256(parts: Parts): string {
  return digest('sha256', JSON.stringify(parts));
}

function agrees({ text, at, action, actor, runId }: NewAudit): boolean {
  const entry = JSON.parse(text) as AuditEntry;
  const { runId: named = null } = entry.what;
  return (
    entry.at === at &&
    entry.action === action &&
    entry.who.id === actor &&
    (named ?? null) === runId
  );
}
