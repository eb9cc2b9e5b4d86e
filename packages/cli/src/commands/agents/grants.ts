import { didYouMean } from '@relay/protocol/display';
import { type GrantScope, grantScopes } from '@relay/protocol/wire';
import type { Grant, GrantBody, RelayClient } from '@relay/sdk';
import { Option } from 'commander';
import { type CliCommand, type Context, pageSize, takeCounted } from '../../command.ts';
import { usageError } from '../../errors.ts';
import { collect, count, futureTime, jsonObject } from '../../options.ts';

interface RuleOptions {
  readonly param?: readonly string[];
  readonly exact?: Record<string, unknown>;
  readonly scope: GrantScope;
  readonly scopeId?: string;
  readonly expires?: string;
  readonly uses?: number;
}

export function registerGrants(program: CliCommand): void {
  const grants = program
    .command('grants')
    .description('manage rules that allow calls without approval')
    .examples(['relay grants list', 'relay grants revoke GRANT_ID']);
  grants
    .command('list')
    .description('list active grants, newest first')
    .option('--all', 'include revoked, expired and used-up grants')
    .option('--tool <name>', 'only grants for this tool')
    .addOption(new Option('--scope <scope>', 'only grants with this scope').choices(grantScopes))
    .option('--limit <n>', 'maximum number of results', count, 20)
    .examples(['relay grants list --tool send_note'])
    .handle(listGrants);
  withRule(grants.command('add <tool>').description('allow calls of a tool without approval'))
    .examples([
      'relay grants add send_note --param to=operator --scope tenant --expires 30d',
      `relay grants add read --param 'filePath=src/**/*.ts' --scope tenant`,
    ])
    .handle(addGrant);
  withRule(
    grants
      .command('preview <tool>')
      .description('list recent approvals that such a grant would have made unnecessary'),
  )
    .examples(['relay grants preview send_note --param to=operator'])
    .handle(previewGrant);
  grants
    .command('revoke [grants...]')
    .description('revoke grants; their calls need approval again')
    .examples(['relay grants revoke GRANT_ID'])
    .handle(revokeGrants);
}

function withRule(command: CliCommand): CliCommand {
  return command
    .option('--param <name=pattern>', 'pattern that a parameter must match (repeatable)', collect)
    .option('--exact <json>', 'exact arguments', jsonObject)
    .addOption(
      new Option('--scope <scope>', 'scope of the grant').choices(grantScopes).default('tenant'),
    )
    .option('--scope-id <id>', 'id of the run, conversation or session')
    .option('--uses <n>', 'maximum number of calls', count)
    .option('--expires <time>', 'expiry: a date, or 12h, 30d', futureTime);
}

/** `name=value` pairs as an object. */
export function patternsOf(pairs: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    pairs.map((pair) => {
      const at = pair.indexOf('=');
      if (at < 1) throw usageError(`"${pair}" must be NAME=VALUE`);
      return [pair.slice(0, at), pair.slice(at + 1)];
    }),
  );
}

/** A rule in one line. */
export function ruleText({
  tool,
  params,
  exact,
}: Pick<Grant, 'tool' | 'params' | 'exact'>): string {
  if (exact !== undefined) return `${tool} exactly ${JSON.stringify(exact)}`;
  return params === undefined ? `${tool} (every call)` : `${tool} ${JSON.stringify(params)}`;
}

function ruleOf(tool: string, options: RuleOptions): GrantBody {
  const { param, exact, scope, scopeId, expires, uses } = options;
  if (param !== undefined && exact !== undefined) {
    throw usageError('Use either --param or --exact, not both');
  }
  if ((scope === 'tenant') !== (scopeId === undefined)) {
    throw usageError(
      '--scope-id is required with --scope run, conversation or session, and only then',
    );
  }
  return {
    tool,
    scope,
    params: param === undefined ? undefined : patternsOf(param),
    exact: exact as GrantBody['exact'],
    scopeId,
    expiresAt: expires,
    uses,
  };
}

interface ListOptions {
  readonly all?: boolean;
  readonly tool?: string;
  readonly scope?: GrantScope;
  readonly limit: number;
}

async function listGrants(context: Context<ListOptions>): Promise<void> {
  const { all, tool, scope, limit } = context.options;
  const { grants } = await context.client();
  const query = {
    status: all === true ? ('all' as const) : ('active' as const),
    tool,
    scope,
    limit: pageSize(limit),
  };
  context.print.list(
    await takeCounted(grants.list(query), limit),
    [
      { title: 'grant', value: ({ id }) => id, id: true },
      { title: 'status', value: ({ status }) => status, status: true },
      { title: 'scope', value: ({ scope }) => scope },
      { title: 'uses left', value: ({ usesLeft }) => usesLeft, minor: true },
      { title: 'expires', value: ({ expiresAt }) => expiresAt, time: true },
      { title: 'by', value: ({ createdBy }) => createdBy.name, minor: true },
      { title: 'rule', value: ruleText },
    ],
    'No active grants.',
  );
}

async function addGrant(
  context: Context<RuleOptions>,
  [tool = '']: readonly string[],
): Promise<void> {
  const client = await context.client();
  const grant = await client.grants.create(ruleOf(tool, context.options));
  context.print.result(grant, `Grant ${grant.id} allows ${ruleText(grant)}`);
  await noteNoEffect(context, client, tool);
}

/** A grant can also be for a tool that only a caller, an agent or a session has. */
async function noteNoEffect({ print }: Context, client: RelayClient, name: string): Promise<void> {
  // The command has succeeded, whether or not this works.
  const tools = await client.tools().then(
    (listed) => listed.tools,
    () => undefined,
  );
  if (tools === undefined) return;
  const tool = tools.find((each) => each.name === name);
  if (tool?.needsApproval === true) {
    print.note(`${name} declares needsApproval: each call needs an approval, whatever is granted.`);
  }
  if (tool !== undefined || /[:.]/.test(name)) return;
  const names = tools.map((each) => each.name);
  print.note(`The server has no tool named ${name}${didYouMean(name, names) || '.'}`);
}

async function previewGrant(context: Context<RuleOptions>, [tool = '']: readonly string[]) {
  const client = await context.client();
  const preview = await client.grants.preview(ruleOf(tool, context.options));
  if (context.print.json) {
    context.print.value(preview);
    return;
  }
  context.print.note(
    `It would have allowed ${preview.matched} of the last ${preview.looked} requests.`,
  );
  await noteNoEffect(context, client, tool);
  context.print.list(preview.calls, [
    { title: 'approval', value: ({ approvalId }) => approvalId, id: true },
    { title: 'status', value: ({ status }) => status, status: true },
    { title: 'requested', value: ({ requestedAt }) => requestedAt, time: true },
    { title: 'request', value: ({ tool, params }) => `${tool} ${JSON.stringify(params)}` },
  ]);
}

async function revokeGrants(context: Context, given: readonly string[]): Promise<void> {
  const ids = await context.ids('grant', given);
  const { grants } = await context.client();
  for (const id of ids) {
    await grants.revoke(id);
    context.print.result({ id, status: 'revoked' }, `Revoked ${id}.`);
  }
}
