/**
 * Deliveries that are due, over all tenants. Webhooks take turns: a long backlog of one does not delay
 * the others.
 */
import type {
  DeliveryClaim,
  DeliveryQueue,
  DeliveryRecord,
  DeliveryResult,
  DeliverySweep,
  WebhookRecord,
} from '@relay/core';
import type { SqlDialect, SqlDriver, Statement } from '../../drivers/driver.ts';
import { encode, encodeOrNull } from '../../codec/values.ts';
import { decodeDelivery, decodeWebhook, deliveryColumns, findSql } from './webhooks.ts';

/** Skips from webhook to webhook in the index of due deliveries. */
const dueSql = `WITH RECURSIVE hook (id) AS (
    SELECT MIN(webhook_id) FROM deliveries WHERE status = 'pending'
    UNION ALL
    SELECT (SELECT MIN(n.webhook_id) FROM deliveries n
      WHERE n.status = 'pending' AND n.webhook_id > hook.id)
    FROM hook WHERE hook.id IS NOT NULL
  )
  SELECT d.webhook_id, d.id FROM hook CROSS JOIN deliveries d
  WHERE d.webhook_id = hook.id AND ? NOT LIKE '%' || hook.id || '%' AND d.id IN (
    SELECT x.id FROM deliveries x
    WHERE x.webhook_id = hook.id AND x.status = 'pending' AND x.next_at <= ?
    ORDER BY x.next_at, x.id LIMIT ?)
  ORDER BY d.next_at, d.id LIMIT ?`;

const claimed = (due: string) => `UPDATE deliveries SET next_at = ?, attempts = attempts + 1
  WHERE status = 'pending' AND (webhook_id, id) IN (${due})
  RETURNING ${deliveryColumns.join(', ')}`;

/**
 * Where several nodes claim, they never wait for each other. What is due is looked up once: inside of
 * the update it might be looked up for each row, and the limit would be none.
 */
export const claimSql: Readonly<Record<SqlDialect, string>> = {
  sqlite: claimed(dueSql),
  postgres: `WITH due AS MATERIALIZED (${dueSql} FOR UPDATE OF d SKIP LOCKED)
    ${claimed('SELECT webhook_id, id FROM due')}`,
};

const finishSql = `UPDATE deliveries SET status = ?, next_at = ?, last_status = ?, last_error = ?
  WHERE webhook_id = ? AND id = ? AND status = 'pending' AND attempts = ?`;

/** Only the node of this attempt: another may have delivered it meanwhile. */
const giveUpSql = `UPDATE deliveries SET status = 'failed', last_error = COALESCE(last_error, ?)
  WHERE (webhook_id, id) IN (SELECT webhook_id, id FROM deliveries
    WHERE status = 'pending' AND at > 0 AND at < ? ORDER BY at LIMIT ?)
  AND COALESCE(status, '') = 'pending'`;

const forgetSql = `DELETE FROM deliveries
  WHERE (webhook_id, id) IN (SELECT webhook_id, id FROM deliveries
    WHERE status <> 'pending' AND at < ? ORDER BY at LIMIT ?)`;

export function sweepUnit({ failBefore, deleteBefore, limit }: DeliverySweep): Statement[] {
  return [
    { sql: giveUpSql, params: [encode('Not delivered in time'), failBefore, limit] },
    { sql: forgetSql, params: [deleteBefore, limit] },
  ];
}

export class SqlDeliveryQueue implements DeliveryQueue {
  readonly #driver: SqlDriver;

  constructor(driver: SqlDriver) {
    this.#driver = driver;
  }

  async claim(by: DeliveryClaim): Promise<DeliveryRecord[]> {
    const { dialect } = this.#driver;
    const { perWebhook = by.limit, except = [] } = by;
    const due = [except.join(' '), by.now, perWebhook, by.limit];
    const params = dialect === 'sqlite' ? [by.until, ...due] : [...due, by.until];
    const result = await this.#driver.transact([{ sql: claimSql[dialect], params }]);
    return result.ok ? (result.results[0]?.rows ?? []).map(decodeDelivery) : [];
  }

  async finish(delivery: DeliveryRecord, result: DeliveryResult): Promise<boolean> {
    const { status, nextAt, lastStatus, lastError } = result;
    const { webhookId, id, attempts } = delivery;
    const error = encodeOrNull(lastError);
    const params = [status, nextAt, lastStatus, error, webhookId, id, attempts];
    return (await this.#driver.transact([{ sql: finishSql, params, expect: 1 }])).ok;
  }

  async sweep(by: DeliverySweep): Promise<number> {
    const result = await this.#driver.transact(sweepUnit(by));
    return result.ok ? result.results.reduce((sum, { changes }) => sum + changes, 0) : 0;
  }

  async find(webhookId: string): Promise<WebhookRecord | undefined> {
    const [row] = await this.#driver.read(findSql, [webhookId]);
    return row === undefined ? undefined : decodeWebhook(row);
  }
}
