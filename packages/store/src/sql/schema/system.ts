/** What belongs to no tenant. */
export const systemTables: readonly string[] = [
  `CREATE TABLE metadata (
    name TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL,
    checksum BIGINT NOT NULL
  )`,
  `CREATE TABLE probes (id BIGINT NOT NULL PRIMARY KEY, count BIGINT NOT NULL)`,
  `CREATE TABLE nodes (
    id TEXT NOT NULL PRIMARY KEY,
    alive_until BIGINT NOT NULL
  )`,
];
