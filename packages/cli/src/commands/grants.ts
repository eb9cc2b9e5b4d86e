import type { GrantBody } from '@relay/sdk';
import type { Command } from 'commander';
import { Option } from 'commander';
import { acting, type Call } from '../call.ts';
import { usageError } from '../failures.ts';
import { collect, count, examples, jsonObject, moment } from '../help.ts';
import { pageSize, take } from '../lists.ts';
import { patternsOf } from '../patterns.ts';
import { ruleText } from '../rules.ts';
import type { World } from '../world.ts';

const scopes = ['run', 'conversation', 'tenant'] as const;

interface RuleOptions {
  readonly param?: readonly string[];
  readonly exact?: Record<string, unknown>;
  readonly scope: (typeof scopes)[number];
  readonly scopeId?: string;
  readonly expires?: string;
  readonly uses?: number;
}

export function registerGrants(program: Command, world: World): void {
  const grants = program.command('grants').description('what may run without asking');
  examples(grants, ['relay grants list', 'relay grants revoke GRANT_ID']);
  const list = grants
    .command('list')
    .description('grants that hold, newest first')
    .option('--all', 'also what was revoked, has expired or is used up')
    .option('--tool <name>', 'only of this tool')
    .addOption(new Option('--scope <scope>', 'only of this scope').choices(scopes))
    .option('--limit <n>', 'how many at most', count, 20)
    .action(acting(world, listGrants));
  examples(list, ['relay grants list --tool send_note']);
  const add = withRule(
    grants.command('add <tool>').description('let calls of a tool run without asking'),
  ).action(acting(world, addGrant));
  examples(add, [
    'relay grants add send_note --param to=operator --scope tenant --expires 30d',
    `relay grants add read --param 'filePath=src/**/*.ts' --scope tenant`,
  ]);
  const preview = withRule(
    grants
      .command('preview <tool>')
      .description('which of the latest requests such a grant would have answered'),
  ).action(acting(world, previewGrant));
  examples(preview, ['relay grants preview send_note --param to=operator']);
  const revoke = grants
    .command('revoke <grants...>')
    .description('ask about it again')
    .action(acting(world, revokeGrants));
  examples(revoke, ['relay grants revoke GRANT_ID']);
}

function withRule(command: Command): Command {
  return command
    .option('--param <name=pattern>', 'a parameter must match this pattern (repeatable)', collect)
    .option('--exact <json>', 'these arguments to the letter', jsonObject)
    .addOption(new Option('--scope <scope>', 'where it holds').choices(scopes).default('tenant'))
    .option('--scope-id <id>', 'the run or the conversation')
    .option('--uses <n>', 'for how many calls', count)
    .option('--expires <time>', 'until when: a date, or 12h, 30d', moment);
}

function ruleOf(tool: string, options: RuleOptions): GrantBody {
  const { param, exact, scope, scopeId, expires, uses } = options;
  if (param !== undefined && exact !== undefined) {
    throw usageError('Either --param or --exact says which calls are meant, not both');
  }
  if ((scope === 'tenant') !== (scopeId === undefined)) {
    throw usageError('--scope-id names the run or the conversation of --scope, and only that');
  }
  return {
    tool,
    scope,
    ...(param === undefined ? {} : { params: patternsOf(param) }),
    ...(exact === undefined ? {} : { exact: exact as NonNullable<GrantBody['exact']> }),
    ...(scopeId === undefined ? {} : { scopeId }),
    ...(expires === undefined ? {} : { expiresAt: expires }),
    ...(uses === undefined ? {} : { uses }),
  };
}

interface ListOptions {
  readonly all?: boolean;
  readonly tool?: string;
  readonly scope?: (typeof scopes)[number];
  readonly limit: number;
}

async function listGrants(call: Call<ListOptions>): Promise<void> {
  const { all, tool, scope, limit } = call.options;
  const { grants } = await call.client();
  const query = {
    status: all === true ? ('all' as const) : ('active' as const),
    ...(tool === undefined ? {} : { tool }),
    ...(scope === undefined ? {} : { scope }),
    limit: pageSize(limit),
  };
  call.print.list(
    await take(grants.list(query), limit),
    [
      { title: 'grant', of: ({ id }) => id },
      { title: 'status', of: ({ status }) => status, status: true },
      { title: 'scope', of: ({ scope }) => scope },
      { title: 'uses left', of: ({ usesLeft }) => usesLeft, minor: true },
      { title: 'expires', of: ({ expiresAt }) => expiresAt, time: true },
      { title: 'by', of: ({ createdBy }) => createdBy.name, minor: true },
      { title: 'rule', of: ruleText },
    ],
    'Nothing runs without asking.',
  );
}

async function addGrant(call: Call<RuleOptions>, [tool = '']: readonly string[]): Promise<void> {
  const { grants } = await call.client();
  const grant = await grants.create(ruleOf(tool, call.options));
  if (call.print.json) call.print.value(grant);
  else call.print.say(`${ruleText(grant)} runs without asking: grant ${grant.id}`);
}

async function previewGrant(call: Call<RuleOptions>, [tool = '']: readonly string[]) {
  const { grants } = await call.client();
  const preview = await grants.preview(ruleOf(tool, call.options));
  if (call.print.json) {
    call.print.value(preview);
    return;
  }
  call.print.note(
    `It would have answered ${preview.matched} of the last ${preview.looked} requests.`,
  );
  if (preview.calls.length === 0) return;
  call.print.list(
    preview.calls,
    [
      { title: 'approval', of: ({ approvalId }) => approvalId },
      { title: 'status', of: ({ status }) => status, status: true },
      { title: 'raised', of: ({ requestedAt }) => requestedAt, time: true },
      { title: 'request', of: ({ tool, params }) => `${tool} ${JSON.stringify(params)}` },
    ],
    '',
  );
}

async function revokeGrants(call: Call, ids: readonly string[]): Promise<void> {
  const { grants } = await call.client();
  for (const id of ids) {
    await grants.revoke(id);
    if (call.print.json) call.print.value({ id, status: 'revoked' });
    else call.print.say(`${id} is revoked.`);
  }
}
