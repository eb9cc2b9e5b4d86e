/**
 * `fetch` on guarded connections, for what speaks HTTP by itself. Redirects are not followed: whoever
 * wants to follow one asks again, and is checked again.
 */
import { type IncomingMessage, request as httpRequest } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { Readable } from 'node:stream';
import type { OutboundGuard } from '@relay/models';

type Fetch = (url: string | URL, init?: RequestInit) => Promise<Response>;

/** Of an answer, or of one frame of a stream of events. */
const maxBytes = 4 * 1024 * 1024;

export function createGuardedFetch(guard: OutboundGuard): Fetch {
  return async (target, init = {}) => {
    const url = new URL(target);
    try {
      guard.checkUrl(url);
      return await exchange(guard, url, init);
    } catch (error) {
      init.signal?.throwIfAborted();
      throw named(error);
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
    ...(init.signal == null ? {} : { signal: init.signal }),
  });
  sending.on('error', reject);
  sending.on('response', (answer) => {
    try {
      resolve(responseOf(answer));
    } catch (error) {
      answer.destroy();
      reject(error);
    }
  });
  sending.end(typeof init.body === 'string' ? init.body : undefined);
  return promise;
}

const withoutBody = new Set([204, 205, 304]);

function responseOf(answer: IncomingMessage): Response {
  const status = answer.statusCode ?? 0;
  const headers = new Headers();
  for (const [name, values] of Object.entries(answer.headersDistinct)) {
    for (const value of values ?? []) headers.append(name, value);
  }
  if (withoutBody.has(status)) {
    answer.resume();
    return new Response(null, { status, headers });
  }
  const isEvents = headers.get('content-type')?.startsWith('text/event-stream') ?? false;
  const body = Readable.toWeb(Readable.from(bounded(answer, isEvents))) as ReadableStream;
  return new Response(body, { status, headers, statusText: answer.statusMessage ?? '' });
}

/** A stream of events may be endless, but none of them. */
async function* bounded(answer: IncomingMessage, isEvents: boolean): AsyncGenerator<Uint8Array> {
  let bytes = 0;
  for await (const piece of answer as AsyncIterable<Buffer>) {
    const end = isEvents ? frameEnd(piece) : -1;
    bytes = end < 0 ? bytes + piece.length : piece.length - end;
    if (bytes > maxBytes) throw new Error(`Its answer has more than ${maxBytes} bytes`);
    yield piece;
  }
}

function frameEnd(piece: Buffer): number {
  return Math.max(
    piece.lastIndexOf('\n\n'),
    piece.lastIndexOf('\r\n\r\n'),
    piece.lastIndexOf('\r\r'),
  );
}

/** The guard speaks of providers. The code of an error is what tells a failure from a refusal. */
function named(error: unknown): Error {
  const { message, code } = error as NodeJS.ErrnoException;
  const said = message.replace('The provider’s URL', 'The URL');
  return Object.assign(new Error(said, { cause: error }), code === undefined ? {} : { code });
}
