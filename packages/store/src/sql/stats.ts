/** Open runs and pending approvals over all tenants. The cost grows with what is open, not with what has ended. */
import type { StoreStats } from '@relay/core';
import type { Row } from '../drivers/driver.ts';
import { integer, integerOrNull, text } from '../codec/values.ts';

export const openRunsSql = `SELECT r.status AS status, COUNT(*) AS n
  FROM tenants t JOIN runs r ON r.tenant_id = t.id AND r.status IN ('queued', 'running', 'waiting')
  GROUP BY r.status`;

export const openApprovalsSql = `SELECT COUNT(*) AS n, MIN(r.requested_at) AS oldest
  FROM tenants t JOIN approvals r ON r.tenant_id = t.id AND r.status = 'pending'`;

export function decodeStats(runs: readonly Row[], approvals: Row | undefined): StoreStats {
  const counted = new Map(runs.map((row) => [text(row, 'status'), integer(row, 'n')]));
  return {
    runs: {
      queued: counted.get('queued') ?? 0,
      running: counted.get('running') ?? 0,
      waiting: counted.get('waiting') ?? 0,
    },
    approvals: {
      pending: approvals === undefined ? 0 : integer(approvals, 'n'),
      oldestAt: approvals === undefined ? null : integerOrNull(approvals, 'oldest'),
    },
  };
}
