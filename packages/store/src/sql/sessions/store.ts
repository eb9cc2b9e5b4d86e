import type {
  DeliveryFilter,
  EditOutcome,
  EventRange,
  Hint,
  InboxEntry,
  InboxLimit,
  Listed,
  MessageDelivery,
  MessageEdit,
  MessageEnvelope,
  MessageFilter,
  MessageKey,
  MessageReader,
  MessageRecord,
  MessageStore,
  NewAuditEntry,
  NewSession,
  Page,
  PageRange,
  SendableQuery,
  SessionChange,
  SessionCommandRecord,
  SessionCreationOutcome,
  SessionFilter,
  SessionOutcome,
  SessionPage,
  SessionRecord,
  SessionSnapshot,
  SessionRef,
  SessionStore,
  SessionStream,
  SessionWrite,
} from '@relay/core';
import { defaultInboxLimit, eventLoop, wasHandedOver } from '@relay/core';
import { defined, RelayError, type StoredSessionEvent } from '@relay/protocol';
import { hintOfCommand, type HintSender } from '../../codec/hints.ts';
import type { RowSigner } from '../../codec/signed-table.ts';
import { numberOrNull, text } from '../../codec/values.ts';
import type { Row, SqlAccess, Statement } from '../../drivers/driver.ts';
import { wordsOf } from '../../search/words.ts';
import { decodeKeyHolder, hasExpired, selectKeyHolder } from '../runs/creation.ts';
import { selectApprovalSql, voted, type VotedRow } from '../runs/approvals.ts';
import { insertCommand } from '../runs/inbox.ts';
import { readList } from '../lists.ts';
import { changesIn, readAll, readOne } from '../statements.ts';
import { insertAudit } from '../tenants/audit.ts';
import { type GrantUses, selectGrantsById, useGrants } from '../tenants/grants.ts';
import { findSessionCommand, openCommandsSql, selectCommandSql } from './commands.ts';
import * as deliveries from './deliveries.ts';
import {
  decodeSessionPage,
  decodeSnapshot,
  selectSessionPage,
  selectSnapshotSql,
  sizeOfSessionPage,
} from './journal.ts';
import * as messages from './messages.ts';
import { deleteMarked, markSession } from './retention.ts';
import * as sessions from './sessions.ts';
import { nameOfKey, SessionStatements, writeScope } from './write.ts';

/** Of one session and one write; more are not named. */
const mostDeliveries = 10;

/** What other nodes are told of a write. */
export function hintsOfWrite(
  tenantId: string,
  {
    changes,
    messages: sent = [],
    runCommands = [],
    approvals = [],
    decision,
    closures = [],
  }: SessionWrite,
): Hint[] {
  const approvalIds = [
    ...approvals.map(({ id }) => id),
    ...closures.map(({ approvalId }) => approvalId),
    ...(decision === undefined ? [] : [decision.approvalId]),
  ];
  const ids = new Set(changes.map(({ sessionId }) => sessionId));
  const ended = new Set(changes.filter(endsToken).map(({ sessionId }) => sessionId));
  return [
    ...Array.from(ids, (sessionId) => {
      const hint = { kind: 'session', tenantId, sessionId } as const;
      return ended.has(sessionId) ? { ...hint, isTokenEnded: true } : hint;
    }),
    ...sent.map(({ id: messageId, channels }) => {
      return { kind: 'message', tenantId, messageId, channels } as const;
    }),
    ...Array.from(ids, (sessionId) => hintsOfDeliveries({ tenantId, sessionId }, changes)).flat(),
    ...runCommands.map(({ runId, queued }) => hintOfCommand({ tenantId, runId }, queued)),
    ...approvalIds.map((approvalId) => ({ kind: 'approval', tenantId, approvalId }) as const),
  ];
}

function hintsOfDeliveries(
  { tenantId, sessionId }: SessionRef,
  changes: readonly SessionChange[],
): Hint[] {
  const changed = changes
    .filter((change) => change.sessionId === sessionId)
    .flatMap(({ newDeliveries = [], deliveries = [] }) => [...newDeliveries, ...deliveries]);
  const hint = { kind: 'delivery', tenantId, sessionId } as const;
  if (changed.length > mostDeliveries) return [hint];
  return [...new Set(changed.map(({ id }) => id))].map((id) => ({ ...hint, deliveryId: id }));
}

function endsToken({ redefine, progress }: SessionChange): boolean {
  return redefine?.tokenHash !== undefined || typeof progress?.releasedAt === 'number';
}

interface SessionAccessParts {
  readonly driver: SqlAccess;
  readonly signer: RowSigner;
  readonly hints: HintSender;
}

abstract class SqlSessionAccess {
  protected readonly driver: SqlAccess;
  protected readonly signer: RowSigner;
  protected readonly tenantId: string;

  readonly #hints: HintSender;

  constructor(tenantId: string, { driver, signer, hints }: SessionAccessParts) {
    this.driver = driver;
    this.signer = signer;
    this.tenantId = tenantId;
    this.#hints = hints;
  }

  /** With statements before and after it; `undone` if one of those failed. */
  protected async store(
    write: SessionWrite,
    { first = [], last = [] }: { first?: readonly Statement[]; last?: readonly Statement[] } = {},
  ): Promise<SessionOutcome | { readonly kind: 'undone' }> {
    const { driver, signer, tenantId } = this;
    const redefinitions = await this.#redefinitions(write.changes);
    if ('kind' in redefinitions) return redefinitions;
    const read = { redefinitions, voted: await this.#voted(write), uses: await this.#uses(write) };
    const context = { dialect: driver.dialect, signer, tenantId };
    const parts = new SessionStatements(context, write, read);
    const unit = [...first, ...parts.statements, ...last];
    const isAlone = first.length > 0 || last.length > 0;
    const result = await driver.transact(unit, isAlone ? undefined : writeScope(write));
    if (result.ok) {
      this.notify(...hintsOfWrite(tenantId, write));
      return { kind: 'committed', lastSeqs: parts.lastSeqs(unit, result.results) };
    }
    const failure = parts.failureOf(unit[result.failedAt]);
    if (failure !== 'key') return failure ?? { kind: 'undone' };
    const holder = await this.findHolder(write.idempotency);
    if (holder === undefined) throw new RelayError('storage_failed', 'Nothing was stored');
    return { kind: 'exists', ...holder };
  }

  async #voted({ decision }: SessionWrite): Promise<VotedRow | undefined> {
    if (decision?.votes === undefined) return undefined;
    const { approvalId, votes } = decision;
    const [row] = await this.driver.read(selectApprovalSql, [this.tenantId, approvalId]);
    return row === undefined ? undefined : voted(this.signer, row, { votes });
  }

  /** If another write uses one first, nothing of this one is stored. */
  async #uses(write: SessionWrite): Promise<GrantUses | undefined> {
    const { useGrants: ids = [], changes, invocations = [] } = write;
    if (ids.length === 0) return undefined;
    const { sql, params } = selectGrantsById(this.tenantId, ids);
    const at = changes[0]?.at ?? invocations[0]?.at ?? 0;
    return useGrants(this.signer, await this.driver.read(sql, params), { ids, at });
  }

  async #redefinitions(changes: readonly SessionChange[]) {
    const found = new Map<SessionChange, sessions.RedefinedRow>();
    for (const change of changes) {
      const { redefine, sessionId } = change;
      if (redefine === undefined) continue;
      const [row] = await this.driver.read(sessions.selectSignedSql, [this.tenantId, sessionId]);
      if (row === undefined) return { kind: 'conflict', sessionId } as const;
      found.set(change, sessions.redefined(this.signer, row, redefine));
    }
    return found;
  }

  protected async findHolder(key: Pick<MessageKey, 'sender' | 'key'> | undefined, now?: number) {
    if (key === undefined) return undefined;
    const { sql, params } = selectKeyHolder(this.tenantId, nameOfKey(key));
    const [row] = await this.driver.read(sql, params);
    if (row === undefined || (now !== undefined && hasExpired(row, now))) return undefined;
    return decodeKeyHolder(row);
  }

  protected notify(...hints: readonly Hint[]): void {
    this.#hints.send(this.driver.hints, hints);
  }

  protected one<Value>(
    sql: string,
    params: Statement['params'],
    decode: (row: Row) => Value,
  ): Promise<Value | undefined> {
    return readOne(this.driver, { sql, params: [this.tenantId, ...params] }, decode);
  }
}

function known(outcome: SessionOutcome | { readonly kind: 'undone' }): SessionOutcome {
  return outcome.kind === 'undone' ? { kind: 'conflict' } : outcome;
}

const nothing: Listed<never> = { items: [], next: null };

/** Of a deletion, per unit. */
const rowsPerUnit = 1_000;

export class SqlSessionStore extends SqlSessionAccess implements SessionStore {
  readonly #decode = (row: Row) => sessions.decodeSession(this.signer, row);

  async create(
    session: NewSession,
    also: Partial<SessionWrite> = {},
  ): Promise<SessionCreationOutcome> {
    const { id: sessionId, createdAt: at, events, definition } = session;
    const first = [
      sessions.insertSession(this.signer, this.tenantId, session),
      ...sessions.insertLabels(this.tenantId, sessionId, definition.labels),
    ];
    const changes = [{ sessionId, at, ifVersion: 0, events }, ...(also.changes ?? [])];
    const outcome = await this.store({ ...also, changes }, { first });
    if (outcome.kind === 'committed') return { kind: 'created' };
    return outcome.kind === 'undone' ? { kind: 'handle-taken' } : outcome;
  }

  read(sessionId: string): Promise<SessionRecord | undefined> {
    return this.one(sessions.selectSessionSql, [sessionId], this.#decode);
  }

  readByHandle(handle: string): Promise<SessionRecord | undefined> {
    return this.one(sessions.selectByHandleSql, [handle], this.#decode);
  }

  readReleased(handle: string): Promise<SessionRecord | undefined> {
    return this.one(sessions.selectReleasedSql, [handle], this.#decode);
  }

  readByRun(runId: string): Promise<SessionRecord | undefined> {
    return this.one(sessions.selectByRunSql, [runId], this.#decode);
  }

  async list(filter: SessionFilter, page: Page): Promise<Listed<SessionRecord>> {
    if (typeof filter.status === 'object' && filter.status.length === 0) return nothing;
    const lists = sessions.sessionLists(this.tenantId, filter);
    const { items, ...rest } = await readList(this.driver, lists, page, sessions.selectSessions);
    return { items: items.map(this.#decode), ...rest };
  }

  async change(write: SessionWrite): Promise<SessionOutcome> {
    return known(await this.store(write));
  }

  async readEvents(sessionId: string, range: EventRange): Promise<StoredSessionEvent[]> {
    const whole = { ...range, maxBytes: Number.MAX_SAFE_INTEGER };
    return (await this.readPage(sessionId, whole)).events;
  }

  async readPage(sessionId: string, range: PageRange): Promise<SessionPage> {
    const session = { tenantId: this.tenantId, sessionId };
    const { sql, params } = selectSessionPage(session, range);
    const rows = await this.driver.read(sql, params);
    // Many readers of long journals do not delay what else waits for the event loop.
    await eventLoop.take(sizeOfSessionPage(rows));
    return decodeSessionPage(session, range, rows);
  }

  openStream(sessionId: string, stream: SessionStream & { readonly at: number }): Promise<boolean> {
    return this.#update(sessionId, sessions.openStream(this.tenantId, sessionId, stream));
  }

  claimStream(
    sessionId: string,
    stream: SessionStream & { readonly at: number },
  ): Promise<boolean> {
    return this.#update(sessionId, sessions.claimStream(this.tenantId, sessionId, stream));
  }

  closeStream(
    sessionId: string,
    closed: { readonly id: string; readonly at: number; readonly dueBy: number },
  ): Promise<boolean> {
    return this.#update(sessionId, sessions.closeStream(this.tenantId, sessionId, closed));
  }

  async #update(sessionId: string, statement: Statement): Promise<boolean> {
    const scope = writeScope({ changes: [{ sessionId, at: 0, events: [] }] });
    const { ok } = await this.driver.transact([statement], scope);
    if (ok) this.notify({ kind: 'session', tenantId: this.tenantId, sessionId });
    return ok;
  }

  async openCommands(sessionId: string, limit: number): Promise<SessionCommandRecord[]> {
    const params = [this.tenantId, sessionId, limit];
    const rows = await this.driver.read(openCommandsSql, params);
    return rows.flatMap((row) => findSessionCommand(this.signer, row) ?? []);
  }

  readCommand(sessionId: string, commandId: string): Promise<SessionCommandRecord | undefined> {
    return this.one(selectCommandSql, [sessionId, commandId], (row) =>
      findSessionCommand(this.signer, row),
    );
  }

  readSnapshot(snapshotId: string): Promise<SessionSnapshot | undefined> {
    return this.one(selectSnapshotSql, [snapshotId], decodeSnapshot);
  }

  async remove(
    sessionId: string,
    { at, audit }: { readonly at: number; readonly audit?: readonly NewAuditEntry[] },
  ): Promise<boolean> {
    const session = { tenantId: this.tenantId, sessionId };
    const { ok } = await this.driver.transact([
      markSession(this.tenantId, sessionId, at),
      ...deleteMarked(rowsPerUnit, session),
      ...insertAudit(this.tenantId, audit),
    ]);
    if (!ok) return false;
    this.notify({ kind: 'session', ...session, isTokenEnded: true });
    const step = async () =>
      changesIn(await this.driver.transact(deleteMarked(rowsPerUnit, session)));
    while ((await step()) > 0);
    return true;
  }
}

export class SqlMessageStore extends SqlSessionAccess implements MessageStore {
  read(messageId: string, visibleTo?: MessageReader): Promise<MessageRecord | undefined> {
    const statement = messages.selectMessage(this.tenantId, messageId, visibleTo);
    return readOne(this.driver, statement, messages.decodeMessage);
  }

  channelsOf(messageId: string): Promise<string[]> {
    const statement = { sql: messages.channelsSql, params: [this.tenantId, messageId] };
    return readAll(this.driver, statement, (row) => text(row, 'place').slice(1));
  }

  received(sessionId: string, limit: number): Promise<MessageEnvelope[]> {
    const params = [this.tenantId, sessionId, limit, this.tenantId];
    return readAll(this.driver, { sql: messages.receivedSql, params }, messages.decodeEnvelope);
  }

  async list(filter: MessageFilter, page: Page): Promise<Listed<MessageRecord>> {
    const { query } = filter;
    if (query !== undefined && wordsOf(query).length === 0) return nothing;
    // A search is one statement, whatever else is asked for.
    const lists = messages.messageLists(this.tenantId, query === undefined ? filter : {});
    const select = messages.messageSelector(this.driver.dialect, filter);
    // The lists have neither the words of a search nor what a session may see.
    const isListed = query === undefined && filter.visibleTo === undefined;
    const { countUpTo: _, ...uncounted } = page;
    const counted = isListed ? page : uncounted;
    const { items, ...rest } = await readList(this.driver, lists, counted, select);
    return { items: items.map(messages.decodeMessage), ...rest };
  }

  async participants(threadId: string): Promise<string[]> {
    const statement = messages.selectParticipants(this.tenantId, threadId);
    const found = await readAll(this.driver, statement, (row) =>
      messages.participantOf(text(row, 'place'), threadId),
    );
    return [...new Set(found)].toSorted();
  }

  findKey(key: Pick<MessageKey, 'sender' | 'key'>, now: number) {
    return this.findHolder(key, now);
  }

  async edit(edit: MessageEdit, limit: InboxLimit = defaultInboxLimit): Promise<EditOutcome> {
    const { driver, tenantId } = this;
    const { messageId, at, text: content, attachments, mode, audit, due = [], ifVersions } = edit;
    let { runCommands = [] } = edit;
    // Repeated if another edit came first, or a run has ended.
    for (;;) {
      const [row] = await driver.read(messages.selectMessageSql, [tenantId, messageId]);
      const message = row === undefined ? undefined : messages.decodeMessage(row);
      if (row === undefined || message === undefined || message.withdrawnAt !== null)
        return 'missing';
      const stored = await this.deliveriesOf(messageId);
      if (stored.some(wasHandedOver)) return 'delivered';
      const changes = defined({ text: content, attachments, mode });
      const edited = { ...message, ...changes, editedAt: at };
      const { statement, bytes } = messages.editMessage(tenantId, row, edited);
      const recipients = [...new Set(stored.map(({ sessionId }) => sessionId))].toSorted();
      const full = recipients.map((sessionId) =>
        deliveries.expectSpace({ tenantId, sessionId }, limit),
      );
      const locks = recipients.map((sessionId) =>
        sessions.countChange(tenantId, sessionId, ifVersions?.get(sessionId)),
      );
      const commands = runCommands
        .toSorted((a, b) => (a.runId < b.runId ? -1 : 1))
        .map((command) => ({
          ...command,
          statement: insertCommand(
            driver.dialect,
            this.signer,
            { tenantId, runId: command.runId },
            command.queued,
          ),
        }));
      const unit = [
        ...commands.map((command) => command.statement),
        ...locks,
        ...due.map(({ sessionId, dueBy }) => sessions.makeDue(tenantId, sessionId, dueBy)),
        ...deliveries.editDeliveries(tenantId, messageId, { bytes, mode: mode ?? null }),
        ...full,
        statement,
        ...messages.replaceMentions(driver.dialect, tenantId, edited),
        ...insertAudit(tenantId, audit),
      ];
      const result = await driver.transact(unit);
      if (result.ok) {
        const changes = recipients.map((sessionId) => ({ sessionId, at, events: [] }));
        this.notify(...hintsOfWrite(tenantId, { changes, runCommands }));
        this.notify({ kind: 'message', tenantId, messageId });
        return 'edited';
      }
      const failed = unit[result.failedAt];
      const late = commands.find((command) => command.statement === failed);
      runCommands = runCommands.filter(({ runId }) => runId !== late?.runId);
      if (failed !== undefined && full.includes(failed)) return 'inbox-full';
      if (failed !== undefined && locks.includes(failed)) return 'conflict';
    }
  }

  async withdraw(messageId: string, at: number, write: SessionWrite): Promise<SessionOutcome> {
    const last = [
      messages.withdrawMessage(this.tenantId, messageId, at),
      deliveries.expectFailed(this.tenantId, messageId),
    ];
    const outcome = known(await this.store(write, { last }));
    if (outcome.kind === 'committed') {
      this.notify({ kind: 'message', tenantId: this.tenantId, messageId });
    }
    return outcome;
  }

  readDelivery(deliveryId: string): Promise<MessageDelivery | undefined> {
    return this.one(deliveries.selectDeliverySql, [deliveryId], deliveries.decodeDelivery);
  }

  deliveriesOf(messageId: string): Promise<MessageDelivery[]> {
    const statement = { sql: deliveries.selectOfMessageSql, params: [this.tenantId, messageId] };
    return readAll(this.driver, statement, deliveries.decodeDelivery);
  }

  async listDeliveries(filter: DeliveryFilter, page: Page): Promise<Listed<MessageDelivery>> {
    const lists = deliveries.deliveryLists(this.tenantId, filter);
    const { selectDeliveries } = deliveries;
    const { items, ...rest } = await readList(this.driver, lists, page, selectDeliveries);
    return { items: items.map(deliveries.decodeDelivery), ...rest };
  }

  inbox(sessionId: string, range: EventRange): Promise<InboxEntry[]> {
    return this.#entries(deliveries.inboxSql, sessionId, range);
  }

  unconsumed(sessionId: string, range: EventRange): Promise<InboxEntry[]> {
    return this.#entries(deliveries.unconsumedSql, sessionId, range);
  }

  #entries(sql: string, sessionId: string, range: EventRange): Promise<InboxEntry[]> {
    const session = { tenantId: this.tenantId, sessionId };
    const statement = deliveries.selectEntries(sql, session, range);
    return readAll(this.driver, statement, deliveries.decodeEntry);
  }

  sendable(sessionId: string, query: SendableQuery): Promise<InboxEntry[]> {
    const session = { tenantId: this.tenantId, sessionId };
    const statement = deliveries.selectSendable(session, query);
    return readAll(this.driver, statement, deliveries.decodeEntry);
  }

  async nextAvailable(sessionId: string, now: number): Promise<number | undefined> {
    const params = [sessionId, now];
    const decode = (row: Row) => numberOrNull(row, 'available_at');
    return (await this.one(deliveries.nextAvailableSql, params, decode)) ?? undefined;
  }
}
