/**
 * What memories mean. A memory has a row here from the commit that stores it, written by the database
 * itself, so that none is forgotten whoever stores it; its `model` is empty until a vector is there.
 *
 * - What wants a vector of model M are the rows whose model is below or above M: a change of model
 *   makes all of them due, and nothing has to be remembered about it.
 * - `revision` grows with the time of the vector. Its count and sum tell whether a cache is up to date.
 * - `signs` are the signs of the vector's numbers, one bit each (`search/signs.ts`).
 */
function tables(bytes: 'BLOB' | 'BYTEA'): string {
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

const waiting = `CREATE INDEX memory_vectors_due ON memory_vectors (tenant_id, model, due_at)`;
const place = 'tenant_id, namespace, model, revision';
const rowOf = (row: string) => `${row}id, ${row}tenant_id, ${row}namespace`;
const insert = 'INSERT INTO memory_vectors (memory_id, tenant_id, namespace)';
const fill = `${insert} SELECT ${rowOf('')} FROM memories`;

export const vectorTables = {
  sqlite: [
    tables('BLOB'),
    waiting,
    // With the signs in it: a row of the table is larger than a page, and would be read for them.
    `CREATE INDEX memory_vectors_in_space ON memory_vectors (${place}, memory_id, signs)`,
    `CREATE TRIGGER memory_awaits_vector AFTER INSERT ON memories BEGIN
    ${insert} VALUES (${rowOf('new.')});
  END`,
    `CREATE TRIGGER memory_takes_vector AFTER DELETE ON memories BEGIN
    DELETE FROM memory_vectors WHERE memory_id = old.id;
  END`,
  ],
  postgres: [
    tables('BYTEA'),
    waiting,
    `CREATE INDEX memory_vectors_in_space ON memory_vectors (${place})`,
    `CREATE FUNCTION relay_memory_awaits_vector() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN
    ${insert} VALUES (${rowOf('NEW.')});
    RETURN NULL;
  END'`,
    `CREATE FUNCTION relay_memory_takes_vector() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN
    DELETE FROM memory_vectors WHERE memory_id = OLD.id;
    RETURN NULL;
  END'`,
    `CREATE TRIGGER memory_awaits_vector AFTER INSERT ON memories
    FOR EACH ROW EXECUTE FUNCTION relay_memory_awaits_vector()`,
    `CREATE TRIGGER memory_takes_vector AFTER DELETE ON memories
    FOR EACH ROW EXECUTE FUNCTION relay_memory_takes_vector()`,
  ],
} as const;

/**
 * What was there before the triggers were. A step of its own, after they are committed: nodes of the
 * version before go on storing memories, and one that came after this had looked and before there was
 * a trigger would be forgotten. Nobody who stores waits for it; who deletes does.
 */
export const vectorBacklog = {
  sqlite: [`${fill} WHERE true ON CONFLICT DO NOTHING`],
  postgres: [`${fill} FOR KEY SHARE ON CONFLICT DO NOTHING`],
} as const;
