/** A raw socket client, which can stop reading and disconnect. */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';

export interface RawRequest {
  readonly url: string;
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: unknown;
}

export function openRaw({ url, path, headers = {}, body }: RawRequest): Socket {
  const { hostname, port } = new URL(url);
  const text = body === undefined ? '' : JSON.stringify(body);
  const lines = [
    `${body === undefined ? 'GET' : 'POST'} ${path} HTTP/1.1`,
    `host: ${hostname}`,
    ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
    ...(body === undefined
      ? []
      : ['content-type: application/json', `content-length: ${Buffer.byteLength(text)}`]),
  ];
  const socket = connect(Number(port), hostname);
  socket.on('error', () => undefined);
  socket.write(`${lines.join('\r\n')}\r\n\r\n${text}`);
  return socket;
}

/** Resolves with the first bytes of the response. */
export async function answered(socket: Socket): Promise<string> {
  const [chunk] = (await once(socket, 'data')) as [Buffer];
  return chunk.toString('utf8');
}

/** Calls `act` `count` times with limited concurrency. */
export async function times(
  count: number,
  atOnce: number,
  act: (n: number) => Promise<void>,
): Promise<void> {
  let next = 0;
  await Promise.all(
    Array.from({ length: atOnce }, async () => {
      while (next < count) await act(next++);
    }),
  );
}
