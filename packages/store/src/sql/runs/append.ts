/**
 * An append as one unit. Its first statement is the fence (E3): it changes the run's row only if the
 * journal ends at the expected `seq`, the epoch is the writer's and the lease is not released. Otherwise
 * nothing is stored. An append with a claim takes the lease of a free run without commands instead, and
 * the next epoch.
 */
import type { Append, AppendOutcome } from '@relay/core';
import { isEnded } from '@relay/protocol';
import type { RowSigner } from '../../codec/signed-table.ts';
import type { SqlDialect, Statement, UnitScope, UnitResult } from '../../drivers/driver.ts';
import { nowSql } from '../statements.ts';
import { insertAudit } from '../tenants/audit.ts';
import { closeClientCalls, insertClientCall, timeOutClientCall } from './client-calls.ts';
import { countEnding, countUsage, countWaiting } from './counts.ts';
import { type JournalRow } from './events.ts';
import type { GrantUses } from '../tenants/grants.ts';
import { deleteCommands, deleteCommand, expectNoCommands } from './inbox.ts';
import { insertMemory } from '../memories/memories.ts';
import { closeOpenApprovals, closeApproval, insertApproval } from './approvals.ts';
import { changesOf, putSnapshot } from './runs.ts';
import { deleteConnections } from '../system.ts';
import type { SessionStatements } from '../sessions/write.ts';
import { insertNotices } from '../tenants/webhooks.ts';

/** What an append needs to know of rows that were read before it. */
export interface AppendParts {
  readonly uses?: GrantUses | undefined;
  /** Its events. */
  readonly journal: JournalRow;
  /** Stores the decision that the append carries. */
  readonly decision?: readonly Statement[];
}

export function appendUnit(
  { dialect, signer }: { readonly dialect: SqlDialect; readonly signer: RowSigner },
  tenantId: string,
  append: Append,
  { uses, journal, decision = [] }: AppendParts,
): readonly Statement[] {
  const { runId, at, progress = {} } = append;
  const run = { tenantId, runId };
  const unit: Statement[] = [
    fence(dialect, tenantId, append, journal.growth),
    ...(append.claim === undefined ? [] : [expectNoCommands(run)]),
    ...decision,
    ...journal.statements,
  ];
  unit.push(...putSnapshot(run, progress));
  for (const approval of append.approvals ?? [])
    unit.push(insertApproval(signer, tenantId, { ...approval, runId }));
  for (const closure of append.closeApprovals ?? []) unit.push(closeApproval(run, closure));
  for (const call of append.clientCalls ?? []) unit.push(insertClientCall(run, call));
  for (const id of append.abandonedCalls ?? []) unit.push(timeOutClientCall(run, id));
  unit.push(...(uses?.statements ?? []));
  for (const commandId of append.consumeCommands ?? []) unit.push(deleteCommand(run, commandId));
  for (const memory of append.memories ?? []) unit.push(insertMemory(tenantId, memory));
  if (endsRun(append)) {
    const endedAt = progress.endedAt ?? at;
    unit.push(...countEnding(run, endedAt), ...countUsage(run, endedAt));
    unit.push(deleteCommands(run, { ofSession: append.session !== undefined }));
    unit.push(closeOpenApprovals(run, at), closeClientCalls(run), deleteConnections(run));
  }
  if (progress.status === 'waiting') unit.push(...countWaiting(run));
  unit.push(...insertAudit(tenantId, append.audit), ...insertNotices(tenantId, append.notices));
  return unit;
}

/** The rows of counts, grants and sessions are shared with other writers. */
export function appendScope(append: Append): UnitScope {
  const counts = endsRun(append) || append.progress?.status === 'waiting';
  const shares = append.session !== undefined || (append.useGrants ?? []).length > 0;
  return { run: append.runId, exclusive: counts || shares };
}

/**
 * A used-up grant or the change of a session refuses the append, but the writer still holds the run.
 */
export function appendOutcome(
  unit: readonly Statement[],
  result: UnitResult,
  { uses, session }: { uses?: GrantUses | undefined; session?: SessionStatements | undefined },
): AppendOutcome {
  if (result.ok) return 'committed';
  const failed = unit[result.failedAt];
  const refusal = session?.failureOf(failed);
  if (refusal !== undefined) return refusal === 'key' ? { kind: 'conflict' } : refusal;
  return failed !== undefined && uses?.statements.includes(failed) === true ? 'refused' : 'fenced';
}

const fenceSqls = new Map<string, string>();

function fence(dialect: SqlDialect, tenantId: string, append: Append, growth: number): Statement {
  const { runId, afterSeq, epoch, events, claim, progress = {} } = append;
  const changes = changesOf(runId, progress);
  const columns = changes.map(([column]) => column);
  const values = changes.map(([, value]) => value);
  const releases = append.release === true || endsRun(append);
  return {
    sql: fenceSql(columns, {
      releases,
      clearsCrashes: append.madeProgress === true,
      claims: claim === undefined ? undefined : dialect,
    }),
    params: [
      afterSeq + events.length,
      growth,
      ...values,
      ...(claim === undefined ? [] : [epoch]),
      ...(claim === undefined || releases ? [] : [claim.owner, claim.now, claim.until - claim.now]),
      tenantId,
      runId,
      afterSeq,
      claim === undefined ? epoch : epoch - 1,
    ],
    expect: 1,
  };
}

interface FenceOptions {
  readonly releases: boolean;
  readonly clearsCrashes: boolean;
  /** The dialect of the lease's time, if the run is claimed. */
  readonly claims: SqlDialect | undefined;
}

/** Their first value stays. */
const keptColumns = ['first_token_ms'];

/** Only what changes is written; there are few such sets, and each text is made once. */
function fenceSql(
  changed: readonly string[],
  { releases, clearsCrashes, claims }: FenceOptions,
): string {
  const key = `${changed.join()} ${releases} ${clearsCrashes} ${claims}`;
  let sql = fenceSqls.get(key);
  if (sql === undefined) {
    const assignments = [
      'last_seq = ?',
      'journal_size = journal_size + ?',
      ...changed.map(
        (column) => `${column} = ${keptColumns.includes(column) ? `COALESCE(${column}, ?)` : '?'}`,
      ),
    ];
    if (claims !== undefined) assignments.push('epoch = ?');
    if (releases) assignments.push('lease_owner = NULL', 'lease_until = 0');
    else if (claims !== undefined) {
      assignments.push('lease_owner = ?', `lease_until = ${nowSql[claims]} + ?`);
    }
    if (releases || clearsCrashes) assignments.push('crashes = 0', `crashed_nodes = ''`);
    sql = `UPDATE runs SET ${assignments.join(', ')}
      WHERE tenant_id = ? AND id = ? AND last_seq = ? AND epoch = ?
        AND ${claims === undefined ? 'lease_owner IS NOT NULL' : isFree}`;
    fenceSqls.set(key, sql);
  }
  return sql;
}

/** Nobody drives the run, and its last process did not crash. */
const isFree = 'lease_owner IS NULL AND crashes = 0';

function endsRun({ progress }: Append): boolean {
  return progress?.status !== undefined && isEnded(progress.status);
}
