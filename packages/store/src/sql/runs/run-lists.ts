/** Lists of runs by filters. */
import type { RunFilter, RunIdentity, RunListing, RunRef } from '@relay/core';
import { runStatuses } from '@relay/protocol';
import type { Row, Statement } from '../../drivers/driver.ts';
import {
  decodeOpening,
  decodeText,
  isOpeningOmitted,
  joinOpening,
  openingColumns,
  startOfRow,
} from './events.ts';
import { allOf, residualFilter, columnFilters, indexFilter, rowsOn, selectPage } from '../lists.ts';
import type { ColumnFilter, Condition, List, Range } from '../lists.ts';
import { insertInto, placeholders } from '../statements.ts';
import { decodeRunHead, endCodec, headColumns } from './runs.ts';
import { encode, number, numberOrNull, text } from '../../codec/values.ts';

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

/** A list reads the answers that have at most so many events, in rows of at most so many bytes. */
const mostEvents = 2_000;
const largestRows = 2 * largestOutput;

/** The rows with the answers of listed runs, except long ones; undefined if no run has one. */
export function selectAnswers(tenantId: string, runs: readonly Row[]): Statement | undefined {
  const ids = runs.filter((row) => hasAnswer(row) && !isLong(row)).map((row) => text(row, 'id'));
  if (ids.length === 0) return undefined;
  // The cross joins make SQLite begin with the runs, and the function around the tenant with these and
  // not with all of the tenant. Sizes are found without reading what rows hold.
  return {
    sql: `SELECT e.run_id, e.first_seq, e.last_seq, e.at, e.size, e.checksum, e.json, e.deflated FROM (
        SELECT r.id, MIN(w.first_seq) AS first_seq FROM runs r CROSS JOIN events w
        WHERE COALESCE(r.tenant_id, '') = ? AND r.id IN (${placeholders(ids.length)})
          AND w.tenant_id = r.tenant_id AND w.run_id = r.id
          AND w.first_seq >= ${startOfRow('r.tenant_id', 'r.id', 'r.answer_seq')}
        GROUP BY r.id HAVING SUM(w.size) <= ${largestRows}
      ) AS answered CROSS JOIN events e
      WHERE e.tenant_id = ? AND e.run_id = answered.id AND e.first_seq >= answered.first_seq
      ORDER BY e.run_id, e.first_seq`,
    params: [tenantId, ...ids, tenantId],
  };
}

function hasAnswer(row: Row): boolean {
  return numberOrNull(row, 'answer_seq') !== null;
}

function isLong(row: Row): boolean {
  return number(row, 'last_seq') - number(row, 'answer_seq') > mostEvents;
}

/** A run whose journal cannot be read is listed like any other. */
export function selectRuns(list: List, range: Range): Statement {
  const { tenantId } = list;
  return rowsOn(selectPage(list, range), { tenantId, table: 'runs', columns, joined });
}

/** One for each index that finds what meets one of the filters, or two: that of agents has the status. */
export function runLists(tenantId: string, filter: RunFilter): readonly List[] {
  const { label, since, until, parentRunId, conversationId, workflowId, agent } = filter;
  const status = statusesOf(filter);
  const general = columnFilters({ agent: agent === undefined ? undefined : encode(agent), status });
  const specific = columnFilters({
    parent_run_id: parentRunId,
    conversation_id: conversationId,
    workflow_id: workflowId === undefined ? undefined : encode(workflowId),
  });
  const filters = [...specific, ...general];
  const prefixes = specific.map((each) => [each]);
  const isAnyRun = filters.length === 0 && label === undefined;
  if (general.length > 0 || isAnyRun) {
    prefixes.push(status === undefined ? [...general, ofAnyStatus] : general);
  }
  const range = { tenantId, since, until };
  const lists: List[] = prefixes.map((prefix) => {
    const { leading, others } = indexFilter(
      prefix,
      filters.filter((each) => !prefix.includes(each)),
    );
    if (label !== undefined) others.push(hasLabel(label));
    return { ...range, table: 'runs', leading, others };
  });
  if (label !== undefined) {
    const others = filters.length === 0 ? [] : [ofRun(filters)];
    const leading = [labelled('t', label)];
    lists.push({ ...range, table: 'run_labels', id: 'run_id', leading, others });
  }
  return lists;
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

/**
 * Further conditions on the run of a label. The function around the tenant keeps PostgreSQL from reading
 * all runs of the tenant for each label.
 */
function ofRun(filters: readonly ColumnFilter[]): Condition {
  const { sql, params } = allOf(filters.map((filter) => residualFilter(filter, 'r')));
  return {
    sql: `EXISTS (SELECT 1 FROM runs r
      WHERE r.id = t.run_id AND COALESCE(r.tenant_id, '') = t.tenant_id AND ${sql})`,
    params,
  };
}

/** `parts`: the rows of its journal with the answer. */
export function decodeListing(row: Row, parts: readonly Row[]): RunListing {
  const head = decodeRunHead(row);
  const ref = { tenantId: head.tenantId, runId: head.id };
  const answer = head.answerSeq === null ? null : decodeAnswer(ref, head.answerSeq, parts);
  return {
    ...head,
    ...endCodec.decode(row),
    opening: decodeOpening(ref, row),
    answer: answer ?? null,
    isOpeningOmitted: isOpeningOmitted(row),
    isOutputOmitted:
      answer === undefined || (numberOrNull(row, 'output_bytes') ?? 0) > largestOutput,
  };
}

/** Undefined if it is too long for a list. Null if it is damaged: that must not break a list. */
function decodeAnswer(run: RunRef, seq: number, parts: readonly Row[]): string | null | undefined {
  if (parts.length === 0) return undefined;
  try {
    const answer = decodeText(run, seq, parts);
    return Buffer.byteLength(answer) > largestOutput ? undefined : answer;
  } catch {
    return null;
  }
}
