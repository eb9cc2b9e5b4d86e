/**
 * The HTTP application. A request passes, in this order: `onRequest` (request id, CORS, access log),
 * `authenticate` and the rate limits, the JSON body parser, `validate`, and the handler of its route.
 * Every failure becomes one error body in `respondWithError`.
 */
import { defined, RelayError, type Route, type RouteName, routes } from '@relay/protocol';
import fastify, {
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  LogController,
} from 'fastify';
import type { IncomingMessage } from 'node:http';
import { uuidv7 } from 'uuidv7';
import { requestMessage, type ServerLog } from '../observability/log.ts';
import { attemptWithinLimits } from './attempts.ts';
import { authenticate, type Caller, noteRefusal, rejectForeignHost } from './auth.ts';
import { consoleSecretIn } from './console-cookie.ts';
import { acceptsHtml, addConsolePages, consoleMethods, consolePath } from './console-pages.ts';
import { preflight, setCorsHeaders } from './cors.ts';
import { jsonRpcError, notFound, respondToMalformedRequest, toRelayError } from './errors.ts';
import type {
  ApiRequest,
  CallerRoute,
  Handler,
  Input,
  LinkRoute,
  PublicHandler,
  PublicRoute,
  RouteRequest,
  ServerContext,
  SignInHandler,
  SignInRoute,
} from './handlers/handler.ts';
import { handlers, linkHandlers, publicHandlers, signInHandlers } from './handlers/index.ts';
import { acceptJson } from './strict-json.ts';
import { validate } from './validate.ts';
import { failedPage, pageHeaders } from './views/decision-page.ts';

const bodyLimit = 1024 * 1024;

/**
 * Of every response; a page replaces the policy by its own. Set on the raw response, because streams
 * bypass the reply. Browsers ignore the transport rule of a connection without TLS.
 */
const securityHeaders = Object.entries({
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
  'strict-transport-security': 'max-age=31536000',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
});
const requestTimeoutMs = 30_000;

/** The callers of the requests that are being served. */
const callers = new WeakMap<FastifyRequest, Caller>();

export function createApp(context: ServerContext): FastifyInstance {
  const { log } = context;
  const onRequest = (request: FastifyRequest, reply: FastifyReply) => {
    reply.raw.setHeader('x-request-id', request.id);
    for (const [name, value] of securityHeaders) reply.raw.setHeader(name, value);
    setCorsHeaders(context.config, request, reply);
    logAccess(log, request, reply);
  };
  const respondWithError = (thrown: unknown, request: FastifyRequest, reply: FastifyReply) => {
    const error = toRelayError(thrown);
    if (error.status >= 500 && !expectedServerErrors.has(error.code)) {
      const { id: requestId, method, routeOptions } = request;
      const fields = { requestId, method, route: routeOptions.url, code: error.code };
      log.error('A request failed', { ...fields, error: thrown });
    }
    if (error.code === 'unauthorized') reply.header('www-authenticate', 'Bearer realm="relay"');
    if (error.retryAfterMs !== undefined) {
      reply.header('retry-after', String(Math.max(1, Math.ceil(error.retryAfterMs / 1000))));
    }
    void reply.code(error.status);
    const isPage = request.routeOptions.url === linkPath && acceptsHtml(request);
    if (isPage) void reply.headers(pageHeaders).send(failedPage(error));
    else if (jsonRpcPaths.has(request.routeOptions.url)) void reply.send(jsonRpcError(error));
    else void reply.send(error.toBody());
  };
  const app = fastify({
    bodyLimit,
    exposeHeadRoutes: false,
    forceCloseConnections: 'idle',
    requestTimeout: requestTimeoutMs,
    http: { connectionsCheckingInterval: 5_000 },
    clientErrorHandler: (error, socket) => {
      // Errors of the socket come here too: most are clients that have disconnected.
      if (/^(?:HPE|ERR_HTTP)_/.test(error.code)) {
        log.info('A request could not be parsed', { code: error.code });
      }
      respondToMalformedRequest(error, socket);
    },
    ...defined({ loggerInstance: log.fastify }),
    // Requests are validated and responses are serialized here, so Fastify need not load its compilers.
    schemaController: {
      compilersFactory: { buildValidator: noCompiler, buildSerializer: noCompiler },
    },
    logController: new LogController({ disableRequestLogging: true }),
    childLoggerFactory: (logger) => logger,
    requestIdHeader: false,
    genReqId: requestIdOf,
    // A URL that cannot be routed.
    frameworkErrors: (error, request, reply) => {
      onRequest(request, reply);
      respondWithError(error, request, reply);
    },
    routerOptions: { maxParamLength: 1000 },
  });
  app.addHook('onRequest', async (request, reply) => onRequest(request, reply));
  app.setErrorHandler(respondWithError);
  app.setNotFoundHandler(() => {
    throw notFound();
  });
  acceptJson(app);
  void app.register(async (plugin) => addLinkRoutes(plugin, context));
  for (const name of routeNames) {
    if (isPublic(name)) addPublicRoute(app, name, context);
    else if (isSignIn(name)) addSignInRoute(app, name, signInHandlers, context);
    else if (!isLink(name)) addRoute(app, name, handlers, context);
  }
  addConsolePages(app, context);
  rejectOtherMethods(app, context);
  return app;
}

/**
 * One log line per request, when the response is sent or the client has disconnected. It has the
 * route's pattern, not the URL, which may contain private data.
 */
function logAccess(log: ServerLog, request: FastifyRequest, reply: FastifyReply): void {
  const since = performance.now();
  const { raw } = reply;
  // `close` comes once. `on` holds less than `once`, for as long as the response is open.
  raw.on('close', () => {
    const runId = raw.getHeader('x-run-id');
    const caller = callers.get(request);
    const isOwn = isProbe(request.routeOptions.url) || (log.isTerminal && isOfConsole(request));
    log[raw.statusCode < 400 && isOwn ? 'debug' : 'info'](requestMessage, {
      requestId: request.id,
      method: request.method,
      route: request.routeOptions.url ?? null,
      status: raw.statusCode,
      ms: Math.round((performance.now() - since) * 10) / 10,
      ...(caller === undefined ? {} : { tenantId: caller.tenantId, caller: caller.actor.id }),
      ...(typeof runId === 'string' ? { runId } : {}),
      ...(raw.writableEnded ? {} : { aborted: true }),
    });
  });
}

/** Probes come every few seconds and are logged at `info` only if they fail. */
function isProbe(route: string | undefined): boolean {
  return route === '/health' || route === '/ready' || route === '/metrics';
}

/** What the pages of the console load and refresh by themselves. */
function isOfConsole(request: FastifyRequest): boolean {
  if (request.method !== 'GET') return false;
  const isPage = request.routeOptions.url?.startsWith(consolePath) === true;
  return isPage || consoleSecretIn(request) !== undefined;
}

/** No route has a schema of Fastify's. */
function noCompiler(): never {
  throw new TypeError('Routes are validated by `validate`, not by Fastify');
}

/** Errors of a provider, or documented answers: they are not logged as failures of the server. */
const expectedServerErrors: ReadonlySet<string> = new Set([
  'provider_failed',
  'provider_rejected',
  'context_exceeded',
  'approval_state_missing',
]);

/** The client's own request id if it is well-formed, else a new one. */
function requestIdOf({ headers }: Pick<IncomingMessage, 'headers'>): string {
  const id = headers['x-request-id'];
  return typeof id === 'string' && /^[\w.:~/@+=-]{1,128}$/.test(id) ? id : uuidv7();
}

/** Without an internal secret, internal routes do not exist. */
function isEnabled({ auth }: Route, { config }: ServerContext): boolean {
  return auth !== 'internal' || config.internalSecret !== undefined;
}

const routeNames = Object.keys(routes) as RouteName[];
const authOf = (name: RouteName) => (routes[name] as Route).auth;
const isPublic = (name: RouteName): name is PublicRoute => authOf(name) === 'public';
const isLink = (name: RouteName): name is LinkRoute => authOf(name) === 'link';
const isSignIn = (name: RouteName): name is SignInRoute => authOf(name) === 'sign-in';

function addRoute<Name extends CallerRoute>(
  app: FastifyInstance,
  name: Name,
  table: { readonly [Key in Name]: Handler<Key> },
  context: ServerContext,
): void {
  const route: Route = routes[name];
  const handler: Handler<Name> = table[name];
  if (!isEnabled(route, context)) return;
  const status = route.status ?? (route.responseType === 'none' ? 204 : undefined);
  // The types of `Input` are derived from the schemas that validate here. Only the call may hold the
  // body, so that a handler that streams can release it.
  const withInput = (call: ApiRequest): RouteRequest<Name> => ({
    ...(validate(route, call.request) as Input<Name>),
    ...call,
  });
  app.route({
    method: route.method,
    url: route.path,
    bodyLimit: route.bodyLimit ?? bodyLimit,
    // Before the body is read.
    onRequest: async (request, reply) => {
      try {
        const credential = request.headers.authorization ?? consoleSecretIn(request) ?? '';
        const caller = await attemptWithinLimits(context, credential, { request, reply }, () =>
          authenticate(request, route, context),
        );
        callers.set(request, caller);
        limitRate(context, caller, reply);
        takeShares(name, context, caller, { request, reply });
      } catch (error) {
        if (error instanceof RelayError && error.status === 429) {
          context.metrics.refused(error.code, callers.get(request)?.tenantId ?? '');
        }
        throw error;
      }
    },
    handler: async (request, reply) => {
      const caller = callers.get(request);
      if (caller === undefined) throw new TypeError(`${route.path} was not authenticated`);
      releaseShares(request, context, caller);
      const result = await handler(withInput({ caller, context, request, reply })).catch(
        (error: unknown) => {
          noteRefusal(context, route, { caller, request, error });
          throw error;
        },
      );
      if (reply.sent) return reply;
      if (status !== undefined) reply.code(status);
      else if (route.noContentWhen !== undefined && result === undefined) reply.code(204);
      return result;
    },
  });
}

/** Its handler authenticates by itself, with what is in the body or the cookie. */
function addSignInRoute<Name extends SignInRoute>(
  app: FastifyInstance,
  name: Name,
  table: { readonly [Key in Name]: SignInHandler<Key> },
  context: ServerContext,
): void {
  const route: Route = routes[name];
  const handler: SignInHandler<Name> = table[name];
  app.route({
    method: route.method,
    url: route.path,
    bodyLimit: route.bodyLimit ?? bodyLimit,
    onRequest: async (request) => rejectForeignHost(request, context.config),
    handler: async (request, reply) => {
      const input = validate(route, request) as Input<Name>;
      const result = await handler({ ...input, context, request, reply });
      return route.responseType === 'none' ? reply.code(204).send() : result;
    },
  });
}

function limitRate({ rates }: ServerContext, caller: Caller, reply: FastifyReply): void {
  const { requests, tenantRequests, megabytes } = rates;
  requests.check(caller.actor.id, reply);
  if (caller.tenantId !== '') tenantRequests.check(caller.tenantId, reply);
  if (megabytes.isExhausted(caller.actor.id)) megabytes.check(caller.actor.id, reply);
}

/** Routes besides event streams whose responses wait for something. */
const waitingRoutes: ReadonlySet<string> = new Set<RouteName>([
  'approveTool',
  'resumeChat',
  'awaitToolResult',
  'listMessageDeliveries',
  'serveMcp',
  'invokeAction',
]);

/** Takes the caller's share of streams and of memory for bodies until the response is over. */
function takeShares(
  name: RouteName,
  { rates }: ServerContext,
  caller: Caller,
  { request, reply }: { request: FastifyRequest; reply: FastifyReply },
): void {
  const route: Route = routes[name];
  if (route.responseType === 'sse' || waitingRoutes.has(name)) {
    reply.raw.on('close', rates.streams.acquire(caller));
  }
  if (route.body === undefined) return;
  const length = Number(request.headers['content-length'] ?? route.bodyLimit ?? bodyLimit);
  if (!(length > smallBody)) return;
  const release = rates.bodies.acquire(caller, Math.min(length, route.bodyLimit ?? bodyLimit));
  reply.raw.on('close', release);
  bodies.set(request, release);
}

/** The body has been received and parsed. */
function releaseShares(request: FastifyRequest, { rates }: ServerContext, caller: Caller): void {
  bodies.get(request)?.();
  const size = Number(request.headers['content-length'] ?? 0);
  if (size > smallBody) rates.megabytes.charge(caller.actor.id, size / megabyte);
}

const megabyte = 1024 * 1024;
/** Smaller bodies are bounded by the number of requests. */
const smallBody = 16 * 1024;
/** What releases the memory for the body of a request. */
const bodies = new WeakMap<FastifyRequest, () => void>();

function addPublicRoute(app: FastifyInstance, name: PublicRoute, context: ServerContext): void {
  const route: Route = routes[name];
  const handler: PublicHandler<PublicRoute> = publicHandlers[name];
  app.route({
    // Load balancers probe with HEAD.
    method: [route.method, 'HEAD'],
    url: route.path,
    handler: async (request, reply) => {
      if (name === 'welcome') {
        reply.raw.appendHeader('vary', 'Accept');
        if (acceptsHtml(request)) return reply.redirect(consolePath);
      }
      if (route.responseType === 'html') {
        reply.header('content-type', 'text/html; charset=utf-8');
        reply.header('content-security-policy', docsPagePolicy);
      }
      return handler(context);
    },
  });
}

const docsPagePolicy = [
  "default-src 'none'",
  "style-src 'unsafe-inline'",
  "frame-ancestors 'none'",
  "base-uri 'none'",
  "form-action 'none'",
].join('; ');

const linkPath = routes.showDecisionLink.path;

const jsonRpcPaths: ReadonlySet<string | undefined> = new Set(
  Object.values<Route>(routes)
    .filter(({ errorFormat }) => errorFormat === 'json-rpc')
    .map(({ path }) => path),
);

/** The only routes that accept an HTML form. */
function addLinkRoutes(app: FastifyInstance, context: ServerContext): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser(
    'application/x-www-form-urlencoded',
    { parseAs: 'string', bodyLimit: 8 * 1024 },
    (_request, body, done) => done(null, new URLSearchParams(body as string)),
  );
  const add = (name: LinkRoute) => {
    const { method, path } = routes[name];
    app.route<{ Params: { token: string } }>({
      method,
      url: path,
      handler: (request, reply) =>
        linkHandlers[name]({ context, request, reply, token: request.params.token }),
    });
  };
  routeNames.filter(isLink).forEach(add);
}

const httpMethods = ['GET', 'HEAD', 'OPTIONS', 'POST', 'PUT', 'PATCH', 'DELETE'];

/** Answers the methods that a path does not serve: a CORS preflight, or 405 with `Allow`. */
function rejectOtherMethods(app: FastifyInstance, context: ServerContext): void {
  const served = new Map<string, Set<string>>();
  for (const route of Object.values<Route>(routes)) {
    if (!isEnabled(route, context)) continue;
    const methods = (served.get(route.path) ?? new Set()).add(route.method);
    served.set(route.path, route.auth === 'public' ? methods.add('HEAD') : methods);
  }
  // A login link leads to a page with the path of the route that it then calls.
  for (const method of consoleMethods) served.get(routes.loginToConsole.path)?.add(method);
  served.set(`${consolePath}*`, new Set(consoleMethods));
  for (const [url, methods] of served) {
    const allowed = [...methods].join(', ');
    app.route({
      method: httpMethods.filter((method) => !methods.has(method)),
      url,
      handler: (request, reply) => {
        const headers = preflight(context.config, request, allowed);
        if (headers !== null) return reply.code(204).headers(headers).send();
        reply.header('allow', allowed);
        throw new RelayError('method_not_allowed', `Method not allowed; use ${allowed}`);
      },
    });
  }
}
