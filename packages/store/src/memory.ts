/**
 * A store without a disk, for tests and for programs that need no durability. It behaves as the SQL
 * store does, down to what survives a JSON round trip. `close` keeps what it holds, so that a test
 * can stop one server and start another on the same store.
 */
import type {
  StoreStats,
  Claim,
  DeliveryQueue,
  KeyRecord,
  NewAudit,
  Resealing,
  RunRef,
  SealedCredential,
  SystemStore,
  TenantStore,
  Workspace,
} from '@relay/core';
import { isEnded } from '@relay/protocol';
import { addKey, ensureTenant, resealCredential, sealedCredentials } from './memory/accounts.ts';
import { putAudit, refuseTakenAudit, tenantsToSeal } from './memory/audit.ts';
import { sweepMemories } from './memory/memories.ts';
import { pruneRuns } from './memory/retention.ts';
import { emptyState, stored } from './memory/state.ts';
import type { MemoryRun, MemoryState } from './memory/state.ts';
import { MemoryTenantStore } from './memory/tenant-store.ts';
import { MemoryDeliveryQueue } from './memory/webhooks.ts';
import { workspaceOf } from './sql/tenants.ts';

export function createMemoryStore(): SystemStore {
  return new MemoryStore();
}

/** Nothing here waits; `async` makes every error a rejection. */
class MemoryStore implements SystemStore {
  readonly #state: MemoryState = emptyState();
  readonly deliveries: DeliveryQueue = new MemoryDeliveryQueue(this.#state);

  tenant(tenantId: string): TenantStore {
    return new MemoryTenantStore(this.#state, tenantId);
  }

  async ensureTenant(tenant: { id: string; name: string; at: number }): Promise<{ id: string }> {
    return ensureTenant(this.#state, tenant);
  }

  async tenantOfRun(runId: string): Promise<string | undefined> {
    return this.#state.runs.get(runId)?.record.tenantId;
  }

  async findTenant(name: string): Promise<{ id: string; name: string } | undefined> {
    const id = this.#state.tenantIds.get(name);
    return id === undefined ? undefined : { id, name };
  }

  async workspaces(): Promise<Workspace[]> {
    return [...this.#state.tenants.values()]
      .flatMap(workspaceOf)
      .toSorted((a, b) => (a.tenantId < b.tenantId ? -1 : 1));
  }

  async stats(): Promise<StoreStats> {
    const counts = { queued: 0, running: 0, waiting: 0 };
    for (const runId of this.#state.open) {
      const status = this.#state.runs.get(runId)?.record.status;
      if (status !== undefined && status in counts) counts[status as keyof typeof counts] += 1;
    }
    const raised = [...this.#state.approvals.values()]
      .filter(({ record }) => record.status === 'pending')
      .map(({ record }) => record.requestedAt);
    const oldestAt = raised.length === 0 ? null : Math.min(...raised);
    return { runs: counts, approvals: { pending: raised.length, oldestAt } };
  }

  async pausedTenants(): Promise<string[]> {
    return [...this.#state.tenants.values()]
      .filter(({ pausedAt }) => pausedAt !== null)
      .map(({ id }) => id)
      .toSorted();
  }

  async addKey(key: KeyRecord, hash: string, audit?: readonly NewAudit[]): Promise<void> {
    refuseTakenAudit(this.#state, audit);
    addKey(this.#state, key, hash);
    putAudit(this.#state, key.tenantId, audit);
  }

  async findKey(hash: string): Promise<KeyRecord | undefined> {
    const key = this.#state.keys.get(hash);
    return key === undefined ? undefined : stored(key);
  }

  async sealedCredentials(page: { after?: string; limit: number }): Promise<SealedCredential[]> {
    return sealedCredentials(this.#state, page);
  }

  async resealCredential(resealing: Resealing): Promise<boolean> {
    return resealCredential(this.#state, resealing);
  }

  async tenantsToSeal(limit: number): Promise<string[]> {
    return tenantsToSeal(this.#state, limit);
  }

  async readNote(name: string): Promise<string | undefined> {
    return this.#state.notes.get(name);
  }

  async writeNote(
    name: string,
    value: string,
    { ifAbsent = false }: { ifAbsent?: boolean } = {},
  ): Promise<boolean> {
    if (ifAbsent && this.#state.notes.has(name)) return false;
    this.#state.notes.set(name, value);
    return true;
  }

  async claimRun(runId: string, claim: Claim): Promise<{ epoch: number } | undefined> {
    const run = this.#state.runs.get(runId);
    if (run === undefined || isEnded(run.record.status) || !isFree(run, claim.now))
      return undefined;
    const epoch = run.record.epoch + 1;
    run.lease = { owner: claim.owner, until: claim.until };
    run.record = { ...run.record, epoch };
    return { epoch };
  }

  async renewLeases(
    owner: string,
    { runIds, until }: { runIds: readonly string[]; now: number; until: number },
  ): Promise<string[]> {
    return runIds.filter((runId) => {
      const run = this.#state.runs.get(runId);
      if (run === undefined || run.lease?.owner !== owner) return false;
      run.lease = { owner, until };
      return true;
    });
  }

  async heldWithCommands(owner: string): Promise<string[]> {
    return [...this.#state.open].filter((runId) => {
      const run = this.#state.runs.get(runId);
      return run?.lease?.owner === owner && run.queued.length > 0;
    });
  }

  async releaseRun(runId: string, epoch: number): Promise<void> {
    const run = this.#state.runs.get(runId);
    if (run?.record.epoch === epoch) run.lease = null;
  }

  async dueRuns(now: number, limit: number): Promise<RunRef[]> {
    const free = [...this.#state.open]
      .flatMap((runId) => this.#state.runs.get(runId) ?? [])
      .filter((run) => isFree(run, now));
    const isPaused = (run: MemoryRun) =>
      (this.#state.tenants.get(run.record.tenantId)?.pausedAt ?? null) !== null;
    const going = free.filter((run) => !isPaused(run));
    const due = [
      inTurns(going.filter(isLeftBehind)).slice(0, limit),
      going.filter((run) => isOverdue(run, now)),
      // What a paused tenant was told counts all the same: it may be that a run shall stop.
      free.filter(isTold),
    ].flatMap((runs) => oldestFirst(runs).slice(0, limit));
    return oldestFirst([...new Set(due)]).map(({ record: { tenantId, id } }) => ({
      tenantId,
      runId: id,
    }));
  }

  async reclaimEverything(): Promise<void> {
    for (const run of this.#state.runs.values()) run.lease = null;
    this.#state.nodes.clear();
  }

  async keepNode({ owner, until }: Claim): Promise<void> {
    this.#state.nodes.set(owner, until);
  }

  async forgetNode(node: string): Promise<void> {
    this.#state.nodes.delete(node);
  }

  async sweepMemories(now: number, limit: number): Promise<number> {
    return sweepMemories(this.#state, now, limit);
  }

  async pruneRuns(before: number, limit: number): Promise<number> {
    return pruneRuns(this.#state, before, limit);
  }

  async orphanedConnections(
    node: string,
    now: number,
  ): Promise<{ tenantId: string; id: string; runId: string }[]> {
    const { connections, nodes } = this.#state;
    return [...connections.values()]
      .filter((connection) => connection.node !== node)
      .filter((connection) => (nodes.get(connection.node) ?? 0) <= now)
      .map(({ tenantId, id, runId }) => ({ tenantId, id, runId }))
      .toSorted((a, b) => (a.id < b.id ? -1 : 1));
  }

  /** It has no other nodes. */
  listen(): () => void {
    return () => undefined;
  }

  async ping(): Promise<void> {}

  async close(): Promise<void> {}
}

function isFree({ lease }: MemoryRun, now: number): boolean {
  return lease === null || lease.until <= now;
}

function isLeftBehind({ record: { status } }: MemoryRun): boolean {
  return status === 'queued' || status === 'running';
}

function isOverdue({ record: { status, wakeAt } }: MemoryRun, now: number): boolean {
  return status === 'waiting' && wakeAt !== null && wakeAt <= now;
}

function isTold({ record: { status }, queued }: MemoryRun): boolean {
  return status === 'waiting' && queued.length > 0;
}

/** The first of each tenant, then the second of each, and so on. */
function inTurns(runs: readonly MemoryRun[]): MemoryRun[] {
  const turns = new Map<string, number>();
  return oldestFirst(runs)
    .map((run) => {
      const turn = turns.get(run.record.tenantId) ?? 0;
      turns.set(run.record.tenantId, turn + 1);
      return { run, turn };
    })
    .toSorted((a, b) => a.turn - b.turn)
    .map(({ run }) => run);
}

function oldestFirst(runs: readonly MemoryRun[]): MemoryRun[] {
  return runs.toSorted(
    ({ record: a }, { record: b }) => a.createdAt - b.createdAt || (a.id < b.id ? -1 : 1),
  );
}
