/**
 * Deletes the content of old runs. A run whose conversation has been inactive is marked first, which
 * hides its journal; then its rows are deleted, a few at a time; then it is marked as pruned.
 * `pruning`: NULL complete, 1 being deleted, 2 deleted.
 */
import type { Statement } from '../../drivers/driver.ts';

/** Oldest first, so that the rest of a conversation is always its end. */
const markSql = `UPDATE runs
  SET pruning = 1, position = NULL, serialized_state = NULL, state_checksum = NULL, output_json = NULL,
    answer_seq = NULL
  WHERE id IN (
    SELECT r.id FROM runs r
    WHERE r.ended_at IS NOT NULL AND r.ended_at <= ? AND r.pruning IS NULL
      AND NOT EXISTS (SELECT 1 FROM runs o
        WHERE o.tenant_id = r.tenant_id AND o.conversation_id = r.conversation_id
          AND (o.ended_at IS NULL OR o.ended_at > ?))
      AND NOT EXISTS (SELECT 1 FROM runs o JOIN runs f
          ON f.tenant_id = o.tenant_id AND f.forked_from = o.id AND f.pruning IS NULL
            AND f.conversation_id <> o.conversation_id
        WHERE o.tenant_id = r.tenant_id AND o.conversation_id = r.conversation_id)
    ORDER BY r.ended_at, r.id LIMIT ?)`;

const runsBeingPruned = 'SELECT id FROM runs WHERE pruning = 1';

/** Tables with few rows per run are cleared together with the mark. */
const smallSqls = [
  `DELETE FROM snapshots WHERE run_id IN (${runsBeingPruned})`,
  `DELETE FROM client_calls WHERE run_id IN (${runsBeingPruned})`,
  `DELETE FROM approvals WHERE (tenant_id, run_id) IN (
    SELECT tenant_id, id FROM runs WHERE pruning = 1)`,
];

/** The cross join makes SQLite begin with the few runs. */
const eventsSql = `DELETE FROM events WHERE (run_id, last_seq) IN (
  SELECT e.run_id, e.last_seq FROM (${runsBeingPruned}) AS r CROSS JOIN events e
  WHERE e.run_id = r.id LIMIT ?)`;

const doneSql = `UPDATE runs SET pruning = 2
  WHERE pruning = 1 AND NOT EXISTS (SELECT 1 FROM events e WHERE e.run_id = runs.id)`;

/** The sum of changes is the progress made; 0 means done. */
export function pruneUnit(before: number, limit: number): Statement[] {
  return [
    { sql: markSql, params: [before, before, limit] },
    ...smallSqls.map((sql) => ({ sql, params: [] })),
    { sql: eventsSql, params: [limit] },
    { sql: doneSql, params: [] },
  ];
}
