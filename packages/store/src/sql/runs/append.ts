/**
 * An append as one unit. Its first statement is the fence (E3): it changes the run's row only if the
 * journal ends at the expected `seq`, the epoch is the writer's and the lease is not released. Otherwise
 * nothing is stored.
 */
import type { Append, AppendOutcome } from '@relay/core';
import { isEnded } from '@relay/protocol';
import type { RowSigner } from '../../codec/signed-table.ts';
import type { Statement, UnitScope, UnitResult } from '../../drivers/driver.ts';
import { insertAudit } from '../tenants/audit.ts';
import { closeClientCalls, insertClientCall, timeOutClientCall } from './client-calls.ts';
import { countEnding, countUsage } from './counts.ts';
import { insertEvents } from './events.ts';
import type { GrantUses } from '../tenants/grants.ts';
import { deleteCommands, deleteCommand } from './inbox.ts';
import { insertMemory } from '../memories/memories.ts';
import { closeOpenApprovals, closeApproval, insertApproval } from './approvals.ts';
import { changesOf, putSnapshot } from './runs.ts';
import { deleteConnections } from '../system.ts';
import { insertNotices } from '../tenants/webhooks.ts';

export function appendUnit(
  signer: RowSigner,
  tenantId: string,
  append: Append,
  uses?: GrantUses,
): readonly Statement[] {
  const { runId, afterSeq, at, events, progress = {} } = append;
  const run = { tenantId, runId };
  const { answerSeq } = progress;
  const journal = insertEvents({ tenantId, runId, afterSeq, at, events, answerSeq });
  const unit: Statement[] = [fence(tenantId, append, journal.size), ...journal.statements];
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
    unit.push(...countEnding(run), countUsage(run, progress.endedAt ?? at));
    unit.push(deleteCommands(run), closeOpenApprovals(run, at), closeClientCalls(run));
    unit.push(deleteConnections(run));
  }
  unit.push(...insertAudit(tenantId, append.audit), ...insertNotices(tenantId, append.notices));
  return unit;
}

/** The rows of counts and grants are shared with other runs. */
export function appendScope(append: Append): UnitScope {
  return { run: append.runId, exclusive: endsRun(append) || (append.useGrants ?? []).length > 0 };
}

/** A used-up grant refuses the append, but its writer still holds the run. */
export function appendOutcome(
  unit: readonly Statement[],
  result: UnitResult,
  uses?: GrantUses,
): AppendOutcome {
  if (result.ok) return 'committed';
  const failed = unit[result.failedAt];
  return failed !== undefined && uses?.statements.includes(failed) === true ? 'refused' : 'fenced';
}

const fenceSqls = new Map<string, string>();

function fence(tenantId: string, append: Append, size: number): Statement {
  const { runId, afterSeq, epoch, events, progress = {} } = append;
  const changes = changesOf(runId, progress);
  const columns = changes.map(([column]) => column);
  const values = changes.map(([, value]) => value);
  return {
    sql: fenceSql(columns, {
      releases: append.release === true || endsRun(append),
      clearsCrashes: append.madeProgress === true,
    }),
    params: [afterSeq + events.length, size, ...values, tenantId, runId, afterSeq, epoch],
    expect: 1,
  };
}

/** Only what changes is written; there are few such sets, and each text is made once. */
function fenceSql(
  changed: readonly string[],
  { releases, clearsCrashes }: { releases: boolean; clearsCrashes: boolean },
): string {
  const key = `${changed.join()} ${releases} ${clearsCrashes}`;
  let sql = fenceSqls.get(key);
  if (sql === undefined) {
    const assignments = [
      'last_seq = ?',
      'journal_size = journal_size + ?',
      ...changed.map((column) => `${column} = ?`),
    ];
    if (releases) assignments.push('lease_owner = NULL', 'lease_until = 0');
    if (releases || clearsCrashes) assignments.push('crashes = 0', `crashed_nodes = ''`);
    sql = `UPDATE runs SET ${assignments.join(', ')}
      WHERE tenant_id = ? AND id = ? AND last_seq = ? AND epoch = ? AND lease_owner IS NOT NULL`;
    fenceSqls.set(key, sql);
  }
  return sql;
}

function endsRun({ progress }: Append): boolean {
  return progress?.status !== undefined && isEnded(progress.status);
}
