/** What all surfaces that start runs have in common. */
import {
  type AgentDefinition,
  checkPermissions,
  findStarted,
  type RunIdentity,
  type RunRequest,
  startRun,
  type Tool,
} from '@relay/core';
import {
  canonicalJson,
  type JsonSchema,
  type Limits,
  type MemoryUse,
  namespaceOf,
  type Permissions,
  type ReasoningEffort,
  RelayError,
} from '@relay/protocol';
import { mayUseWorkspace } from '../auth.ts';
import { lowerOf } from '../../jobs/budgets.ts';
import { closedSignal } from '../../streaming/event-stream.ts';
import { noCredential } from '../../outbound/providers.ts';
import { followRun } from '../../streaming/subscribe.ts';
import { parseTraceparent } from '../../observability/tracing/span.ts';
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

interface Wanted {
  readonly outputSchema?: JsonSchema | undefined;
  readonly reasoning?: ReasoningEffort | undefined;
  readonly system?: string | undefined;
  readonly maxIterations?: number | undefined;
  readonly limits?: Limits | undefined;
  readonly memory?: MemoryUse | undefined;
}

/** What an agent begins with, and what the request says besides. */
export function openingFor(call: Call, agent: AgentDefinition, wanted: Wanted) {
  const memory = wanted.memory ?? agent.memory;
  const system = [agent.instructions, wanted.system].filter((text) => text !== undefined);
  const outputSchema = wanted.outputSchema ?? agent.outputSchema;
  const reasoning = wanted.reasoning ?? agent.reasoning;
  return {
    ...(outputSchema === undefined ? {} : { outputSchema }),
    ...(reasoning === undefined ? {} : { reasoning }),
    agent: agent.name,
    handoffs: agent.handoffs ?? [],
    maxIterations: Math.min(
      wanted.maxIterations ?? agent.maxIterations ?? defaultMaxIterations,
      agent.maxIterations ?? Infinity,
    ),
    // A request can ask for less than the operator allows, never for more.
    limits: lowerOf(call.context.limits, wanted.limits ?? {}),
    ...(system.length === 0 ? {} : { system: system.join('\n\n') }),
    ...(memory === undefined ? {} : { memory: { namespace: namespaceOf(memory) } }),
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
  const details = checkPermissions(permissions).map(({ path, message }) => ({
    path: `permissions.${path}`,
    message,
  }));
  const [first] = details;
  if (first !== undefined) {
    throw new RelayError('invalid_pattern', `${first.path}: ${first.message}`, { details });
  }
  return permissions;
}

type Request = Omit<
  RunRequest,
  'runId' | 'tenantId' | 'correlationId' | 'keyId' | 'by' | 'idempotency' | 'traceparent'
>;

/** Listens first and starts then: a new run is followed without asking the store. */
export async function startAndFollow(call: Call, request: Request) {
  const { control, hub, store } = call.context;
  const { tenantId, as } = call.caller;
  // A chat lives with its connection: another connection cannot mean the same one.
  const idempotency = request.surface === 'chat' ? undefined : idempotencyOf(call);
  const keyId = as.type === 'key' ? as.id : undefined;
  const left = await call.context.budgets.check(tenantId, keyId);
  const signal = closedSignal(call.reply.raw);
  const runId = control.engine.ids.next();
  const followed = { store: store.tenant(tenantId), hub };
  const fresh = followRun({ ...followed, runId }, { after: 0, follow: true, signal, isNew: true });
  const run = await startRun(control, {
    ...request,
    limits: lowerOf(request.limits ?? {}, left),
    runId,
    tenantId,
    correlationId: correlationId(call),
    by: as,
    ...traceparentOf(call),
    ...(keyId === undefined ? {} : { keyId }),
    ...(mayUseWorkspace(call.caller, call.context.config) ? {} : { workspace: false as const }),
    ...(idempotency === undefined ? {} : { idempotency }),
  }).catch(async (error: unknown) => {
    await fresh.return();
    throw error;
  });
  if (run.replayed) {
    await fresh.return();
    return followAgain(call, run);
  }
  call.reply.header('x-run-id', run.id);
  return { run: streamed(run), batches: fresh };
}

/**
 * The run that this very request has started before, if it has. It is looked for before anything
 * else: whoever repeats a request wants its run, whatever has become of models and budgets since.
 */
export async function findReplay(call: Call) {
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
export function idempotencyOf(call: Call): { key: string; fingerprint: string } | undefined {
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
function traceparentOf(call: Call): { traceparent?: string } {
  const { traceparent } = call.request.headers;
  if (typeof traceparent !== 'string' || parseTraceparent(traceparent) === undefined) return {};
  return { traceparent };
}

/** What ties this request to the caller's own records. */
export function correlationId(call: Call): string {
  const { headers } = call.request;
  const given = [headers['x-request-id'], headers['idempotency-key']].flat();
  return (
    given.find((id) => id !== undefined && id !== '' && id.length <= maxKeyChars) ?? call.request.id
  );
}
