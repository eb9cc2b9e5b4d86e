/** The sessions of all tenants, for background work and authentication. */
import {
  type InvocationRef,
  isStuck,
  safeStatesOf,
  type SessionCounts,
  type SessionDirectory,
  type SessionRef,
  type SessionState,
  type SessionStream,
  stuckAfterMs,
  type TokenSession,
} from '@relay/core';
import { agentStatuses } from '@relay/protocol';
import type { RowSigner } from '../../codec/signed-table.ts';
import { encode, json, number, text } from '../../codec/values.ts';
import type { Row, SqlDriver } from '../../drivers/driver.ts';
import { byDialect, changesIn, nowSql, placeholders, readAll } from '../statements.ts';
import { isDueHandler, isDueOther } from '../schema/sessions.ts';
import { pruneUnit } from './retention.ts';
import { sessionTable } from './sessions.ts';

export const selectByTokenSql = `SELECT ${sessionTable.columns.join(', ')} FROM sessions
  WHERE token_hash = ? AND token_hash IS NOT NULL AND released_at IS NULL AND pruning IS NULL`;

const isPaused = 'EXISTS (SELECT 1 FROM tenants p WHERE p.id = t.id AND p.paused_at IS NOT NULL)';
/**
 * Skips from tenant to tenant in an index of what is due, so that the backlog of one does not delay the
 * others, and takes the first of each tenant before the second of any. `where` is the index's condition.
 */
function dueIn(table: 'sessions' | 'invocations', where: (row: string) => string) {
  const due = `FROM ${table} d WHERE d.tenant_id = t.id AND ${where('d.')}
    AND d.due_at <= ? ORDER BY d.due_at, d.id LIMIT ?`;
  return byDialect(
    (dialect) => `WITH RECURSIVE owner (id) AS (
      SELECT MIN(tenant_id) FROM ${table} WHERE ${where('')}
      UNION ALL
      SELECT (SELECT MIN(n.tenant_id) FROM ${table} n
        WHERE ${where('n.')} AND n.tenant_id > owner.id)
      FROM owner WHERE owner.id IS NOT NULL)
    SELECT tenant_id, id FROM (
      SELECT s.tenant_id, s.id, s.due_at,
        ROW_NUMBER() OVER (PARTITION BY s.tenant_id ORDER BY s.due_at, s.id) AS turn
      FROM owner t CROSS JOIN ${
        dialect === 'sqlite'
          ? `${table} s WHERE s.id IN (SELECT d.id ${due}) AND`
          : `LATERAL (SELECT d.tenant_id, d.id, d.due_at ${due}) AS s WHERE`
      } t.id IS NOT NULL AND NOT ${isPaused}) AS due
    ORDER BY turn, due_at, id LIMIT ?`,
  );
}

export const dueSql = dueIn('sessions', (row) => `${row}due_at IS NOT NULL`);
export const dueHandlersSql = dueIn('invocations', isDueHandler);
export const dueInvocationsSql = dueIn('invocations', isDueOther);

/** Skips from node to node: only the sessions of dead ones are read. */
export const orphansSql = byDialect(
  (dialect) => `WITH RECURSIVE server (id) AS (
      SELECT MIN(stream_node) FROM sessions WHERE stream_node IS NOT NULL
      UNION ALL
      SELECT (SELECT MIN(n.stream_node) FROM sessions n
        WHERE n.stream_node IS NOT NULL AND n.stream_node > server.id)
      FROM server WHERE server.id IS NOT NULL),
    dead (id) AS (SELECT id FROM server WHERE id IS NOT NULL AND id <> ? AND NOT EXISTS (
      SELECT 1 FROM nodes n WHERE n.id = server.id AND n.alive_until > ${nowSql[dialect]}))
    SELECT s.tenant_id, s.id, s.stream_id, s.stream_node FROM dead CROSS JOIN sessions s
    WHERE s.stream_node = dead.id AND s.stream_node IS NOT NULL AND s.id > ? ORDER BY s.id LIMIT ?`,
);

export const ofHarnessSql = `SELECT tenant_id, id FROM sessions
  WHERE harness = ? AND released_at IS NULL AND pruning IS NULL AND id > ? ORDER BY id LIMIT ?`;

const openStatuses = agentStatuses.filter((status) => status !== 'released');
const isOpen = `s.tenant_id = tenant.id AND s.status IN (${openStatuses.map((each) => `'${each}'`).join(', ')})`;
const isQueued = `d.status IN ('accepted', 'deferred')`;
/** The cross joins make SQLite begin with the tenants, and find by them what is open. */
const ofTenants = (ofTenant: boolean) => (ofTenant ? 'AND tenant.id = ?' : '');

export const countSessionsSql = (ofTenant: boolean) => `SELECT s.status, COUNT(*) AS count
  FROM tenants tenant CROSS JOIN sessions s WHERE ${isOpen} ${ofTenants(ofTenant)} GROUP BY s.status`;

export const countQueuedSql = (ofTenant: boolean) => `SELECT COUNT(*) AS count
  FROM tenants tenant CROSS JOIN message_deliveries d
  WHERE d.tenant_id = tenant.id AND ${isQueued} ${ofTenants(ofTenant)}`;

const mostStuck = 10_000;
/** Sessions with something in their inbox that waits for no flush since a time. */
export const waitedForSql = (ofTenant: boolean) => `SELECT s.state, s.created_at
  FROM tenants tenant CROSS JOIN sessions s WHERE ${isOpen} ${ofTenants(ofTenant)} AND EXISTS (
    SELECT 1 FROM message_deliveries d WHERE d.session_id = s.id AND d.final_at IS NULL
      AND ${isQueued} AND (d.mode <> 'manual' OR d.status <> 'accepted') AND d.at < ?)
  LIMIT ${mostStuck}`;

const sessionsPerRead = 100;
export const headsSql = `SELECT id, last_seq, version FROM sessions
  WHERE id IN (${placeholders(sessionsPerRead)})`;

export class SqlSessionDirectory implements SessionDirectory {
  readonly #driver: SqlDriver;
  readonly #signer: RowSigner;

  constructor(driver: SqlDriver, signer: RowSigner) {
    this.#driver = driver;
    this.#signer = signer;
  }

  async findToken(hash: string): Promise<TokenSession | undefined> {
    const [row] = await this.#driver.read(selectByTokenSql, [hash]);
    const session = row === undefined ? undefined : sessionTable.find(this.#signer, row);
    if (session === undefined) return undefined;
    const { tenantId, id: sessionId, handle, keyId } = session;
    return { tenantId, sessionId, handle, keyId };
  }

  async counts(now: number, tenantId?: string): Promise<SessionCounts> {
    const ofTenant = tenantId !== undefined;
    const tenant = ofTenant ? [tenantId] : [];
    const oldestAt = now - stuckAfterMs - 1;
    const [statuses, [queued = {}], waiting] = await Promise.all([
      this.#driver.read(countSessionsSql(ofTenant), tenant),
      this.#driver.read(countQueuedSql(ofTenant), tenant),
      this.#driver.read(waitedForSql(ofTenant), [...tenant, now - stuckAfterMs]),
    ]);
    const stuck = waiting.filter((row) => {
      const state = json(row, 'state') as SessionState;
      const { since = number(row, 'created_at') } = state;
      return isStuck({ parts: state, safeStates: safeStatesOf(state) }, { oldestAt, since, now });
    });
    return {
      byStatus: Object.fromEntries(
        statuses.map((row) => [text(row, 'status'), number(row, 'count')]),
      ),
      queued: number(queued, 'count'),
      stuck: stuck.length,
    };
  }

  due(now: number, limit: number): Promise<SessionRef[]> {
    const statement = { sql: dueSql[this.#driver.dialect], params: [now, limit, limit] };
    return readAll(this.#driver, statement, sessionRef);
  }

  dueHandlers(now: number, limit: number): Promise<InvocationRef[]> {
    return this.#due(dueHandlersSql, now, limit);
  }

  dueInvocations(now: number, limit: number): Promise<InvocationRef[]> {
    return this.#due(dueInvocationsSql, now, limit);
  }

  #due(sql: typeof dueHandlersSql, now: number, limit: number): Promise<InvocationRef[]> {
    const statement = { sql: sql[this.#driver.dialect], params: [now, limit, limit] };
    return readAll(this.#driver, statement, (row) => ({
      tenantId: text(row, 'tenant_id'),
      invocationId: text(row, 'id'),
    }));
  }

  orphans(
    node: string,
    now: number,
    { after = '', limit }: { after?: string; limit: number },
  ): Promise<(SessionRef & { readonly stream: SessionStream })[]> {
    const statement = { sql: orphansSql[this.#driver.dialect], params: [node, now, after, limit] };
    return readAll(this.#driver, statement, (row) => ({
      ...sessionRef(row),
      stream: { id: text(row, 'stream_id'), node: text(row, 'stream_node') },
    }));
  }

  ofHarness(
    harness: string,
    { after = '', limit }: { after?: string; limit: number },
  ): Promise<SessionRef[]> {
    const statement = { sql: ofHarnessSql, params: [encode(harness), after, limit] };
    return readAll(this.#driver, statement, sessionRef);
  }

  lastSeqs(sessionIds: readonly string[]): Promise<ReadonlyMap<string, number>> {
    return this.#heads(sessionIds, 'last_seq');
  }

  versions(sessionIds: readonly string[]): Promise<ReadonlyMap<string, number>> {
    return this.#heads(sessionIds, 'version');
  }

  async #heads(
    sessionIds: readonly string[],
    column: 'last_seq' | 'version',
  ): Promise<ReadonlyMap<string, number>> {
    const found = new Map<string, number>();
    for (let at = 0; at < sessionIds.length; at += sessionsPerRead) {
      const some = sessionIds.slice(at, at + sessionsPerRead);
      // One statement for any number of sessions: no id is empty.
      const params = Array.from({ length: sessionsPerRead }, (_, index) => some[index] ?? '');
      for (const row of await this.#driver.read(headsSql, params)) {
        found.set(text(row, 'id'), number(row, column));
      }
    }
    return found;
  }

  async prune(before: number, limit: number): Promise<number> {
    return changesIn(await this.#driver.transact(pruneUnit(before, limit)));
  }
}

function sessionRef(row: Row): SessionRef {
  return { tenantId: text(row, 'tenant_id'), sessionId: text(row, 'id') };
}
