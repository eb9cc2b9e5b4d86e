/** The budgets in the settings of tenants, as runs count for them. */
import { type RunBudget, startOf, type SystemStore } from '@relay/core';
import { type Budget, type Budgets, defined, type Limits } from '@relay/protocol';
import type { TenantSettings } from '../config/tenant-settings.ts';

const cacheMs = 1_000;

export class TenantBudgets {
  readonly #store: SystemStore;
  readonly #cache = new Map<string, { budgets: Budgets; until: number }>();

  constructor(store: SystemStore) {
    this.#store = store;
  }

  /** The budgets of the tenant and of the key. */
  async of(tenantId: string, keyId: string | null): Promise<readonly RunBudget[]> {
    const { tenant, keys } = await this.#read(tenantId);
    const own = keyId === null ? undefined : keys?.[keyId];
    const now = new Date();
    return [
      ...(tenant === undefined ? [] : [runBudget(tenant, now)]),
      ...(own === undefined || keyId === null ? [] : [{ ...runBudget(own, now), keyId }]),
    ];
  }

  /** A change applies from the next reservation on: here at once, on other nodes within a second. */
  invalidate(tenantId: string): void {
    this.#cache.delete(tenantId);
  }

  async #read(tenantId: string): Promise<Budgets> {
    const now = Date.now();
    const known = this.#cache.get(tenantId);
    if (known !== undefined && known.until > now) return known.budgets;
    const { settings } = await this.#store.tenant(tenantId).readTenant();
    const budgets = (settings as TenantSettings).budgets ?? {};
    this.#cache.set(tenantId, { budgets, until: now + cacheMs });
    return budgets;
  }
}

function runBudget(budget: Budget, now: Date): RunBudget {
  return { ...defined(budget), period: budget.period, since: startOf(budget.period, now) };
}

/** The lower of two values for each limit. */
export function minLimits(maximum: Limits, requested: Limits): Limits {
  const limits: Limits = { ...maximum };
  for (const [name, value] of Object.entries(requested) as [keyof Limits, number | undefined][]) {
    if (value !== undefined) limits[name] = Math.min(limits[name] ?? value, value);
  }
  return limits;
}
