import {
  type QueuedRunCommand,
  type RunCommand,
  type RunRef,
  wakesSuspendedRun,
} from '@relay/core';
import type { Row, SqlDialect, Statement } from '../../drivers/driver.ts';
import { byDialect, placeholders } from '../statements.ts';
import { column } from '../../codec/records.ts';
import { type RowSigner, SignedTable } from '../../codec/signed-table.ts';

type CommandRow = RunRef & {
  readonly id: string;
  readonly kind: RunCommand['kind'];
  readonly command: RunCommand;
};

/** A command may be a decision: nobody else may turn a denial into an approval. */
export const commandTable = new SignedTable<CommandRow>({
  name: 'run_inbox',
  subject: 'The command',
  key: ['run_id', 'id'],
  codecs: {
    id: column.text(),
    kind: column.text(),
    command: column.json(),
    tenantId: column.text(),
    runId: column.text(),
  },
});

/**
 * Finds no run to write to if the run has ended. Repeating the same command changes nothing. PostgreSQL
 * locks the run's row, so that the run cannot end meanwhile.
 */
const insertSql = byDialect(
  (dialect) => `INSERT INTO run_inbox (id, kind, command, mac, wakes, tenant_id, run_id, position)
  SELECT ?, ?, ?, ?, ?, r.tenant_id, r.id,
    (SELECT COALESCE(MAX(m.position), 0) + 1 FROM run_inbox m WHERE m.run_id = r.id)
  FROM runs r
  WHERE r.tenant_id = ? AND r.id = ? AND r.status IN ('queued', 'running', 'waiting')
    ${dialect === 'sqlite' ? '' : 'FOR NO KEY UPDATE OF r'}
  ON CONFLICT (run_id, id) DO UPDATE
    SET kind = excluded.kind, command = excluded.command, mac = excluded.mac`,
);

export function insertCommand(
  dialect: SqlDialect,
  signer: RowSigner,
  { tenantId, runId }: RunRef,
  queued: QueuedRunCommand,
): Statement {
  const { kind } = queued.command;
  const values = commandTable.encode(signer, { ...queued, kind, tenantId, runId });
  const [id = '', type = '', command = '', , , mac = ''] = values;
  const wakes = wakesSuspendedRun(queued.command) ? 1 : 0;
  const params = [id, type, command, mac, wakes, tenantId, runId];
  return { sql: insertSql[dialect], params, expect: 1 };
}

/**
 * To be executed when the run's row is locked: the statement that waits for the lock does not see a command
 * that was stored meanwhile.
 */
export function expectNoCommands({ tenantId, runId }: RunRef): Statement {
  const sql = 'SELECT id FROM run_inbox WHERE tenant_id = ? AND run_id = ? LIMIT 1';
  return { sql, params: [tenantId, runId], expect: 0 };
}

export function deleteCommand({ tenantId, runId }: RunRef, commandId: string): Statement {
  const sql = 'DELETE FROM run_inbox WHERE tenant_id = ? AND run_id = ? AND id = ?';
  return { sql, params: [tenantId, runId, commandId] };
}

/**
 * For a run that ends. The messages that it did not take are kept for their sender, unless they are
 * deliveries of a session, which has them.
 */
export function deleteCommands(
  { tenantId, runId }: RunRef,
  { ofSession }: { readonly ofSession: boolean },
): Statement {
  const kept = ofSession ? '' : `AND kind <> 'message'`;
  const sql = `DELETE FROM run_inbox WHERE tenant_id = ? AND run_id = ? ${kept}`;
  return { sql, params: [tenantId, runId] };
}

export const selectCommandsSql = `SELECT ${commandTable.columns.join(', ')} FROM run_inbox
  WHERE tenant_id = ? AND run_id = ? ORDER BY position, id`;

export function runsWithCommandsSql(runs: number): string {
  return `SELECT DISTINCT run_id FROM run_inbox WHERE run_id IN (${placeholders(runs)})`;
}

export function decodeCommand(signer: RowSigner, row: Row): QueuedRunCommand {
  const { id, command } = commandTable.decode(signer, row);
  return { id, command };
}
