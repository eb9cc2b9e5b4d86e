/** What a memory store holds: plain maps, shared by the system's side and every tenant's. */
import type {
  AuditSeal,
  CallClaim,
  ClientCallRecord,
  CredentialRecord,
  DeliveryRecord,
  GrantRecord,
  IdempotencyKey,
  KeyRecord,
  Lease,
  QueuedRunCommand,
  MemoryRecord,
  MemoryVector,
  NewAudit,
  Page,
  PolicyRecord,
  Position,
  ApprovalRecord,
  RunRecord,
  TenantRecord,
  UsageTotal,
  WebhookRecord,
} from '@relay/core';
import { RelayError } from '@relay/protocol';

export interface MemoryRun {
  record: RunRecord;
  lease: Lease | null;
  /** Its place among the ended runs of its conversation. */
  position: number | null;
  /** One entry an append, encoded as in every store, so that nobody shares objects with it. */
  readonly journal: JournalEntry[];
  /** Its journal is no longer kept. */
  pruned: boolean;
  readonly approvalIds: string[];
  readonly connectionId: string | null;
  queued: QueuedRunCommand[];
  /** By call. */
  readonly clientCalls: Map<string, MemoryClientCall>;
}

export interface MemoryClientCall {
  record: ClientCallRecord;
  claim: Pick<CallClaim, 'claimId' | 'until'> | null;
}

interface JournalEntry {
  readonly firstSeq: number;
  readonly lastSeq: number;
  readonly at: string;
  readonly payload: string;
}

export interface MemoryState {
  readonly tenants: Map<string, TenantRecord>;
  readonly tenantIds: Map<string, string>;
  /** By hash. */
  readonly keys: Map<string, KeyRecord>;
  /** By tenant and provider. */
  readonly credentials: Map<string, MemoryCredential>;
  readonly notes: Map<string, string>;
  readonly runs: Map<string, MemoryRun>;
  readonly approvals: Map<string, { readonly tenantId: string; record: ApprovalRecord }>;
  readonly grants: Map<string, { readonly tenantId: string; grant: GrantRecord }>;
  /** Runs that are not over: looking around must not cost all that ever were. */
  readonly open: Set<string>;
  readonly connections: Map<string, MemoryConnection>;
  /** Until when each node is alive. */
  readonly nodes: Map<string, number>;
  /** Ended runs by tenant and conversation, in the order of their ending. */
  readonly ended: Map<string, string[]>;
  /** By tenant and key. */
  readonly idempotency: Map<string, IdempotencyKey & { readonly runId: string }>;
  /** By tenant, API key and day. */
  readonly usage: Map<string, MemoryUsage>;
  /** By id. */
  readonly memories: Map<string, RememberedText>;
  /** By id, in the order of writing. */
  readonly audit: Map<string, MemoryAudit>;
  /** By tenant. */
  readonly auditSeals: Map<string, AuditSeal[]>;
  /** By tenant. */
  readonly policies: Map<string, PolicyRecord[]>;
  /** By id. */
  readonly webhooks: Map<string, WebhookRecord>;
  /** By webhook and event. */
  readonly deliveries: Map<string, DeliveryRecord>;
}

export interface MemoryAudit {
  readonly tenantId: string;
  readonly entry: NewAudit;
  place: { readonly seq: number; readonly hash: string; readonly proof: string } | null;
}

export interface RememberedText {
  readonly tenantId: string;
  readonly memory: MemoryRecord;
  readonly words: readonly string[];
  readonly once: string | null;
  vector?: MemoryVector;
  /** How often it was claimed for want of a vector, and until when. */
  claim?: { readonly attempts: number; readonly until: number };
}

export interface MemoryCredential {
  readonly tenantId: string;
  readonly record: CredentialRecord;
}

export interface MemoryUsage extends UsageTotal {
  readonly tenantId: string;
  readonly keyId: string;
  readonly day: number;
}

interface MemoryConnection {
  readonly tenantId: string;
  readonly id: string;
  readonly runId: string;
  readonly node: string;
}

export function emptyState(): MemoryState {
  return {
    tenants: new Map(),
    tenantIds: new Map(),
    keys: new Map(),
    credentials: new Map(),
    notes: new Map(),
    runs: new Map(),
    approvals: new Map(),
    grants: new Map(),
    open: new Set(),
    connections: new Map(),
    nodes: new Map(),
    ended: new Map(),
    idempotency: new Map(),
    usage: new Map(),
    memories: new Map(),
    audit: new Map(),
    auditSeals: new Map(),
    policies: new Map(),
    webhooks: new Map(),
    deliveries: new Map(),
  };
}

/** A value as it would come back from any store. */
export function stored<Value>(value: Value): Value {
  return JSON.parse(JSON.stringify(value)) as Value;
}

/** What a database's primary keys refuse. */
export function refuseTaken(map: ReadonlyMap<string, unknown>, id: string): void {
  if (map.has(id)) throw new RelayError('storage_failed', `The id ${id} is taken`);
}

/** A key of a map for what several parts name together. */
export function keyOf(...parts: readonly (string | number)[]): string {
  return JSON.stringify(parts);
}

/** Newest first, as every list is; each entry with the time that it is listed by. */
export function newestFirst<Entry>(
  entries: readonly (Position & { entry: Entry })[],
  page: Page,
): Entry[] {
  const { before, limit } = page;
  return entries
    .filter((place) => before === undefined || isOlder(place, before))
    .toSorted((a, b) => (isOlder(a, b) ? 1 : -1))
    .slice(0, limit)
    .map(({ entry }) => entry);
}

function isOlder(a: Position, b: Position): boolean {
  return a.at < b.at || (a.at === b.at && a.id < b.id);
}
