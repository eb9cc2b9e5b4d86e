/** What an API key may do: its scopes, and the roles that name usual sets of them. */

export const scopes = ['read', 'runs', 'worker', 'approve', 'admin'] as const;
export type Scope = (typeof scopes)[number];

/** From the widest: the role of a key without one of its own is the first that it holds. */
export const roleNames = ['admin', 'approver', 'operator', 'viewer'] as const;
export type Role = (typeof roleNames)[number];

export const scopesOfRole: Readonly<Record<Role, readonly Scope[]>> = {
  admin: ['read', 'runs', 'worker', 'admin'],
  approver: ['read', 'approve'],
  operator: ['read', 'runs'],
  viewer: ['read'],
};

const readingScopes: ReadonlySet<string> = new Set<Scope>(['read', 'runs', 'approve', 'admin']);

/** All that a key with these scopes may do: `runs`, `approve` and `admin` include `read`. */
export function effectiveScopes(given: Iterable<string>): Set<string> {
  const held = new Set(given);
  if ([...held].some((scope) => readingScopes.has(scope))) held.add('read');
  return held;
}

/** The roles whose scopes are all held, the widest first. */
export function rolesHeld(given: Iterable<string>): Role[] {
  const held = effectiveScopes(given);
  return roleNames.filter((role) => scopesOfRole[role].every((scope) => held.has(scope)));
}
