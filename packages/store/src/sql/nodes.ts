/** Which nodes are alive: each renews its row regularly. */
import type { Claim } from '@relay/core';
import type { SqlDialect, SqlValue, Statement } from '../drivers/driver.ts';
import { nowSql } from './clock.ts';

/** After this time the other nodes delete the row of a dead node. */
const forgetAfterMs = 24 * 60 * 60 * 1000;

export function keepAlive(dialect: SqlDialect, { owner, now, until }: Claim): Statement[] {
  const time = nowSql[dialect];
  return [
    {
      sql: `INSERT INTO nodes (id, alive_until) VALUES (?, ${time} + ?)
        ON CONFLICT (id) DO UPDATE SET alive_until = excluded.alive_until`,
      params: [owner, now, until - now],
    },
    { sql: `DELETE FROM nodes WHERE alive_until < ${time} - ?`, params: [now, forgetAfterMs] },
  ];
}

export function countNodes(dialect: SqlDialect, now: number): Statement {
  const sql = `SELECT count(*) AS alive FROM nodes WHERE alive_until > ${nowSql[dialect]}`;
  return { sql, params: [now] };
}

export const deleteNodeSql = 'DELETE FROM nodes WHERE id = ?';

export const deleteNodesSql = 'DELETE FROM nodes';

/** More are found when these are gone. */
const orphansAtOnce = 500;

/** Chat connections whose node is no longer alive. */
export function selectOrphansSql(dialect: SqlDialect): string {
  return `SELECT c.tenant_id, c.id, c.run_id FROM connections c
    WHERE c.node <> ? AND NOT EXISTS (
      SELECT 1 FROM nodes n WHERE n.id = c.node AND n.alive_until > ${nowSql[dialect]})
    ORDER BY c.id LIMIT ${orphansAtOnce}`;
}

export function orphansParams(node: string, now: number): readonly SqlValue[] {
  return [node, now];
}
