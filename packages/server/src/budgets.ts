/**
 * Budgets are checked before a run starts: one that does not fit is refused with a clear word instead
 * of being stopped halfway. What a run uses is counted when it ends.
 */
import type { SystemStore, TenantStore } from '@relay/core';
import { type Budget, type Budgets, RelayError } from '@relay/protocol';

const freshMs = 1_000;

export interface TenantSettings {
  readonly budgets?: Budgets;
}

export class BudgetKeeper {
  readonly #store: SystemStore;
  readonly #known = new Map<string, { budgets: Budgets; until: number }>();

  constructor(store: SystemStore) {
    this.#store = store;
  }

  /** Throws `budget_exceeded` if the tenant, or the key, has used up what it may. */
  async check(tenantId: string, keyId: string | undefined): Promise<void> {
    const { tenant, keys } = await this.#budgetsOf(tenantId);
    const store = this.#store.tenant(tenantId);
    if (tenant !== undefined) await checkOne(store, tenant, { whose: 'The tenant', scope: {} });
    const own = keyId === undefined ? undefined : keys?.[keyId];
    if (own === undefined || keyId === undefined) return;
    await checkOne(store, own, { whose: 'This key', scope: { keyId } });
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

async function checkOne(
  store: TenantStore,
  budget: Budget,
  { whose, scope }: Whose,
): Promise<void> {
  const { tokens, costUsd, concurrentRuns, period } = budget;
  if (tokens !== undefined || costUsd !== undefined) {
    const used = await store.readUsage({ ...scope, since: startOf(period, new Date()) });
    if (tokens !== undefined && used.inputTokens + used.outputTokens >= tokens) {
      throw exceeded(`${whose} has used its ${tokens} tokens of this ${period}`);
    }
    if (costUsd !== undefined && used.costUsd >= costUsd) {
      throw exceeded(`${whose} has used its ${costUsd} US dollars of this ${period}`);
    }
  }
  if (concurrentRuns === undefined) return;
  const { queued, running } = await store.countOpenRuns(scope);
  if (queued + running >= concurrentRuns) {
    throw exceeded(`${whose} has ${queued + running} runs at work, as many as it may`);
  }
}

/** The first moment of the day or month, in UTC. */
export function startOf(period: Budget['period'], now: Date): number {
  const day = period === 'day' ? now.getUTCDate() : 1;
  return Date.UTC(now.getUTCFullYear(), now.getUTCMonth(), day);
}

function exceeded(message: string): RelayError {
  return new RelayError('budget_exceeded', message);
}
