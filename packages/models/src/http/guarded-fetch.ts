/**
 * `fetch` on guarded connections, for all requests to a URL from a tenant or the configuration except
 * model calls (`exchange.ts`). It throws `UrlRefused`, or the connection's error with its `code`.
 * Redirects are not followed.
 */
import type { IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { defined } from '@relay/protocol';
import type { OutboundGuard } from './guard.ts';
import { request as httpRequest } from './node-http.ts';

export type GuardedFetch = (url: string | URL, init?: RequestInit) => Promise<Response>;

/** Limit of a response, or of one frame of an event stream. */
const maxBytes = 4 * 1024 * 1024;

export function createGuardedFetch(guard: OutboundGuard): GuardedFetch {
  return async (target, init = {}) => {
    const url = new URL(target);
    guard.checkUrl(url);
    try {
      return await exchange(guard, url, init);
    } catch (error) {
      init.signal?.throwIfAborted();
      throw error;
    }
  };
}

function exchange(guard: OutboundGuard, url: URL, init: RequestInit): Promise<Response> {
  const { promise, resolve, reject } = Promise.withResolvers<Response>();
  const send = url.protocol === 'https:' ? httpsRequest : httpRequest;
  const sending = send(url, {
    method: init.method ?? 'GET',
    agent: guard.agentFor(url),
    headers: Object.fromEntries(new Headers(init.headers)),
    ...defined({ signal: init.signal ?? undefined }),
  });
  sending.on('error', reject);
  sending.on('response', (response) => {
    try {
      resolve(toResponse(response));
    } catch (error) {
      response.destroy();
      reject(error);
    }
  });
  sending.end(typeof init.body === 'string' ? init.body : undefined);
  return promise;
}

const withoutBody = new Set([204, 205, 304]);

function toResponse(response: IncomingMessage): Response {
  const status = response.statusCode ?? 0;
  if (status < 200 || status > 599) throw new Error(`Invalid response status ${status}`);
  const headers = new Headers();
  for (const [name, values] of Object.entries(response.headersDistinct)) {
    for (const value of values ?? []) headers.append(name, value);
  }
  if (withoutBody.has(status)) {
    response.resume();
    return new Response(null, { status, headers });
  }
  const isEvents = headers.get('content-type')?.startsWith('text/event-stream') ?? false;
  const chunks = bounded(response, isEvents);
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      const { done, value } = await chunks.next();
      if (done === true) controller.close();
      else controller.enqueue(value);
    },
    // Also during a pending `pull`.
    cancel: () => void response.destroy(),
  });
  return new Response(body, { status, headers, statusText: response.statusMessage ?? '' });
}

/** An event stream may be endless, a single event may not. */
async function* bounded(response: IncomingMessage, isEvents: boolean): AsyncGenerator<Uint8Array> {
  let bytes = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    const end = isEvents ? frameEnd(chunk) : -1;
    bytes = end < 0 ? bytes + chunk.length : chunk.length - end;
    if (bytes > maxBytes) throw new Error(`The response has more than ${maxBytes} bytes`);
    yield chunk;
  }
}

function frameEnd(chunk: Buffer): number {
  return Math.max(
    chunk.lastIndexOf('\n\n'),
    chunk.lastIndexOf('\r\n\r\n'),
    chunk.lastIndexOf('\r\r'),
  );
}
