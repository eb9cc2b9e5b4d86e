/** Taking runs up again, forking them, and looking at those of a workflow together. */
import * as core from '@relay/core';
import type { ForkPoint, RunIdentity, RunRequest, WorkflowTotal } from '@relay/core';
import {
  type forkBodySchema,
  isEnded,
  type Permissions,
  RelayError,
  type RunStatus,
  type workflowQuerySchema,
} from '@relay/protocol';
import type { z } from 'zod';
import { lowerOf } from '../../jobs/budgets.ts';
import { notFound } from '../errors.ts';
import { findRun, storeOf } from './find.ts';
import type { Call, Handler } from './handler.ts';
import { cutPage, pageOf } from '../views/pages.ts';
import { presentListed, presentRun } from '../views/run.ts';
import { getRun, namedRun, specOf } from './runs.ts';
import {
  chooseModel,
  choosePermissions,
  chooseTools,
  correlationId,
  idempotencyOf,
} from './start.ts';

/** One that is over stays so: there is one terminal event, and nothing after it. */
export const resumeRun: Handler = async (call) => {
  const run = await namedRun(call);
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
  call.reply.code(202);
  return getRun(call);
};

export const forkRun: Handler = async (call) => {
  const { control, budgets } = call.context;
  const { tenantId, as } = call.caller;
  const idempotency = idempotencyOf(call);
  const before =
    idempotency === undefined ? undefined : await core.findStarted(control, tenantId, idempotency);
  if (before !== undefined) return answerWith(call, before, 'replayed');
  const request = await requestFor(call);
  const keyId = as.type === 'key' ? as.id : undefined;
  const left = await budgets.check(tenantId, keyId);
  const started = await core.startRun(control, {
    ...request,
    limits: lowerOf(request.limits ?? {}, left),
    tenantId,
    correlationId: correlationId(call),
    ...(keyId === undefined ? {} : { keyId }),
    ...(idempotency === undefined ? {} : { idempotency }),
  });
  return answerWith(call, started, started.replayed ? 'replayed' : 'new');
};

type Request = Omit<RunRequest, 'tenantId' | 'correlationId' | 'keyId' | 'idempotency'>;

async function requestFor(call: Call): Promise<Request> {
  const body = call.body as z.infer<typeof forkBodySchema>;
  const { seq, input, limits, workflowId } = body;
  const source = await namedRun(call);
  const point = await core.forkPoint(call.context.control.engine, storeOf(call), {
    source,
    ...(seq === undefined ? {} : { seq }),
  });
  if (input === undefined && point.needsInput) throw noInput();
  const { spec, profile } = point;
  const { system, handoffs, outputSchema, reasoning } = profile;
  const workflow = workflowId ?? spec.workflowId;
  return {
    surface: 'runs',
    agent: point.agent,
    model: await chooseModel(call, body.model ?? point.model, 'model is required'),
    ...(system === undefined ? {} : { system }),
    messages: typeof input === 'string' ? [{ role: 'user', content: input }] : (input ?? []),
    prompt: 'continues',
    ...toolsOf(call, point),
    ...(outputSchema === undefined ? {} : { outputSchema }),
    ...(reasoning === undefined ? {} : { reasoning }),
    ...(spec.memory === undefined ? {} : { memory: spec.memory }),
    permissions: choosePermissions(call, body.permissions ?? inherited(point)),
    maxIterations: Math.min(body.maxIterations ?? spec.maxIterations, mostTurns(call, point)),
    limits: lowerOf(call.context.limits, limits ?? spec.limits ?? {}),
    ...(handoffs === undefined ? {} : { handoffs }),
    ...(spec.context === undefined ? {} : { context: spec.context }),
    labels: body.labels ?? spec.labels,
    ...(workflow === undefined ? {} : { workflowId: workflow }),
    parentRunId: source.id,
    forkedFrom: { runId: source.id, seq: point.seq },
  };
}

/** The caller's own functions go along: whoever follows the fork runs them. */
function toolsOf(call: Call, { spec, profile }: ForkPoint): Pick<Request, 'tools' | 'functions'> {
  const functions = (spec.functions ?? []).filter(({ name }) => profile.tools.includes(name));
  const isOwn = (name: string) => functions.some((declared) => declared.name === name);
  chooseTools(
    call,
    profile.tools.filter((name) => !isOwn(name)),
  );
  return { tools: profile.tools, ...(functions.length === 0 ? {} : { functions }) };
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
  return new RelayError('invalid_request', `input: ${message}`, {
    details: [{ path: 'input', message }],
  });
}

async function answerWith(call: Call, { id }: RunIdentity, how: 'new' | 'replayed') {
  call.reply.header('x-run-id', id);
  if (how === 'replayed') call.reply.header('idempotent-replayed', 'true');
  call.reply.code(201);
  const run = await findRun(call, id);
  return presentRun(run, await specOf(call, run));
}

export const getWorkflow: Handler = async (call) => {
  const { id } = call.params as { id: string };
  const query = call.query as z.infer<typeof workflowQuerySchema>;
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
    ...(costUsd === undefined ? {} : { costUsd }),
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
