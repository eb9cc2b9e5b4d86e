import type { CurrentKey, RelayClient, Stats, Tenant } from '@relay/sdk';
import { Option } from 'commander';
import type { CliCommand, Context } from '../../command.ts';
import { isApiError } from '../../errors.ts';
import { pastTime } from '../../options.ts';
import { formatCost, formatTime } from '../../output/table.ts';

interface UsageOptions {
  readonly since: string;
  readonly label?: string;
}

export function registerUsage(program: CliCommand): void {
  program
    .command('usage')
    .description('show tokens and cost by model and agent, and what is left of the budget')
    .addOption(
      new Option('--since <time>', 'since a date, or 12h, 7d ago')
        .argParser(pastTime)
        .default(pastTime('30d'), '30d'),
    )
    .option('--label <name:value>', 'only runs with this label, such as those of a customer')
    .examples(
      ['relay usage', 'relay usage --since 7d', 'relay usage --label customer:acme --since 30d'],
      'Times begin with an hour, or with a day if they are longer than 2 days ago, in UTC. With ' +
        '--label it adds up the runs that were started since then, at most the latest 10,000.',
    )
    .handle(showUsage);
}

const twoDays = 2 * 86_400_000;

async function showUsage(context: Context<UsageOptions>): Promise<void> {
  const { since, label } = context.options;
  const client = await context.client();
  if (label !== undefined) return showLabel(context, client, label);
  const isShort = Date.now() - Date.parse(since) <= twoDays;
  const [stats, tenant, { budget: keyBudget }] = await Promise.all([
    client.stats.get({ since, bucket: isShort ? 'hour' : 'day' }),
    tenantOf(client),
    client.keys.current(),
  ]);
  const { totals, models, agents } = stats;
  const { print } = context;
  if (print.json) {
    print.value({
      since: stats.since,
      until: stats.until,
      totals,
      models,
      agents,
      budget: tenant?.budgets.tenant,
      keyBudget,
    });
    return;
  }
  print.record(totals, {
    since: formatTime(stats.since),
    runs: endedText(totals),
    tokens: `${totals.tokens.input} in, ${totals.tokens.output} out`,
    cost: costText(totals),
    budget: tenant === undefined ? undefined : budgetText(tenant),
    'budget of this key': keyBudgetText(keyBudget),
  });
  if (models.length > 0) print.line('');
  print.list(models, [
    { title: 'model', value: ({ model }) => model },
    { title: 'runs', value: ({ runs }) => runs },
    { title: 'in', value: ({ tokens }) => tokens.input },
    { title: 'out', value: ({ tokens }) => tokens.output },
    { title: 'cost', value: ({ costUsd }) => formatCost(costUsd) },
  ]);
  if (agents.length > 0) print.line('');
  print.list(agents, [
    { title: 'agent', value: ({ agent }) => agent },
    { title: 'runs', value: ({ runs }) => runs },
    { title: 'cost', value: ({ costUsd }) => formatCost(costUsd) },
  ]);
}

/** Only administrators see budgets. */
async function tenantOf(client: RelayClient): Promise<Tenant | undefined> {
  try {
    return await client.tenant.get();
  } catch (error) {
    if (isApiError(error) && error.status === 403) return undefined;
    throw error;
  }
}

function endedText({ runs, openRuns }: Stats['totals']): string {
  const { started, completed, failed, canceled } = runs;
  return `${started} started, ${completed} completed, ${failed} failed, ${canceled} canceled, ${openRuns} open now`;
}

function costText({
  costUsd,
  unpricedRuns,
}: Pick<Stats['totals'], 'costUsd' | 'unpricedRuns'>): string {
  const cost = formatCost(costUsd) ?? '';
  if (unpricedRuns === 0) return cost;
  const runs = unpricedRuns === 1 ? '1 run' : `${unpricedRuns} runs`;
  return `${cost}, and ${runs} of models without a price`;
}

function budgetText({ budgets, usage }: Tenant): string {
  const { tenant } = budgets;
  if (tenant === undefined) return 'none';
  const { inputTokens, outputTokens, costUsd } = usage[tenant.period];
  return leftText(tenant, { tokens: inputTokens + outputTokens, costUsd });
}

/** What is left of the budget of a key. */
export function keyBudgetText(budget: CurrentKey['budget']): string | undefined {
  return budget === undefined ? undefined : leftText(budget, budget.used);
}

function leftText(
  { period, tokens, costUsd }: Budget,
  used: { readonly tokens: number; readonly costUsd: number },
): string {
  const parts = [
    ...(tokens === undefined
      ? []
      : [`${Math.max(0, tokens - used.tokens)} of ${tokens} tokens left`]),
    ...(costUsd === undefined
      ? []
      : [`${formatCost(Math.max(0, costUsd - used.costUsd))} of ${formatCost(costUsd)} left`]),
  ];
  return parts.length === 0 ? 'none' : `${parts.join(', ')} this ${period}`;
}

type Budget = NonNullable<Tenant['budgets']['tenant']>;

/** Each is read: 50 requests. */
const mostRuns = 10_000;

async function showLabel(
  context: Context<UsageOptions>,
  client: RelayClient,
  label: string,
): Promise<void> {
  const { since } = context.options;
  const total = {
    label,
    since,
    runs: 0,
    inputTokens: 0,
    outputTokens: 0,
    costUsd: 0,
    unpricedRuns: 0,
    complete: true,
  };
  for await (const { usage, costUsd } of client.runs.list({ label, since, limit: 200 })) {
    if (total.runs === mostRuns) {
      total.complete = false;
      break;
    }
    total.runs += 1;
    total.inputTokens += usage.input_tokens;
    total.outputTokens += usage.output_tokens;
    total.costUsd += costUsd ?? 0;
    total.unpricedRuns += costUsd === undefined ? 1 : 0;
  }
  context.print.record(total, {
    label,
    since: formatTime(since),
    runs: total.runs,
    tokens: `${total.inputTokens} in, ${total.outputTokens} out`,
    cost: costText(total),
  });
  if (total.complete) return;
  context.print.note(
    `Only the latest ${mostRuns.toLocaleString('en')} runs were added up; use a later --since.`,
  );
}
