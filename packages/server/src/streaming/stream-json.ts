/**
 * A JSON response that is written as it is read, so that its size does not matter: only one piece is
 * held for a client that does not read. A stalled client is disconnected.
 */
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { ApiRequest } from '../http/handlers/handler.ts';
import { stalledAfterMs } from './sse-stream.ts';

/** Takes over the response. A failure closes the connection, so that no client takes a part for all. */
export async function streamJson(call: ApiRequest, pieces: AsyncIterable<string>): Promise<void> {
  const { reply, context, caller } = call;
  const response = reply.raw;
  reply.hijack();
  response.writeHead(200, { 'content-type': 'application/json; charset=utf-8' });
  response.setTimeout(stalledAfterMs, () => response.destroy());
  // A server that stops completes the response.
  const remove = context.streams.add(caller, (reason) => {
    if (reason === 'revoked') response.destroy();
  });
  try {
    await pipeline(Readable.from(pieces), response);
  } catch (error) {
    if ((error as { code?: string }).code === 'ERR_STREAM_PREMATURE_CLOSE') return;
    context.log.error('A response failed while it was written', {
      requestId: call.request.id,
      error,
    });
  } finally {
    remove();
  }
}
