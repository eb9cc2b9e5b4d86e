/**
 * The HTTP front: every route of the table gets its authentication, its validation and its handler,
 * and every failure becomes the one shape of error.
 */
import { type FieldIssue, RelayError, type Route, type RouteName, routes } from '@relay/protocol';
import fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify';
import { logAccess } from '../observability/access-log.ts';
import { authenticate, type Caller } from './auth.ts';
import type { ServerContext } from './context.ts';
import { preflight, setCorsHeaders } from './cors.ts';
import { notFound, toRelayError } from './errors.ts';
import type { LinkHandler } from './handlers/decision-link.ts';
import type { Call, Handler, PublicHandler } from './handlers/handler.ts';
import { requestIdOf } from './request-id.ts';
import { findAmbiguity } from './strict-json.ts';
import { linkSurface, publicSurface, surfaces } from './handler-table.ts';
import { refuseUnreadable } from './unreadable.ts';
import { validate } from './validate.ts';
import { failedPage, pageHeaders } from './views/decision-page.ts';

const bodyLimit = 1024 * 1024;
const requestTimeoutMs = 30_000;

/** Who is behind each request that is being served. */
const callers = new WeakMap<FastifyRequest, Caller>();

export function createApp(context: ServerContext): FastifyInstance {
  const { log } = context;
  const greet = (request: FastifyRequest, reply: FastifyReply) => {
    reply.raw.setHeader('x-request-id', request.id);
    setCorsHeaders(context.config, request, reply);
    logAccess({ log, callerOf: (each) => callers.get(each) }, request, reply);
  };
  const answerError = (thrown: unknown, request: FastifyRequest, reply: FastifyReply) => {
    const error = toRelayError(thrown);
    if (error.status >= 500 && !expected.has(error.code)) {
      const { id: requestId, method, routeOptions } = request;
      const { code } = error;
      const what = { requestId, method, route: routeOptions.url, code };
      log.error('A request failed', { ...what, error: thrown });
    }
    if (error.code === 'unauthorized') reply.header('www-authenticate', 'Bearer realm="relay"');
    if (error.retryAfterMs !== undefined) {
      reply.header('retry-after', String(Math.max(1, Math.ceil(error.retryAfterMs / 1000))));
    }
    const isPage = request.routeOptions.url === linkPath && wantsPage(request);
    void reply.code(error.status);
    if (isPage) void reply.headers(pageHeaders).send(failedPage(error));
    else void reply.send(error.toBody());
  };
  const app = fastify({
    bodyLimit,
    exposeHeadRoutes: false,
    forceCloseConnections: true,
    requestTimeout: requestTimeoutMs,
    // Node looks for requests that take too long only now and then.
    http: { connectionsCheckingInterval: 5_000 },
    clientErrorHandler: (error, socket) => {
      log.info('A request could not be read', { code: error.code });
      refuseUnreadable(error, socket);
    },
    logger: false,
    requestIdHeader: false,
    genReqId: requestIdOf,
    // A URL that cannot even be routed gets the same shape of error as everything else.
    frameworkErrors: (error, request, reply) => {
      greet(request, reply);
      answerError(error, request, reply);
    },
    routerOptions: { maxParamLength: 1000 },
  });
  app.addHook('onRequest', async (request, reply) => greet(request, reply));
  acceptJson(app);
  for (const [name, handler] of Object.entries(publicSurface) as [RouteName, PublicHandler][]) {
    addPublic(app, routes[name], () => handler(context));
  }
  void app.register(async (plugin) => addLinks(plugin, context));
  for (const surface of surfaces) {
    void app.register(async (plugin) => {
      for (const [name, handler] of Object.entries(surface) as [RouteName, Handler][]) {
        if (!isThere(routes[name], context)) continue;
        addRoute(plugin, { route: routes[name], handler, context });
      }
    });
  }
  const methods = new Map<string, Set<string>>();
  for (const route of Object.values(routes) as Route[]) {
    if (!isThere(route, context)) continue;
    const { method, path } = route;
    const served = (methods.get(path) ?? new Set()).add(method);
    methods.set(path, route.auth === 'public' ? served.add('HEAD') : served);
  }
  refuseOtherMethods(app, methods, context);
  app.setNotFoundHandler(() => {
    throw notFound();
  });
  app.setErrorHandler(answerError);
  return app;
}

/** Without a secret there is nothing internal, not even a path. */
function isThere({ auth }: Route, { config }: ServerContext): boolean {
  return auth !== 'internal' || config.internalSecret !== undefined;
}

interface Served {
  readonly route: Route;
  readonly handler: Handler;
  readonly context: ServerContext;
}

function addPublic(app: FastifyInstance, route: Route, answer: () => Promise<unknown>): void {
  app.route({
    // Load balancers like to ask without wanting to hear.
    method: [route.method, 'HEAD'],
    url: route.path,
    handler: async (_request, reply) => {
      if (route.answer === 'html') {
        reply.header('content-type', 'text/html; charset=utf-8');
        reply.header('content-security-policy', "default-src 'none'; style-src 'unsafe-inline'");
      }
      return answer();
    },
  });
}

const linkPath = routes.showDecisionLink.path;

function wantsPage({ headers }: FastifyRequest): boolean {
  return headers.accept?.includes('text/html') === true;
}

/** The only place where a form of a page is taken. */
function addLinks(app: FastifyInstance, context: ServerContext): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser(
    'application/x-www-form-urlencoded',
    { parseAs: 'string', bodyLimit: 8 * 1024 },
    (_request, body, done) => done(null, new URLSearchParams(body as string)),
  );
  for (const [name, handler] of Object.entries(linkSurface) as [RouteName, LinkHandler][]) {
    const { method, path } = routes[name];
    app.route({
      method,
      url: path,
      handler: (request, reply) => handler(context, request, reply),
    });
  }
}

/** Who is calling, if they may, and not too often. */
async function admit(
  { route, context }: Pick<Served, 'route' | 'context'>,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<Caller> {
  const { requests, failures } = context.rates;
  const caller = await authenticate(request, route, context).catch((error: unknown) => {
    // Good keys from the same address go on: many callers may share one.
    if (error instanceof RelayError && error.code === 'unauthorized') {
      failures.check(request.ip, reply);
    }
    throw error;
  });
  requests.check(caller.as.id, reply);
  return caller;
}

function addRoute(app: FastifyInstance, { route, handler, context }: Served): void {
  app.route({
    method: route.method,
    url: route.path,
    bodyLimit: route.bodyLimit ?? bodyLimit,
    // Before the body is even read: a stranger learns nothing about it.
    onRequest: async (request, reply) => {
      callers.set(request, await admit({ route, context }, request, reply));
    },
    handler: async (request, reply) => {
      const caller = callers.get(request);
      if (caller === undefined) throw new TypeError(`${route.path} was served without its caller`);
      const call: Call = { ...validate(route, request), caller, context, request, reply };
      return handler(call);
    },
  });
}

/** JSON that means exactly what it says; a POST without a body, such as a cancel, may name it too. */
function acceptJson(app: FastifyInstance): void {
  const parse = app.getDefaultJsonParser('error', 'error');
  app.removeContentTypeParser('text/plain');
  app.addContentTypeParser('application/json', { parseAs: 'string' }, (request, body, done) => {
    const text = body as string;
    if (!isPlainUtf8(request)) {
      const message = 'The body must be UTF-8, and not compressed';
      done(new RelayError('unsupported_media_type', message), undefined);
      return;
    }
    if (text === '') {
      done(null, undefined);
      return;
    }
    void parse(request, text, (error: Error | null, value?: unknown) => {
      const issue = error === null ? findAmbiguity(text) : undefined;
      if (issue === undefined) done(error, value);
      else done(ambiguous(issue), undefined);
    });
  });
}

/** Read as anything else, the same bytes would mean something else. */
function isPlainUtf8({ headers }: FastifyRequest): boolean {
  const { 'content-type': type = '', 'content-encoding': encoding = 'identity' } = headers;
  const charset = /;\s*charset\s*=\s*"?([^\s;"]+)/i.exec(type)?.[1] ?? 'utf-8';
  return encoding === 'identity' && /^(?:utf-?8|us-ascii)$/i.test(charset);
}

function ambiguous(issue: FieldIssue): RelayError {
  const where = issue.path === '' ? '' : `${issue.path}: `;
  return new RelayError('invalid_request', `${where}${issue.message}`, { details: [issue] });
}

function refuseOtherMethods(
  app: FastifyInstance,
  methods: Map<string, Set<string>>,
  context: ServerContext,
): void {
  for (const [url, known] of methods) {
    const others = ['GET', 'HEAD', 'OPTIONS', 'POST', 'PUT', 'PATCH', 'DELETE'].filter(
      (each) => !known.has(each),
    );
    app.route({
      method: others,
      url,
      handler: (request, reply) => {
        const allowed = preflight(context.config, request, [...known]);
        if (allowed !== null) return reply.code(204).headers(allowed).send();
        reply.header('allow', [...known].join(', '));
        throw new RelayError('method_not_allowed', `This path takes ${[...known].join(', ')}`);
      },
    });
  }
}

/** What is somebody else's fault, or a documented answer. */
const expected: ReadonlySet<string> = new Set([
  'provider_failed',
  'provider_rejected',
  'context_exceeded',
  'approval_state_missing',
]);
