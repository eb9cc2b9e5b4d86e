/**
 * Finds ids by a part of them. Ids begin with the time of their creation and end with random digits: many
 * have the same beginning, few the same end.
 *
 * The beginning is a range of the primary key. Eight characters of it are about a minute, in which few ids
 * were made; less could be all of them. No index finds the end. So these are searched for in the newest ids
 * only, and the cost does not grow with what is stored.
 */
import type { IdKind } from '@relay/protocol';
import type { SqlAccess, Statement } from '../drivers/driver.ts';
import { text } from '../codec/values.ts';
import { type List, selectPage } from './lists.ts';
import { approvalLists } from './runs/approvals.ts';
import { conversationList } from './runs/conversations.ts';
import { runLists } from './runs/run-lists.ts';
import { deliveryLists } from './sessions/deliveries.ts';
import { messageLists } from './sessions/messages.ts';
import { sessionLists } from './sessions/sessions.ts';
import { readLong } from './statements.ts';

interface IdSearch {
  readonly kind: IdKind;
  readonly match: string;
  readonly limit: number;
}

interface IdColumn {
  readonly table: string;
  /** Whether the primary key begins with the tenant. */
  readonly isKeyedByTenant?: true;
  /** Not set if no index has the ids of a tenant in order: only their beginning is searched for. */
  readonly newest?: (tenantId: string) => readonly List[];
}

const listOf = (table: string) => (tenantId: string) => [{ tenantId, table }];

const columns: Readonly<Record<IdKind, IdColumn>> = {
  run: { table: 'runs', newest: (tenantId) => runLists(tenantId, {}) },
  approval: { table: 'approvals', newest: (tenantId) => approvalLists(tenantId, {}) },
  conversation: {
    table: 'conversations',
    isKeyedByTenant: true,
    newest: (tenantId) => [conversationList(tenantId, {})],
  },
  session: { table: 'sessions', newest: (tenantId) => sessionLists(tenantId, {}) },
  message: { table: 'messages', newest: (tenantId) => messageLists(tenantId, {}) },
  delivery: { table: 'message_deliveries', newest: (tenantId) => deliveryLists(tenantId, {}) },
  memory: { table: 'memories', newest: listOf('memories') },
  grant: { table: 'grants', newest: listOf('grants') },
  key: { table: 'keys', newest: listOf('keys') },
  webhook: { table: 'webhooks', newest: listOf('webhooks') },
  snapshot: { table: 'session_snapshots' },
  invocation: { table: 'invocations' },
};

const newestSearched = 10_000;
const selectiveLength = 8;

export async function findIds(
  driver: SqlAccess,
  tenantId: string,
  { kind, match, limit }: IdSearch,
): Promise<string[]> {
  const { newest } = columns[kind];
  const found = new Set<string>();
  for (const list of newest?.(tenantId) ?? []) {
    for (const row of await readLong(driver, selectNewest(list, match, limit))) {
      found.add(text(row, 'id'));
    }
  }
  if (match.length >= selectiveLength) {
    const { sql, params } = selectBeginning(tenantId, { kind, match, limit });
    for (const row of await driver.read(sql, params)) found.add(text(row, 'id'));
  }
  return [...found].slice(0, limit);
}

function selectNewest(list: List, match: string, limit: number): Statement {
  const { sql, params } = selectPage(list, { limit: newestSearched });
  return {
    sql: `SELECT id FROM (${sql}) AS newest WHERE id LIKE ? OR id LIKE ? LIMIT ?`,
    params: [...params, `${match}%`, `%${match}`, limit],
  };
}

export function selectBeginning(tenantId: string, { kind, match, limit }: IdSearch): Statement {
  const { table, isKeyedByTenant = false } = columns[kind];
  // The function around the tenant keeps its other indexes from being chosen.
  const owner = isKeyedByTenant ? 't.tenant_id' : `COALESCE(t.tenant_id, '')`;
  return {
    sql: `SELECT t.id AS id FROM ${table} t WHERE ${owner} = ? AND t.id >= ? AND t.id < ?
      ORDER BY t.id DESC LIMIT ?`,
    // No id has a character after `f`.
    params: [tenantId, match, `${match}g`, limit],
  };
}
