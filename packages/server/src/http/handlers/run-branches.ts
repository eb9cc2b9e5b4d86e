/** Taking runs up again, forking them, and looking at those of a workflow together. */
import * as core from '@relay/core';
import type { ForkPoint, RunSpec, WorkflowTotal } from '@relay/core';
import { defined, isEnded, type Permissions, RelayError, type RunStatus } from '@relay/protocol';
import { lowerOf } from '../../jobs/budgets.ts';
import { invalidField, notFound } from '../errors.ts';
import { type Call, findRun, type Handler, type RouteCall, storeOf } from './handler.ts';
import { cutPage, pageOf } from '../views/pagination.ts';
import { presentListed } from '../views/run.ts';
import { presentNow } from './runs.ts';
import { chooseModel, choosePermissions, chooseTools, idempotencyOf, startFor } from './start.ts';

/** One that is over stays so: there is one terminal event, and nothing after it. */
export const resumeRun: Handler<'resumeRun'> = async (call) => {
  const run = await findRun(call, call.params.id);
  const { supervisor } = call.context.control;
  if (isEnded(run.status)) {
    throw new RelayError(
      'run_ended',
      `The run is ${run.status}; POST /v1/runs/${run.id}/fork goes on from where it was`,
    );
  }
  if (supervisor.isPaused(run.tenantId)) {
    throw new RelayError('tenant_paused', 'The tenant is paused: no run goes on');
  }
  supervisor.wake({ tenantId: run.tenantId, runId: run.id });
  return presentNow(call, run.id);
};

export const forkRun: Handler<'forkRun'> = async (call) => {
  const { control } = call.context;
  const { tenantId } = call.caller;
  const idempotency = idempotencyOf(call);
  const before =
    idempotency === undefined ? undefined : await core.findStarted(control, tenantId, idempotency);
  const { id, replayed } = before ?? (await startFor(call, await specFor(call), { idempotency }));
  call.reply.header('x-run-id', id);
  if (replayed) call.reply.header('idempotent-replayed', 'true');
  return presentNow(call, id);
};

async function specFor(call: RouteCall<'forkRun'>): Promise<RunSpec> {
  const { seq, input, ...body } = call.body;
  const source = await findRun(call, call.params.id);
  const asked = defined({ source, seq });
  const point = await core.forkPoint(call.context.control.engine, storeOf(call), asked);
  if (input === undefined && point.needsInput) throw noInput();
  const { spec, profile } = point;
  const { system, handoffs, outputSchema, reasoning } = profile;
  return {
    surface: 'runs',
    agent: point.agent,
    model: await chooseModel(call, body.model ?? point.model, 'model is required'),
    system,
    messages: typeof input === 'string' ? [{ role: 'user', content: input }] : (input ?? []),
    prompt: 'continues',
    ...toolsOf(call, point),
    outputSchema,
    reasoning,
    memory: spec.memory,
    permissions: choosePermissions(call, body.permissions ?? inherited(point)),
    maxIterations: Math.min(body.maxIterations ?? spec.maxIterations, mostTurns(call, point)),
    limits: lowerOf(call.context.limits, body.limits ?? spec.limits ?? {}),
    handoffs,
    context: spec.context,
    labels: body.labels ?? spec.labels,
    workflowId: body.workflowId ?? spec.workflowId,
    parentRunId: source.id,
    forkedFrom: { runId: source.id, seq: point.seq },
  };
}

/** The caller's own functions go along: the client that follows the fork runs them. */
function toolsOf(call: Call, { spec, profile }: ForkPoint): Pick<RunSpec, 'tools' | 'functions'> {
  const functions = (spec.functions ?? []).filter(({ name }) => profile.tools.includes(name));
  const isOwn = (name: string) => functions.some((declared) => declared.name === name);
  chooseTools(
    call,
    profile.tools.filter((name) => !isOwn(name)),
  );
  return { tools: profile.tools, functions };
}

function mostTurns(call: Call, { agent }: ForkPoint): number {
  const agents = call.context.control.engine.agents(call.caller.tenantId);
  return agents.find(agent)?.maxIterations ?? Infinity;
}

/** What was allowed once is not allowed once more by forking. */
function inherited({ spec }: ForkPoint): Permissions {
  const { allowOnce: _, ...permissions } = spec.permissions;
  return permissions;
}

function noInput(): RelayError {
  const message = 'Required: the last word there is the agent’s';
  return invalidField('input', message);
}

export const getWorkflow: Handler<'getWorkflow'> = async (call) => {
  const { id } = call.params;
  const query = call.query;
  const store = storeOf(call);
  const total = await store.readWorkflow(id);
  if (total === undefined) throw notFound('workflow');
  const found = await store.listRuns({ workflowId: id }, pageOf(query));
  const { items, nextCursor } = cutPage(found, query.limit, (run) => ({
    at: run.createdAt,
    id: run.id,
  }));
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

/** Whatever is still going on comes first; of what is over, the worst. */
const telling: readonly RunStatus[] = [
  'running',
  'queued',
  'waiting',
  'failed',
  'canceled',
  'completed',
];

function statusOf({ runs }: WorkflowTotal): RunStatus {
  return telling.find((status) => (runs[status] ?? 0) > 0) ?? 'completed';
}
