/**
 * Lists of runs by filters. The filters that are likely to match the fewest runs choose the index: those
 * of a parent, conversation or workflow, then the open states, then a label, then agent and state. The
 * others are applied to what it finds.
 */
import type { Page, RunFilter, RunIdentity, RunListing } from '@relay/core';
import { isEnded, runStatuses } from '@relay/protocol';
import type { Row, Statement } from '../../drivers/driver.ts';
import { decodeOpening, joinOpening, openingColumns } from './events.ts';
import { allOf, residualFilter, columnFilters, indexFilter, rowsOn, selectPage } from '../lists.ts';
import type { ColumnFilter, Condition, List } from '../lists.ts';
import { insertInto } from '../statements.ts';
import { decodeRunHead, endCodec, headColumns } from './runs.ts';
import { encode, numberOrNull } from '../../codec/values.ts';

const labelColumns = ['tenant_id', 'name', 'value', 'created_at', 'run_id'];
const insertLabelSql = insertInto('run_labels', labelColumns);

export function insertLabels(identity: RunIdentity): Statement[] {
  const { tenantId, id, labels, createdAt } = identity;
  return Object.entries(labels).map(([name, value]) => ({
    sql: insertLabelSql,
    params: [tenantId, encode(name), encode(value), createdAt, id],
  }));
}

/** In bytes. A list does not even read what is larger. */
const largestOutput = 8 * 1024;
const outputColumns = `octet_length(r.output_json) AS output_bytes,
  CASE WHEN octet_length(r.output_json) <= ${largestOutput} THEN r.output_json END AS output_json`;
const columns = [...headColumns, ...endCodec.columns].filter((column) => column !== 'output_json');
const joined = { columns: `${outputColumns}, ${openingColumns}`, join: joinOpening };

/** A run whose journal cannot be read is listed like any other. */
export function selectRuns(tenantId: string, filter: RunFilter, page: Page): Statement {
  const ids = selectRunIds(tenantId, filter, page);
  return rowsOn(ids, { tenantId, table: 'runs', columns, joined });
}

export function selectRunIds(tenantId: string, filter: RunFilter, page: Page): Statement {
  return selectPage(listOf(tenantId, filter), page);
}

function listOf(tenantId: string, filter: RunFilter): List {
  const { label, since, until, parentRunId, conversationId, workflowId, agent } = filter;
  const status = statusesOf(filter);
  const range = { tenantId, since, until };
  const [first, ...rest] = columnFilters({
    parent_run_id: parentRunId,
    conversation_id: conversationId,
    workflow_id: workflowId === undefined ? undefined : encode(workflowId),
  });
  const general = columnFilters({ agent: agent === undefined ? undefined : encode(agent), status });
  // However many runs there were, few are open.
  const areOpen = status !== undefined && !status.some(isEnded);
  if (label !== undefined && first === undefined && !areOpen) {
    const others = general.length === 0 ? [] : [ofRun(general)];
    const leading = [labelled('t', label)];
    return { ...range, table: 'run_labels', id: 'run_id', leading, others };
  }
  // The index of agents continues with the status.
  const ofStates = status === undefined ? [...general, ofAnyStatus] : general;
  const { leading, others } =
    first === undefined ? indexFilter(ofStates, []) : indexFilter([first], [...rest, ...general]);
  if (label !== undefined) others.push(hasLabel(label));
  return { ...range, table: 'runs', leading, others };
}

const ofAnyStatus: ColumnFilter = { column: 'status', values: runStatuses };

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
  const { sql, params } = allOf(filters.map((filter) => residualFilter(filter, 'r')));
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
    ...endCodec.decode(row),
    opening: decodeOpening({ tenantId: head.tenantId, runId: head.id }, row),
    isOpeningOmitted: row['opening_first'] !== null && row['opening_payload'] === null,
    isOutputOmitted: (numberOrNull(row, 'output_bytes') ?? 0) > largestOutput,
  };
}
