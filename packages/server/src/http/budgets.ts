/**
 * Budgets are checked before a run starts. A run that does not fit is rejected; the remaining budget
 * limits the run with all its agents. Usage is counted when a run ends.
 */
import type { SystemStore, TenantStore } from '@relay/core';
import { type Budget, type Budgets, type Limits, RelayError } from '@relay/protocol';
import type { TenantSettings } from '../config/tenant-settings.ts';

const cacheMs = 1_000;

export class BudgetChecker {
  readonly #store: SystemStore;
  readonly #cache = new Map<string, { budgets: Budgets; until: number }>();

  constructor(store: SystemStore) {
    this.#store = store;
  }

  /**
   * Throws `budget_exceeded` if the budget of the tenant or the key is used up; otherwise returns what
   * a run may still use.
   */
  async check(tenantId: string, keyId: string | undefined): Promise<Limits> {
    const { tenant, keys } = await this.#budgetsOf(tenantId);
    const store = this.#store.tenant(tenantId);
    const own = keyId === undefined ? undefined : keys?.[keyId];
    const ofTenant = tenant === undefined ? {} : await remaining(store, tenant, 'The tenant', {});
    if (own === undefined || keyId === undefined) return ofTenant;
    return minLimits(ofTenant, await remaining(store, own, 'This key', { keyId }));
  }

  /** A change applies from the next run on: here at once, on other nodes within a second. */
  invalidate(tenantId: string): void {
    this.#cache.delete(tenantId);
  }

  async #budgetsOf(tenantId: string): Promise<Budgets> {
    const now = Date.now();
    const known = this.#cache.get(tenantId);
    if (known !== undefined && known.until > now) return known.budgets;
    const { settings } = await this.#store.tenant(tenantId).readTenant();
    const budgets = (settings as TenantSettings).budgets ?? {};
    this.#cache.set(tenantId, { budgets, until: now + cacheMs });
    return budgets;
  }
}

async function remaining(
  store: TenantStore,
  budget: Budget,
  subject: string,
  scope: { readonly keyId?: string },
): Promise<Limits> {
  const { tokens, costUsd, period, concurrentRuns } = budget;
  if (concurrentRuns !== undefined) {
    const { queued, running } = await store.countOpenRuns(scope);
    if (queued + running >= concurrentRuns) {
      throw exceeded(`${subject} has reached its limit of ${concurrentRuns} concurrent runs`);
    }
  }
  if (tokens === undefined && costUsd === undefined) return {};
  const since = startOf(period, new Date());
  const used = await store.readUsage({ ...scope, since });
  const left: Limits = {};
  if (tokens !== undefined) {
    left.tokens = tokens - used.inputTokens - used.outputTokens;
    if (left.tokens <= 0) {
      throw exceeded(`${subject} has used its ${tokens} tokens for this ${period}`, period);
    }
  }
  if (costUsd !== undefined) {
    left.costUsd = costUsd - used.costUsd;
    if (left.costUsd <= 0) {
      throw exceeded(`${subject} has used its ${costUsd} US dollars for this ${period}`, period);
    }
  }
  return left;
}

/** The lower of two values for each limit. */
export function minLimits(maximum: Limits, requested: Limits): Limits {
  const limits: Limits = { ...maximum };
  for (const [name, value] of Object.entries(requested) as [keyof Limits, number | undefined][]) {
    if (value !== undefined) limits[name] = Math.min(limits[name] ?? value, value);
  }
  return limits;
}

/** The start of the day or month, in UTC. */
export function startOf(period: Budget['period'], now: Date): number {
  const day = period === 'day' ? now.getUTCDate() : 1;
  return Date.UTC(now.getUTCFullYear(), now.getUTCMonth(), day);
}

function endOf(period: Budget['period'], now: Date): number {
  const [year, month, day] = [now.getUTCFullYear(), now.getUTCMonth(), now.getUTCDate()];
  return period === 'day' ? Date.UTC(year, month, day + 1) : Date.UTC(year, month + 1, 1);
}

/** With `retryAfterMs` where it is known: it is not for active runs. */
function exceeded(message: string, period?: Budget['period']): RelayError {
  const now = new Date();
  const until = period === undefined ? {} : { retryAfterMs: endOf(period, now) - now.getTime() };
  return new RelayError('budget_exceeded', message, until);
}
