/** A Chat Completions server that does exactly what a test tells it to. */
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type ServerResponse,
} from 'node:http';
import type { AddressInfo, Socket } from 'node:net';

export interface RecordedRequest {
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Record<string, unknown>;
}

export type Script = (response: ServerResponse, request: RecordedRequest) => unknown;

export interface ScriptedProvider {
  readonly baseUrl: string;
  /** Every request so far, in the order in which they came. */
  readonly requests: readonly RecordedRequest[];
  /** How many connections are open now, and how many were ever made. */
  readonly connections: { readonly open: number; readonly made: number };
  /** What to do with the next requests. */
  script(next: Script): void;
  /** Cuts off every connection that waits for a next request. */
  closeIdleConnections(): void;
  close(): Promise<void>;
}

export async function startScriptedProvider(first: Script): Promise<ScriptedProvider> {
  let script = first;
  const requests: RecordedRequest[] = [];
  const sockets = new Set<Socket>();
  let made = 0;
  const server = createServer((request, response) => {
    void readJson(request).then((body) => {
      const recorded = { path: request.url ?? '', headers: request.headers, body };
      requests.push(recorded);
      return script(response, recorded);
    });
  });
  server.on('connection', (socket) => {
    made += 1;
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
  });
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  const { port } = server.address() as AddressInfo;
  return {
    baseUrl: `http://127.0.0.1:${port}/v1`,
    requests,
    get connections() {
      return { open: sockets.size, made };
    },
    script(next) {
      script = next;
    },
    closeIdleConnections() {
      server.closeIdleConnections();
    },
    close() {
      for (const socket of sockets) socket.destroy();
      return new Promise((resolve) => {
        server.close(() => resolve());
      });
    },
  };
}

async function readJson(request: IncomingMessage): Promise<Record<string, unknown>> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return JSON.parse(Buffer.concat(chunks).toString()) as Record<string, unknown>;
}
