/**
 * How core keeps things. Two ports: one that is bound to a tenant and sees content, and one for the
 * system, which sees keys, leases and due work, and never content.
 *
 * Both are asynchronous, and behave the same on every store (one contract suite checks it).
 * Times are milliseconds since the epoch. A promise that resolves means: stored.
 * Expected outcomes are values; a store that cannot do its work throws a `RelayError` with
 * `storage_full`, `storage_failed` or `journal_corrupt`.
 */
import type {
  Decider,
  RelayKind,
  RelayStatus,
  RunError,
  RunEvent,
  RunStatus,
  StoredEvent,
  Surface,
  Usage,
} from '@relay/protocol';
import type { Grant } from '../permission/decide.ts';

export interface RunRef {
  readonly tenantId: string;
  readonly runId: string;
}

/** What stays the same for as long as a run exists. */
export interface RunIdentity {
  readonly id: string;
  readonly tenantId: string;
  readonly conversationId: string;
  readonly correlationId: string;
  readonly surface: Surface;
  readonly agent: string;
  readonly model: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly parentRunId: string | null;
  readonly workflowId: string | null;
  readonly createdAt: number;
}

/** What changes with the journal, always in the same commit as the events that say so. */
export interface RunProgress {
  readonly status: RunStatus;
  readonly startedAt: number | null;
  readonly endedAt: number | null;
  readonly usage: Usage;
  readonly error: RunError | null;
  /** The checkpoint envelope of `runs.serialized_state`, as JSON. */
  readonly checkpoint: string | null;
  /** `runs.output_json`: the answer, the approvals, and the one that is pending. */
  readonly outputJson: string | null;
  /** The fold of the journal up to `snapshotSeq`, as JSON: recovery reads only what follows. */
  readonly snapshot: string | null;
  readonly snapshotSeq: number;
  /** When a waiting run must be looked at without being told, such as when a relay expires. */
  readonly wakeAt: number | null;
}

export interface RunRecord extends RunIdentity, RunProgress {
  readonly lastSeq: number;
  readonly epoch: number;
}

/** What can be read of a run without trusting its checkpoint and snapshot. */
export interface RunHead extends RunIdentity {
  readonly status: RunStatus;
  readonly usage: Usage;
  readonly outputJson: string | null;
  readonly lastSeq: number;
}

export interface Lease {
  readonly owner: string;
  readonly until: number;
}

export interface RunCreation {
  readonly identity: RunIdentity;
  /** `null`: the run stays queued until a node claims it. With a lease, it has epoch 1. */
  readonly lease: Lease | null;
  readonly events: readonly RunEvent[];
  readonly progress?: Partial<RunProgress>;
  /** The open connection of a chat, without which the run is canceled. */
  readonly connection?: { readonly id: string; readonly node: string };
}

export interface RelayRecord {
  readonly id: string;
  readonly runId: string;
  readonly kind: RelayKind;
  readonly agentId: string;
  readonly agentPath: readonly string[];
  readonly toolCallId: string;
  readonly tool: string;
  readonly params: unknown;
  readonly digest: string;
  readonly raisedAt: number;
  readonly expiresAt: number;
  readonly status: RelayStatus;
  readonly decidedAt: number | null;
  readonly decidedBy: Decider | null;
  readonly reason: string | null;
  /** What exactly was answered, so that a repetition can be told from a contradiction. */
  readonly answer: string | null;
}

export type NewRelay = Omit<
  RelayRecord,
  'status' | 'decidedAt' | 'decidedBy' | 'reason' | 'answer'
>;

/** A relay that ends without anyone's answer. */
export interface RelayClosure {
  readonly relayId: string;
  readonly status: 'expired' | 'closed';
  readonly at: number;
  readonly by: Decider;
  readonly reason: string;
}

/** Something told to a run from outside; its lease holder takes it into the journal. */
export type Letter =
  | {
      readonly kind: 'decision';
      readonly relayId: string;
      readonly approved: boolean;
      readonly always: boolean;
      readonly reason: string | null;
      /** For a relay of kind `outcome`: it happened, and this is its result. */
      readonly output?: unknown;
      readonly by: Decider;
    }
  | { readonly kind: 'cancel'; readonly reason: string; readonly by: Decider };

export interface Mail {
  readonly id: string;
  readonly letter: Letter;
}

export interface NewGrant extends Grant {
  readonly scope: 'run' | 'conversation';
  readonly scopeId: string;
  readonly createdAt: number;
  readonly createdBy: Decider;
}

export interface RelayDecision {
  readonly relayId: string;
  readonly runId: string;
  readonly status: 'approved' | 'denied';
  readonly at: number;
  readonly by: Decider;
  readonly reason: string | null;
  readonly answer: string;
  readonly mail: Mail;
  readonly grant?: NewGrant;
}

/** One atomic step of a run: events, the state they imply and the lease check (E1, E3, E7). */
export interface Append {
  readonly runId: string;
  readonly epoch: number;
  /** The `seq` that this append follows: the journal must end exactly there. */
  readonly afterSeq: number;
  readonly at: number;
  readonly events: readonly RunEvent[];
  readonly progress?: Partial<RunProgress>;
  readonly raise?: readonly NewRelay[];
  readonly close?: readonly RelayClosure[];
  /** Mail that these events answer: it is removed in the same commit. */
  readonly take?: readonly string[];
  /** Gives the lease back in the same commit. */
  readonly release?: boolean;
}

export interface TenantStore {
  readonly tenantId: string;

  createRun(creation: RunCreation): Promise<void>;
  /** Throws `journal_corrupt` if the checkpoint or the snapshot is damaged. */
  readRun(runId: string): Promise<RunRecord | undefined>;
  /** For ending a run whose checkpoint or snapshot is damaged. */
  readRunHead(runId: string): Promise<RunHead | undefined>;
  /** `fenced`: another node holds the run or has written since; nothing was stored. */
  append(append: Append): Promise<'committed' | 'fenced'>;
  /** What follows `after`, oldest first, at most `limit` events. Gaps and damage throw. */
  readEvents(runId: string, range: EventRange): Promise<StoredEvent[]>;

  readRelay(relayId: string): Promise<RelayRecord | undefined>;
  /** Compare-and-set: true if this decision is the one that counts. With it, its mail is stored. */
  decideRelay(decision: RelayDecision): Promise<boolean>;
  /** Grants of this run and of its conversation. */
  readGrants(scope: { runId: string; conversationId: string }): Promise<Grant[]>;

  /** Stores mail for a run that is not over; false if it is (or was never there). */
  postMail(runId: string, mail: Mail): Promise<boolean>;
  readMail(runId: string): Promise<Mail[]>;

  /** How many runs of the conversation have ended so far; 0 for one that is new. */
  countEndedRuns(conversationId: string): Promise<number>;
  /** The runs that ended in the conversation at positions after..upTo, in that order. */
  endedRuns(
    conversationId: string,
    positions: { after: number; upTo: number },
  ): Promise<EndedRun[]>;

  /** The run behind an open chat connection. */
  findConnection(connectionId: string): Promise<{ runId: string } | undefined>;
  closeConnection(connectionId: string): Promise<void>;
}

export interface EventRange {
  readonly after: number;
  readonly limit: number;
}

export interface EndedRun {
  readonly runId: string;
  readonly position: number;
}

export interface KeyRecord {
  readonly id: string;
  readonly tenantId: string;
  readonly name: string;
  readonly scopes: readonly string[];
  readonly createdAt: number;
  readonly expiresAt: number | null;
  readonly revokedAt: number | null;
}

export interface SystemStore {
  tenant(tenantId: string): TenantStore;

  /** Makes the tenant if it is not there yet. */
  ensureTenant(tenant: { id: string; name: string; at: number }): Promise<{ id: string }>;
  findTenant(name: string): Promise<{ id: string; name: string } | undefined>;
  addKey(key: KeyRecord, hash: string): Promise<void>;
  findKey(hash: string): Promise<KeyRecord | undefined>;

  /** Takes the lease if it is free or has run out at `now`; the epoch rises with every claim. */
  claimRun(runId: string, claim: Claim): Promise<{ epoch: number } | undefined>;
  /** Prolongs what this owner still holds, and says what that is. */
  renewLeases(
    owner: string,
    renewal: { runIds: readonly string[]; until: number },
  ): Promise<string[]>;
  /** Gives back a lease without writing anything else. */
  releaseRun(runId: string, epoch: number): Promise<void>;
  /**
   * Runs that nobody holds and that have something to do: left behind or queued, due, or told; at
   * most `limit` for each of these reasons, the oldest first.
   */
  dueRuns(now: number, limit: number): Promise<RunRef[]>;
  /** For a store that one server owns alone: what an earlier process held is free at once. */
  reclaimEverything(): Promise<void>;
  /** Chat connections of nodes other than `node`, or of none: their peers are gone. */
  orphanedConnections(node: string): Promise<{ tenantId: string; id: string; runId: string }[]>;

  /** Resolves if the store can be written to. */
  ping(): Promise<void>;
  close(): Promise<void>;
}

export interface Claim {
  readonly owner: string;
  readonly now: number;
  readonly until: number;
}
