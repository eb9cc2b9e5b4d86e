/** Tenants, and what they own besides runs and memories. */
export const accountTables: readonly string[] = [
  `CREATE TABLE tenants (
    id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    created_at BIGINT NOT NULL,
    paused_at BIGINT,
    settings TEXT NOT NULL,
    policies TEXT NOT NULL,
    mac TEXT NOT NULL
  )`,
  `CREATE INDEX paused_tenants ON tenants (id) WHERE paused_at IS NOT NULL`,
  `CREATE TABLE keys (
    id TEXT NOT NULL PRIMARY KEY,
    tenant_id TEXT NOT NULL,
    hash TEXT NOT NULL UNIQUE,
    kind TEXT NOT NULL,
    parent TEXT,
    name TEXT NOT NULL,
    owner TEXT,
    role TEXT,
    scopes TEXT NOT NULL,
    groups TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT,
    revoked_at BIGINT,
    last_used_at BIGINT,
    replaces TEXT NOT NULL,
    replaced_by TEXT,
    mac TEXT NOT NULL
  )`,
  `CREATE INDEX keys_of_tenant ON keys (tenant_id, created_at, id)`,
  `CREATE INDEX sign_ins_over ON keys (expires_at) WHERE parent IS NOT NULL`,
  `CREATE TABLE credentials (
    tenant_id TEXT NOT NULL,
    provider TEXT NOT NULL,
    id TEXT NOT NULL UNIQUE,
    label TEXT,
    base_url TEXT,
    last4 TEXT NOT NULL,
    sealed TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    mac TEXT NOT NULL,
    PRIMARY KEY (tenant_id, provider)
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
    mac TEXT NOT NULL,
    expires_at BIGINT,
    uses BIGINT,
    approvers TEXT,
    definition_digest TEXT,
    uses_left BIGINT,
    revoked_at BIGINT
  )`,
  `CREATE INDEX grants_in_scope ON grants (tenant_id, scope_id)`,
  `CREATE INDEX grants_of_tenant ON grants (tenant_id, created_at, id)`,
  `CREATE TABLE policies (
    id TEXT NOT NULL PRIMARY KEY,
    tenant_id TEXT NOT NULL,
    agent TEXT NOT NULL,
    version BIGINT NOT NULL,
    rules TEXT NOT NULL,
    at BIGINT NOT NULL,
    made_by TEXT NOT NULL,
    mac TEXT NOT NULL
  )`,
  `CREATE UNIQUE INDEX policy_versions ON policies (tenant_id, agent, version, id)`,
  `CREATE UNIQUE INDEX policy_once ON policies (tenant_id, agent, version)`,
  `CREATE TABLE webhooks (
    id TEXT NOT NULL PRIMARY KEY,
    tenant_id TEXT NOT NULL,
    url TEXT NOT NULL,
    events TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    created_by TEXT NOT NULL,
    may_decide BIGINT NOT NULL,
    filter_handle TEXT,
    filter_channel TEXT,
    filter_mention TEXT,
    mac TEXT NOT NULL
  )`,
  `CREATE INDEX webhooks_of_tenant ON webhooks (tenant_id, created_at, id)`,
  `CREATE TABLE deliveries (
    webhook_id TEXT NOT NULL,
    id TEXT NOT NULL,
    tenant_id TEXT NOT NULL,
    event TEXT NOT NULL,
    payload TEXT NOT NULL,
    at BIGINT NOT NULL,
    queued_at BIGINT NOT NULL,
    status TEXT NOT NULL,
    attempts BIGINT NOT NULL,
    next_at BIGINT NOT NULL,
    last_status BIGINT,
    last_error TEXT,
    PRIMARY KEY (webhook_id, id)
  )`,
  `CREATE INDEX deliveries_of_webhook ON deliveries (tenant_id, webhook_id, at, id)`,
  `CREATE INDEX deliveries_due ON deliveries (webhook_id, next_at, id) WHERE status = 'pending'`,
  // `queued_at > 0` appears in no claim, so that only a sweep uses this index.
  `CREATE INDEX deliveries_late ON deliveries (queued_at)
    WHERE status = 'pending' AND queued_at > 0`,
  `CREATE INDEX deliveries_over ON deliveries (queued_at) WHERE status <> 'pending'`,
];

/**
 * The audit trail. A new entry is in a table without indexes, because a caller waits for its commit. It
 * moves to `audit_entries` when its batch is sealed, where nothing is ever changed or deleted.
 */
export const auditTables: readonly string[] = [
  `CREATE TABLE audit_unsealed (
    tenant_id TEXT NOT NULL,
    at BIGINT NOT NULL,
    id TEXT NOT NULL,
    action TEXT NOT NULL,
    actor TEXT NOT NULL,
    run_id TEXT,
    entry TEXT NOT NULL,
    proof TEXT NOT NULL,
    PRIMARY KEY (tenant_id, at, id)
  )`,
  `CREATE TABLE audit_entries (
    tenant_id TEXT NOT NULL,
    at BIGINT NOT NULL,
    id TEXT NOT NULL,
    action TEXT NOT NULL,
    actor TEXT NOT NULL,
    run_id TEXT,
    entry TEXT NOT NULL,
    proof TEXT NOT NULL,
    seq BIGINT NOT NULL,
    hash TEXT NOT NULL,
    PRIMARY KEY (tenant_id, seq)
  )`,
  `CREATE INDEX audit_by_action ON audit_entries (tenant_id, action, at, id)`,
  `CREATE INDEX audit_by_actor ON audit_entries (tenant_id, actor, at, id)`,
  `CREATE INDEX audit_by_run ON audit_entries (tenant_id, run_id, at, id) WHERE run_id IS NOT NULL`,
  // After the others: of indexes that seem equally good, SQLite chooses the first.
  // Unique: an entry is sealed once.
  `CREATE UNIQUE INDEX audit_by_time ON audit_entries (tenant_id, at, id)`,
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
