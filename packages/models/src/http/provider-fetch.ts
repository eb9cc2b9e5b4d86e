/**
 * `fetch` for the provider packages on Relay's connections: addresses are guarded, redirects are not
 * followed, idle time and the size of a frame are bounded. Failures become a `ProviderFailure` before
 * the package sees them, so all providers fail in the same way.
 */
import { openStream } from './response.ts';
import type { ProviderOptions } from '../provider-request.ts';
import { defaultTimeouts, HttpExchange } from './exchange.ts';
import { failureToConnect } from './provider-failure.ts';

export function createProviderFetch({ apiKey, agent, timeouts }: ProviderOptions): typeof fetch {
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
      await openStream(exchange, body, apiKey, signal);
    } catch (cause) {
      exchange.close({ finished: false });
      throw failureToConnect(cause, url.host, apiKey);
    }
    const headers = { 'content-type': 'text/event-stream' };
    return new Response(streamOf(exchange, url.host, apiKey), { headers });
  };
}

function streamOf(
  exchange: HttpExchange,
  host: string,
  secret: string,
): ReadableStream<Uint8Array> {
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      try {
        const chunk = await exchange.readBytes();
        if (chunk === undefined) {
          exchange.close({ finished: true });
          controller.close();
          return;
        }
        controller.enqueue(chunk);
      } catch (cause) {
        exchange.close({ finished: false });
        controller.error(failureToConnect(cause, host, secret));
      }
    },
    cancel() {
      exchange.close({ finished: false });
    },
  });
}
