/** The fold of a journal up to some `seq`: large, and therefore not in the row of its run. */
import type { RunProgress, RunRef } from '@relay/core';
import { RelayError } from '@relay/protocol';
import type { Row, Statement } from '../../drivers/driver.ts';
import { checksumOf, corrupt, integer, text } from '../../codec/values.ts';

const putSql = `INSERT INTO snapshots (run_id, tenant_id, seq, body, checksum) VALUES (?, ?, ?, ?, ?)
  ON CONFLICT (run_id) DO UPDATE
    SET seq = excluded.seq, body = excluded.body, checksum = excluded.checksum`;

const deleteSql = 'DELETE FROM snapshots WHERE tenant_id = ? AND run_id = ?';

/** A snapshot needs the `seq` it was made at; 0 means that there is none. */
export function putSnapshot(
  { tenantId, runId }: RunRef,
  { snapshot, snapshotSeq }: Partial<RunProgress>,
): Statement[] {
  if (snapshot === null) return [{ sql: deleteSql, params: [tenantId, runId] }];
  if (snapshot === undefined && snapshotSeq === undefined) return [];
  if (snapshot === undefined || snapshotSeq === undefined) {
    throw new RelayError('internal', 'A snapshot and its seq can only be stored together');
  }
  const checksum = snapshotChecksum(runId, snapshotSeq, snapshot);
  return [{ sql: putSql, params: [runId, tenantId, snapshotSeq, snapshot, checksum] }];
}

function snapshotChecksum(runId: string, seq: number, body: string): number {
  return checksumOf(runId, seq, body);
}

export function decodeSnapshot(
  runId: string,
  row: Row,
): Pick<RunProgress, 'snapshot' | 'snapshotSeq'> {
  if (row['snapshot_seq'] === null) return { snapshot: null, snapshotSeq: 0 };
  const snapshot = text(row, 'snapshot');
  const snapshotSeq = integer(row, 'snapshot_seq');
  if (snapshotChecksum(runId, snapshotSeq, snapshot) !== row['snapshot_checksum']) {
    throw corrupt(`The snapshot of run ${runId}`, 'it does not match its checksum');
  }
  return { snapshot, snapshotSeq };
}
