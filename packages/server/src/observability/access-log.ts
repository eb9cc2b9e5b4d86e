/** One line for every request, when its answer is out or its reader is gone. */
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Caller } from '../http/auth.ts';
import type { ServerLog } from './log.ts';

interface Logged {
  readonly log: ServerLog;
  readonly callerOf: (request: FastifyRequest) => Caller | undefined;
}

/** The route's pattern is told and not the URL: what callers put there is nobody's business. */
export function logAccess(
  { log, callerOf }: Logged,
  request: FastifyRequest,
  reply: FastifyReply,
): void {
  const since = performance.now();
  const { raw } = reply;
  raw.once('close', () => {
    const runId = raw.getHeader('x-run-id');
    const caller = callerOf(request);
    const quiet = raw.statusCode < 400 && isProbe(request.routeOptions.url);
    log[quiet ? 'debug' : 'info']('request', {
      requestId: request.id,
      method: request.method,
      route: request.routeOptions.url ?? null,
      status: raw.statusCode,
      ms: Math.round((performance.now() - since) * 10) / 10,
      ...(caller === undefined ? {} : { tenantId: caller.tenantId, caller: caller.as.id }),
      ...(typeof runId === 'string' ? { runId } : {}),
      ...(raw.writableEnded ? {} : { aborted: true }),
    });
  });
}

/** Asked every few seconds by machines; worth a line only when the answer is bad. */
function isProbe(route: string | undefined): boolean {
  return route === '/health' || route === '/ready' || route === '/metrics';
}
