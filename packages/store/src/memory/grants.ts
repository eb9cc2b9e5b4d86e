import type { Grant, GrantFilter, GrantRecord, NewGrant, Page } from '@relay/core';
import { newestFirst, refuseTaken, stored } from './state.ts';
import type { MemoryState } from './state.ts';

export function putGrant(state: MemoryState, tenantId: string, grant: NewGrant): void {
  refuseTaken(state.grants, grant.id);
  const counted = grant.uses === undefined ? {} : { usesLeft: grant.uses };
  state.grants.set(grant.id, { tenantId, grant: stored({ ...grant, ...counted }) });
}

export function grantsInScope(
  state: MemoryState,
  tenantId: string,
  scope: { readonly runId: string; readonly conversationId: string; readonly now: number },
): Grant[] {
  const ids = { run: scope.runId, conversation: scope.conversationId, tenant: tenantId };
  return grantsOf(state, tenantId)
    .filter((grant) => ids[grant.scope] === grant.scopeId && isActive(grant, scope.now))
    .toSorted((a, b) => a.createdAt - b.createdAt || (a.id < b.id ? -1 : 1))
    .map(({ id, tool, exact, params, usesLeft }) =>
      stored({ id, tool, exact, params, usesLeft } as Grant),
    );
}

export function readGrant(
  state: MemoryState,
  tenantId: string,
  grantId: string,
): GrantRecord | undefined {
  const found = state.grants.get(grantId);
  return found?.tenantId === tenantId ? stored(found.grant) : undefined;
}

export function listGrants(
  state: MemoryState,
  tenantId: string,
  { filter, page }: { filter: GrantFilter; page: Page },
): GrantRecord[] {
  const { scope, scopeId, tool, activeAt } = filter;
  const places = grantsOf(state, tenantId)
    .filter((grant) => scope === undefined || grant.scope === scope)
    .filter((grant) => scopeId === undefined || grant.scopeId === scopeId)
    .filter((grant) => tool === undefined || grant.tool === tool)
    .filter((grant) => activeAt === undefined || isActive(grant, activeAt))
    .map((grant) => ({ at: grant.createdAt, id: grant.id, entry: grant }));
  return stored(newestFirst(places, page));
}

export function revokeGrant(
  state: MemoryState,
  tenantId: string,
  { grantId, at }: { grantId: string; at: number },
): boolean {
  const found = state.grants.get(grantId);
  if (found?.tenantId !== tenantId || found.grant.revokedAt !== undefined) return false;
  found.grant = { ...found.grant, revokedAt: at };
  return true;
}

/** Whether each of these has a use left at this time, those that are named twice two of them. */
export function canUse(
  state: MemoryState,
  tenantId: string,
  { grantIds, at }: { grantIds: readonly string[]; at: number },
): boolean {
  return grantIds.every((id) => {
    const found = state.grants.get(id);
    if (found?.tenantId !== tenantId || !isActive(found.grant, at)) return false;
    const wanted = grantIds.filter((other) => other === id).length;
    return (found.grant.usesLeft ?? 0) >= wanted;
  });
}

export function useGrants(state: MemoryState, grantIds: readonly string[]): void {
  for (const id of grantIds) {
    const found = state.grants.get(id);
    if (found === undefined) continue;
    found.grant = { ...found.grant, usesLeft: (found.grant.usesLeft ?? 0) - 1 };
  }
}

function grantsOf(state: MemoryState, tenantId: string): GrantRecord[] {
  return [...state.grants.values()]
    .filter((entry) => entry.tenantId === tenantId)
    .map(({ grant }) => grant);
}

function isActive({ revokedAt, expiresAt = Infinity, usesLeft = 1 }: GrantRecord, now: number) {
  return revokedAt === undefined && expiresAt > now && usesLeft > 0;
}
