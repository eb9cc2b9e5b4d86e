/**
 * A new run as one unit. Where it has an idempotency key, taking it is the first statement: if
 * another run has it, nothing of the unit is stored.
 */
import type { RunCreation } from '@relay/core';
import { isEnded } from '@relay/protocol';
import type { SqlDialect, Statement, UnitOf } from '../../drivers/driver.ts';
import { insertAudit } from '../tenants/audit.ts';
import { insertConnection } from './connections.ts';
import { countEnding } from './conversations.ts';
import { insertEvents } from './events.ts';
import { sweepKeys, takeKey } from './idempotency.ts';
import { insertLabels } from './run-lists.ts';
import { insertRun } from './runs.ts';
import { putSnapshot } from './snapshots.ts';
import { countUsage } from './usage.ts';

export function creationUnit(
  dialect: SqlDialect,
  tenantId: string,
  creation: RunCreation,
): Statement[] {
  const { identity, events, progress = {}, connection, idempotency } = creation;
  const { id: runId, createdAt: at } = identity;
  const run = { tenantId, runId };
  const unit: Statement[] = [];
  if (idempotency !== undefined) {
    unit.push(sweepKeys(run.tenantId, at), takeKey(run, idempotency, at));
  }
  unit.push(insertRun(dialect, tenantId, creation), ...insertLabels(identity));
  unit.push(...insertEvents({ tenantId, runId, afterSeq: 0, at, events }));
  unit.push(...putSnapshot(run, progress));
  if (connection !== undefined) unit.push(insertConnection(tenantId, runId, connection));
  if (isEnded(progress.status ?? 'queued')) {
    unit.push(...countEnding(run), countUsage(run, progress.endedAt ?? at));
  }
  unit.push(...insertAudit(tenantId, creation.audit));
  return unit;
}

/** Idempotency keys are the tenant's. */
export function creationOf({ identity, idempotency, progress = {} }: RunCreation): UnitOf {
  const alone = idempotency !== undefined || isEnded(progress.status ?? 'queued');
  return { run: identity.id, alone };
}
