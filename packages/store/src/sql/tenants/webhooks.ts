/**
 * Webhooks, and the outbox of their deliveries. A notice becomes a row for each webhook that subscribes
 * to it, in the commit of what it reports.
 */
import type {
  DeliveryRecord,
  NewAudit,
  Notice,
  Page,
  WebhookRecord,
  WebhookStore,
} from '@relay/core';
import type { Decider } from '@relay/protocol';
import type { Row, SqlAccess, Statement } from '../../drivers/driver.ts';
import { insertAudit } from './audit.ts';
import { rowsOn, selectPage } from '../lists.ts';
import {
  freeText,
  freeTextOrNull,
  encode,
  integer,
  integerOrNull,
  json,
  text,
} from '../../codec/values.ts';

const insertNoticeSql = `INSERT INTO deliveries
    (webhook_id, tenant_id, id, event, payload, at, status, attempts, next_at)
  SELECT w.id, w.tenant_id, ?, ?, ?, ?, 'pending', 0, ? FROM webhooks w
  WHERE w.tenant_id = ? AND w.events LIKE ?`;

export function insertNotices(tenantId: string, notices: readonly Notice[] = []): Statement[] {
  return notices.map(({ id, event, at, payload }) => ({
    sql: insertNoticeSql,
    params: [id, event, payload, at, at, tenantId, `% ${event} %`],
  }));
}

const columns = ['id', 'tenant_id', 'url', 'events', 'created_at', 'created_by', 'may_decide'];
const insertSql = `INSERT INTO webhooks (${columns.join(', ')}) VALUES (?, ?, ?, ?, ?, ?, ?)`;
export const findSql = `SELECT ${columns.join(', ')} FROM webhooks WHERE id = ?`;
const deleteSql = 'DELETE FROM webhooks WHERE tenant_id = ? AND id = ?';
const deletePendingSql = `DELETE FROM deliveries
  WHERE tenant_id = ? AND webhook_id = ? AND status = 'pending'`;

export class SqlWebhookStore implements WebhookStore {
  readonly #driver: SqlAccess;
  readonly #tenantId: string;

  constructor(driver: SqlAccess, tenantId: string) {
    this.#driver = driver;
    this.#tenantId = tenantId;
  }

  async add(webhook: WebhookRecord, audit?: readonly NewAudit[]): Promise<void> {
    const { id, url, events, createdAt, createdBy, mayDecide } = webhook;
    const listed = ` ${events.join(' ')} `;
    const by = encode(createdBy);
    const params = [id, this.#tenantId, encode(url), listed, createdAt, by, mayDecide ? 1 : 0];
    const audits = insertAudit(this.#tenantId, audit);
    await this.#driver.transact([{ sql: insertSql, params }, ...audits]);
  }

  async read(webhookId: string): Promise<WebhookRecord | undefined> {
    const [row] = await this.#driver.read(`${findSql} AND tenant_id = ?`, [
      webhookId,
      this.#tenantId,
    ]);
    return row === undefined ? undefined : decodeWebhook(row);
  }

  async list(page: Page): Promise<WebhookRecord[]> {
    const { sql, params } = selectWebhooks(this.#tenantId, page);
    return (await this.#driver.read(sql, params)).map(decodeWebhook);
  }

  async remove(webhookId: string, audit?: readonly NewAudit[]): Promise<boolean> {
    const params = [this.#tenantId, webhookId];
    const unit = [
      { sql: deleteSql, params, expect: 1 },
      { sql: deletePendingSql, params },
      ...insertAudit(this.#tenantId, audit),
    ];
    return (await this.#driver.transact(unit)).ok;
  }

  async deliveries(webhookId: string, page: Page): Promise<DeliveryRecord[]> {
    const { sql, params } = selectDeliveries(this.#tenantId, webhookId, page);
    return (await this.#driver.read(sql, params)).map(decodeDelivery);
  }
}

export function selectWebhooks(tenantId: string, page: Page): Statement {
  const list = { tenantId, table: 'webhooks', at: 'created_at', id: 'id', leading: [], others: [] };
  const shown = columns.map((column) => `r.${column}`);
  return rowsOn(selectPage(list, page), { tenantId, table: 'webhooks', columns: shown });
}

export const deliveryColumns = [
  'webhook_id',
  'id',
  'event',
  'payload',
  'at',
  'status',
  'attempts',
  'next_at',
  'last_status',
  'last_error',
];

export function selectDeliveries(tenantId: string, webhookId: string, page: Page): Statement {
  const { before = { at: Number.MAX_SAFE_INTEGER, id: '' }, limit } = page;
  return {
    sql: `SELECT ${deliveryColumns.join(', ')} FROM deliveries
      WHERE tenant_id = ? AND webhook_id = ? AND (at, id) < (?, ?)
      ORDER BY at DESC, id DESC LIMIT ?`,
    params: [tenantId, webhookId, before.at, before.id, limit],
  };
}

export function decodeWebhook(row: Row): WebhookRecord {
  return {
    id: text(row, 'id'),
    tenantId: text(row, 'tenant_id'),
    url: freeText(row, 'url'),
    events: text(row, 'events').trim().split(' ') as WebhookRecord['events'][number][],
    createdAt: integer(row, 'created_at'),
    createdBy: json(row, 'created_by') as Decider,
    mayDecide: integer(row, 'may_decide') === 1,
  };
}

export function decodeDelivery(row: Row): DeliveryRecord {
  return {
    webhookId: text(row, 'webhook_id'),
    id: text(row, 'id'),
    event: text(row, 'event') as DeliveryRecord['event'],
    payload: text(row, 'payload'),
    at: integer(row, 'at'),
    status: text(row, 'status') as DeliveryRecord['status'],
    attempts: integer(row, 'attempts'),
    nextAt: integer(row, 'next_at'),
    lastStatus: integerOrNull(row, 'last_status'),
    lastError: freeTextOrNull(row, 'last_error'),
  };
}
