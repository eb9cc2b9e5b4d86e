import type { RunCreation, RunHead, RunProgress, RunRecord, RunRef } from '@relay/core';
import { defined, isEnded, noUsage, RelayError, type Usage } from '@relay/protocol';
import type { Row, SqlDialect, SqlValue, Statement } from '../../drivers/driver.ts';
import { byDialect, insertInto, nowSql } from '../statements.ts';
import {
  checkIntact,
  checksumOf,
  corrupt,
  encode,
  encodeOrNull,
  freeText,
  freeTextOrNull,
  json,
  jsonOrNull,
  number,
  numberOrNull,
  text,
  textOrNull,
} from '../../codec/values.ts';

/** Readable even if checkpoint and snapshot are damaged. */
export const headColumns = [
  'id',
  'tenant_id',
  'last_seq',
  'status',
  'created_at',
  'input_tokens',
  'output_tokens',
  'cost_usd',
  'usage_details',
  'conversation_id',
  'correlation_id',
  'surface',
  'agent',
  'model',
  'labels',
  'parent_run_id',
  'workflow_id',
  'key_id',
  'output_json',
] as const;

const columns = [
  ...headColumns,
  'epoch',
  'lease_owner',
  'lease_until',
  'wake_at',
  'started_at',
  'ended_at',
  'error',
  'serialized_state',
  'state_checksum',
] as const;

/** `forked_from` is only read by other statements. */
const insertedColumns = [...columns, 'forked_from'] as const;

const insertFreeSql = insertInto('runs', insertedColumns);

/** A lease starts when it is stored. */
const insertHeldSql = byDialect((dialect) => {
  const value = (column: string) => (column === 'lease_until' ? `${nowSql[dialect]} + ?` : '?');
  return `INSERT INTO runs (${insertedColumns.join(', ')})
    VALUES (${insertedColumns.map(value).join(', ')})`;
});

export function insertRun(dialect: SqlDialect, tenantId: string, creation: RunCreation): Statement {
  const { identity, progress = {} } = creation;
  const { usage = noUsage, checkpoint = null, status = 'queued' } = progress;
  const lease = isEnded(status) ? null : creation.lease;
  return {
    sql: lease === null ? insertFreeSql : insertHeldSql[dialect],
    params: [
      identity.id,
      tenantId,
      creation.events.length,
      status,
      identity.createdAt,
      usage.inputTokens,
      usage.outputTokens,
      usage.costUsd ?? null,
      encodeUsageDetails(usage),
      identity.conversationId,
      encode(identity.correlationId),
      identity.surface,
      encode(identity.agent),
      encode(identity.model),
      encode(identity.labels),
      identity.parentRunId,
      encodeOrNull(identity.workflowId),
      identity.keyId,
      progress.outputJson ?? null,
      creation.lease === null ? 0 : 1,
      lease?.owner ?? null,
      ...(lease === null ? [0] : [identity.createdAt, lease.until - identity.createdAt]),
      progress.wakeAt ?? null,
      progress.startedAt ?? null,
      progress.endedAt ?? null,
      encodeOrNull(progress.error),
      checkpoint,
      checkpointChecksum(identity.id, checkpoint),
      sourceOf(creation),
    ],
  };
}

/** The run whose journal this one reads too. */
function sourceOf({ events: [first] }: RunCreation): string | null {
  return first?.type === 'run.created' ? (first.forkedFrom?.runId ?? null) : null;
}

/** The columns that a step changes; the snapshot is not among them (`putSnapshot`). */
export function changesOf(
  runId: string,
  progress: Partial<RunProgress>,
): readonly (readonly [column: string, value: SqlValue])[] {
  const changes: [string, SqlValue][] = [];
  if (progress.status !== undefined) changes.push(['status', progress.status]);
  if (progress.startedAt !== undefined) changes.push(['started_at', progress.startedAt]);
  if (progress.endedAt !== undefined) changes.push(['ended_at', progress.endedAt]);
  if (progress.usage !== undefined) {
    changes.push(['input_tokens', progress.usage.inputTokens]);
    changes.push(['output_tokens', progress.usage.outputTokens]);
    changes.push(['cost_usd', progress.usage.costUsd ?? null]);
    const details = encodeUsageDetails(progress.usage);
    if (details !== null) changes.push(['usage_details', details]);
  }
  if (progress.error !== undefined) changes.push(['error', encodeOrNull(progress.error)]);
  if (progress.checkpoint !== undefined) {
    changes.push(['serialized_state', progress.checkpoint]);
    changes.push(['state_checksum', checkpointChecksum(runId, progress.checkpoint)]);
  }
  if (progress.outputJson !== undefined) changes.push(['output_json', progress.outputJson]);
  if (progress.wakeAt !== undefined) changes.push(['wake_at', progress.wakeAt]);
  return changes;
}

export const selectRunSql = `SELECT ${columns.map((column) => `r.${column}`).join(', ')},
    s.seq AS snapshot_seq, s.body AS snapshot, s.checksum AS snapshot_checksum
  FROM runs r LEFT JOIN snapshots s ON s.run_id = r.id AND s.tenant_id = r.tenant_id
  WHERE r.tenant_id = ? AND r.id = ?`;

export function decodeRun(row: Row): RunRecord {
  const id = text(row, 'id');
  const checkpoint = textOrNull(row, 'serialized_state');
  if (checkpointChecksum(id, checkpoint) !== row['state_checksum']) {
    throw corrupt(`The checkpoint of run ${id}`, 'it does not match its checksum');
  }
  return {
    ...decodeRunHead(row),
    startedAt: numberOrNull(row, 'started_at'),
    endedAt: numberOrNull(row, 'ended_at'),
    error: jsonOrNull(row, 'error') as RunRecord['error'],
    checkpoint,
    ...decodeSnapshot(id, row),
    wakeAt: numberOrNull(row, 'wake_at'),
    epoch: number(row, 'epoch'),
  };
}

export function decodeRunHead(row: Row): RunHead {
  return {
    id: text(row, 'id'),
    tenantId: text(row, 'tenant_id'),
    conversationId: text(row, 'conversation_id'),
    correlationId: freeText(row, 'correlation_id'),
    surface: text(row, 'surface') as RunRecord['surface'],
    agent: freeText(row, 'agent'),
    model: freeText(row, 'model'),
    labels: json(row, 'labels') as RunRecord['labels'],
    parentRunId: textOrNull(row, 'parent_run_id'),
    workflowId: freeTextOrNull(row, 'workflow_id'),
    keyId: textOrNull(row, 'key_id'),
    createdAt: number(row, 'created_at'),
    status: text(row, 'status') as RunRecord['status'],
    usage: decodeUsage(row),
    outputJson: textOrNull(row, 'output_json'),
    lastSeq: number(row, 'last_seq'),
  };
}

function checkpointChecksum(runId: string, checkpoint: string | null): number | null {
  return checkpoint === null ? null : checksumOf(runId, checkpoint);
}

/** What some providers report besides the two numbers of tokens. */
type Details = Omit<Usage, 'inputTokens' | 'outputTokens' | 'costUsd'>;

function encodeUsageDetails(usage: Usage): string | null {
  const { inputTokens: _, outputTokens: __, costUsd: ___, ...details } = usage;
  return Object.keys(details).length === 0 ? null : JSON.stringify(details);
}

/** A model without a price has no cost. */
function decodeUsage(row: Row): Usage {
  const costUsd = numberOrNull(row, 'cost_usd') ?? undefined;
  return {
    inputTokens: number(row, 'input_tokens'),
    outputTokens: number(row, 'output_tokens'),
    ...(jsonOrNull(row, 'usage_details') as Details | null),
    ...defined({ costUsd }),
  };
}

/** The fold of a journal up to some `seq`. It is large, so it is not in the row of its run. */
const putSnapshotSql = `INSERT INTO snapshots (run_id, tenant_id, seq, body, checksum) VALUES (?, ?, ?, ?, ?)
  ON CONFLICT (run_id) DO UPDATE
    SET seq = excluded.seq, body = excluded.body, checksum = excluded.checksum`;

const deleteSnapshotSql = 'DELETE FROM snapshots WHERE tenant_id = ? AND run_id = ?';

export function putSnapshot(
  { tenantId, runId }: RunRef,
  { snapshot, snapshotSeq }: Partial<RunProgress>,
): Statement[] {
  if (snapshot === null) return [{ sql: deleteSnapshotSql, params: [tenantId, runId] }];
  if (snapshot === undefined && snapshotSeq === undefined) return [];
  if (snapshot === undefined || snapshotSeq === undefined) {
    throw new RelayError('internal', 'A snapshot and its seq can only be stored together');
  }
  const checksum = checksumOf(runId, snapshotSeq, snapshot);
  return [{ sql: putSnapshotSql, params: [runId, tenantId, snapshotSeq, snapshot, checksum] }];
}

function decodeSnapshot(runId: string, row: Row): Pick<RunProgress, 'snapshot' | 'snapshotSeq'> {
  if (row['snapshot_seq'] === null) return { snapshot: null, snapshotSeq: 0 };
  const columns = ['id', 'snapshot_seq', 'snapshot'];
  checkIntact(`The snapshot of run ${runId}`, row, columns, 'snapshot_checksum');
  return { snapshot: text(row, 'snapshot'), snapshotSeq: number(row, 'snapshot_seq') };
}
