/** All rows that decide who may do what, over all tenants: to verify them, and to sign them anew. */
import type { DamagedRow } from '@relay/core';
import type { Row, SqlAccess, Statement } from '../drivers/driver.ts';
import type { RowSigner, SignedTable } from '../codec/signed-table.ts';
import { text } from '../codec/values.ts';
import { approvalTable } from './runs/approvals.ts';
import { commandTable } from './runs/inbox.ts';
import { actionTable } from './sessions/actions.ts';
import { memberTable } from './sessions/channels.ts';
import { sessionCommandTable } from './sessions/commands.ts';
import { sessionTable } from './sessions/sessions.ts';
import { placeholders } from './statements.ts';
import { credentialTable } from './tenants/credentials.ts';
import { grantTable } from './tenants/grants.ts';
import { policyTable } from './tenants/policies.ts';
import { keyTable, tenantTable } from './tenants/tenants.ts';
import { webhookTable } from './tenants/webhooks.ts';

type AnyTable = Pick<
  SignedTable<object>,
  'name' | 'columns' | 'key' | 'isAuthentic' | 'identify' | 'update'
>;

export const tables: readonly AnyTable[] = [
  tenantTable,
  keyTable,
  credentialTable,
  grantTable,
  policyTable,
  webhookTable,
  approvalTable,
  commandTable,
  sessionTable,
  memberTable,
  actionTable,
  sessionCommandTable,
];

const pageSize = 500;

/** In the order of the primary key, after the last row of the page before. */
function selectPage({ name, columns, key }: AnyTable, last: Row | undefined): Statement {
  const order = key.join(', ');
  const after = last === undefined ? '' : `WHERE (${order}) > (${placeholders(key.length)})`;
  const params = last === undefined ? [] : key.map((column) => last[column] ?? null);
  const sql = `SELECT ${columns.join(', ')} FROM ${name} ${after} ORDER BY ${order} LIMIT ?`;
  return { sql, params: [...params, pageSize] };
}

async function* pagesOf(database: Pick<SqlAccess, 'read'>, table: AnyTable) {
  for (let last: Row | undefined; ;) {
    const { sql, params } = selectPage(table, last);
    const page = await database.read(sql, params);
    yield page;
    if (page.length < pageSize) return;
    last = page.at(-1);
  }
}

/** Rows whose code does not match. */
export async function findDamagedRows(
  database: Pick<SqlAccess, 'read'>,
  signer: RowSigner,
): Promise<DamagedRow[]> {
  const damaged: DamagedRow[] = [];
  for (const table of tables) {
    for await (const page of pagesOf(database, table)) {
      for (const row of page) {
        if (!table.isAuthentic(signer, row)) damaged.push(table.identify(row));
      }
    }
  }
  return damaged;
}

/** Signs the rows anew that were signed with an earlier key. One that does not match stays as it is. */
export async function resignRows(database: SqlAccess, signer: RowSigner): Promise<void> {
  for (const table of tables) {
    for await (const page of pagesOf(database, table)) {
      const old = page.filter(
        (row) => !signer.isCurrent(text(row, 'mac')) && table.isAuthentic(signer, row),
      );
      // One that was changed in the meantime has a new code already.
      await Promise.all(old.map((row) => database.transact([table.update(signer, row)])));
    }
  }
}
