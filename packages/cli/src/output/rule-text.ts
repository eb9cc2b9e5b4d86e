/** Rules in the words of "relay explain". */
import type { Approval, StoredEvent } from '@relay/sdk';
import { escapeLine } from './escape.ts';

type Rule = Omit<NonNullable<Extract<StoredEvent, { type: 'tool.denied' }>['rule']>, 'id'>;

/** `rule 1 of deny in the policy` */
export function rulePlace({ list, index, source }: Rule): string {
  return `rule ${index + 1} of ${list} in the ${source}`;
}

/** Which rule has denied a call. */
export function deniedByText(rule: Rule): string {
  if (rule.list === 'headless') {
    return 'denied: it requires an approval, and a headless run has no approver';
  }
  return `denied by ${rulePlace(rule)}`;
}

/** Why "always" does not allow the next call. */
export function whyEachTime({ list, reason }: NonNullable<Approval['rule']>): string {
  if (list !== 'needsApproval') return 'A rule demands an approval of each such call';
  return reason === undefined
    ? 'This tool needs an approval for each call'
    : `The tool demands an approval of this call: ${escapeLine(reason)}`;
}
