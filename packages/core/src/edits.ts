/**
 * Arguments that a person has changed. They are read by the tool's own schema and judged by the deny
 * rules before anything is decided, because what is approved here runs without being asked about
 * again; what refuses them leaves the relay as it was.
 */
import { canonicalJson, type EventOf, type Permissions, RelayError } from '@relay/protocol';
import type { Engine } from './engine.ts';
import { decide } from './permission/decide.ts';
import type { EditedCall, RelayRecord, TenantStore, Tool } from './ports.ts';
import { type Arguments, readArguments } from './run/arguments.ts';
import { clientTool } from './run/client-tool.ts';

interface Edit {
  readonly store: TenantStore;
  readonly relay: RelayRecord;
  readonly input: unknown;
}

/** Who sends back what was shown has changed nothing. */
export function isUnchanged(relay: RelayRecord, input: unknown): boolean {
  return canonicalJson(input) === canonicalJson(relay.params);
}

/** What will run instead; undefined if nothing was changed. */
export async function editedCall(engine: Engine, edit: Edit): Promise<EditedCall | undefined> {
  const { store, relay, input } = edit;
  if (input === undefined || relay.kind !== 'permission' || isUnchanged(relay, input)) {
    return undefined;
  }
  const tool = await toolOf(engine, store, relay);
  if (tool === undefined) {
    throw new RelayError(
      'tool_unavailable',
      `The arguments cannot be changed: there is no tool named ${relay.tool} to check them`,
    );
  }
  const params = readEdited(tool, input);
  await refuseDenied(engine, edit, { tool, params });
  return { params, digest: digestOfCall(engine, { name: relay.tool, input: params }) };
}

/** One of the tenant's, or the caller's own function. */
async function toolOf(
  engine: Engine,
  store: TenantStore,
  { tool, runId }: RelayRecord,
): Promise<Tool | undefined> {
  const { functions = [] } = await specOf(store, runId);
  const own = functions.find(({ name }) => name === tool);
  return own === undefined ? engine.tools(store.tenantId).find(tool) : clientTool(own);
}

function readEdited(tool: Tool, input: unknown): Arguments {
  const reading = readArguments(tool, input);
  if (reading.ok) return reading.input;
  throw new RelayError('tool_input_invalid', `input: ${reading.problem}`, {
    details: [{ path: 'input', message: reading.problem }],
  });
}

async function refuseDenied(
  engine: Engine,
  { store, relay }: Edit,
  { tool, params }: { tool: Tool; params: Arguments },
): Promise<void> {
  const verdict = decide(
    { toolCallId: relay.toolCallId, name: relay.tool, arguments: params },
    {
      permissions: await permissionsOf(engine, store, relay.runId),
      usedOnce: [],
      grants: [],
      builtinAllow: false,
      ...(tool.kinds === undefined ? {} : { kinds: tool.kinds }),
    },
  );
  if (verdict.decision !== 'deny') return;
  const { list, index } = verdict.rule;
  const why = verdict.reason === undefined ? '' : `: ${verdict.reason}`;
  throw new RelayError(
    'denied_by_rule',
    `A deny rule of the run refuses these arguments (${list}[${index}])${why}`,
    { details: [{ path: 'input', message: `Denied by ${list}[${index}]` }] },
  );
}

/** The rules that a run was started with, or those of the program that it runs in. */
async function permissionsOf(
  engine: Engine,
  store: TenantStore,
  runId: string,
): Promise<Permissions> {
  const program = engine.rules?.({ tenantId: store.tenantId, runId });
  if (program !== undefined) return program.current();
  return (await specOf(store, runId)).permissions;
}

async function specOf(store: TenantStore, runId: string): Promise<EventOf<'run.created'>> {
  const [spec] = await store.readEvents(runId, { after: 0, limit: 1 });
  if (spec?.type === 'run.created') return spec;
  throw new RelayError('journal_corrupt', `The journal of run ${runId} has no beginning`);
}

/** What a decision is bound to: the tool and exactly these arguments. */
export function digestOfCall(
  engine: Pick<Engine, 'digest'>,
  call: { readonly name: string; readonly input: unknown },
): string {
  return engine.digest(canonicalJson({ tool: call.name, input: call.input }));
}
