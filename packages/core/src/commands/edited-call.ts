/**
 * Arguments that a person has changed. They are read by the tool's own schema and judged by the deny
 * rules before anything is decided, because what is approved here runs without being asked about
 * again; what refuses them leaves the approval as it was.
 */
import { canonicalJson, type EventOf, type Permissions, RelayError } from '@relay/protocol';
import type { Engine } from '../engine.ts';
import { decide, declaredBy } from '../permission/decide.ts';
import { policiesOf } from '../permission/policy.ts';
import type {
  EditedCall,
  ResolvedPaths,
  ApprovalRecord,
  TenantStore,
  Tool,
} from '../ports/index.ts';
import { type Arguments, readArguments } from '../run/arguments.ts';
import { clientTool } from '../run/waiting/client-tool.ts';
import { locate } from '../run/locate.ts';

interface Judged {
  readonly tool: Tool | undefined;
  readonly params: Arguments;
  readonly resolvedPaths: ResolvedPaths | undefined;
  readonly permissions: Permissions;
}

interface Edit {
  readonly store: TenantStore;
  readonly approval: ApprovalRecord;
  readonly input: unknown;
}

/** Who sends back what was shown has changed nothing. */
export function isUnchanged(approval: ApprovalRecord, input: unknown): boolean {
  return canonicalJson(input) === canonicalJson(approval.params);
}

/** What will run instead; undefined if nothing was changed. */
export async function editedCall(engine: Engine, edit: Edit): Promise<EditedCall | undefined> {
  const { store, approval, input } = edit;
  if (input === undefined || approval.kind !== 'permission' || isUnchanged(approval, input)) {
    return undefined;
  }
  const tool = await toolOf(engine, store, approval);
  if (tool === undefined) {
    throw new RelayError(
      'tool_unavailable',
      `The arguments cannot be changed: there is no tool named ${approval.tool} to check them`,
    );
  }
  const params = readEdited(tool, input);
  const looking = await locate(tool, params);
  if (!looking.ok) throw invalid(looking.problem);
  const { resolvedPaths } = looking;
  const permissions = await permissionsOf(engine, store, approval.runId);
  await refuseDenied(edit, { tool, params, resolvedPaths, permissions });
  const paths = resolvedPaths === undefined ? {} : { resolvedPaths: resolvedPaths.paths };
  const digest = digestOfCall(engine, { name: approval.tool, input: params, ...paths });
  return { params, ...paths, digest };
}

/** One of the tenant's, or the caller's own function. */
async function toolOf(
  engine: Engine,
  store: TenantStore,
  { tool, runId }: ApprovalRecord,
): Promise<Tool | undefined> {
  const { functions = [] } = await specOf(store, runId);
  const own = functions.find(({ name }) => name === tool);
  return own === undefined ? engine.tools(store.tenantId).find(tool) : clientTool(own);
}

function readEdited(tool: Tool, input: unknown): Arguments {
  const reading = readArguments(tool, input);
  if (reading.ok) return reading.input;
  throw invalid(reading.problem);
}

function invalid(problem: string): RelayError {
  return new RelayError('tool_input_invalid', `input: ${problem}`, {
    details: [{ path: 'input', message: problem }],
  });
}

/** What is about to run must not be what a policy denies by now, however it was when it was asked. */
export async function refuseDeniedByPolicy(
  engine: Engine,
  store: TenantStore,
  approval: ApprovalRecord,
): Promise<void> {
  const { params } = approval;
  if (typeof params !== 'object' || params === null) return;
  // A function of the caller's declares nothing that a rule would read in another way.
  const tool = engine.tools(store.tenantId).find(approval.tool);
  const looking = tool === undefined ? undefined : await locate(tool, params);
  const resolvedPaths = looking?.ok === true ? looking.resolvedPaths : undefined;
  const judged = { tool, params: params as Arguments, resolvedPaths, permissions: {} };
  await refuseDenied({ store, approval, input: undefined }, judged);
}

async function refuseDenied(
  { store, approval }: Edit,
  { tool, params, resolvedPaths, permissions }: Judged,
): Promise<void> {
  const policies = await store.policies.inForce(approval.agentPath.at(-1) ?? '');
  const verdict = decide(
    { toolCallId: approval.toolCallId, name: approval.tool, arguments: params },
    {
      permissions,
      policies: policiesOf(policies),
      usedOnce: [],
      grants: [],
      builtinAllow: false,
      ...declaredBy(tool, resolvedPaths),
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
  return (await specOf(store, runId)).permissions;
}

async function specOf(store: TenantStore, runId: string): Promise<EventOf<'run.created'>> {
  const [spec] = await store.readEvents(runId, { after: 0, limit: 1 });
  if (spec?.type === 'run.created') return spec;
  throw new RelayError('journal_corrupt', `The journal of run ${runId} has no beginning`);
}

interface DigestedCall {
  readonly name: string;
  readonly input: unknown;
  readonly resolvedPaths?: Readonly<Record<string, string>> | undefined;
}

/** What a decision is bound to: the tool, exactly these arguments, and where its paths lead. */
export function digestOfCall(
  engine: Pick<Engine, 'digest'>,
  { name, input, resolvedPaths }: DigestedCall,
): string {
  const paths = resolvedPaths === undefined ? {} : { resolvedPaths };
  return engine.digest(canonicalJson({ tool: name, input, ...paths }));
}
