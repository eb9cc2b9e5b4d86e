import type { Handler } from './handler.ts';

/** `GET /metrics`, for Prometheus. */
export const metrics: Handler = async (call) => {
  call.reply.header('content-type', 'text/plain; version=0.0.4; charset=utf-8');
  return call.context.metrics.render();
};
