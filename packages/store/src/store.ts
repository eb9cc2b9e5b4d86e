import type {
  StoreStats,
  Claim,
  DeliveryQueue,
  Hint,
  KeyRecord,
  NewAudit,
  CredentialReseal,
  RunRef,
  SealedCredential,
  SystemStore,
  TenantStore,
  Workspace,
} from '@relay/core';
import { insertAudit, tenantsToSealSql } from './sql/tenants/audit.ts';
import { decodeStats, openApprovalsSql, openRunsSql } from './sql/stats.ts';
import { RelayError } from '@relay/protocol';
import type { SqlDriver } from './drivers/driver.ts';
import { decodeOrphan } from './sql/runs/connections.ts';
import {
  decodeSealed,
  reseal,
  sealedParams,
  selectSealedSql,
  selectToResealSql,
} from './sql/tenants/credentials.ts';
import { decodeKey, insertKey, selectKeyByHashSql } from './sql/tenants/keys.ts';
import { claim, dueParams, dueSql, reclaimSql, release, renew } from './sql/runs/leases.ts';
import { runsWithCommandsSql } from './sql/runs/inbox.ts';
import { deleteExpiredMemories } from './sql/memories.ts';
import {
  deleteNodeSql,
  deleteNodesSql,
  keepAlive,
  orphansParams,
  selectOrphansSql,
} from './sql/nodes.ts';
import { decodeMetadata, selectMetadata, writeMetadata } from './sql/metadata.ts';
import { pruneUnit } from './sql/runs/retention.ts';
import { integer, text } from './codec/values.ts';
import { decodeHint } from './codec/hints.ts';
import { NotifyingTenantStore } from './notifying-tenant-store.ts';
import { SqlTenantStore } from './tenant-store.ts';
import {
  decodeTenant,
  decodeTenantName,
  ensureTenantUnit,
  selectPausedSql,
  selectTenantByName,
  selectWithWorkspaceSql,
  workspaceOf,
} from './sql/tenants/tenants.ts';

import { SignCache } from './search/sign-cache.ts';
import { SqlDeliveryQueue } from './sql/tenants/delivery-queue.ts';

/** The SQL store over a driver whose database has the current schema (`migrate`). */
export function createSqlStore(driver: SqlDriver, signs = new SignCache()): SystemStore {
  return new SqlStore(driver, signs);
}

const probeSql = `INSERT INTO probes (id, count) VALUES (1, 1)
  ON CONFLICT (id) DO UPDATE SET count = probes.count + 1`;

const tenantOfRunSql = 'SELECT tenant_id FROM runs WHERE id = ?';

class SqlStore implements SystemStore {
  readonly #driver: SqlDriver;
  readonly #signs: SignCache;
  readonly deliveries: DeliveryQueue;

  constructor(driver: SqlDriver, signs: SignCache) {
    this.#driver = driver;
    this.#signs = signs;
    this.deliveries = new SqlDeliveryQueue(driver);
  }

  tenant(tenantId: string): TenantStore {
    const driver = this.#driver.tenant?.(tenantId) ?? this.#driver;
    const parts = { driver, signs: this.#signs };
    return driver.hints === undefined
      ? new SqlTenantStore(parts, tenantId)
      : new NotifyingTenantStore({ ...parts, hints: driver.hints }, tenantId);
  }

  async ensureTenant(tenant: { id: string; name: string; at: number }): Promise<{ id: string }> {
    const result = await this.#driver.transact(ensureTenantUnit(tenant));
    const row = result.ok ? result.results[1]?.rows[0] : undefined;
    if (row === undefined) throw new RelayError('storage_failed', 'The tenant was not stored');
    return { id: text(row, 'id') };
  }

  async tenantOfRun(runId: string): Promise<string | undefined> {
    const [row] = await this.#driver.read(tenantOfRunSql, [runId]);
    return row === undefined ? undefined : text(row, 'tenant_id');
  }

  async findTenant(name: string): Promise<{ id: string; name: string } | undefined> {
    const { sql, params } = selectTenantByName(name);
    const [row] = await this.#driver.read(sql, params);
    return row === undefined ? undefined : decodeTenantName(row);
  }

  async workspaces(): Promise<Workspace[]> {
    const rows = await this.#driver.read(selectWithWorkspaceSql, []);
    return rows.flatMap((row) => workspaceOf(decodeTenant(row)));
  }

  async stats(): Promise<StoreStats> {
    const [runs, approvals] = await Promise.all([
      this.#driver.read(openRunsSql, []),
      this.#driver.read(openApprovalsSql, []),
    ]);
    return decodeStats(runs, approvals[0]);
  }

  async pausedTenants(): Promise<string[]> {
    return (await this.#driver.read(selectPausedSql, [])).map((row) => text(row, 'id'));
  }

  async addKey(key: KeyRecord, hash: string, audit?: readonly NewAudit[]): Promise<void> {
    await this.#driver.transact([insertKey(key, hash), ...insertAudit(key.tenantId, audit)]);
  }

  async findKey(hash: string): Promise<KeyRecord | undefined> {
    const [row] = await this.#driver.read(selectKeyByHashSql, [hash]);
    return row === undefined ? undefined : decodeKey(row);
  }

  async sealedCredentials(page: { after?: string; limit: number }): Promise<SealedCredential[]> {
    return (await this.#driver.read(selectSealedSql, sealedParams(page))).map(decodeSealed);
  }

  async resealCredential(resealing: CredentialReseal): Promise<boolean> {
    const { tenantId, id } = resealing;
    const [row] = await this.#driver.read(selectToResealSql, [tenantId, id]);
    const statement = row === undefined ? undefined : reseal(row, resealing);
    return statement !== undefined && (await this.#driver.transact([statement])).ok;
  }

  async tenantsToSeal(limit: number): Promise<string[]> {
    return (await this.#driver.read(tenantsToSealSql, [limit])).map((row) => text(row, 'id'));
  }

  async readMetadata(name: string): Promise<string | undefined> {
    const { sql, params } = selectMetadata(name);
    const [row] = await this.#driver.read(sql, params);
    return row === undefined ? undefined : decodeMetadata(row);
  }

  async writeMetadata(
    name: string,
    value: string,
    options: { ifAbsent?: boolean } = {},
  ): Promise<boolean> {
    return (await this.#driver.transact([writeMetadata(name, value, options)])).ok;
  }

  async claimRun(runId: string, by: Claim): Promise<{ epoch: number } | undefined> {
    const unit = [claim(this.#driver.dialect, runId, by)];
    const result = await this.#driver.transact(unit, { run: runId });
    const row = result.ok ? result.results[0]?.rows[0] : undefined;
    return row === undefined ? undefined : { epoch: integer(row, 'epoch') };
  }

  async renewLeases(
    owner: string,
    renewal: { runIds: readonly string[]; now: number; until: number },
  ): Promise<string[]> {
    const { now, until } = renewal;
    // Sorted, so that nodes that touch the same runs do not deadlock.
    const runIds = renewal.runIds.toSorted();
    if (runIds.length === 0) return [];
    const { dialect } = this.#driver;
    const result = await this.#driver.transact(
      runIds.map((id) => renew(dialect, id, { owner, now, until })),
    );
    if (!result.ok) return [];
    const held = new Set(runIds.filter((_, index) => result.results[index]?.changes === 1));
    return renewal.runIds.filter((id) => held.has(id));
  }

  async leasedRunsWithCommands(owner: string): Promise<string[]> {
    const rows = await this.#driver.read(runsWithCommandsSql, [owner]);
    return rows.map((row) => text(row, 'run_id'));
  }

  async releaseRun(runId: string, epoch: number): Promise<void> {
    await this.#driver.transact([release(runId, epoch)], { run: runId });
  }

  async dueRuns(now: number, limit: number): Promise<RunRef[]> {
    const rows = await this.#driver.read(dueSql[this.#driver.dialect], dueParams(now, limit));
    return rows.map((row) => ({ tenantId: text(row, 'tenant_id'), runId: text(row, 'id') }));
  }

  async releaseAllLeases(): Promise<void> {
    await this.#driver.transact([
      { sql: reclaimSql, params: [] },
      { sql: deleteNodesSql, params: [] },
    ]);
  }

  async heartbeatNode(by: Claim): Promise<void> {
    await this.#driver.transact(keepAlive(this.#driver.dialect, by));
  }

  async removeNode(node: string): Promise<void> {
    await this.#driver.transact([{ sql: deleteNodeSql, params: [node] }]);
  }

  async deleteExpiredMemories(now: number, limit: number): Promise<number> {
    const result = await this.#driver.transact([deleteExpiredMemories(now, limit)]);
    return result.ok ? (result.results[0]?.changes ?? 0) : 0;
  }

  async pruneRuns(before: number, limit: number): Promise<number> {
    const result = await this.#driver.transact(pruneUnit(before, limit));
    if (!result.ok) return 0;
    return result.results.reduce((sum, { changes }) => sum + changes, 0);
  }

  async orphanedConnections(
    node: string,
    now: number,
  ): Promise<{ tenantId: string; id: string; runId: string }[]> {
    const sql = selectOrphansSql(this.#driver.dialect);
    return (await this.#driver.read(sql, orphansParams(node, now))).map(decodeOrphan);
  }

  listen(listener: (hint: Hint) => void): () => void {
    const stop = this.#driver.hints?.listen((message) => {
      const hint = message === undefined ? ({ kind: 'all' } as const) : decodeHint(message);
      if (hint !== undefined) listener(hint);
    });
    return stop ?? (() => undefined);
  }

  /** A real write: a full disk can still be read from. */
  async ping(): Promise<void> {
    await this.#driver.transact([{ sql: probeSql, params: [] }]);
  }

  close(): Promise<void> {
    return this.#driver.close();
  }
}
