/**
 * Webhooks and the outbox of their deliveries. A notice becomes one row per subscribed webhook, in the
 * commit of what it reports.
 */
import type {
  DeliveryClaim,
  DeliveryQueue,
  DeliveryRecord,
  DeliveryResult,
  DeliverySweep,
  NewAuditEntry,
  Notice,
  Page,
  Redelivery,
  WebhookRecord,
  WebhookStore,
} from '@relay/core';
import type { Row, SqlAccess, SqlDialect, SqlDriver, Statement } from '../../drivers/driver.ts';
import { insertAudit } from './audit.ts';
import { selectRows } from '../lists.ts';
import { changesIn, insertInto, readAll } from '../statements.ts';
import { column, RecordCodec } from '../../codec/records.ts';
import { type RowSigner, SignedTable } from '../../codec/signed-table.ts';
import { encode, encodeOrNull, text } from '../../codec/values.ts';

export function insertNotices(tenantId: string, notices: readonly Notice[] = []): Statement[] {
  const sql = `INSERT INTO deliveries
      (webhook_id, tenant_id, id, event, payload, at, queued_at, next_at, status, attempts)
    SELECT w.id, w.tenant_id, ?, ?, ?, ?, ?, ?, 'pending', 0 FROM webhooks w
    WHERE w.tenant_id = ? AND w.events LIKE ?`;
  return notices.map(({ id, event, at, payload }) => ({
    sql,
    params: [id, event, payload, at, at, at, tenantId, `% ${event} %`],
  }));
}

/** Notifications must not go elsewhere, nor contain a link to decide that nobody asked for. */
export const webhookTable = new SignedTable<WebhookRecord>({
  name: 'webhooks',
  subject: 'Webhook',
  key: ['id'],
  codecs: {
    id: column.text(),
    tenantId: column.text(),
    url: column.freeText,
    // Between spaces, so that a notice finds its webhooks.
    events: {
      encode: (events) => ` ${events.join(' ')} `,
      decode: (row, name) => text(row, name).trim().split(' ') as WebhookRecord['events'][number][],
    },
    createdAt: column.number,
    createdBy: column.json(),
    mayDecide: column.boolean,
    filterHandle: column.nullable(column.text()),
    filterChannel: column.nullable(column.text()),
    filterMention: column.nullable(column.text()),
  },
});

const { columns } = webhookTable;
const insertSql = insertInto('webhooks', columns);
const findSql = `SELECT ${columns.join(', ')} FROM webhooks WHERE id = ?`;
const deleteSql = 'DELETE FROM webhooks WHERE tenant_id = ? AND id = ?';
const deletePendingSql = `DELETE FROM deliveries
  WHERE tenant_id = ? AND webhook_id = ? AND status = 'pending'`;

export class SqlWebhookStore implements WebhookStore {
  readonly #driver: SqlAccess;
  readonly #signer: RowSigner;
  readonly #tenantId: string;

  constructor(driver: SqlAccess, signer: RowSigner, tenantId: string) {
    this.#driver = driver;
    this.#signer = signer;
    this.#tenantId = tenantId;
  }

  async add(webhook: WebhookRecord, audit?: readonly NewAuditEntry[]): Promise<void> {
    const params = webhookTable.encode(this.#signer, { ...webhook, tenantId: this.#tenantId });
    const audits = insertAudit(this.#tenantId, audit);
    await this.#driver.transact([{ sql: insertSql, params }, ...audits]);
  }

  async read(webhookId: string): Promise<WebhookRecord | undefined> {
    const params = [webhookId, this.#tenantId];
    const [row] = await this.#driver.read(`${findSql} AND tenant_id = ?`, params);
    return row === undefined ? undefined : webhookTable.find(this.#signer, row);
  }

  async list(page: Page): Promise<WebhookRecord[]> {
    const { sql, params } = selectWebhooks(this.#tenantId, page);
    const rows = await this.#driver.read(sql, params);
    return rows.flatMap((row) => webhookTable.find(this.#signer, row) ?? []);
  }

  async remove(webhookId: string, audit?: readonly NewAuditEntry[]): Promise<boolean> {
    const params = [this.#tenantId, webhookId];
    const unit = [
      { sql: deleteSql, params, expect: 1 },
      { sql: deletePendingSql, params },
      ...insertAudit(this.#tenantId, audit),
    ];
    return (await this.#driver.transact(unit)).ok;
  }

  deliveries(webhookId: string, page: Page): Promise<DeliveryRecord[]> {
    const statement = selectDeliveries(this.#tenantId, webhookId, page);
    return readAll(this.#driver, statement, decodeDelivery);
  }

  async redeliver(
    { webhookId, id, at }: Redelivery,
    audit?: readonly NewAuditEntry[],
  ): Promise<DeliveryRecord | undefined> {
    const params = [at, at, this.#tenantId, webhookId, id];
    const unit = [{ sql: redeliverSql, params, expect: 1 }, ...insertAudit(this.#tenantId, audit)];
    const result = await this.#driver.transact(unit);
    const [row] = result.ok ? (result.results[0]?.rows ?? []) : [];
    return row === undefined ? undefined : decodeDelivery(row);
  }
}

export function selectWebhooks(tenantId: string, page: Page): Statement {
  return selectRows({ tenantId, table: 'webhooks' }, columns, page);
}

const deliveryCodec = new RecordCodec<DeliveryRecord>({
  webhookId: column.text(),
  tenantId: column.text(),
  id: column.text(),
  event: column.text(),
  payload: column.text(),
  at: column.number,
  queuedAt: column.number,
  status: column.text(),
  attempts: column.number,
  nextAt: column.number,
  lastStatus: column.nullable(column.number),
  lastError: column.nullable(column.freeText),
});

const deliveryColumns = deliveryCodec.columns.join(', ');

const redeliverSql = `UPDATE deliveries SET status = 'pending', attempts = 0, next_at = ?, queued_at = ?,
    last_status = NULL, last_error = NULL
  WHERE tenant_id = ? AND webhook_id = ? AND id = ?
  RETURNING ${deliveryColumns}`;

function decodeDelivery(row: Row): DeliveryRecord {
  return deliveryCodec.decode(row);
}

export function selectDeliveries(tenantId: string, webhookId: string, page: Page): Statement {
  const { before = { at: Number.MAX_SAFE_INTEGER, id: '' }, limit } = page;
  return {
    sql: `SELECT ${deliveryColumns} FROM deliveries
      WHERE tenant_id = ? AND webhook_id = ? AND (at, id) < (?, ?)
      ORDER BY at DESC, id DESC LIMIT ?`,
    params: [tenantId, webhookId, before.at, before.id, limit],
  };
}

/** Skips from webhook to webhook in the index of due deliveries. */
const dueSql = `WITH RECURSIVE hook (id) AS (
    SELECT MIN(webhook_id) FROM deliveries WHERE status = 'pending'
    UNION ALL
    SELECT (SELECT MIN(n.webhook_id) FROM deliveries n
      WHERE n.status = 'pending' AND n.webhook_id > hook.id)
    FROM hook WHERE hook.id IS NOT NULL
  )
  SELECT d.webhook_id, d.id FROM hook CROSS JOIN deliveries d
  WHERE d.webhook_id = hook.id AND ? NOT LIKE '% ' || hook.id || ' %'
    AND ? NOT LIKE '% ' || d.tenant_id || ' %' AND d.id IN (
    SELECT x.id FROM deliveries x
    WHERE x.webhook_id = hook.id AND x.status = 'pending' AND x.next_at <= ?
    ORDER BY x.next_at, x.id LIMIT ?)
  ORDER BY d.next_at, d.id LIMIT ?`;

const claimed = (due: string) => `UPDATE deliveries SET next_at = ?, attempts = attempts + 1
  WHERE status = 'pending' AND (webhook_id, id) IN (${due})
  RETURNING ${deliveryColumns}`;

/**
 * On PostgreSQL nodes skip each other's rows instead of waiting. What is due is materialised: inside the
 * update it might be evaluated per row, which would defeat the limit.
 */
export const claimSql: Readonly<Record<SqlDialect, string>> = {
  sqlite: claimed(dueSql),
  postgres: `WITH due AS MATERIALIZED (${dueSql} FOR UPDATE OF d SKIP LOCKED)
    ${claimed('SELECT webhook_id, id FROM due')}`,
};

/**
 * Only the node of this attempt may finish it: another may have claimed it since. The end of the claim
 * distinguishes attempts with the same number, before and after the delivery was requested again.
 */
const finishSql = `UPDATE deliveries SET status = ?, next_at = ?, last_status = ?, last_error = ?
  WHERE webhook_id = ? AND id = ? AND status = 'pending' AND attempts = ?
    AND next_at = ?`;

const failLateSql = `UPDATE deliveries SET status = 'failed', last_error = COALESCE(last_error, ?)
  WHERE (webhook_id, id) IN (SELECT webhook_id, id FROM deliveries
    WHERE status = 'pending' AND queued_at > 0 AND queued_at < ?
      AND tenant_id NOT IN (SELECT t.id FROM tenants t WHERE t.paused_at IS NOT NULL)
    ORDER BY queued_at LIMIT ?)
  AND COALESCE(status, '') = 'pending'`;

export function sweepUnit({ failBefore, deleteBefore, limit }: DeliverySweep): Statement[] {
  const sql = `DELETE FROM deliveries
    WHERE (webhook_id, id) IN (SELECT webhook_id, id FROM deliveries
      WHERE status <> 'pending' AND queued_at < ? ORDER BY queued_at LIMIT ?)`;
  return [
    { sql: failLateSql, params: [encode('Not delivered in time'), failBefore, limit] },
    { sql, params: [deleteBefore, limit] },
  ];
}

/** The deliveries of all tenants. Webhooks take turns, so that a long backlog delays no other. */
export class SqlDeliveryQueue implements DeliveryQueue {
  readonly #driver: SqlDriver;
  readonly #signer: RowSigner;

  constructor(driver: SqlDriver, signer: RowSigner) {
    this.#driver = driver;
    this.#signer = signer;
  }

  async claim(by: DeliveryClaim): Promise<DeliveryRecord[]> {
    const { dialect } = this.#driver;
    const { perWebhook = by.limit, except = [] } = by;
    const skipped = ` ${except.join('  ')} `;
    const due = [skipped, skipped, by.now, perWebhook, by.limit];
    const params = dialect === 'sqlite' ? [by.until, ...due] : [...due, by.until];
    const result = await this.#driver.transact([{ sql: claimSql[dialect], params }]);
    return result.ok ? (result.results[0]?.rows ?? []).map(decodeDelivery) : [];
  }

  async finish(delivery: DeliveryRecord, result: DeliveryResult): Promise<boolean> {
    const { status, nextAt, lastStatus, lastError } = result;
    const { webhookId, id, attempts, nextAt: claimedUntil } = delivery;
    const error = encodeOrNull(lastError);
    const claim = [webhookId, id, attempts, claimedUntil];
    const params = [status, nextAt, lastStatus, error, ...claim];
    return (await this.#driver.transact([{ sql: finishSql, params, expect: 1 }])).ok;
  }

  async sweep(by: DeliverySweep): Promise<number> {
    return changesIn(await this.#driver.transact(sweepUnit(by)));
  }

  async find(webhookId: string): Promise<WebhookRecord | undefined> {
    const [row] = await this.#driver.read(findSql, [webhookId]);
    return row === undefined ? undefined : webhookTable.find(this.#signer, row);
  }
}
