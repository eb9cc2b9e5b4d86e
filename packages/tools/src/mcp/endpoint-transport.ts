/** An MCP server by Streamable HTTP. The caller's `fetch` guards the connections. */
import { setTimeout as sleep } from 'node:timers/promises';
import {
  type FetchLike,
  type JSONRPCMessage,
  StreamableHTTPClientTransport,
  type TransportSendOptions,
} from '@modelcontextprotocol/client';
import type { McpEndpoint } from './settings.ts';

/** The call that a message belongs to. */
export interface RequestOwner {
  /** Aborted when the call has ended: its response need not be read any further. */
  readonly ended: AbortSignal;
  /** The response has ended, whether it was complete or not. */
  onStreamEnd(): void;
}

export interface EndpointOptions {
  readonly config: McpEndpoint;
  readonly fetch: FetchLike;
  /** The call of the current asynchronous context. */
  readonly currentOwner: () => RequestOwner | undefined;
}

const reconnectionOptions = {
  initialReconnectionDelay: 500,
  maxReconnectionDelay: 10_000,
  reconnectionDelayGrowFactor: 2,
  maxRetries: 4,
};
const sessionEndTimeoutMs = 1_000;

export class EndpointTransport extends StreamableHTTPClientTransport {
  readonly #currentOwner: EndpointOptions['currentOwner'];
  #closing: Promise<void> | undefined;

  constructor({ config, fetch, currentOwner }: EndpointOptions) {
    super(new URL(config.url), {
      fetch,
      // A redirect could lead to another host, with our headers.
      requestInit: { headers: { ...config.headers }, redirect: 'manual' },
      reconnectionOptions,
      reconnectionScheduler: scheduleReconnect,
      onInsufficientScope: 'throw',
    });
    this.#currentOwner = currentOwner;
  }

  override send(
    message: JSONRPCMessage | JSONRPCMessage[],
    options: TransportSendOptions = {},
  ): Promise<void> {
    const isRequest = !Array.isArray(message) && 'method' in message && 'id' in message;
    const owner = isRequest ? this.#currentOwner() : undefined;
    const { requestSignal, onRequestStreamEnd, ...others } = options;
    const signals = [requestSignal, owner?.ended].filter((signal) => signal !== undefined);
    return super.send(message, {
      ...(others as object),
      ...(signals.length === 0 ? {} : { requestSignal: AbortSignal.any(signals) }),
      onRequestStreamEnd: () => {
        onRequestStreamEnd?.();
        owner?.onStreamEnd();
      },
    });
  }

  override close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  /** Ends the session on the server, too. */
  async #close(): Promise<void> {
    const ended = this.terminateSession().catch(() => undefined);
    await Promise.race([ended, sleep(sessionEndTimeoutMs, undefined, { ref: false })]);
    await super.close();
  }
}

/** Limits the reconnection delay that a server requests. */
function scheduleReconnect(reconnect: () => void, delayMs: number): () => void {
  const { initialReconnectionDelay: min, maxReconnectionDelay: max } = reconnectionOptions;
  const timer = setTimeout(reconnect, Math.min(Math.max(delayMs, min), max));
  timer.unref();
  return () => clearTimeout(timer);
}
