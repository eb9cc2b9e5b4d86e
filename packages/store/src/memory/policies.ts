import type { NewAudit, Page, PolicyRecord, PolicyStore } from '@relay/core';
import { putAudit, refuseTakenAudit } from './audit.ts';
import { newestFirst, stored } from './state.ts';
import type { MemoryState } from './state.ts';

export class MemoryPolicyStore implements PolicyStore {
  readonly #state: MemoryState;
  readonly #tenantId: string;

  constructor(state: MemoryState, tenantId: string) {
    this.#state = state;
    this.#tenantId = tenantId;
  }

  async inForce(agent: string): Promise<PolicyRecord[]> {
    return [await this.read(null), await this.read(agent)].filter((each) => each !== undefined);
  }

  async read(agent: string | null): Promise<PolicyRecord | undefined> {
    return (await this.versions(agent, { limit: 1 }))[0];
  }

  async put(policy: PolicyRecord, audit?: readonly NewAudit[]): Promise<boolean> {
    refuseTakenAudit(this.#state, audit);
    const own = this.#state.policies.get(this.#tenantId) ?? [];
    const known = own.filter(({ agent }) => agent === policy.agent).length;
    if (policy.version !== known + 1) return false;
    this.#state.policies.set(this.#tenantId, [...own, stored(policy)]);
    putAudit(this.#state, this.#tenantId, audit);
    return true;
  }

  async versions(agent: string | null, page: Page): Promise<PolicyRecord[]> {
    const own = this.#state.policies.get(this.#tenantId) ?? [];
    const places = own
      .filter((policy) => policy.agent === agent)
      .map((entry) => ({ at: entry.version, id: entry.id, entry }));
    return stored(newestFirst(places, page));
  }
}
