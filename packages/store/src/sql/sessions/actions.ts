import type {
  ActionRecord,
  ActionStore,
  InvocationChange,
  InvocationRecord,
  NewAuditEntry,
  NewInvocation,
} from '@relay/core';
import type { InvocationStatus } from '@relay/protocol';
import type { Row, SqlAccess, Statement } from '../../drivers/driver.ts';
import { byDialect, insertInto, placeholders, readAll, readOne } from '../statements.ts';
import { column, RecordCodec } from '../../codec/records.ts';
import { type RowSigner, SignedTable } from '../../codec/signed-table.ts';
import { checkIntact, checksumOf, encode, encodeOrNull, text } from '../../codec/values.ts';
import { insertAudit } from '../tenants/audit.ts';

/** An action is invoked by those that it is available to, and carried out where it was registered. */
export const actionTable = new SignedTable<ActionRecord & { readonly tenantId: string }>({
  name: 'actions',
  subject: 'The action',
  key: ['tenant_id', 'name'],
  codecs: {
    tenantId: column.text(),
    name: column.freeText,
    description: column.freeText,
    inputSchema: column.json(),
    outputSchema: column.json(),
    sessionId: column.nullable(column.text()),
    url: column.nullable(column.freeText),
    availableTo: column.nullable(column.json()),
    timeoutMs: column.nullable(column.number),
    idempotent: column.boolean,
    createdAt: column.number,
    createdBy: column.json(),
  },
});

const columns = actionTable.columns.join(', ');
const onConflict = 'ON CONFLICT (tenant_id, name) DO NOTHING';
const insertSql = `${insertInto('actions', actionTable.columns)} ${onConflict}`;

/** PostgreSQL locks the session's row, so that it is not released meanwhile. */
const insertForSessionSql = byDialect(
  (dialect) => `INSERT INTO actions (${columns})
    SELECT ${placeholders(actionTable.columns.length)} FROM sessions s
    WHERE s.tenant_id = ? AND s.id = ? AND s.released_at IS NULL AND s.pruning IS NULL
    ${dialect === 'sqlite' ? '' : 'FOR NO KEY UPDATE OF s'} ${onConflict}`,
);

export const selectActionSql = `SELECT ${columns} FROM actions WHERE tenant_id = ? AND name = ?`;
export const selectActionsSql = `SELECT ${columns} FROM actions
  WHERE tenant_id = ? AND name > ? ORDER BY name LIMIT ?`;
const deleteSql = 'DELETE FROM actions WHERE tenant_id = ? AND name = ?';

type InvocationRow = Omit<InvocationRecord, 'by'> & { readonly madeBy: InvocationRecord['by'] };

const invocationCodec = new RecordCodec<InvocationRow>({
  id: column.text(),
  action: column.freeText,
  madeBy: column.json(),
  input: column.json(),
  sessionId: column.nullable(column.text()),
  at: column.number,
  idempotent: column.boolean,
  timeoutMs: column.number,
  status: column.text(),
  startedAt: column.nullable(column.number),
  editedInput: column.nullable(column.json()),
  dueAt: column.nullable(column.number),
  output: column.nullable(column.json()),
  error: column.nullable(column.json()),
  approvalId: column.nullable(column.text()),
  endedAt: column.nullable(column.number),
});

/** What the checksum covers. */
const fixedColumns = [
  'tenant_id',
  'id',
  'action',
  'made_by',
  'input',
  'session_id',
  'at',
  'idempotent',
  'timeout_ms',
];
/** What an approver has changed is bound to its invocation. */
const editedColumns = ['tenant_id', 'id', 'edited_input'];
const insertedColumns = ['tenant_id', ...invocationCodec.columns, 'checksum'];
const insertInvocationSql = insertInto('invocations', insertedColumns);

function isEnded(status: InvocationStatus): boolean {
  switch (status) {
    case 'waiting':
    case 'running':
      return false;
    case 'completed':
    case 'failed':
    case 'denied':
      return true;
  }
}

export function insertInvocation(
  tenantId: string,
  { by, ...invocation }: NewInvocation,
): Statement {
  const { status, at, dueAt } = invocation;
  const hasEnded = isEnded(status);
  const record = {
    ...invocation,
    madeBy: by,
    output: null,
    error: invocation.error ?? null,
    editedInput: null,
    approvalId: invocation.approvalId ?? null,
    dueAt: hasEnded ? null : dueAt,
    endedAt: hasEnded ? at : null,
  };
  const values = [tenantId, ...invocationCodec.encode(record)];
  const checksum = checksumOf(...values.slice(0, fixedColumns.length));
  return { sql: insertInvocationSql, params: [...values, checksum] };
}

const mostStatuses = 5;
const sameNull = (name: string) => `COALESCE(${name}, -1) = COALESCE(CAST(? AS BIGINT), -1)`;

/** An invocation that has ended never changes. */
export function changeInvocation(tenantId: string, change: InvocationChange): Statement {
  const { id, from, to, at, editedInput, output, error, ifDueAt, ifStartedAt } = change;
  const hasEnded = isEnded(to);
  const edited = editedInput === undefined ? undefined : encode(editedInput);
  const assigned = Object.entries({
    status: to,
    output: output === undefined ? null : encode(output),
    error: encodeOrNull(error),
    ended_at: hasEnded ? at : null,
    edited_input: edited,
    edited_checksum: edited === undefined ? undefined : checksumOf(tenantId, id, edited),
    due_at: hasEnded ? null : change.dueAt,
    started_at: change.startedAt,
  }).filter(([, value]) => value !== undefined);
  const conditions = Object.entries({ due_at: ifDueAt, started_at: ifStartedAt }).filter(
    ([, value]) => value !== undefined,
  );
  const [padding = ''] = from;
  return {
    sql: `UPDATE invocations SET ${assigned.map(([name]) => `${name} = ?`).join(', ')}
      WHERE tenant_id = ? AND id = ? AND ended_at IS NULL
        AND status IN (${placeholders(mostStatuses)})
        ${conditions.map(([name]) => `AND ${sameNull(name)}`).join(' ')}`,
    params: [
      ...assigned.map(([, value]) => value ?? null),
      tenantId,
      id,
      ...Array.from({ length: mostStatuses }, (_, index) => from[index] ?? padding),
      ...conditions.map(([, value]) => value ?? null),
    ],
    expect: 1,
  };
}

const invocationColumns = [...insertedColumns, 'edited_checksum'];
const readInvocation = `SELECT ${invocationColumns.join(', ')} FROM invocations`;
export const selectInvocationSql = `${readInvocation} WHERE tenant_id = ? AND id = ?`;
const running = `COALESCE(tenant_id, '') = ? AND session_id = ? AND session_id IS NOT NULL
    AND ended_at IS NULL AND status = 'running'`;
export const unsentInvocationsSql = `${readInvocation}
  WHERE ${running} AND started_at IS NULL ORDER BY at, id LIMIT ?`;
export const sentInvocationsSql = `${readInvocation}
  WHERE ${running} AND started_at IS NOT NULL AND id > ? ORDER BY id LIMIT ?`;

function decodeInvocation(row: Row): InvocationRecord {
  const subject = `Invocation ${text(row, 'id')}`;
  checkIntact(subject, row, fixedColumns);
  const isEdited = row['edited_input'] !== null || row['edited_checksum'] !== null;
  if (isEdited) checkIntact(subject, row, editedColumns, 'edited_checksum');
  const { madeBy: by, ...invocation } = invocationCodec.decode(row);
  return { ...invocation, by };
}

export class SqlActionStore implements ActionStore {
  readonly #driver: SqlAccess;
  readonly #signer: RowSigner;
  readonly #tenantId: string;

  constructor(driver: SqlAccess, signer: RowSigner, tenantId: string) {
    this.#driver = driver;
    this.#signer = signer;
    this.#tenantId = tenantId;
  }

  async add(action: ActionRecord, audit?: readonly NewAuditEntry[]): Promise<boolean> {
    const values = actionTable.encode(this.#signer, { ...action, tenantId: this.#tenantId });
    const { sessionId } = action;
    const insert =
      sessionId === null
        ? { sql: insertSql, params: values }
        : {
            sql: insertForSessionSql[this.#driver.dialect],
            params: [...values, this.#tenantId, sessionId],
          };
    return this.#change({ ...insert, expect: 1 }, audit);
  }

  async read(name: string): Promise<ActionRecord | undefined> {
    return (await this.#actions(selectActionSql, [this.#tenantId, encode(name)]))[0];
  }

  list({ after, limit }: { after?: string; limit: number }): Promise<ActionRecord[]> {
    const position = after === undefined ? '' : encode(after);
    return this.#actions(selectActionsSql, [this.#tenantId, position, limit]);
  }

  async #actions(sql: string, params: Statement['params']): Promise<ActionRecord[]> {
    const rows = await this.#driver.read(sql, params);
    return rows.flatMap((row) => {
      const action = actionTable.find(this.#signer, row);
      if (action === undefined) return [];
      const { tenantId: _, ...rest } = action;
      return [rest];
    });
  }

  async remove(name: string, audit?: readonly NewAuditEntry[]): Promise<boolean> {
    const params = [this.#tenantId, encode(name)];
    return this.#change({ sql: deleteSql, params, expect: 1 }, audit);
  }

  readInvocation(invocationId: string): Promise<InvocationRecord | undefined> {
    const statement = { sql: selectInvocationSql, params: [this.#tenantId, invocationId] };
    return readOne(this.#driver, statement, decodeInvocation);
  }

  unsentInvocations(sessionId: string, limit: number): Promise<InvocationRecord[]> {
    const params = [this.#tenantId, sessionId, limit];
    return readAll(this.#driver, { sql: unsentInvocationsSql, params }, decodeInvocation);
  }

  sentInvocations(
    sessionId: string,
    { after = '', limit }: { after?: string; limit: number },
  ): Promise<InvocationRecord[]> {
    const params = [this.#tenantId, sessionId, after, limit];
    return readAll(this.#driver, { sql: sentInvocationsSql, params }, decodeInvocation);
  }

  async #change(statement: Statement, audit?: readonly NewAuditEntry[]): Promise<boolean> {
    return (await this.#driver.transact([statement, ...insertAudit(this.#tenantId, audit)])).ok;
  }
}
