/**
 * What webhooks receive about sessions and messages, in the commit of each change, whatever writes it. The
 * database knows the handle and the number of the event; the rest of a payload is known before.
 */
import type { NewMessage, SessionChange } from '@relay/core';
import { defined, type SessionEvent, type WebhookEvent } from '@relay/protocol';
import type { SqlDialect, Statement } from '../../drivers/driver.ts';
import { byDialect } from '../statements.ts';

const insertSql = `INSERT INTO deliveries
  (webhook_id, tenant_id, id, event, payload, at, queued_at, next_at, status, attempts)`;

const hasPlace = (place: string) => `EXISTS (SELECT 1 FROM message_places p
  WHERE p.message_id = ? AND COALESCE(p.tenant_id, '') = w.tenant_id AND p.place = ${place})`;
const ofMessage = `(w.filter_channel IS NULL OR ${hasPlace(`'#' || w.filter_channel`)})
  AND (w.filter_mention IS NULL OR ${hasPlace(`'!' || w.filter_mention`)})`;

/** Of an event of a session, as soon as it has its number. */
const eventSql = `${insertSql}
  SELECT w.id, w.tenant_id, ? || s.seq, ?, ? || s.seq || ? || s.seq || ? || s.handle || ?, ?, ?, ?,
    'pending', 0
  FROM (SELECT handle, tenant_id, CAST(CAST(last_seq - ? AS BIGINT) AS TEXT) AS seq FROM sessions
    WHERE COALESCE(tenant_id, '') = ? AND id = ?) AS s
  JOIN webhooks w ON w.tenant_id = s.tenant_id
  WHERE w.events LIKE ? AND (w.filter_handle IS NULL OR w.filter_handle = s.handle) AND ${ofMessage}`;

const messageSql = byDialect(
  (dialect) => `${insertSql}
    SELECT w.id, w.tenant_id, ?, 'message.sent', ?, ?, ?, ?, 'pending', 0 FROM webhooks w
    WHERE w.tenant_id = ? AND w.events LIKE '% message.sent %'
      AND (w.filter_handle IS NULL OR w.filter_handle IN (SELECT p.value FROM
        ${dialect === 'sqlite' ? 'json_each(?)' : 'json_array_elements_text(?::json)'} AS p))
      AND ${ofMessage}`,
);

/** After the statement that gives the events their numbers. */
export function noticesOfChange(tenantId: string, change: SessionChange): Statement[] {
  const { sessionId, events, newDeliveries = [] } = change;
  const ofEvents = events.flatMap((event, index) => {
    const told = toldOf(event);
    const subject = { id: sessionId, offset: events.length - 1 - index };
    return told === undefined ? [] : [noticeOf(tenantId, change, told, subject)];
  });
  // The journal of a released session has ended: what it does not take is no event.
  const refused =
    events.length > 0 ? [] : newDeliveries.filter(({ status }) => status === 'failed');
  const ofRefused = refused.map(({ id, messageId, reason = '' }) => {
    const told = toldOf({ type: 'delivery.failed', deliveryId: id, messageId, reason });
    return told === undefined ? [] : [noticeOf(tenantId, change, told, { id, offset: 0 })];
  });
  return [...ofEvents, ...ofRefused.flat()];
}

function noticeOf(
  tenantId: string,
  { sessionId, at }: SessionChange,
  { type, messageId = '', ...fields }: Told,
  subject: { readonly id: string; readonly offset: number },
): Statement {
  const id = `${type}:${subject.id}:`;
  const time = new Date(at).toISOString();
  const rest = JSON.stringify(fields).slice(1, -1);
  const payload = [
    `{"id":"${id}`,
    `","type":"${type}","at":"${time}","seq":`,
    `,"session":{"id":"${sessionId}","handle":"`,
    rest === '' ? '"}}' : `"},${rest}}`,
  ];
  const { offset } = subject;
  const params = [id, type, ...payload, at, at, at, offset, tenantId, sessionId, `% ${type} %`];
  return { sql: eventSql, params: [...params, messageId, messageId] };
}

interface Told {
  readonly type: WebhookEvent;
  readonly messageId?: string;
  readonly [field: string]: unknown;
}

function toldOf(event: SessionEvent): Told | undefined {
  switch (event.type) {
    case 'session.started':
    case 'session.resumed':
      return { type: event.type };
    case 'session.released':
      return { type: event.type, ...defined({ reason: event.reason }) };
    case 'session.forked':
      return { type: event.type, ...defined({ parentSessionId: event.parentSessionId }) };
    case 'status.changed': {
      const { status, previousStatus, reason } = event;
      const change = { status, ...defined({ previousStatus, reason }) };
      return { type: 'session.status-changed', ...change };
    }
    case 'message.received':
    case 'delivery.failed': {
      const { type, messageId, deliveryId } = event;
      const why =
        type === 'delivery.failed'
          ? { reason: event.reason, ...defined({ retryable: event.retryable }) }
          : {};
      const delivery = { ...defined({ id: deliveryId }), ...why };
      return { type, messageId, message: { id: messageId }, delivery };
    }
    default:
      return undefined;
  }
}

/** After its places are stored. */
export function noticeOfMessage(
  dialect: SqlDialect,
  tenantId: string,
  message: NewMessage,
): Statement {
  const { id: messageId, from, to, replyTo, threadId, at } = message;
  const id = `message.sent:${messageId}`;
  const sent = { id: messageId, from, to, ...defined({ replyTo: replyTo ?? undefined }), threadId };
  const time = new Date(at).toISOString();
  const payload = JSON.stringify({ id, type: 'message.sent', at: time, message: sent });
  const addressed = to.filter((each) => each.startsWith('@')).map((each) => each.slice(1));
  const handles = from.type === 'session' ? [from.name, ...addressed] : addressed;
  const params = [id, payload, at, at, at, tenantId, JSON.stringify(handles), messageId, messageId];
  return { sql: messageSql[dialect], params };
}
