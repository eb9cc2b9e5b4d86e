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
  VectorStore,
  WebhookStore,
  WorkflowTotal,
} from '@relay/core';
import { isEnded } from '@relay/protocol';
import type { StoredEvent } from '@relay/protocol';
import { decodeEvents } from '../sql/row-codec.ts';
import {
  listCredentials,
  putCredential,
  readCredential,
  readKey,
  readTenant,
  revokeKey,
  updateTenant,
} from './accounts.ts';
import { MemoryAuditTrail, putAudit, refuseTakenAudit } from './audit.ts';
import { claimCall, postResult } from './client-calls.ts';
import { grantsInScope, listGrants, putGrant, readGrant, revokeGrant } from './grants.ts';
import { listKeys, listApprovals, listRuns } from './lists.ts';
import { post } from './inbox.ts';
import {
  addMemory,
  clearMemories,
  deleteMemory,
  listMemories,
  searchMemories,
} from './memories.ts';
import { MemoryPolicyStore } from './policies.ts';
import { pruned } from './retention.ts';
import { keyOf, stored } from './state.ts';
import type { MemoryRun, MemoryState } from './state.ts';
import { append, createRun, decideApproval } from './steps.ts';
import { countOpenRuns, readUsage, readWorkflow } from './usage.ts';
import { MemoryVectorStore } from './vectors.ts';
import { MemoryWebhookStore } from './webhooks.ts';

/** Nothing here waits; `async` makes every error a rejection. */
export class MemoryTenantStore implements TenantStore {
  readonly tenantId: string;
  readonly audit: AuditTrail;
  readonly policies: PolicyStore;
  readonly webhooks: WebhookStore;
  readonly vectors: VectorStore;
  readonly #state: MemoryState;

  constructor(state: MemoryState, tenantId: string) {
    this.#state = state;
    this.tenantId = tenantId;
    this.audit = new MemoryAuditTrail(state, tenantId);
    this.policies = new MemoryPolicyStore(state, tenantId);
    this.webhooks = new MemoryWebhookStore(state, tenantId);
    this.vectors = new MemoryVectorStore(state, tenantId);
  }

  async findIdempotencyKey(key: string, now: number) {
    const holder = this.#state.idempotency.get(keyOf(this.tenantId, key));
    if (holder === undefined || holder.expiresAt <= now) return undefined;
    return { runId: holder.runId, fingerprint: holder.fingerprint };
  }

  async createRun(creation: RunCreation): Promise<CreationOutcome> {
    return createRun(this.#state, this.tenantId, creation);
  }

  async readRun(runId: string): Promise<RunRecord | undefined> {
    const run = this.#run(runId);
    return run === undefined ? undefined : stored(run.record);
  }

  async readRunHead(runId: string): Promise<RunHead | undefined> {
    return this.readRun(runId);
  }

  async listRuns(filter: RunFilter, page: Page): Promise<RunListing[]> {
    return listRuns(this.#state, this.tenantId, { filter, page });
  }

  async append(step: Append): Promise<AppendOutcome> {
    return append(this.#state, this.tenantId, step);
  }

  async readEvents(runId: string, { after, limit }: EventRange): Promise<StoredEvent[]> {
    const events: StoredEvent[] = [];
    const run = this.#run(runId);
    if (run?.pruned === true) throw pruned(runId);
    const journal = run?.journal ?? [];
    for (const { firstSeq, at, payload } of rowsAfter(journal, after)) {
      if (events.length >= limit) break;
      for (const event of decodeEvents(payload, { seq: firstSeq, at })) {
        if (event.seq > after && event.seq <= after + limit) events.push(event);
      }
    }
    return events;
  }

  async readWorkflow(workflowId: string): Promise<WorkflowTotal | undefined> {
    return readWorkflow(this.#state, this.tenantId, workflowId);
  }

  async readUsage(scope: UsageScope & { readonly since: number }): Promise<UsageTotal> {
    return readUsage(this.#state, this.tenantId, scope);
  }

  async countOpenRuns(scope: UsageScope): Promise<OpenRuns> {
    return countOpenRuns(this.#state, this.tenantId, scope);
  }

  async readApproval(approvalId: string): Promise<ApprovalRecord | undefined> {
    const approval = this.#state.approvals.get(approvalId);
    return approval?.tenantId === this.tenantId ? stored(approval.record) : undefined;
  }

  async listApprovals(filter: ApprovalFilter, page: Page): Promise<ApprovalRecord[]> {
    return listApprovals(this.#state, this.tenantId, { filter, page });
  }

  async decideApproval(decision: ApprovalDecision): Promise<boolean> {
    return decideApproval(this.#state, this.tenantId, decision);
  }

  async readGrants(scope: {
    runId: string;
    conversationId: string;
    now: number;
  }): Promise<Grant[]> {
    return grantsInScope(this.#state, this.tenantId, scope);
  }

  async addGrant(grant: NewGrant, audit?: readonly NewAudit[]): Promise<void> {
    this.#told(audit, () => putGrant(this.#state, this.tenantId, grant));
  }

  async readGrant(grantId: string): Promise<GrantRecord | undefined> {
    return readGrant(this.#state, this.tenantId, grantId);
  }

  async listGrants(filter: GrantFilter, page: Page): Promise<GrantRecord[]> {
    return listGrants(this.#state, this.tenantId, { filter, page });
  }

  async revokeGrant(grantId: string, at: number, audit?: readonly NewAudit[]): Promise<boolean> {
    return this.#told(audit, () => revokeGrant(this.#state, this.tenantId, { grantId, at }));
  }

  async readClientCall(runId: string, toolCallId: string): Promise<ClientCallRecord | undefined> {
    const call = this.#run(runId)?.clientCalls.get(toolCallId);
    return call === undefined ? undefined : stored(call.record);
  }

  async postResult(posted: PostedResult): Promise<boolean> {
    return postResult(this.#run(posted.runId), posted);
  }

  async claimCall(claim: CallClaim): Promise<boolean> {
    return claimCall(this.#run(claim.runId), claim);
  }

  async postRunCommand(
    runId: string,
    queued: QueuedRunCommand,
    audit?: readonly NewAudit[],
  ): Promise<boolean> {
    const run = this.#run(runId);
    if (run === undefined || isEnded(run.record.status)) return false;
    return this.#told(audit, () => {
      post(run, queued);
      return true;
    });
  }

  async readInbox(runId: string): Promise<QueuedRunCommand[]> {
    return stored(this.#run(runId)?.queued ?? []);
  }

  async countEndedRuns(conversationId: string): Promise<number> {
    return this.#ended(conversationId).length;
  }

  async endedRuns(
    conversationId: string,
    { after, upTo }: { after: number; upTo: number },
  ): Promise<EndedRun[]> {
    return this.#ended(conversationId)
      .map((runId, index) => ({ runId, position: index + 1 }))
      .filter(({ position }) => position > after && position <= upTo)
      .filter(({ runId }) => this.#run(runId)?.pruned === false);
  }

  async findConnection(connectionId: string): Promise<{ runId: string } | undefined> {
    const connection = this.#state.connections.get(connectionId);
    return connection?.tenantId === this.tenantId ? { runId: connection.runId } : undefined;
  }

  async closeConnection(connectionId: string): Promise<void> {
    const connection = this.#state.connections.get(connectionId);
    if (connection?.tenantId === this.tenantId) this.#state.connections.delete(connectionId);
  }

  async readTenant(): Promise<TenantRecord> {
    return readTenant(this.#state, this.tenantId);
  }

  async updateTenant(change: TenantChange, audit?: readonly NewAudit[]): Promise<boolean> {
    return this.#told(audit, () => updateTenant(this.#state, this.tenantId, change));
  }

  async listKeys(page: Page): Promise<KeyRecord[]> {
    return listKeys(this.#state, this.tenantId, page);
  }

  async readKey(keyId: string): Promise<KeyRecord | undefined> {
    return readKey(this.#state, this.tenantId, keyId);
  }

  async revokeKey(keyId: string, at: number, audit?: readonly NewAudit[]): Promise<boolean> {
    return this.#told(audit, () => revokeKey(this.#state, this.tenantId, { keyId, at }));
  }

  async putCredential(record: CredentialRecord, audit?: readonly NewAudit[]): Promise<void> {
    this.#told(audit, () => putCredential(this.#state, this.tenantId, record));
  }

  async readCredential(provider: string): Promise<CredentialRecord | undefined> {
    return readCredential(this.#state, this.tenantId, provider);
  }

  async listCredentials(): Promise<CredentialRecord[]> {
    return listCredentials(this.#state, this.tenantId);
  }

  async deleteCredential(provider: string, audit?: readonly NewAudit[]): Promise<boolean> {
    const place = keyOf(this.tenantId, provider);
    return this.#told(audit, () => this.#state.credentials.delete(place));
  }

  async addMemory(record: MemoryRecord, once?: string): Promise<MemoryRecord> {
    return addMemory(this.#state, this.tenantId, { record, once });
  }

  async listMemories(filter: MemoryFilter, page: Page): Promise<MemoryRecord[]> {
    return listMemories(this.#state, this.tenantId, { filter, page });
  }

  async searchMemories(search: MemorySearch): Promise<FoundMemory[]> {
    return searchMemories(this.#state, this.tenantId, search);
  }

  async deleteMemory(memoryId: string, within?: { readonly namespace: string }): Promise<boolean> {
    const namespace = within?.namespace;
    return deleteMemory(this.#state, this.tenantId, { memoryId, namespace });
  }

  async clearMemories(namespace: string, limit: number): Promise<number> {
    return clearMemories(this.#state, this.tenantId, { namespace, limit });
  }

  /** What does not happen is not told of either. */
  #told<Done>(audit: readonly NewAudit[] | undefined, change: () => Done): Done {
    refuseTakenAudit(this.#state, audit);
    const done = change();
    if (done !== false) putAudit(this.#state, this.tenantId, audit);
    return done;
  }

  #run(runId: string): MemoryRun | undefined {
    const run = this.#state.runs.get(runId);
    return run?.record.tenantId === this.tenantId ? run : undefined;
  }

  #ended(conversationId: string): readonly string[] {
    return this.#state.ended.get(keyOf(this.tenantId, conversationId)) ?? [];
  }
}

/** The rows are in order: finding the first one costs little, however long the journal. */
function* rowsAfter(journal: MemoryRun['journal'], after: number) {
  let low = 0;
  let high = journal.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((journal[middle]?.lastSeq ?? 0) <= after) low = middle + 1;
    else high = middle;
  }
  for (let at = low; at < journal.length; at += 1) {
    const row = journal[at];
    if (row !== undefined) yield row;
  }
}
