/**
 * A `SessionWrite` as statements of a unit. Rows are locked in one order, so that units do not deadlock: of
 * a message's key, of runs, of usage, then of sessions in the order of their ids. What belongs to a session is changed
 * while its row is locked.
 */
import {
  defaultInboxLimit,
  type SessionChange,
  type SessionRefusal,
  type SessionWrite,
} from '@relay/core';
import { RelayError } from '@relay/protocol';
import type { RowSigner } from '../../codec/signed-table.ts';
import { number } from '../../codec/values.ts';
import type { SqlDialect, Statement, StatementResult, UnitScope } from '../../drivers/driver.ts';
import { countReported } from '../runs/counts.ts';
import { sweepKeys, takeKey } from '../runs/creation.ts';
import { deleteCommand, insertCommand } from '../runs/inbox.ts';
import { closeApproval, insertApproval, storeDecision, type VotedRow } from '../runs/approvals.ts';
import { insertAudit } from '../tenants/audit.ts';
import { type GrantUses, insertGrant } from '../tenants/grants.ts';
import { insertNotices } from '../tenants/webhooks.ts';
import { changeInvocation, insertInvocation } from './actions.ts';
import { answerCommand, insertSessionCommand } from './commands.ts';
import { changeDelivery, expectNotWithdrawn, expectSpace, insertDelivery } from './deliveries.ts';
import { insertSessionEvents, insertSnapshot } from './journal.ts';
import { insertMessage } from './messages.ts';
import { noticeOfMessage, noticesOfChange } from './notices.ts';
import { advance, consequences, type RedefinedRow } from './sessions.ts';

export interface WriteContext {
  readonly dialect: SqlDialect;
  readonly signer: RowSigner;
  readonly tenantId: string;
}

/** Of the changes with a new definition, whose rows were read before. */
export type Redefinitions = ReadonlyMap<SessionChange, RedefinedRow>;

/** `key`: another message holds the key. */
export type FailedPart = SessionRefusal | 'key';

export class SessionStatements {
  readonly statements: Statement[] = [];
  readonly #failures = new Map<Statement, FailedPart>();
  readonly #advances = new Map<SessionChange, Statement>();
  readonly #context: WriteContext;
  readonly #write: SessionWrite;
  readonly #uses: GrantUses | undefined;

  constructor(
    context: WriteContext,
    write: SessionWrite,
    { redefinitions, voted, uses }: ReadParts = {},
  ) {
    this.#context = context;
    this.#write = write;
    this.#uses = uses;
    this.#addKey();
    this.#addRunCommands();
    this.#addMessages();
    if (write.usage !== undefined) {
      this.statements.push(countReported(context.tenantId, write.usage));
    }
    for (const change of write.changes.toSorted(byId)) {
      this.#addChange(change, redefinitions?.get(change));
    }
    this.#addOthers();
    this.#addApprovals(voted);
  }

  /** Why the unit was undone, if one of these statements has failed. */
  failureOf(statement: Statement | undefined): FailedPart | undefined {
    return statement === undefined ? undefined : this.#failures.get(statement);
  }

  /** The `seq` of the last event of each change. */
  lastSeqs(unit: readonly Statement[], results: readonly StatementResult[]): number[] {
    const byStatement = new Map(unit.map((statement, index) => [statement, results[index]]));
    return this.#write.changes.map((change) => {
      const statement = this.#advances.get(change);
      const [row] = (statement === undefined ? undefined : byStatement.get(statement))?.rows ?? [];
      return row === undefined ? 0 : number(row, 'last_seq');
    });
  }

  #add(statement: Statement, failure: FailedPart): void {
    this.statements.push(statement);
    this.#failures.set(statement, failure);
  }

  #addKey(): void {
    const { idempotency, messages = [], invocations = [], changes } = this.#write;
    const session = changes.map(({ sessionId: id, at }) => ({ id, at }))[0];
    const first = messages[0] ?? invocations[0] ?? session;
    if (idempotency === undefined || first === undefined) return;
    const { tenantId } = this.#context;
    const { id: holderId, at } = first;
    this.statements.push(sweepKeys(tenantId, at));
    const key = { ...idempotency, key: nameOfKey(idempotency) };
    this.#add(takeKey({ tenantId, holderId }, key, at), 'key');
  }

  #addRunCommands(): void {
    const { dialect, signer, tenantId } = this.#context;
    const commands = this.#write.runCommands ?? [];
    for (const { runId, queued } of commands.toSorted((a, b) => (a.runId < b.runId ? -1 : 1))) {
      const insert = insertCommand(dialect, signer, { tenantId, runId }, queued);
      this.#add(insert, { kind: 'run-ended', runId });
    }
    for (const { runId, id } of this.#write.withdrawnCommands ?? []) {
      this.statements.push(deleteCommand({ tenantId, runId }, id));
    }
  }

  #addMessages(): void {
    const { dialect, tenantId } = this.#context;
    const { messages = [], changes } = this.#write;
    for (const message of messages) {
      const receivedBy = changes
        .filter(({ newDeliveries = [] }) => newDeliveries.some((d) => d.messageId === message.id))
        .map(({ sessionId }) => sessionId);
      this.statements.push(...insertMessage(dialect, tenantId, message, receivedBy));
      this.statements.push(noticeOfMessage(dialect, tenantId, message));
    }
  }

  #addChange(change: SessionChange, redefinition: RedefinedRow | undefined): void {
    const { tenantId, dialect } = this.#context;
    const { sessionId, at, events, newDeliveries = [], deliveries = [] } = change;
    if (change.redefine !== undefined && redefinition === undefined) {
      throw new RelayError('internal', 'Only `SessionStore.change` can redefine a session');
    }
    const session = { tenantId, sessionId };
    const conflict: SessionRefusal = { kind: 'conflict', sessionId };
    const journal = insertSessionEvents(session, at, events);
    const first = advance(tenantId, change, journal, redefinition);
    this.#advances.set(change, first);
    const { ifVersion, ifStream, ifStatus } = change;
    const isConditional = (ifVersion ?? ifStream ?? ifStatus) !== undefined;
    this.#add(first, isConditional ? conflict : { kind: 'gone', sessionId });
    this.statements.push(...journal.statements, ...consequences(tenantId, change));
    this.statements.push(...noticesOfChange(tenantId, change));
    for (const each of newDeliveries) this.#add(insertDelivery(session, change, each), conflict);
    for (const each of deliveries) this.#add(changeDelivery(session, change, each), conflict);
    const requeued = deliveries.filter(({ isRequeued }) => isRequeued);
    for (const { id } of requeued) this.#add(expectNotWithdrawn(dialect, tenantId, id), conflict);
    if (newDeliveries.length === 0 && requeued.length === 0) return;
    const { inboxLimit = defaultInboxLimit } = this.#write;
    this.#add(expectSpace(session, inboxLimit), { kind: 'inbox-full', sessionId });
  }

  #addOthers(): void {
    const { tenantId, signer } = this.#context;
    const { snapshots, commands, answers, invocations, invocationChanges } = this.#write;
    this.statements.push(
      ...(snapshots ?? []).map((snapshot) => insertSnapshot(tenantId, snapshot)),
      ...(commands ?? []).map((command) => insertSessionCommand(signer, tenantId, command)),
      ...(invocations ?? []).map((invocation) => insertInvocation(tenantId, invocation)),
    );
    for (const answer of answers ?? []) {
      const { sessionId } = answer;
      this.#add(answerCommand(tenantId, answer), { kind: 'conflict', sessionId });
    }
    for (const change of invocationChanges ?? []) {
      this.#add(changeInvocation(tenantId, change), { kind: 'conflict' });
    }
    const { audit, notices } = this.#write;
    this.statements.push(...insertAudit(tenantId, audit), ...insertNotices(tenantId, notices));
  }

  #addApprovals(voted: VotedRow | undefined): void {
    const { tenantId, signer } = this.#context;
    const { approvals = [], decision, closures = [] } = this.#write;
    const conflict: SessionRefusal = { kind: 'conflict' };
    for (const each of approvals) this.statements.push(insertApproval(signer, tenantId, each));
    for (const each of closures) this.#add(closeApproval({ tenantId }, each), conflict);
    for (const each of this.#uses?.statements ?? []) this.#add(each, conflict);
    if (decision === undefined) return;
    this.#add(storeDecision({ tenantId }, decision, voted), conflict);
    const { grant } = decision;
    if (grant !== undefined) this.statements.push(insertGrant(signer, tenantId, grant));
  }
}

/** Parts of a write that depend on rows that were read before. */
export interface ReadParts {
  readonly redefinitions?: Redefinitions | undefined;
  /** Of the votes of a decision. */
  readonly voted?: VotedRow | undefined;
  /** Of counted grants. */
  readonly uses?: GrantUses | undefined;
}

function byId(one: SessionChange, other: SessionChange): number {
  return one.sessionId < other.sessionId ? -1 : one.sessionId > other.sessionId ? 1 : 0;
}

/** Not a name that a run's key can have: that is one string. */
export function nameOfKey({ sender, key }: { readonly sender: string; readonly key: string }) {
  return [sender, key] as const;
}

/**
 * Changes of one session share commits with those of runs and other sessions. Their name sorts after those
 * of all runs, because the rows of sessions are locked after those of runs.
 */
export function writeScope(write: SessionWrite): UnitScope | undefined {
  const [only, ...others] = write.changes;
  if (only === undefined) return undefined;
  const { idempotency, runCommands, withdrawnCommands, answers, invocationChanges } = write;
  const { closures, useGrants, decision, usage } = write;
  const parts = [runCommands, withdrawnCommands, answers, invocationChanges, closures, useGrants];
  const shared = parts.some((part = []) => part.length > 0);
  const isAlone = [idempotency, decision, usage].some((part) => part !== undefined);
  const exclusive = others.length > 0 || isAlone || shared;
  return { run: `~${only.sessionId}`, exclusive };
}
