/**
 * The journal: one row per append. `last_seq` is in the key, so that the events after a `seq` are one
 * range of the index. A reader gets an unbroken sequence of events or an error.
 */
import type { EventRange, JournalPage, PageRange, RunRef } from '@relay/core';
import { type EventOf, RelayError, type RunEvent, type StoredEvent } from '@relay/protocol';
import type { Row, Statement } from '../../drivers/driver.ts';
import { insertInto } from '../statements.ts';
import { decodeEvents, encodeEvents, TurnText } from '../../codec/events.ts';
import { checksumOf, corrupt, number, numberOrNull, text } from '../../codec/values.ts';

export interface JournalRow {
  readonly tenantId: string;
  readonly runId: string;
  readonly afterSeq: number;
  readonly at: number;
  readonly events: readonly RunEvent[];
  /** Of the run that these events end (`RunProgress`). */
  readonly answerSeq?: number | null | undefined;
}

const columns = ['tenant_id', 'run_id', 'last_seq', 'first_seq', 'at', 'payload', 'checksum'];
const insertSql = insertInto('events', columns);

/** The row of an append, and its size in characters. */
export function insertEvents(row: JournalRow): { statements: Statement[]; size: number } {
  const { tenantId, runId, afterSeq, at, events, answerSeq } = row;
  if (events.length === 0) return { statements: [], size: 0 };
  const first = afterSeq + 1;
  const last = afterSeq + events.length;
  const payload = encodeEvents(events, answerSeq);
  const checksum = checksumOf(tenantId, runId, first, last, at, payload);
  const params = [tenantId, runId, last, first, at, payload, checksum];
  return { statements: [{ sql: insertSql, params }], size: payload.length };
}

/** The rows after a `seq`, up to a last one, and the end of the journal, which reveals missing rows. */
function rowsUpTo(lastRow: string, condition = ''): string {
  return `SELECT r.last_seq AS journal_end, r.pruning, r.journal_size,
    e.first_seq, e.last_seq, e.at, e.payload, e.checksum, octet_length(e.payload) AS bytes
  FROM runs r LEFT JOIN events e
    ON e.tenant_id = r.tenant_id AND e.run_id = r.id AND e.last_seq > ?
    AND e.last_seq <= COALESCE((${lastRow}), ?) ${condition}
  WHERE r.tenant_id = ? AND r.id = ?
  ORDER BY e.last_seq`;
}

/** No rows of a journal that may be larger than the page. */
export const selectEventsSql = rowsUpTo(
  'SELECT MIN(last_seq) FROM events WHERE tenant_id = ? AND run_id = ? AND last_seq >= ?',
  'AND r.journal_size <= ?',
);

/** The rows with the events `after + 1` to `after + limit`, unless `isLargerThan` the page. */
export function selectEvents({ tenantId, runId }: RunRef, range: PageRange): Statement {
  const { after, maxBytes } = range;
  const end = endOf(range);
  const params = [after, tenantId, runId, end, end, charsWithin(maxBytes), tenantId, runId];
  return { sql: selectEventsSql, params };
}

export const selectPageSql = rowsUpTo(`SELECT s.last_seq FROM (
      SELECT w.last_seq, SUM(w.bytes) OVER (ORDER BY w.last_seq) AS bytes FROM (
        SELECT last_seq, octet_length(payload) AS bytes FROM events
        WHERE tenant_id = ? AND run_id = ? AND last_seq > ? ORDER BY last_seq LIMIT ?) AS w) AS s
    WHERE s.last_seq >= ? OR s.bytes >= ?
    ORDER BY s.last_seq LIMIT 1`);

/**
 * The rows with the events `after + 1` to `after + limit`, as far as `maxBytes` reach. The inner select
 * finds the last of these rows by their sizes, without reading what they hold. On SQLite this costs ten
 * times as much as to read a short journal.
 */
export function selectPage({ tenantId, runId }: RunRef, range: PageRange): Statement {
  const { after, maxBytes } = range;
  const end = endOf(range);
  const sized = [tenantId, runId, after, end - after, end, maxBytes, end];
  return { sql: selectPageSql, params: [after, ...sized, tenantId, runId] };
}

/** Whether the journal may be larger than the page, so that none of its rows were selected. */
export function isLargerThan({ maxBytes }: PageRange, [row]: readonly Row[]): boolean {
  return row !== undefined && number(row, 'journal_size') > charsWithin(maxBytes);
}

/** A character (a UTF-16 code unit) takes at most three bytes of UTF-8. */
function charsWithin(bytes: number): number {
  return Math.floor(bytes / 3);
}

export function decodeJournal(owner: RunRef, range: PageRange, rows: readonly Row[]): JournalPage {
  const subject = `The journal of run ${owner.runId}`;
  const events: StoredEvent[] = [];
  let next = range.after + 1;
  let journalEnd = 0;
  let bytes = 0;
  for (const row of rows) {
    if (row['pruning'] !== null) {
      throw new RelayError('journal_pruned', `The journal of run ${owner.runId} is no longer kept`);
    }
    journalEnd = number(row, 'journal_end');
    const last = numberOrNull(row, 'last_seq');
    if (last === null) continue;
    bytes += number(row, 'bytes');
    const first = number(row, 'first_seq');
    const startsHere = events.length === 0 ? first <= next && next <= last : first === next;
    if (!startsHere) throw corrupt(subject, `expected seq ${next}, found ${first} to ${last}`);
    for (const event of decodeRow(owner, row)) {
      if (event.seq >= next) events.push(event);
    }
    next = last + 1;
  }
  // What a full page leaves out is checked with the next one.
  if (bytes < range.maxBytes && next <= Math.min(journalEnd, endOf(range))) {
    throw corrupt(subject, `seq ${next} to ${journalEnd} are missing`);
  }
  const page = events.length > range.limit ? events.slice(0, range.limit) : events;
  return { events: page, isLast: range.after + page.length >= journalEnd };
}

function decodeRow(owner: RunRef, row: Row): StoredEvent[] {
  const first = number(row, 'first_seq');
  const last = number(row, 'last_seq');
  const at = new Date(number(row, 'at')).toISOString();
  const events = decodeEvents(payloadOf(owner, row), { seq: first, at });
  if (events.length !== last - first + 1) {
    throw corrupt(subjectOf(owner, row), `it holds ${events.length} events`);
  }
  return events;
}

function payloadOf({ tenantId, runId }: RunRef, row: Row): string {
  const payload = text(row, 'payload');
  const range = [number(row, 'first_seq'), number(row, 'last_seq'), number(row, 'at')];
  if (checksumOf(tenantId, runId, ...range, payload) !== row['checksum']) {
    throw corrupt(subjectOf({ tenantId, runId }, row), 'it does not match its checksum');
  }
  return payload;
}

function subjectOf({ runId }: RunRef, row: Row): string {
  return `The journal of run ${runId} at seq ${number(row, 'first_seq')} to ${number(row, 'last_seq')}`;
}

/** Some rows, of which the first has the event `seq`. */
export function selectText({ tenantId, runId }: RunRef, seq: number): Statement {
  return {
    sql: `SELECT first_seq, last_seq, at, payload, checksum, octet_length(payload) AS bytes
      FROM events WHERE tenant_id = ? AND run_id = ? AND last_seq >= ? ORDER BY last_seq LIMIT 200`,
    params: [tenantId, runId, seq],
  };
}

/** Throws if a row is missing. */
export function addText(owner: RunRef, turn: TurnText, rows: readonly Row[]): void {
  const missing = () => corrupt(`The journal of run ${owner.runId}`, `seq ${turn.next} is missing`);
  for (const row of rows) {
    const first = number(row, 'first_seq');
    if (turn.hasStarted ? first !== turn.next : first > turn.next) throw missing();
    turn.add(payloadOf(owner, row), first);
  }
  if (!turn.hasStarted) throw missing();
}

/** The text of the turn that started at `seq`, from the row with this event and those after it. */
export function decodeText(owner: RunRef, seq: number, rows: readonly Row[]): string {
  const turn = new TurnText(seq);
  addText(owner, turn, rows);
  return turn.text;
}

function endOf(range: EventRange): number {
  return Math.min(range.after + range.limit, Number.MAX_SAFE_INTEGER);
}

/** The length of the payloads, in bytes. */
export function sizeOfPage(rows: readonly Row[]): number {
  return rows.reduce((sum, row) => sum + (numberOrNull(row, 'bytes') ?? 0), 0);
}

/** In bytes. Lists omit a larger first row. */
const largestOpening = 8 * 1024;

/** The first row of the journal of `r`. */
export const joinOpening = `LEFT JOIN events o
  ON o.tenant_id = r.tenant_id AND o.run_id = r.id AND o.last_seq = (
    SELECT w.last_seq FROM events w WHERE w.tenant_id = r.tenant_id AND w.run_id = r.id
    ORDER BY w.last_seq LIMIT 1)`;

export const openingColumns = `o.first_seq AS opening_first, o.last_seq AS opening_last,
  o.at AS opening_at, o.checksum AS opening_checksum,
  CASE WHEN octet_length(o.payload) <= ${largestOpening} THEN o.payload END AS opening_payload`;

/** Never throws: a damaged journal must not break a list. */
export function decodeOpening(owner: RunRef, row: Row): EventOf<'run.created'> | null {
  if (row['opening_payload'] === null) return null;
  try {
    const [first] = decodeRow(owner, {
      first_seq: row['opening_first'] ?? null,
      last_seq: row['opening_last'] ?? null,
      at: row['opening_at'] ?? null,
      checksum: row['opening_checksum'] ?? null,
      payload: row['opening_payload'] ?? null,
    });
    return openingOf(first);
  } catch {
    return null;
  }
}

function openingOf(first: StoredEvent | undefined): EventOf<'run.created'> | null {
  if (first?.type !== 'run.created' || first.seq !== 1) return null;
  const { seq: _seq, at: _at, ...opening } = first;
  return opening;
}
