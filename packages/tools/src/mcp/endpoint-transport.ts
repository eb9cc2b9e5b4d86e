/** An MCP server by Streamable HTTP, over connections that are somebody else's to guard. */
import { setTimeout as sleep } from 'node:timers/promises';
import {
  type FetchLike,
  type JSONRPCMessage,
  StreamableHTTPClientTransport,
  type TransportSendOptions,
} from '@modelcontextprotocol/client';
import type { McpEndpoint } from './settings.ts';

/** What is told of the call that a message is sent for. */
export interface Sender {
  /** Aborted when the call is over: its answer need not be read any further. */
  readonly over: AbortSignal;
  /** The answer has ended, whether it was complete or not. */
  lost(): void;
}

export interface EndpointOptions {
  readonly config: McpEndpoint;
  readonly fetch: FetchLike;
  /** The call that the present code runs for. */
  readonly sender: () => Sender | undefined;
}

const reconnecting = {
  initialReconnectionDelay: 500,
  maxReconnectionDelay: 10_000,
  reconnectionDelayGrowFactor: 2,
  maxRetries: 4,
};
/** How long a server may take to forget a session. */
const politeMs = 1_000;

export class EndpointTransport extends StreamableHTTPClientTransport {
  readonly #sender: EndpointOptions['sender'];
  #closing: Promise<void> | undefined;

  constructor({ config, fetch, sender }: EndpointOptions) {
    super(new URL(config.url), {
      fetch,
      // A redirect could lead to another host, with our headers.
      requestInit: { headers: { ...config.headers }, redirect: 'manual' },
      reconnectionOptions: reconnecting,
      reconnectionScheduler: atLeisure,
      onInsufficientScope: 'throw',
    });
    this.#sender = sender;
  }

  override send(
    message: JSONRPCMessage | JSONRPCMessage[],
    options: TransportSendOptions = {},
  ): Promise<void> {
    const sender = this.#sender();
    const isRequest = !Array.isArray(message) && 'method' in message && 'id' in message;
    const { requestSignal, onRequestStreamEnd, ...given } = options;
    const signals = [requestSignal, ...(isRequest ? [sender?.over] : [])].filter(
      (signal) => signal !== undefined,
    );
    return super.send(message, {
      ...(given as object),
      ...(signals.length === 0 ? {} : { requestSignal: AbortSignal.any(signals) }),
      onRequestStreamEnd: () => {
        onRequestStreamEnd?.();
        if (isRequest) sender?.lost();
      },
    });
  }

  override close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  /** A server keeps a session until it is told that nobody needs it. */
  async #close(): Promise<void> {
    const told = this.terminateSession().catch(() => undefined);
    await Promise.race([told, sleep(politeMs, undefined, { ref: false })]);
    await super.close();
  }
}

/** A server may say how soon it is to be asked again, and say "at once" for ever. */
function atLeisure(reconnect: () => void, delayMs: number): () => void {
  const { initialReconnectionDelay: least, maxReconnectionDelay: most } = reconnecting;
  const timer = setTimeout(reconnect, Math.min(Math.max(delayMs, least), most));
  timer.unref();
  return () => clearTimeout(timer);
}
