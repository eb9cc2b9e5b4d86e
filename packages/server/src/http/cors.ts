/**
 * CORS: only pages of the configured origins may read responses. The headers are set on the raw
 * response, because streams bypass the reply. See
 * `docs/decisions/2026-11-15-own-cors-and-rate-limit.md`.
 */
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Config } from '../config/config.ts';

const exposedHeaders = ['x-run-id', 'x-request-id', 'idempotent-replayed', 'retry-after'];
const allowedHeaders = [
  'authorization',
  'content-type',
  'idempotency-key',
  'last-event-id',
  'traceparent',
  'x-request-id',
];
const maxAgeSeconds = 600;

export function setCorsHeaders(config: Config, request: FastifyRequest, reply: FastifyReply): void {
  if (config.allowedOrigins.length === 0) return;
  reply.raw.setHeader('vary', 'Origin');
  const { origin } = request.headers;
  if (!isAllowed(config, origin)) return;
  reply.raw.setHeader('access-control-allow-origin', origin);
  reply.raw.setHeader('access-control-expose-headers', exposedHeaders.join(', '));
}

/** The headers that answer a preflight request; null if the request is none. */
export function preflight(
  config: Config,
  { method, headers }: FastifyRequest,
  methods: string,
): Readonly<Record<string, string>> | null {
  const isPreflight =
    method === 'OPTIONS' && headers['access-control-request-method'] !== undefined;
  if (!isPreflight || !isAllowed(config, headers.origin)) return null;
  return {
    'access-control-allow-methods': methods,
    'access-control-allow-headers': allowedHeaders.join(', '),
    'access-control-max-age': String(maxAgeSeconds),
  };
}

function isAllowed(config: Config, origin: string | undefined): origin is string {
  return origin !== undefined && config.allowedOrigins.includes(origin);
}
