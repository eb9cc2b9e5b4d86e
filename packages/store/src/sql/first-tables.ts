/**
 * What an append changes comes first in `runs`, and what is large lies elsewhere (`snapshots`),
 * because each append rewrites its run's row. The indexes on runs are partial: finding work costs
 * the same however many runs have ended.
 */
export const firstTables: readonly string[] = [
  `CREATE TABLE tenants (
    id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    created_at BIGINT NOT NULL
  )`,
  `CREATE TABLE keys (
    id TEXT NOT NULL PRIMARY KEY,
    tenant_id TEXT NOT NULL,
    hash TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    scopes TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT,
    revoked_at BIGINT
  )`,
  `CREATE TABLE conversations (
    tenant_id TEXT NOT NULL,
    id TEXT NOT NULL,
    ended_runs BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, id)
  )`,
  `CREATE TABLE runs (
    id TEXT NOT NULL PRIMARY KEY,
    tenant_id TEXT NOT NULL,
    last_seq BIGINT NOT NULL,
    epoch BIGINT NOT NULL,
    lease_owner TEXT,
    lease_until BIGINT NOT NULL,
    status TEXT NOT NULL,
    wake_at BIGINT,
    position BIGINT,
    created_at BIGINT NOT NULL,
    started_at BIGINT,
    ended_at BIGINT,
    conversation_id TEXT NOT NULL,
    correlation_id TEXT NOT NULL,
    surface TEXT NOT NULL,
    agent TEXT NOT NULL,
    model TEXT NOT NULL,
    labels TEXT NOT NULL,
    parent_run_id TEXT,
    workflow_id TEXT,
    usage TEXT NOT NULL,
    error TEXT,
    serialized_state TEXT,
    state_checksum BIGINT,
    output_json TEXT
  )`,
  `CREATE INDEX runs_to_do ON runs (created_at, id) WHERE status IN ('queued', 'running')`,
  `CREATE INDEX runs_to_wake ON runs (wake_at) WHERE status = 'waiting' AND wake_at IS NOT NULL`,
  `CREATE INDEX runs_leased ON runs (lease_owner) WHERE lease_owner IS NOT NULL`,
  `CREATE INDEX runs_of_conversation ON runs (conversation_id, position) WHERE position IS NOT NULL`,
  `CREATE TABLE snapshots (
    run_id TEXT NOT NULL PRIMARY KEY,
    tenant_id TEXT NOT NULL,
    seq BIGINT NOT NULL,
    body TEXT NOT NULL,
    checksum BIGINT NOT NULL
  )`,
  `CREATE TABLE events (
    tenant_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    last_seq BIGINT NOT NULL,
    first_seq BIGINT NOT NULL,
    at BIGINT NOT NULL,
    payload TEXT NOT NULL,
    checksum BIGINT NOT NULL,
    PRIMARY KEY (run_id, last_seq)
  )`,
  `CREATE TABLE relays (
    id TEXT NOT NULL PRIMARY KEY,
    tenant_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    status TEXT NOT NULL,
    raised_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    decided_at BIGINT,
    decided_by TEXT,
    reason TEXT,
    answer TEXT,
    kind TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    agent_path TEXT NOT NULL,
    tool_call_id TEXT NOT NULL,
    tool TEXT NOT NULL,
    params TEXT NOT NULL,
    digest TEXT NOT NULL,
    checksum BIGINT NOT NULL
  )`,
  `CREATE INDEX open_relays ON relays (run_id) WHERE status = 'pending'`,
  `CREATE TABLE mail (
    run_id TEXT NOT NULL,
    id TEXT NOT NULL,
    tenant_id TEXT NOT NULL,
    place BIGINT NOT NULL,
    letter TEXT NOT NULL,
    checksum BIGINT NOT NULL,
    PRIMARY KEY (run_id, id)
  )`,
  `CREATE TABLE grants (
    id TEXT NOT NULL PRIMARY KEY,
    tenant_id TEXT NOT NULL,
    scope TEXT NOT NULL,
    scope_id TEXT NOT NULL,
    tool TEXT NOT NULL,
    exact TEXT,
    params TEXT,
    created_at BIGINT NOT NULL,
    created_by TEXT NOT NULL,
    checksum BIGINT NOT NULL
  )`,
  `CREATE INDEX grants_in_scope ON grants (tenant_id, scope_id)`,
  `CREATE TABLE connections (
    id TEXT NOT NULL PRIMARY KEY,
    tenant_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    node TEXT NOT NULL
  )`,
  `CREATE INDEX connections_of_run ON connections (run_id)`,
  `CREATE TABLE probes (id BIGINT NOT NULL PRIMARY KEY, count BIGINT NOT NULL)`,
];
