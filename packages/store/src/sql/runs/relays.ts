import type {
  NewRelay,
  Page,
  Question,
  RelayClosure,
  RelayDecision,
  RelayFilter,
  RelayRecord,
  RunRef,
} from '@relay/core';
import { relayStatuses } from '@relay/protocol';
import type { Decider } from '@relay/protocol';
import type { Row, Statement } from '../../drivers/driver.ts';
import { besides, leadingBy, rowsOn, selectPage } from '../lists.ts';
import type { ColumnFilter } from '../lists.ts';
import {
  checksumOf,
  corrupt,
  encode,
  encodeOrNull,
  freeText,
  freeTextOrNull,
  integer,
  integerOrNull,
  json,
  jsonOrNull,
  text,
  textOrNull,
} from '../../codec/values.ts';

/** What never changes once a relay is raised, in the order in which it is hashed and inserted. */
const fixedColumns = [
  'id',
  'run_id',
  'raised_at',
  'expires_at',
  'kind',
  'agent_id',
  'agent_path',
  'tool_call_id',
  'tool',
  'params',
  'digest',
] as const;

const insertSql = `INSERT INTO relays
  (${fixedColumns.join(', ')}, question, located, tenant_id, status, checksum)
  VALUES (${fixedColumns.map(() => '?').join(', ')}, ?, ?, ?, 'pending', ?)`;

export function insertRelay(tenantId: string, relay: NewRelay): Statement {
  const fixed = [
    relay.id,
    relay.runId,
    relay.raisedAt,
    relay.expiresAt,
    relay.kind,
    relay.agentId,
    encode(relay.agentPath),
    encode(relay.toolCallId),
    encode(relay.tool),
    encode(relay.params),
    relay.digest,
  ];
  const question = encodeOrNull(relay.question);
  const located = encodeOrNull(relay.located);
  const checksum = relayChecksum(tenantId, fixed, [question, located]);
  return { sql: insertSql, params: [...fixed, question, located, tenantId, checksum] };
}

function relayChecksum(
  tenantId: string,
  fixed: readonly (string | number)[],
  more: readonly (string | null)[],
): number {
  return checksumOf(tenantId, ...fixed, ...more.map((value) => value ?? ''));
}

const closeSql = `UPDATE relays SET status = ?, decided_at = ?, decided_by = ?, reason = ?
  WHERE tenant_id = ? AND id = ? AND run_id = ? AND status = 'pending'`;

/**
 * A relay that someone decided in the meantime cannot expire any more: the step is undone, and its
 * writer finds the decision in its inbox. One that is closed because its run ends keeps the decision.
 */
export function closeRelay({ tenantId, runId }: RunRef, closure: RelayClosure): Statement {
  const { relayId, status, at, by, reason } = closure;
  const params = [status, at, encode(by), encode(reason), tenantId, relayId, runId];
  return status === 'expired' ? { sql: closeSql, params, expect: 1 } : { sql: closeSql, params };
}

const closeOpenSql = `UPDATE relays SET status = 'closed', decided_at = ?, decided_by = ?, reason = ?
  WHERE tenant_id = ? AND run_id = ? AND status = 'pending'`;

/** No relay outlives its run, not even one that the journal no longer shows. */
export function closeOpenRelays({ tenantId, runId }: RunRef, at: number): Statement {
  const by = { type: 'system', id: 'relay', name: 'relay' };
  const params = [at, encode(by), encode('The run has ended'), tenantId, runId];
  return { sql: closeOpenSql, params };
}

const decideSql = `UPDATE relays SET status = ?, decided_at = ?, decided_by = ?, reason = ?, answer = ?,
    executed_params = ?, executed_digest = ?
  WHERE tenant_id = ? AND id = ? AND run_id = ? AND status = 'pending' AND expires_at > ?`;

/** The compare-and-set: of all decisions on a relay, one succeeds. */
export function decide(tenantId: string, decision: RelayDecision): Statement {
  const { relayId, runId, status, at, by, reason, answer, edited } = decision;
  return {
    sql: decideSql,
    params: [
      status,
      at,
      encode(by),
      encodeOrNull(reason),
      encode(answer),
      encodeOrNull(edited?.params),
      edited?.digest ?? null,
      tenantId,
      relayId,
      runId,
      at,
    ],
    expect: 1,
  };
}

const columns = [
  ...fixedColumns,
  'tenant_id',
  'checksum',
  'status',
  'decided_at',
  'decided_by',
  'reason',
  'answer',
  'executed_params',
  'executed_digest',
  'question',
  'located',
] as const;

export const selectRelaySql = `SELECT ${columns.join(', ')}
  FROM relays WHERE tenant_id = ? AND id = ?`;

export function selectRelays(tenantId: string, filter: RelayFilter, page: Page): Statement {
  const rows = { tenantId, table: 'relays', columns: columns.map((column) => `r.${column}`) };
  return rowsOn(selectRelayIds(tenantId, filter, page), rows);
}

/** The most selective first: a run has few relays, and few are pending. */
export function selectRelayIds(tenantId: string, filter: RelayFilter, page: Page): Statement {
  const { runId, status, kind } = filter;
  const wanted = [
    { column: 'run_id', value: runId },
    { column: 'status', value: status },
    { column: 'kind', value: kind },
  ];
  const [first = ofAnyStatus, ...rest] = wanted.flatMap<ColumnFilter>(({ column, value }) =>
    value === undefined ? [] : [{ column, values: [value] }],
  );
  const filters = { leading: leadingBy(first), others: rest.map((other) => besides(other)) };
  return selectPage({ tenantId, table: 'relays', at: 'raised_at', id: 'id', ...filters }, page);
}

const ofAnyStatus: ColumnFilter = { column: 'status', values: relayStatuses };

export function decodeRelay(row: Row): RelayRecord {
  const id = text(row, 'id');
  const fixed = fixedColumns.map((column) => row[column] as string | number);
  const question = textOrNull(row, 'question');
  const located = textOrNull(row, 'located');
  if (relayChecksum(text(row, 'tenant_id'), fixed, [question, located]) !== row['checksum']) {
    throw corrupt(`Relay ${id}`, 'it does not match its checksum');
  }
  return {
    id,
    runId: text(row, 'run_id'),
    kind: text(row, 'kind') as RelayRecord['kind'],
    agentId: text(row, 'agent_id'),
    agentPath: json(row, 'agent_path') as string[],
    toolCallId: freeText(row, 'tool_call_id'),
    tool: freeText(row, 'tool'),
    params: json(row, 'params'),
    ...(located === null ? {} : { located: json(row, 'located') as Record<string, string> }),
    digest: text(row, 'digest'),
    ...(question === null ? {} : { question: json(row, 'question') as Question }),
    raisedAt: integer(row, 'raised_at'),
    expiresAt: integer(row, 'expires_at'),
    status: text(row, 'status') as RelayRecord['status'],
    decidedAt: integerOrNull(row, 'decided_at'),
    decidedBy: jsonOrNull(row, 'decided_by') as Decider | null,
    reason: freeTextOrNull(row, 'reason'),
    edited: editedCall(row),
    answer: freeTextOrNull(row, 'answer'),
  };
}

function editedCall(row: Row): RelayRecord['edited'] {
  const params = jsonOrNull(row, 'executed_params') as Record<string, unknown> | null;
  return params === null ? null : { params, digest: text(row, 'executed_digest') };
}
