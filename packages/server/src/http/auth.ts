/** Authentication: an API key, the internal secret, or a local caller of `/chat` without a key. */
import type { KeyRecord, SystemStore } from '@relay/core';
import {
  type Decider,
  defined,
  effectiveScopes,
  RelayError,
  rolesHeld,
  type Route,
  type Scope,
} from '@relay/protocol';
import type { FastifyRequest } from 'fastify';
import { type Config, isLoopback } from '../config/config.ts';
import { unauthorized } from './errors.ts';
import { hasInternalSecret, hashApiKey, isWellFormed } from '../secrets/keys.ts';

export interface Caller {
  readonly tenantId: string;
  /** With those that they include. */
  readonly scopes: ReadonlySet<string>;
  /** The groups of its key. */
  readonly groups: readonly string[];
  /** The caller's identity in journals and audit entries; `personOf` tells which person it is. */
  readonly actor: Decider;
}

export interface AuthContext {
  readonly store: SystemStore;
  readonly config: Config;
  readonly defaultTenantId: string;
  /** Completes before a request with this key is handled. */
  readonly onKeyAccepted?: (keyId: string) => Promise<void>;
}

/** The caller of a route that is not public. Throws `unauthorized` or `scope_required`. */
export async function authenticate(
  request: FastifyRequest,
  route: Route,
  context: AuthContext,
): Promise<Caller> {
  rejectForeignHost(request, context.config);
  rejectForeignOrigin(request, context.config);
  const caller = await identify(request, route, context);
  requireScopes(caller, route);
  return caller;
}

/** A page of another origin may not call, whatever key it has. */
function rejectForeignOrigin({ headers }: FastifyRequest, config: Config): void {
  const { origin, host } = headers;
  if (origin === undefined || isOwnOrigin(origin, host ?? '')) return;
  if (config.allowedOrigins.includes(origin)) return;
  throw new RelayError('origin_not_allowed', 'Origin not allowed: add it to RELAY_ALLOWED_ORIGINS');
}

/** Protects against DNS rebinding: a foreign name that resolves to this server. */
export function rejectForeignHost({ headers }: FastifyRequest, config: Config): void {
  const { host } = headers;
  // Only HTTP/1.0 requests have no Host, and no browser sends them.
  if (host !== undefined && !isAllowedHost(hostName(host), config)) {
    throw new RelayError('host_not_allowed', 'Host not allowed: add it to RELAY_ALLOWED_HOSTS');
  }
}

function isAllowedHost(name: string, { allowedHosts, host }: Config): boolean {
  if (isLoopback(name)) return true;
  const bare = name.replace(/^\[(.*)\]$/, '$1').toLowerCase();
  if (allowedHosts.length > 0) return allowedHosts.includes(bare);
  return !isLoopback(host) || bare === host.toLowerCase();
}

function requireScopes(caller: Caller, { scopes, anyScope }: Route): void {
  const missing = scopes.filter((scope) => !caller.scopes.has(scope));
  if (missing.length === 0 || (anyScope === true && missing.length < scopes.length)) return;
  throw new RelayError('scope_required', `This key lacks the scope ${missing[0]}`);
}

async function identify(
  request: FastifyRequest,
  route: Route,
  context: AuthContext,
): Promise<Caller> {
  const { authorization } = request.headers;
  if (authorization === undefined && route.auth === 'local-or-key') {
    if (isLocalCaller(request, context.config)) return localCaller(context);
  }
  if (route.auth === 'internal' || route.auth === 'internal-or-key') {
    const { internalSecret } = context.config;
    if (hasInternalSecret(authorization, internalSecret)) return internalCaller;
    if (route.auth === 'internal') throw unauthorized();
  }
  const caller = await callerByKey(authorization, context.store);
  await context.onKeyAccepted?.(caller.actor.id);
  return caller;
}

async function callerByKey(authorization: string | undefined, store: SystemStore): Promise<Caller> {
  const apiKey = /^Bearer ([^\s]+)$/i.exec(authorization ?? '')?.[1];
  if (apiKey === undefined || !isWellFormed(apiKey)) throw unauthorized();
  const key = await store.findKey(hashApiKey(apiKey));
  if (!isValidKey(key)) throw unauthorized();
  const { tenantId, scopes, groups } = key;
  return { tenantId, scopes: effectiveScopes(scopes), groups, actor: actorOf(key) };
}

function actorOf({ id, name, owner, role, scopes }: KeyRecord): Decider {
  const held = rolesHeld(scopes);
  return defined({
    type: 'key',
    id,
    name,
    owner: owner ?? undefined,
    // Without a role of its own, the widest that it holds.
    role: held.find((each) => each === role) ?? held[0],
  });
}

export function isValidKey(key: KeyRecord | undefined): key is KeyRecord {
  if (key === undefined || key.revokedAt !== null) return false;
  return key.expiresAt === null || key.expiresAt > Date.now();
}

/** Programs of the operator. They belong to no tenant, so no tenant's data is visible to them. */
const internalCaller: Caller = {
  tenantId: '',
  scopes: new Set<Scope>(['admin']),
  groups: [],
  actor: { type: 'system', id: 'internal', name: 'internal' },
};

function localCaller(context: AuthContext): Caller {
  return {
    tenantId: context.defaultTenantId,
    scopes: new Set<Scope>(['read', 'runs', 'approve']),
    groups: [],
    actor: { type: 'system', id: 'local', name: 'local' },
  };
}

/** Callers without a key may use workspace tools only if the operator allows it. */
export function mayUseWorkspace({ actor }: Caller, { localChat }: Config): boolean {
  return actor.type === 'key' || localChat === 'on';
}

const forwardingHeaders = ['forwarded', 'via'];

/** Chat without a key is for the user of this machine: no proxy, and no page of another origin. */
export function isLocalCaller(request: FastifyRequest, config: Config): boolean {
  if (config.localChat === 'off' || !isLoopback(config.host)) return false;
  if (!isLoopback(request.ip) && request.ip !== '::ffff:127.0.0.1') return false;
  const { headers } = request;
  if (!isLoopback(hostName(headers.host ?? ''))) return false;
  const forwarded = Object.keys(headers).some(
    (name) => forwardingHeaders.includes(name) || name.startsWith('x-forwarded-'),
  );
  if (forwarded) return false;
  return headers.origin === undefined || isOwnOrigin(headers.origin, headers.host ?? '');
}

function isOwnOrigin(origin: string, host: string): boolean {
  return URL.canParse(origin) && new URL(origin).host === host;
}

function hostName(host: string): string {
  // `x@127.0.0.1` would parse as a URL, too.
  const isName = /^[^@/?#\\\s]+$/.test(host) && URL.canParse(`http://${host}`);
  return isName ? new URL(`http://${host}`).hostname : '';
}
