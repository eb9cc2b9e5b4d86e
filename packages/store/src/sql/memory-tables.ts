/**
 * Memories and the index of their words. Each word in the index begins with the `scope` of its
 * namespace, a short fingerprint: what one namespace holds makes no search in another slower, and
 * counts for nothing there.
 *
 * `words` is what a memory is ranked by (`search/relevance.ts`); `text` comes last, because finding
 * does not read it.
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

/** A word that a namespace does not have is followed by its words, each with the scope before it. */
function scoped(row: string): string {
  return `replace(' ' || ${row}words, ' ', ' ' || ${row}scope)`;
}

export const memoryTables = {
  sqlite: [
    // The index knows a memory by a number, which only a primary key keeps for good.
    `CREATE TABLE memories (
    place INTEGER NOT NULL PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    ${columns}
  )`,
    ...indexes,
    // Words are cut before they come here: all that the tokenizer has to see is the spaces.
    `CREATE VIRTUAL TABLE memory_index USING fts5(
    words, content = '', contentless_delete = 1, tokenize = 'ascii'
  )`,
    `CREATE TRIGGER memory_indexed AFTER INSERT ON memories BEGIN
    INSERT INTO memory_index (rowid, words) VALUES (new.place, ${scoped('new.')});
  END`,
    `CREATE TRIGGER memory_unindexed AFTER DELETE ON memories BEGIN
    DELETE FROM memory_index WHERE rowid = old.place;
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
    // What waits in a list to be indexed would be read by every search.
    `CREATE INDEX memory_index ON memories USING gin (lexemes) WITH (fastupdate = off)`,
  ],
} as const;
