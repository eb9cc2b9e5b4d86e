import type { RuleRef } from '@relay/protocol';
import type { Grant } from '../permission/decide.ts';
import type { LiveRun } from './live-run.ts';

/** The grants that hold for a run while its calls are decided: of two calls the first uses one up (E7). */
export class ActiveGrants {
  #grants: readonly Grant[];

  private constructor(grants: readonly Grant[]) {
    this.#grants = grants;
  }

  static async of(run: LiveRun): Promise<ActiveGrants> {
    const { id: runId, conversationId } = run.identity;
    const now = run.engine.clock.now();
    return new ActiveGrants(await run.store.readGrants({ runId, conversationId, now }));
  }

  get list(): readonly Grant[] {
    return this.#grants;
  }

  use({ source, id }: RuleRef): void {
    if (source !== 'grant') return;
    this.#grants = this.#grants.flatMap((grant) => {
      if (grant.id !== id || grant.usesLeft === undefined) return [grant];
      return grant.usesLeft > 1 ? [{ ...grant, usesLeft: grant.usesLeft - 1 }] : [];
    });
  }
}
