/**
 * Pages of the origins that the operator named may call from a browser and read the answer. For all
 * others there is no header that would say so: the browser keeps the answer to itself.
 */
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Config } from '../config/config.ts';

const readable = ['x-run-id', 'x-request-id', 'idempotent-replayed', 'retry-after'];
const sendable = [
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
  if (!isWelcome(config, origin)) return;
  reply.raw.setHeader('access-control-allow-origin', origin);
  reply.raw.setHeader('access-control-expose-headers', readable.join(', '));
}

/** What a browser asks before it calls: whether it may, and how. Null if it does not ask. */
export function preflight(
  config: Config,
  { method, headers }: FastifyRequest,
  methods: readonly string[],
): Readonly<Record<string, string>> | null {
  const asks = method === 'OPTIONS' && headers['access-control-request-method'] !== undefined;
  if (!asks || !isWelcome(config, headers.origin)) return null;
  return {
    'access-control-allow-methods': methods.join(', '),
    'access-control-allow-headers': sendable.join(', '),
    'access-control-max-age': String(maxAgeSeconds),
  };
}

function isWelcome(config: Config, origin: string | undefined): origin is string {
  return origin !== undefined && config.allowedOrigins.includes(origin);
}
