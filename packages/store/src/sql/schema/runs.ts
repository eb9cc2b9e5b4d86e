/**
 * The journal. The last row of a run may grow (`sql/runs/events.ts`), so what changes with it is in no
 * index. A row has either `json` or `deflated`; `size` is the length of the JSON in bytes.
 */
export function eventsTable(bytes: 'BLOB' | 'BYTEA'): string {
  return `CREATE TABLE events (
    tenant_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    first_seq BIGINT NOT NULL,
    last_seq BIGINT NOT NULL,
    at BIGINT NOT NULL,
    size BIGINT NOT NULL,
    checksum BIGINT NOT NULL,
    json TEXT,
    deflated ${bytes},
    PRIMARY KEY (run_id, first_seq)
  )`;
}

/**
 * Each append rewrites its run's row, so changing columns come first in `runs`, and snapshots are in a
 * table of their own. Indexes that find work are partial: their cost does not grow with ended runs.
 * Indexes for lists begin with the tenant and end with the time and the id; none contains a column that
 * every append changes. A list of any status is merged from those of each status, which saves indexes.
 */
export const runTables: readonly string[] = [
  `CREATE TABLE conversations (
    tenant_id TEXT NOT NULL,
    id TEXT NOT NULL,
    updated_at BIGINT NOT NULL,
    runs BIGINT NOT NULL,
    last_run_id TEXT NOT NULL,
    ended_runs BIGINT NOT NULL,
    ended_at BIGINT,
    owner TEXT NOT NULL,
    session_id TEXT,
    title TEXT,
    title_search TEXT,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, id)
  )`,
  `CREATE INDEX conversations_by_update ON conversations (tenant_id, updated_at, id)`,
  // The time when a run of it has ended last, until its runs are pruned.
  `CREATE INDEX conversations_to_prune ON conversations (ended_at) WHERE ended_at IS NOT NULL`,
  `CREATE TABLE runs (
    id TEXT NOT NULL PRIMARY KEY,
    tenant_id TEXT NOT NULL,
    last_seq BIGINT NOT NULL,
    journal_size BIGINT NOT NULL DEFAULT 0,
    epoch BIGINT NOT NULL,
    lease_owner TEXT,
    lease_until BIGINT NOT NULL,
    crashes BIGINT NOT NULL DEFAULT 0,
    crashed_nodes TEXT NOT NULL DEFAULT '',
    status TEXT NOT NULL,
    wake_at BIGINT,
    position BIGINT,
    created_at BIGINT NOT NULL,
    started_at BIGINT,
    ended_at BIGINT,
    input_tokens BIGINT NOT NULL,
    output_tokens BIGINT NOT NULL,
    cost_usd DOUBLE PRECISION,
    reserved_tokens BIGINT NOT NULL DEFAULT 0,
    reserved_usd DOUBLE PRECISION NOT NULL DEFAULT 0,
    counted_input_tokens BIGINT NOT NULL DEFAULT 0,
    counted_output_tokens BIGINT NOT NULL DEFAULT 0,
    counted_usd DOUBLE PRECISION NOT NULL DEFAULT 0,
    conversation_id TEXT NOT NULL,
    correlation_id TEXT NOT NULL,
    surface TEXT NOT NULL,
    agent TEXT NOT NULL,
    model TEXT NOT NULL,
    labels TEXT NOT NULL,
    parent_run_id TEXT,
    workflow_id TEXT,
    key_id TEXT,
    owner TEXT NOT NULL,
    error TEXT,
    error_code TEXT,
    first_token_ms BIGINT,
    finish_reason TEXT,
    serialized_state TEXT,
    state_checksum BIGINT,
    output_json TEXT,
    answer_seq BIGINT,
    usage_details TEXT,
    pruning BIGINT,
    forked_from TEXT
  )`,
  // Runs to drive, and those that are driven.
  `CREATE INDEX runs_open ON runs (tenant_id, created_at, id, status, lease_owner)
    WHERE status IN ('queued', 'running') OR lease_owner IS NOT NULL`,
  `CREATE INDEX runs_to_wake ON runs (tenant_id, wake_at, id)
    WHERE status = 'waiting' AND wake_at IS NOT NULL`,
  `CREATE INDEX runs_crashed ON runs (crashes, created_at, id)
    WHERE crashes > 0 AND status IN ('queued', 'running', 'waiting')`,
  `CREATE INDEX runs_ended ON runs (tenant_id, conversation_id, position)
    WHERE position IS NOT NULL`,
  // Includes the key, so that its open runs are counted without reading their rows.
  `CREATE INDEX runs_by_status ON runs (tenant_id, status, created_at, id, key_id)`,
  `CREATE INDEX runs_by_agent ON runs (tenant_id, agent, status, created_at, id)`,
  `CREATE INDEX runs_by_conversation ON runs (tenant_id, conversation_id, created_at, id)`,
  `CREATE INDEX runs_by_workflow ON runs (tenant_id, workflow_id, created_at, id)
    WHERE workflow_id IS NOT NULL`,
  `CREATE INDEX runs_open_in_workflow ON runs (tenant_id, workflow_id, status)
    WHERE workflow_id IS NOT NULL AND status IN ('queued', 'running', 'waiting')`,
  `CREATE INDEX runs_by_parent ON runs (tenant_id, parent_run_id, created_at, id)
    WHERE parent_run_id IS NOT NULL`,
  `CREATE INDEX runs_pruning ON runs (pruning, tenant_id, id) WHERE pruning = 1`,
  `CREATE INDEX runs_forked ON runs (tenant_id, forked_from) WHERE forked_from IS NOT NULL`,
  `CREATE TABLE run_labels (
    tenant_id TEXT NOT NULL,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    run_id TEXT NOT NULL,
    PRIMARY KEY (tenant_id, name, value, created_at, run_id)
  )`,
  `CREATE TABLE idempotency_keys (
    tenant_id TEXT NOT NULL,
    name TEXT NOT NULL,
    holder_id TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    expires_at BIGINT NOT NULL,
    checksum BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, name)
  )`,
  `CREATE INDEX idempotency_by_expiry ON idempotency_keys (tenant_id, expires_at)`,
  `CREATE TABLE usage_days (
    tenant_id TEXT NOT NULL,
    key_id TEXT NOT NULL,
    day BIGINT NOT NULL,
    input_tokens BIGINT NOT NULL,
    output_tokens BIGINT NOT NULL,
    cost_usd DOUBLE PRECISION NOT NULL,
    runs BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, key_id, day)
  )`,
  `CREATE INDEX usage_of_tenant ON usage_days (tenant_id, day)`,
  `CREATE TABLE workflow_totals (
    tenant_id TEXT NOT NULL,
    workflow_id TEXT NOT NULL,
    status TEXT NOT NULL,
    runs BIGINT NOT NULL,
    input_tokens BIGINT NOT NULL,
    output_tokens BIGINT NOT NULL,
    cost_usd DOUBLE PRECISION,
    unpriced BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, workflow_id, status)
  )`,
  `CREATE TABLE snapshots (
    run_id TEXT NOT NULL PRIMARY KEY,
    tenant_id TEXT NOT NULL,
    seq BIGINT NOT NULL,
    body TEXT NOT NULL,
    checksum BIGINT NOT NULL
  )`,
  `CREATE TABLE approvals (
    id TEXT NOT NULL PRIMARY KEY,
    tenant_id TEXT NOT NULL,
    run_id TEXT,
    session_id TEXT,
    conversation_id TEXT,
    invocation_id TEXT,
    key_id TEXT,
    status TEXT NOT NULL,
    requested_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    decided_at BIGINT,
    decided_by TEXT,
    by_person BIGINT,
    reason TEXT,
    answer TEXT,
    kind TEXT NOT NULL,
    agent_id TEXT,
    agent_path TEXT NOT NULL,
    tool_call_id TEXT,
    tool TEXT NOT NULL,
    params TEXT NOT NULL,
    digest TEXT NOT NULL,
    mac TEXT NOT NULL,
    edited TEXT,
    question TEXT,
    resolved_paths TEXT,
    definition_digest TEXT,
    preview TEXT,
    earlier_denial TEXT,
    rule TEXT,
    shown TEXT,
    is_concrete BIGINT,
    is_editable BIGINT,
    ballot BIGINT NOT NULL,
    votes TEXT
  )`,
  `CREATE INDEX approvals_by_run ON approvals (tenant_id, run_id, requested_at, id)`,
  `CREATE INDEX approvals_by_session ON approvals (tenant_id, session_id, requested_at, id)
    WHERE session_id IS NOT NULL`,
  `CREATE INDEX approvals_by_conversation ON approvals (tenant_id, conversation_id, requested_at, id)`,
  `CREATE INDEX approvals_by_invocation ON approvals (tenant_id, invocation_id, requested_at, id)
    WHERE invocation_id IS NOT NULL`,
  `CREATE INDEX approvals_to_prune ON approvals (decided_at)
    WHERE run_id IS NULL AND decided_at IS NOT NULL`,
  // Includes the tool, so that the requests of a time are counted without reading their rows.
  `CREATE INDEX approvals_by_kind ON approvals (tenant_id, kind, status, requested_at, id, tool)`,
  // Statistics read no rows.
  `CREATE INDEX approvals_by_decision
    ON approvals (tenant_id, decided_at, status, kind, by_person, requested_at, tool, id)
    WHERE decided_at IS NOT NULL`,
  // Without the status, which a decision changes.
  `CREATE INDEX approvals_by_tool ON approvals (tenant_id, tool, requested_at, id)`,
  `CREATE TABLE run_inbox (
    run_id TEXT NOT NULL,
    id TEXT NOT NULL,
    tenant_id TEXT NOT NULL,
    position BIGINT NOT NULL,
    kind TEXT NOT NULL,
    command TEXT NOT NULL,
    mac TEXT NOT NULL,
    wakes BIGINT NOT NULL,
    PRIMARY KEY (run_id, id)
  )`,
  `CREATE INDEX inboxes_of_tenant ON run_inbox (tenant_id, run_id) WHERE wakes = 1`,
  `CREATE INDEX cancels_of_tenant ON run_inbox (tenant_id, run_id) WHERE kind = 'cancel'`,
  `CREATE TABLE connections (
    id TEXT NOT NULL PRIMARY KEY,
    tenant_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    node TEXT NOT NULL
  )`,
  `CREATE INDEX connections_of_run ON connections (run_id)`,
  `CREATE TABLE client_calls (
    run_id TEXT NOT NULL,
    tool_call_id TEXT NOT NULL,
    tenant_id TEXT NOT NULL,
    status TEXT NOT NULL,
    result_by BIGINT NOT NULL,
    claim_id TEXT,
    claimed_until BIGINT NOT NULL,
    digest TEXT,
    failed BIGINT NOT NULL,
    output TEXT,
    checksum BIGINT,
    PRIMARY KEY (run_id, tool_call_id)
  )`,
];

/**
 * Runs by their end, for statistics. SQLite reads no rows for these. On PostgreSQL an index of columns that
 * appends change would make each append change every index.
 */
export const endedRunsIndex = {
  sqlite: `CREATE INDEX runs_by_end ON runs (tenant_id, ended_at, status, first_token_ms, input_tokens,
      output_tokens, cost_usd, agent, model, error_code, id)
    WHERE ended_at IS NOT NULL`,
  postgres: `CREATE INDEX runs_by_end ON runs (tenant_id, ended_at, id) WHERE ended_at IS NOT NULL`,
} as const;
