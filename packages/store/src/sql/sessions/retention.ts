/**
 * Deletes sessions and messages. A session is marked first, which hides it; then what belongs to it is
 * deleted, a few rows at a time; its own row comes last. So a deletion that was interrupted is continued.
 *
 * Of a session that is not released, the older part of the journal is deleted, one session at a time.
 */
import type { SessionRef } from '@relay/core';
import { encode } from '../../codec/values.ts';
import type { Statement } from '../../drivers/driver.ts';
import { plain } from '../statements.ts';

/** Its handle and its token become free, nothing of it is due, and no list has its status. */
const hide = `pruning = 1, status = '', due_at = NULL, active_run_id = NULL, stream_id = NULL, stream_node = NULL`;

const markSql = `UPDATE sessions SET ${hide} WHERE id IN (
  SELECT id FROM sessions WHERE released_at IS NOT NULL AND released_at <= ? AND pruning IS NULL
  ORDER BY released_at LIMIT ?)`;

const markOneSql = `UPDATE sessions SET ${hide}, released_at = COALESCE(released_at, ?)
  WHERE COALESCE(tenant_id, '') = ? AND id = ? AND pruning IS NULL`;

export function markSession(tenantId: string, sessionId: string, at: number): Statement {
  return { sql: markOneSql, params: [at, tenantId, sessionId], expect: 1 };
}

/** By table, the columns of its key: many rows may belong to a session. */
const largeTables = {
  session_events: ['session_id', 'last_seq'],
} as const;

const smallTables = [
  'session_snapshots',
  'session_commands',
  'session_labels',
  'channel_members',
  'actions',
] as const;

/**
 * Continues with all sessions that are marked, or with one. The sum of changes is the progress made; 0
 * means done.
 */
export function deleteMarked(limit: number, only?: SessionRef): Statement[] {
  const rows = `FROM sessions WHERE pruning = 1
    ${only === undefined ? '' : 'AND tenant_id = ? AND id = ?'}`;
  const marked = `SELECT id ${rows}`;
  const params = only === undefined ? [] : [only.tenantId, only.sessionId];
  const small = smallTables.map((table) => ({
    sql: `DELETE FROM ${table} WHERE session_id IN (${marked})`,
    params,
  }));
  // An invocation is for its caller as well: it is due, so that it fails, and stays until it is old.
  const abandon = {
    sql: `UPDATE invocations SET due_at = at WHERE ended_at IS NULL AND session_id IS NOT NULL
      AND session_id IN (${marked}) AND (due_at IS NULL OR due_at <> at)`,
    params,
  };
  // A delivery is for the sender as well: it stays with its message.
  const fail = {
    sql: `UPDATE message_deliveries SET status = 'failed', reason = ?, final_at = at
      WHERE final_at IS NULL AND session_id IN (${marked})`,
    params: [encode('released'), ...params],
  };
  // The cross join makes SQLite begin with the few sessions.
  const large = Object.entries(largeTables).map(([table, key]) => ({
    sql: `DELETE FROM ${table} WHERE (${key.join(', ')}) IN (
      SELECT ${key.map((name) => `o.${name}`).join(', ')}
      FROM (SELECT id, tenant_id ${rows}) AS s CROSS JOIN ${table} o
      WHERE o.session_id = s.id AND o.tenant_id = s.tenant_id LIMIT ?)`,
    params: [...params, limit],
  }));
  const isEmpty = Object.keys(largeTables).map(
    (table) => `AND NOT EXISTS (SELECT 1 FROM ${table} o
      WHERE o.session_id = sessions.id AND o.tenant_id = sessions.tenant_id)`,
  );
  const done = {
    sql: `DELETE FROM sessions WHERE pruning = 1 AND id IN (${marked}) ${isEmpty.join(' ')}`,
    params,
  };
  return [...small, abandon, fail, ...large, done];
}

const oldestSession = `SELECT id FROM sessions
  WHERE oldest_at <= ? AND released_at IS NULL AND pruning IS NULL ORDER BY oldest_at LIMIT 1`;

/** The row is locked first: events that are stored meanwhile come after these. */
function pruneJournal(before: number, limit: number): Statement[] {
  const first = (columns: string) => `SELECT ${columns} FROM session_events o
      WHERE o.session_id = sessions.id AND o.tenant_id = sessions.tenant_id ORDER BY o.last_seq LIMIT`;
  return [
    {
      sql: `UPDATE sessions SET pruned_seq = COALESCE((
          SELECT MAX(w.last_seq) FROM (${first('o.last_seq, o.at')} ?) AS w WHERE w.at <= ?), pruned_seq)
        WHERE id IN (${oldestSession})`,
      params: [limit, before, before],
    },
    {
      sql: `DELETE FROM session_events WHERE (session_id, last_seq) IN (
        SELECT o.session_id, o.last_seq FROM (
          SELECT id, tenant_id, pruned_seq FROM sessions WHERE id IN (${oldestSession})) AS s
        CROSS JOIN session_events o
        WHERE o.session_id = s.id AND o.tenant_id = s.tenant_id AND o.last_seq <= s.pruned_seq)`,
      params: [before],
    },
    {
      sql: `UPDATE sessions SET oldest_at = (${first('o.at')} 1), terminal_bytes = COALESCE((
          SELECT SUM(o.terminal_bytes) FROM session_events o WHERE o.session_id = sessions.id
            AND o.tenant_id = sessions.tenant_id AND o.terminal_bytes > 0), 0)
        WHERE id IN (${oldestSession})`,
      params: [before],
    },
  ];
}

const markMessagesSql = `UPDATE messages SET pruning = 1 WHERE id IN (
  SELECT m.id FROM messages m WHERE m.at <= ? AND NOT EXISTS (
    SELECT 1 FROM message_deliveries d WHERE d.message_id = m.id AND d.final_at IS NULL)
  ORDER BY m.at LIMIT ?)`;

const isMarked = 'message_id IN (SELECT id FROM messages WHERE pruning = 1)';
const hasNone = (id: string) =>
  `NOT EXISTS (SELECT 1 FROM message_deliveries d WHERE d.message_id = ${id})`;

/** A message stays if one of its deliveries was accepted once more meanwhile. */
export function pruneUnit(before: number, limit: number): Statement[] {
  return [
    { sql: markSql, params: [before, limit] },
    ...deleteMarked(limit),
    ...pruneJournal(before, limit),
    { sql: markMessagesSql, params: [before, limit] },
    plain(`DELETE FROM message_deliveries WHERE ${isMarked} AND final_at IS NOT NULL`),
    plain(
      `DELETE FROM message_places WHERE ${isMarked} AND ${hasNone('message_places.message_id')}`,
    ),
    plain(`DELETE FROM messages WHERE pruning = 1 AND ${hasNone('messages.id')}`),
    plain('UPDATE messages SET pruning = NULL WHERE pruning = 1'),
    {
      sql: `DELETE FROM invocations WHERE id IN (SELECT id FROM invocations
        WHERE ended_at IS NOT NULL AND ended_at <= ? ORDER BY ended_at LIMIT ?)`,
      params: [before, limit],
    },
    {
      sql: `DELETE FROM approvals WHERE id IN (SELECT id FROM approvals
        WHERE run_id IS NULL AND decided_at IS NOT NULL AND decided_at <= ?
        ORDER BY decided_at LIMIT ?)`,
      params: [before, limit],
    },
  ];
}
