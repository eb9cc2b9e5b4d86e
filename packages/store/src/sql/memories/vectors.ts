/** Vectors of memories: which are missing, and which are nearest to a query. */
import {
  claimMs,
  maxCountedAttempts,
  type MemoryText,
  type MemoryVector,
  type NearestSearch,
  type NearMemory,
  modelChangeDelayMs,
  type VectorClaim,
  type VectorSpace,
  type VectorStore,
} from '@relay/core';
import type { Row, SqlAccess, SqlDialect, Statement } from '../../drivers/driver.ts';
import {
  revisionModulus,
  type SignBitCache,
  type SignBitRow,
  type SignBitSource,
} from '../../search/sign-bit-cache.ts';
import {
  candidateCount,
  cosine,
  nearestByHamming,
  normalized,
  signBitsOf,
} from '../../search/sign-bits.ts';
import { decodeMemory, isIntactMemory, memoryColumns } from './memories.ts';
import { placeholders } from '../statements.ts';
import { encode, freeText, number, text } from '../../codec/values.ts';

type Side = '<' | '>';

const dueSql = (side: Side) => `SELECT memory_id FROM memory_vectors
  WHERE tenant_id = ? AND model ${side} ? AND due_at <= ? LIMIT ?`;

const waitSql = `CASE WHEN attempts < ${maxCountedAttempts}
    THEN ${claimMs(0)} + attempts * attempts * ${claimMs(1) - claimMs(0)}
    ELSE ${claimMs(maxCountedAttempts)} END`;

const claimed = (due: string) => `UPDATE memory_vectors
  SET attempts = attempts + 1, due_at = CAST(? AS BIGINT) + ${waitSql} WHERE memory_id IN (${due})
  RETURNING memory_id, (SELECT m.text FROM memories m WHERE m.id = memory_id) AS text`;

/** On PostgreSQL nodes skip each other's rows instead of waiting. */
const claimSql: Readonly<Record<SqlDialect, (side: Side) => string>> = {
  sqlite: (side) => claimed(dueSql(side)),
  postgres: (side) => `WITH due AS MATERIALIZED (${dueSql(side)} FOR UPDATE SKIP LOCKED)
    ${claimed('SELECT memory_id FROM due')}`,
};

export function claimVectors(
  dialect: SqlDialect,
  tenantId: string,
  { model, now, limit, side }: VectorClaim & { readonly side: Side },
): Statement {
  const due = [tenantId, encode(model), now, limit];
  const params = dialect === 'sqlite' ? [now, ...due] : [...due, now];
  return { sql: claimSql[dialect](side), params };
}

/** Skips memories that have got their vector since, or were never claimed. */
const releaseSql = `UPDATE memory_vectors SET attempts = attempts - 1, due_at = 0
  WHERE tenant_id = ? AND memory_id = ? AND attempts > 0`;

const putSql = `UPDATE memory_vectors
  SET model = ?, revision = ?, signs = ?, vector = ?, attempts = 0, due_at = ?
  WHERE tenant_id = ? AND memory_id = ?`;

const inSpace = 'v.tenant_id = ? AND v.namespace = ? AND v.model = ?';

export const fingerprintSql = `SELECT COUNT(*) AS count,
  COALESCE(SUM(v.revision % ${revisionModulus}), 0) AS sum FROM memory_vectors v WHERE ${inSpace}`;

/** The page size; other work runs between two pages. */
const signsAtOnce = 2_000;

export const signsSql = `SELECT v.memory_id, v.revision, v.signs FROM memory_vectors v
  WHERE ${inSpace} AND v.revision >= ? AND (v.revision, v.memory_id) > (?, ?)
  ORDER BY v.revision, v.memory_id LIMIT ${signsAtOnce}`;

export const hasVectorSql = `SELECT v.memory_id FROM memory_vectors v WHERE ${inSpace} LIMIT 1`;

/** The functions around columns keep all indexes but that of the id from being chosen. */
export function selectVectors(count: number): string {
  return `SELECT v.memory_id, v.vector, m.created_at FROM memory_vectors v
    JOIN memories m ON m.id = v.memory_id
    WHERE COALESCE(v.tenant_id, '') = ? AND COALESCE(v.namespace, '') = ?
      AND COALESCE(v.model, '') = ? AND v.memory_id IN (${placeholders(count)})
      AND (m.expires_at IS NULL OR m.expires_at > ?)`;
}

function selectFound(count: number): string {
  const read = memoryColumns.map((column) => `m.${column}`).join(', ');
  return `SELECT ${read} FROM memories m WHERE m.tenant_id = ? AND m.id IN (${placeholders(count)})`;
}

export class SqlVectorStore implements VectorStore {
  readonly #driver: SqlAccess;
  readonly #signs: SignBitCache;
  readonly #tenantId: string;

  constructor(driver: SqlAccess, signs: SignBitCache, tenantId: string) {
    this.#driver = driver;
    this.#signs = signs;
    this.#tenantId = tenantId;
  }

  async claim(by: VectorClaim): Promise<MemoryText[]> {
    const { dialect } = this.#driver;
    const rows: Row[] = [];
    for (const side of ['<', '>'] as const) {
      const limit = by.limit - rows.length;
      if (limit === 0) break;
      const unit = [claimVectors(dialect, this.#tenantId, { ...by, limit, side })];
      const result = await this.#driver.transact(unit);
      if (result.ok) rows.push(...result.results.flatMap((each) => each.rows));
    }
    // A memory may have been deleted since.
    return rows
      .filter((row) => row['text'] !== null)
      .map((row) => ({ id: text(row, 'memory_id'), text: freeText(row, 'text') }));
  }

  async release(memoryIds: readonly string[]): Promise<void> {
    const unit = memoryIds.map((id) => ({ sql: releaseSql, params: [this.#tenantId, id] }));
    if (unit.length > 0) await this.#driver.transact(unit);
  }

  async put({ memoryId, model, vector, at }: MemoryVector): Promise<boolean> {
    const unit = normalized(vector);
    const revision = at * 1_000 + Math.floor(Math.random() * 1_000);
    const stored = [
      encode(model),
      revision,
      bytesOf(signBitsOf(unit)),
      bytesOf(unit),
      at + modelChangeDelayMs,
    ];
    const params = [...stored, this.#tenantId, memoryId];
    return (await this.#driver.transact([{ sql: putSql, params, expect: 1 }])).ok;
  }

  async has(space: VectorSpace): Promise<boolean> {
    const found = await this.#driver.read(hasVectorSql, this.#in(space));
    if (found.length === 0) this.#signs.evict(this.#nameOf(space));
    return found.length > 0;
  }

  /** A cleared namespace leaves the cache too, for all models. */
  evict(namespace: string): void {
    const prefix = JSON.stringify([this.#tenantId, encode(namespace)]);
    this.#signs.evictAll(`${prefix.slice(0, -1)},`);
  }

  async nearest(search: NearestSearch): Promise<NearMemory[]> {
    const queryVector = normalized(search.vector);
    const signs = signBitsOf(queryVector);
    const name = this.#nameOf(search);
    const source = this.#source(search);
    const table = await this.#signs.table(name, signs.length, source);
    if (table === undefined) return [];
    const compared = candidateCount(queryVector.length, search.limit);
    const ids = nearestByHamming(table, signs, compared);
    const near = (await this.#compared(search, queryVector, padded(ids, compared)))
      .filter(({ similarity }) => similarity >= search.floor)
      .toSorted(
        (a, b) =>
          b.similarity - a.similarity || b.createdAt - a.createdAt || (a.id < b.id ? 1 : -1),
      )
      .slice(0, search.limit);
    return this.#whole(near);
  }

  async #compared(search: NearestSearch, queryVector: Float32Array, ids: readonly string[]) {
    const params = [...this.#in(search), ...ids, search.now];
    const rows = await this.#driver.read(selectVectors(ids.length), params);
    return rows.flatMap((row) => {
      const vector = vectorIn(row);
      const [id, createdAt] = [text(row, 'memory_id'), number(row, 'created_at')];
      if (vector?.length !== queryVector.length) return [];
      return [{ id, createdAt, similarity: cosine(queryVector, vector) }];
    });
  }

  /** Omits memories that are damaged or were deleted since. */
  async #whole(
    near: readonly { readonly id: string; readonly similarity: number }[],
  ): Promise<NearMemory[]> {
    if (near.length === 0) return [];
    const size = sizes.find((each) => each >= near.length) ?? near.length;
    const ids = padded(
      near.map(({ id }) => id),
      size,
    );
    const params = [this.#tenantId, ...ids];
    const rows = (await this.#driver.read(selectFound(ids.length), params)).filter(isIntactMemory);
    const byId = new Map(rows.map(decodeMemory).map((memory) => [memory.id, memory]));
    return near.flatMap(({ id, similarity }) => {
      const memory = byId.get(id);
      return memory === undefined ? [] : [{ ...memory, similarity }];
    });
  }

  #in({ namespace, model }: VectorSpace): string[] {
    return [this.#tenantId, encode(namespace), encode(model)];
  }

  #nameOf(space: VectorSpace): string {
    return JSON.stringify(this.#in(space));
  }

  #source(space: VectorSpace): SignBitSource {
    const read = (sql: string, ...more: (number | string)[]) =>
      this.#driver.read(sql, [...this.#in(space), ...more]);
    return {
      fingerprint: async () => {
        const [row = {}] = await read(fingerprintSql);
        return { count: number(row, 'count'), sum: number(row, 'sum') };
      },
      async *since(revision) {
        let last = { revision, memoryId: '' };
        for (;;) {
          const from = [last.revision, last.revision, last.memoryId];
          const rows = (await read(signsSql, ...from)).map(decodeSigns);
          yield rows;
          if (rows.length < signsAtOnce) return;
          last = rows.at(-1) ?? last;
        }
      },
    };
  }
}

/** The sizes of the prepared statements, so that there are few. */
const sizes = [10, 50, 256, 512];

/** Pads the ids to the size of a statement. No memory has an empty id. */
function padded(ids: readonly string[], count: number): string[] {
  return [...ids, ...Array<string>(Math.max(0, count - ids.length)).fill('')];
}

function bytesOf({ buffer, byteOffset, byteLength }: Float32Array | Uint32Array): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength);
}

function decodeSigns(row: Row): SignBitRow {
  const signs = row['signs'];
  return {
    memoryId: text(row, 'memory_id'),
    revision: number(row, 'revision'),
    signs: signs instanceof Uint8Array ? signs : new Uint8Array(),
  };
}

/** A Float32Array needs an aligned buffer: unaligned bytes are copied. */
function vectorIn(row: Row): Float32Array | undefined {
  const bytes = row['vector'];
  if (!(bytes instanceof Uint8Array) || bytes.byteLength % 4 !== 0) return undefined;
  const { buffer, byteOffset, byteLength } =
    bytes.byteOffset % 4 === 0 ? bytes : new Uint8Array(bytes);
  return new Float32Array(buffer, byteOffset, byteLength / 4);
}
