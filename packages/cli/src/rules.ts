import type { Grant } from '@relay/sdk';

/** A rule in one line. */
export function ruleText({
  tool,
  params,
  exact,
}: Pick<Grant, 'tool' | 'params' | 'exact'>): string {
  if (exact !== undefined) return `${tool} exactly ${JSON.stringify(exact)}`;
  return params === undefined ? `${tool} (every call)` : `${tool} ${JSON.stringify(params)}`;
}
