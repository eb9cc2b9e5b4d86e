/**
 * The audit trail as a store keeps it. An entry is written in the commit of what it tells of, without
 * a place: places, the chain and the seals are given later, in batches, by whoever is first. So no two
 * writers ever wait for each other, and the trail of a tenant is one line all the same.
 */
import type { AuditAction, Decider } from '@relay/protocol';
import type { Page } from './stored-runs.ts';

/** What is said of a deed: ids, names and digests; never contents, never secrets. */
export interface AuditEntry {
  readonly at: number;
  readonly who: Decider;
  readonly action: AuditAction;
  readonly what: Readonly<Record<string, AuditFact>>;
  readonly why: string | null;
}

export type AuditFact = string | number | boolean | null | readonly string[];

/** An entry as it is written: its exact text, what it is found by, and the proof that Relay wrote it. */
export interface NewAudit {
  readonly id: string;
  readonly at: number;
  readonly action: string;
  readonly actor: string;
  readonly runId: string | null;
  readonly text: string;
  readonly proof: string;
}

/** An entry in its place. */
export interface AuditRecord extends NewAudit {
  readonly seq: number;
  /** Of this entry and, through it, of all before it. */
  readonly hash: string;
}

/** The end of a batch: so far the trail is what it was. */
export interface AuditSeal {
  readonly firstSeq: number;
  readonly lastSeq: number;
  readonly hash: string;
  readonly at: number;
  readonly proof: string;
}

export interface AuditSealing {
  readonly seal: AuditSeal;
  readonly entries: readonly Pick<AuditRecord, 'id' | 'seq' | 'hash' | 'proof'>[];
}

/** All that is named must hold. */
export interface AuditFilter {
  readonly action?: string;
  readonly actor?: string;
  readonly runId?: string;
  /** Written at this time or later. */
  readonly since?: number;
  /** Written before this time. */
  readonly until?: number;
}

export interface AuditTrail {
  /** For what has no commit of its own to be part of. */
  add(entries: readonly NewAudit[]): Promise<void>;
  /** Entries without a place, the oldest first. */
  unsealed(limit: number): Promise<NewAudit[]>;
  /**
   * Compare-and-set: false, and nothing stored, if another seal begins at the same place or an entry
   * has got one meanwhile.
   */
  seal(sealing: AuditSealing): Promise<boolean>;
  /** The last seal. */
  head(): Promise<AuditSeal | undefined>;
  /** Entries in their places, by time, newest first. */
  list(filter: AuditFilter, page: Page): Promise<AuditRecord[]>;
  /** What follows a place, in order, as it lies there. */
  read(range: { readonly after: number; readonly limit: number }): Promise<AuditRecord[]>;
  /** Seals that begin after a place, in order, as they lie there. */
  seals(range: { readonly after: number; readonly limit: number }): Promise<AuditSeal[]>;
}
