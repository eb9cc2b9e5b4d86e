/** Who is calling: a tenant's key, or somebody on this very machine who chats without one. */
import type { SystemStore } from '@relay/core';
import { type Decider, RelayError, type Route, type Scope } from '@relay/protocol';
import type { FastifyRequest } from 'fastify';
import { type Config, isLoopback } from '../config/config.ts';
import { noValidKey } from './errors.ts';
import { hasInternalSecret, hashApiKey, isWellFormed } from '../secrets/keys.ts';

export interface Caller {
  readonly tenantId: string;
  readonly scopes: ReadonlySet<string>;
  /** How this caller is named in journals and audit entries. */
  readonly as: Decider;
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
  refuseStrangers(request, context.config);
  const caller = await identify(request, route, context);
  requireScopes(caller, route);
  return caller;
}

/**
 * Before anything else, wherever content is shown: a name that leads here without being ours is somebody's trick
 * to make a browser take us for them, and a page of another origin speaks for no person, whatever key
 * it holds.
 */
function refuseStrangers(request: FastifyRequest, config: Config): void {
  refuseForeignHost(request, config);
  const { origin, host } = request.headers;
  if (origin === undefined || isOwnOrigin(origin, host ?? '')) return;
  if (config.allowedOrigins.includes(origin)) return;
  throw new RelayError('origin_not_allowed', 'Pages of this origin may not call this server');
}

export function refuseForeignHost({ headers }: FastifyRequest, config: Config): void {
  const { host } = headers;
  // Only HTTP/1.0 knows requests without a Host, and no browser speaks it.
  if (host !== undefined && !isAllowedHost(hostName(host), config)) {
    throw new RelayError('host_not_allowed', 'This server is not called by that name');
  }
}

function isAllowedHost(name: string, { allowedHosts, host }: Config): boolean {
  if (isLoopback(name)) return true;
  const bare = name.replace(/^\[(.*)\]$/, '$1').toLowerCase();
  if (allowedHosts.length > 0) return allowedHosts.includes(bare);
  return !isLoopback(host) || bare === host.toLowerCase();
}

function requireScopes(caller: Caller, { scopes, anyScope }: Route): void {
  const [first] = scopes;
  if (anyScope === true && first !== undefined) {
    requireScope(caller, scopes.find((scope) => caller.scopes.has(scope)) ?? first);
    return;
  }
  for (const scope of scopes) requireScope(caller, scope);
}

export function requireScope(caller: Caller, scope: Scope): void {
  if (caller.scopes.has(scope)) return;
  throw new RelayError('scope_required', `This key lacks the scope ${scope}`);
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
    if (route.auth === 'internal') throw noValidKey();
  }
  const caller = await callerByKey(authorization, context.store);
  if (caller === undefined) throw noValidKey();
  await context.onKeyAccepted?.(caller.as.id);
  return caller;
}

async function callerByKey(
  authorization: string | undefined,
  store: SystemStore,
): Promise<Caller | undefined> {
  const apiKey = /^Bearer ([^\s]+)$/i.exec(authorization ?? '')?.[1];
  if (apiKey === undefined || !isWellFormed(apiKey)) return undefined;
  const key = await store.findKey(hashApiKey(apiKey));
  if (key === undefined || key.revokedAt !== null) return undefined;
  if (key.expiresAt !== null && key.expiresAt <= Date.now()) return undefined;
  return {
    tenantId: key.tenantId,
    scopes: new Set(key.scopes),
    as: { type: 'key', id: key.id, name: key.name },
  };
}

/** Relay's own machinery: of no tenant, so that whatever belongs to one is not there for it. */
const internalCaller: Caller = {
  tenantId: '',
  scopes: new Set<Scope>(['admin']),
  as: { type: 'system', id: 'internal', name: 'internal' },
};

function localCaller(context: AuthContext): Caller {
  return {
    tenantId: context.defaultTenantId,
    scopes: new Set<Scope>(['runs', 'approve']),
    as: { type: 'system', id: 'local', name: 'local' },
  };
}

/** Without a key, tools that work in the tenant's folder are there only if the operator says so. */
export function mayUseWorkspace({ as }: Caller, { localChat }: Config): boolean {
  return as.type === 'key' || localChat === 'on';
}

const forwardingHeaders = ['forwarded', 'via'];

/**
 * Keyless chat is for the person at this machine. Anything that hints at a proxy or at a page of
 * another origin is somebody else.
 */
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
  // A name and nothing else: `x@127.0.0.1` would parse as well.
  const isName = /^[^@/?#\\\s]+$/.test(host) && URL.canParse(`http://${host}`);
  return isName ? new URL(`http://${host}`).hostname : '';
}
