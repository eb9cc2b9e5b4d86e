/** Runs as a store keeps and lists them. */
import type { NewAudit } from './stored-audit.ts';
import type { EventOf, RunError, RunEvent, RunStatus, Surface, Usage } from '@relay/protocol';

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
  /** The API key that started it; what it uses is counted there. */
  readonly keyId: string | null;
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
  /** When a waiting run must be looked at without being told, such as when an approval expires. */
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

/** What a list shows of a run. */
export interface RunListing extends RunHead {
  readonly startedAt: number | null;
  readonly endedAt: number | null;
  readonly error: RunError | null;
  /** How it began; `null` where the first row of its journal is damaged or larger than 8 KiB. */
  readonly opening: EventOf<'run.created'> | null;
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
  readonly idempotency?: IdempotencyKey;
  readonly audit?: readonly NewAudit[];
}

/** Of all creations with one key, one makes a run, until the key expires. */
export interface IdempotencyKey {
  readonly key: string;
  /** Of the request, so that a repetition can be told from another one. */
  readonly fingerprint: string;
  /** A creation at this time or later makes a new run and takes the key over. */
  readonly expiresAt: number;
}

/** `exists`: the key was taken, by this run and with that fingerprint; nothing was stored. */
export type CreationOutcome =
  | { readonly kind: 'created' }
  | { readonly kind: 'exists'; readonly runId: string; readonly fingerprint: string };

/** Where a list goes on: at what comes right after this in it. */
export interface Position {
  readonly at: number;
  readonly id: string;
}

/** A part of a list, newest first. */
export interface Page {
  readonly limit: number;
  /** Left out: from the newest on. */
  readonly before?: Position;
}

/** All that is named must hold. */
export interface RunFilter {
  /** One, or any of several. */
  readonly status?: RunStatus | readonly RunStatus[];
  readonly agent?: string;
  readonly conversationId?: string;
  readonly workflowId?: string;
  readonly parentRunId?: string;
  readonly label?: { readonly name: string; readonly value: string };
  /** Created at this time or later. */
  readonly since?: number;
  /** Created before this time. */
  readonly until?: number;
}

/** Runs of the tenant, or those that one key started. */
export interface UsageScope {
  readonly keyId?: string;
}

/** What ended runs have used. */
export interface UsageTotal {
  readonly inputTokens: number;
  readonly outputTokens: number;
  /** Of the runs whose cost is known. */
  readonly costUsd: number;
  readonly runs: number;
}

/** What the runs of a workflow have come to so far. */
export interface WorkflowTotal {
  /** How many runs there are in each status that some are in. */
  readonly runs: Readonly<Partial<Record<RunStatus, number>>>;
  /** With a cost only if that of every run is known. */
  readonly usage: Usage;
}

export interface OpenRuns {
  readonly queued: number;
  readonly running: number;
  readonly waiting: number;
}

export interface EventRange {
  readonly after: number;
  readonly limit: number;
}

export interface EndedRun {
  readonly runId: string;
  readonly position: number;
}
