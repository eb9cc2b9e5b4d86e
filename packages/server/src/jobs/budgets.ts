/**
 * Budgets are checked before a run starts: one that does not fit is refused with a clear word. What is
 * left bounds the run itself, with all its agents. What a run uses is counted when it ends.
 */
import type { SystemStore, TenantStore } from '@relay/core';
import { type Budget, type Budgets, type Limits, RelayError } from '@relay/protocol';

const freshMs = 1_000;

export interface TenantSettings {
  readonly budgets?: Budgets;
  /** Its folder, for tools that work in one. */
  readonly workspace?: string;
}

export class BudgetChecker {
  readonly #store: SystemStore;
  readonly #known = new Map<string, { budgets: Budgets; until: number }>();

  constructor(store: SystemStore) {
    this.#store = store;
  }

  /**
   * Throws `budget_exceeded` if the tenant, or the key, has used up what it may; otherwise says what
   * a run may still use.
   */
  async check(tenantId: string, keyId: string | undefined): Promise<Limits> {
    const { tenant, keys } = await this.#budgetsOf(tenantId);
    const store = this.#store.tenant(tenantId);
    const own = keyId === undefined ? undefined : keys?.[keyId];
    const ofTenant =
      tenant === undefined ? {} : await leftOf(store, tenant, { whose: 'The tenant', scope: {} });
    if (own === undefined || keyId === undefined) return ofTenant;
    return lowerOf(ofTenant, await leftOf(store, own, { whose: 'This key', scope: { keyId } }));
  }

  /** What was set counts from the next run on: here at once, on other nodes within a second. */
  forget(tenantId: string): void {
    this.#known.delete(tenantId);
  }

  async #budgetsOf(tenantId: string): Promise<Budgets> {
    const now = Date.now();
    const known = this.#known.get(tenantId);
    if (known !== undefined && known.until > now) return known.budgets;
    const { settings } = await this.#store.tenant(tenantId).readTenant();
    const budgets = (settings as TenantSettings).budgets ?? {};
    this.#known.set(tenantId, { budgets, until: now + freshMs });
    return budgets;
  }
}

interface Whose {
  readonly whose: string;
  readonly scope: { readonly keyId?: string };
}

async function leftOf(store: TenantStore, budget: Budget, whose: Whose): Promise<Limits> {
  await checkConcurrency(store, budget, whose);
  const { tokens, costUsd, period } = budget;
  if (tokens === undefined && costUsd === undefined) return {};
  const since = startOf(period, new Date());
  const used = await store.readUsage({ ...whose.scope, since });
  const left: Limits = {};
  if (tokens !== undefined) {
    left.tokens = tokens - used.inputTokens - used.outputTokens;
    if (left.tokens <= 0) {
      throw exceeded(`${whose.whose} has used its ${tokens} tokens of this ${period}`, period);
    }
  }
  if (costUsd !== undefined) {
    left.costUsd = costUsd - used.costUsd;
    if (left.costUsd <= 0) {
      throw exceeded(`${whose.whose} has used its ${costUsd} US dollars of this ${period}`, period);
    }
  }
  return left;
}

async function checkConcurrency(
  store: TenantStore,
  { concurrentRuns }: Budget,
  { whose, scope }: Whose,
): Promise<void> {
  if (concurrentRuns === undefined) return;
  const { queued, running } = await store.countOpenRuns(scope);
  if (queued + running < concurrentRuns) return;
  throw exceeded(`${whose} has as many runs at work as it may: ${concurrentRuns}`);
}

/** Of two bounds the lower one holds. */
export function lowerOf(most: Limits, wanted: Limits): Limits {
  const limits: Limits = { ...most };
  for (const [name, value] of Object.entries(wanted) as [keyof Limits, number | undefined][]) {
    if (value !== undefined) limits[name] = Math.min(limits[name] ?? value, value);
  }
  return limits;
}

/** The first moment of the day or month, in UTC. */
export function startOf(period: Budget['period'], now: Date): number {
  const day = period === 'day' ? now.getUTCDate() : 1;
  return Date.UTC(now.getUTCFullYear(), now.getUTCMonth(), day);
}

/** The first moment of the next day or month, in UTC. */
function endOf(period: Budget['period'], now: Date): number {
  const [year, month, day] = [now.getUTCFullYear(), now.getUTCMonth(), now.getUTCDate()];
  return period === 'day' ? Date.UTC(year, month, day + 1) : Date.UTC(year, month + 1, 1);
}

/** Says when to come back, where that is known: a run that is at work ends when it ends. */
function exceeded(message: string, period?: Budget['period']): RelayError {
  const now = new Date();
  const until = period === undefined ? {} : { retryAfterMs: endOf(period, now) - now.getTime() };
  return new RelayError('budget_exceeded', message, until);
}
