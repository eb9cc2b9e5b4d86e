/**
 * `fetch` for the providers' packages, on our own connections: the addresses are guarded, redirects
 * are not followed, silence and length are bounded, and a failure is a `ProviderFailure` before the
 * package ever sees it, so that all providers fail in the same words.
 */
import type { Agent } from 'node:http';
import { ProviderFailure } from '@relay/core';
import { openAnswer } from './response.ts';
import { defaultTimeouts, HttpExchange, type Timeouts } from './exchange.ts';
import { failureToConnect } from './provider-failure.ts';

export interface Connecting {
  readonly apiKey: string;
  /** Where connections come from; left out, a pool for all models of the process. */
  readonly agent?: Agent | undefined;
  readonly timeouts?: Partial<Timeouts> | undefined;
}

/** Far beyond any answer; the packages hold a frame in memory until it ends. */
const maxAnswerBytes = 64 * 1024 * 1024;

export function createProviderFetch({ apiKey, agent, timeouts }: Connecting): typeof fetch {
  return async (input, init = {}) => {
    const url = new URL(input instanceof Request ? input.url : input);
    const signal = init.signal ?? new AbortController().signal;
    const target = {
      url,
      headers: Object.fromEntries(new Headers(init.headers)),
      agent,
      timeouts: { ...defaultTimeouts, ...timeouts },
    };
    const exchange = new HttpExchange(target, signal);
    try {
      const body = Buffer.from(typeof init.body === 'string' ? init.body : '');
      await openAnswer(exchange, { body, secret: apiKey, signal });
    } catch (cause) {
      exchange.close({ finished: false });
      throw failureToConnect(cause, { host: url.host, secret: apiKey });
    }
    const headers = { 'content-type': 'text/event-stream' };
    return new Response(streamOf(exchange, { host: url.host, secret: apiKey }), { headers });
  };
}

function streamOf(
  exchange: HttpExchange,
  told: { host: string; secret: string },
): ReadableStream<Uint8Array> {
  let bytes = 0;
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      try {
        const piece = await exchange.readBytes();
        if (piece === undefined) {
          exchange.close({ finished: true });
          controller.close();
          return;
        }
        bytes += piece.byteLength;
        if (bytes > maxAnswerBytes) throw tooLong();
        controller.enqueue(piece);
      } catch (cause) {
        exchange.close({ finished: false });
        controller.error(failureToConnect(cause, told));
      }
    },
    cancel() {
      exchange.close({ finished: false });
    },
  });
}

function tooLong(): ProviderFailure {
  return new ProviderFailure('The provider’s answer is too long', { retryable: false });
}
