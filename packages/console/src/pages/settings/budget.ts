/** Budgets as fields of a form, and in words. */
import { defined, type Tenant } from '@relay/protocol/wire';
import { formatCost, formatCount } from '../../ui/values.tsx';

export type Budget = NonNullable<Tenant['budgets']['tenant']>;

export interface Fields {
  readonly period: Budget['period'];
  /** Empty: no limit. */
  readonly tokens: string;
  readonly costUsd: string;
  readonly concurrentRuns: string;
}

const limits = ['tokens', 'costUsd', 'concurrentRuns'] as const;

export function fieldsOf(budget: Budget | undefined): Fields {
  const { period = 'day', tokens, costUsd, concurrentRuns } = budget ?? {};
  return {
    period,
    tokens: String(tokens ?? ''),
    costUsd: String(costUsd ?? ''),
    concurrentRuns: String(concurrentRuns ?? ''),
  };
}

/** Undefined if nothing is limited. */
export function budgetOf(fields: Fields): Budget | undefined {
  const number = (name: (typeof limits)[number]) =>
    fields[name].trim() === '' ? undefined : Number(fields[name]);
  const given = defined({
    tokens: number('tokens'),
    costUsd: number('costUsd'),
    concurrentRuns: number('concurrentRuns'),
  });
  return Object.keys(given).length === 0 ? undefined : { period: fields.period, ...given };
}

export function budgetText({ period, tokens, costUsd, concurrentRuns }: Budget): string {
  const amounts = [
    ...(tokens === undefined ? [] : [`${formatCount(tokens)} tokens`]),
    ...(costUsd === undefined ? [] : [formatCost(costUsd)]),
  ];
  return [
    ...(amounts.length === 0 ? [] : [`${amounts.join(' and ')} per ${period}`]),
    ...(concurrentRuns === undefined
      ? []
      : [
          `${formatCount(concurrentRuns)} ${concurrentRuns === 1 ? 'run' : 'runs'} at the same time`,
        ]),
  ].join(', ');
}

/** How much of a limit is used; a limit of 0 is always used up. */
export function shareOf(value: number, limit: number | undefined): number | undefined {
  if (limit === undefined) return undefined;
  return limit === 0 ? 1 : value / limit;
}
