import type {
  Append,
  AppendOutcome,
  AuditTrail,
  CallClaim,
  ClientCallRecord,
  CreationOutcome,
  CredentialRecord,
  EndedRun,
  EventRange,
  FoundMemory,
  Grant,
  GrantFilter,
  GrantRecord,
  KeyRecord,
  QueuedRunCommand,
  MemoryFilter,
  MemoryRecord,
  MemorySearch,
  NewAudit,
  NewGrant,
  OpenRuns,
  Page,
  PolicyStore,
  PostedResult,
  ApprovalDecision,
  ApprovalFilter,
  ApprovalRecord,
  RunCreation,
  RunFilter,
  RunHead,
  RunListing,
  RunRecord,
  TenantChange,
  TenantRecord,
  TenantStore,
  UsageScope,
  UsageTotal,
  WebhookStore,
  WorkflowTotal,
} from '@relay/core';
import { RelayError } from '@relay/protocol';
import type { StoredEvent } from '@relay/protocol';
import type { Row, SqlAccess, Statement } from './drivers/driver.ts';
import { appendOf, appendOutcome, appendUnit } from './sql/runs/append.ts';
import { insertAudit, SqlAuditTrail } from './sql/tenants/audit.ts';
import {
  answerClientCall,
  claimClientCall,
  decodeClientCall,
  selectClientCall,
} from './sql/runs/client-calls.ts';
import { deleteConnectionSql, selectConnectionSql } from './sql/runs/connections.ts';
import { countEndedSql, selectEndedSql } from './sql/runs/conversations.ts';
import { creationOf, creationUnit } from './sql/runs/creation.ts';
import {
  decodeCredential,
  deleteCredential,
  putCredential,
  selectCredential,
  selectCredentialsSql,
} from './sql/tenants/credentials.ts';
import { decodeJournal, selectEventsParams, selectEventsSql } from './sql/runs/events.ts';
import {
  decodeGrant,
  decodeGrantRecord,
  insertGrant,
  revokeGrant,
  selectGrantList,
  selectGrantsParams,
  selectGrantSql,
  selectGrantsSql,
} from './sql/tenants/grants.ts';
import { decodeKeyHolder, hasExpired, selectKeyHolder } from './sql/runs/idempotency.ts';
import { decodeKey, revokeKey, selectKeys, selectKeySql } from './sql/tenants/keys.ts';
import { decodeCommand, insertCommand, selectCommandsSql } from './sql/runs/inbox.ts';
import {
  clearMemories,
  decodeMemory,
  deleteMemory,
  insertMemory,
  searchMemories,
  selectMemories,
  selectMemoryOnce,
} from './sql/memories.ts';
import { SqlPolicyStore } from './sql/tenants/policies.ts';
import {
  decide,
  decodeApproval,
  selectApprovals,
  selectApprovalSql,
} from './sql/runs/approvals.ts';
import { decodeListing, selectRuns, statusesOf } from './sql/runs/run-lists.ts';
import { decodeRun, decodeRunHead, selectRunSql } from './sql/runs/runs.ts';
import { integer, text } from './codec/values.ts';
import { decodeTenant, noTenant, selectTenantSql, updateTenant } from './sql/tenants/tenants.ts';
import {
  decodeOpenRuns,
  decodeUsageTotal,
  decodeWorkflow,
  selectOpenRuns,
  selectUsage,
  selectWorkflow,
} from './sql/runs/usage.ts';
import type { SignCache } from './search/sign-cache.ts';
import { SqlVectorStore } from './sql/vectors.ts';
import { insertNotices, SqlWebhookStore } from './sql/tenants/webhooks.ts';

export interface TenantParts {
  readonly driver: SqlAccess;
  /** Shared by all tenants. */
  readonly signs: SignCache;
}

export class SqlTenantStore implements TenantStore {
  readonly tenantId: string;
  readonly audit: AuditTrail;
  readonly policies: PolicyStore;
  readonly webhooks: WebhookStore;
  readonly vectors: SqlVectorStore;
  readonly #driver: SqlAccess;

  constructor(parts: TenantParts, tenantId: string) {
    const { driver } = parts;
    this.#driver = driver;
    this.tenantId = tenantId;
    this.audit = new SqlAuditTrail(driver, tenantId);
    this.policies = new SqlPolicyStore(driver, tenantId);
    this.webhooks = new SqlWebhookStore(driver, tenantId);
    this.vectors = new SqlVectorStore(parts, tenantId);
  }

  async createRun(creation: RunCreation): Promise<CreationOutcome> {
    const { tenantId } = this;
    const { identity, idempotency } = creation;
    if (identity.tenantId !== tenantId) {
      throw new RelayError('internal', 'A run can only be made in its own tenant');
    }
    const result = await this.#driver.transact(
      creationUnit(this.#driver.dialect, tenantId, creation),
      creationOf(creation),
    );
    if (result.ok) return { kind: 'created' };
    const [row] =
      idempotency === undefined
        ? []
        : await this.#select(selectKeyHolder(tenantId, idempotency.key));
    if (row === undefined) throw new RelayError('storage_failed', 'The run was not stored');
    return { kind: 'exists', ...decodeKeyHolder(row) };
  }

  async findIdempotencyKey(key: string, now: number) {
    const [row] = await this.#select(selectKeyHolder(this.tenantId, key));
    return row === undefined || hasExpired(row, now) ? undefined : decodeKeyHolder(row);
  }

  async readRun(runId: string): Promise<RunRecord | undefined> {
    const [row] = await this.#driver.read(selectRunSql, [this.tenantId, runId]);
    return row === undefined ? undefined : decodeRun(row);
  }

  async readRunHead(runId: string): Promise<RunHead | undefined> {
    const [row] = await this.#driver.read(selectRunSql, [this.tenantId, runId]);
    return row === undefined ? undefined : decodeRunHead(row);
  }

  async listRuns(filter: RunFilter, page: Page): Promise<RunListing[]> {
    if (statusesOf(filter)?.length === 0) return [];
    return (await this.#select(selectRuns(this.tenantId, filter, page))).map(decodeListing);
  }

  async append(append: Append): Promise<AppendOutcome> {
    const unit = appendUnit(this.tenantId, append);
    return appendOutcome(unit, await this.#driver.transact(unit, appendOf(append)));
  }

  async readEvents(runId: string, range: EventRange): Promise<StoredEvent[]> {
    const { tenantId } = this;
    const params = selectEventsParams(tenantId, runId, range);
    const rows = await this.#driver.read(selectEventsSql, params);
    return decodeJournal({ tenantId, runId }, range, rows);
  }

  async readWorkflow(workflowId: string): Promise<WorkflowTotal | undefined> {
    return decodeWorkflow(await this.#select(selectWorkflow(this.tenantId, workflowId)));
  }

  async readUsage(scope: UsageScope & { readonly since: number }): Promise<UsageTotal> {
    const [row] = await this.#select(selectUsage(this.tenantId, scope));
    return decodeUsageTotal(row ?? {});
  }

  async countOpenRuns(scope: UsageScope): Promise<OpenRuns> {
    return decodeOpenRuns(await this.#select(selectOpenRuns(this.tenantId, scope)));
  }

  async readApproval(approvalId: string): Promise<ApprovalRecord | undefined> {
    const [row] = await this.#driver.read(selectApprovalSql, [this.tenantId, approvalId]);
    return row === undefined ? undefined : decodeApproval(row);
  }

  async listApprovals(filter: ApprovalFilter, page: Page): Promise<ApprovalRecord[]> {
    return (await this.#select(selectApprovals(this.tenantId, filter, page))).map(decodeApproval);
  }

  async decideApproval(decision: ApprovalDecision): Promise<boolean> {
    const { runId, queued, grant } = decision;
    // The run's row first, as in an append: all units lock these rows in one order.
    const unit = [
      insertCommand(this.#driver.dialect, { tenantId: this.tenantId, runId }, queued),
      decide(this.tenantId, decision),
      ...(grant === undefined ? [] : [insertGrant(this.tenantId, grant)]),
      ...insertAudit(this.tenantId, decision.audit),
      ...insertNotices(this.tenantId, decision.notices),
    ];
    return (await this.#driver.transact(unit, { run: runId })).ok;
  }

  async readGrants(scope: {
    runId: string;
    conversationId: string;
    now: number;
  }): Promise<Grant[]> {
    const params = selectGrantsParams(this.tenantId, scope);
    return (await this.#driver.read(selectGrantsSql, params)).map(decodeGrant);
  }

  async readClientCall(runId: string, toolCallId: string): Promise<ClientCallRecord | undefined> {
    const { tenantId } = this;
    const [row] = await this.#select(selectClientCall({ tenantId, runId }, toolCallId));
    return row === undefined ? undefined : decodeClientCall(row);
  }

  async postResult(posted: PostedResult): Promise<boolean> {
    const { tenantId } = this;
    const { runId, queued } = posted;
    const unit = [
      insertCommand(this.#driver.dialect, { tenantId, runId }, queued),
      answerClientCall(tenantId, posted),
    ];
    return (await this.#driver.transact(unit, { run: runId })).ok;
  }

  async claimCall(claim: CallClaim): Promise<boolean> {
    const unit = [claimClientCall(this.tenantId, claim)];
    return (await this.#driver.transact(unit)).ok;
  }

  async addGrant(grant: NewGrant, audit?: readonly NewAudit[]): Promise<void> {
    const { tenantId } = this;
    await this.#driver.transact([insertGrant(tenantId, grant), ...insertAudit(tenantId, audit)]);
  }

  async readGrant(grantId: string): Promise<GrantRecord | undefined> {
    const [row] = await this.#driver.read(selectGrantSql, [this.tenantId, grantId]);
    return row === undefined ? undefined : decodeGrantRecord(row);
  }

  async listGrants(filter: GrantFilter, page: Page): Promise<GrantRecord[]> {
    return (await this.#select(selectGrantList(this.tenantId, filter, page))).map(
      decodeGrantRecord,
    );
  }

  async revokeGrant(grantId: string, at: number, audit?: readonly NewAudit[]): Promise<boolean> {
    return this.#change(revokeGrant(this.tenantId, grantId, at), audit);
  }

  async postRunCommand(
    runId: string,
    queued: QueuedRunCommand,
    audit?: readonly NewAudit[],
  ): Promise<boolean> {
    const { tenantId } = this;
    const unit = [
      insertCommand(this.#driver.dialect, { tenantId, runId }, queued),
      ...insertAudit(tenantId, audit),
    ];
    return (await this.#driver.transact(unit, { run: runId })).ok;
  }

  async readInbox(runId: string): Promise<QueuedRunCommand[]> {
    return (await this.#driver.read(selectCommandsSql, [this.tenantId, runId])).map(decodeCommand);
  }

  async countEndedRuns(conversationId: string): Promise<number> {
    const [row] = await this.#driver.read(countEndedSql, [this.tenantId, conversationId]);
    return row === undefined ? 0 : integer(row, 'ended_runs');
  }

  async endedRuns(
    conversationId: string,
    { after, upTo }: { after: number; upTo: number },
  ): Promise<EndedRun[]> {
    const params = [this.tenantId, conversationId, after, upTo];
    const rows = await this.#driver.read(selectEndedSql, params);
    return rows.map((row) => ({ runId: text(row, 'id'), position: integer(row, 'position') }));
  }

  async findConnection(connectionId: string): Promise<{ runId: string } | undefined> {
    const [row] = await this.#driver.read(selectConnectionSql, [this.tenantId, connectionId]);
    return row === undefined ? undefined : { runId: text(row, 'run_id') };
  }

  async closeConnection(connectionId: string): Promise<void> {
    const params = [this.tenantId, connectionId];
    await this.#driver.transact([{ sql: deleteConnectionSql, params }]);
  }

  async readTenant(): Promise<TenantRecord> {
    const [row] = await this.#driver.read(selectTenantSql, [this.tenantId]);
    if (row === undefined) throw noTenant(this.tenantId);
    return decodeTenant(row);
  }

  async updateTenant(change: TenantChange, audit?: readonly NewAudit[]): Promise<boolean> {
    const unit = [...updateTenant(this.tenantId, change), ...insertAudit(this.tenantId, audit)];
    const { ok } = await this.#driver.transact(unit);
    if (!ok) await this.readTenant();
    if (!ok && change.expectedSettings === undefined) throw noTenant(this.tenantId);
    return ok;
  }

  async listKeys(page: Page): Promise<KeyRecord[]> {
    return (await this.#select(selectKeys(this.tenantId, page))).map(decodeKey);
  }

  async readKey(keyId: string): Promise<KeyRecord | undefined> {
    const [row] = await this.#driver.read(selectKeySql, [this.tenantId, keyId]);
    return row === undefined ? undefined : decodeKey(row);
  }

  async revokeKey(keyId: string, at: number, audit?: readonly NewAudit[]): Promise<boolean> {
    return this.#change(revokeKey(this.tenantId, keyId, at), audit);
  }

  async putCredential(record: CredentialRecord, audit?: readonly NewAudit[]): Promise<void> {
    await this.#change(putCredential(this.tenantId, record), audit);
  }

  async readCredential(provider: string): Promise<CredentialRecord | undefined> {
    const [row] = await this.#select(selectCredential(this.tenantId, provider));
    return row === undefined ? undefined : decodeCredential(row);
  }

  async listCredentials(): Promise<CredentialRecord[]> {
    const rows = await this.#driver.read(selectCredentialsSql, [this.tenantId]);
    return rows.map(decodeCredential);
  }

  async deleteCredential(provider: string, audit?: readonly NewAudit[]): Promise<boolean> {
    return this.#change(deleteCredential(this.tenantId, provider), audit);
  }

  async addMemory(record: MemoryRecord, once?: string): Promise<MemoryRecord> {
    const { tenantId } = this;
    const result = await this.#driver.transact([insertMemory(tenantId, record, once)]);
    if (result.ok) return record;
    const [row] = once === undefined ? [] : await this.#select(selectMemoryOnce(tenantId, once));
    if (row === undefined) throw new RelayError('storage_failed', 'The memory was not stored');
    return decodeMemory(row);
  }

  async listMemories(filter: MemoryFilter, page: Page): Promise<MemoryRecord[]> {
    return (await this.#select(selectMemories(this.tenantId, filter, page))).map(decodeMemory);
  }

  searchMemories(search: MemorySearch): Promise<FoundMemory[]> {
    return searchMemories(this.#driver, this.tenantId, search);
  }

  async deleteMemory(memoryId: string, within?: { readonly namespace: string }): Promise<boolean> {
    return (await this.#driver.transact([deleteMemory(this.tenantId, memoryId, within)])).ok;
  }

  async clearMemories(namespace: string, limit: number): Promise<number> {
    const unit = [clearMemories(this.tenantId, namespace, limit)];
    const result = await this.#driver.transact(unit);
    this.vectors.forget(namespace);
    return result.ok ? (result.results[0]?.changes ?? 0) : 0;
  }

  /** Without the change there is no notice either. */
  async #change(statement: Statement, audit?: readonly NewAudit[]): Promise<boolean> {
    const unit = [statement, ...insertAudit(this.tenantId, audit)];
    return (await this.#driver.transact(unit)).ok;
  }

  #select({ sql, params }: Statement): Promise<readonly Row[]> {
    return this.#driver.read(sql, params);
  }
}
