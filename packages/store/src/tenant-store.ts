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
  Hint,
  KeyRecord,
  QueuedRunCommand,
  MemoryFilter,
  MemoryRecord,
  MemorySearch,
  NewAuditEntry,
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
import { encodeHint, hintsOfAppend } from './codec/hints.ts';
import type { Row, SqlAccess, Statement } from './drivers/driver.ts';
import { appendOf, appendOutcome, appendUnit } from './sql/runs/append.ts';
import { insertAudit, SqlAuditTrail } from './sql/tenants/audit.ts';
import {
  answerClientCall,
  claimClientCall,
  decodeClientCall,
  selectClientCall,
} from './sql/runs/client-calls.ts';
import {
  countEndedSql,
  decodeOpenRuns,
  decodeUsageTotal,
  decodeWorkflow,
  selectEndedSql,
  selectOpenRuns,
  selectUsage,
  selectWorkflow,
} from './sql/runs/counts.ts';
import {
  creationOf,
  creationUnit,
  decodeKeyHolder,
  hasExpired,
  selectKeyHolder,
} from './sql/runs/creation.ts';
import {
  decodeCredential,
  deleteCredential,
  putCredential,
  selectCredential,
  selectCredentialsSql,
} from './sql/tenants/credentials.ts';
import { decodeJournal, selectEvents } from './sql/runs/events.ts';
import {
  decodeGrant,
  decodeGrantRecord,
  insertGrant,
  revokeGrant,
  selectGrantList,
  selectGrants,
  selectGrantSql,
} from './sql/tenants/grants.ts';
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
import { changesIn, readAll, readOne } from './sql/statements.ts';
import { deleteConnectionSql, selectConnectionSql } from './sql/system.ts';
import { number, text } from './codec/values.ts';
import {
  decodeKey,
  decodeTenant,
  noTenant,
  revokeKey,
  selectKeys,
  selectKeySql,
  selectTenantSql,
  updateTenant,
} from './sql/tenants/tenants.ts';
import type { SignCache } from './search/sign-cache.ts';
import { SqlVectorStore } from './sql/vectors.ts';
import { insertNotices, SqlWebhookStore } from './sql/tenants/webhooks.ts';

export class SqlTenantStore implements TenantStore {
  readonly tenantId: string;
  readonly audit: AuditTrail;
  readonly policies: PolicyStore;
  readonly webhooks: WebhookStore;
  readonly vectors: SqlVectorStore;
  readonly #driver: SqlAccess;

  /** `signs` is shared by all tenants. */
  constructor(driver: SqlAccess, signs: SignCache, tenantId: string) {
    this.#driver = driver;
    this.tenantId = tenantId;
    this.audit = new SqlAuditTrail(driver, tenantId);
    this.policies = new SqlPolicyStore(driver, tenantId);
    this.webhooks = new SqlWebhookStore(driver, tenantId);
    this.vectors = new SqlVectorStore(driver, signs, tenantId);
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
    if (result.ok) {
      this.#notifyRun('run', identity.id);
      if (creation.lease === null) this.#notifyRun('wake', identity.id);
      return { kind: 'created' };
    }
    const key = idempotency?.key;
    const holder =
      key === undefined
        ? undefined
        : await this.#one(selectKeyHolder(tenantId, key), decodeKeyHolder);
    if (holder === undefined) throw new RelayError('storage_failed', 'The run was not stored');
    return { kind: 'exists', ...holder };
  }

  async findIdempotencyKey(key: string, now: number) {
    const [row] = await this.#select(selectKeyHolder(this.tenantId, key));
    return row === undefined || hasExpired(row, now) ? undefined : decodeKeyHolder(row);
  }

  async readRun(runId: string): Promise<RunRecord | undefined> {
    return this.#one({ sql: selectRunSql, params: [this.tenantId, runId] }, decodeRun);
  }

  async readRunHead(runId: string): Promise<RunHead | undefined> {
    return this.#one({ sql: selectRunSql, params: [this.tenantId, runId] }, decodeRunHead);
  }

  async listRuns(filter: RunFilter, page: Page): Promise<RunListing[]> {
    if (statusesOf(filter)?.length === 0) return [];
    return this.#all(selectRuns(this.tenantId, filter, page), decodeListing);
  }

  async append(append: Append): Promise<AppendOutcome> {
    const unit = appendUnit(this.tenantId, append);
    const outcome = appendOutcome(unit, await this.#driver.transact(unit, appendOf(append)));
    if (outcome === 'committed' && this.#driver.hints !== undefined) {
      this.#notify(...hintsOfAppend(this.tenantId, append));
    }
    return outcome;
  }

  async readEvents(runId: string, range: EventRange): Promise<StoredEvent[]> {
    const run = { tenantId: this.tenantId, runId };
    return decodeJournal(run, range, await this.#select(selectEvents(run, range)));
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
    return this.#one(
      { sql: selectApprovalSql, params: [this.tenantId, approvalId] },
      decodeApproval,
    );
  }

  async listApprovals(filter: ApprovalFilter, page: Page): Promise<ApprovalRecord[]> {
    return this.#all(selectApprovals(this.tenantId, filter, page), decodeApproval);
  }

  async decideApproval(decision: ApprovalDecision): Promise<boolean> {
    const { runId, queued, grant } = decision;
    const { tenantId } = this;
    const accepted = await this.#postCommand(runId, queued, [
      decide(tenantId, decision),
      ...(grant === undefined ? [] : [insertGrant(tenantId, grant)]),
      ...insertAudit(tenantId, decision.audit),
      ...insertNotices(tenantId, decision.notices),
    ]);
    if (accepted) this.#notify({ kind: 'approval', tenantId, approvalId: decision.approvalId });
    return accepted;
  }

  async readGrants(scope: {
    runId: string;
    conversationId: string;
    now: number;
  }): Promise<Grant[]> {
    return this.#all(selectGrants(this.tenantId, scope), decodeGrant);
  }

  async readClientCall(runId: string, toolCallId: string): Promise<ClientCallRecord | undefined> {
    const run = { tenantId: this.tenantId, runId };
    return this.#one(selectClientCall(run, toolCallId), decodeClientCall);
  }

  async postResult(posted: PostedResult): Promise<boolean> {
    const { runId, queued } = posted;
    return this.#postCommand(runId, queued, [answerClientCall(this.tenantId, posted)]);
  }

  async claimCall(claim: CallClaim): Promise<boolean> {
    return this.#change(claimClientCall(this.tenantId, claim));
  }

  async addGrant(grant: NewGrant, audit?: readonly NewAuditEntry[]): Promise<void> {
    await this.#change(insertGrant(this.tenantId, grant), audit);
  }

  async readGrant(grantId: string): Promise<GrantRecord | undefined> {
    return this.#one({ sql: selectGrantSql, params: [this.tenantId, grantId] }, decodeGrantRecord);
  }

  async listGrants(filter: GrantFilter, page: Page): Promise<GrantRecord[]> {
    return this.#all(selectGrantList(this.tenantId, filter, page), decodeGrantRecord);
  }

  async revokeGrant(
    grantId: string,
    at: number,
    audit?: readonly NewAuditEntry[],
  ): Promise<boolean> {
    return this.#change(revokeGrant(this.tenantId, grantId, at), audit);
  }

  async postRunCommand(
    runId: string,
    queued: QueuedRunCommand,
    audit?: readonly NewAuditEntry[],
  ): Promise<boolean> {
    return this.#postCommand(runId, queued, insertAudit(this.tenantId, audit));
  }

  async readInbox(runId: string): Promise<QueuedRunCommand[]> {
    return this.#all({ sql: selectCommandsSql, params: [this.tenantId, runId] }, decodeCommand);
  }

  async countEndedRuns(conversationId: string): Promise<number> {
    const statement = { sql: countEndedSql, params: [this.tenantId, conversationId] };
    return (await this.#one(statement, (row) => number(row, 'ended_runs'))) ?? 0;
  }

  async endedRuns(
    conversationId: string,
    { after, upTo }: { after: number; upTo: number },
  ): Promise<EndedRun[]> {
    const params = [this.tenantId, conversationId, after, upTo];
    return this.#all({ sql: selectEndedSql, params }, (row) => ({
      runId: text(row, 'id'),
      position: number(row, 'position'),
    }));
  }

  async findConnection(connectionId: string): Promise<{ runId: string } | undefined> {
    const statement = { sql: selectConnectionSql, params: [this.tenantId, connectionId] };
    return this.#one(statement, (row) => ({ runId: text(row, 'run_id') }));
  }

  async closeConnection(connectionId: string): Promise<void> {
    const params = [this.tenantId, connectionId];
    await this.#driver.transact([{ sql: deleteConnectionSql, params }]);
  }

  async readTenant(): Promise<TenantRecord> {
    const statement = { sql: selectTenantSql, params: [this.tenantId] };
    const tenant = await this.#one(statement, decodeTenant);
    if (tenant === undefined) throw noTenant(this.tenantId);
    return tenant;
  }

  async updateTenant(change: TenantChange, audit?: readonly NewAuditEntry[]): Promise<boolean> {
    const unit = [...updateTenant(this.tenantId, change), ...insertAudit(this.tenantId, audit)];
    const { ok } = await this.#driver.transact(unit);
    if (ok) this.#notifyTenant();
    else await this.readTenant();
    if (!ok && change.expectedSettings === undefined) throw noTenant(this.tenantId);
    return ok;
  }

  async listKeys(page: Page): Promise<KeyRecord[]> {
    return this.#all(selectKeys(this.tenantId, page), decodeKey);
  }

  async readKey(keyId: string): Promise<KeyRecord | undefined> {
    return this.#one({ sql: selectKeySql, params: [this.tenantId, keyId] }, decodeKey);
  }

  async revokeKey(keyId: string, at: number, audit?: readonly NewAuditEntry[]): Promise<boolean> {
    return this.#changeAccount(revokeKey(this.tenantId, keyId, at), audit);
  }

  async putCredential(record: CredentialRecord, audit?: readonly NewAuditEntry[]): Promise<void> {
    await this.#changeAccount(putCredential(this.tenantId, record), audit);
  }

  async readCredential(provider: string): Promise<CredentialRecord | undefined> {
    return this.#one(selectCredential(this.tenantId, provider), decodeCredential);
  }

  async listCredentials(): Promise<CredentialRecord[]> {
    return this.#all({ sql: selectCredentialsSql, params: [this.tenantId] }, decodeCredential);
  }

  async deleteCredential(provider: string, audit?: readonly NewAuditEntry[]): Promise<boolean> {
    return this.#changeAccount(deleteCredential(this.tenantId, provider), audit);
  }

  async addMemory(record: MemoryRecord, once?: string): Promise<MemoryRecord> {
    const { tenantId } = this;
    const result = await this.#driver.transact([insertMemory(tenantId, record, once)]);
    if (result.ok) return record;
    const stored =
      once === undefined
        ? undefined
        : await this.#one(selectMemoryOnce(tenantId, once), decodeMemory);
    if (stored === undefined) throw new RelayError('storage_failed', 'The memory was not stored');
    return stored;
  }

  async listMemories(filter: MemoryFilter, page: Page): Promise<MemoryRecord[]> {
    return this.#all(selectMemories(this.tenantId, filter, page), decodeMemory);
  }

  searchMemories(search: MemorySearch): Promise<FoundMemory[]> {
    return searchMemories(this.#driver, this.tenantId, search);
  }

  async deleteMemory(memoryId: string, within?: { readonly namespace: string }): Promise<boolean> {
    return this.#change(deleteMemory(this.tenantId, memoryId, within));
  }

  async clearMemories(namespace: string, limit: number): Promise<number> {
    const unit = [clearMemories(this.tenantId, namespace, limit)];
    const result = await this.#driver.transact(unit);
    this.vectors.evict(namespace);
    return changesIn(result);
  }

  /** Locks the run's row first, as an append does: all units lock in the same order. */
  async #postCommand(
    runId: string,
    queued: QueuedRunCommand,
    statements: readonly Statement[],
  ): Promise<boolean> {
    const run = { tenantId: this.tenantId, runId };
    const unit = [insertCommand(this.#driver.dialect, run, queued), ...statements];
    const { ok } = await this.#driver.transact(unit, { run: runId });
    if (ok) this.#notifyRun('wake', runId);
    return ok;
  }

  async #change(statement: Statement, audit?: readonly NewAuditEntry[]): Promise<boolean> {
    const unit = [statement, ...insertAudit(this.tenantId, audit)];
    return (await this.#driver.transact(unit)).ok;
  }

  /** For changes that other nodes must see at once. */
  async #changeAccount(statement: Statement, audit?: readonly NewAuditEntry[]): Promise<boolean> {
    const changed = await this.#change(statement, audit);
    if (changed) this.#notifyTenant();
    return changed;
  }

  #notifyRun(kind: 'run' | 'wake', runId: string): void {
    this.#notify({ kind, tenantId: this.tenantId, runId });
  }

  #notifyTenant(): void {
    this.#notify({ kind: 'tenant', tenantId: this.tenantId });
  }

  #notify(...hints: readonly Hint[]): void {
    for (const hint of hints) this.#driver.hints?.send(encodeHint(hint));
  }

  #one<Value>(statement: Statement, decode: (row: Row) => Value): Promise<Value | undefined> {
    return readOne(this.#driver, statement, decode);
  }

  #all<Value>(statement: Statement, decode: (row: Row) => Value): Promise<Value[]> {
    return readAll(this.#driver, statement, decode);
  }

  #select({ sql, params }: Statement): Promise<readonly Row[]> {
    return this.#driver.read(sql, params);
  }
}
