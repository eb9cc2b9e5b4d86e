/**
 * Authentication: an API key, the cookie of the console, a session token, the internal secret, or a local
 * caller of `/chat` without a key.
 */
import {
  type DamagedRow,
  findKeyInForce,
  isValidKey,
  type KeyKind,
  type KeyRecord,
  type SystemStore,
  type TokenSession,
} from '@relay/core';
import {
  type Decider,
  defined,
  effectiveScopes,
  RelayError,
  rolesHeld,
  type Route,
  routes,
  type Scope,
} from '@relay/protocol';
import type { FastifyRequest } from 'fastify';
import { type Config, isLoopback } from '../config/config.ts';
import type { KeyActivity } from '../jobs/key-activity.ts';
import type { Metrics } from '../observability/metrics.ts';
import { consoleSecretIn } from './console-cookie.ts';
import { unauthorized, unknownToken } from './errors.ts';
import { hasInternalSecret, hashApiKey, kindOfSecret } from '../secrets/keys.ts';

export interface Caller {
  readonly tenantId: string;
  /** With those that they include. */
  readonly scopes: ReadonlySet<string>;
  /** The groups of its key. */
  readonly groups: readonly string[];
  /** The caller's identity in journals and audit entries; `personOf` tells which person it is. */
  readonly actor: Decider;
  /**
   * Set for a caller with the cookie of the console: the id of the sign-in. Everything else is that of the key
   * that signed in, so that the two are one person with the same runs, sessions, votes and budgets.
   */
  readonly signIn?: string;
  /** Set for a caller without a key: what it may use. */
  readonly keyless?: 'demo' | 'all';
  /** Set for a caller with a session token, who has no scopes. */
  readonly session?: {
    readonly id: string;
    readonly handle: string;
    readonly tokenHash: string;
    /** The key that attached it; the token ends with it. */
    readonly keyId: string | null;
  };
}

export interface AuthContext {
  readonly store: SystemStore;
  readonly config: Config;
  readonly defaultTenantId: string;
  /** Completes before a request with this key is handled. */
  readonly onKeyAccepted?: (keyId: string) => Promise<void>;
  readonly activity?: KeyActivity;
  readonly metrics?: Pick<Metrics, 'unknownKey'>;
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
  try {
    requireAccess(caller, route, request.params);
  } catch (error) {
    noteRefusal(context, route, { caller, request, error });
    throw error;
  }
  return caller;
}

/** Throws `scope_required` if the key lacks a scope of the route, or the session token does not open it. */
export function requireAccess(caller: Caller, route: Route, params: unknown): void {
  if (caller.session === undefined) requireScopes(caller, route);
  else requireOpenToSession(caller.session.id, route, params);
}

interface Refused {
  readonly caller: Caller;
  readonly request: FastifyRequest;
  readonly error: unknown;
}

/**
 * A refused decision, or rule that allows calls, has an audit entry. They are counted by caller and
 * route, not by what the request names: a caller could invent any number of ids.
 */
export function noteRefusal(
  { activity }: AuthContext,
  route: Route,
  { caller, request, error }: Refused,
): void {
  if (!(error instanceof RelayError) || error.status !== 403) return;
  // `recordDecision` writes `approval.refused`.
  if (error.code === 'not_an_approver' && route.path !== routes.createGrant.path) return;
  const decides = route.scopes.includes('approve') && route.anyScope !== true;
  if (!decides && error.code !== 'approve_scope_required') return;
  const { id, relayId } = (request.params ?? {}) as { id?: string; relayId?: string };
  const which = { route: `${route.method} ${route.path}`, code: error.code };
  void activity?.refused(caller.tenantId, [caller.actor.id, which.route, which.code], {
    who: caller.actor,
    action: 'decision.refused',
    what: { ...which, ...defined({ id: id ?? relayId }) },
    why: error.message,
  });
}

/** Whether the caller may use a route, or that of its own session. */
export function mayUse(caller: Caller, route: Route): boolean {
  try {
    requireAccess(caller, route, { id: caller.session?.id });
    return true;
  } catch {
    return false;
  }
}

/** A page of another origin may not call, whatever key it has. */
function rejectForeignOrigin({ headers }: FastifyRequest, config: Config): void {
  const { origin, host } = headers;
  if (origin === undefined || isOwnOrigin(origin, host ?? '', config)) return;
  if (config.allowedOrigins.includes(origin)) return;
  throw new RelayError('origin_not_allowed', 'Origin not allowed: add it to RELAY_ALLOWED_ORIGINS');
}

/**
 * Browsers send the cookie of the console with requests of other pages too, if those are of the same site: another
 * port, or a sibling domain. Only the console's own pages may use it, whatever RELAY_ALLOWED_ORIGINS says.
 */
export function rejectForeignPage(
  { method, headers }: FastifyRequest,
  config: Config,
  { requireOrigin }: { readonly requireOrigin: boolean },
): void {
  const { origin, host = '', 'sec-fetch-site': site = 'none' } = headers;
  const isWrite = method !== 'GET' && method !== 'HEAD';
  const isOwn =
    origin === undefined ? !(isWrite && requireOrigin) : isOwnOrigin(origin, host, config);
  if (isOwn && (site === 'same-origin' || site === 'none')) return;
  const message =
    isOwn || origin === undefined || !URL.canParse(origin)
      ? 'Only pages of the console sign in and use its cookie, and they send their Origin: send an API key instead'
      : wrongAddress(new URL(origin).origin, host, config);
  throw new RelayError('origin_not_allowed', message);
}

function wrongAddress(origin: string, host: string, { publicUrl }: Config): string {
  const [own, fix] =
    publicUrl === undefined
      ? [`the Host ${host}`, `set RELAY_PUBLIC_URL to ${origin}`]
      : [
          `RELAY_PUBLIC_URL ${publicUrl}`,
          `open the console at ${publicUrl}, or correct the setting`,
        ];
  return `This page has the address ${origin}, which differs from ${own} of the server. If it is the console, ${fix}; other pages send an API key`;
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

/** A session token opens only what its route declares. It never approves and never administers. */
function requireOpenToSession(sessionId: string, route: Route, params: unknown): void {
  const { id } = (params ?? {}) as { id?: string };
  if (route.session === 'tenant' || (route.session === 'own' && id === sessionId)) return;
  throw new RelayError(
    'scope_required',
    route.session === 'own'
      ? 'A session token opens only its own session'
      : 'A session token does not open this: use an API key',
  );
}

async function identify(
  request: FastifyRequest,
  route: Route,
  context: AuthContext,
): Promise<Caller> {
  const { authorization } = request.headers;
  const isForKey = route.cookie !== false && route.auth !== 'internal';
  const cookie = authorization === undefined && isForKey ? consoleSecretIn(request) : undefined;
  if (cookie !== undefined) {
    rejectForeignPage(request, context.config, { requireOrigin: true });
    return callerByKey(cookie, 'console', context);
  }
  if (authorization === undefined && route.auth === 'local-or-key') {
    const { keylessChat } = context.config;
    if (keylessChat !== 'off' && isLocalCaller(request)) return localCaller(context, keylessChat);
  }
  if (route.auth === 'internal' || route.auth === 'internal-or-key') {
    const { internalSecret } = context.config;
    if (hasInternalSecret(authorization, internalSecret)) return internalCaller;
    if (route.auth === 'internal') throw unauthorized();
  }
  const secret = /^Bearer ([^\s]+)$/i.exec(authorization ?? '')?.[1];
  if (secret === undefined) throw unauthorized();
  if (kindOfSecret(secret) === 'session') return callerByToken(secret, context);
  return callerByKey(secret, 'api', context);
}

/** Undefined for a token that was replaced, or whose session or key has ended. */
export async function findSessionByToken(
  store: SystemStore,
  tokenHash: string,
): Promise<TokenSession | undefined> {
  const session = await store.sessions.findToken(tokenHash);
  if (session === undefined || session.keyId === null) return session;
  const { tenantId, keyId } = session;
  const key = await findKeyInForce(store.tenant(tenantId), keyId, Date.now());
  return key === undefined ? undefined : session;
}

/** A token that no longer opens its session is as unknown as an invented one. */
async function callerByToken(token: string, { store, metrics }: AuthContext): Promise<Caller> {
  const tokenHash = hashApiKey(token);
  const session = await findSessionByToken(store, tokenHash);
  if (session === undefined) {
    metrics?.unknownKey();
    throw unknownToken();
  }
  const { tenantId, sessionId: id, handle, keyId } = session;
  return {
    tenantId,
    scopes: new Set(),
    groups: [],
    actor: { type: 'session', id, name: handle },
    session: { id, handle, tokenHash, keyId },
  };
}

async function callerByKey(
  secret: string,
  kind: 'api' | 'console',
  context: AuthContext,
): Promise<Caller> {
  const { key, apiKey } = await findValidKey(secret, kind, context);
  await context.onKeyAccepted?.(apiKey.id);
  return { ...callerWith(apiKey), ...defined({ signIn: kind === 'console' ? key.id : undefined }) };
}

export function callerWith(key: KeyRecord): Caller {
  const { tenantId, scopes, groups } = key;
  return { tenantId, scopes: effectiveScopes(scopes), groups, actor: actorOf(key) };
}

export interface FoundKey {
  readonly key: KeyRecord;
  /** The same key or, for a sign-in or a login link, the one that it belongs to. */
  readonly apiKey: KeyRecord;
}

/** The key with a secret of this kind, if it is valid. Throws `unauthorized`. */
export async function findValidKey(
  secret: string,
  kind: KeyKind,
  { store, activity, metrics }: AuthContext,
): Promise<FoundKey> {
  const refuse = (tenantId: string, who: Decider, reason: string) =>
    void activity?.refused(tenantId, [who.id], {
      who,
      action: 'key.refused',
      what: { keyId: who.id, reason },
      why: null,
    });
  let damaged: DamagedRow | undefined;
  const key =
    kindOfSecret(secret) === kind
      ? await store.findKey(hashApiKey(secret), (row) => (damaged = row))
      : undefined;
  if (damaged !== undefined) {
    // Nothing in the row can be trusted, its name and owner neither.
    const { tenantId, id } = damaged;
    refuse(tenantId, { type: 'key', id, name: id }, 'damaged');
    throw unauthorized();
  }
  if (key === undefined || key.kind !== kind) {
    // It belongs to no tenant whose audit trail could have an entry.
    metrics?.unknownKey();
    throw unauthorized();
  }
  const { tenantId, parent } = key;
  const apiKey = parent === null ? key : await store.tenant(tenantId).readKey(parent);
  const now = Date.now();
  if (apiKey === undefined || !isValidKey(key, now) || !isValidKey(apiKey, now)) {
    const ended = [key, apiKey].some((each) => each?.revokedAt !== null) ? 'revoked' : 'expired';
    refuse(tenantId, actorOf(key), ended);
    throw unauthorized();
  }
  activity?.used(tenantId, key.id);
  if (apiKey !== key) activity?.used(tenantId, apiKey.id);
  return { key, apiKey };
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

/** Programs of the operator. They belong to no tenant, so no tenant's data is visible to them. */
const internalCaller: Caller = {
  tenantId: '',
  scopes: new Set<Scope>(['admin']),
  groups: [],
  actor: { type: 'system', id: 'internal', name: 'internal' },
};

/** The scope `approve` is for the approvals of its own chats; it may not bring rules that allow. */
function localCaller(context: AuthContext, keyless: 'demo' | 'all'): Caller {
  return {
    tenantId: context.defaultTenantId,
    scopes: new Set<Scope>(['read', 'runs', 'approve']),
    groups: [],
    actor: { type: 'system', id: 'local', name: 'local' },
    keyless,
  };
}

/** Headers that proxies, load balancers and CDNs add: whole names, then beginnings of names. */
const forwardingNames =
  'via cdn-loop client-ip true-client-ip incap-client-ip x-cdn x-client-ip x-cluster-client-ip ' +
  'x-host x-scheme x-varnish';
const forwardingPrefixes =
  'akamai- ali- cf- cloudfront- fastly- fly- forwarded ngrok- proxy- remote- surrogate- tailscale- ' +
  'wl-proxy- x-akamai- x-amz- x-amzn- x-appengine- x-arr- x-auth-request- x-azure- x-edge- x-envoy- ' +
  'x-forward x-haproxy- x-nf- x-ngrok- x-original- x-originating- x-proxy- x-real- x-remote- ' +
  'x-render- x-ssl- x-sucuri- x-vercel-';
const FORWARDING_NAMES: ReadonlySet<string> = new Set(forwardingNames.split(' '));
const FORWARDING_PREFIXES: readonly string[] = forwardingPrefixes.split(' ');

function isForwardingHeader(name: string): boolean {
  return FORWARDING_NAMES.has(name) || FORWARDING_PREFIXES.some((each) => name.startsWith(each));
}

/**
 * Chat without a key is for the user of this machine: no proxy, and no page of another origin. Proxies
 * that add no header to requests speak HTTP/1.0, as nginx does by default.
 */
export function isLocalCaller({ headers, ip, raw }: FastifyRequest): boolean {
  if (!isLoopback(ip) && ip !== '::ffff:127.0.0.1') return false;
  if (!isLoopback(hostName(headers.host ?? ''))) return false;
  if (raw.httpVersion !== '1.1') return false;
  if (Object.keys(headers).some(isForwardingHeader)) return false;
  return headers.origin === undefined || isOwnOrigin(headers.origin, headers.host ?? '');
}

/** A proxy may pass on another Host than the browser has; then the public URL is the server's own origin. */
function isOwnOrigin(origin: string, host: string, config?: Pick<Config, 'publicUrl'>): boolean {
  if (!URL.canParse(origin)) return false;
  const { publicUrl } = config ?? {};
  if (publicUrl !== undefined && origin === new URL(publicUrl).origin) return true;
  return new URL(origin).host === host;
}

function hostName(host: string): string {
  // `x@127.0.0.1` would parse as a URL, too.
  const isName = /^[^@/?#\\\s]+$/.test(host) && URL.canParse(`http://${host}`);
  return isName ? new URL(`http://${host}`).hostname : '';
}
