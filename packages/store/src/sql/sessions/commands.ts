/** Commands that the programs of sessions carry out and answer. */
import type { CommandAnswer, NewSessionCommand, SessionCommandRecord } from '@relay/core';
import type { Row, Statement } from '../../drivers/driver.ts';
import { insertInto } from '../statements.ts';
import { column, RecordCodec } from '../../codec/records.ts';
import { encode } from '../../codec/values.ts';

const codec = new RecordCodec<NewSessionCommand>({
  sessionId: column.text(),
  id: column.text(),
  command: column.text(),
  args: column.json(),
  at: column.number,
  answerBy: column.number,
});
const answerColumn = column.nullable(column.json<SessionCommandRecord['answer']>());

const insertSql = insertInto('session_commands', [...codec.columns, 'tenant_id']);

export function insertSessionCommand(tenantId: string, command: NewSessionCommand): Statement {
  return { sql: insertSql, params: [...codec.encode(command), tenantId] };
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

const columns = `${codec.columns.join(', ')}, answer`;

/** The function around the tenant keeps PostgreSQL from reading all of the tenant. */
export const openCommandsSql = `SELECT ${columns} FROM session_commands
  WHERE COALESCE(tenant_id, '') = ? AND session_id = ? AND answer IS NULL
  ORDER BY at, id LIMIT ?`;
export const selectCommandSql = `SELECT ${columns} FROM session_commands
  WHERE tenant_id = ? AND session_id = ? AND id = ?`;

export function decodeSessionCommand(row: Row): SessionCommandRecord {
  return { ...codec.decode(row), answer: answerColumn.decode(row, 'answer') ?? null };
}
