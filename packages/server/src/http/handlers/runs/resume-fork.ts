/** `/v1/runs/:id/resume` and `/v1/runs/:id/fork`. */
import * as core from '@relay/core';
import type { ForkPoint, RunSpec } from '@relay/core';
import { defined, isEnded, type Permissions, RelayError } from '@relay/protocol';
import { minLimits } from '../../budgets.ts';
import { invalidField } from '../../errors.ts';
import { findRun, type Handler, type RouteRequest, storeOf } from '../handler.ts';
import { presentNow } from './runs.ts';
import { chooseModel, choosePermissions, startRun } from './start.ts';

/** An ended run cannot be resumed: nothing follows its terminal event (E6). */
export const resumeRun: Handler<'resumeRun'> = async (call) => {
  const run = await findRun(call, call.params.id);
  const { supervisor } = call.context.control;
  if (isEnded(run.status)) {
    throw new RelayError(
      'run_ended',
      `The run is ${run.status}; use POST /v1/runs/${run.id}/fork to continue from it`,
    );
  }
  if (supervisor.isPaused(run.tenantId)) {
    throw new RelayError('tenant_paused', 'The tenant is paused: no run can be resumed');
  }
  supervisor.wake({ tenantId: run.tenantId, runId: run.id });
  return presentNow(call, run.id);
};

export const forkRun: Handler<'forkRun'> = async (call) => {
  const { id } = await startRun(call, () => specOf(call));
  return presentNow(call, id);
};

async function specOf(call: RouteRequest<'forkRun'>): Promise<RunSpec> {
  const { seq, input, ...body } = call.body;
  const source = await findRun(call, call.params.id);
  const { engine } = call.context.control;
  const point = await core.forkPoint(engine, storeOf(call), defined({ source, seq }));
  if (input === undefined && point.needsInput) {
    throw invalidField('input', 'Required: the last message at this point is the agent’s');
  }
  const { spec, profile } = point;
  const { system, handoffs, outputSchema, reasoning } = profile;
  return {
    surface: 'runs',
    agent: point.agent,
    model: await chooseModel(call, body.model ?? point.model, 'model is required'),
    system,
    messages: typeof input === 'string' ? [{ role: 'user', content: input }] : (input ?? []),
    prompt: 'append',
    ...toolsOf(point),
    outputSchema,
    reasoning,
    memory: spec.memory,
    permissions: await choosePermissions(call, body.permissions ?? inheritedPermissions(point)),
    maxIterations: Math.min(
      body.maxIterations ?? spec.maxIterations,
      engine.agents(call.caller.tenantId).find(point.agent)?.maxIterations ?? Infinity,
    ),
    limits: minLimits(call.context.limits, body.limits ?? spec.limits ?? {}),
    handoffs,
    context: spec.context,
    labels: body.labels ?? spec.labels,
    workflowId: body.workflowId ?? spec.workflowId,
    parentRunId: source.id,
    forkedFrom: { runId: source.id, seq: point.seq },
  };
}

/** The fork keeps the caller's functions: the client that follows the fork runs them. */
function toolsOf({ spec, profile }: ForkPoint): Pick<RunSpec, 'tools' | 'functions'> {
  const functions = (spec.functions ?? []).filter(({ name }) => profile.tools.includes(name));
  return { tools: profile.tools, functions };
}

/** An allow-once of the source is not granted again. */
function inheritedPermissions({ spec }: ForkPoint): Permissions {
  const { allowOnce: _, ...permissions } = spec.permissions;
  return permissions;
}
