/** The response of a provider: an open stream, a whole JSON document, or a `ProviderFailure`. */
import type { Agent, IncomingHttpHeaders } from 'node:http';
import { ProviderFailure } from '@relay/core';
import {
  callAborted,
  failureWithoutStream,
  responseTooLong,
  failureOfResponse,
  failureToConnect,
} from './provider-failure.ts';
import { HttpExchange, type Timeouts } from './exchange.ts';

const maxErrorBytes = 16 * 1024;

/**
 * Sends the request; resolves when the response is a stream to be read. Redirects are not followed.
 * `secret` is redacted from error messages.
 */
export async function openStream(
  exchange: HttpExchange,
  body: Buffer,
  secret: string | undefined,
  signal: AbortSignal,
): Promise<void> {
  const headers = await send(exchange, body, secret, signal);
  if (headers['content-type']?.startsWith('application/json') === true) {
    throw failureWithoutStream(await readError(exchange, signal), secret);
  }
}

export interface JsonPost {
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  readonly agent: Agent | undefined;
  readonly timeouts: Timeouts;
  readonly body: unknown;
  /** Redacted from error messages. */
  readonly secret: string;
  /** Bounds the response: parsing blocks the process. */
  readonly maxBytes: number;
}

/** The JSON of a 2xx response. Throws a `ProviderFailure` for everything else, also for redirects. */
export async function postJson(post: JsonPost, signal: AbortSignal): Promise<unknown> {
  const { url, agent, timeouts, secret, maxBytes } = post;
  const headers = {
    'content-type': 'application/json',
    accept: 'application/json',
    ...post.headers,
  };
  const exchange = new HttpExchange({ url, headers, agent, timeouts }, signal);
  let finished = false;
  try {
    await send(exchange, Buffer.from(JSON.stringify(post.body)), secret, signal);
    const body = await readBody(exchange, maxBytes);
    if (signal.aborted) throw callAborted();
    if (body.byteLength > maxBytes) throw responseTooLong();
    finished = true;
    return parseJson(body.toString('utf8'));
  } catch (cause) {
    throw failureToConnect(cause, url.host, secret);
  } finally {
    exchange.close({ finished });
  }
}

/** The headers of a 2xx response. */
async function send(
  exchange: HttpExchange,
  body: Buffer,
  secret: string | undefined,
  signal: AbortSignal,
): Promise<IncomingHttpHeaders> {
  const { status, headers } = await exchange.send(body);
  if (status >= 200 && status <= 299) return headers;
  throw failureOfResponse({ status, headers, body: await readError(exchange, signal) }, secret);
}

/** An error body may be incomplete, unless the call was aborted. */
async function readError(exchange: HttpExchange, signal: AbortSignal): Promise<string> {
  const body = await readBody(exchange, maxErrorBytes, true);
  if (signal.aborted) throw callAborted();
  return body.toString('utf8', 0, maxErrorBytes);
}

/** Reads at most one chunk beyond `maxBytes`. */
async function readBody(
  exchange: HttpExchange,
  maxBytes: number,
  mayBreak = false,
): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  try {
    while (bytes <= maxBytes) {
      const chunk = await exchange.readBytes();
      if (chunk === undefined) break;
      chunks.push(chunk);
      bytes += chunk.byteLength;
    }
  } catch (cause) {
    if (!mayBreak) throw cause;
  }
  return Buffer.concat(chunks);
}

function parseJson(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch {
    // Without the text, which may contain anything. A truncated body may succeed on a retry.
    throw new ProviderFailure('The provider sent invalid JSON', { retryable: true });
  }
}
