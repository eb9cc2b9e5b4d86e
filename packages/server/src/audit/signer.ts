/**
 * Makes the audit trail tamper-evident.
 *
 * - An entry is written with a proof: an HMAC with Relay's key.
 * - When it gets its position, `seq`, it gets a hash of its text, its position and the previous hash,
 *   and a proof of that hash. Changing, removing, moving or adding a row breaks the chain there, and
 *   it cannot be repaired without the key.
 * - A seal ends each batch. Truncation at the end is detected with a head that was recorded elsewhere.
 */
import {
  createHmac,
  createSecretKey,
  hash as digest,
  type KeyObject,
  timingSafeEqual,
} from 'node:crypto';
import type {
  AuditEntry,
  AuditRecord,
  AuditSeal,
  Ids,
  NewAuditEntry,
  UnsealedEntry,
} from '@relay/core';
import { uuidv7 } from 'uuidv7';

/** The hash before the first entry. */
export function initialHash(tenantId: string): string {
  return sha256(['relay audit', 1, tenantId]);
}

export interface AuditPosition {
  readonly seq: number;
  readonly hash: string;
}

export class AuditSigner {
  readonly #key: KeyObject;
  readonly #ids: Ids;

  constructor(key: Buffer, ids: Ids = { next: uuidv7 }) {
    // Created once: with raw bytes, each proof would take six times as long.
    this.#key = createSecretKey(key);
    this.#ids = ids;
  }

  write(tenantId: string, entry: AuditEntry): NewAuditEntry {
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

  /** Relay wrote this entry, it is unchanged, and not part of the trail yet. */
  isNew(tenantId: string, entry: UnsealedEntry): boolean {
    const isOwn = this.#isSigned(entry.proof, ['new', tenantId, entry.id, entry.text]);
    return isOwn && columnsMatch(entry) && entry.isRepeated !== true;
  }

  chain(tenantId: string, entry: NewAuditEntry, before: AuditPosition): AuditRecord {
    const seq = before.seq + 1;
    const hash = chainHash({ ...entry, seq }, before.hash);
    return { ...entry, seq, hash, proof: this.#sign(['placed', tenantId, entry.id, seq, hash]) };
  }

  /** The problem with an entry that follows `before`, if there is one. */
  problemOf(tenantId: string, entry: AuditRecord, before: AuditPosition): string | undefined {
    const { id, seq, hash } = entry;
    if (seq !== before.seq + 1) return 'The entry is missing';
    if (hash !== chainHash(entry, before.hash)) return 'The entry was changed';
    if (!this.#isSigned(entry.proof, ['placed', tenantId, id, seq, hash])) {
      return 'The signature of the entry does not match its position';
    }
    return columnsMatch(entry) ? undefined : 'The indexed columns of the entry were changed';
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
    const expected = Buffer.from(this.#sign(parts));
    const actual = Buffer.from(proof);
    return actual.byteLength === expected.byteLength && timingSafeEqual(actual, expected);
  }
}

/** The first part names the purpose, so that a proof for one is invalid for another. */
type Parts = readonly (string | number)[];

/** The hash of an entry that follows the one with the hash `before`. */
export function chainHash(
  { seq, id, text }: Pick<AuditRecord, 'seq' | 'id' | 'text'>,
  before: string,
): string {
  return sha256([before, seq, id, text]);
}

function signedOf(tenantId: string, seal: Omit<AuditSeal, 'proof'>): Parts {
  return ['seal', tenantId, seal.firstSeq, seal.lastSeq, seal.hash, seal.at];
}

/** As JSON, so that different lists never have the same encoding. */
function sha256(parts: Parts): string {
  return digest('sha256', JSON.stringify(parts));
}

/** The columns that entries are found by repeat parts of the signed text. */
function columnsMatch({ text, at, action, actor, runId }: NewAuditEntry): boolean {
  const entry = JSON.parse(text) as AuditEntry;
  const { runId: named = null } = entry.what;
  return (
    entry.at === at &&
    entry.action === action &&
    entry.who.id === actor &&
    (named ?? null) === runId
  );
}
