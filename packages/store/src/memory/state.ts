/** What a memory store holds: plain maps, shared by the system's side and every tenant's. */
import type { KeyRecord, Lease, Mail, NewGrant, RelayRecord, RunRecord } from '@relay/core';
import { RelayError } from '@relay/protocol';

export interface MemoryRun {
  record: RunRecord;
  lease: Lease | null;
  /** Its place among the ended runs of its conversation. */
  position: number | null;
  /** One entry an append, encoded as in every store, so that nobody shares objects with it. */
  readonly journal: JournalEntry[];
  readonly relayIds: string[];
  readonly connectionId: string | null;
  mail: Mail[];
}

interface JournalEntry {
  readonly firstSeq: number;
  readonly lastSeq: number;
  readonly at: string;
  readonly payload: string;
}

export interface MemoryState {
  readonly tenants: Map<string, { id: string; name: string }>;
  readonly keys: Map<string, KeyRecord>;
  readonly runs: Map<string, MemoryRun>;
  readonly relays: Map<string, { readonly tenantId: string; record: RelayRecord }>;
  readonly grants: Map<string, { readonly tenantId: string; readonly grant: NewGrant }>;
  /** Runs that are not over: looking around must not cost all that ever were. */
  readonly open: Set<string>;
  readonly connections: Map<string, MemoryConnection>;
  /** Ended runs by tenant and conversation, in the order of their ending. */
  readonly ended: Map<string, string[]>;
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
    keys: new Map(),
    runs: new Map(),
    relays: new Map(),
    grants: new Map(),
    open: new Set(),
    connections: new Map(),
    ended: new Map(),
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

export function conversationKey(tenantId: string, conversationId: string): string {
  return JSON.stringify([tenantId, conversationId]);
}
