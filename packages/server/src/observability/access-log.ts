/** One log line per request, when the response is sent or the client has disconnected. */
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Caller } from '../http/auth.ts';
import type { ServerLog } from './log.ts';

/** Logs the route's pattern, not the URL, which may contain private data. */
export function logAccess(
  { log, callerOf }: { log: ServerLog; callerOf: (request: FastifyRequest) => Caller | undefined },
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
