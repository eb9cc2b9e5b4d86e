/** Deliveries of messages. The row of their session is locked whenever one is inserted or changes. */
import type {
  DeliveryChange,
  DeliveryFilter,
  EventRange,
  InboxEntry,
  InboxLimit,
  MessageDelivery,
  NewDelivery,
  SendableQuery,
  SessionChange,
  SessionRef,
} from '@relay/core';
import {
  deliveryModes,
  deliveryStatuses,
  type DeliveryStatus,
  type SessionEvent,
} from '@relay/protocol';
import type { Row, SqlDialect, Statement } from '../../drivers/driver.ts';
import { columnFilters, indexFilter, type List, type Range, selectRows } from '../lists.ts';
import { byDialect, placeholders } from '../statements.ts';
import { column, RecordCodec } from '../../codec/records.ts';
import { encodeOrNull } from '../../codec/values.ts';
import { decodeMessage, messageColumns } from './messages.ts';

const codec = new RecordCodec<MessageDelivery>({
  id: column.text(),
  messageId: column.text(),
  sessionId: column.text(),
  handle: column.text(),
  position: column.number,
  mode: column.text(),
  status: column.text(),
  reason: column.nullable(column.freeText),
  error: column.nullable(column.json()),
  retryable: column.boolean,
  inferred: column.boolean,
  attempts: column.number,
  streamId: column.nullable(column.text()),
  revision: column.number,
  at: column.number,
  availableAt: column.nullable(column.number),
  deliveredAt: column.nullable(column.number),
  consumedAt: column.nullable(column.number),
  finalAt: column.nullable(column.number),
});

const { columns } = codec;

export const decodeDelivery = (row: Row): MessageDelivery => codec.decode(row);

/** Finds nothing to insert if there is no such message. */
const insertSql = `INSERT INTO message_deliveries (id, message_id, session_id, handle, position, mode,
    status, reason, error, retryable, inferred, attempts, stream_id, revision, at, available_at,
    delivered_at, consumed_at, final_at, tenant_id, bytes)
  SELECT ?, m.id, s.id, s.handle, s.last_seq - ?, ?, ?, ?, ?, ?, 0, 0, NULL, 0, ?, ?, ?, ?, ?, s.tenant_id, m.bytes
  FROM sessions s CROSS JOIN messages m
  WHERE COALESCE(s.tenant_id, '') = ? AND s.id = ? AND COALESCE(m.tenant_id, '') = ? AND m.id = ?`;

/** To be executed when the row of the session has advanced. */
export function insertDelivery(
  { tenantId, sessionId }: SessionRef,
  { at, events }: Pick<SessionChange, 'at' | 'events'>,
  delivery: NewDelivery,
): Statement {
  const { id, messageId, mode, status = 'accepted', reason, error, availableAt } = delivery;
  const times = timesOf(status, at, isFinal(status));
  return {
    sql: insertSql,
    params: [
      id,
      eventsAfter(events, id),
      mode,
      status,
      encodeOrNull(reason),
      encodeOrNull(error),
      delivery.retryable === true ? 1 : 0,
      at,
      availableAt ?? null,
      times.deliveredAt,
      times.consumedAt,
      times.finalAt,
      tenantId,
      sessionId,
      tenantId,
      messageId,
    ],
    expect: 1,
  };
}

/** How many events follow the first one of the delivery: its position is that event's `seq`. */
function eventsAfter(events: readonly SessionEvent[], deliveryId: string): number {
  const index = events.findIndex(
    (event) => 'deliveryId' in event && event.deliveryId === deliveryId,
  );
  return index === -1 ? 0 : events.length - 1 - index;
}

function isFinal(status: DeliveryStatus): boolean {
  return status === 'consumed' || status === 'failed';
}

function timesOf(status: DeliveryStatus, at: number, final: boolean) {
  return {
    // What is consumed was delivered, also if one receipt says both.
    deliveredAt: status === 'delivered' || status === 'consumed' ? at : null,
    consumedAt: status === 'consumed' ? at : null,
    finalAt: final ? at : null,
  };
}

const mostStatuses = 5;

const changeSql = `UPDATE message_deliveries SET status = ?, reason = ?, error = ?, retryable = ?,
    inferred = ?, attempts = attempts + ?, available_at = ?, consumed_at = ?, final_at = ?`;
const whereSql = `WHERE COALESCE(tenant_id, '') = ? AND id = ? AND COALESCE(session_id, '') = ?
    AND status IN (${placeholders(mostStatuses)}) AND revision = COALESCE(?, revision)
    AND attempts = COALESCE(?, attempts)`;
/** One that is sent again while it is delivered was delivered before. */
const deliveredOnce = `, delivered_at = COALESCE(delivered_at, ?)`;
const notDelivered = `, delivered_at = NULL`;
const sentOn = `, stream_id = ?`;
const requeued = `, at = ?, position = (SELECT s.last_seq - ? FROM sessions s
    WHERE COALESCE(s.tenant_id, '') = message_deliveries.tenant_id AND s.id = message_deliveries.session_id)`;

export function changeDelivery(
  { tenantId, sessionId }: SessionRef,
  { at, events }: Pick<SessionChange, 'at' | 'events'>,
  change: DeliveryChange,
): Statement {
  const { id, from, to, reason, error, availableAt, revision, isRequeued = false } = change;
  const { streamId, ifAttempts } = change;
  const times = timesOf(to, at, change.isFinal ?? isFinal(to));
  const [padding = ''] = from;
  const isWaiting = to === 'accepted' || to === 'deferred';
  const assignments = [
    changeSql,
    isWaiting ? notDelivered : deliveredOnce,
    streamId === undefined ? '' : sentOn,
    isRequeued ? requeued : '',
  ];
  return {
    sql: `${assignments.join('')} ${whereSql}`,
    params: [
      to,
      encodeOrNull(reason),
      encodeOrNull(error),
      change.retryable === true ? 1 : 0,
      change.inferred === true ? 1 : 0,
      change.isAttempt === true ? 1 : 0,
      availableAt ?? null,
      times.consumedAt,
      times.finalAt,
      ...(isWaiting ? [] : [times.deliveredAt]),
      ...(streamId === undefined ? [] : [streamId]),
      ...(isRequeued ? [at, eventsAfter(events, id)] : []),
      tenantId,
      id,
      sessionId,
      ...Array.from({ length: mostStatuses }, (_, index) => from[index] ?? padding),
      revision ?? null,
      ifAttempts ?? null,
    ],
    expect: 1,
  };
}

const notWithdrawnSql = byDialect(
  (dialect) => `SELECT m.id FROM message_deliveries d JOIN messages m
      ON m.id = d.message_id AND COALESCE(m.tenant_id, '') = d.tenant_id
    WHERE COALESCE(d.tenant_id, '') = ? AND d.id = ? AND m.withdrawn_at IS NULL
    ${dialect === 'sqlite' ? '' : 'FOR SHARE OF m'}`,
);

/** Of a delivery that is accepted again. A withdrawal at the same time waits for it, or has come first. */
export function expectNotWithdrawn(
  dialect: SqlDialect,
  tenantId: string,
  deliveryId: string,
): Statement {
  return { sql: notWithdrawnSql[dialect], params: [tenantId, deliveryId], expect: 1 };
}

const notFailedSql = `SELECT id FROM message_deliveries
  WHERE COALESCE(tenant_id, '') = ? AND message_id = ? AND status <> 'failed' LIMIT 1`;

/** Of a message that is withdrawn. */
export function expectFailed(tenantId: string, messageId: string): Statement {
  return { sql: notFailedSql, params: [tenantId, messageId], expect: 0 };
}

/** In these statements the function around the tenant keeps its indexes from being chosen. */
const inInbox = `status IN ('accepted', 'deferred') AND final_at IS NULL`;

export const overfullSql = `SELECT 1 FROM (
    SELECT COUNT(*) AS messages, COALESCE(SUM(bytes), 0) AS bytes FROM message_deliveries
    WHERE session_id = ? AND COALESCE(tenant_id, '') = ? AND final_at IS NULL) AS inbox
  WHERE inbox.messages > ? OR inbox.bytes > ?`;

/** After the insertion, while the row of the session is locked: nobody else adds to the inbox meanwhile. */
export function expectSpace({ tenantId, sessionId }: SessionRef, limit: InboxLimit): Statement {
  const params = [sessionId, tenantId, limit.messages, limit.bytes];
  return { sql: overfullSql, params, expect: 0 };
}

const read = columns.join(', ');

export const selectDeliverySql = `SELECT ${read} FROM message_deliveries
  WHERE tenant_id = ? AND id = ?`;

export const selectOfMessageSql = `SELECT ${read} FROM message_deliveries
  WHERE COALESCE(tenant_id, '') = ? AND message_id = ? ORDER BY id`;

/** The ways to read the deliveries with these properties. */
export function deliveryLists(tenantId: string, filter: DeliveryFilter): readonly List[] {
  const ofSession = columnFilters({ session_id: filter.sessionId });
  const ofStatus = columnFilters({ status: filter.status });
  const range = { tenantId, table: 'message_deliveries', at: 'at' };
  const ways = [
    { prefix: ofSession, others: ofStatus },
    { prefix: ofStatus, others: ofSession },
  ].filter(({ prefix }) => prefix.length > 0);
  if (ways.length === 0) {
    ways.push({ prefix: columnFilters({ status: deliveryStatuses }), others: [] });
  }
  return ways.map(({ prefix, others }) => ({ ...range, ...indexFilter(prefix, others) }));
}

export function selectDeliveries(list: List, range: Range): Statement {
  return selectRows(list, columns, range);
}

/** Those of a session in order, each with its message; up to a size if they are `bounded`. */
function entriesSql(condition: string, bounded = false): string {
  const of = (alias: string, names: readonly string[], prefix = '') =>
    names.map((name) => `${alias}.${name} AS ${prefix}${name}`).join(', ');
  const first = `SELECT ${read}, bytes FROM message_deliveries
      WHERE session_id = ? AND position > ? AND COALESCE(tenant_id, '') = ? AND ${condition}
      ORDER BY position, id LIMIT ?`;
  const sized = `SELECT page.*, SUM(bytes) OVER (ORDER BY position, id) - bytes AS bytes_before
      FROM (${first}) AS page`;
  return `SELECT ${of('d', columns)}, d.bytes, ${of('m', messageColumns, 'message_')}
    FROM (${bounded ? sized : first}) AS d CROSS JOIN messages m
    WHERE ${bounded ? 'd.bytes_before < ? AND ' : ''}m.id = d.message_id AND COALESCE(m.tenant_id, '') = ? ORDER BY d.position, d.id`;
}

export const inboxSql = entriesSql(inInbox);
export const unconsumedSql = entriesSql(`status = 'delivered' AND final_at IS NULL`);

export function selectEntries(
  sql: string,
  { tenantId, sessionId }: SessionRef,
  { after, limit }: EventRange,
): Statement {
  return { sql, params: [sessionId, after, tenantId, limit, tenantId] };
}

const mostKinds = deliveryModes.length * deliveryStatuses.length;

/**
 * Sent again on this stream, or to be sent again on it, and not ended: the session is handling it.
 * One that its program deferred and then reported as delivered has no stream, but is held all the same.
 */
const handled = `SELECT 1 FROM message_deliveries h
  WHERE h.session_id = ? AND COALESCE(h.tenant_id, '') = ? AND h.final_at IS NULL
    AND (h.stream_id <> ? OR (h.stream_id IS NOT NULL AND h.attempts > 1)
      OR (h.stream_id IS NULL AND h.status = 'delivered'))`;

export const sendableSql = entriesSql(
  `final_at IS NULL AND (stream_id IS NULL OR stream_id <> ?)
    AND (status <> 'deferred' OR available_at IS NULL OR available_at <= ?)
    AND mode || ' ' || status IN (${placeholders(mostKinds)})
    AND (stream_id IS NOT NULL OR status = 'delivered' OR mode || ' ' || status IN (${placeholders(mostKinds)})
      OR NOT EXISTS (${handled}))`,
  true,
);

export function selectSendable(
  { tenantId, sessionId }: SessionRef,
  { streamId, kinds, now, limit, maxBytes }: SendableQuery,
): Statement {
  const namesOf = (some: SendableQuery['kinds']) =>
    Array.from({ length: mostKinds }, (_, index) => {
      const kind = some[index];
      return kind === undefined ? '' : `${kind.mode} ${kind.status}`;
    });
  const inTurn = kinds.filter(({ startsTurn = false }) => !startsTurn);
  const ofKind = [streamId, now, ...namesOf(kinds), ...namesOf(inTurn)];
  const ofHandled = [sessionId, tenantId, streamId];
  const params = [sessionId, -1, tenantId, ...ofKind, ...ofHandled, limit, maxBytes, tenantId];
  return { sql: sendableSql, params };
}

export const nextAvailableSql = `SELECT MIN(available_at) AS available_at FROM message_deliveries
  WHERE COALESCE(tenant_id, '') = ? AND session_id = ? AND final_at IS NULL
    AND status = 'deferred' AND available_at > ?`;

export function decodeEntry(row: Row): InboxEntry {
  const ofMessage = Object.fromEntries(
    messageColumns.map((name) => [name, row[`message_${name}`] ?? null]),
  );
  return { ...decodeDelivery(row), bytes: Number(row['bytes']), message: decodeMessage(ofMessage) };
}

const editSql = (assignments = '') => `UPDATE message_deliveries
  SET revision = revision + 1, bytes = ?${assignments}
  WHERE COALESCE(tenant_id, '') = ? AND message_id = ? AND ${inInbox}`;
/** One that becomes manual waits for a flush, whatever it was deferred for. */
const heldSql = editSql(`, mode = ?,
    status = CASE WHEN mode = 'manual' THEN status ELSE 'accepted' END,
    reason = CASE WHEN mode = 'manual' THEN reason END,
    available_at = CASE WHEN mode = 'manual' THEN available_at END`);
const handedOverSql = `SELECT id FROM message_deliveries
  WHERE COALESCE(tenant_id, '') = ? AND message_id = ?
    AND (attempts > 0 OR status IN ('delivered', 'consumed')) LIMIT 1`;

/**
 * The deliveries of a message that was edited. One that is handed over meanwhile has another revision, so
 * its change fails; the last statement finds one that was handed over before.
 */
export function editDeliveries(
  tenantId: string,
  messageId: string,
  { bytes, mode }: { readonly bytes: number; readonly mode: string | null },
): Statement[] {
  const ofMessage = [tenantId, messageId];
  const changed =
    mode === null
      ? { sql: editSql(), params: [bytes, ...ofMessage] }
      : {
          sql: mode === 'manual' ? heldSql : editSql(', mode = ?'),
          params: [bytes, mode, ...ofMessage],
        };
  return [changed, { sql: handedOverSql, params: ofMessage, expect: 0 }];
}
