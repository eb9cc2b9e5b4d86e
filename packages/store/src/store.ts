/** The store of the system: tenants, leases, nodes and housekeeping over all tenants. */
import type {
  StoreStats,
  Claim,
  ClaimedRun,
  DamagedRow,
  DeliveryQueue,
  DueRun,
  Hint,
  KeyRecord,
  KeyRotation,
  KeyUse,
  LinkRedemption,
  NewAuditEntry,
  CredentialReseal,
  RunRef,
  SealedCredential,
  SessionDirectory,
  SystemStore,
  TenantStore,
  Workspace,
} from '@relay/core';
import { RelayError } from '@relay/protocol';
import { decodeHint, HintSender } from './codec/hints.ts';
import { checksumAuthenticator, type RowAuthenticator, RowSigner } from './codec/signed-table.ts';
import { number, text } from './codec/values.ts';
import type { Row, SqlDriver, Statement } from './drivers/driver.ts';
import { SignBitCache } from './search/sign-bit-cache.ts';
import { deleteExpiredMemories } from './sql/memories/memories.ts';
import { decodeStats, openApprovalsSql, openRunsSql } from './sql/runs/counts.ts';
import { runsWithCommandsSql } from './sql/runs/inbox.ts';
import * as leases from './sql/runs/leases.ts';
import { pruneUnit } from './sql/runs/retention.ts';
import { findDamagedRows, resignRows } from './sql/signed-tables.ts';
import { changesIn, placeholders, readAll, readOne } from './sql/statements.ts';
import * as system from './sql/system.ts';
import { insertAudit, tenantsToSealSql } from './sql/tenants/audit.ts';
import * as credentials from './sql/tenants/credentials.ts';
import * as tenants from './sql/tenants/tenants.ts';
import { SqlSessionDirectory } from './sql/sessions/directory.ts';
import { SqlDeliveryQueue } from './sql/tenants/webhooks.ts';
import { SqlTenantStore } from './tenant-store.ts';

export interface SqlStoreOptions {
  /** Default: a checksum, which does not resist an attacker. */
  readonly rows?: RowAuthenticator;
  readonly signs?: SignBitCache;
}

/** The SQL store over a driver whose database has the current schema (`migrate`). */
export function createSqlStore(driver: SqlDriver, options: SqlStoreOptions = {}): SystemStore {
  return new SqlStore(driver, options);
}

const probeSql = `INSERT INTO probes (id, count) VALUES (1, 1)
  ON CONFLICT (id) DO UPDATE SET count = probes.count + 1`;

const tenantOfRunSql = 'SELECT tenant_id FROM runs WHERE id = ?';
const maxKnownTenants = 1_000;
const runsPerRead = 100;
const lastSeqsSql = `SELECT id, last_seq FROM runs WHERE id IN (${placeholders(runsPerRead)})`;
const commandsSql = runsWithCommandsSql(runsPerRead);

function runRef(row: Row): RunRef {
  return { tenantId: text(row, 'tenant_id'), runId: text(row, 'id') };
}

class SqlStore implements SystemStore {
  readonly #driver: SqlDriver;
  readonly #signer: RowSigner;
  readonly #signs: SignBitCache;
  readonly #hints = new HintSender();
  readonly deliveries: DeliveryQueue;
  readonly sessions: SessionDirectory;
  /** A tenant's store has no state, so all requests and streams of the tenant share one. */
  readonly #tenants = new Map<string, TenantStore>();

  constructor(driver: SqlDriver, options: SqlStoreOptions) {
    this.#driver = driver;
    this.#signer = new RowSigner(options.rows ?? checksumAuthenticator);
    this.#signs = options.signs ?? new SignBitCache();
    this.deliveries = new SqlDeliveryQueue(driver, this.#signer);
    this.sessions = new SqlSessionDirectory(driver, this.#signer);
  }

  tenant(tenantId: string): TenantStore {
    const known = this.#tenants.get(tenantId);
    if (known !== undefined) return known;
    const driver = this.#driver.tenant?.(tenantId) ?? this.#driver;
    const store = new SqlTenantStore(tenantId, {
      driver,
      signer: this.#signer,
      signs: this.#signs,
      hints: this.#hints,
    });
    if (this.#tenants.size >= maxKnownTenants) this.#tenants.clear();
    this.#tenants.set(tenantId, store);
    return store;
  }

  async ensureTenant(tenant: { id: string; name: string; at: number }): Promise<{ id: string }> {
    const result = await this.#driver.transact(tenants.ensureTenantUnit(this.#signer, tenant));
    const row = result.ok ? result.results[1]?.rows[0] : undefined;
    if (row === undefined) throw new RelayError('storage_failed', 'The tenant was not stored');
    return { id: tenants.decodeTenant(this.#signer, row).id };
  }

  async tenantOfRun(runId: string): Promise<string | undefined> {
    const [tenantId] = await this.#texts('tenant_id', tenantOfRunSql, [runId]);
    return tenantId;
  }

  async lastSeqs(runIds: readonly string[]): Promise<ReadonlyMap<string, number>> {
    const rows = await this.#readOfRuns(lastSeqsSql, runIds);
    return new Map(rows.map((row) => [text(row, 'id'), number(row, 'last_seq')]));
  }

  async findTenant(name: string): Promise<{ id: string; name: string } | undefined> {
    const tenant = await readOne(this.#driver, tenants.selectTenantByName(name), (row) =>
      tenants.decodeTenant(this.#signer, row),
    );
    return tenant === undefined ? undefined : { id: tenant.id, name: tenant.name };
  }

  async workspaces(): Promise<Workspace[]> {
    const rows = await this.#driver.read(tenants.selectWithWorkspaceSql, []);
    return rows.flatMap((row) => tenants.workspaceOf(this.#signer, row));
  }

  async stats(tenantId?: string): Promise<StoreStats> {
    const values = tenantId === undefined ? [] : [tenantId];
    const [[runs = {}], [approvals = {}]] = await Promise.all([
      this.#driver.read(openRunsSql(tenantId !== undefined), values),
      this.#driver.read(openApprovalsSql(tenantId !== undefined), values),
    ]);
    return decodeStats(runs, approvals);
  }

  async tenantIds(): Promise<string[]> {
    return this.#texts('id', tenants.selectIdsSql);
  }

  async pausedTenants(): Promise<string[]> {
    return this.#texts('id', tenants.selectPausedSql);
  }

  async addKey(key: KeyRecord, hash: string, audit?: readonly NewAuditEntry[]): Promise<void> {
    await this.#driver.transact([
      tenants.insertKey(this.#signer, key, hash),
      ...insertAudit(key.tenantId, audit),
    ]);
  }

  async addFirstKey(
    key: KeyRecord,
    hash: string,
    audit?: readonly NewAuditEntry[],
  ): Promise<boolean> {
    const result = await this.#driver.transact([
      system.writeMetadata('first-key', key.id, { ifAbsent: true }),
      tenants.insertKey(this.#signer, key, hash),
      ...insertAudit(key.tenantId, audit),
    ]);
    return result.ok;
  }

  async findKey(
    hash: string,
    onDamage?: (row: DamagedRow) => void,
  ): Promise<KeyRecord | undefined> {
    const [row] = await this.#driver.read(tenants.selectKeyByHashSql, [hash]);
    if (row === undefined) return undefined;
    const [key] = tenants.decodeKey(this.#signer, row);
    if (key === undefined) onDamage?.(tenants.keyTable.identify(row));
    return key;
  }

  async rotateKey(rotation: KeyRotation, audit?: readonly NewAuditEntry[]): Promise<boolean> {
    const { oldKeyId, oldExpiresAt, key, hash } = rotation;
    const params = [key.tenantId, oldKeyId];
    // Repeated if another change came first.
    for (;;) {
      const [row] = await this.#driver.read(tenants.selectKeySql, params);
      const old = row === undefined ? undefined : tenants.keyTable.find(this.#signer, row);
      if (row === undefined || old === undefined) return false;
      if (old.revokedAt !== null || old.replacedBy !== null) return false;
      const expiresAt = Math.min(oldExpiresAt, old.expiresAt ?? Infinity);
      const { ok } = await this.#driver.transact([
        tenants.keyTable.update(this.#signer, row, { expiresAt, replacedBy: key.id }),
        tenants.insertKey(this.#signer, key, hash),
        ...insertAudit(key.tenantId, audit),
      ]);
      if (ok) return true;
    }
  }

  async redeemLink(
    { tenantId, linkHash, hash, expiresAt }: LinkRedemption,
    audit?: readonly NewAuditEntry[],
  ): Promise<boolean> {
    const [row] = await this.#driver.read(tenants.selectKeyByHashSql, [linkHash]);
    const link = row === undefined ? undefined : tenants.keyTable.find(this.#signer, row);
    if (row === undefined || link?.tenantId !== tenantId) return false;
    if (link.kind !== 'link' || link.revokedAt !== null) return false;
    // Applies only to the row as it was read: nothing but opening or revoking changes it.
    const { ok } = await this.#driver.transact([
      tenants.keyTable.update(this.#signer, row, { kind: 'console', hash, expiresAt }),
      ...insertAudit(tenantId, audit),
    ]);
    return ok;
  }

  async recordKeyUses(uses: readonly KeyUse[]): Promise<void> {
    // Sorted, so that nodes that record the same keys do not deadlock.
    const sorted = uses.toSorted((a, b) => (a.keyId < b.keyId ? -1 : 1));
    await this.#driver.transact(sorted.map((use) => tenants.updateKeyUse(use)));
  }

  async sealedCredentials(page: { after?: string; limit: number }): Promise<SealedCredential[]> {
    return readAll(this.#driver, credentials.selectSealed(page), credentials.decodeSealed);
  }

  async resealCredential(resealing: CredentialReseal): Promise<boolean> {
    const { tenantId, id } = resealing;
    const [row] = await this.#driver.read(credentials.selectToResealSql, [tenantId, id]);
    const statement =
      row === undefined ? undefined : credentials.reseal(this.#signer, row, resealing);
    return statement !== undefined && (await this.#driver.transact([statement])).ok;
  }

  onDamagedRow(listener: (row: DamagedRow) => void): () => void {
    return this.#signer.onDamage(listener);
  }

  damagedRows(): Promise<DamagedRow[]> {
    return findDamagedRows(this.#driver, this.#signer);
  }

  resignRows(): Promise<void> {
    return resignRows(this.#driver, this.#signer);
  }

  async tenantsToSeal({ after = '', limit }: { after?: string; limit: number }): Promise<string[]> {
    return this.#texts('id', tenantsToSealSql, [after, limit]);
  }

  async readMetadata(name: string): Promise<string | undefined> {
    return readOne(this.#driver, system.selectMetadata(name), system.decodeMetadata);
  }

  async writeMetadata(
    name: string,
    value: string,
    options: { ifAbsent?: boolean } = {},
  ): Promise<boolean> {
    return (await this.#driver.transact([system.writeMetadata(name, value, options)])).ok;
  }

  async claimRun(
    runId: string,
    by: Claim,
    { suspect = false }: { suspect?: boolean } = {},
  ): Promise<ClaimedRun | undefined> {
    const which = suspect ? 'suspects' : 'others';
    const unit = [leases.claim(this.#driver.dialect, runId, by, which)];
    const result = await this.#driver.transact(unit, { run: runId });
    const row = result.ok ? result.results[0]?.rows[0] : undefined;
    if (row === undefined) return undefined;
    return {
      epoch: number(row, 'epoch'),
      crashes: number(row, 'crashes'),
      journalSize: number(row, 'journal_size'),
    };
  }

  async suspectRuns(now: number, limit: number): Promise<RunRef[]> {
    const sql = leases.suspectsSql[this.#driver.dialect];
    return readAll(this.#driver, { sql, params: [now, limit] }, runRef);
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
      runIds.map((id) => leases.renew(dialect, id, { owner, now, until })),
    );
    if (!result.ok) return [];
    const held = new Set(runIds.filter((_, index) => result.results[index]?.changes === 1));
    return renewal.runIds.filter((id) => held.has(id));
  }

  async runsWithCommands(runIds: readonly string[]): Promise<string[]> {
    return (await this.#readOfRuns(commandsSql, runIds)).map((row) => text(row, 'run_id'));
  }

  async releaseRun(runId: string, epoch: number): Promise<void> {
    await this.#driver.transact([leases.release(runId, epoch)], { run: runId });
  }

  async dueRuns(now: number, limit: number): Promise<DueRun[]> {
    const statement = leases.selectDue(this.#driver.dialect, now, limit);
    return readAll(this.#driver, statement, (row) => ({
      tenantId: text(row, 'tenant_id'),
      runId: text(row, 'id'),
      isCanceled: number(row, 'canceled') === 1,
    }));
  }

  async releaseAllLeases(): Promise<void> {
    await this.#driver.transact([
      { sql: leases.releaseAllSql, params: [] },
      { sql: system.deleteNodesSql, params: [] },
    ]);
  }

  async heartbeatNode(node: Claim): Promise<void> {
    await this.#driver.transact(system.heartbeat(this.#driver.dialect, node));
    const { sql, params } = leases.selectBlamed(node.owner);
    // In order of their ids, so that nodes that touch the same runs do not deadlock.
    const blamed = (await this.#texts('id', sql, params)).toSorted();
    const unit = blamed.map((runId) => leases.withdrawCrash(runId, node.owner));
    if (unit.length > 0) await this.#driver.transact(unit);
  }

  async removeNode(node: string): Promise<void> {
    await this.#driver.transact([{ sql: system.deleteNodeSql, params: [node] }]);
  }

  async deleteExpiredMemories(now: number, limit: number): Promise<number> {
    return changesIn(await this.#driver.transact([deleteExpiredMemories(now, limit)]));
  }

  async deleteSignIns(expiredBefore: number, limit: number): Promise<number> {
    const unit = [tenants.deleteSignIns(expiredBefore, limit)];
    return changesIn(await this.#driver.transact(unit));
  }

  async pruneRuns(before: number, limit: number): Promise<number> {
    return changesIn(await this.#driver.transact(pruneUnit(before, limit)));
  }

  async orphanedConnections(
    node: string,
    now: number,
    after = '',
  ): Promise<{ tenantId: string; id: string; runId: string }[]> {
    return readAll(
      this.#driver,
      system.selectOrphans(this.#driver.dialect, { node, now, after }),
      system.decodeOrphan,
    );
  }

  listen(listener: (hint: Hint) => void): () => void {
    const ignoreOthers = this.#driver.hints?.listen((message) => {
      const hint = message === undefined ? ({ kind: 'all' } as const) : decodeHint(message);
      if (hint !== undefined) listener(hint);
    });
    const ignoreOwn = this.#hints.listen(listener);
    return () => {
      ignoreOthers?.();
      ignoreOwn();
    };
  }

  /** A real write: a full disk can still be read from. */
  async ping(): Promise<void> {
    await this.#driver.transact([{ sql: probeSql, params: [] }]);
  }

  close(): Promise<void> {
    return this.#driver.close();
  }

  /** One statement for any number of runs: no id is empty. */
  async #readOfRuns(sql: string, runIds: readonly string[]): Promise<Row[]> {
    const rows: Row[] = [];
    for (let at = 0; at < runIds.length; at += runsPerRead) {
      const params = Array.from({ length: runsPerRead }, (_, index) => runIds[at + index] ?? '');
      rows.push(...(await this.#driver.read(sql, params)));
    }
    return rows;
  }

  /** One column of the rows. */
  #texts(column: string, sql: string, params: Statement['params'] = []): Promise<string[]> {
    return readAll(this.#driver, { sql, params }, (row) => text(row, column));
  }
}
