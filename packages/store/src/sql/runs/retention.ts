/**
 * Deletes the content of conversations that have been inactive. Their runs are marked first, a few at a
 * time, which hides their journals; then their rows are deleted, a few at a time; then they are marked as
 * pruned. `pruning`: NULL complete, 1 being deleted, 2 deleted.
 */
import type { Statement } from '../../drivers/driver.ts';

/** Its journals are read by a fork in another conversation, or will be by the first turn of a session. */
const isForked = `(EXISTS (SELECT 1 FROM runs o CROSS JOIN runs f
  WHERE o.tenant_id = c.tenant_id AND o.conversation_id = c.id
    AND f.tenant_id = o.tenant_id AND f.forked_from = o.id AND f.pruning IS NULL
    AND f.conversation_id <> o.conversation_id)
  OR EXISTS (SELECT 1 FROM runs o CROSS JOIN sessions s
  WHERE o.tenant_id = c.tenant_id AND o.conversation_id = c.id
    AND s.tenant_id = o.tenant_id AND s.forked_from = o.id AND s.forked_from IS NOT NULL
    AND s.released_at IS NULL))`;

const isActive = `EXISTS (SELECT 1 FROM runs o
  WHERE o.tenant_id = c.tenant_id AND o.conversation_id = c.id AND o.ended_at IS NULL)`;

/**
 * The oldest run first, so that the rest of a conversation is always its end. A marked run has no
 * position any more. The cross join makes SQLite begin with the conversations.
 */
const markSql = `UPDATE runs
  SET pruning = 1, position = NULL, serialized_state = NULL, state_checksum = NULL, output_json = NULL,
    answer_seq = NULL
  WHERE id IN (
    SELECT r.id FROM (
      SELECT c.tenant_id, c.id, c.ended_at FROM conversations c
      WHERE c.ended_at <= ? AND NOT ${isActive} AND NOT ${isForked}
      ORDER BY c.ended_at LIMIT ?) AS c CROSS JOIN runs r
    WHERE r.tenant_id = c.tenant_id AND r.conversation_id = c.id AND r.position IS NOT NULL
    ORDER BY c.ended_at, r.position LIMIT ?)`;

/** A conversation without runs to mark is looked at again when another run of it has ended. */
const prunedSql = `UPDATE conversations SET ended_at = NULL, title = NULL, title_search = NULL
  WHERE (tenant_id, id) IN (SELECT tenant_id, conversation_id FROM runs WHERE pruning = 1)
    AND ended_at IS NOT NULL AND NOT EXISTS (SELECT 1 FROM runs r
      WHERE r.tenant_id = conversations.tenant_id AND r.conversation_id = conversations.id
        AND r.position IS NOT NULL)`;

const runsBeingPruned = 'SELECT id FROM runs WHERE pruning = 1';

/** Tables with few rows per run are cleared together with the mark. */
const smallSqls = [
  `DELETE FROM snapshots WHERE run_id IN (${runsBeingPruned})`,
  `DELETE FROM run_inbox WHERE run_id IN (${runsBeingPruned})`,
  `DELETE FROM client_calls WHERE run_id IN (${runsBeingPruned})`,
  `DELETE FROM approvals WHERE (tenant_id, run_id) IN (
    SELECT tenant_id, id FROM runs WHERE pruning = 1)`,
];

/** The cross join makes SQLite begin with the few runs. */
const eventsSql = `DELETE FROM events WHERE (run_id, first_seq) IN (
  SELECT e.run_id, e.first_seq FROM (${runsBeingPruned}) AS r CROSS JOIN events e
  WHERE e.run_id = r.id LIMIT ?)`;

const doneSql = `UPDATE runs SET pruning = 2
  WHERE pruning = 1 AND NOT EXISTS (SELECT 1 FROM events e WHERE e.run_id = runs.id)`;

/** The sum of changes is the progress made; 0 means done. */
export function pruneUnit(before: number, limit: number): Statement[] {
  return [
    { sql: markSql, params: [before, limit, limit] },
    { sql: prunedSql, params: [] },
    ...smallSqls.map((sql) => ({ sql, params: [] })),
    { sql: eventsSql, params: [limit] },
    { sql: doneSql, params: [] },
  ];
}
