import type { NewPolicy, Policy, PolicyPreview } from '@relay/sdk';
import { type CliCommand, type Context, pageSize, takeCounted } from '../../command.ts';
import { readDocument } from '../../input.ts';
import { CliError, exitCodes, usageError } from '../../errors.ts';
import { count, pastTime } from '../../options.ts';
import { formatTime } from '../../output/table.ts';
import { ruleText } from '../agents/grants.ts';
import { relay } from '../../environment.ts';

const lists = ['deny', 'ask', 'allow', 'approvers'] as const;

export function registerPolicy(program: CliCommand): void {
  const policy = program
    .command('policy')
    .description('manage the permission policy of the tenant')
    .examples([
      'relay policy show --json > policy.json',
      'relay policy preview policy.json',
      'relay policy set policy.json',
    ]);
  policy
    .command('show')
    .description('show the current policy, or an earlier version')
    .option('--agent <agent>', 'the policy of this agent')
    .option('--at-version <n>', 'show this version', count)
    .examples(['relay policy show', 'relay policy show --agent clerk --at-version 3'])
    .handle(showPolicy);
  policy
    .command('set [file]')
    .description('replace the policy, from a JSON file or standard input')
    .option('--agent <agent>', 'the policy of this agent')
    .option(
      '--if-version <n>',
      'fail if the current version differs (default: the version in the file)',
      wholeNumber,
    )
    .examples(
      ['relay policy set policy.json', `echo '{"deny": [{"tool": "bash"}]}' | relay policy set`],
      documentHelp,
    )
    .handle(setPolicy);
  policy
    .command('preview [file]')
    .description('list recent calls that the policy would decide differently; changes nothing')
    .option('--agent <agent>', 'the policy of this agent')
    .option('--since <time>', 'start time: a date, or 12h, 7d ago (default: 7d)', pastTime)
    .examples(['relay policy preview policy.json --since 30d'], documentHelp)
    .handle(previewPolicy);
  policy
    .command('history')
    .description('list all versions of the policy, newest first')
    .option('--agent <agent>', 'the policy of this agent')
    .option('--limit <n>', 'maximum number of results', count, 20)
    .examples(['relay policy history'])
    .handle(showHistory);
}

const documentHelp = `A document is the output of "relay policy show --json", or only rules:
  {"deny": [{"tool": "bash", "params": {"command": "rm *"}}], "ask": []}`;

function wholeNumber(text: string): number {
  return text === '0' ? 0 : count(text);
}

interface AgentOption {
  readonly agent?: string;
}

const agentText = ({ agent }: { agent?: string | undefined }) =>
  agent === undefined ? 'all agents' : `agent ${agent}`;

async function showPolicy(context: Context<AgentOption & { atVersion?: number }>): Promise<void> {
  const { agent, atVersion: version } = context.options;
  const client = await context.client();
  const policy =
    version === undefined
      ? await client.policy.get({ agent })
      : await versionOf(client.policy.versions({ agent, limit: 200 }), version);
  if (context.print.json) {
    context.print.value(policy);
    return;
  }
  const by = policy.updatedBy === undefined ? '' : ` by ${policy.updatedBy.name}`;
  const since =
    policy.updatedAt === undefined ? '' : `, since ${formatTime(policy.updatedAt)}${by}`;
  context.print.note(`Version ${policy.version} for ${agentText(policy)}${since}`);
  context.print.list(
    lists.flatMap((list) => policy[list].map((rule) => ({ list, rule }))),
    [
      { title: 'list', value: ({ list }) => list, status: true },
      { title: 'rule', value: ({ rule }) => `${ruleText(rule)}${approversText(rule)}` },
    ],
    'The policy has no rules.',
  );
}

type ApproverRule = Policy['approvers'][number];

function approversText(rule: Policy['deny'][number] | ApproverRule): string {
  if (!('quorum' in rule)) return '';
  const { agent, quorum, notRequester } = rule;
  const parts = [
    `${quorum} of ${approverNames(rule)}`,
    ...(notRequester ? ['not the requester'] : []),
    ...(agent === undefined ? [] : [`for agent ${agent}`]),
  ];
  return `: ${parts.join(', ')}`;
}

/** Who may decide. */
export function approverNames({
  roles,
  groups,
  keys,
}: Pick<ApproverRule, 'roles' | 'groups' | 'keys'>): string {
  if (roles !== undefined) return `role ${roles.join(' or ')}`;
  if (groups !== undefined) return `group ${groups.join(' or ')}`;
  if (keys !== undefined) return `key ${keys.join(' or ')}`;
  return 'everyone who may approve';
}

async function versionOf(versions: AsyncIterable<Policy>, wanted: number): Promise<Policy> {
  for await (const policy of versions) {
    if (policy.version === wanted) return policy;
    if (policy.version < wanted) break;
  }
  const hint = `see "${relay} policy history"`;
  const options = { exit: exitCodes.notFound, hint };
  throw new CliError('not_found', `No such version: ${wanted}`, options);
}

interface SetOptions extends AgentOption {
  readonly ifVersion?: number;
}

async function setPolicy(context: Context<SetOptions>, [file]: readonly string[]): Promise<void> {
  const draft = await draftOf(context, file);
  const { policy } = await context.client();
  const now = await policy.get({ agent: draft.agent });
  const version = context.options.ifVersion ?? draft.version ?? now.version;
  const { print } = context;
  if (version === now.version && version > 0 && sameRules(draft, now)) {
    print.result(now, `Version ${version} for ${agentText(now)} has not changed.`);
    return;
  }
  const created = await policy.put({ ...draft, version });
  const counts = lists.map((list) => `${created[list].length} ${list}`).join(', ');
  print.result(
    created,
    `Version ${created.version} is active for ${agentText(created)}: ${counts}.`,
  );
}

type Draft = Omit<NewPolicy, 'version'> & { readonly version?: number };

/** Fields of a stored policy that are accepted, so that the output of `show` can be sent back. */
const ignored = ['updatedAt', 'updatedBy'];
const known = [...lists, 'agent', 'version', ...ignored];

async function draftOf(context: Context<AgentOption>, file: string | undefined): Promise<Draft> {
  const document = await readDocument(context.environment, file);
  const unknown = Object.keys(document).filter((name) => !known.includes(name));
  if (unknown.length > 0) {
    throw usageError(`Unknown field "${unknown.join('", "')}"`, `a policy has ${known.join(', ')}`);
  }
  if (!lists.some((list) => document[list] !== undefined)) {
    throw usageError('The document has no rules', 'use {"deny": []} for a policy without rules');
  }
  const { agent: named } = context.options;
  const { agent: own = named } = document;
  if (own !== undefined && (typeof own !== 'string' || own !== (named ?? own))) {
    const other = `The document is for the agent ${JSON.stringify(own)}`;
    throw usageError(named === undefined ? other : `${other}, not for ${named}`);
  }
  const rules = Object.entries(document).filter(([name]) => !ignored.includes(name));
  // The server validates the rules.
  return { ...Object.fromEntries(rules), agent: own };
}

function sameRules(draft: Draft, policy: Policy): boolean {
  return lists.every((list) => JSON.stringify(draft[list] ?? []) === JSON.stringify(policy[list]));
}

async function previewPolicy(
  context: Context<AgentOption & { since?: string }>,
  [file]: readonly string[],
): Promise<void> {
  const { version: _, ...rules } = await draftOf(context, file);
  const { since } = context.options;
  const { policy } = await context.client();
  const preview = await policy.preview({ ...rules, since });
  const { print } = context;
  if (print.json) {
    print.value(preview);
    return;
  }
  print.note(previewText(preview));
  print.list(preview.changes, [
    { title: 'run', value: ({ runId }) => runId },
    { title: 'at', value: ({ at }) => at, time: true, minor: true },
    { title: 'was', value: ({ was }) => was, status: true },
    { title: 'now', value: ({ now }) => now, status: true },
    { title: 'call', value: ({ tool, params }) => `${tool} ${JSON.stringify(params)}` },
  ]);
}

function previewText({ changed, changes, calls, since, complete }: PolicyPreview): string {
  const checked = `${calls} calls since ${formatTime(since)}${complete ? '' : ' (more exist)'}`;
  const shown = changed > changes.length ? `; the last ${changes.length}:` : '.';
  return `${changed} of ${checked} would be decided differently${shown}`;
}

async function showHistory(context: Context<AgentOption & { limit: number }>): Promise<void> {
  const { agent, limit } = context.options;
  const { policy } = await context.client();
  const versions = policy.versions({ agent, limit: pageSize(limit) });
  context.print.list(
    await takeCounted(versions, limit),
    [
      { title: 'version', value: ({ version }) => version },
      { title: 'since', value: ({ updatedAt }) => updatedAt, time: true },
      ...lists.map((list) => ({ title: list, value: (each: Policy) => each[list].length })),
      { title: 'by', value: ({ updatedBy }) => updatedBy?.name },
    ],
    'The policy has no versions yet.',
  );
}
