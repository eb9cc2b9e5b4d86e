/** Memories: rows that never change, and the search for their words. */
import type { FoundMemory, MemoryFilter, MemoryRecord, MemorySearch, Page } from '@relay/core';
import type { Row, SqlAccess, SqlDialect, Statement } from '../../drivers/driver.ts';
import { maxCandidates, parseQuery, ranked, sampleSize } from '../../search/relevance.ts';
import { wordsOf } from '../../search/words.ts';
import { type List, selectPage, selectRows } from '../lists.ts';
import { insertInto, readAll } from '../statements.ts';
import { column, RecordCodec } from '../../codec/records.ts';
import {
  checkIntact,
  checksumOf,
  encode,
  encodeOrNull,
  isIntact,
  text,
} from '../../codec/values.ts';

const memoryCodec = new RecordCodec<MemoryRecord>({
  id: column.text(),
  namespace: column.freeText,
  createdAt: column.number,
  expiresAt: column.nullable(column.number),
  runId: column.nullable(column.text()),
  source: column.text(),
  text: column.freeText,
});

/** What the checksum covers. */
const fixedColumns = ['tenant_id', ...memoryCodec.columns];

export const memoryColumns = [...fixedColumns, 'checksum'];

const insertSql = `${insertInto('memories', [...memoryColumns, 'once', 'scope', 'words'])}
  ON CONFLICT (tenant_id, once) WHERE once IS NOT NULL DO NOTHING`;

/** With `once`, nothing is inserted if a memory with that key exists. */
export function insertMemory(tenantId: string, record: MemoryRecord, once?: string): Statement {
  const fixed = [tenantId, ...memoryCodec.encode(record)];
  return {
    sql: insertSql,
    params: [
      ...fixed,
      checksumOf(...fixed),
      encodeOrNull(once),
      scopeOf(tenantId, encode(record.namespace)),
      wordsOf(record.text).join(' '),
    ],
    expect: 1,
  };
}

/** A hash, which two namespaces may share: it only finds candidates. */
function scopeOf(tenantId: string, namespace: string): string {
  return checksumOf(tenantId, namespace).toString(36).padStart(7, '0');
}

export const selectMemoryOnceSql = `SELECT ${memoryColumns.join(', ')} FROM memories
  WHERE tenant_id = ? AND once = ?`;

export function selectMemoryOnce(tenantId: string, once: string): Statement {
  return { sql: selectMemoryOnceSql, params: [tenantId, encode(once)] };
}

function listOf(tenantId: string, { namespace, now }: MemoryFilter): List {
  const inNamespace = { sql: 't.namespace = ?', params: [encode(namespace)] };
  return {
    tenantId,
    table: 'memories',
    leading: namespace === undefined ? [] : [inNamespace],
    others: [{ sql: '(t.expires_at IS NULL OR t.expires_at > ?)', params: [now] }],
  };
}

export function selectMemoryIds(tenantId: string, filter: MemoryFilter, page: Page): Statement {
  return selectPage(listOf(tenantId, filter), page);
}

export function selectMemories(tenantId: string, filter: MemoryFilter, page: Page): Statement {
  return selectRows(listOf(tenantId, filter), memoryColumns, page);
}

const sampleSql = `SELECT t.words AS words FROM memories t
  WHERE t.tenant_id = ? AND t.namespace = ? AND (t.expires_at IS NULL OR t.expires_at > ?)
  ORDER BY t.created_at DESC, t.id DESC LIMIT ${sampleSize}`;

export function selectSample(tenantId: string, { namespace, now }: MemorySearch): Statement {
  return { sql: sampleSql, params: [tenantId, encode(namespace), now] };
}

const read = [...memoryColumns, 'words'].map((column) => `m.${column}`).join(', ');
const isAlive = '(m.expires_at IS NULL OR m.expires_at > ?)';

/**
 * `rare`: of the newest five hundred with any of the words, the best by the rank of the index; in
 * PostgreSQL those with the most words, because ranking would read the words of all of them.
 * `common`: the newest with any of the words; in PostgreSQL among the newest five hundred memories.
 *
 * PostgreSQL looks words up in a function (`schema/memories.ts`).
 */
const candidatesSql: Readonly<Record<SqlDialect, Readonly<Record<Lookup['kind'], string>>>> = {
  sqlite: {
    rare: `SELECT ${read} FROM (
        SELECT found.index_rowid FROM (
          SELECT rowid AS index_rowid, bm25(memory_index) AS rank FROM memory_index
          WHERE memory_index MATCH ? ORDER BY rowid DESC LIMIT 500
        ) AS found CROSS JOIN memories m
        WHERE m.index_rowid = found.index_rowid AND m.tenant_id = ? AND m.namespace = ? AND ${isAlive}
        ORDER BY found.rank, m.index_rowid DESC LIMIT ?
      ) AS best CROSS JOIN memories m WHERE m.index_rowid = best.index_rowid`,
    common: `SELECT ${read} FROM memory_index CROSS JOIN memories m
      WHERE memory_index MATCH ? AND m.index_rowid = memory_index.rowid
        AND m.tenant_id = ? AND m.namespace = ? AND ${isAlive}
      ORDER BY memory_index.rowid DESC LIMIT ?`,
  },
  postgres: {
    rare: `SELECT ${read} FROM (
        SELECT * FROM relay_search_memories(?, ?, ?, ?)
      ) AS found (id) JOIN memories m ON m.id = found.id WHERE m.tenant_id = ?`,
    common: `SELECT ${read} FROM (
        SELECT * FROM memories WHERE tenant_id = ? AND namespace = ?
        ORDER BY created_at DESC, id DESC LIMIT 500
      ) AS m
      WHERE ${isAlive} AND m.lexemes @@ ?::tsquery
      ORDER BY m.created_at DESC, m.id DESC LIMIT ?`,
  },
};

interface Lookup {
  readonly kind: 'rare' | 'common';
  readonly words: readonly string[];
  readonly most: number;
}

/** Memories that have any of the words. Words contain no syntax of a query language. */
export function selectCandidates(
  dialect: SqlDialect,
  search: MemorySearch & { readonly tenantId: string },
  { kind, words, most }: Lookup,
): Statement {
  const { tenantId, now } = search;
  const namespace = encode(search.namespace);
  const scope = scopeOf(tenantId, namespace);
  const sql = candidatesSql[dialect][kind];
  if (dialect === 'sqlite') {
    const query = words.map((word) => `"${scope}${word}"`).join(' OR ');
    return { sql, params: [query, tenantId, namespace, now, most] };
  }
  if (kind === 'rare') {
    const scoped = words.map((word) => `${scope}${word}`).join(' ');
    return { sql, params: [scoped, namespace, now, most, tenantId] };
  }
  const query = words.map((word) => `'${scope}${word}'`).join(' | ');
  return { sql, params: [tenantId, namespace, now, query, most] };
}

const deleteSql = 'DELETE FROM memories WHERE tenant_id = ? AND id = ?';

export function deleteMemory(
  tenantId: string,
  memoryId: string,
  within?: { readonly namespace: string },
): Statement {
  const params = [tenantId, memoryId];
  if (within === undefined) return { sql: deleteSql, params, expect: 1 };
  const sql = `${deleteSql} AND namespace = ?`;
  return { sql, params: [...params, encode(within.namespace)], expect: 1 };
}

/** In batches: a large namespace must not block other writes. */
export function clearMemories(tenantId: string, namespace: string, limit: number): Statement {
  const sql = `DELETE FROM memories WHERE tenant_id = ? AND id IN (
    SELECT id FROM memories WHERE tenant_id = ? AND namespace = ? LIMIT ?)`;
  return { sql, params: [tenantId, tenantId, encode(namespace), limit] };
}

export function deleteExpiredMemories(now: number, limit: number): Statement {
  const sql = `DELETE FROM memories WHERE id IN (
    SELECT id FROM memories WHERE expires_at IS NOT NULL AND expires_at <= ?
    ORDER BY expires_at LIMIT ?)`;
  return { sql, params: [now, limit] };
}

export function decodeMemory(row: Row): MemoryRecord {
  checkIntact(`Memory ${text(row, 'id')}`, row, fixedColumns);
  return memoryCodec.decode(row);
}

interface Candidate {
  readonly memory: MemoryRecord;
  readonly words: readonly string[];
}

/** Search skips damaged memories, so that one of them does not stop every run of its namespace. */
export function isIntactMemory(row: Row): boolean {
  return isIntact(row, fixedColumns);
}

function wordsIn(row: Row): string[] {
  const words = text(row, 'words');
  return words === '' ? [] : words.split(' ');
}

/** Rare words first; common ones only if those find fewer than `limit`. */
export async function searchMemories(
  driver: SqlAccess,
  tenantId: string,
  search: MemorySearch,
): Promise<FoundMemory[]> {
  const sample = await readAll(driver, selectSample(tenantId, search), wordsIn);
  if (sample.length === 0) return [];
  const query = parseQuery(search.query, sample);
  const most = Math.max(maxCandidates, search.limit);
  const found = new Map<string, Candidate>();
  for (const kind of ['rare', 'common'] as const) {
    const words = query[kind];
    if (words.length === 0 || found.size >= search.limit) continue;
    const lookup = selectCandidates(driver.dialect, { ...search, tenantId }, { kind, words, most });
    for (const row of await driver.read(lookup.sql, lookup.params)) {
      if (isIntactMemory(row))
        found.set(text(row, 'id'), { memory: decodeMemory(row), words: wordsIn(row) });
    }
  }
  return ranked(query, [...found.values()])
    .slice(0, search.limit)
    .map(({ memory, score }) => ({ ...memory, score }));
}
