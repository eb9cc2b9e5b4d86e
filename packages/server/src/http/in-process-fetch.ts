/** `fetch` that goes straight into the router: same routes, same checks, no socket. */
import type { Readable } from 'node:stream';
import type { FastifyInstance, LightMyRequestResponse } from 'fastify';

export type InProcessFetch = (url: string, init?: RequestInit) => Promise<Response>;

/** Statuses whose answers have no body, not even an empty one. */
const bodiless: ReadonlySet<number> = new Set([204, 205, 304]);

export function fetchInto(app: FastifyInstance): InProcessFetch {
  return async (url, init = {}) => {
    const { method = 'GET', body, signal } = init;
    signal?.throwIfAborted();
    if (body !== undefined && body !== null && typeof body !== 'string') {
      throw new TypeError('A body has to be text here');
    }
    const { pathname, search, host } = new URL(url);
    const answering = app.inject({
      method,
      url: pathname + search,
      headers: { host, ...Object.fromEntries(new Headers(init.headers)) },
      ...(typeof body === 'string' ? { payload: body } : {}),
      payloadAsStream: true,
    });
    const answer = await unlessAborted(answering, signal ?? undefined);
    const stream = answer.stream();
    // An abort after a response without a body must not be an uncaught error: nothing reads the stream.
    stream.on('error', () => undefined);
    const leave = () => stream.destroy(signal?.reason as Error);
    signal?.addEventListener('abort', leave, { once: true });
    stream.once('close', () => {
      signal?.removeEventListener('abort', leave);
      hangUp(answer);
    });
    cutOffSlow(answer, stream);
    const { statusCode: status } = answer;
    return new Response(bodiless.has(status) ? null : bodyOf(stream), {
      status,
      headers: headersOf(answer.headers),
    });
  };
}

/** By hand: `Readable.toWeb` throws where nobody can catch it if a reader leaves while data comes. */
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

const maxUnreadBytes = 16 * 1024 * 1024;

/** There is no socket whose buffers fill up: a stream that nobody reads would be kept whole. */
function cutOffSlow({ raw: { res }, headers }: LightMyRequestResponse, stream: Readable): void {
  if (!String(headers['content-type']).startsWith('text/event-stream')) return;
  const write = res.write.bind(res) as (chunk: unknown) => boolean;
  res.write = (chunk: unknown) => {
    const hasRoom = write(chunk);
    if (stream.readableLength > maxUnreadBytes) stream.destroy(new Error('Read too slowly'));
    return hasRoom;
  };
}

/** A reader that leaves must be seen to leave, as if its connection were closed. */
function hangUp(answer: LightMyRequestResponse): void {
  answer.raw.res.destroy();
}

async function unlessAborted(
  answering: Promise<LightMyRequestResponse>,
  signal: AbortSignal | undefined,
): Promise<LightMyRequestResponse> {
  if (signal === undefined) return answering;
  let give = () => {};
  const aborted = new Promise<never>((_, reject) => {
    give = () => reject(signal.reason as Error);
    signal.addEventListener('abort', give, { once: true });
  });
  try {
    return await Promise.race([answering, aborted]);
  } catch (error) {
    if (signal.aborted) void answering.then(hangUp, () => undefined);
    throw error;
  } finally {
    signal.removeEventListener('abort', give);
  }
}

function headersOf(given: Readonly<Record<string, unknown>>): Headers {
  const headers = new Headers();
  for (const [name, value] of Object.entries(given)) {
    for (const each of Array.isArray(value) ? value : [value]) headers.append(name, String(each));
  }
  return headers;
}
