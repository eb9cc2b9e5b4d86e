import type { StoredEvent } from '@relay/sdk';

type Rule = Omit<NonNullable<Extract<StoredEvent, { type: 'tool.denied' }>['rule']>, 'id'>;

/** Which rule has denied a call, in the words of "relay explain". */
export function deniedByText({ list, index, source }: Rule): string {
  if (list === 'headless') {
    return 'denied: it requires an approval, and a headless run has no approver';
  }
  return `denied by rule ${index + 1} of ${list} in the ${source}`;
}
