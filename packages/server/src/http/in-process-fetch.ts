/** A `fetch` that calls the router directly: the same routes and checks, no socket. */
import type { Readable } from 'node:stream';
import { defined } from '@relay/protocol';
import type { FastifyInstance, LightMyRequestResponse } from 'fastify';

export type InProcessFetch = (url: string, init?: RequestInit) => Promise<Response>;

/** The Response constructor accepts no body with these statuses. */
const statusesWithoutBody: ReadonlySet<number> = new Set([204, 205, 304]);

export function createInProcessFetch(app: FastifyInstance): InProcessFetch {
  return async (url, init = {}) => {
    const { method = 'GET', body, signal } = init;
    signal?.throwIfAborted();
    if (body !== undefined && body !== null && typeof body !== 'string') {
      throw new TypeError('The body must be a string');
    }
    const { pathname, search, host } = new URL(url);
    const responding = app.inject({
      method,
      url: pathname + search,
      headers: { host, ...Object.fromEntries(new Headers(init.headers)) },
      ...defined({ payload: body ?? undefined }),
      payloadAsStream: true,
    });
    const response = await unlessAborted(responding, signal ?? undefined);
    const stream = response.stream();
    // An abort after a response without a body must not be an uncaught error: nothing reads the stream.
    stream.on('error', () => undefined);
    const abort = () => stream.destroy(signal?.reason as Error);
    signal?.addEventListener('abort', abort, { once: true });
    stream.once('close', () => {
      signal?.removeEventListener('abort', abort);
      disconnect(response);
    });
    limitBuffer(response, stream);
    const { statusCode: status } = response;
    const hasBody = !statusesWithoutBody.has(status);
    // Unread, the stream would never close.
    if (!hasBody) stream.resume();
    return new Response(hasBody ? bodyOf(stream) : null, {
      status,
      headers: headersOf(response.headers),
    });
  };
}

/** `Readable.toWeb` throws an uncaught error if the reader cancels while data arrives. */
function bodyOf(stream: Readable): ReadableStream<Uint8Array> {
  const chunks = stream[Symbol.asyncIterator]() as AsyncIterator<Uint8Array, undefined>;
  return new ReadableStream({
    async pull(controller) {
      const { done, value } = await chunks.next();
      if (done === true) controller.close();
      else controller.enqueue(value);
    },
    cancel() {
      stream.destroy();
    },
  });
}

const maxBufferedBytes = 16 * 1024 * 1024;

/** No socket applies backpressure here: an unread stream would be buffered without a limit. */
function limitBuffer({ raw: { res }, headers }: LightMyRequestResponse, stream: Readable): void {
  if (!String(headers['content-type']).startsWith('text/event-stream')) return;
  const write = res.write.bind(res) as (chunk: unknown) => boolean;
  res.write = (chunk: unknown) => {
    const canContinue = write(chunk);
    if (stream.readableLength > maxBufferedBytes)
      stream.destroy(new Error('The response was read too slowly'));
    return canContinue;
  };
}

/** Emits `close` on the server side, as a closed connection would. */
function disconnect(response: LightMyRequestResponse): void {
  response.raw.res.destroy();
}

async function unlessAborted(
  responding: Promise<LightMyRequestResponse>,
  signal: AbortSignal | undefined,
): Promise<LightMyRequestResponse> {
  if (signal === undefined) return responding;
  let abort = () => {};
  const aborted = new Promise<never>((_, reject) => {
    abort = () => reject(signal.reason as Error);
    signal.addEventListener('abort', abort, { once: true });
  });
  try {
    return await Promise.race([responding, aborted]);
  } catch (error) {
    if (signal.aborted) void responding.then(disconnect, () => undefined);
    throw error;
  } finally {
    signal.removeEventListener('abort', abort);
  }
}

function headersOf(values: Readonly<Record<string, unknown>>): Headers {
  const headers = new Headers();
  for (const [name, value] of Object.entries(values)) {
    for (const each of Array.isArray(value) ? value : [value]) headers.append(name, String(each));
  }
  return headers;
}
