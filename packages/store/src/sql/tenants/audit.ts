/** The audit trail in tables. It is read as it is stored: a verifier decides what is wrong. */
import type {
  AuditFilter,
  AuditRecord,
  AuditSeal,
  AuditSealing,
  AuditTrail,
  Listed,
  NewAuditEntry,
  Page,
  UnsealedEntry,
} from '@relay/core';
import { defined } from '@relay/protocol';
import type { Row, SqlAccess, Statement } from '../../drivers/driver.ts';
import { columnFilters, indexFilter, readList, selectRows } from '../lists.ts';
import type { List, Range } from '../lists.ts';
import { insertInto, readAll, readOne } from '../statements.ts';

const columns = ['id', 'at', 'action', 'actor', 'run_id', 'entry', 'proof'] as const;

const insertSql = insertInto('audit_unsealed', [...columns, 'tenant_id']);

/** Rows of their own, so that they neither wait for other writes nor block them. */
export function insertAudit(tenantId: string, entries: readonly NewAuditEntry[] = []): Statement[] {
  return entries.map(({ id, at, action, actor, runId, text: entry, proof }) => ({
    sql: insertSql,
    params: [id, at, action, actor, runId, entry, proof, tenantId],
  }));
}

export const unsealedSql = `SELECT ${columns.join(', ')}, (SELECT seq FROM audit_entries s
    WHERE s.tenant_id = u.tenant_id AND s.at = u.at AND s.id = u.id) AS sealed_seq
  FROM audit_unsealed u WHERE tenant_id = ? ORDER BY at, id LIMIT ?`;

/** Skips from tenant to tenant. */
export const tenantsToSealSql = `WITH RECURSIVE tenant (id) AS (
    SELECT MIN(tenant_id) FROM audit_unsealed WHERE tenant_id > ?
    UNION ALL
    SELECT (SELECT MIN(e.tenant_id) FROM audit_unsealed e WHERE e.tenant_id > tenant.id)
    FROM tenant WHERE tenant.id IS NOT NULL
  ) SELECT id FROM tenant WHERE id IS NOT NULL LIMIT ?`;

const insertSealSql = `INSERT INTO audit_seals (tenant_id, first_seq, last_seq, hash, at, proof)
  VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`;

const isEntry = 'tenant_id = ? AND at = ? AND id = ?';

const moveSql = `INSERT INTO audit_entries
    (tenant_id, at, id, action, actor, run_id, entry, proof, seq, hash)
  SELECT tenant_id, at, id, action, actor, run_id, entry, ?, CAST(? AS BIGINT), ?
  FROM audit_unsealed WHERE ${isEntry}`;

const removeSql = `DELETE FROM audit_unsealed WHERE ${isEntry}`;

/** Of two seals that begin at the same `seq`, the first is stored. */
function sealUnit(tenantId: string, { seal, entries }: AuditSealing): Statement[] {
  const { firstSeq, lastSeq, hash, at, proof } = seal;
  return [
    { sql: insertSealSql, params: [tenantId, firstSeq, lastSeq, hash, at, proof], expect: 1 },
    ...entries.flatMap((entry) => {
      const key = [tenantId, entry.at, entry.id];
      return [
        { sql: moveSql, params: [entry.proof, entry.seq, entry.hash, ...key], expect: 1 },
        { sql: removeSql, params: key, expect: 1 },
      ];
    }),
  ];
}

const sealColumns = 'first_seq, last_seq, hash, at, proof';

export const headSql = `SELECT ${sealColumns} FROM audit_seals
  WHERE tenant_id = ? ORDER BY first_seq DESC LIMIT 1`;

export const sealsSql = `SELECT ${sealColumns} FROM audit_seals
  WHERE tenant_id = ? AND first_seq > ? ORDER BY first_seq LIMIT ?`;

export const inOrderSql = `SELECT ${columns.join(', ')}, seq, hash FROM audit_entries
  WHERE tenant_id = ? AND seq > ? ORDER BY seq LIMIT ?`;

export function auditLists(tenantId: string, filter: AuditFilter): readonly List[] {
  const { runId, actor, action, since, until } = filter;
  const list = { tenantId, table: 'audit_entries', at: 'at', isFoundByTime: true, since, until };
  const filters = columnFilters({ run_id: runId, actor, action });
  if (filters.length === 0) return [list];
  return filters.map((first) => {
    const rest = filters.filter((each) => each !== first);
    return { ...list, ...indexFilter([first], rest) };
  });
}

export function selectAudit(list: List, range: Range): Statement {
  return selectRows(list, [...columns, 'seq', 'hash'], range);
}

export class SqlAuditTrail implements AuditTrail {
  readonly #driver: SqlAccess;
  readonly #tenantId: string;

  constructor(driver: SqlAccess, tenantId: string) {
    this.#driver = driver;
    this.#tenantId = tenantId;
  }

  async add(entries: readonly NewAuditEntry[]): Promise<void> {
    await this.#driver.transact(insertAudit(this.#tenantId, entries));
  }

  unsealed(limit: number): Promise<UnsealedEntry[]> {
    const params = [this.#tenantId, limit];
    return readAll(this.#driver, { sql: unsealedSql, params }, (row) =>
      defined({
        ...decodeNew(row),
        isRepeated: row['sealed_seq'] === null ? undefined : (true as const),
      }),
    );
  }

  async seal(sealing: AuditSealing): Promise<boolean> {
    return (await this.#driver.transact(sealUnit(this.#tenantId, sealing))).ok;
  }

  head(): Promise<AuditSeal | undefined> {
    return readOne(this.#driver, { sql: headSql, params: [this.#tenantId] }, decodeSeal);
  }

  async list(filter: AuditFilter, page: Page): Promise<Listed<AuditRecord>> {
    const lists = auditLists(this.#tenantId, filter);
    const { items, ...rest } = await readList(this.#driver, lists, page, selectAudit);
    return { items: items.map(decodeRecord), ...rest };
  }

  read({ after, limit }: { after: number; limit: number }): Promise<AuditRecord[]> {
    const params = [this.#tenantId, after, limit];
    return readAll(this.#driver, { sql: inOrderSql, params }, decodeRecord);
  }

  seals({ after, limit }: { after: number; limit: number }): Promise<AuditSeal[]> {
    const params = [this.#tenantId, after, limit];
    return readAll(this.#driver, { sql: sealsSql, params }, decodeSeal);
  }
}

/**
 * As it is stored, also if its type is wrong: a changed value differs from what was signed, and
 * verifying the trail reports where.
 */
function asText(row: Row, column: string): string {
  const value = row[column];
  return typeof value === 'string' ? value : '';
}

function asNumber(row: Row, column: string): number {
  const value = row[column];
  return typeof value === 'number' ? value : Number.NaN;
}

function decodeNew(row: Row): NewAuditEntry {
  return {
    id: asText(row, 'id'),
    at: asNumber(row, 'at'),
    action: asText(row, 'action'),
    actor: asText(row, 'actor'),
    runId: row['run_id'] === null ? null : asText(row, 'run_id'),
    text: asText(row, 'entry'),
    proof: asText(row, 'proof'),
  };
}

function decodeRecord(row: Row): AuditRecord {
  return { ...decodeNew(row), seq: asNumber(row, 'seq'), hash: asText(row, 'hash') };
}

function decodeSeal(row: Row): AuditSeal {
  return {
    firstSeq: asNumber(row, 'first_seq'),
    lastSeq: asNumber(row, 'last_seq'),
    hash: asText(row, 'hash'),
    at: asNumber(row, 'at'),
    proof: asText(row, 'proof'),
  };
}
