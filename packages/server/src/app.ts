/**
 * The HTTP front: every route of the table gets its authentication, its validation and its handler,
 * and every failure becomes the one shape of error.
 */
import { type FieldIssue, RelayError, type Route, type RouteName, routes } from '@relay/protocol';
import fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify';
import { authenticate, type Caller } from './auth.ts';
import type { ServerContext } from './context.ts';
import { nothingHere, toRelayError } from './failures.ts';
import { decideApproval, getApproval } from './handlers/approvals.ts';
import { answerChatRelay, startChat } from './handlers/chat.ts';
import { health, ready } from './handlers/health.ts';
import { listModels } from './handlers/models.ts';
import { cancelRun, followStream, getRun, listRunEvents, startRun } from './handlers/runs.ts';
import type { Call, Handler, PublicHandler } from './handlers/handler.ts';
import { findAmbiguity } from './strict-json.ts';
import { refuseUnreadable } from './unreadable.ts';
import { validate } from './validate.ts';

const bodyLimit = 1024 * 1024;
const requestTimeoutMs = 30_000;

const publicHandlers: Partial<Record<RouteName, PublicHandler>> = { health, ready };

const handlers: Record<Exclude<RouteName, 'health' | 'ready'>, Handler> = {
  listModels,
  startChat,
  answerChatRelay,
  startRun,
  getRun,
  listRunEvents,
  followRun: followStream,
  cancelRun,
  getApproval,
  decideApproval,
};

/** Who is behind each request that is being served. */
const callers = new WeakMap<FastifyRequest, Caller>();

export function createApp(context: ServerContext): FastifyInstance {
  const app = fastify({
    bodyLimit,
    exposeHeadRoutes: false,
    forceCloseConnections: true,
    requestTimeout: requestTimeoutMs,
    // Node looks for requests that take too long only now and then.
    http: { connectionsCheckingInterval: 5_000 },
    clientErrorHandler: refuseUnreadable,
    logger: false,
    // A URL that cannot even be routed gets the same shape of error as everything else.
    frameworkErrors: (error, _request, reply) => {
      answerError(error, reply, context);
    },
    routerOptions: { maxParamLength: 1000 },
  });
  acceptJson(app);
  const methods = new Map<string, Set<string>>();
  for (const [name, route] of Object.entries(routes) as [RouteName, Route][]) {
    app.route({
      method: route.method,
      url: route.path,
      // Before the body is even read: a stranger learns nothing about it.
      onRequest: async (request) => {
        if (route.auth !== 'public')
          callers.set(request, await authenticate(request, route, context));
      },
      handler: (request, reply) => serve({ name, route, context }, request, reply),
    });
    const known = methods.get(route.path) ?? new Set();
    methods.set(route.path, known.add(route.method));
  }
  refuseOtherMethods(app, methods);
  app.setNotFoundHandler(() => {
    throw nothingHere();
  });
  app.setErrorHandler((error, _request, reply) => {
    answerError(error, reply, context);
  });
  return app;
}

interface Serving {
  readonly name: RouteName;
  readonly route: Route;
  readonly context: ServerContext;
}

async function serve(serving: Serving, request: FastifyRequest, reply: FastifyReply) {
  const { name, route, context } = serving;
  const open = publicHandlers[name];
  if (open !== undefined) return open(context);
  const caller = callers.get(request);
  if (caller === undefined) throw new TypeError(`${name} was served without its caller`);
  const input = validate(route, request);
  const call: Call = { ...input, caller, context, request, reply };
  return handlers[name as keyof typeof handlers](call);
}

/** JSON that means exactly what it says; a POST without a body, such as a cancel, may name it too. */
function acceptJson(app: FastifyInstance): void {
  const parse = app.getDefaultJsonParser('error', 'error');
  app.removeContentTypeParser('text/plain');
  app.addContentTypeParser('application/json', { parseAs: 'string' }, (request, body, done) => {
    const text = body as string;
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

function ambiguous(issue: FieldIssue): RelayError {
  const where = issue.path === '' ? '' : `${issue.path}: `;
  return new RelayError('invalid_request', `${where}${issue.message}`, { details: [issue] });
}

function refuseOtherMethods(app: FastifyInstance, methods: Map<string, Set<string>>): void {
  for (const [url, known] of methods) {
    const others = ['GET', 'HEAD', 'OPTIONS', 'POST', 'PUT', 'PATCH', 'DELETE'].filter(
      (each) => !known.has(each),
    );
    app.route({
      method: others,
      url,
      handler: (_request, reply) => {
        reply.header('allow', [...known].join(', '));
        throw new RelayError('method_not_allowed', `This path takes ${[...known].join(', ')}`);
      },
    });
  }
}

function answerError(thrown: unknown, reply: FastifyReply, context: ServerContext): void {
  const error = toRelayError(thrown);
  if (error.code === 'unauthorized') reply.header('www-authenticate', 'Bearer realm="relay"');
  if (error.status >= 500 && !error.code.startsWith('provider_')) {
    const stack = thrown instanceof Error ? thrown.stack : String(thrown);
    context.control.engine.log.error('A request failed', { stack });
  }
  void reply.code(error.status).send(error.toBody());
}
