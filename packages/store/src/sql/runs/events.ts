/**
 * The journal of a run in rows. A row has the events of one append, or text that several appends of one
 * turn have added to it: most providers send a few characters at a time, and a row for each would take
 * ten times as much space. A row to which text may be added is plain; others are compressed.
 *
 * The first `seq` is in the key, so that no index changes when a row grows. A reader gets an unbroken
 * sequence of events or an error.
 */
import type { EventRange, JournalPage, PageRange, RunRef } from '@relay/core';
import { type EventOf, RelayError, type RunEvent, type StoredEvent } from '@relay/protocol';
import { crc32 } from 'node:zlib';
import type { Row, Statement } from '../../drivers/driver.ts';
import { insertInto } from '../statements.ts';
import { packJson, type Packed, unpackJson } from '../../codec/compression.ts';
import {
  addEvents,
  decodeRow,
  encodeRow,
  type EventBatch,
  type RowContent,
  TurnText,
} from '../../codec/events.ts';
import { checksumOf, corrupt, number, numberOrNull } from '../../codec/values.ts';

/** The end of a journal to which text can be added. */
export interface OpenRow {
  readonly firstSeq: number;
  readonly content: RowContent;
  readonly size: number;
}

export interface JournalRow {
  /** Changes the journal; none if there are no events. */
  readonly statements: Statement[];
  /** By how many bytes the journal grows. */
  readonly growth: number;
  /** What the next append can be added to. */
  readonly open: OpenRow | undefined;
}

/** In characters. Each time text is added, the row is written as a whole. */
const largestOpenRow = 1024;

const columns = [
  'tenant_id',
  'run_id',
  'first_seq',
  'last_seq',
  'at',
  'size',
  'checksum',
  'json',
  'deflated',
];
const insertSql = insertInto('events', columns);
const growSql = `UPDATE events SET last_seq = ?, size = ?, checksum = ?, json = ?, deflated = ?
  WHERE tenant_id = ? AND run_id = ? AND first_seq = ? AND last_seq = ?`;

/** Stores the events after `afterSeq`, in the row at the end of the journal if that is open. */
export function storeEvents(
  run: RunRef,
  { afterSeq, ...batch }: EventBatch & { readonly afterSeq: number },
  open?: OpenRow,
): JournalRow {
  const { tenantId, runId } = run;
  const { events } = batch;
  if (events.length === 0) return { statements: [], growth: 0, open };
  const firstSeq = open?.firstSeq ?? afterSeq + 1;
  const lastSeq = afterSeq + events.length;
  const content = addEvents(open?.content, batch);
  const json = encodeRow(content);
  const staysOpen = json.length < largestOpenRow && events.every(isText);
  const size = Buffer.byteLength(json);
  const payload = staysOpen ? json : packJson(json);
  const packed = typeof payload === 'string' ? [payload, null] : [null, payload];
  const { at } = content;
  const checksum = checksumOfRow(run, { firstSeq, lastSeq, at, size, payload });
  const statement =
    open === undefined
      ? {
          sql: insertSql,
          params: [tenantId, runId, firstSeq, lastSeq, at, size, checksum, ...packed],
        }
      : {
          sql: growSql,
          params: [lastSeq, size, checksum, ...packed, tenantId, runId, firstSeq, afterSeq],
          expect: 1,
        };
  return {
    statements: [statement],
    growth: size - (open?.size ?? 0),
    open: staysOpen ? { firstSeq, content, size } : undefined,
  };
}

/** Whether more text may follow in the same turn. */
function isText({ type }: RunEvent): boolean {
  return type === 'turn.started' || type === 'text.appended' || type === 'reasoning.appended';
}

interface StoredRow {
  readonly size: number;
  readonly payload: Packed;
  readonly firstSeq: number;
  readonly lastSeq: number;
  readonly at: number;
}

function checksumOfRow({ tenantId, runId }: RunRef, row: StoredRow): number {
  const { firstSeq, lastSeq, at, size, payload } = row;
  return crc32(payload, checksumOf(tenantId, runId, firstSeq, lastSeq, at, size));
}

const rowColumns = 'e.first_seq, e.last_seq, e.at, e.size, e.checksum, e.json, e.deflated';

/** Where the row of an event begins. */
export function startOfRow(tenantId = '?', runId = '?', seq = '?'): string {
  return `COALESCE((SELECT MAX(b.first_seq) FROM events b
    WHERE b.tenant_id = ${tenantId} AND b.run_id = ${runId} AND b.first_seq <= ${seq}), 1)`;
}

/** The rows after a `seq`, up to a last one, and the end of the journal, which reveals missing rows. */
function rowsUpTo(last: string, condition = ''): string {
  return `SELECT r.last_seq AS journal_end, r.pruning, r.journal_size, ${rowColumns}
  FROM runs r LEFT JOIN events e
    ON e.tenant_id = r.tenant_id AND e.run_id = r.id AND e.first_seq >= ${startOfRow()}
    AND e.last_seq > ? AND e.first_seq <= ${last} ${condition}
  WHERE r.tenant_id = ? AND r.id = ?
  ORDER BY e.first_seq`;
}

/** No rows of a journal that may be larger than the page. */
export const selectEventsSql = rowsUpTo('?', 'AND r.journal_size <= ?');

/** The rows with the events `after + 1` to `after + limit`, unless `isLargerThan` the page. */
export function selectEvents({ tenantId, runId }: RunRef, range: PageRange): Statement {
  const { after, maxBytes } = range;
  const params = [tenantId, runId, after + 1, after, endOf(range), maxBytes, tenantId, runId];
  return { sql: selectEventsSql, params };
}

export const selectPageSql = rowsUpTo(`COALESCE((SELECT s.first_seq FROM (
      SELECT w.first_seq, w.last_seq, SUM(w.size) OVER (ORDER BY w.first_seq) AS bytes FROM (
        SELECT first_seq, last_seq, size FROM events
        WHERE tenant_id = ? AND run_id = ? AND first_seq >= ${startOfRow()} AND last_seq > ?
        ORDER BY first_seq LIMIT ?) AS w) AS s
    WHERE s.last_seq >= ? OR s.bytes >= ?
    ORDER BY s.first_seq LIMIT 1), ?)`);

/**
 * The rows with the events `after + 1` to `after + limit`, as far as `maxBytes` reach. The inner select
 * finds the last of these rows by their sizes, without reading what they hold. On SQLite this costs ten
 * times as much as to read a short journal.
 */
export function selectPage({ tenantId, runId }: RunRef, range: PageRange): Statement {
  const { after, maxBytes } = range;
  const end = endOf(range);
  const from = [tenantId, runId, after + 1, after];
  const sized = [tenantId, runId, ...from, end - after, end, maxBytes, end];
  return { sql: selectPageSql, params: [...from, ...sized, tenantId, runId] };
}

/** Whether the journal may be larger than the page, so that none of its rows were selected. */
export function isLargerThan({ maxBytes }: PageRange, [row]: readonly Row[]): boolean {
  return row !== undefined && number(row, 'journal_size') > maxBytes;
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
    bytes += number(row, 'size');
    const first = number(row, 'first_seq');
    const startsHere = events.length === 0 ? first <= next && next <= last : first === next;
    if (!startsHere) throw corrupt(subject, `expected seq ${next}, found ${first} to ${last}`);
    for (const event of eventsIn(owner, row)) {
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

function eventsIn(owner: RunRef, row: Row): StoredEvent[] {
  const first = number(row, 'first_seq');
  const last = number(row, 'last_seq');
  const events = decodeRow(jsonOf(owner, row), { seq: first, at: number(row, 'at') });
  if (events.length !== last - first + 1) {
    throw corrupt(subjectOf(owner, row), `it holds ${events.length} events`);
  }
  return events;
}

function jsonOf(owner: RunRef, row: Row): string {
  const payload = row['json'] ?? row['deflated'];
  if (typeof payload !== 'string' && !(payload instanceof Uint8Array)) {
    throw corrupt(subjectOf(owner, row), 'it is empty');
  }
  const stored = {
    firstSeq: number(row, 'first_seq'),
    lastSeq: number(row, 'last_seq'),
    at: number(row, 'at'),
    size: number(row, 'size'),
    payload,
  };
  if (checksumOfRow(owner, stored) !== row['checksum']) {
    throw corrupt(subjectOf(owner, row), 'it does not match its checksum');
  }
  return unpackJson(payload, stored.size);
}

function subjectOf({ runId }: RunRef, row: Row): string {
  return `The journal of run ${runId} at seq ${number(row, 'first_seq')} to ${number(row, 'last_seq')}`;
}

/** Some rows, of which the first has the event `seq`. */
export function selectText({ tenantId, runId }: RunRef, seq: number): Statement {
  return {
    sql: `SELECT ${rowColumns} FROM events e
      WHERE e.tenant_id = ? AND e.run_id = ? AND e.first_seq >= ${startOfRow()}
        AND e.last_seq >= ?
      ORDER BY e.first_seq LIMIT 200`,
    params: [tenantId, runId, tenantId, runId, seq, seq],
  };
}

/** Throws if a row is missing. */
export function addText(owner: RunRef, turn: TurnText, rows: readonly Row[]): void {
  const missing = () => corrupt(`The journal of run ${owner.runId}`, `seq ${turn.next} is missing`);
  for (const row of rows) {
    const first = number(row, 'first_seq');
    if (turn.hasStarted ? first !== turn.next : first > turn.next) throw missing();
    turn.add(jsonOf(owner, row), first);
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

/** The length of the events in bytes, before compression. */
export function sizeOfPage(rows: readonly Row[]): number {
  return rows.reduce((sum, row) => sum + (numberOrNull(row, 'size') ?? 0), 0);
}

/** In bytes. Lists omit a larger first row. */
const largestOpening = 8 * 1024;

/** The first row of the journal of `r`. */
export const joinOpening = `LEFT JOIN events o
  ON o.tenant_id = r.tenant_id AND o.run_id = r.id AND o.first_seq = 1`;

export const openingColumns = `o.first_seq AS opening_first, o.last_seq AS opening_last,
  o.at AS opening_at, o.size AS opening_size, o.checksum AS opening_checksum,
  CASE WHEN o.size <= ${largestOpening} THEN o.json END AS opening_json,
  CASE WHEN o.size <= ${largestOpening} THEN o.deflated END AS opening_deflated`;

/** Never throws: a damaged journal must not break a list. */
export function decodeOpening(owner: RunRef, row: Row): EventOf<'run.created'> | null {
  if (isOpeningOmitted(row)) return null;
  try {
    const [first] = eventsIn(owner, {
      first_seq: row['opening_first'] ?? null,
      last_seq: row['opening_last'] ?? null,
      at: row['opening_at'] ?? null,
      size: row['opening_size'] ?? null,
      checksum: row['opening_checksum'] ?? null,
      json: row['opening_json'] ?? null,
      deflated: row['opening_deflated'] ?? null,
    });
    return openingOf(first);
  } catch {
    return null;
  }
}

/** The first row is larger than a list shows. */
export function isOpeningOmitted(row: Row): boolean {
  return (numberOrNull(row, 'opening_size') ?? 0) > largestOpening;
}

function openingOf(first: StoredEvent | undefined): EventOf<'run.created'> | null {
  if (first?.type !== 'run.created' || first.seq !== 1) return null;
  const { seq: _seq, at: _at, ...opening } = first;
  return opening;
}
