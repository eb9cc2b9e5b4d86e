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
  const version = at < 0 ? undefined : id?.slice(at + 1);
  const isDraft = version === 'draft';
  if (version !== undefined && !isDraft) query.set('version', version);
  const whose = query.has('agent') ? ` for ${agent}` : '';
  return {
    href: `/policy?${query.toString()}`,
    label: `${isDraft ? 'Draft of the policy' : 'Policy'}${whose}, ${list} rule ${index + 1}`,
  };
}
