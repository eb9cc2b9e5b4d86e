/**
 * Arguments that a person has changed. They are read by the tool's own schema and judged by the deny
 * rules before anything is decided, because what is approved here runs without being asked about
 * again; what refuses them leaves the relay as it was.
 */
import { canonicalJson, type Permissions, RelayError } from '@relay/protocol';
import type { Engine } from './engine.ts';
import { decide } from './permission/decide.ts';
import { policiesOf } from './permission/policy.ts';
import type { EditedCall, RelayRecord, TenantStore, Tool } from './ports.ts';
import { type Arguments, readArguments } from './run/arguments.ts';

interface Judged {
  readonly tool: Tool | undefined;
  readonly params: Arguments;
  readonly permissions: Permissions;
}

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
  const tool = engine.tools(store.tenantId).find(relay.tool);
  if (tool === undefined) {
    throw new RelayError(
      'tool_unavailable',
      `The arguments cannot be changed: there is no tool named ${relay.tool} to check them`,
    );
  }
  const params = readEdited(tool, input);
  await refuseDenied(edit, {
    tool,
    params,
    permissions: await permissionsOf(engine, store, relay.runId),
  });
  return { params, digest: digestOfCall(engine, { name: relay.tool, input: params }) };
}

function readEdited(tool: Tool, input: unknown): Arguments {
  const reading = readArguments(tool, input);
  if (reading.ok) return reading.input;
  throw new RelayError('tool_input_invalid', `input: ${reading.problem}`, {
    details: [{ path: 'input', message: reading.problem }],
  });
}

/** What is about to run must not be what a policy denies by now, however it was when it was asked. */
export async function refuseDeniedByPolicy(
  engine: Engine,
  store: TenantStore,
  relay: RelayRecord,
): Promise<void> {
  const { params } = relay;
  if (typeof params !== 'object' || params === null) return;
  const tool = engine.tools(store.tenantId).find(relay.tool);
  const judged = { tool, params: params as Arguments, permissions: {} };
  await refuseDenied({ store, relay, input: undefined }, judged);
}

async function refuseDenied(
  { store, relay }: Edit,
  { tool, params, permissions }: Judged,
): Promise<void> {
  const policies = await store.policies.inForce(relay.agentPath.at(-1) ?? '');
  const verdict = decide(
    { toolCallId: relay.toolCallId, name: relay.tool, arguments: params },
    {
      permissions,
      policies: policiesOf(policies),
      usedOnce: [],
      grants: [],
      builtinAllow: false,
      ...(tool?.kinds === undefined ? {} : { kinds: tool.kinds }),
    },
  );
  if (verdict.decision !== 'deny') return;
  const { list, index, source } = verdict.rule;
  const whose = source === 'policy' ? 'policy' : 'run';
  const why = verdict.reason === undefined ? '' : `: ${verdict.reason}`;
  throw new RelayError(
    'denied_by_rule',
    `A deny rule of the ${whose} refuses these arguments (${list}[${index}])${why}`,
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
  const [spec] = await store.readEvents(runId, { after: 0, limit: 1 });
  if (spec?.type === 'run.created') return spec.permissions;
  throw new RelayError('journal_corrupt', `The journal of run ${runId} has no beginning`);
}

/** What a decision is bound to: the tool and exactly these arguments. */
export function digestOfCall(
  engine: Pick<Engine, 'digest'>,
  call: { readonly name: string; readonly input: unknown },
): string {
  return engine.digest(canonicalJson({ tool: call.name, input: call.input }));
}
