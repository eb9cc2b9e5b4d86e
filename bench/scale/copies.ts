/**
 * Copies of runs that a server has made, with all their rows: as many runs as are wanted, each of them as
 * readable as its original. A copy has ids and times of its own, and its checksums and codes are right.
 * Only the seals of the audit trail are not: nothing that is measured verifies them.
 */
import { checksumOf } from '../../packages/store/src/codec/values.ts';
import type { Row } from '../../packages/store/src/drivers/driver.ts';
import { approvalTable } from '../../packages/store/src/sql/runs/approvals.ts';
import type { Database, Rows } from './database.ts';

/** Besides `runs` and `conversations`. */
const tables = ['run_labels', 'snapshots', 'events', 'approvals', 'audit_entries'] as const;

export interface Original {
  readonly runId: string;
  readonly tenantId: string;
  readonly conversationId: string;
  readonly createdAt: number;
  /** How often it was claimed. */
  readonly epoch: number;
  /** Of other rows of it. */
  readonly ids: readonly string[];
  readonly rows: readonly OriginalRow[];
}

interface OriginalRow {
  readonly table: string;
  readonly row: Row;
  /** Its columns that contain an id, in pieces: every second one is an id. */
  readonly named: readonly (readonly [column: string, pieces: readonly string[]])[];
  /** Its columns that contain a time. */
  readonly times: readonly string[];
}

export async function readOriginal(database: Database, runId: string): Promise<Original> {
  const rows: { readonly table: string; readonly row: Row }[] = [];
  const read = async (table: string, column: string, id: string) => {
    const found = await database.query(`SELECT * FROM ${table} WHERE ${column} = '${id}'`);
    rows.push(...found.map((row) => ({ table, row: { ...row } })));
    return found[0] ?? {};
  };
  const run = await read('runs', 'id', runId);
  const [conversationId, tenantId] = [String(run['conversation_id']), String(run['tenant_id'])];
  await read('conversations', 'id', conversationId);
  for (const table of tables) await read(table, 'run_id', runId);
  const own = [tenantId, runId, conversationId];
  const ids = rows.map(({ row }) => String(row['id'])).filter((id) => isId.test(id));
  const anyId = new RegExp(`(${[...own, ...ids].join('|')})`);
  return {
    runId,
    tenantId,
    conversationId,
    createdAt: Number(run['created_at']),
    epoch: Number(run['epoch']),
    ids: ids.filter((id) => !own.includes(id)),
    rows: rows.map(({ table, row }) => originalRow(table, row, anyId)),
  };
}

function originalRow(table: string, row: Row, anyId: RegExp): OriginalRow {
  const columns = Object.keys(row);
  const named = columns.map((column) => [column, String(row[column]).split(anyId)] as const);
  return {
    table,
    row,
    named: named.filter(([, pieces]) => pieces.length > 1),
    times: columns.filter((column) => isTime.test(column) && typeof row[column] === 'number'),
  };
}

const isId = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const isTime = /^at$|_at$/;

export interface Copies {
  readonly original: Original;
  readonly count: number;
  readonly tenant: (n: number) => string;
  readonly createdAt: (n: number) => number;
  /** One that all copies belong to, after its first `after` runs. Default: each has its own. */
  readonly conversationId?: string;
  readonly after?: number;
}

/** Copies at once: a transaction of some megabytes. */
const portion = 5_000;

/** What makes the ids of all copies different. */
let copied = 0;

export async function insertCopies(database: Database, copies: Copies): Promise<void> {
  const sealed = await heads(database);
  for (let from = 0; from < copies.count; from += portion) {
    const rows: Rows = new Map();
    for (let n = from; n < Math.min(from + portion, copies.count); n += 1) {
      copyRun(database, copies, { n, rows, sealed });
    }
    if (copies.conversationId !== undefined) rows.delete('conversations');
    await database.insert(rows);
  }
  await seal(database, sealed);
}

interface Portion {
  readonly n: number;
  readonly rows: Rows;
  /** The end of the audit trail of each tenant. */
  readonly sealed: Map<string, number>;
}

function copyRun(database: Database, copies: Copies, { n, rows, sealed }: Portion): void {
  const { original } = copies;
  const [tenantId, createdAt] = [copies.tenant(n), copies.createdAt(n)];
  const ids = new Map([
    [original.tenantId, tenantId],
    [original.runId, idAt(createdAt)],
    [original.conversationId, copies.conversationId ?? idAt(createdAt)],
  ]);
  for (const id of original.ids) ids.set(id, idAt(createdAt));
  const later = createdAt - original.createdAt;
  for (const { table, row, named, times } of original.rows) {
    const copy: Record<string, Row[string]> = { ...row };
    for (const [column, pieces] of named) {
      copy[column] = pieces.map((piece, n) => (n % 2 === 0 ? piece : ids.get(piece))).join('');
    }
    for (const column of times) copy[column] = Number(row[column]) + later;
    if (table === 'audit_entries') {
      const seq = (sealed.get(tenantId) ?? 0) + 1;
      sealed.set(tenantId, seq);
      copy['seq'] = seq;
    }
    if (table === 'runs' && copies.conversationId !== undefined)
      copy['position'] = (copies.after ?? 0) + n + 1;
    authenticate(database, table, copy);
    const all = rows.get(table);
    if (all === undefined) rows.set(table, [copy]);
    else all.push(copy);
  }
}

function authenticate({ signer }: Database, table: string, row: Record<string, Row[string]>): void {
  const checksum = (...columns: readonly string[]) =>
    checksumOf(...columns.map((column) => row[column] ?? null));
  switch (table) {
    case 'runs':
      if (row['serialized_state'] !== null) {
        row['state_checksum'] = checksum('id', 'serialized_state');
      }
      break;
    case 'events': {
      const columns = ['tenant_id', 'run_id', 'first_seq', 'last_seq', 'at', 'payload'];
      row['checksum'] = checksum(...columns);
      break;
    }
    case 'snapshots':
      row['checksum'] = checksum('run_id', 'seq', 'body');
      break;
    case 'approvals':
      row['mac'] = approvalTable.changes(signer, row, {}).values.at(-1) ?? null;
      break;
  }
}

/** A UUIDv7 of this time. */
function idAt(ms: number): string {
  const time = Math.floor(ms).toString(16).padStart(12, '0');
  const count = (copied += 1).toString(16).padStart(12, '0');
  return `${time.slice(0, 8)}-${time.slice(8)}-7000-8000-${count}`;
}

async function heads(database: Database): Promise<Map<string, number>> {
  const rows = await database.query(
    'SELECT tenant_id, MAX(last_seq) AS seq FROM audit_seals GROUP BY tenant_id',
  );
  return new Map(rows.map((row) => [String(row['tenant_id']), Number(row['seq'])]));
}

/** So that the server continues the trails after the copies. */
async function seal(database: Database, sealed: ReadonlyMap<string, number>): Promise<void> {
  const before = await heads(database);
  const seals = [...sealed].flatMap(([tenant_id, last_seq]): Row[] => {
    const first_seq = (before.get(tenant_id) ?? 0) + 1;
    if (first_seq > last_seq) return [];
    return [{ tenant_id, first_seq, last_seq, hash: '', at: Date.now(), proof: '' }];
  });
  if (seals.length > 0) await database.insert(new Map([['audit_seals', seals]]));
}
