import type { CurrentKey, RelayClient, Stats, Tenant } from '@relay/sdk';
import { Option } from 'commander';
import type { CliCommand, Context } from '../../command.ts';
import { isUnpriced } from '../../chat/usage-text.ts';
import { isApiError } from '../../errors.ts';
import { pastTime } from '../../options.ts';
import { type Column, formatCost, formatTime } from '../../output/table.ts';

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
        '--label it adds up the runs that were started since then, at most the latest 10,000. The ' +
        'work of sub-agents counts for the agent that their run began with.',
    )
    .handle(showUsage);
}

const msPer = { hour: 3_600_000, day: 86_400_000 };

async function showUsage(context: Context<UsageOptions>): Promise<void> {
  const { label } = context.options;
  const time = Date.parse(context.options.since);
  const bucket = Date.now() - time <= 2 * msPer.day ? 'hour' : 'day';
  const since = new Date(time - (time % msPer[bucket])).toISOString();
  const client = await context.client();
  if (label !== undefined) return showLabel(context, client, { label, since });
  const [stats, tenant, { budget: keyBudget }] = await Promise.all([
    client.stats.get({ since, bucket }),
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
  print.list(models, [{ title: 'model', value: ({ model }) => model }, ...usageColumns]);
  if (agents.length > 0) print.line('');
  print.list(agents, [{ title: 'agent', value: ({ agent }) => agent }, ...usageColumns]);
}

type Usage = Omit<Stats['agents'][number], 'agent'>;

const usageColumns: readonly Column<Usage>[] = [
  { title: 'runs', value: ({ runs }) => runs },
  { title: 'in', value: ({ tokens }) => tokens.input },
  { title: 'out', value: ({ tokens }) => tokens.output },
  { title: 'cost', value: costCell },
];

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

type Costs = Pick<Stats['totals'], 'costUsd' | 'unpricedRuns'>;

function costText({ costUsd, unpricedRuns }: Costs): string {
  const cost = formatCost(costUsd) ?? '';
  if (unpricedRuns === 0) return cost;
  const runs = `${unpricedRuns === 1 ? '1 run' : `${unpricedRuns} runs`} whose model had no price`;
  return costUsd === 0 ? `unknown (${runs})` : `${cost}, and ${runs}`;
}

function costCell({ costUsd, unpricedRuns }: Costs): string {
  if (costUsd === 0 && unpricedRuns > 0) return 'unknown';
  return `${formatCost(costUsd)}${unpricedRuns > 0 ? ' + unknown' : ''}`;
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
  context: Context,
  client: RelayClient,
  { label, since }: { readonly label: string; readonly since: string },
): Promise<void> {
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
  for await (const run of client.runs.list({ label, since, limit: 200 })) {
    if (total.runs === mostRuns) {
      total.complete = false;
      break;
    }
    total.runs += 1;
    total.inputTokens += run.usage.input_tokens;
    total.outputTokens += run.usage.output_tokens;
    total.costUsd += run.costUsd ?? 0;
    total.unpricedRuns += isUnpriced(run) ? 1 : 0;
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
