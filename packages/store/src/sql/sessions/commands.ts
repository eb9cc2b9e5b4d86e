/** Commands that the programs of sessions carry out and answer. */
import type { CommandAnswer, NewSessionCommand, SessionCommandRecord } from '@relay/core';
import type { Row, Statement } from '../../drivers/driver.ts';
import { insertInto } from '../statements.ts';
import { column } from '../../codec/records.ts';
import { type RowSigner, SignedTable } from '../../codec/signed-table.ts';
import { encode } from '../../codec/values.ts';

type CommandRow = NewSessionCommand & { readonly tenantId: string };

/** The answer to a fork stores a session of whoever asked for it: nobody else may say who that was. */
export const sessionCommandTable = new SignedTable<CommandRow>({
  name: 'session_commands',
  subject: 'The command',
  key: ['session_id', 'id'],
  codecs: {
    sessionId: column.text(),
    id: column.text(),
    command: column.text(),
    args: column.json(),
    at: column.number,
    answerBy: column.number,
    fork: column.optional(column.json()),
    tenantId: column.text(),
  },
  unsigned: ['args'],
});
const answerColumn = column.nullable(column.json<SessionCommandRecord['answer']>());

const insertSql = insertInto('session_commands', sessionCommandTable.columns);

export function insertSessionCommand(
  signer: RowSigner,
  tenantId: string,
  command: NewSessionCommand,
): Statement {
  return { sql: insertSql, params: sessionCommandTable.encode(signer, { ...command, tenantId }) };
}

/** What was typed may be a password. */
const answerSql = `UPDATE session_commands SET answer = ?,
    args = CASE command WHEN 'input' THEN ? ELSE args END
  WHERE tenant_id = ? AND session_id = ? AND id = ? AND answer IS NULL`;

export function answerCommand(tenantId: string, answer: CommandAnswer): Statement {
  const { sessionId, id, ...stored } = answer;
  const params = [encode(stored), encode({}), tenantId, sessionId, id];
  return { sql: answerSql, params, expect: 1 };
}

const columns = [...sessionCommandTable.columns, 'answer'].join(', ');

/** The function around the tenant keeps PostgreSQL from reading all of the tenant. */
export const openCommandsSql = `SELECT ${columns} FROM session_commands
  WHERE COALESCE(tenant_id, '') = ? AND session_id = ? AND answer IS NULL
  ORDER BY at, id LIMIT ?`;
export const selectCommandSql = `SELECT ${columns} FROM session_commands
  WHERE tenant_id = ? AND session_id = ? AND id = ?`;

/** Undefined if the row is not as it was written: nobody has asked for that. */
export function findSessionCommand(signer: RowSigner, row: Row): SessionCommandRecord | undefined {
  const found = sessionCommandTable.find(signer, row);
  if (found === undefined) return undefined;
  const { tenantId: _, ...command } = found;
  return { ...command, answer: answerColumn.decode(row, 'answer') ?? null };
}
