/** Clients of a real server, in this process or over a connection that a test can cut. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createClient, type Fetch, type RelayClient } from '@relay/sdk';
import { embed } from '@relay/server';
import type { ServerFixture } from '../support/server.ts';

export interface InProcessServer {
  readonly client: RelayClient;
  readonly apiKey: string;
  readonly fetch: Fetch;
  /** `METHOD path` of every request. */
  readonly lines: string[];
  /** Another client of the same server, whose connection can be broken. */
  clientWith(apiKey: string, connection?: Connection): RelayClient;
  notes(): string[];
  dispose(): Promise<void>;
}

export interface Connection {
  /** Changes a request, or throws like a connection that fails. */
  readonly before?: (url: string, init: RequestInit) => RequestInit;
  readonly after?: (response: Response) => Response;
}

/** A server in this process, called through its router without a port. */
export async function startInProcess(): Promise<InProcessServer> {
  const dataDir = mkdtempSync(join(tmpdir(), 'relay-sdk-'));
  const { baseUrl, apiKey, fetch, stop } = await embed({ env: { RELAY_DATA_DIR: dataDir } });
  const lines: string[] = [];
  const recording: Fetch = (url, init) => {
    lines.push(`${init.method ?? 'GET'} ${new URL(url).pathname}`);
    return fetch(url, init);
  };
  const clientWith = (key: string, connection: Connection = {}) => {
    const { before = (_, init) => init, after = same } = connection;
    const through: Fetch = async (url, init) => after(await recording(url, before(url, init)));
    return createClient({ baseUrl, apiKey: key, fetch: through });
  };
  return {
    client: clientWith(apiKey),
    apiKey,
    fetch: recording,
    lines,
    clientWith,
    notes: () => linesOf(join(dataDir, 'notes.log')),
    async dispose() {
      await stop();
      rmSync(dataDir, { recursive: true, force: true });
    },
  };
}

const same = (response: Response) => response;

function linesOf(file: string): string[] {
  try {
    return readFileSync(file, 'utf8').trimEnd().split('\n');
  } catch {
    return [];
  }
}

/** A client that follows its server to another port after a restart. */
export function clientOf(server: ServerFixture, through: (response: Response) => Response = same) {
  const fetchNow: Fetch = async (url, init) =>
    through(await fetch(url.replace('http://relay.test', server.url), init));
  return createClient({ baseUrl: 'http://relay.test', apiKey: server.apiKey, fetch: fetchNow });
}

/** Breaks an event stream after so many bytes. */
export function cutAfter(response: Response, bytes: number): Response {
  if (response.headers.get('content-type')?.startsWith('text/event-stream') !== true) {
    return response;
  }
  let left = bytes;
  const cut = new TransformStream<Uint8Array, Uint8Array>({
    transform(chunk, controller) {
      controller.enqueue(chunk.subarray(0, left));
      left -= chunk.length;
      if (left <= 0) controller.error(new TypeError('terminated'));
    },
  });
  return new Response(response.body?.pipeThrough(cut), {
    status: response.status,
    headers: response.headers,
  });
}

export const builtin = (name: string) => ({ name, kind: 'builtin' as const });
