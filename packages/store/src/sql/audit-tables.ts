/**
 * The audit trail: entries are added without a place, and get it together with their place in the
 * chain when a batch is sealed. Nothing is ever deleted.
 */
export const auditTables: readonly string[] = [
  `CREATE TABLE audit_entries (
    id TEXT NOT NULL PRIMARY KEY,
    tenant_id TEXT NOT NULL,
    at BIGINT NOT NULL,
    action TEXT NOT NULL,
    actor TEXT NOT NULL,
    run_id TEXT,
    entry TEXT NOT NULL,
    proof TEXT NOT NULL,
    seq BIGINT,
    hash TEXT
  )`,
  `CREATE INDEX audit_to_seal ON audit_entries (tenant_id, at, id) WHERE seq IS NULL`,
  `CREATE UNIQUE INDEX audit_in_place ON audit_entries (tenant_id, seq) WHERE seq IS NOT NULL`,
  `CREATE INDEX audit_by_time ON audit_entries (tenant_id, at, id)`,
  `CREATE INDEX audit_by_action ON audit_entries (tenant_id, action, at, id)`,
  `CREATE INDEX audit_by_actor ON audit_entries (tenant_id, actor, at, id)`,
  `CREATE INDEX audit_by_run ON audit_entries (tenant_id, run_id, at, id) WHERE run_id IS NOT NULL`,
  `CREATE TABLE audit_seals (
    tenant_id TEXT NOT NULL,
    first_seq BIGINT NOT NULL,
    last_seq BIGINT NOT NULL,
    hash TEXT NOT NULL,
    at BIGINT NOT NULL,
    proof TEXT NOT NULL,
    PRIMARY KEY (tenant_id, first_seq)
  )`,
];

/**
 * What a trail is searched by is only what has its place. So an entry is written into two indexes, in
 * the commit that somebody waits for; the others get it when its batch is sealed.
 *
 * SQLite took the index of times for every search: nothing told it that few entries are of one actor.
 * Now its condition is one that only a search by time alone names, `seq > 0`.
 */
export const auditIndexes: readonly string[] = [
  ...['time', 'action', 'actor', 'run'].map((by) => `DROP INDEX audit_by_${by}`),
  `CREATE INDEX audit_placed_by_time ON audit_entries (tenant_id, at, id) WHERE seq > 0`,
  ...['action', 'actor'].map(
    (by) => `CREATE INDEX audit_placed_by_${by} ON audit_entries (tenant_id, ${by}, at, id)
      WHERE seq IS NOT NULL`,
  ),
  `CREATE INDEX audit_placed_by_run ON audit_entries (tenant_id, run_id, at, id)
    WHERE seq IS NOT NULL AND run_id IS NOT NULL`,
];
