/**
 * The rows of sessions: who they are and what they may do is signed, their progress is not.
 *
 * Where a row is found by its id, the function around the tenant keeps PostgreSQL, while it has no
 * statistics yet, from reading all sessions of the tenant.
 */
import type {
  NewSession,
  SessionChange,
  SessionDefinition,
  SessionFilter,
  SessionProgress,
  SessionQueue,
  SessionRecord,
  SessionRedefinition,
  SessionState,
} from '@relay/core';
import { agentStatuses } from '@relay/protocol';
import type { Row, SqlValue, Statement } from '../../drivers/driver.ts';
import {
  allOf,
  type ColumnFilter,
  columnFilters,
  type Condition,
  indexFilter,
  type List,
  type Range,
  residualFilter,
  rowsOn,
  selectPage,
} from '../lists.ts';
import { insertInto } from '../statements.ts';
import type { JournalEntry } from './journal.ts';
import { column } from '../../codec/records.ts';
import { type Assignments, type RowSigner, SignedTable } from '../../codec/signed-table.ts';
import {
  checkIntact,
  checksumOf,
  encode,
  json,
  number,
  numberOrNull,
  text,
  textOrNull,
} from '../../codec/values.ts';

interface SessionRow extends SessionDefinition {
  readonly id: string;
  readonly tenantId: string;
  readonly createdAt: number;
  readonly tokenHash: string | null;
}

/** A token opens only its own session, and capabilities and labels are those that were declared. */
export const sessionTable = new SignedTable<SessionRow>({
  name: 'sessions',
  subject: 'Session',
  key: ['id'],
  codecs: {
    id: column.text(),
    tenantId: column.text(),
    createdAt: column.number,
    handle: column.text(),
    name: column.freeText,
    kind: column.text(),
    harness: column.freeText,
    capabilities: column.json(),
    conversationId: column.text(),
    agent: column.nullable(column.freeText),
    model: column.nullable(column.freeText),
    labels: column.json(),
    workspace: column.nullable(column.freeText),
    permissions: column.json(),
    parentSessionId: column.nullable(column.text()),
    owner: column.freeText,
    keyId: column.nullable(column.text()),
    tokenHash: column.nullable(column.text()),
  },
});

const progressColumns = [
  'last_seq',
  'version',
  'pruned_seq',
  'status',
  'active_run_id',
  'due_at',
  'last_active_at',
  'seen_at',
  'released_at',
  'state',
  'state_checksum',
  'forked_from',
];
const streamColumns = ['stream_id', 'stream_node'];
const columns = [...sessionTable.columns, ...progressColumns, ...streamColumns];

const insertSql = `${insertInto('sessions', [...sessionTable.columns, ...progressColumns])}
  ON CONFLICT (tenant_id, handle) WHERE released_at IS NULL DO NOTHING`;

/** Inserts nothing if the handle is in use. The events are appended to it afterwards. */
export function insertSession(
  signer: RowSigner,
  tenantId: string,
  { id, createdAt, definition, tokenHash, progress }: NewSession,
): Statement {
  const { status, state, activeRunId, releasedAt, dueAt } = progress;
  const stored = encode(state);
  return {
    sql: insertSql,
    params: [
      ...sessionTable.encode(signer, {
        ...definition,
        id,
        tenantId,
        createdAt,
        tokenHash: tokenHash ?? null,
      }),
      0,
      0,
      0,
      status,
      activeRunId,
      dueAt,
      createdAt,
      createdAt,
      releasedAt,
      stored,
      checksumOf(tenantId, id, stored),
      unusedSource(state),
    ],
    expect: 1,
  };
}

/** With the time of the session, by which it is listed. */
const insertLabelSql = `INSERT INTO session_labels (tenant_id, name, value, created_at, session_id)
  SELECT s.tenant_id, ?, ?, s.created_at, s.id FROM sessions s
  WHERE COALESCE(s.tenant_id, '') = ? AND s.id = ?`;

export function insertLabels(
  tenantId: string,
  sessionId: string,
  labels: SessionDefinition['labels'],
): Statement[] {
  return Object.entries(labels).map(([name, value]) => ({
    sql: insertLabelSql,
    params: [encode(name), encode(value), tenantId, sessionId],
  }));
}

/** A new definition for an authentic row, and the code that the row must still have. */
export interface RedefinedRow extends Assignments {
  readonly mac: string;
}

export function redefined(signer: RowSigner, row: Row, change: SessionRedefinition): RedefinedRow {
  sessionTable.decode(signer, row);
  return { ...sessionTable.changes(signer, row, change), mac: text(row, 'mac') };
}

/**
 * The first statement of a change: it locks the session's row and gives its events their numbers. It
 * returns the last one.
 */
export function advance(
  tenantId: string,
  change: SessionChange,
  { lasting, terminalBytes }: JournalEntry,
  redefinition?: RedefinedRow,
): Statement {
  const { sessionId, at, ifVersion, ifStream, ifStatus, events, progress = {}, dueBy } = change;
  const isRelative = ifVersion === undefined;
  const changed = isRelative ? [] : progressChanges(tenantId, sessionId, progress);
  // Nothing follows the last event of a released session.
  const mustBeOpen = isRelative || (events.length > 0 && ifVersion > 0);
  const isDue = dueBy !== undefined && isRelative;
  // Who replaces the token through the stream keeps it.
  const isAttached = change.redefine?.tokenHash !== undefined && ifStream === undefined;
  const isSeen = change.isSeen ?? isAttached;
  const assignments = [
    'last_seq = last_seq + ?',
    'version = version + 1',
    'last_active_at = ?',
    ...(events.length > 0
      ? ['lasting_before = lasting_seq', 'oldest_at = COALESCE(oldest_at, ?)']
      : []),
    ...(lasting > 0 ? ['lasting_seq = last_seq + ?'] : []),
    ...(terminalBytes > 0 ? ['terminal_bytes = terminal_bytes + ?'] : []),
    ...changed.map(([name]) => `${name} = ?`),
    ...(isDue ? [earlierDue] : []),
    ...(isSeen ? ['seen_at = ?'] : []),
    ...(isAttached ? ['stream_id = NULL', 'stream_node = NULL'] : []),
    ...(redefinition === undefined ? [] : [redefinition.assignments]),
  ];
  const sql = `UPDATE sessions SET ${assignments.join(', ')}
    WHERE COALESCE(tenant_id, '') = ? AND id = ? AND pruning IS NULL
      ${isRelative ? '' : 'AND version = ?'} ${mustBeOpen ? 'AND released_at IS NULL' : ''}
      ${ifStream === undefined ? '' : 'AND stream_id = ?'}
      ${ifStatus === undefined ? '' : 'AND status = ?'}
      ${redefinition === undefined ? '' : 'AND mac = ?'}
    RETURNING last_seq`;
  const params = [
    events.length,
    at,
    ...(events.length > 0 ? [at] : []),
    ...(lasting > 0 ? [lasting] : []),
    ...(terminalBytes > 0 ? [terminalBytes] : []),
    ...changed.map(([, value]) => value),
    ...(isDue ? [dueBy, dueBy] : []),
    ...(isSeen ? [at] : []),
    ...(redefinition?.values ?? []),
    tenantId,
    sessionId,
    ...(isRelative ? [] : [ifVersion]),
    ...(ifStream === undefined ? [] : [ifStream]),
    ...(ifStatus === undefined ? [] : [ifStatus]),
    ...(redefinition === undefined ? [] : [redefinition.mac]),
  ];
  return { sql, params, expect: 1 };
}

const earlierDue = 'due_at = CASE WHEN due_at < ? THEN due_at ELSE ? END';

/** The run whose journal the first turn of a fork will read: it is not deleted before. */
function unusedSource({ forkedFrom }: SessionState): string | null {
  return forkedFrom === undefined || forkedFrom.isUsed === true ? null : forkedFrom.runId;
}

function progressChanges(
  tenantId: string,
  sessionId: string,
  progress: Partial<SessionProgress>,
): [column: string, value: SqlValue][] {
  const { status, state, activeRunId, releasedAt, dueAt } = progress;
  const changes: [string, SqlValue | undefined][] = [
    ['status', status],
    ['active_run_id', activeRunId],
    ['released_at', releasedAt],
    ['due_at', dueAt],
  ];
  if (state !== undefined) {
    const stored = encode(state);
    changes.push(['state', stored], ['state_checksum', checksumOf(tenantId, sessionId, stored)]);
    changes.push(['forked_from', unusedSource(state)]);
  }
  return changes.flatMap(([name, value]) => (value === undefined ? [] : [[name, value]]));
}

const deleteLabelsSql = `DELETE FROM session_labels
  WHERE COALESCE(tenant_id, '') = ? AND session_id = ?`;

/** Those that it no longer carries out are due, so that their callers are told. */
const endInvocationsSql = `UPDATE invocations SET due_at = at
  WHERE COALESCE(tenant_id, '') = ? AND session_id = ? AND session_id IS NOT NULL
    AND ended_at IS NULL`;

const openRequests = `tenant_id = ? AND session_id = ? AND session_id IS NOT NULL
  AND run_id IS NULL AND status = 'pending'`;

/** What its calls wait for; those of its runs close with the run. */
function closeRequests(tenantId: string, { sessionId, at }: SessionChange): Statement[] {
  const params = [tenantId, sessionId];
  const by = encode({ type: 'system', id: 'relay', name: 'relay' });
  return [
    {
      sql: `UPDATE invocations SET due_at = at WHERE tenant_id = ? AND ended_at IS NULL
        AND id IN (SELECT invocation_id FROM approvals WHERE ${openRequests})`,
      params: [tenantId, ...params],
    },
    {
      sql: `UPDATE approvals SET status = 'closed', decided_at = ?, decided_by = ?, reason = ?
        WHERE ${openRequests}`,
      params: [at, by, encode('The session has ended'), ...params],
    },
  ];
}

/** What else a change of the row entails. */
export function consequences(tenantId: string, change: SessionChange): Statement[] {
  const { sessionId, progress = {}, redefine = {} } = change;
  const params = [tenantId, sessionId];
  const unit: Statement[] = [];
  if (redefine.labels !== undefined) {
    unit.push({ sql: deleteLabelsSql, params });
    unit.push(...insertLabels(tenantId, sessionId, redefine.labels));
  }
  if (typeof progress.releasedAt === 'number') {
    for (const table of ['channel_members', 'actions']) {
      unit.push({ sql: `DELETE FROM ${table} WHERE tenant_id = ? AND session_id = ?`, params });
    }
    unit.push({ sql: endInvocationsSql, params }, ...closeRequests(tenantId, change));
  }
  return unit;
}

const countChangeSql = `UPDATE sessions SET version = version + 1
  WHERE COALESCE(tenant_id, '') = ? AND id = ?`;

/** Locks the row for a change of what belongs to the session, which its program may have to know. */
export function countChange(tenantId: string, sessionId: string, ifVersion?: number): Statement {
  const statement = { sql: countChangeSql, params: [tenantId, sessionId] };
  if (ifVersion === undefined) return statement;
  const params = [...statement.params, ifVersion];
  return { sql: `${countChangeSql} AND version = ?`, params, expect: 1 };
}

const makeDueSql = `UPDATE sessions SET version = version + 1, ${earlierDue}
  WHERE COALESCE(tenant_id, '') = ? AND id = ? AND released_at IS NULL AND pruning IS NULL`;

/** A writer that read the session before decides again. */
export function makeDue(tenantId: string, sessionId: string, dueBy: number): Statement {
  return { sql: makeDueSql, params: [dueBy, dueBy, tenantId, sessionId] };
}

const openStreamSql = `UPDATE sessions
  SET version = version + 1, stream_id = ?, stream_node = ?, seen_at = ?
  WHERE COALESCE(tenant_id, '') = ? AND id = ? AND released_at IS NULL AND pruning IS NULL`;

export function openStream(
  tenantId: string,
  sessionId: string,
  { id, node, at }: { readonly id: string; readonly node: string; readonly at: number },
): Statement {
  return { sql: openStreamSql, params: [id, node, at, tenantId, sessionId], expect: 1 };
}

export function claimStream(...args: Parameters<typeof openStream>): Statement {
  const statement = openStream(...args);
  return { ...statement, sql: `${statement.sql} AND stream_id IS NULL` };
}

/** A released session needs no attention: it would stay due for ever. */
const closeStreamSql = `UPDATE sessions
  SET version = version + 1, stream_id = NULL, stream_node = NULL, seen_at = ?,
    due_at = CASE WHEN released_at IS NOT NULL OR due_at < ? THEN due_at ELSE ? END
  WHERE COALESCE(tenant_id, '') = ? AND id = ? AND stream_id = ?`;

export function closeStream(
  tenantId: string,
  sessionId: string,
  { id, at, dueBy }: { readonly id: string; readonly at: number; readonly dueBy: number },
): Statement {
  return { sql: closeStreamSql, params: [at, dueBy, dueBy, tenantId, sessionId, id], expect: 1 };
}

/**
 * The numbers of `SessionQueue`, of the row `r`, as one text, because such a query has one column: four of
 * them would read a long inbox four times.
 */
const queueNumbers = [
  'COUNT(*)',
  'COALESCE(SUM(d.bytes), 0)',
  `COALESCE(CAST(MIN(d.at) AS TEXT), '')`,
  `COALESCE(CAST(MIN(CASE WHEN d.mode <> 'manual' OR d.status <> 'accepted' THEN d.at END) AS TEXT), '')`,
];
const queueJoin = {
  columns: `(SELECT ${queueNumbers.join(` || ' ' || `)} FROM message_deliveries d
    WHERE d.session_id = r.id AND d.status IN ('accepted', 'deferred') AND d.final_at IS NULL) AS queue`,
  join: '',
};

const selected = `${columns.map((name) => `r.${name}`).join(', ')}, ${queueJoin.columns}`;
const readSql = `SELECT ${selected} FROM sessions r`;
const selectSql = `${readSql} WHERE r.tenant_id = ? AND r.pruning IS NULL`;

export const selectSessionSql = `${readSql}
  WHERE COALESCE(r.tenant_id, '') = ? AND r.pruning IS NULL AND r.id = ?`;
export const selectByHandleSql = `${selectSql} AND r.handle = ? AND r.released_at IS NULL`;
export const selectReleasedSql = `${selectSql} AND r.handle = ? AND r.released_at IS NOT NULL
  ORDER BY r.released_at DESC LIMIT 1`;
export const selectByRunSql = `${selectSql} AND r.active_run_id = ? AND r.active_run_id IS NOT NULL`;

/** The signed columns, without verification. */
export const selectSignedSql = `SELECT ${sessionTable.columns.join(', ')} FROM sessions
  WHERE COALESCE(tenant_id, '') = ? AND id = ? AND pruning IS NULL`;

/** The rows of a page of one of the lists. */
export function selectSessions(list: List, range: Range): Statement {
  const { tenantId } = list;
  const ids = selectPage(list, range);
  return rowsOn(ids, { tenantId, table: 'sessions', columns, joined: queueJoin });
}

/** The ways to read the sessions with these properties. None finds a session that is being deleted. */
export function sessionLists(tenantId: string, filter: SessionFilter): readonly List[] {
  const { status, label } = filter;
  const harness = filter.harness === undefined ? undefined : encode(filter.harness);
  const ofHarness = columnFilters({ harness });
  const { leading, others } = indexFilter(
    columnFilters({ status: status ?? agentStatuses }),
    ofHarness,
  );
  if (label === undefined) return [{ tenantId, table: 'sessions', leading, others }];
  const general = columnFilters({ status, harness });
  return [
    { tenantId, table: 'sessions', leading, others: [...others, hasLabel(label)] },
    {
      tenantId,
      table: 'session_labels',
      id: 'session_id',
      leading: [labelled('t', label)],
      others: general.length === 0 ? [] : [ofSession(general)],
    },
  ];
}

function ofSession(filters: readonly ColumnFilter[]): Condition {
  const { sql, params } = allOf(filters.map((filter) => residualFilter(filter, 's')));
  return {
    sql: `EXISTS (SELECT 1 FROM sessions s
      WHERE s.id = t.session_id AND COALESCE(s.tenant_id, '') = t.tenant_id AND ${sql})`,
    params,
  };
}

type Label = NonNullable<SessionFilter['label']>;

function labelled(row: string, { name, value }: Label): Condition {
  return { sql: `${row}.name = ? AND ${row}.value = ?`, params: [encode(name), encode(value)] };
}

function hasLabel(label: Label): Condition {
  const { sql, params } = labelled('l', label);
  return {
    sql: `EXISTS (SELECT 1 FROM session_labels l WHERE l.tenant_id = t.tenant_id AND ${sql}
      AND l.created_at = t.created_at AND l.session_id = t.id)`,
    params,
  };
}

export function decodeSession(signer: RowSigner, row: Row): SessionRecord {
  const { tokenHash: _, ...definition } = sessionTable.decode(signer, row);
  const { id } = definition;
  checkIntact(`Session ${id}`, row, ['tenant_id', 'id', 'state'], 'state_checksum');
  const stream = textOrNull(row, 'stream_id');
  return {
    ...definition,
    status: text(row, 'status') as SessionRecord['status'],
    state: json(row, 'state') as SessionRecord['state'],
    activeRunId: textOrNull(row, 'active_run_id'),
    releasedAt: numberOrNull(row, 'released_at'),
    dueAt: numberOrNull(row, 'due_at'),
    lastActiveAt: number(row, 'last_active_at'),
    lastSeq: number(row, 'last_seq'),
    version: number(row, 'version'),
    prunedSeq: number(row, 'pruned_seq'),
    seenAt: number(row, 'seen_at'),
    stream: stream === null ? null : { id: stream, node: text(row, 'stream_node') },
    queue: decodeQueue(row),
  };
}

function decodeQueue(row: Row): SessionQueue {
  const [length, bytes, oldestAt, oldestUnheldAt] = text(row, 'queue').split(' ');
  const timeOf = (time = '') => (time === '' ? null : Number(time));
  return {
    length: Number(length),
    bytes: Number(bytes),
    oldestAt: timeOf(oldestAt),
    oldestUnheldAt: timeOf(oldestUnheldAt),
  };
}
