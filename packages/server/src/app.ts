/**
 * The HTTP front: every route of the table gets its authentication, its validation and its handler,
 * and every failure becomes the one shape of error.
 */
import { RelayError, type Route, type RouteName, routes } from '@relay/protocol';
import fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify';
import { authenticate } from './auth.ts';
import type { ServerContext } from './context.ts';
import { toRelayError } from './failures.ts';
import { decideApproval, getApproval } from './handlers/approvals.ts';
import { answerChatRelay, startChat } from './handlers/chat.ts';
import { health, ready } from './handlers/health.ts';
import { listModels } from './handlers/models.ts';
import { cancelRun, followStream, getRun, listRunEvents, startRun } from './handlers/runs.ts';
import type { Call, Handler, PublicHandler } from './handlers/handler.ts';
import { validate } from './validate.ts';

const bodyLimit = 1024 * 1024;

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

export function createApp(context: ServerContext): FastifyInstance {
  const app = fastify({
    bodyLimit,
    exposeHeadRoutes: false,
    forceCloseConnections: true,
    requestTimeout: 30_000,
    logger: false,
  });
  acceptEmptyJson(app);
  const methods = new Map<string, Set<string>>();
  for (const [name, route] of Object.entries(routes) as [RouteName, Route][]) {
    app.route({
      method: route.method,
      url: route.path,
      handler: (request, reply) => serve({ name, route, context }, request, reply),
    });
    const known = methods.get(route.path) ?? new Set();
    methods.set(route.path, known.add(route.method));
  }
  refuseOtherMethods(app, methods);
  app.setNotFoundHandler(() => {
    throw new RelayError('not_found', 'There is nothing here');
  });
  app.setErrorHandler((error, _request, reply) => answerError(error, reply));
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
  const caller = await authenticate(request, route, context);
  const input = validate(route, request);
  const call: Call = { ...input, caller, context, request, reply };
  return handlers[name as keyof typeof handlers](call);
}

/** A POST without a body, such as a cancel, may still say that it is JSON. */
function acceptEmptyJson(app: FastifyInstance): void {
  const parse = app.getDefaultJsonParser('error', 'error');
  app.removeContentTypeParser('text/plain');
  app.addContentTypeParser('application/json', { parseAs: 'string' }, (request, body, done) => {
    if (body === '') done(null, undefined);
    else void parse(request, body as string, done);
  });
}

function refuseOtherMethods(app: FastifyInstance, methods: Map<string, Set<string>>): void {
  for (const [url, known] of methods) {
    const others = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'].filter((each) => !known.has(each));
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

function answerError(thrown: unknown, reply: FastifyReply): FastifyReply {
  const error = toRelayError(thrown);
  if (error.code === 'unauthorized') reply.header('www-authenticate', 'Bearer realm="relay"');
  if (error.status >= 500) reply.log.error(thrown);
  return reply.code(error.status).send(error.toBody());
}
