/** A JSON response that is written as it is read, so that its size does not matter. */
import type { ApiRequest } from '../http/handlers/handler.ts';
import { ResponseWriter } from './response-writer.ts';

/** Takes over the response. A failure closes the connection, so that no client takes a part for all. */
export async function streamJson(
  call: ApiRequest,
  pieces: AsyncIterable<string>,
  contentType = 'application/json; charset=utf-8',
): Promise<void> {
  const { reply, context, caller } = call;
  reply.hijack();
  reply.raw.writeHead(200, { 'content-type': contentType });
  const writer = new ResponseWriter(reply.raw);
  // A server that stops completes the response.
  const remove = context.streams.add(caller, (reason) => {
    if (reason === 'revoked') writer.destroy();
  });
  try {
    for await (const piece of pieces) {
      await writer.send(piece);
      if (writer.isOver) return;
    }
    await writer.end();
  } catch (error) {
    writer.destroy();
    context.log.error('A response failed while it was written', {
      requestId: call.request.id,
      error,
    });
  } finally {
    remove();
  }
}
