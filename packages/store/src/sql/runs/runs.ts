import type {
  CheckpointChange,
  RunCreation,
  RunHead,
  RunIdentity,
  RunProgress,
  RunRecord,
  RunRef,
} from '@relay/core';
import { defined, isEnded, noUsage, RelayError, type Usage } from '@relay/protocol';
import type { Row, SqlDialect, SqlValue, Statement } from '../../drivers/driver.ts';
import { byDialect, insertInto, nowSql } from '../statements.ts';
import { column, RecordCodec } from '../../codec/records.ts';
import {
  checkIntact,
  checksumOf,
  corrupt,
  encodeOrNull,
  jsonOrNull,
  number,
  numberOrNull,
  text,
  textOrNull,
} from '../../codec/values.ts';

const identityCodec = new RecordCodec<RunIdentity>({
  id: column.text(),
  tenantId: column.text(),
  conversationId: column.text(),
  correlationId: column.freeText,
  surface: column.text(),
  agent: column.freeText,
  model: column.freeText,
  labels: column.json(),
  parentRunId: column.nullable(column.text()),
  workflowId: column.nullable(column.freeText),
  keyId: column.nullable(column.text()),
  owner: column.freeText,
  createdAt: column.number,
});

const headCodec = new RecordCodec<Pick<RunHead, 'status' | 'outputJson' | 'answerSeq' | 'lastSeq'>>(
  {
    status: column.text(),
    outputJson: column.nullable(column.text()),
    answerSeq: column.nullable(column.number),
    lastSeq: column.number,
  },
);

/** Readable even if checkpoint and snapshot are damaged. */
export const headColumns = [
  ...identityCodec.columns,
  ...headCodec.columns,
  'input_tokens',
  'output_tokens',
  'cost_usd',
  'usage_details',
];

export const endCodec = new RecordCodec<
  Pick<RunProgress, 'startedAt' | 'endedAt' | 'error' | 'finishReason'>
>({
  startedAt: column.nullable(column.number),
  endedAt: column.nullable(column.number),
  error: column.nullable(column.json()),
  finishReason: column.nullable(column.text()),
});

const columns = [
  ...headColumns,
  ...endCodec.columns,
  'epoch',
  'lease_owner',
  'lease_until',
  'wake_at',
  'serialized_state',
  'state_checksum',
  'journal_size',
  'first_token_ms',
];

/** These are only read by other statements. */
const insertedColumns = [
  ...columns,
  'forked_from',
  'reserved_tokens',
  'reserved_usd',
  'error_code',
];

const insertFreeSql = insertInto('runs', insertedColumns);

/** A lease starts when it is stored. */
const insertHeldSql = byDialect((dialect) => {
  const value = (column: string) => (column === 'lease_until' ? `${nowSql[dialect]} + ?` : '?');
  return `INSERT INTO runs (${insertedColumns.join(', ')})
    VALUES (${insertedColumns.map(value).join(', ')})`;
});

export function insertRun(
  dialect: SqlDialect,
  tenantId: string,
  creation: RunCreation,
  journalSize: number,
): Statement {
  const { identity, progress = {} } = creation;
  const { usage = noUsage, checkpoint = null, status = 'queued', outputJson = null } = progress;
  const { startedAt = null, endedAt = null, error = null, wakeAt = null } = progress;
  const { finishReason = null, firstTokenMs = null } = progress;
  const lease = isEnded(status) ? null : creation.lease;
  return {
    sql: lease === null ? insertFreeSql : insertHeldSql[dialect],
    params: [
      ...identityCodec.encode({ ...identity, tenantId }),
      ...headCodec.encode({
        status,
        outputJson,
        answerSeq: null,
        lastSeq: creation.events.length,
      }),
      usage.inputTokens,
      usage.outputTokens,
      usage.costUsd ?? null,
      encodeUsageDetails(usage),
      ...endCodec.encode({ startedAt, endedAt, error, finishReason }),
      creation.lease === null ? 0 : 1,
      lease?.owner ?? null,
      ...(lease === null ? [0] : [identity.createdAt, lease.until - identity.createdAt]),
      wakeAt,
      checkpoint,
      checkpointChecksum(identity.id, checkpoint),
      journalSize,
      firstTokenMs,
      sourceOf(creation),
      creation.reserved?.tokens ?? 0,
      creation.reserved?.costUsd ?? 0,
      encodeOrNull(error?.code),
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
  if (progress.firstTokenMs !== undefined) changes.push(['first_token_ms', progress.firstTokenMs]);
  if (progress.error !== undefined) {
    changes.push(['error', encodeOrNull(progress.error)]);
    changes.push(['error_code', encodeOrNull(progress.error?.code)]);
  }
  if (progress.finishReason !== undefined) {
    changes.push(['finish_reason', progress.finishReason]);
  }
  if (progress.checkpoint !== undefined) {
    changes.push(['serialized_state', progress.checkpoint]);
    changes.push(['state_checksum', checkpointChecksum(runId, progress.checkpoint)]);
  }
  if (progress.outputJson !== undefined) changes.push(['output_json', progress.outputJson]);
  if (progress.answerSeq !== undefined) changes.push(['answer_seq', progress.answerSeq]);
  if (progress.wakeAt !== undefined) changes.push(['wake_at', progress.wakeAt]);
  return changes;
}

/** Replaces the checkpoint, unless another one has been stored since `expected` was read. */
export function replaceCheckpoint(
  { tenantId, runId }: RunRef,
  change: CheckpointChange,
): Statement {
  const { expected, checkpoint } = change;
  return {
    sql: `UPDATE runs SET serialized_state = ?, state_checksum = ?
      WHERE tenant_id = ? AND id = ? AND serialized_state IS NOT DISTINCT FROM ?`,
    params: [checkpoint, checksumOf(runId, checkpoint), tenantId, runId, expected],
    expect: 1,
  };
}

export const selectRunSql = `SELECT ${columns.map((column) => `r.${column}`).join(', ')},
    s.seq AS snapshot_seq, s.body AS snapshot, s.checksum AS snapshot_checksum
  FROM runs r LEFT JOIN snapshots s ON s.run_id = r.id AND s.tenant_id = r.tenant_id
  WHERE r.tenant_id = ? AND r.id = ?`;

export function decodeRun(row: Row): RunRecord {
  const id = text(row, 'id');
  const checkpoint = textOrNull(row, 'serialized_state');
  // An absent checkpoint is missing, whatever its checksum was; a present one must be intact.
  if (checkpoint !== null && checksumOf(id, checkpoint) !== row['state_checksum']) {
    throw corrupt(`The checkpoint of run ${id}`, 'it does not match its checksum');
  }
  return {
    ...decodeRunHead(row),
    ...endCodec.decode(row),
    checkpoint,
    ...decodeSnapshot(id, row),
    wakeAt: numberOrNull(row, 'wake_at'),
    firstTokenMs: numberOrNull(row, 'first_token_ms'),
    epoch: number(row, 'epoch'),
    journalSize: number(row, 'journal_size'),
  };
}

export function decodeRunHead(row: Row): RunHead {
  return { ...identityCodec.decode(row), ...headCodec.decode(row), usage: decodeUsage(row) };
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

export function putSnapshot(
  { tenantId, runId }: RunRef,
  { snapshot, snapshotSeq }: Partial<RunProgress>,
): Statement[] {
  const sql = 'DELETE FROM snapshots WHERE tenant_id = ? AND run_id = ?';
  if (snapshot === null) return [{ sql, params: [tenantId, runId] }];
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
