/**
 * The journal of a session: one row per change. The database gives a change its numbers, so a checksum is
 * that of what the writer knows plus the number of the last event.
 *
 * Terminal output, and screens, have rows of their own, and only the last of them are kept. Whatever else is
 * missing is damage: a row says which event before it is no terminal output.
 */
import type { EventRange, PageRange, SessionPage, SessionRef, SessionSnapshot } from '@relay/core';
import { RelayError, type SessionEvent, type StoredSessionEvent } from '@relay/protocol';
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

/** At least this much of the newest terminal output is kept, as it is stored. */
const terminalBytesKept = 1024 * 1024;
/** So much more is stored before some of it is deleted, which spreads the cost. */
const terminalBytesMore = 256 * 1024;
const bytesPerTerminalRow = 64 * 1024;

const insertSql = (follows: string) => `INSERT INTO session_events
    (session_id, last_seq, first_seq, tenant_id, at, payload, checksum, follows, terminal_bytes)
  SELECT s.id, s.last_seq - ?, s.last_seq - ?, s.tenant_id, ?, ?, ? + s.last_seq, ${follows}, ?
  FROM sessions s WHERE COALESCE(s.tenant_id, '') = ? AND s.id = ?`;
/** After the last other event of an earlier change, or of this one. */
const insertFirstSql = insertSql('s.lasting_before');
const insertNextSql = insertSql('s.last_seq - ?');

/** The events of a change, as far as its session's row depends on them. */
export interface JournalEntry {
  /** To be inserted after the session's row has advanced. */
  readonly statements: readonly Statement[];
  /** The place of the last event that is no terminal output, from 1 on; 0 if there is none. */
  readonly lasting: number;
  readonly terminalBytes: number;
}

export function insertSessionEvents(
  { tenantId, sessionId }: SessionRef,
  at: number,
  events: readonly SessionEvent[],
): JournalEntry {
  const statements: Statement[] = [];
  let [end, lasting, terminalBytes] = [0, 0, 0];
  for (const row of rowsOf(events)) {
    end += row.length;
    const behind = events.length - end;
    const payload = encode(row);
    const bytes = isTerminal(row[0]) ? Buffer.byteLength(payload) : 0;
    const checksum = checksumOf(tenantId, sessionId, row.length, at, payload) - behind;
    const numbers = [behind, behind + row.length - 1];
    const follows = lasting === 0 ? [] : [events.length - lasting];
    statements.push({
      sql: lasting === 0 ? insertFirstSql : insertNextSql,
      params: [...numbers, at, payload, checksum, ...follows, bytes, tenantId, sessionId],
      expect: 1,
    });
    terminalBytes += bytes;
    if (bytes === 0) lasting = end;
  }
  if (terminalBytes > 0) statements.push(...pruneTerminal(tenantId, sessionId));
  return { statements, lasting, terminalBytes };
}

function isTerminal(event: SessionEvent | undefined): boolean {
  return event?.type === 'terminal.output' || event?.type === 'terminal.screen';
}

/** Rows of terminal output are small, so that little more than necessary is kept. */
function rowsOf(events: readonly SessionEvent[]): SessionEvent[][] {
  const rows: SessionEvent[][] = [];
  let chars = 0;
  for (const event of events) {
    const row = rows.at(-1);
    if (
      row === undefined ||
      isTerminal(row[0]) !== isTerminal(event) ||
      chars > bytesPerTerminalRow
    ) {
      rows.push([event]);
      chars = 0;
    } else row.push(event);
    if (event.type === 'terminal.output' || event.type === 'terminal.screen') {
      chars += event.text.length;
    }
  }
  return rows;
}

const pruneTerminalSql = `UPDATE sessions SET (terminal_pruned, terminal_bytes) = (
    SELECT COALESCE(MAX(CASE WHEN w.newer >= ${terminalBytesKept} THEN w.last_seq END),
        sessions.terminal_pruned),
      COALESCE(SUM(CASE WHEN w.newer < ${terminalBytesKept} THEN w.terminal_bytes END), 0)
    FROM (SELECT last_seq, terminal_bytes,
        SUM(terminal_bytes) OVER (ORDER BY last_seq DESC) - terminal_bytes AS newer
      FROM session_events WHERE tenant_id = ? AND session_id = ? AND terminal_bytes > 0) AS w)
  WHERE COALESCE(tenant_id, '') = ? AND id = ?
    AND terminal_bytes > ${terminalBytesKept + terminalBytesMore}`;

const deleteTerminalSql = `DELETE FROM session_events
  WHERE tenant_id = ? AND session_id = ? AND terminal_bytes > 0 AND last_seq <= (
    SELECT s.terminal_pruned FROM sessions s WHERE COALESCE(s.tenant_id, '') = ? AND s.id = ?)`;

function pruneTerminal(tenantId: string, sessionId: string): Statement[] {
  const params = [tenantId, sessionId, tenantId, sessionId];
  return [
    { sql: pruneTerminalSql, params },
    { sql: deleteTerminalSql, params },
  ];
}

/**
 * The rows after a `seq`, as far as `limit` and `maxBytes` reach, and the end of the journal, which reveals
 * missing rows. The inner select finds the last row by the sizes, without reading what they hold.
 */
export const selectSessionPageSql = `SELECT r.last_seq AS journal_end, r.pruned_seq, r.terminal_pruned,
    e.follows, e.first_seq, e.last_seq, e.at, e.payload, e.checksum, octet_length(e.payload) AS size
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
    const prunedSeq = number(row, 'pruned_seq');
    if (range.after < prunedSeq) {
      const text = `The events of session ${session.sessionId} up to ${prunedSeq} are no longer kept; read on with after=${prunedSeq}`;
      throw new RelayError('journal_pruned', text);
    }
    const last = numberOrNull(row, 'last_seq');
    if (last === null) continue;
    bytes += number(row, 'size');
    const first = number(row, 'first_seq');
    const startsHere = events.length === 0 ? first <= next && next <= last : first === next;
    const isPruned = first > next && first <= number(row, 'terminal_pruned') + 1;
    const isOnlyTerminal = isPruned && number(row, 'follows') < next;
    if (!startsHere && !isOnlyTerminal)
      throw corrupt(subject, `expected seq ${next}, found ${first} to ${last}`);
    events.push(...eventsIn(session, row).filter(({ seq }) => seq >= next));
    next = last + 1;
  }
  // What a full page leaves out is checked with the next one.
  if (bytes < range.maxBytes && next <= Math.min(journalEnd, endOf(range))) {
    throw corrupt(subject, `seq ${next} to ${journalEnd} are missing`);
  }
  const page = events.length > range.limit ? events.slice(0, range.limit) : events;
  return { events: page, isLast: (page.at(-1)?.seq ?? range.after) >= journalEnd };
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
