/**
 * Messages: where they are listed, and the search for their words. A place is a channel (`#name`), the
 * direct conversations of a participant (`@id`), or all that a participant sent or received (`=id`). What
 * mentions a handle is found for webhooks (`!handle`), and the participants of a thread by what they sent
 * or received in it (`~thread@id`; of the first message of a thread, `@id` says the same).
 */
import {
  bytesOf,
  type MessageEnvelope,
  type MessageFilter,
  type MessageReader,
  type MessageRecord,
  mentionsIn,
  type NewMessage,
} from '@relay/core';
import type { Sender } from '@relay/protocol';
import type { Row, SqlDialect, Statement } from '../../drivers/driver.ts';
import { wordsOf } from '../../search/words.ts';
import { type Condition, type List, type Range, rowsOn, selectPage } from '../lists.ts';
import { byDialect, insertInto, placeholders } from '../statements.ts';
import { column, RecordCodec } from '../../codec/records.ts';
import { checkIntact, checksumOf, encode, text } from '../../codec/values.ts';

type MessageRow = Omit<MessageRecord, 'from' | 'to'> & {
  readonly sender: Sender;
  readonly recipients: readonly string[];
};

const codec = new RecordCodec<MessageRow>({
  id: column.text(),
  sender: column.json(),
  recipients: column.json(),
  mode: column.nullable(column.text()),
  replyTo: column.nullable(column.text()),
  threadId: column.text(),
  hops: column.number,
  at: column.number,
  editedAt: column.nullable(column.number),
  attachments: column.json(),
  text: column.freeText,
  withdrawnAt: column.nullable(column.number),
});

/** What the checksum covers. */
const fixedColumns = ['tenant_id', ...codec.columns.filter((name) => name !== 'withdrawn_at')];
export const messageColumns = [...fixedColumns, 'withdrawn_at', 'checksum'];

const insertSql = insertInto('messages', [...messageColumns, 'bytes', 'scope', 'words']);

function rowOf({ from, to, ...message }: MessageRecord): MessageRow {
  return { ...message, sender: from, recipients: to };
}

/** The values of `fixedColumns`, of `withdrawn_at` and of the columns that are computed. */
function valuesOf(tenantId: string, message: MessageRecord) {
  const encoded = codec.encode(rowOf(message));
  const fixed = [tenantId, ...encoded.slice(0, -1)];
  return {
    fixed,
    withdrawnAt: message.withdrawnAt,
    checksum: checksumOf(...fixed),
    bytes: bytesOf(message),
    words: indexedWords(message.text),
  };
}

/** In characters: the index of PostgreSQL takes no more than a megabyte of words. */
const longestIndexed = 50_000;

function indexedWords(content: string): string {
  const start = content.slice(0, longestIndexed).toWellFormed();
  return [...new Set(wordsOf(start))].join(' ');
}

/** A hash, which two tenants may share: it only finds candidates. */
function scopeOf(tenantId: string): string {
  return checksumOf(tenantId).toString(36).padStart(7, '0');
}

/** All places of a message in one statement. */
const insertPlacesSql = byDialect(
  (dialect) => `INSERT INTO message_places (tenant_id, place, at, message_id)
    SELECT ?, p.value, ?, ? FROM ${dialect === 'sqlite' ? 'json_each(?)' : 'json_array_elements_text(?::json)'} AS p`,
);

/** `receivedBy`: the sessions that it is delivered to. */
export function insertMessage(
  dialect: SqlDialect,
  tenantId: string,
  message: NewMessage,
  receivedBy: readonly string[],
): Statement[] {
  const { channels, direct, ...sent } = message;
  const record = { ...sent, editedAt: null, withdrawnAt: null };
  const { fixed, checksum, bytes, words } = valuesOf(tenantId, record);
  const { id, at, from } = message;
  const places = new Set([
    ...channels.map((name) => `#${name}`),
    ...(direct.length === 0 ? [] : [from.id, ...direct].map((each) => `@${each}`)),
    ...[from.id, ...receivedBy].map((each) => `=${each}`),
    ...threadPlaces(message),
    ...mentionPlaces(message),
  ]);
  return [
    {
      sql: insertSql,
      params: [...fixed, null, checksum, bytes, scopeOf(tenantId), words],
    },
    { sql: insertPlacesSql[dialect], params: [tenantId, at, id, encode([...places])] },
  ];
}

function threadPlaces({ id, threadId, from, direct }: NewMessage): string[] {
  if (threadId === id && direct.length > 0) return [];
  return [from.id, ...direct].map((each) => `~${threadId}@${each}`);
}

/** Enough for any list of people, and few enough to store. */
const maxMentions = 100;

function mentionPlaces({ text: content }: Pick<MessageRecord, 'text'>): string[] {
  return mentionsIn(content)
    .slice(0, maxMentions)
    .map((handle) => `!${handle}`);
}

const deleteMentionsSql = `DELETE FROM message_places
  WHERE message_id = ? AND tenant_id = ? AND place LIKE '!%'`;

export function replaceMentions(
  dialect: SqlDialect,
  tenantId: string,
  message: MessageRecord,
): Statement[] {
  const { id, at } = message;
  return [
    { sql: deleteMentionsSql, params: [id, tenantId] },
    {
      sql: insertPlacesSql[dialect],
      params: [tenantId, at, id, encode(mentionPlaces(message))],
    },
  ];
}

const editedColumns = [...fixedColumns, 'checksum', 'bytes', 'words'];
const editSql = `UPDATE messages SET ${editedColumns.map((name) => `${name} = ?`).join(', ')}
  WHERE tenant_id = ? AND id = ? AND checksum = ? AND withdrawn_at IS NULL`;

/** Nothing changes if the message is no longer as it was read. */
export function editMessage(tenantId: string, row: Row, edited: MessageRecord) {
  const { fixed, checksum, bytes, words } = valuesOf(tenantId, edited);
  const before = [tenantId, edited.id, row['checksum'] ?? null];
  const params = [...fixed, checksum, bytes, words, ...before];
  return { statement: { sql: editSql, params, expect: 1 }, bytes };
}

const withdrawSql = `UPDATE messages SET withdrawn_at = ?
  WHERE tenant_id = ? AND id = ? AND withdrawn_at IS NULL`;

export function withdrawMessage(tenantId: string, messageId: string, at: number): Statement {
  return { sql: withdrawSql, params: [at, tenantId, messageId], expect: 1 };
}

export const selectMessageSql = `SELECT ${messageColumns.join(', ')} FROM messages
  WHERE tenant_id = ? AND id = ?`;

export function selectMessage(
  tenantId: string,
  messageId: string,
  visibleTo: MessageReader | undefined,
): Statement {
  const params = [tenantId, messageId];
  if (visibleTo === undefined) return { sql: selectMessageSql, params };
  const visible = isInAny(visiblePlaces({ visibleTo }), 't.id');
  return {
    sql: `${selectMessageSql.replace('FROM messages', 'FROM messages t')} AND ${visible.sql}`,
    params: [...params, ...visible.params],
  };
}

export const channelsSql = `SELECT place FROM message_places
  WHERE COALESCE(tenant_id, '') = ? AND message_id = ? AND place LIKE '#%' ORDER BY place`;

/** Without the contents, which can be large, and so without the checksum of all. */
const envelope = new RecordCodec<
  Pick<MessageRow, 'id' | 'sender' | 'recipients' | 'threadId' | 'hops' | 'at'>
>({
  id: column.text(),
  sender: column.json(),
  recipients: column.json(),
  threadId: column.text(),
  hops: column.number,
  at: column.number,
});

export function decodeEnvelope(row: Row): MessageEnvelope {
  const { sender, recipients, ...message } = envelope.decode(row);
  return { ...message, from: sender, to: recipients };
}

export const receivedSql = `SELECT ${envelope.columns.map((name) => `m.${name}`).join(', ')}
  FROM (SELECT message_id, at, id FROM message_deliveries
    WHERE tenant_id = ? AND session_id = ?
      AND (attempts > 0 OR delivered_at IS NOT NULL OR consumed_at IS NOT NULL)
    ORDER BY at DESC, id DESC LIMIT ?) AS d CROSS JOIN messages m
  WHERE m.id = d.message_id AND COALESCE(m.tenant_id, '') = ? ORDER BY d.at DESC, d.id DESC`;

export function decodeMessage(row: Row): MessageRecord {
  checkIntact(`Message ${text(row, 'id')}`, row, fixedColumns);
  const { sender, recipients, ...message } = codec.decode(row);
  return { ...message, from: sender, to: recipients };
}

/** Skips from participant to participant, so that the length of the thread does not matter. */
const participantsSql = `WITH RECURSIVE of_thread (place) AS (
    SELECT MIN(place) FROM message_places WHERE tenant_id = ? AND place > ? AND place < ?
    UNION ALL
    SELECT (SELECT MIN(n.place) FROM message_places n
      WHERE n.tenant_id = ? AND n.place > of_thread.place AND n.place < ?)
    FROM of_thread WHERE of_thread.place IS NOT NULL)
  SELECT place FROM of_thread WHERE place IS NOT NULL
  UNION ALL
  SELECT place FROM message_places
    WHERE COALESCE(tenant_id, '') = ? AND message_id = ? AND place LIKE '@%'`;

export function selectParticipants(tenantId: string, threadId: string): Statement {
  // `A` follows `@`.
  const [first, end] = [`~${threadId}@`, `~${threadId}A`];
  const params = [tenantId, first, end, tenantId, end, tenantId, threadId];
  return { sql: participantsSql, params };
}

/** Of a place in the thread, or of its first message. */
export function participantOf(place: string, threadId: string): string {
  return place.slice(place.startsWith('~') ? `~${threadId}@`.length : 1);
}

/** Further conditions on the message whose id is in a column of `t`. */
function isInAny(places: readonly string[], id: string): Condition {
  const sql = `EXISTS (SELECT 1 FROM message_places p WHERE p.message_id = ${id}
    AND COALESCE(p.tenant_id, '') = t.tenant_id AND p.place IN (${placeholders(places.length)}))`;
  return { sql, params: places };
}

function isInThread(thread: string, id: string): Condition {
  const sql = `EXISTS (SELECT 1 FROM messages o WHERE o.id = ${id}
    AND COALESCE(o.tenant_id, '') = t.tenant_id AND o.thread_id = ?)`;
  return { sql, params: [thread] };
}

function placesOf({ channel, with: participant }: MessageFilter): string[] {
  return [
    ...(participant === undefined ? [] : [`@${participant}`]),
    ...(channel === undefined ? [] : [`#${channel}`]),
  ];
}

function visiblePlaces({ visibleTo }: MessageFilter): string[] {
  if (visibleTo === undefined) return [];
  return [`=${visibleTo.sessionId}`, ...visibleTo.channels.map((name) => `#${name}`)];
}

/** All conditions of a filter but one of its places, or its thread. */
function othersOf(
  filter: MessageFilter,
  id: string,
  leading: { readonly place?: string; readonly thread?: string } = {},
): Condition[] {
  const visible = visiblePlaces(filter);
  const { thread } = filter;
  return [
    ...placesOf(filter)
      .filter((place) => place !== leading.place)
      .map((place) => isInAny([place], id)),
    ...(visible.length === 0 ? [] : [isInAny(visible, id)]),
    ...(thread === undefined || leading.thread !== undefined ? [] : [isInThread(thread, id)]),
  ];
}

/** The ways to read the messages with these properties, without words. */
export function messageLists(tenantId: string, filter: MessageFilter): readonly List[] {
  const { thread, since } = filter;
  const range = { tenantId, at: 'at', since };
  const ways: List[] = placesOf(filter).map((place) => ({
    ...range,
    table: 'message_places',
    id: 'message_id',
    leading: [{ sql: 't.place = ?', params: [place] }],
    others: othersOf(filter, 't.message_id', { place }),
  }));
  if (thread !== undefined) {
    const leading = [{ sql: 't.thread_id = ?', params: [thread] }];
    ways.push({
      ...range,
      table: 'messages',
      leading,
      others: othersOf(filter, 't.id', { thread }),
    });
  }
  return ways.length === 0 ? [{ ...range, table: 'messages' }] : ways;
}

/** Selects the rows of a range of a list. */
export function messageSelector(
  dialect: SqlDialect,
  filter: MessageFilter,
): (list: List, range: Range) => Statement {
  const { query } = filter;
  const isVisibleAlone =
    visiblePlaces(filter).length > 0 &&
    placesOf(filter).length === 0 &&
    filter.thread === undefined;
  const idsOf = (list: List, range: Range): Statement => {
    if (query !== undefined)
      return searchMessages(dialect, list.tenantId, { filter, query }, range);
    return isVisibleAlone ? selectVisible(list.tenantId, filter, range) : selectPage(list, range);
  };
  return (list, range) =>
    rowsOn(idsOf(list, range), {
      tenantId: list.tenantId,
      table: 'messages',
      columns: messageColumns,
    });
}

/** A message may be in several of the places. */
function selectVisible(tenantId: string, filter: MessageFilter, range: Range): Statement {
  const list = {
    tenantId,
    table: 'message_places',
    id: 'message_id',
    at: 'at',
    since: filter.since,
  };
  const pages = visiblePlaces(filter).map((place) =>
    selectPage({ ...list, leading: [{ sql: 't.place = ?', params: [place] }] }, range),
  );
  const parts = pages.map(({ sql }, way) => `SELECT id, at FROM (${sql}) AS way${way}`);
  return {
    sql: `SELECT id, at FROM (${parts.join(' UNION ')}) AS merged ORDER BY at DESC, id DESC LIMIT ?`,
    params: [...pages.flatMap(({ params }) => params), range.limit],
  };
}

interface Search {
  readonly filter: MessageFilter;
  readonly query: string;
}

/**
 * Messages that have all words, newest first. SQLite reads all of them; PostgreSQL looks words up in a
 * function (`schema/sessions.ts`), outside of which the other conditions hold.
 */
function searchMessages(
  dialect: SqlDialect,
  tenantId: string,
  { filter, query }: Search,
  { before = { at: Number.MAX_SAFE_INTEGER, id: '' }, limit }: Range,
): Statement {
  const { since = Number.MIN_SAFE_INTEGER } = filter;
  const others = othersOf(filter, 't.id');
  const further = others.map(({ sql }) => `AND ${sql}`).join(' ');
  const params = others.flatMap((condition) => condition.params);
  const scope = scopeOf(tenantId);
  const words = [...new Set(wordsOf(query))].map((word) => `${scope}${word}`);
  if (dialect === 'sqlite') {
    const match = words.map((word) => `"${word}"`).join(' AND ');
    return {
      sql: `SELECT t.id AS id, t.at AS at FROM message_index CROSS JOIN messages t
        WHERE message_index MATCH ? AND t.index_rowid = message_index.rowid AND t.tenant_id = ?
          AND t.at >= ? AND (t.at, t.id) < (?, ?) ${further}
        ORDER BY t.at DESC, t.id DESC LIMIT ?`,
      params: [match, tenantId, since, before.at, before.id, ...params, limit],
    };
  }
  const terms = words.map((word) => `'${word}'`).join(' & ');
  const most = others.length === 0 ? limit : Number.MAX_SAFE_INTEGER;
  return {
    sql: `SELECT t.id AS id, t.at AS at FROM (
        SELECT * FROM relay_search_messages(?, ?, ?, ?, ?)
      ) AS found (id) JOIN messages t ON t.id = found.id
      WHERE COALESCE(t.tenant_id, '') = ? ${further} ORDER BY t.at DESC, t.id DESC LIMIT ?`,
    params: [terms, since, before.at, before.id, most, tenantId, ...params, limit],
  };
}
