/**
 * The one start path: every surface builds a `RunSpec`, most of them by `buildSpec`, and passes it to
 * `startRun`, or to `startAndFollow` to stream the run.
 */
import {
  type AgentDefinition,
  agentNamed,
  checkPermissionsInTurn,
  findStarted,
  handoffToolName,
  type Idempotency,
  type PatternFault,
  type RunCaller,
  type RunSpec,
  startRun as startCoreRun,
  type StartedRun,
} from '@relay/core';
import {
  type BodyOf,
  canonicalJson,
  checkToolSchema,
  defined,
  type FunctionTool,
  namespaceOf,
  type Permissions,
  RelayError,
  type RunHeader,
} from '@relay/protocol';
import { minLimits } from '../../budgets.ts';
import { parseTraceparent } from '../../../observability/run-trace.ts';
import { requireModel } from '../../../outbound/providers.ts';
import { closedSignal } from '../../../streaming/response-writer.ts';
import { runHeader } from '../../../streaming/stream-run.ts';
import { type Batches, followRun } from '../../../streaming/subscribe.ts';
import { invalidField, rejectInvalidPatterns } from '../../errors.ts';
import { type ApiRequest, storeOf } from '../handler.ts';

/** A request that starts a run; params and body are part of its idempotency fingerprint. */
export interface StartRequest extends ApiRequest {
  readonly params: unknown;
  readonly body: unknown;
  /** Default: the header `Idempotency-Key`. */
  readonly idempotencyKey?: string | undefined;
}

/**
 * Starts the run of this request. A repeated idempotent request returns its first run; that is checked
 * before anything else, because models and budgets may have changed since.
 */
export async function startRun(
  call: StartRequest,
  buildSpec: () => Promise<RunSpec>,
  { runId, connectionId }: Pick<RunCaller, 'runId' | 'connectionId'> = {},
): Promise<StartedRun> {
  const { control } = call.context;
  const { tenantId } = call.caller;
  // A chat ends with its connection, so a second connection cannot return the same run.
  const idempotency = connectionId === undefined ? idempotencyOf(call) : undefined;
  const earlier =
    idempotency === undefined ? undefined : await findStarted(control, tenantId, idempotency);
  const run =
    earlier ?? (await startNew(call, await buildSpec(), { runId, connectionId, idempotency }));
  // Raw, because a stream bypasses the reply. A response of `/mcp` may have begun already.
  const { raw } = call.reply;
  if (raw.headersSent) return run;
  raw.setHeader('x-run-id', run.id);
  if (run.replayed) raw.setHeader('idempotent-replayed', 'true');
  return run;
}

async function startNew(
  call: ApiRequest,
  spec: RunSpec,
  options: Pick<RunCaller, 'runId' | 'idempotency' | 'connectionId'>,
): Promise<StartedRun> {
  const { tenantId, actor: by } = call.caller;
  const keyId = by.type === 'key' ? by.id : undefined;
  return startCoreRun(call.context.control, spec, {
    tenantId,
    by,
    keyId,
    anyConversation: call.caller.scopes.has('admin'),
    correlationId: correlationId(call),
    traceparent: traceparentOf(call),
    ...options,
  });
}

/** Subscribes before it starts the run: a new run is followed without reading the store. */
export async function startAndFollow(
  call: StartRequest,
  buildSpec: () => Promise<RunSpec>,
  connectionId?: string,
): Promise<{ run: RunHeader; batches: Batches }> {
  const { control, hub } = call.context;
  const signal = closedSignal(call.reply.raw);
  const follow = (runId: string, isNew: boolean) =>
    followRun({ store: storeOf(call), hub, runId }, { after: 0, follow: true, signal, isNew });
  const runId = control.engine.ids.next();
  const batches = follow(runId, true);
  try {
    const run = runHeader(await startRun(call, buildSpec, { runId, connectionId }));
    if (run.runId === runId) return { run, batches };
    await batches.return();
    return { run, batches: follow(run.runId, false) };
  } catch (error) {
    await batches.return();
    throw error;
  }
}

interface SpecInput
  extends
    Omit<BodyOf<'startRun'>, 'input' | 'tools'>,
    Pick<RunSpec, 'surface' | 'messages' | 'prompt' | 'context'> {
  readonly tools: (agent: AgentDefinition) => Pick<RunSpec, 'tools' | 'functions'>;
  /** The error message if neither the request, the agent nor the server names a model. */
  readonly modelRequired: string;
}

/** The spec of a new run: the definition of its agent, and the options of the request. */
export async function buildSpec(call: ApiRequest, input: SpecInput): Promise<RunSpec> {
  const { parentRunId } = input;
  const agent = chooseAgent(call, input.agent);
  if (parentRunId !== undefined && (await storeOf(call).readRun(parentRunId)) === undefined) {
    throw invalidField('parentRunId', 'No such run');
  }
  const model = await chooseModel(call, input.model ?? agent.model, input.modelRequired);
  const memory = input.memory ?? agent.memory;
  const system = [agent.instructions, input.system].filter((text) => text !== undefined);
  return {
    surface: input.surface,
    agent: agent.name,
    model,
    system: system.length === 0 ? undefined : system.join('\n\n'),
    messages: input.messages,
    prompt: input.prompt,
    ...input.tools(agent),
    outputSchema: input.outputSchema ?? agent.outputSchema,
    reasoning: input.reasoning ?? agent.reasoning,
    memory: memory === undefined ? undefined : { namespace: namespaceOf(memory) },
    permissions: await choosePermissions(call, input.permissions),
    maxIterations: Math.min(
      input.maxIterations ?? agent.maxIterations ?? defaultMaxIterations,
      agent.maxIterations ?? Infinity,
    ),
    // A request can lower the operator's limits, never raise them.
    limits: minLimits(call.context.limits, input.limits ?? {}),
    handoffs: agent.handoffs ?? [],
    context: input.context,
    conversationId: input.conversationId,
    parentRunId,
    workflowId: input.workflowId,
    labels: input.labels,
  };
}

export const modelRequired = 'model is required: the server has no default';

const defaultMaxIterations = 50;

/** All that a caller without a key may use, unless the operator allows more. */
const demonstration = { model: 'demo', tools: ['calculator', 'send_note'] } as const;

function isDemonstration({ caller }: ApiRequest): boolean {
  return caller.keyless === 'demo';
}

function keyRequired(path: string): RelayError {
  return new RelayError(
    'key_required',
    `Without an API key, /chat has only the model ${demonstration.model} and the tools ${demonstration.tools.join(' and ')}. Send a key, or start the server with RELAY_LOCAL_CHAT=on`,
    { details: [{ path, message: 'Requires an API key' }] },
  );
}

/** Without a key only `assistant`, whose definition may name other models and tools, as it is built in. */
function chooseAgent(call: ApiRequest, name?: string): AgentDefinition {
  if (isDemonstration(call)) return { name: 'assistant' };
  return agentNamed(call.context.control.engine.agents(call.caller.tenantId), name);
}

export async function chooseModel(
  call: ApiRequest,
  requested: string | undefined,
  requiredMessage: string,
): Promise<string> {
  const model = requested ?? defaultModelFor(call);
  if (model === undefined) {
    throw new RelayError('invalid_request', requiredMessage, {
      details: [{ path: 'model', message: 'Required' }],
    });
  }
  if (isDemonstration(call) && model !== demonstration.model) throw keyRequired('model');
  await requireModel(call.context.control.engine.models(call.caller.tenantId), model);
  return model;
}

/** The model of requests that name none. */
export function defaultModelFor(call: ApiRequest): string | undefined {
  const { defaultModel } = call.context.config;
  return isDemonstration(call) && defaultModel !== demonstration.model ? undefined : defaultModel;
}

/**
 * The tools that the definition of an agent names, or all that the caller may use. The tenant may lack some,
 * such as those that an MCP server no longer offers: the model does not get them.
 */
export function toolsOfAgent(call: ApiRequest, names: readonly string[] | undefined): string[] {
  if (names !== undefined) return [...names];
  const registry = call.context.control.engine.tools(call.caller.tenantId);
  const usable = registry.list().filter(({ needsSession }) => needsSession !== true);
  const all = usable.map(({ name }) => name);
  return isDemonstration(call) ? all.filter(isDemonstrationTool) : all;
}

/** Checks the names of tools in a request. */
export function chooseTools(
  call: ApiRequest,
  names: readonly string[],
  pathOf = (index: number) => `tools[${index}]`,
): string[] {
  const registry = call.context.control.engine.tools(call.caller.tenantId);
  for (const [index, name] of names.entries()) {
    if (names.indexOf(name) !== index) throw duplicateTool(pathOf(index), name);
    if (isDemonstration(call) && !isDemonstrationTool(name)) throw keyRequired(pathOf(index));
    if (registry.find(name) === undefined) {
      throw new RelayError('unknown_tool', `There is no tool named ${name}`, {
        details: [{ path: pathOf(index), message: 'Unknown tool' }],
      });
    }
  }
  return [...names];
}

function isDemonstrationTool(name: string): boolean {
  return demonstration.tools.some((each) => each === name);
}

function duplicateTool(path: string, name: string): RelayError {
  return invalidField(path, `The tool ${name} is listed twice`);
}

/** Checks the tools of `POST /v1/runs`: names of registered tools, and functions of the caller. */
export function chooseToolsAndFunctions(
  call: ApiRequest,
  tools: NonNullable<BodyOf<'startRun'>['tools']>,
): Pick<RunSpec, 'tools' | 'functions'> {
  const registry = call.context.control.engine.tools(call.caller.tenantId);
  const functions: FunctionTool[] = [];
  for (const [index, tool] of tools.entries()) {
    const path = `tools[${index}]`;
    const { name } = tool;
    if (tools.findIndex((each) => each.name === name) !== index) {
      throw duplicateTool(`${path}.name`, name);
    }
    if (tool.kind === 'builtin') {
      chooseTools(call, [name], () => `${path}.name`);
      continue;
    }
    const { kind: _, ...declared } = tool;
    // A run that is no turn does not have the tools of sessions.
    const taken = registry.find(name);
    const isTaken = taken !== undefined && taken.needsSession !== true;
    if (isTaken || name === handoffToolName || name in Object.prototype) {
      const why = isTaken ? 'a tool of the server has that name' : 'the name is reserved';
      throw invalidField(`${path}.name`, `A function cannot be named ${name}: ${why}`);
    }
    const [issue] = checkToolSchema(tool.inputSchema);
    if (issue !== undefined) {
      const within = issue.path === '' ? '' : `.${issue.path}`;
      throw invalidField(`${path}.inputSchema${within}`, issue.message);
    }
    functions.push(declared);
  }
  return { tools: tools.map(({ name }) => name), functions };
}

/** The malformed patterns in the permissions of a request. */
export async function faultsIn(permissions: Permissions): Promise<PatternFault[]> {
  return (await checkPermissionsInTurn(permissions)).map(({ path, message }) => ({
    path: `permissions.${path}`,
    message,
  }));
}

/** Rules that allow calls without an approval require the scope `approve`. */
export async function choosePermissions(
  call: ApiRequest,
  permissions: Permissions = {},
): Promise<Permissions> {
  const { allowlist = [], allowOnce = [] } = permissions;
  const allows = allowlist.length > 0 || allowOnce.length > 0;
  const { scopes, keyless } = call.caller;
  if (allows && (keyless !== undefined || !scopes.has('approve'))) {
    throw new RelayError(
      'approve_scope_required',
      'Rules that allow tools require a key with the scope approve',
    );
  }
  rejectInvalidPatterns(await faultsIn(permissions));
  return permissions;
}

const maxKeyChars = 255;

/** The header `Idempotency-Key`. */
export function idempotencyKeyOf({ request }: ApiRequest): string | undefined {
  const key = request.headers['idempotency-key'];
  if (key === undefined) return undefined;
  if (typeof key !== 'string' || key === '' || key.length > maxKeyChars) {
    throw invalidField('Idempotency-Key', `Must have 1 to ${maxKeyChars} characters`);
  }
  return key;
}

function idempotencyOf(call: StartRequest): Idempotency | undefined {
  const key = call.idempotencyKey ?? idempotencyKeyOf(call);
  if (key === undefined) return undefined;
  const { digest } = call.context.control.engine;
  const { params, body, request } = call;
  const route = request.routeOptions.url ?? '';
  const fingerprint = digest(
    canonicalJson({ route, ...defined({ params: params ?? undefined }), body }),
  );
  return { key, fingerprint };
}

/** The caller's span; a malformed header is ignored. */
function traceparentOf(call: ApiRequest): string | undefined {
  const { traceparent } = call.request.headers;
  if (typeof traceparent !== 'string') return undefined;
  return parseTraceparent(traceparent) === undefined ? undefined : traceparent;
}

/** Relates the run to the caller's own records. */
function correlationId(call: ApiRequest): string {
  const { headers } = call.request;
  const ids = [headers['x-request-id'], headers['idempotency-key']].flat();
  return (
    ids.find((id) => id !== undefined && id !== '' && id.length <= maxKeyChars) ?? call.request.id
  );
}
