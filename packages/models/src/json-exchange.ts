/** One POST of JSON and its answer, read to the end: guarded, bounded, and redacted like a stream. */
import type { Agent } from 'node:http';
import { ProviderFailure } from '@relay/core';
import { HttpExchange, type Timeouts } from './http-exchange.ts';
import { callAborted, failureOfResponse, failureToConnect } from './provider-failure.ts';

const maxErrorBytes = 16 * 1024;

export interface JsonPost {
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  readonly agent: Agent | undefined;
  readonly timeouts: Timeouts;
  readonly body: unknown;
  /** What may not be shown if the answer repeats it. */
  readonly secret: string;
  /** Of the answer: to parse it takes all of the process while it lasts. */
  readonly maxBytes: number;
}

/** What was answered with 2xx; everything else is a thrown `ProviderFailure`. Redirects too. */
export async function postJson(post: JsonPost, signal: AbortSignal): Promise<unknown> {
  const { url, agent, timeouts, secret } = post;
  const headers = {
    'content-type': 'application/json',
    accept: 'application/json',
    ...post.headers,
  };
  const exchange = new HttpExchange({ url, headers, agent, timeouts }, signal);
  let finished = false;
  try {
    const { status, headers: answered } = await exchange.send(
      Buffer.from(JSON.stringify(post.body)),
    );
    const isGood = status >= 200 && status <= 299;
    const body = await bodyOf(exchange, isGood ? post.maxBytes : maxErrorBytes);
    if (signal.aborted) throw callAborted();
    if (!isGood) throw failureOfResponse({ status, headers: answered, body }, secret);
    finished = true;
    return parsed(body);
  } catch (cause) {
    throw failureToConnect(cause, { host: url.host, secret });
  } finally {
    exchange.close({ finished });
  }
}

async function bodyOf(exchange: HttpExchange, most: number): Promise<string> {
  const pieces: Buffer[] = [];
  let bytes = 0;
  for (;;) {
    const piece = await exchange.readBytes();
    if (piece === undefined) return Buffer.concat(pieces).toString('utf8');
    pieces.push(piece);
    bytes += piece.byteLength;
    if (bytes <= most) continue;
    if (most === maxErrorBytes) return Buffer.concat(pieces).toString('utf8', 0, most);
    throw new ProviderFailure('The provider’s answer is too long', { retryable: false });
  }
}

function parsed(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch {
    // Its text is not repeated: nobody knows what it holds. It may have been cut off.
    throw new ProviderFailure('The provider sent something that is not JSON', { retryable: true });
  }
}
