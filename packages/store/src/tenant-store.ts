/** The store of one tenant. Each method is one statement or one unit of the modules in `sql`. */
import type {
  ActionStore,
  Append,
  AppendOutcome,
  AuditTrail,
  CallClaim,
  ChannelStore,
  CheckpointChange,
  ClientCallRecord,
  ConversationFilter,
  ConversationRecord,
  CreationOutcome,
  CredentialRecord,
  EndedRun,
  EventRange,
  FoundMemory,
  Grant,
  GrantFilter,
  GrantedTo,
  GrantRecord,
  Hint,
  JournalPage,
  KeyRecord,
  Listed,
  QueuedRunCommand,
  MemoryFilter,
  MemoryRecord,
  MemorySearch,
  MessageStore,
  NewAuditEntry,
  NewGrant,
  OpenRuns,
  OverBudget,
  Page,
  PageRange,
  PolicyStore,
  PostedResult,
  Reserved,
  RunBudget,
  RunReservation,
  ApprovalDecision,
  ApprovalFilter,
  ApprovalRecord,
  VoteChange,
  RunCreation,
  RunFilter,
  RunHead,
  RunListing,
  RunRecord,
  RunRef,
  SessionStore,
  SessionWrite,
  StatsRange,
  TenantChange,
  TenantRecord,
  TenantStats,
  TenantStore,
  UsageScope,
  UsageTotal,
  WebhookStore,
  WorkflowTotal,
} from '@relay/core';
import { eventLoop } from '@relay/core';
import { RelayError } from '@relay/protocol';
import type { IdKind, StoredEvent } from '@relay/protocol';
import { missingText, TurnText, withText } from './codec/events.ts';
import { hintOfCommand, type HintSender, hintsOfAppend } from './codec/hints.ts';
import type { RowSigner, SignedTable } from './codec/signed-table.ts';
import type { Row, SqlAccess, Statement } from './drivers/driver.ts';
import { appendScope, appendOutcome, appendUnit } from './sql/runs/append.ts';
import { insertAudit, SqlAuditTrail } from './sql/tenants/audit.ts';
import * as clientCalls from './sql/runs/client-calls.ts';
import * as budgets from './sql/runs/budgets.ts';
import { BudgetChecks } from './sql/runs/budgets.ts';
import * as conversations from './sql/runs/conversations.ts';
import * as counts from './sql/runs/counts.ts';
import {
  creationScope,
  creationUnit,
  decodeKeyHolder,
  hasExpired,
  selectKeyHolder,
} from './sql/runs/creation.ts';
import * as credentials from './sql/tenants/credentials.ts';
import {
  addText,
  decodeJournal,
  decodeText,
  isLargerThan,
  type JournalRow,
  type OpenRow,
  selectEvents,
  selectPage,
  selectText,
  sizeOfPage,
  storeEvents,
} from './sql/runs/events.ts';
import * as grants from './sql/tenants/grants.ts';
import { decodeCommand, insertCommand, selectCommandsSql } from './sql/runs/inbox.ts';
import * as memories from './sql/memories/memories.ts';
import { SqlPolicyStore } from './sql/tenants/policies.ts';
import * as approvals from './sql/runs/approvals.ts';
import { findIds } from './sql/ids.ts';
import { readList } from './sql/lists.ts';
import {
  decodeListing,
  runLists,
  selectAnswers,
  selectRuns,
  statusesOf,
} from './sql/runs/run-lists.ts';
import { decodeRun, decodeRunHead, replaceCheckpoint, selectRunSql } from './sql/runs/runs.ts';
import { readStats } from './sql/runs/statistics.ts';
import { changesIn, readAll, readLong, readOne } from './sql/statements.ts';
import { deleteConnectionSql, selectConnectionSql } from './sql/system.ts';
import { number, text } from './codec/values.ts';
import * as tenants from './sql/tenants/tenants.ts';
import type { SignBitCache } from './search/sign-bit-cache.ts';
import { SqlVectorStore } from './sql/memories/vectors.ts';
import { insertNotices, SqlWebhookStore } from './sql/tenants/webhooks.ts';
import { SqlActionStore } from './sql/sessions/actions.ts';
import { SqlChannelStore } from './sql/sessions/channels.ts';
import { hintsOfWrite, SqlMessageStore, SqlSessionStore } from './sql/sessions/store.ts';
import { SessionStatements } from './sql/sessions/write.ts';

interface TenantStoreParts {
  readonly driver: SqlAccess;
  readonly signer: RowSigner;
  readonly signs: SignBitCache;
  readonly hints: HintSender;
}

export class SqlTenantStore implements TenantStore {
  readonly tenantId: string;
  readonly audit: AuditTrail;
  readonly policies: PolicyStore;
  readonly webhooks: WebhookStore;
  readonly vectors: SqlVectorStore;
  readonly sessions: SessionStore;
  readonly messages: MessageStore;
  readonly channels: ChannelStore;
  readonly actions: ActionStore;
  readonly #driver: SqlAccess;
  readonly #signer: RowSigner;
  readonly #hints: HintSender;
  /** The ends of journals, for their writers. */
  readonly #openRows = new WeakMap<object, OpenRow>();

  /** `signer` and `signs` are shared by all tenants. */
  constructor(tenantId: string, { driver, signer, signs, hints }: TenantStoreParts) {
    this.#driver = driver;
    this.#signer = signer;
    this.#hints = hints;
    this.tenantId = tenantId;
    this.audit = new SqlAuditTrail(driver, tenantId);
    this.policies = new SqlPolicyStore(driver, signer, tenantId);
    this.webhooks = new SqlWebhookStore(driver, signer, tenantId);
    this.vectors = new SqlVectorStore(driver, signs, tenantId);
    this.sessions = new SqlSessionStore(tenantId, { driver, signer, hints });
    this.messages = new SqlMessageStore(tenantId, { driver, signer, hints });
    this.channels = new SqlChannelStore(driver, signer, tenantId);
    this.actions = new SqlActionStore(driver, signer, tenantId);
  }

  async createRun(creation: RunCreation): Promise<CreationOutcome> {
    const { tenantId } = this;
    const { identity, idempotency } = creation;
    if (identity.tenantId !== tenantId) {
      throw new RelayError('internal', 'A run can only be made in its own tenant');
    }
    const { dialect } = this.#driver;
    const checks = new BudgetChecks(dialect, tenantId, creation.budgets ?? []);
    const session = this.#sessionStatements(creation.session);
    const unit = [
      ...creationUnit(dialect, tenantId, creation),
      ...(session?.statements ?? []),
      ...checks.statements,
    ];
    const result = await this.#driver.transact(unit, creationScope(creation));
    if (result.ok) {
      this.#notifyRun('run', identity.id);
      if (creation.lease === null) this.#notifyRun('wake', identity.id);
      if (creation.session !== undefined) this.#notify(...hintsOfWrite(tenantId, creation.session));
      return { kind: 'created' };
    }
    if (session?.failureOf(unit[result.failedAt]) !== undefined) return { kind: 'conflict' };
    const overBudget = checks.outcomeOf(unit[result.failedAt]);
    if (overBudget !== undefined) return overBudget;
    if (unit[result.failedAt]?.sql === conversations.ownConversationSql)
      return { kind: 'not-owner' };
    const key = idempotency?.key;
    const holder =
      key === undefined
        ? undefined
        : await this.#one(selectKeyHolder(tenantId, key), decodeKeyHolder);
    if (holder === undefined) throw new RelayError('storage_failed', 'The run was not stored');
    return { kind: 'exists', runId: holder.holderId, fingerprint: holder.fingerprint };
  }

  async findIdempotencyKey(key: string, now: number) {
    const [row] = await this.#select(selectKeyHolder(this.tenantId, key));
    if (row === undefined || hasExpired(row, now)) return undefined;
    const { holderId: runId, fingerprint } = decodeKeyHolder(row);
    return { runId, fingerprint };
  }

  async readRun(runId: string): Promise<RunRecord | undefined> {
    return this.#one({ sql: selectRunSql, params: [this.tenantId, runId] }, decodeRun);
  }

  async readRunHead(runId: string): Promise<RunHead | undefined> {
    return this.#one({ sql: selectRunSql, params: [this.tenantId, runId] }, decodeRunHead);
  }

  async listRuns(filter: RunFilter, page: Page): Promise<Listed<RunListing>> {
    if (statusesOf(filter)?.length === 0) return { items: [], next: null };
    const lists = runLists(this.tenantId, filter);
    const { items: rows, ...rest } = await readList(this.#driver, lists, page, selectRuns);
    const answers = selectAnswers(this.tenantId, rows);
    const parts = answers === undefined ? [] : await this.#select(answers);
    const byRun = Map.groupBy(parts, (part) => text(part, 'run_id'));
    const items = rows.map((row) => decodeListing(row, byRun.get(text(row, 'id')) ?? []));
    return { items, ...rest };
  }

  async append(append: Append): Promise<AppendOutcome> {
    let outcome: AppendOutcome;
    let uses: grants.GrantUses | undefined;
    const { dialect } = this.#driver;
    const decision =
      append.decision === undefined ? [] : await this.#decisionStatements(append.decision);
    if (decision === undefined) return 'fenced';
    const journal = this.#journalOf(append);
    // Repeated if another append used a grant first and it has uses left.
    do {
      uses = append.useGrants?.length ? await this.#grantUses(append) : undefined;
      const tools = { dialect, signer: this.#signer };
      const session = this.#sessionStatements(append.session);
      const run = appendUnit(tools, this.tenantId, append, { uses, journal, decision });
      const unit = session === undefined ? run : [...run, ...session.statements];
      const result = await this.#driver.transact(unit, appendScope(append));
      outcome = appendOutcome(unit, result, { uses, session });
    } while (outcome === 'refused' && uses?.available === true);
    if (outcome === 'committed') this.#keepOpenRow(append, journal);
    if (outcome === 'committed') {
      if (this.#driver.hints !== undefined) this.#notify(...hintsOfAppend(this.tenantId, append));
      if (append.session !== undefined)
        this.#notify(...hintsOfWrite(this.tenantId, append.session));
    }
    return outcome;
  }

  #journalOf({ runId, afterSeq, at, events, progress = {}, writer }: Append): JournalRow {
    const open = writer === undefined ? undefined : this.#openRows.get(writer);
    const batch = { afterSeq, at, events, answerSeq: progress.answerSeq };
    return storeEvents({ tenantId: this.tenantId, runId }, batch, open);
  }

  #keepOpenRow({ writer }: Append, { open }: JournalRow): void {
    if (writer === undefined) return;
    if (open === undefined) this.#openRows.delete(writer);
    else this.#openRows.set(writer, open);
  }

  #sessionStatements(write: SessionWrite | undefined): SessionStatements | undefined {
    if (write === undefined) return undefined;
    const { dialect } = this.#driver;
    return new SessionStatements({ dialect, signer: this.#signer, tenantId: this.tenantId }, write);
  }

  async #grantUses({ useGrants: ids = [], at }: Append): Promise<grants.GrantUses> {
    const rows = await this.#select(grants.selectGrantsById(this.tenantId, ids));
    return grants.useGrants(this.#signer, rows, { ids, at });
  }

  async readEvents(runId: string, range: EventRange): Promise<StoredEvent[]> {
    return (await this.readPage(runId, { ...range, maxBytes: Number.MAX_SAFE_INTEGER })).events;
  }

  async readPage(runId: string, range: PageRange): Promise<JournalPage> {
    const run = { tenantId: this.tenantId, runId };
    let rows = await this.#select(selectEvents(run, range));
    if (isLargerThan(range, rows)) rows = await this.#select(selectPage(run, range));
    // Many readers of long journals do not delay what else waits for the event loop.
    await eventLoop.take(sizeOfPage(rows));
    const page = decodeJournal(run, range, rows);
    const { events } = page;
    const turnSeq = missingText(events);
    if (turnSeq === undefined) return page;
    return { ...page, events: withText(events, await this.#textOfTurn(run, turnSeq, rows)) };
  }

  /** `page`: rows that end after the turn. What follows the turn is not read. */
  async #textOfTurn(run: RunRef, turnSeq: number, page: readonly Row[]): Promise<string> {
    const [first] = page;
    if (first !== undefined && number(first, 'first_seq') <= turnSeq) {
      return decodeText(run, turnSeq, page);
    }
    const turn = new TurnText(turnSeq);
    while (!turn.hasEnded) {
      const rows = await this.#select(selectText(run, turn.next));
      if (rows.length === 0 && turn.hasStarted) break;
      await eventLoop.take(sizeOfPage(rows));
      addText(run, turn, rows);
    }
    return turn.text;
  }

  async readWorkflow(workflowId: string): Promise<WorkflowTotal | undefined> {
    return counts.decodeWorkflow(
      await this.#select(counts.selectWorkflow(this.tenantId, workflowId)),
    );
  }

  async readUsage(scope: UsageScope & { readonly since: number }): Promise<UsageTotal> {
    const [row] = await this.#select(counts.selectUsage(this.tenantId, scope));
    return counts.decodeUsageTotal(row ?? {});
  }

  async countOpenRuns(scope: UsageScope): Promise<OpenRuns> {
    const [row = {}] = await this.#select(counts.selectOpenRuns(this.tenantId, scope));
    return counts.decodeOpenRuns(row);
  }

  async readStats(range: StatsRange): Promise<TenantStats> {
    const { queued, running, waiting } = await this.countOpenRuns({});
    const of = { tenantId: this.tenantId, ...range };
    return readStats(this.#driver, of, queued + running + waiting);
  }

  async listDecisions(
    status: 'approved' | 'denied',
    range: Pick<StatsRange, 'since' | 'until'>,
    limit: number,
  ): Promise<ApprovalRecord[]> {
    const statement = approvals.selectDecisions(this.tenantId, status, range, limit);
    const rows = await readLong(this.#driver, statement);
    return rows.map((row) => approvals.decodeApproval(this.#signer, row));
  }

  async readBudgetUse(budget: RunBudget, exceptRunId: string): Promise<Reserved> {
    const [row] = await this.#select(budgets.selectUse(this.tenantId, budget, exceptRunId));
    return budgets.decodeUse(row ?? {});
  }

  async reserve(reservation: RunReservation): Promise<'reserved' | 'fenced' | OverBudget> {
    const { tenantId } = this;
    const checks = new BudgetChecks(this.#driver.dialect, tenantId, reservation.budgets);
    const unit = [budgets.updateReserved(tenantId, reservation), ...checks.statements];
    const scope = { run: reservation.runId, exclusive: true };
    const result = await this.#driver.transact(unit, scope);
    return result.ok ? 'reserved' : (checks.outcomeOf(unit[result.failedAt]) ?? 'fenced');
  }

  async readApproval(approvalId: string): Promise<ApprovalRecord | undefined> {
    const row = await this.#approvalRow(approvalId);
    return row === undefined ? undefined : approvals.decodeApproval(this.#signer, row);
  }

  async #approvalRow(approvalId: string): Promise<Row | undefined> {
    return (await this.#driver.read(approvals.selectApprovalSql, [this.tenantId, approvalId]))[0];
  }

  async listApprovals(filter: ApprovalFilter, page: Page): Promise<Listed<ApprovalRecord>> {
    const lists = approvals.approvalLists(this.tenantId, filter);
    const { selectApprovals, decodeApproval } = approvals;
    const { items, ...rest } = await readList(this.#driver, lists, page, selectApprovals);
    return { items: items.map((row) => decodeApproval(this.#signer, row)), ...rest };
  }

  async decideApproval(decision: ApprovalDecision): Promise<boolean> {
    const { runId, queued, approvalId } = decision;
    const statements = await this.#decisionStatements(decision);
    if (statements === undefined) return false;
    const accepted = await this.#postCommand(runId, queued, statements);
    if (accepted) this.#notify({ kind: 'approval', tenantId: this.tenantId, approvalId });
    return accepted;
  }

  /** A decision with its grant, audit entries and notices; `undefined` if there is no such approval. */
  async #decisionStatements(decision: ApprovalDecision): Promise<Statement[] | undefined> {
    const { grant, approvalId, votes } = decision;
    const { tenantId } = this;
    const row = votes === undefined ? undefined : await this.#approvalRow(approvalId);
    if (votes !== undefined && row === undefined) return undefined;
    const voted =
      votes === undefined || row === undefined
        ? undefined
        : approvals.voted(this.#signer, row, { votes });
    return [
      approvals.storeDecision({ tenantId, runId: decision.runId }, decision, voted),
      ...(grant === undefined ? [] : [grants.insertGrant(this.#signer, tenantId, grant)]),
      ...insertAudit(tenantId, decision.audit),
      ...insertNotices(tenantId, decision.notices),
    ];
  }

  async changeVotes(change: VoteChange): Promise<boolean> {
    const { tenantId } = this;
    const { approvalId, votes, ballot } = change;
    const row = await this.#approvalRow(approvalId);
    if (row === undefined) return false;
    const voted = approvals.voted(this.#signer, row, { votes, ballot: ballot + 1 });
    const unit = [
      approvals.updateVotes(tenantId, change, voted),
      ...insertAudit(tenantId, change.audit),
      ...insertNotices(tenantId, change.notices),
    ];
    const { ok } = await this.#driver.transact(unit);
    if (ok) this.#notify({ kind: 'approval', tenantId, approvalId: change.approvalId });
    return ok;
  }

  async readGrants(scope: GrantedTo & { readonly now: number }): Promise<Grant[]> {
    const rows = await this.#select(grants.selectGrants(this.tenantId, scope));
    return rows.flatMap((row) => grants.decodeGrant(this.#signer, row));
  }

  async readClientCall(runId: string, toolCallId: string): Promise<ClientCallRecord | undefined> {
    const run = { tenantId: this.tenantId, runId };
    return this.#one(clientCalls.selectClientCall(run, toolCallId), clientCalls.decodeClientCall);
  }

  async postResult(posted: PostedResult): Promise<boolean> {
    const { runId, queued } = posted;
    return this.#postCommand(runId, queued, [clientCalls.answerClientCall(this.tenantId, posted)]);
  }

  async claimCall(claim: CallClaim): Promise<boolean> {
    return this.#change(clientCalls.claimClientCall(this.tenantId, claim));
  }

  async addGrant(grant: NewGrant, audit?: readonly NewAuditEntry[]): Promise<void> {
    await this.#change(grants.insertGrant(this.#signer, this.tenantId, grant), audit);
  }

  async readGrant(grantId: string): Promise<GrantRecord | undefined> {
    const rows = await this.#driver.read(grants.selectGrantSql, [this.tenantId, grantId]);
    return rows.flatMap((row) => grants.decodeGrantRecord(this.#signer, row))[0];
  }

  async listGrants(filter: GrantFilter, page: Page): Promise<GrantRecord[]> {
    const rows = await this.#select(grants.selectGrantList(this.tenantId, filter, page));
    return rows.flatMap((row) => grants.decodeGrantRecord(this.#signer, row));
  }

  async revokeGrant(
    grantId: string,
    at: number,
    audit?: readonly NewAuditEntry[],
  ): Promise<boolean> {
    const statement = { sql: grants.selectGrantSql, params: [this.tenantId, grantId] };
    return this.#revoke(grants.grantTable, statement, at, audit);
  }

  async replaceCheckpoint(runId: string, change: CheckpointChange): Promise<boolean> {
    const statement = replaceCheckpoint({ tenantId: this.tenantId, runId }, change);
    return (await this.#driver.transact([statement], { run: runId })).ok;
  }

  async postRunCommand(
    runId: string,
    queued: QueuedRunCommand,
    audit?: readonly NewAuditEntry[],
  ): Promise<boolean> {
    return this.#postCommand(runId, queued, insertAudit(this.tenantId, audit));
  }

  async readInbox(runId: string): Promise<QueuedRunCommand[]> {
    const statement = { sql: selectCommandsSql, params: [this.tenantId, runId] };
    return this.#all(statement, (row) => decodeCommand(this.#signer, row));
  }

  async readConversation(conversationId: string): Promise<ConversationRecord | undefined> {
    const params = [this.tenantId, conversationId];
    return this.#one(
      { sql: conversations.selectConversationSql, params },
      conversations.decodeConversation,
    );
  }

  async listConversations(
    filter: ConversationFilter,
    page: Page,
  ): Promise<Listed<ConversationRecord>> {
    const lists = [conversations.conversationList(this.tenantId, filter)];
    const { selectConversations } = conversations;
    const { items, ...rest } = await readList(this.#driver, lists, page, selectConversations);
    return { items: items.map(conversations.decodeConversation), ...rest };
  }

  async countEndedRuns(conversationId: string): Promise<number> {
    const statement = { sql: counts.countEndedSql, params: [this.tenantId, conversationId] };
    return (await this.#one(statement, (row) => number(row, 'ended_runs'))) ?? 0;
  }

  async endedRuns(
    conversationId: string,
    { after, upTo }: { after: number; upTo: number },
  ): Promise<EndedRun[]> {
    const params = [this.tenantId, conversationId, after, upTo];
    return this.#all({ sql: counts.selectEndedSql, params }, (row) => ({
      runId: text(row, 'id'),
      position: number(row, 'position'),
      journalSize: number(row, 'journal_size'),
    }));
  }

  findIds(kind: IdKind, match: string, limit: number): Promise<string[]> {
    return findIds(this.#driver, this.tenantId, { kind, match, limit });
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
    const statement = { sql: tenants.selectTenantSql, params: [this.tenantId] };
    const tenant = await this.#one(statement, (row) => tenants.decodeTenant(this.#signer, row));
    if (tenant === undefined) throw tenants.noTenant(this.tenantId);
    return tenant;
  }

  async updateTenant(change: TenantChange, audit?: readonly NewAuditEntry[]): Promise<boolean> {
    // Repeated if another change came first.
    for (;;) {
      const [row] = await this.#driver.read(tenants.selectTenantSql, [this.tenantId]);
      if (row === undefined) throw tenants.noTenant(this.tenantId);
      const statement = tenants.updateTenant(this.#signer, row, change);
      if (statement === undefined) return false;
      if (await this.#changeAccount(statement, audit)) return true;
    }
  }

  async listKeys(page: Page): Promise<KeyRecord[]> {
    const rows = await this.#select(tenants.selectKeys(this.tenantId, page));
    return rows.flatMap((row) => tenants.decodeKey(this.#signer, row));
  }

  async readKey(keyId: string): Promise<KeyRecord | undefined> {
    const rows = await this.#driver.read(tenants.selectKeySql, [this.tenantId, keyId]);
    return rows.flatMap((row) => tenants.decodeKey(this.#signer, row))[0];
  }

  async revokeKey(keyId: string, at: number, audit?: readonly NewAuditEntry[]): Promise<boolean> {
    const statement = { sql: tenants.selectKeySql, params: [this.tenantId, keyId] };
    const revoked = await this.#revoke(tenants.keyTable, statement, at, audit);
    if (revoked) this.#notifyTenant();
    return revoked;
  }

  async putCredential(record: CredentialRecord, audit?: readonly NewAuditEntry[]): Promise<void> {
    await this.#changeAccount(
      credentials.putCredential(this.#signer, this.tenantId, record),
      audit,
    );
  }

  async readCredential(provider: string): Promise<CredentialRecord | undefined> {
    const statement = credentials.selectCredential(this.tenantId, provider);
    return this.#one(statement, (row) => credentials.decodeCredential(this.#signer, row));
  }

  async listCredentials(): Promise<CredentialRecord[]> {
    const statement = { sql: credentials.selectCredentialsSql, params: [this.tenantId] };
    return this.#all(statement, (row) => credentials.decodeCredential(this.#signer, row));
  }

  async deleteCredential(provider: string, audit?: readonly NewAuditEntry[]): Promise<boolean> {
    return this.#changeAccount(credentials.deleteCredential(this.tenantId, provider), audit);
  }

  async addMemory(record: MemoryRecord, once?: string): Promise<MemoryRecord> {
    const { tenantId } = this;
    const result = await this.#driver.transact([memories.insertMemory(tenantId, record, once)]);
    if (result.ok) return record;
    const stored =
      once === undefined
        ? undefined
        : await this.#one(memories.selectMemoryOnce(tenantId, once), memories.decodeMemory);
    if (stored === undefined) throw new RelayError('storage_failed', 'The memory was not stored');
    return stored;
  }

  async listMemories(filter: MemoryFilter, page: Page): Promise<MemoryRecord[]> {
    return this.#all(memories.selectMemories(this.tenantId, filter, page), memories.decodeMemory);
  }

  searchMemories(search: MemorySearch): Promise<FoundMemory[]> {
    return memories.searchMemories(this.#driver, this.tenantId, search);
  }

  async deleteMemory(memoryId: string, within?: { readonly namespace: string }): Promise<boolean> {
    return this.#change(memories.deleteMemory(this.tenantId, memoryId, within));
  }

  async clearMemories(namespace: string, limit: number): Promise<number> {
    const unit = [memories.clearMemories(this.tenantId, namespace, limit)];
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
    const unit = [insertCommand(this.#driver.dialect, this.#signer, run, queued), ...statements];
    const { ok } = await this.#driver.transact(unit, { run: runId });
    if (ok) this.#notify(hintOfCommand(run, queued));
    return ok;
  }

  async #change(statement: Statement, audit?: readonly NewAuditEntry[]): Promise<boolean> {
    const unit = [statement, ...insertAudit(this.tenantId, audit)];
    return (await this.#driver.transact(unit)).ok;
  }

  /** True if the row exists, is as it was written and was not revoked before. */
  async #revoke<Fields extends { readonly revokedAt?: number | null }>(
    table: SignedTable<Fields>,
    statement: Statement,
    at: number,
    audit?: readonly NewAuditEntry[],
  ): Promise<boolean> {
    // Repeated if another change came first.
    for (;;) {
      const [row] = await this.#select(statement);
      const record = row === undefined ? undefined : table.find(this.#signer, row);
      if (row === undefined || record === undefined) return false;
      if (record.revokedAt !== undefined && record.revokedAt !== null) return false;
      const revoked = { revokedAt: at } as Partial<Fields>;
      if (await this.#change(table.update(this.#signer, row, revoked), audit)) return true;
    }
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
    this.#hints.send(this.#driver.hints, hints);
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
