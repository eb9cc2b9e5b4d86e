/** Which addresses the URLs of a tenant, and those of the operator, may point to. */
import {
  createGuardedFetch,
  createOutboundGuard,
  type GuardedFetch,
  type OutboundGuard,
} from '@relay/models';
import type { PrivateNetworkSetting } from '../config/config.ts';
import type { NamedTenants } from './named-tenants.ts';

interface Guard extends OutboundGuard {
  readonly fetch: GuardedFetch;
}

export class OutboundGuards {
  /** For URLs in the configuration: every network that it lists is allowed. */
  readonly operator: Guard;
  readonly #shared: Guard;
  /** Of the tenants that have networks of their own, by name. */
  readonly #own: ReadonlyMap<string, Guard>;
  readonly #tenants: NamedTenants;

  constructor(networks: readonly PrivateNetworkSetting[], tenants: NamedTenants) {
    const guardFor = (isOpen: (setting: PrivateNetworkSetting) => boolean): Guard => {
      const guard = createOutboundGuard(networks.filter(isOpen).map(({ network }) => network));
      return { ...guard, fetch: createGuardedFetch(guard) };
    };
    const names = new Set(networks.flatMap(({ tenant }) => tenant ?? []));
    this.operator = guardFor(() => true);
    this.#shared = guardFor(({ tenant }) => tenant === undefined);
    this.#own = new Map(
      [...names].map((name) => [
        name,
        guardFor(({ tenant }) => tenant === undefined || tenant === name),
      ]),
    );
    this.#tenants = tenants;
  }

  of(tenantId: string): Guard {
    for (const [name, guard] of this.#own) {
      if (this.#tenants.idOf(name) === tenantId) return guard;
    }
    return this.#shared;
  }

  close(): void {
    for (const guard of [this.operator, this.#shared, ...this.#own.values()]) guard.close();
  }
}
