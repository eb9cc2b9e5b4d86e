/** The tool server behind Streamable HTTP, of either protocol, on a free port. */
import { randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { json } from 'node:stream/consumers';
import { NodeStreamableHTTPServerTransport, toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler } from '@modelcontextprotocol/server';
import { createToolServer, type ToolServerOptions } from './tool-server.ts';

type Handle = (request: IncomingMessage, response: ServerResponse, body?: unknown) => Promise<void>;

export class Endpoint {
  readonly #server: Server;
  readonly #handlers = new Map<string, Handle>();
  readonly #options: ToolServerOptions;
  /** Not all of them are known to the server as connections that it could close. */
  readonly #sockets = new Set<Socket>();
  /** The headers of every request. */
  readonly requests: IncomingMessage['headers'][] = [];
  readonly methods: string[] = [];
  /** The methods of the protocol. */
  readonly messages: string[] = [];
  /** The status for an unknown session. The specification says 404; the reference servers send 400. */
  unknownSession = 404;
  /** Responds to tool calls instead of the tool server. */
  onCall: ((response: ServerResponse) => void) | undefined;

  private constructor(options: ToolServerOptions) {
    this.#options = options;
    this.#server = createServer((request, response) => {
      this.requests.push(request.headers);
      this.methods.push(request.method ?? '');
      void this.#handle(request, response);
    });
    this.#server.on('connection', (socket) => {
      this.#sockets.add(socket);
      socket.once('close', () => this.#sockets.delete(socket));
    });
  }

  static async listen(options: ToolServerOptions, port = 0): Promise<Endpoint> {
    const endpoint = new Endpoint(options);
    await new Promise<void>((resolve) => endpoint.#server.listen(port, '127.0.0.1', resolve));
    return endpoint;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/mcp`;
  }

  /** As a server that was started again. */
  forgetSessions(): void {
    this.#handlers.clear();
  }

  async close(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    for (const socket of this.#sockets) socket.destroy();
    await closed;
  }

  async #handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (this.#options.asks === 'instead') return this.#modern(request, response);
    const body = request.method === 'POST' ? await json(request) : undefined;
    const { method = '' } = (body ?? {}) as { method?: string };
    this.messages.push(method);
    const session = request.headers['mcp-session-id'];
    const known = typeof session === 'string' ? this.#handlers.get(session) : undefined;
    if (session !== undefined && known === undefined)
      return void response.writeHead(this.unknownSession).end();
    if (method === 'tools/call' && this.onCall !== undefined) return this.onCall(response);
    if (known !== undefined) return known(request, response, body);
    const transport = new NodeStreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: (id) =>
        void this.#handlers.set(id, (...args) => transport.handleRequest(...args)),
    });
    await createToolServer(this.#options).connect(transport);
    await transport.handleRequest(request, response, body);
  }

  async #modern(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const handler = createMcpHandler(() => createToolServer(this.#options));
    const handle = toNodeHandler(handler) as unknown as Handle;
    await handle(request, response);
  }
}
