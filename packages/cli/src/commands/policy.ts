import type { NewPolicy, Policy, PolicyPreview } from '@relay/sdk';
import type { Command } from 'commander';
import { acting, type Call } from '../call.ts';
import { readDocument } from '../documents.ts';
import { CliError, exitCodes, usageError } from '../failures.ts';
import { count, examples, past } from '../help.ts';
import { pageSize, take } from '../lists.ts';
import { when } from '../table.ts';
import { ruleText } from '../rules.ts';
import type { World } from '../world.ts';

const lists = ['deny', 'ask', 'allow'] as const;

export function registerPolicy(program: Command, world: World): void {
  const policy = program.command('policy').description('the standing rules of the tenant');
  examples(policy, [
    'relay policy show --json > policy.json',
    'relay policy preview policy.json',
    'relay policy set policy.json',
  ]);
  const show = policy
    .command('show')
    .description('the rules as they are, or as they were')
    .option('--agent <name>', 'those for this agent alone')
    .option('--at-version <n>', 'as they were in this version', count)
    .action(acting(world, showPolicy));
  examples(show, ['relay policy show', 'relay policy show --agent clerk --at-version 3']);
  const set = policy
    .command('set [file]')
    .description('replace the rules by those of a JSON file, or of standard input')
    .option('--agent <name>', 'for this agent alone')
    .option(
      '--if-version <n>',
      'only if they are still at this version (or as the file says)',
      whole,
    )
    .action(acting(world, setPolicy));
  examples(
    set,
    ['relay policy set policy.json', `echo '{"deny": [{"tool": "bash"}]}' | relay policy set`],
    { after: document },
  );
  const preview = policy
    .command('preview [file]')
    .description('which recent calls such rules would have decided otherwise; changes nothing')
    .option('--agent <name>', 'for this agent alone')
    .option('--since <time>', 'calls since: a date, or 12h, 7d (default: 7d)', past)
    .action(acting(world, previewPolicy));
  examples(preview, ['relay policy preview policy.json --since 30d'], { after: document });
  const history = policy
    .command('history')
    .description('every version of the rules, newest first')
    .option('--agent <name>', 'of those for this agent alone')
    .option('--limit <n>', 'how many at most', count, 20)
    .action(acting(world, showHistory));
  examples(history, ['relay policy history']);
}

const document = `A document has what "relay policy show --json" prints, or just rules:
  {"deny": [{"tool": "bash", "params": {"command": "rm *"}}], "ask": []}`;

function whole(text: string): number {
  return text === '0' ? 0 : count(text);
}

interface AgentOption {
  readonly agent?: string;
}

const ofAgent = (agent: string | undefined) => (agent === undefined ? {} : { agent });
const forWhom = ({ agent }: { agent?: string | undefined }) =>
  agent === undefined ? 'all agents' : `agent ${agent}`;

async function showPolicy(call: Call<AgentOption & { atVersion?: number }>): Promise<void> {
  const { agent, atVersion: version } = call.options;
  const client = await call.client();
  const policy =
    version === undefined
      ? await client.policy.get(ofAgent(agent))
      : await versionOf(client.policy.versions({ ...ofAgent(agent), limit: 200 }), version);
  if (call.print.json) {
    call.print.value(policy);
    return;
  }
  const by = policy.updatedBy === undefined ? '' : ` by ${policy.updatedBy.name}`;
  const since = policy.updatedAt === undefined ? '' : `, since ${when(policy.updatedAt)}${by}`;
  call.print.note(`Version ${policy.version} for ${forWhom(policy)}${since}`);
  call.print.list(
    lists.flatMap((list) => policy[list].map((rule) => ({ list, rule }))),
    [
      { title: 'list', of: ({ list }) => list, status: true },
      { title: 'rule', of: ({ rule }) => ruleText(rule) },
    ],
    'There are no standing rules.',
  );
}

async function versionOf(versions: AsyncIterable<Policy>, wanted: number): Promise<Policy> {
  for await (const policy of versions) {
    if (policy.version === wanted) return policy;
    if (policy.version < wanted) break;
  }
  const hint = '"relay policy history" lists them';
  const options = { exit: exitCodes.notFound, hint };
  throw new CliError('not_found', `There is no version ${wanted}`, options);
}

interface SetOptions extends AgentOption {
  readonly ifVersion?: number;
}

async function setPolicy(call: Call<SetOptions>, [file]: readonly string[]): Promise<void> {
  const draft = await draftOf(call, file);
  const { policy } = await call.client();
  const now = await policy.get(ofAgent(draft.agent));
  const version = call.options.ifVersion ?? draft.version ?? now.version;
  const { print } = call;
  if (version === now.version && version > 0 && sameRules(draft, now)) {
    if (print.json) print.value(now);
    else print.say(`Version ${version} for ${forWhom(now)} says the same already.`);
    return;
  }
  const made = await policy.put({ ...draft, version });
  if (print.json) print.value(made);
  else {
    const counts = lists.map((list) => `${made[list].length} ${list}`).join(', ');
    print.say(`Version ${made.version} holds for ${forWhom(made)}: ${counts}.`);
  }
}

type Draft = Omit<NewPolicy, 'version'> & { readonly version?: number };

/** What a policy says of itself may stand in a file, so that one that was shown can be sent back. */
const ignored = ['updatedAt', 'updatedBy'];
const known = [...lists, 'agent', 'version', ...ignored];

async function draftOf(call: Call<AgentOption>, file: string | undefined): Promise<Draft> {
  const given = await readDocument(call.world, file);
  const unknown = Object.keys(given).filter((name) => !known.includes(name));
  if (unknown.length > 0) {
    throw usageError(`A policy has no "${unknown.join('", "')}"`, `it has ${known.join(', ')}`);
  }
  if (!lists.some((list) => given[list] !== undefined)) {
    throw usageError('The document has no rules', 'say {"deny": []} to have none');
  }
  const { agent: named } = call.options;
  const { agent: own = named } = given;
  if (own !== undefined && (typeof own !== 'string' || own !== (named ?? own))) {
    const other = `The document is for the agent ${JSON.stringify(own)}`;
    throw usageError(named === undefined ? other : `${other}, not for ${named}`);
  }
  const rules = Object.entries(given).filter(([name]) => !ignored.includes(name));
  // Whether the rules are rules is the server's to say: it knows all about them.
  return { ...Object.fromEntries(rules), ...ofAgent(own) };
}

function sameRules(draft: Draft, policy: Policy): boolean {
  return lists.every((list) => JSON.stringify(draft[list] ?? []) === JSON.stringify(policy[list]));
}

async function previewPolicy(
  call: Call<AgentOption & { since?: string }>,
  [file]: readonly string[],
): Promise<void> {
  const { version: _, ...rules } = await draftOf(call, file);
  const { since } = call.options;
  const { policy } = await call.client();
  const preview = await policy.preview({ ...rules, ...(since === undefined ? {} : { since }) });
  const { print } = call;
  if (print.json) {
    print.value(preview);
    return;
  }
  print.note(aboutPreview(preview));
  if (preview.changes.length === 0) return;
  print.list(
    preview.changes,
    [
      { title: 'run', of: ({ runId }) => runId },
      { title: 'at', of: ({ at }) => at, time: true, minor: true },
      { title: 'was', of: ({ was }) => was, status: true },
      { title: 'now', of: ({ now }) => now, status: true },
      { title: 'call', of: ({ tool, params }) => `${tool} ${JSON.stringify(params)}` },
    ],
    '',
  );
}

function aboutPreview({ changed, changes, calls, since, complete }: PolicyPreview): string {
  const looked = `${calls} calls since ${when(since)}${complete ? '' : ' (there were more)'}`;
  const shown = changed > changes.length ? `; the last ${changes.length}:` : '.';
  return `${changed} of ${looked} would have been decided otherwise${shown}`;
}

async function showHistory(call: Call<AgentOption & { limit: number }>): Promise<void> {
  const { agent, limit } = call.options;
  const { policy } = await call.client();
  const versions = policy.versions({ ...ofAgent(agent), limit: pageSize(limit) });
  call.print.list(
    await take(versions, limit),
    [
      { title: 'version', of: ({ version }) => version },
      { title: 'since', of: ({ updatedAt }) => updatedAt, time: true },
      ...lists.map((list) => ({ title: list, of: (each: Policy) => each[list].length })),
      { title: 'by', of: ({ updatedBy }) => updatedBy?.name },
    ],
    'There have never been any rules.',
  );
}
