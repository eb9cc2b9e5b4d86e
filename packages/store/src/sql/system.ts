/** What belongs to no tenant: metadata of the store, nodes, and the chat connections that nodes hold. */
import type { Claim, RunRef } from '@relay/core';
import type { Row, SqlDialect, Statement } from '../drivers/driver.ts';
import { checkIntact, checksumOf, encode, freeText, text } from '../codec/values.ts';
import { insertInto, nowSql } from './statements.ts';

const insertMetadataSql = insertInto('metadata', ['name', 'value', 'checksum']);
const insertIfAbsentSql = `${insertMetadataSql} ON CONFLICT (name) DO NOTHING`;
const replaceSql = `${insertMetadataSql} ON CONFLICT (name) DO UPDATE
  SET value = excluded.value, checksum = excluded.checksum`;

export function writeMetadata(
  name: string,
  value: string,
  { ifAbsent = false }: { ifAbsent?: boolean } = {},
): Statement {
  const fixed = [encode(name), encode(value)];
  const params = [...fixed, checksumOf(...fixed)];
  return { sql: ifAbsent ? insertIfAbsentSql : replaceSql, params, expect: 1 };
}

export function selectMetadata(name: string): Statement {
  const sql = 'SELECT name, value, checksum FROM metadata WHERE name = ?';
  return { sql, params: [encode(name)] };
}

export function decodeMetadata(row: Row): string {
  checkIntact(`The metadata entry ${text(row, 'name')}`, row, ['name', 'value']);
  return freeText(row, 'value');
}

/** After this time the other nodes delete the row of a dead node. */
const deadNodeMs = 24 * 60 * 60 * 1000;

export function heartbeat(dialect: SqlDialect, { owner, now, until }: Claim): Statement[] {
  const time = nowSql[dialect];
  return [
    {
      sql: `INSERT INTO nodes (id, alive_until) VALUES (?, ${time} + ?)
        ON CONFLICT (id) DO UPDATE SET alive_until = excluded.alive_until`,
      params: [owner, now, until - now],
    },
    { sql: `DELETE FROM nodes WHERE alive_until < ${time} - ?`, params: [now, deadNodeMs] },
  ];
}

export function countNodes(dialect: SqlDialect, now: number): Statement {
  const sql = `SELECT count(*) AS alive FROM nodes WHERE alive_until > ${nowSql[dialect]}`;
  return { sql, params: [now] };
}

export const deleteNodeSql = 'DELETE FROM nodes WHERE id = ?';

export const deleteNodesSql = 'DELETE FROM nodes';

const insertConnectionSql = insertInto('connections', ['id', 'tenant_id', 'run_id', 'node']);

export function insertConnection(
  { tenantId, runId }: RunRef,
  { id, node }: { readonly id: string; readonly node: string },
): Statement {
  return { sql: insertConnectionSql, params: [id, tenantId, runId, node] };
}

export const selectConnectionSql = 'SELECT run_id FROM connections WHERE tenant_id = ? AND id = ?';

export const deleteConnectionSql = 'DELETE FROM connections WHERE tenant_id = ? AND id = ?';

/** A chat ends with its run. */
export function deleteConnections({ tenantId, runId }: RunRef): Statement {
  const sql = 'DELETE FROM connections WHERE tenant_id = ? AND run_id = ?';
  return { sql, params: [tenantId, runId] };
}

/** Callers ask again for those after the last. */
const orphansAtOnce = 500;

/** Chat connections whose node is no longer alive. */
export function selectOrphans(
  dialect: SqlDialect,
  { node, now, after }: { readonly node: string; readonly now: number; readonly after: string },
): Statement {
  const sql = `SELECT c.tenant_id, c.id, c.run_id FROM connections c
    WHERE c.node <> ? AND NOT EXISTS (
      SELECT 1 FROM nodes n WHERE n.id = c.node AND n.alive_until > ${nowSql[dialect]})
      AND c.id > ? ORDER BY c.id LIMIT ${orphansAtOnce}`;
  return { sql, params: [node, now, after] };
}

export function decodeOrphan(row: Row): { tenantId: string; id: string; runId: string } {
  return { tenantId: text(row, 'tenant_id'), id: text(row, 'id'), runId: text(row, 'run_id') };
}
