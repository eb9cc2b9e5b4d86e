import { currentTenant } from './row-security.ts';

/**
 * Memories and the index of their words. Each indexed word starts with the `scope` of its namespace, a
 * short hash, so that namespaces do not slow down each other's searches or affect their ranks.
 *
 * A memory is ranked by `words` (`search/relevance.ts`). `text` comes last, because search does not read
 * it.
 */
const columns = `tenant_id TEXT NOT NULL,
    namespace TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT,
    run_id TEXT,
    source TEXT NOT NULL,
    once TEXT,
    checksum BIGINT NOT NULL,
    scope TEXT NOT NULL,
    words TEXT NOT NULL,
    text TEXT NOT NULL`;

const indexes: readonly string[] = [
  `CREATE INDEX memories_in_namespace ON memories (tenant_id, namespace, created_at, id)`,
  `CREATE INDEX memories_of_tenant ON memories (tenant_id, created_at, id)`,
  `CREATE UNIQUE INDEX memories_once ON memories (tenant_id, once) WHERE once IS NOT NULL`,
  `CREATE INDEX memories_by_expiry ON memories (expires_at) WHERE expires_at IS NOT NULL`,
];

/** The words, each with the scope as its prefix. */
function scoped(row: string): string {
  return `replace(' ' || ${row}words, ' ', ' ' || ${row}scope)`;
}

/**
 * Vectors of memories. A trigger inserts a row in the commit that stores the memory; its `model` is
 * empty until it has a vector.
 *
 * - Rows whose model is below or above M need a vector of model M, so a change of model makes all due.
 * - `revision` grows with the time of the vector. Count and sum show whether a cache is current.
 * - `signs` are the signs of the vector's numbers, one bit each (`search/sign-bits.ts`).
 */
function vectorTable(bytes: 'BLOB' | 'BYTEA'): string {
  return `CREATE TABLE memory_vectors (
    memory_id TEXT NOT NULL PRIMARY KEY,
    tenant_id TEXT NOT NULL,
    namespace TEXT NOT NULL,
    model TEXT NOT NULL DEFAULT '',
    due_at BIGINT NOT NULL DEFAULT 0,
    attempts BIGINT NOT NULL DEFAULT 0,
    revision BIGINT NOT NULL DEFAULT 0,
    signs ${bytes},
    vector ${bytes}
  )`;
}

const vectorsDue = `CREATE INDEX memory_vectors_due ON memory_vectors (tenant_id, model, due_at)`;
const spaceColumns = 'tenant_id, namespace, model, revision';
const rowOf = (row: string) => `${row}id, ${row}tenant_id, ${row}namespace`;
const insert = 'INSERT INTO memory_vectors (memory_id, tenant_id, namespace)';

/**
 * The ids of the current tenant's memories, those with the most words first; of each word the newest
 * five hundred count. Under a policy PostgreSQL does not search an index of words, whose operators might
 * reveal hidden rows. So this function runs as the owner of the table and returns only ids, whose rows
 * are read under the policy.
 *
 * The functions around columns keep other indexes from being chosen.
 */
const findMemories = `CREATE FUNCTION
  relay_search_memories(query_words TEXT, in_namespace TEXT, now BIGINT, max_results BIGINT) RETURNS SETOF TEXT
  LANGUAGE sql STABLE SECURITY DEFINER ROWS 50 SET search_path FROM CURRENT AS $$
    SELECT matches.id FROM unnest(string_to_array(query_words, ' ')) AS words (word)
    CROSS JOIN LATERAL (
      SELECT m.id, m.created_at FROM memories m
      WHERE m.lexemes @@ quote_literal(words.word)::tsquery
        AND COALESCE(m.tenant_id, '') = ${currentTenant} AND COALESCE(m.namespace, '') = in_namespace
        AND (m.expires_at IS NULL OR m.expires_at > now)
      ORDER BY m.created_at DESC, m.id DESC LIMIT 500
    ) AS matches
    GROUP BY matches.id, matches.created_at
    ORDER BY COUNT(*) DESC, matches.created_at DESC, matches.id DESC LIMIT max_results
  $$`;

export const memoryTables = {
  sqlite: [
    // The index refers to a memory by its rowid, which is stable only as a primary key.
    `CREATE TABLE memories (
    index_rowid INTEGER NOT NULL PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    ${columns}
  )`,
    ...indexes,
    // The words are already cut: the tokenizer only splits at spaces.
    `CREATE VIRTUAL TABLE memory_index USING fts5(
    words, content = '', contentless_delete = 1, tokenize = 'ascii'
  )`,
    `CREATE TRIGGER memory_indexed AFTER INSERT ON memories BEGIN
    INSERT INTO memory_index (rowid, words) VALUES (new.index_rowid, ${scoped('new.')});
  END`,
    `CREATE TRIGGER memory_unindexed AFTER DELETE ON memories BEGIN
    DELETE FROM memory_index WHERE rowid = old.index_rowid;
  END`,
    vectorTable('BLOB'),
    vectorsDue,
    // Includes the signs, so that the rows of the table, larger than a page, are not read.
    `CREATE INDEX memory_vectors_in_space ON memory_vectors (${spaceColumns}, memory_id, signs)`,
    `CREATE TRIGGER memory_vector_insert AFTER INSERT ON memories BEGIN
    ${insert} VALUES (${rowOf('new.')});
  END`,
    `CREATE TRIGGER memory_vector_delete AFTER DELETE ON memories BEGIN
    DELETE FROM memory_vectors WHERE memory_id = old.id;
  END`,
  ],
  postgres: [
    `CREATE TABLE memories (
    id TEXT NOT NULL PRIMARY KEY,
    ${columns},
    lexemes TSVECTOR NOT NULL GENERATED ALWAYS AS (
      array_to_tsvector(string_to_array(ltrim(${scoped('')}), ' '))
    ) STORED
  )`,
    ...indexes,
    // Every search would read the pending list.
    `CREATE INDEX memory_index ON memories USING gin (lexemes) WITH (fastupdate = off)`,
    findMemories,
    vectorTable('BYTEA'),
    vectorsDue,
    `CREATE INDEX memory_vectors_in_space ON memory_vectors (${spaceColumns})`,
    `CREATE FUNCTION relay_memory_vector_insert() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN
    ${insert} VALUES (${rowOf('NEW.')});
    RETURN NULL;
  END'`,
    `CREATE FUNCTION relay_memory_vector_delete() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN
    DELETE FROM memory_vectors WHERE memory_id = OLD.id;
    RETURN NULL;
  END'`,
    `CREATE TRIGGER memory_vector_insert AFTER INSERT ON memories
    FOR EACH ROW EXECUTE FUNCTION relay_memory_vector_insert()`,
    `CREATE TRIGGER memory_vector_delete AFTER DELETE ON memories
    FOR EACH ROW EXECUTE FUNCTION relay_memory_vector_delete()`,
  ],
} as const;
