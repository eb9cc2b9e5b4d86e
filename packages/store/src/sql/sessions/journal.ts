/**
 * The journal of a session: one row per change. The database gives a change its numbers, so a checksum is
 * that of what the writer knows plus the number of the last event.
 */
import type { EventRange, PageRange, SessionPage, SessionRef, SessionSnapshot } from '@relay/core';
import type { SessionEvent, StoredSessionEvent } from '@relay/protocol';
import type { Row, Statement } from '../../drivers/driver.ts';
import { insertInto } from '../statements.ts';
import {
  checkIntact,
  checksumOf,
  corrupt,
  encode,
  json,
  number,
  numberOrNull,
  text,
} from '../../codec/values.ts';

const insertSql = `INSERT INTO session_events
    (session_id, last_seq, first_seq, tenant_id, at, payload, checksum)
  SELECT s.id, s.last_seq, s.last_seq - ?, s.tenant_id, ?, ?, ? + s.last_seq
  FROM sessions s WHERE COALESCE(s.tenant_id, '') = ? AND s.id = ?`;

/** The row of a change, to be inserted after the session's row has advanced. */
export function insertSessionEvents(
  { tenantId, sessionId }: SessionRef,
  at: number,
  events: readonly SessionEvent[],
): { statements: Statement[]; size: number } {
  if (events.length === 0) return { statements: [], size: 0 };
  const payload = encode(events);
  const count = events.length;
  const checksum = checksumOf(tenantId, sessionId, count, at, payload);
  const params = [count - 1, at, payload, checksum, tenantId, sessionId];
  return { statements: [{ sql: insertSql, params, expect: 1 }], size: payload.length };
}

/**
 * The rows after a `seq`, as far as `limit` and `maxBytes` reach, and the end of the journal, which reveals
 * missing rows. The inner select finds the last row by the sizes, without reading what they hold.
 */
export const selectSessionPageSql = `SELECT r.last_seq AS journal_end,
    e.first_seq, e.last_seq, e.at, e.payload, e.checksum, octet_length(e.payload) AS size
  FROM sessions r LEFT JOIN session_events e
    ON e.tenant_id = r.tenant_id AND e.session_id = r.id AND e.last_seq > ?
    AND e.last_seq <= COALESCE((SELECT s.last_seq FROM (
        SELECT w.last_seq, SUM(w.bytes) OVER (ORDER BY w.last_seq) AS bytes FROM (
          SELECT last_seq, octet_length(payload) AS bytes FROM session_events
          WHERE tenant_id = ? AND session_id = ? AND last_seq > ? ORDER BY last_seq LIMIT ?) AS w) AS s
      WHERE s.last_seq >= ? OR s.bytes >= ?
      ORDER BY s.last_seq LIMIT 1), ?)
  WHERE COALESCE(r.tenant_id, '') = ? AND r.id = ? AND r.pruning IS NULL
  ORDER BY e.last_seq`;

export function selectSessionPage(session: SessionRef, range: PageRange): Statement {
  const { tenantId, sessionId } = session;
  const { after, maxBytes } = range;
  const end = endOf(range);
  const sized = [tenantId, sessionId, after, end - after, end, maxBytes, end];
  return { sql: selectSessionPageSql, params: [after, ...sized, tenantId, sessionId] };
}

/** The length of the payloads, in bytes. */
export function sizeOfSessionPage(rows: readonly Row[]): number {
  return rows.reduce((sum, row) => sum + (numberOrNull(row, 'size') ?? 0), 0);
}

function endOf({ after, limit }: EventRange): number {
  return Math.min(after + limit, Number.MAX_SAFE_INTEGER);
}

export function decodeSessionPage(
  session: SessionRef,
  range: PageRange,
  rows: readonly Row[],
): SessionPage {
  const subject = `The journal of session ${session.sessionId}`;
  const events: StoredSessionEvent[] = [];
  let next = range.after + 1;
  let journalEnd = 0;
  let bytes = 0;
  for (const row of rows) {
    journalEnd = number(row, 'journal_end');
    const last = numberOrNull(row, 'last_seq');
    if (last === null) continue;
    bytes += number(row, 'size');
    const first = number(row, 'first_seq');
    const startsHere = events.length === 0 ? first <= next && next <= last : first === next;
    if (!startsHere) throw corrupt(subject, `expected seq ${next}, found ${first} to ${last}`);
    events.push(...eventsIn(session, row).filter(({ seq }) => seq >= next));
    next = last + 1;
  }
  // What a full page leaves out is checked with the next one.
  if (bytes < range.maxBytes && next <= Math.min(journalEnd, endOf(range))) {
    throw corrupt(subject, `seq ${next} to ${journalEnd} are missing`);
  }
  const page = events.length > range.limit ? events.slice(0, range.limit) : events;
  return { events: page, isLast: range.after + page.length >= journalEnd };
}

function eventsIn({ tenantId, sessionId }: SessionRef, row: Row): StoredSessionEvent[] {
  const first = number(row, 'first_seq');
  const last = number(row, 'last_seq');
  const time = number(row, 'at');
  const expected = checksumOf(tenantId, sessionId, last - first + 1, time, text(row, 'payload'));
  const events = json(row, 'payload') as SessionEvent[];
  if (expected + last !== row['checksum'] || events.length !== last - first + 1) {
    const subject = `The journal of session ${sessionId} at seq ${first} to ${last}`;
    throw corrupt(subject, 'it does not match its checksum');
  }
  const at = new Date(time).toISOString();
  return events.map((event, index) => ({ ...event, seq: first + index, at }));
}

const snapshotColumns = ['tenant_id', 'id', 'session_id', 'seq', 'at', 'content'];
const insertSnapshotSql = insertInto('session_snapshots', [...snapshotColumns, 'checksum']);

export function insertSnapshot(tenantId: string, snapshot: SessionSnapshot): Statement {
  const { id, sessionId, seq, at, content } = snapshot;
  const values = [tenantId, id, sessionId, seq, at, encode(content)];
  return { sql: insertSnapshotSql, params: [...values, checksumOf(...values)] };
}

export const selectSnapshotSql = `SELECT ${snapshotColumns.join(', ')}, checksum
  FROM session_snapshots WHERE tenant_id = ? AND id = ?`;

export function decodeSnapshot(row: Row): SessionSnapshot {
  const id = text(row, 'id');
  checkIntact(`The snapshot ${id}`, row, snapshotColumns);
  return {
    id,
    sessionId: text(row, 'session_id'),
    seq: number(row, 'seq'),
    at: number(row, 'at'),
    content: json(row, 'content'),
  };
}
