/** What all surfaces that start runs have in common. */
import {
  type AgentDefinition,
  checkPermissions,
  findStarted,
  type Idempotency,
  type PatternFault,
  type RunCaller,
  type RunIdentity,
  type RunSpec,
  type StartedRun,
  startRun,
  type Tool,
} from '@relay/core';
import {
  type BodyOf,
  canonicalJson,
  namespaceOf,
  type Permissions,
  RelayError,
} from '@relay/protocol';
import { mayUseWorkspace } from '../auth.ts';
import { lowerOf } from '../../jobs/budgets.ts';
import { closedSignal } from '../../streaming/event-stream.ts';
import { refuseFaults } from '../errors.ts';
import { noCredential } from '../../outbound/providers.ts';
import { followRun } from '../../streaming/subscribe.ts';
import { parseTraceparent } from '../../observability/run-trace.ts';
import type { Call } from './handler.ts';
import { streamed } from '../../streaming/stream-run.ts';

const defaultAgent = 'assistant';
const defaultMaxIterations = 50;

/** The agent by its name; `assistant` is always there. */
export function chooseAgent(call: Call, wanted: string | undefined): AgentDefinition {
  const name = wanted ?? defaultAgent;
  const agent = call.context.control.engine.agents(call.caller.tenantId).find(name);
  if (agent !== undefined) return agent;
  if (name === defaultAgent) return { name };
  throw new RelayError('unknown_agent', `There is no agent named ${name}`, {
    details: [{ path: 'agent', message: 'Unknown agent' }],
  });
}

type Wanted = Partial<
  Pick<
    BodyOf<'startRun'>,
    'outputSchema' | 'reasoning' | 'system' | 'maxIterations' | 'limits' | 'memory'
  >
>;

/** What an agent begins with, and what the request says besides. */
export function openingFor(call: Call, agent: AgentDefinition, wanted: Wanted) {
  const memory = wanted.memory ?? agent.memory;
  const system = [agent.instructions, wanted.system].filter((text) => text !== undefined);
  return {
    outputSchema: wanted.outputSchema ?? agent.outputSchema,
    reasoning: wanted.reasoning ?? agent.reasoning,
    agent: agent.name,
    handoffs: agent.handoffs ?? [],
    maxIterations: Math.min(
      wanted.maxIterations ?? agent.maxIterations ?? defaultMaxIterations,
      agent.maxIterations ?? Infinity,
    ),
    // A request can ask for less than the operator allows, never for more.
    limits: lowerOf(call.context.limits, wanted.limits ?? {}),
    system: system.length === 0 ? undefined : system.join('\n\n'),
    memory: memory === undefined ? undefined : { namespace: namespaceOf(memory) },
  };
}

/** The model to use, or a clear 400 before any stream has started. */
export async function chooseModel(
  call: Call,
  wanted: string | undefined,
  missing: string,
): Promise<string> {
  const model = wanted ?? call.context.config.defaultModel;
  if (model === undefined) {
    throw new RelayError('invalid_request', missing, {
      details: [{ path: 'model', message: 'Required' }],
    });
  }
  const models = call.context.control.engine.models(call.caller.tenantId);
  if (models.resolve(model) === undefined) {
    throw new RelayError('unknown_model', `No provider offers the model ${model}`, {
      details: [{ path: 'model', message: 'Unknown model' }],
    });
  }
  const provider = await models.missing?.(model);
  if (provider !== undefined) throw noCredential(provider);
  return model;
}

/** Names of tools that the tenant has; all of them if none are named. `at` is where one is named. */
export function chooseTools(
  call: Call,
  wanted: readonly string[] | undefined,
  at?: string,
): string[] {
  const registry = call.context.control.engine.tools(call.caller.tenantId);
  // One that needs a memory is left out later, by runs that have none.
  if (wanted === undefined) {
    return registry.list().flatMap((tool) => (isOffered(call, tool) ? [tool.name] : []));
  }
  for (const [index, name] of wanted.entries()) {
    if (wanted.indexOf(name) !== index) {
      throw new RelayError('invalid_request', `The tool ${name} is named twice`, {
        details: [{ path: at ?? `tools[${index}]`, message: 'Named twice' }],
      });
    }
    const tool = registry.find(name);
    if (tool === undefined || !isOffered(call, tool)) {
      throw new RelayError('unknown_tool', `There is no tool named ${name}`, {
        details: [{ path: at ?? `tools[${index}]`, message: 'Unknown tool' }],
      });
    }
  }
  return [...wanted];
}

function isOffered({ caller, context }: Call, { inWorkspace }: Tool): boolean {
  return inWorkspace !== true || mayUseWorkspace(caller, context.config);
}

/** The faults in the rules of a request, by their place in it. */
export function faultsIn(permissions: Permissions): PatternFault[] {
  return checkPermissions(permissions).map(({ path, message }) => ({
    path: `permissions.${path}`,
    message,
  }));
}

/** Rules that widen what may run without a person need the right to approve. */
export function choosePermissions(call: Call, wanted: Permissions | undefined): Permissions {
  const permissions = wanted ?? {};
  const widens = [permissions.allowlist, permissions.allowOnce].some(
    (rules) => rules !== undefined && rules.length > 0,
  );
  if (widens && !call.caller.scopes.has('approve')) {
    throw new RelayError(
      'approve_scope_required',
      'Rules that allow tools need a key with the scope approve',
    );
  }
  refuseFaults(faultsIn(permissions));
  return permissions;
}

/** A request that starts a run; params and body are part of its idempotency fingerprint. */
export interface StartCall extends Call {
  readonly params: unknown;
  readonly body: unknown;
}

/** Starts a run for the caller of this request, within the budgets that are left. */
export async function startFor(
  call: StartCall,
  spec: RunSpec,
  chosen: Pick<RunCaller, 'runId' | 'idempotency' | 'connectionId'>,
): Promise<StartedRun> {
  const { control, budgets, config } = call.context;
  const caller = { ...runCallerOf(call), ...chosen };
  const left = await budgets.check(caller.tenantId, caller.keyId);
  return startRun(
    control,
    {
      ...spec,
      limits: lowerOf(spec.limits ?? {}, left),
      workspace: mayUseWorkspace(call.caller, config) ? undefined : false,
    },
    caller,
  );
}

function runCallerOf(call: Call): RunCaller {
  const { tenantId, as: by } = call.caller;
  return {
    tenantId,
    by,
    keyId: by.type === 'key' ? by.id : undefined,
    correlationId: correlationId(call),
    traceparent: traceparentOf(call),
  };
}

/** Listens first and starts then: a new run is followed without reading the store. */
export async function startAndFollow(call: StartCall, spec: RunSpec, connectionId?: string) {
  const { control, hub, store } = call.context;
  const signal = closedSignal(call.reply.raw);
  const runId = control.engine.ids.next();
  const followed = { store: store.tenant(call.caller.tenantId), hub, runId };
  const batches = followRun(followed, { after: 0, follow: true, signal, isNew: true });
  // A chat lives with its connection: another connection cannot mean the same one.
  const idempotency = connectionId === undefined ? idempotencyOf(call) : undefined;
  const chosen = { runId, connectionId, idempotency };
  const run = await startFor(call, spec, chosen).catch(async (error: unknown) => {
    await batches.return();
    throw error;
  });
  if (run.replayed) {
    await batches.return();
    return followAgain(call, run);
  }
  call.reply.header('x-run-id', run.id);
  return { run: streamed(run), batches };
}

/**
 * The run that this very request has started before, if it has. It is looked for before anything
 * else: whoever repeats a request wants its run, whatever has become of models and budgets since.
 */
export async function findReplay(call: StartCall) {
  const idempotency = idempotencyOf(call);
  if (idempotency === undefined) return undefined;
  const { context, caller } = call;
  const run = await findStarted(context.control, caller.tenantId, idempotency);
  return run === undefined ? undefined : followAgain(call, run);
}

function followAgain(call: Call, run: RunIdentity) {
  const { hub, store } = call.context;
  const followed = { store: store.tenant(call.caller.tenantId), hub, runId: run.id };
  const signal = closedSignal(call.reply.raw);
  call.reply.header('x-run-id', run.id);
  call.reply.header('idempotent-replayed', 'true');
  const batches = followRun(followed, { after: 0, follow: true, signal });
  return { run: streamed(run), batches };
}

const maxKeyChars = 255;

/** The same key with the same request means the same run. */
export function idempotencyOf(call: StartCall): Idempotency | undefined {
  const key = call.request.headers['idempotency-key'];
  if (key === undefined) return undefined;
  if (typeof key !== 'string' || key === '' || key.length > maxKeyChars) {
    const message = `Must have 1 to ${maxKeyChars} characters`;
    throw new RelayError('invalid_request', `Idempotency-Key: ${message}`, {
      details: [{ path: 'Idempotency-Key', message }],
    });
  }
  const { digest } = call.context.control.engine;
  const about = call.params === undefined ? {} : { params: call.params };
  const request = { route: call.request.routeOptions.url ?? '', ...about, body: call.body };
  return { key, fingerprint: digest(canonicalJson(request)) };
}

/** The caller's span, if it sent one; what is malformed is none. */
function traceparentOf(call: Call): string | undefined {
  const { traceparent } = call.request.headers;
  if (typeof traceparent !== 'string') return undefined;
  return parseTraceparent(traceparent) === undefined ? undefined : traceparent;
}

/** What ties this request to the caller's own records. */
function correlationId(call: Call): string {
  const { headers } = call.request;
  const given = [headers['x-request-id'], headers['idempotency-key']].flat();
  return (
    given.find((id) => id !== undefined && id !== '' && id.length <= maxKeyChars) ?? call.request.id
  );
}
