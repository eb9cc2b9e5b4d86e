/**
 * Sessions, messages, channels and actions. As in `runs`, columns that change come first, and indexes that
 * find work are partial: those of deliveries hold what is in an inbox, and `sessions_due` holds sessions
 * that need attention at some time.
 *
 * The journal of a session is not in `events`: several writers append to it, so the database numbers its
 * rows, and it ends with its session. Terminal output is in rows of its own, of which the oldest are
 * deleted. Each row names the last other event before it (`follows`; of a session, `lasting_seq`), which
 * tells what was deleted from what is missing.
 */
import { currentTenant } from './row-security.ts';

/** Invocations that start a handler of the configuration, or a URL, and those that do not. */
export const isDueHandler = (row: string) =>
  `${row}due_at IS NOT NULL AND ${row}status = 'running' AND ${row}session_id IS NULL`;
export const isDueOther = (row: string) =>
  `${row}due_at IS NOT NULL AND (${row}status <> 'running' OR ${row}session_id IS NOT NULL)`;

export const sessionTables: readonly string[] = [
  `CREATE TABLE sessions (
    id TEXT NOT NULL PRIMARY KEY,
    tenant_id TEXT NOT NULL,
    last_seq BIGINT NOT NULL,
    version BIGINT NOT NULL,
    lasting_seq BIGINT NOT NULL DEFAULT 0,
    lasting_before BIGINT NOT NULL DEFAULT 0,
    terminal_bytes BIGINT NOT NULL DEFAULT 0,
    terminal_pruned BIGINT NOT NULL DEFAULT 0,
    pruned_seq BIGINT NOT NULL DEFAULT 0,
    oldest_at BIGINT,
    status TEXT NOT NULL,
    active_run_id TEXT,
    due_at BIGINT,
    last_active_at BIGINT NOT NULL,
    seen_at BIGINT NOT NULL,
    stream_id TEXT,
    stream_node TEXT,
    released_at BIGINT,
    pruning BIGINT,
    state TEXT NOT NULL,
    state_checksum BIGINT NOT NULL,
    forked_from TEXT,
    handle TEXT NOT NULL,
    name TEXT NOT NULL,
    kind TEXT NOT NULL,
    harness TEXT NOT NULL,
    capabilities TEXT NOT NULL,
    conversation_id TEXT NOT NULL,
    agent TEXT,
    model TEXT,
    labels TEXT NOT NULL,
    workspace TEXT,
    permissions TEXT NOT NULL,
    parent_session_id TEXT,
    owner TEXT NOT NULL,
    key_id TEXT,
    token_hash TEXT,
    created_at BIGINT NOT NULL,
    mac TEXT NOT NULL
  )`,
  `CREATE UNIQUE INDEX session_handles ON sessions (tenant_id, handle) WHERE released_at IS NULL`,
  `CREATE INDEX released_handles ON sessions (tenant_id, handle, released_at)
    WHERE released_at IS NOT NULL`,
  `CREATE UNIQUE INDEX session_tokens ON sessions (token_hash) WHERE token_hash IS NOT NULL`,
  `CREATE INDEX sessions_by_status ON sessions (tenant_id, status, created_at, id)`,
  `CREATE INDEX sessions_by_run ON sessions (tenant_id, active_run_id)
    WHERE active_run_id IS NOT NULL`,
  `CREATE INDEX sessions_forked ON sessions (tenant_id, forked_from) WHERE forked_from IS NOT NULL`,
  `CREATE INDEX sessions_due ON sessions (tenant_id, due_at, id) WHERE due_at IS NOT NULL`,
  `CREATE INDEX sessions_of_harness ON sessions (harness, id) WHERE released_at IS NULL`,
  `CREATE INDEX sessions_streaming ON sessions (stream_node, id) WHERE stream_node IS NOT NULL`,
  `CREATE INDEX sessions_to_prune ON sessions (released_at) WHERE released_at IS NOT NULL`,
  `CREATE INDEX sessions_by_oldest ON sessions (oldest_at) WHERE released_at IS NULL`,
  `CREATE INDEX sessions_pruning ON sessions (id) WHERE pruning = 1`,
  `CREATE TABLE session_labels (
    tenant_id TEXT NOT NULL,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    session_id TEXT NOT NULL,
    PRIMARY KEY (tenant_id, name, value, created_at, session_id)
  )`,
  `CREATE INDEX labels_of_session ON session_labels (session_id)`,
  `CREATE TABLE session_events (
    session_id TEXT NOT NULL,
    last_seq BIGINT NOT NULL,
    first_seq BIGINT NOT NULL,
    tenant_id TEXT NOT NULL,
    at BIGINT NOT NULL,
    payload TEXT NOT NULL,
    checksum BIGINT NOT NULL,
    follows BIGINT NOT NULL DEFAULT 0,
    terminal_bytes BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (session_id, last_seq)
  )`,
  `CREATE INDEX terminal_output ON session_events (session_id, last_seq, terminal_bytes)
    WHERE terminal_bytes > 0`,
  `CREATE TABLE session_snapshots (
    id TEXT NOT NULL PRIMARY KEY,
    tenant_id TEXT NOT NULL,
    session_id TEXT NOT NULL,
    seq BIGINT NOT NULL,
    at BIGINT NOT NULL,
    content TEXT NOT NULL,
    checksum BIGINT NOT NULL
  )`,
  `CREATE INDEX snapshots_of_session ON session_snapshots (session_id)`,
  `CREATE TABLE session_commands (
    session_id TEXT NOT NULL,
    id TEXT NOT NULL,
    tenant_id TEXT NOT NULL,
    command TEXT NOT NULL,
    args TEXT NOT NULL,
    at BIGINT NOT NULL,
    answer_by BIGINT NOT NULL,
    answer TEXT,
    fork TEXT,
    mac TEXT NOT NULL,
    PRIMARY KEY (session_id, id)
  )`,
  `CREATE INDEX open_session_commands ON session_commands (session_id, at, id)
    WHERE answer IS NULL`,
  `CREATE TABLE message_deliveries (
    id TEXT NOT NULL PRIMARY KEY,
    tenant_id TEXT NOT NULL,
    status TEXT NOT NULL,
    position BIGINT NOT NULL,
    attempts BIGINT NOT NULL,
    stream_id TEXT,
    revision BIGINT NOT NULL,
    reason TEXT,
    error TEXT,
    retryable BIGINT NOT NULL,
    inferred BIGINT NOT NULL,
    available_at BIGINT,
    delivered_at BIGINT,
    consumed_at BIGINT,
    final_at BIGINT,
    mode TEXT NOT NULL,
    bytes BIGINT NOT NULL,
    session_id TEXT NOT NULL,
    message_id TEXT NOT NULL,
    handle TEXT NOT NULL,
    at BIGINT NOT NULL
  )`,
  `CREATE INDEX inboxes_of_sessions ON message_deliveries (session_id, position)
    WHERE final_at IS NULL`,
  `CREATE INDEX deliveries_by_status ON message_deliveries (tenant_id, status, at, id)`,
  `CREATE INDEX deliveries_of_session ON message_deliveries (tenant_id, session_id, at, id)`,
  `CREATE INDEX deliveries_of_message ON message_deliveries (message_id, id)`,
  // Where a message is listed: in a channel, in the conversation with a participant, or for all who see it.
  `CREATE TABLE message_places (
    tenant_id TEXT NOT NULL,
    place TEXT NOT NULL,
    at BIGINT NOT NULL,
    message_id TEXT NOT NULL,
    PRIMARY KEY (tenant_id, place, at, message_id)
  )`,
  `CREATE INDEX places_of_message ON message_places (message_id, place)`,
  `CREATE TABLE channels (
    tenant_id TEXT NOT NULL,
    name TEXT NOT NULL,
    topic TEXT,
    created_at BIGINT NOT NULL,
    created_by TEXT NOT NULL,
    PRIMARY KEY (tenant_id, name)
  )`,
  `CREATE TABLE channel_members (
    tenant_id TEXT NOT NULL,
    channel TEXT NOT NULL,
    session_id TEXT NOT NULL,
    added_at BIGINT NOT NULL,
    mac TEXT NOT NULL,
    PRIMARY KEY (tenant_id, channel, session_id)
  )`,
  `CREATE INDEX channels_of_session ON channel_members (session_id, channel)`,
  `CREATE TABLE actions (
    tenant_id TEXT NOT NULL,
    name TEXT NOT NULL,
    description TEXT NOT NULL,
    input_schema TEXT NOT NULL,
    output_schema TEXT NOT NULL,
    session_id TEXT,
    url TEXT,
    available_to TEXT,
    timeout_ms BIGINT,
    idempotent BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    created_by TEXT NOT NULL,
    mac TEXT NOT NULL,
    PRIMARY KEY (tenant_id, name)
  )`,
  `CREATE INDEX actions_of_session ON actions (session_id) WHERE session_id IS NOT NULL`,
  `CREATE TABLE invocations (
    id TEXT NOT NULL PRIMARY KEY,
    tenant_id TEXT NOT NULL,
    status TEXT NOT NULL,
    due_at BIGINT,
    ended_at BIGINT,
    approval_id TEXT,
    output TEXT,
    error TEXT,
    action TEXT NOT NULL,
    made_by TEXT NOT NULL,
    input TEXT NOT NULL,
    session_id TEXT,
    at BIGINT NOT NULL,
    idempotent BIGINT NOT NULL,
    timeout_ms BIGINT NOT NULL,
    started_at BIGINT,
    edited_input TEXT,
    edited_checksum BIGINT,
    checksum BIGINT NOT NULL
  )`,
  `CREATE INDEX open_invocations ON invocations (session_id, at, id)
    WHERE ended_at IS NULL AND session_id IS NOT NULL`,
  `CREATE INDEX handlers_due ON invocations (tenant_id, due_at, id) WHERE ${isDueHandler('')}`,
  `CREATE INDEX invocations_due ON invocations (tenant_id, due_at, id) WHERE ${isDueOther('')}`,
  `CREATE INDEX invocations_to_prune ON invocations (ended_at) WHERE ended_at IS NOT NULL`,
];

/**
 * Messages and the index of their words, as of memories (`memories.ts`): each indexed word starts with the
 * `scope` of its tenant.
 */
const messageColumns = `tenant_id TEXT NOT NULL,
    sender TEXT NOT NULL,
    recipients TEXT NOT NULL,
    mode TEXT,
    reply_to TEXT,
    thread_id TEXT NOT NULL,
    hops BIGINT NOT NULL,
    at BIGINT NOT NULL,
    edited_at BIGINT,
    withdrawn_at BIGINT,
    pruning BIGINT,
    bytes BIGINT NOT NULL,
    checksum BIGINT NOT NULL,
    attachments TEXT NOT NULL,
    scope TEXT NOT NULL,
    words TEXT NOT NULL,
    text TEXT NOT NULL`;

const messageIndexes: readonly string[] = [
  `CREATE INDEX messages_of_tenant ON messages (tenant_id, at, id)`,
  `CREATE INDEX messages_of_thread ON messages (tenant_id, thread_id, at, id)`,
  `CREATE INDEX messages_by_age ON messages (at)`,
  `CREATE INDEX messages_pruning ON messages (id) WHERE pruning = 1`,
];

const scoped = (row: string) => `replace(' ' || ${row}words, ' ', ' ' || ${row}scope)`;

/**
 * The ids of the current tenant's messages that have all words, newest first, before a position. A function
 * for the same reason as `relay_search_memories`.
 */
const findMessages = `CREATE FUNCTION relay_search_messages(
    query_words TEXT, since BIGINT, before_at BIGINT, before_id TEXT, max_results BIGINT) RETURNS SETOF TEXT
  LANGUAGE sql STABLE SECURITY DEFINER ROWS 50 SET search_path FROM CURRENT AS $$
    SELECT m.id FROM messages m
    WHERE m.lexemes @@ query_words::tsquery AND COALESCE(m.tenant_id, '') = ${currentTenant}
      AND m.at + 0 >= since AND (m.at + 0, m.id) < (before_at, before_id COLLATE "C")
    ORDER BY m.at + 0 DESC, m.id DESC LIMIT max_results
  $$`;

export const messageTables = {
  sqlite: [
    `CREATE TABLE messages (
    index_rowid INTEGER NOT NULL PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    ${messageColumns}
  )`,
    ...messageIndexes,
    `CREATE VIRTUAL TABLE message_index USING fts5(
    words, content = '', contentless_delete = 1, tokenize = 'ascii'
  )`,
    `CREATE TRIGGER message_indexed AFTER INSERT ON messages BEGIN
    INSERT INTO message_index (rowid, words) VALUES (new.index_rowid, ${scoped('new.')});
  END`,
    `CREATE TRIGGER message_unindexed AFTER DELETE ON messages BEGIN
    DELETE FROM message_index WHERE rowid = old.index_rowid;
  END`,
    `CREATE TRIGGER message_reindexed AFTER UPDATE OF words ON messages BEGIN
    DELETE FROM message_index WHERE rowid = old.index_rowid;
    INSERT INTO message_index (rowid, words) VALUES (new.index_rowid, ${scoped('new.')});
  END`,
  ],
  postgres: [
    `CREATE TABLE messages (
    id TEXT NOT NULL PRIMARY KEY,
    ${messageColumns},
    lexemes TSVECTOR NOT NULL GENERATED ALWAYS AS (
      array_to_tsvector(string_to_array(ltrim(${scoped('')}), ' '))
    ) STORED
  )`,
    ...messageIndexes,
    `CREATE INDEX message_index ON messages USING gin (lexemes) WITH (fastupdate = off)`,
    findMessages,
  ],
} as const;
