/**
 * Lists of runs by filters. The filter that is likely to match the fewest runs leads, and its index
 * gives the order; the others are applied to what it finds.
 */
import type { Page, Position, RunFilter, RunIdentity, RunListing } from '@relay/core';
import { isEnded, runStatuses } from '@relay/protocol';
import type { Row, Statement } from '../../drivers/driver.ts';
import { decodeOpening, joinOpening, openingColumns } from './events.ts';
import { allOf, besides, leadingBy, rowsOn, selectPage } from '../lists.ts';
import type { ColumnFilter, Condition, List } from '../lists.ts';
import { decodeRunHead, headColumns } from './runs.ts';
import { encode, integerOrNull, jsonOrNull } from '../../codec/values.ts';

const insertLabelSql = `INSERT INTO run_labels (tenant_id, name, value, created_at, run_id)
  VALUES (?, ?, ?, ?, ?)`;

export function insertLabels(identity: RunIdentity): Statement[] {
  const { tenantId, id, labels, createdAt } = identity;
  return Object.entries(labels).map(([name, value]) => ({
    sql: insertLabelSql,
    params: [tenantId, encode(name), encode(value), createdAt, id],
  }));
}

const listed = [...headColumns, 'started_at', 'ended_at', 'error'].map((column) => `r.${column}`);

/** A run whose journal cannot be read is listed like any other. */
export function selectRuns(tenantId: string, filter: RunFilter, page: Page): Statement {
  const columns = [...listed, openingColumns];
  const rows = { tenantId, table: 'runs', columns, join: joinOpening };
  return rowsOn(selectRunIds(tenantId, filter, page), rows);
}

export function selectRunIds(tenantId: string, filter: RunFilter, page: Page): Statement {
  const list = listOf(tenantId, filter);
  const { since, until } = filter;
  const before = until === undefined ? page.before : earlier(page.before, { at: until, id: '' });
  return selectPage(
    { ...list, ...(since === undefined ? {} : { since }) },
    { limit: page.limit, ...(before === undefined ? {} : { before }) },
  );
}

/** The empty id sorts before all others: `{at, id: ''}` is before the first run of that time. */
export function earlier(one: Position | undefined, other: Position): Position {
  if (one === undefined || other.at < one.at) return other;
  return other.at === one.at && other.id < one.id ? other : one;
}

function listOf(tenantId: string, filter: RunFilter): List {
  const { label } = filter;
  const [selective, general] = columnFilters(filter);
  const columns = { tenantId, at: 'created_at' };
  if (label !== undefined && selective.length === 0) {
    const others = general.length === 0 ? [] : [ofRun(general)];
    const leading = [labelled('t', label)];
    return { ...columns, table: 'run_labels', id: 'run_id', leading, others };
  }
  const [first = ofAnyStatus, ...rest] = [...selective, ...general];
  const others = rest.map((other) => besides(other));
  if (label !== undefined) others.push(hasLabel(label));
  return { ...columns, table: 'runs', id: 'id', leading: leadingBy(first), others };
}

const ofAnyStatus: ColumnFilter = { column: 'status', values: runStatuses };

/** Filters that are more selective than a label, and those that are less; the most selective first. */
function columnFilters(filter: RunFilter): [ColumnFilter[], ColumnFilter[]] {
  const { parentRunId, conversationId, workflowId, agent } = filter;
  const statuses = statusesOf(filter);
  // However many runs there were, few are open.
  const areOpen = statuses !== undefined && !statuses.some(isEnded);
  return [
    [
      ...by('parent_run_id', parentRunId),
      ...by('conversation_id', conversationId),
      ...by('workflow_id', workflowId === undefined ? undefined : encode(workflowId)),
      ...(areOpen ? by('status', statuses) : []),
    ],
    [
      ...by('agent', agent === undefined ? undefined : encode(agent)),
      ...(areOpen ? [] : by('status', statuses)),
    ],
  ];
}

function by(column: string, wanted: string | readonly string[] | undefined): ColumnFilter[] {
  if (wanted === undefined) return [];
  return [{ column, values: typeof wanted === 'string' ? [wanted] : wanted }];
}

export function statusesOf({ status }: RunFilter) {
  if (status === undefined) return undefined;
  return typeof status === 'string' ? [status] : [...new Set(status)];
}

type Label = NonNullable<RunFilter['label']>;

function labelled(row: string, { name, value }: Label): Condition {
  const sql = `${row}.name = ? AND ${row}.value = ?`;
  return { sql, params: [encode(name), encode(value)] };
}

function hasLabel(label: Label): Condition {
  const { sql, params } = labelled('l', label);
  return {
    sql: `EXISTS (SELECT 1 FROM run_labels l WHERE l.tenant_id = t.tenant_id AND ${sql}
      AND l.created_at = t.created_at AND l.run_id = t.id)`,
    params,
  };
}

/** Further conditions on the run of a label. */
function ofRun(filters: readonly ColumnFilter[]): Condition {
  const { sql, params } = allOf(filters.map((filter) => besides(filter, 'r')));
  return {
    sql: `EXISTS (SELECT 1 FROM runs r
      WHERE r.id = t.run_id AND r.tenant_id = t.tenant_id AND ${sql})`,
    params,
  };
}

export function decodeListing(row: Row): RunListing {
  const head = decodeRunHead(row);
  return {
    ...head,
    startedAt: integerOrNull(row, 'started_at'),
    endedAt: integerOrNull(row, 'ended_at'),
    error: jsonOrNull(row, 'error') as RunListing['error'],
    opening: decodeOpening({ tenantId: head.tenantId, runId: head.id }, row),
  };
}
