/** Policies as a store keeps them: every version, and never changed. */
import type { Decider, PolicyRules } from '@relay/protocol';
import type { NewAudit } from './stored-audit.ts';
import type { Page } from './stored-runs.ts';

export interface PolicyRecord {
  readonly id: string;
  /** `null`: for all agents. */
  readonly agent: string | null;
  /** Counts 1, 2, 3 … for each agent, and for all. */
  readonly version: number;
  readonly rules: PolicyRules;
  readonly at: number;
  readonly by: Decider;
}

export interface PolicyStore {
  /** What holds now for this agent: the policy for all, then its own. */
  inForce(agent: string): Promise<PolicyRecord[]>;
  /** The last version. */
  read(agent: string | null): Promise<PolicyRecord | undefined>;
  /** Compare-and-set: false if its version is not the one after the last. */
  put(policy: PolicyRecord, audit?: readonly NewAudit[]): Promise<boolean>;
  /** By version. */
  versions(agent: string | null, page: Page): Promise<PolicyRecord[]>;
}
