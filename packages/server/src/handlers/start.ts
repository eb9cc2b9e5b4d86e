/** What all surfaces that start runs have in common. */
import { checkPermissions, type RunRequest, startRun } from '@relay/core';
import { type Permissions, RelayError } from '@relay/protocol';
import { closedSignal } from '../event-stream.ts';
import { followRun } from '../subscribe.ts';
import type { Call } from './handler.ts';

export const defaultAgent = 'assistant';
export const defaultMaxIterations = 50;

/** The model to use, or a clear 400 before any stream has started. */
export function chooseModel(call: Call, wanted: string | undefined, missing: string): string {
  const model = wanted ?? call.context.config.defaultModel;
  if (model === undefined) {
    throw new RelayError('invalid_request', missing, {
      details: [{ path: 'model', message: 'Required' }],
    });
  }
  if (call.context.control.engine.models(call.caller.tenantId).resolve(model) === undefined) {
    throw new RelayError('unknown_model', `No provider offers the model ${model}`, {
      details: [{ path: 'model', message: 'Unknown model' }],
    });
  }
  return model;
}

/** Names of tools that the tenant has; all of them if none are named. `within` ends a field's path. */
export function chooseTools(
  call: Call,
  wanted: readonly string[] | undefined,
  within = '',
): string[] {
  const registry = call.context.control.engine.tools(call.caller.tenantId);
  if (wanted === undefined) return registry.list().map((tool) => tool.name);
  for (const [index, name] of wanted.entries()) {
    if (wanted.indexOf(name) !== index) {
      throw new RelayError('invalid_request', `The tool ${name} is named twice`, {
        details: [{ path: `tools[${index}]${within}`, message: 'Named twice' }],
      });
    }
    if (registry.find(name) === undefined) {
      throw new RelayError('unknown_tool', `There is no tool named ${name}`, {
        details: [{ path: `tools[${index}]${within}`, message: 'Unknown tool' }],
      });
    }
  }
  return [...wanted];
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

type Request = Omit<RunRequest, 'runId' | 'tenantId' | 'correlationId'>;

/** Listens first and starts then: a new run is followed without asking the store. */
export async function startAndFollow(call: Call, request: Request) {
  const { control, hub, store } = call.context;
  const { tenantId } = call.caller;
  const runId = control.engine.ids.next();
  const batches = followRun(
    { store: store.tenant(tenantId), hub, runId },
    { after: 0, follow: true, signal: closedSignal(call.reply.raw), isNew: true },
  );
  const run = await startRun(control, {
    ...request,
    runId,
    tenantId,
    correlationId: correlationId(call),
  });
  call.reply.header('x-run-id', runId);
  return { run, batches };
}

/** What ties this request to the caller's own records. */
function correlationId(call: Call): string {
  const { headers } = call.request;
  const given = headers['x-request-id'] ?? headers['idempotency-key'];
  const id = Array.isArray(given) ? given[0] : given;
  return id === undefined || id === '' || id.length > 255
    ? call.context.control.engine.ids.next()
    : id;
}
