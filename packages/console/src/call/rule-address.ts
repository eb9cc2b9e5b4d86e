/** Where a rule is shown. */
import type { Explanation } from '@relay/protocol/wire';

type Rule = Pick<NonNullable<Explanation['rule']>, 'list' | 'index' | 'source' | 'id'>;

interface RuleAddress {
  readonly href: string;
  readonly label: string;
}

/** Undefined for rules that are not of the tenant: those of a request, a tool or a program. */
export function addressOfRule({ list, index, source, id }: Rule): RuleAddress | undefined {
  if (source === 'grant' && id !== undefined) {
    return { href: `/policy/grants?grant=${encodeURIComponent(id)}`, label: 'The grant' };
  }
  if (source !== 'policy') return undefined;
  const query = new URLSearchParams({ list, rule: String(index + 1) });
  const at = id?.lastIndexOf('@') ?? -1;
  const agent = id?.slice(0, Math.max(0, at)) ?? '';
  if (agent !== '' && agent !== '*') query.set('agent', agent);
  if (at >= 0) query.set('version', id?.slice(at + 1) ?? '');
  const whose = query.has('agent') ? ` for ${agent}` : '';
  return {
    href: `/policy?${query.toString()}`,
    label: `Policy${whose}, ${list} rule ${index + 1}`,
  };
}
