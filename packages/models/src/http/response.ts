/** The answer of a provider: a stream that begins, JSON that is read to its end, or a failure. */
import type { Agent } from 'node:http';
import { ProviderFailure } from '@relay/core';
import {
  callAborted,
  failureOfPlainAnswer,
  failureOfResponse,
  failureToConnect,
} from './provider-failure.ts';
import { HttpExchange, type Timeouts } from './exchange.ts';

/** As much of an error's body as can matter. */
const maxErrorBytes = 16 * 1024;

export interface Question {
  readonly body: Buffer;
  /** What may not be shown if the answer repeats it. */
  readonly secret: string | undefined;
  readonly signal: AbortSignal;
}

/** Asks, and returns when the answer is a stream to be read. Redirects are not followed. */
export async function openAnswer(exchange: HttpExchange, question: Question): Promise<void> {
  const { body, secret, signal } = question;
  const { status, headers } = await exchange.send(body);
  if (!isGood(status)) {
    throw failureOfResponse({ status, headers, body: await errorOf(exchange, signal) }, secret);
  }
  if (headers['content-type']?.startsWith('application/json') === true) {
    throw failureOfPlainAnswer(await errorOf(exchange, signal), secret);
  }
}

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

/** The JSON of a 2xx answer; everything else is a thrown `ProviderFailure`, redirects too. */
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
    const { status, headers: answered } = await exchange.send(
      Buffer.from(JSON.stringify(post.body)),
    );
    if (!isGood(status)) {
      const body = await errorOf(exchange, signal);
      throw failureOfResponse({ status, headers: answered, body }, secret);
    }
    const { text, isWhole } = await bodyOf(exchange, maxBytes);
    if (signal.aborted) throw callAborted();
    if (!isWhole) {
      throw new ProviderFailure('The provider’s answer is too long', { retryable: false });
    }
    finished = true;
    return parsed(text);
  } catch (cause) {
    throw failureToConnect(cause, { host: url.host, secret });
  } finally {
    exchange.close({ finished });
  }
}

function isGood(status: number): boolean {
  return status >= 200 && status <= 299;
}

/** What cannot be read of an error's body does not matter, unless the call was aborted. */
async function errorOf(exchange: HttpExchange, signal: AbortSignal): Promise<string> {
  const { text } = await bodyOf(exchange, maxErrorBytes, (cause) => {
    if (signal.aborted) throw cause;
  });
  if (signal.aborted) throw callAborted();
  return text;
}

interface Body {
  readonly text: string;
  /** False if it is longer than that. */
  readonly isWhole: boolean;
}

async function bodyOf(
  exchange: HttpExchange,
  maxBytes: number,
  onError = (cause: unknown): void => {
    throw cause;
  },
): Promise<Body> {
  const pieces: Buffer[] = [];
  let bytes = 0;
  try {
    while (bytes <= maxBytes) {
      const piece = await exchange.readBytes();
      if (piece === undefined) break;
      pieces.push(piece);
      bytes += piece.byteLength;
    }
  } catch (cause) {
    onError(cause);
  }
  return { text: Buffer.concat(pieces).toString('utf8', 0, maxBytes), isWhole: bytes <= maxBytes };
}

function parsed(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch {
    // Its text is not repeated: it may hold anything. It may have been cut off.
    throw new ProviderFailure('The provider sent something that is not JSON', { retryable: true });
  }
}
