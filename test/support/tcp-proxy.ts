/** A network between a client and its database that can be made to fail. */
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';

export type Fate = 'pass' | 'drop-now' | 'deliver-then-drop' | 'swallow';

export class TcpProxy {
  /** Decides over each piece that the client sends. */
  fate: (piece: string) => Fate = () => 'pass';
  readonly #pairs = new Set<readonly [Socket, Socket]>();
  #server: Server | undefined;
  #port = 0;
  readonly #target: URL;

  constructor(target: string) {
    this.#target = new URL(target);
  }

  async open(): Promise<string> {
    const server = createServer((client) => this.#join(client));
    this.#server = server;
    await new Promise<void>((resolve) => server.listen(this.#port, '127.0.0.1', resolve));
    this.#port = (server.address() as AddressInfo).port;
    const url = new URL(this.#target);
    url.host = `127.0.0.1:${this.#port}`;
    return url.href;
  }

  /** Connections get no response until the proxy is opened again. */
  async close(): Promise<void> {
    const server = this.#server;
    const closed = new Promise((resolve) => server?.close(resolve));
    this.cut();
    await closed;
  }

  /** All that are connected now are not any more. */
  cut(): void {
    for (const [client, upstream] of this.#pairs) {
      client.destroy();
      upstream.destroy();
    }
  }

  #join(client: Socket): void {
    const upstream = connect(Number(this.#target.port), this.#target.hostname);
    const pair = [client, upstream] as const;
    this.#pairs.add(pair);
    const part = () => {
      client.destroy();
      upstream.destroy();
      this.#pairs.delete(pair);
    };
    for (const socket of pair) {
      socket.on('error', part);
      socket.on('close', part);
      socket.setNoDelay(true);
    }
    let isHearing = true;
    upstream.on('data', (piece) => isHearing && client.write(piece));
    client.on('data', (piece: Buffer) => {
      const fate = this.fate(piece.toString('latin1'));
      if (fate === 'swallow') return;
      if (fate === 'drop-now') return part();
      if (fate === 'deliver-then-drop') {
        // The answer comes, and gets lost.
        isHearing = false;
        upstream.once('data', part);
      }
      upstream.write(piece);
    });
  }
}
