/** `/v1/workflows/:id`: the runs of a workflow and their totals. */
import type { WorkflowTotal } from '@relay/core';
import type { RunStatus } from '@relay/protocol';
import { notFound } from '../../errors.ts';
import { readListed } from '../../views/pagination.ts';
import { presentListed } from '../../views/run.ts';
import { type Handler, storeOf } from '../handler.ts';

export const getWorkflow: Handler<'getWorkflow'> = async (call) => {
  const { id } = call.params;
  const store = storeOf(call);
  const total = await store.readWorkflow(id);
  if (total === undefined) throw notFound('workflow');
  const { items, nextCursor } = await readListed(call.query, (page) =>
    store.listRuns({ workflowId: id }, page),
  );
  const { inputTokens, outputTokens, costUsd } = total.usage;
  return {
    id,
    status: statusOf(total),
    counts: total.runs,
    runs: items.map(presentListed),
    usage: { input_tokens: inputTokens, output_tokens: outputTokens },
    costUsd,
    nextCursor,
  };
};

/** The first status that a run of the workflow has is the status of the workflow. */
const statusPrecedence: readonly RunStatus[] = [
  'running',
  'queued',
  'waiting',
  'failed',
  'canceled',
  'completed',
];

function statusOf({ runs }: WorkflowTotal): RunStatus {
  return statusPrecedence.find((status) => (runs[status] ?? 0) > 0) ?? 'completed';
}
