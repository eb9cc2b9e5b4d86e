import type { PolicyRules } from '@relay/protocol';
import type { PolicyRecord } from '../ports/index.ts';

/** A tenant's standing rules, for all of its agents or for one of them. */
export interface Policy extends PolicyRules {
  /** Names it and its version, such as `*@3` or `assistant@2`. */
  readonly id: string;
}

function policyId({ agent, version }: { agent: string | null; version: number }): string {
  return `${agent ?? '*'}@${version}`;
}

/** As they are decided by. */
export function policiesOf(records: readonly PolicyRecord[]): Policy[] {
  return records.map((record) => ({ id: policyId(record), ...record.rules }));
}
