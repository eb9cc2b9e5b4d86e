/**
 * A back end with a page for approvals: it holds the keys, the browser does not. Each person signs in with
 * a name and a password, and decides with their own key. See docs/guides/approvals-in-your-page.md.
 *
 *   npx node examples/approvals-page/server.ts
 */
import { timingSafeEqual } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import { createClient, type RelayClient, RelayApiError } from 'relay-kit/sdk';

export interface Person {
  readonly password: string;
  /** A key with the scope `approve`, whose owner is this person. */
  readonly apiKey: string;
}

export interface PageOptions {
  readonly relayUrl: string;
  /** By name. Replace this by the sign-in that your application has. */
  readonly people: Readonly<Record<string, Person>>;
}

const page = readFileSync(new URL('page.html', import.meta.url));

export function createPage({ relayUrl, people }: PageOptions): Server {
  const clients = new Map(
    Object.entries(people).map(([name, { apiKey }]) => [
      name,
      createClient({ baseUrl: relayUrl, apiKey }),
    ]),
  );
  return createServer((request, response) => {
    const client = clients.get(personOf(request, people) ?? '');
    if (client === undefined) {
      response.writeHead(401, { 'www-authenticate': 'Basic realm="Approvals"' }).end();
      return;
    }
    answer(client, request, response).catch((error: unknown) => {
      const { status, code, message } =
        error instanceof RelayApiError
          ? error
          : { status: 500, code: 'internal', message: 'Something went wrong' };
      if (!response.headersSent) send(response, status === 0 ? 502 : status, { code, message });
    });
  });
}

/** HTTP's own sign-in, for an example that is complete. */
function personOf(request: IncomingMessage, people: PageOptions['people']): string | undefined {
  const encoded = /^Basic (.+)$/.exec(request.headers.authorization ?? '')?.[1] ?? '';
  const [, name = '', password = ''] =
    /^([^:]*):(.*)$/s.exec(Buffer.from(encoded, 'base64').toString()) ?? [];
  const known = Object.hasOwn(people, name) ? people[name]?.password : undefined;
  if (known === undefined) return undefined;
  const [given, wanted] = [Buffer.from(password), Buffer.from(known)];
  return given.length === wanted.length && timingSafeEqual(given, wanted) ? name : undefined;
}

async function answer(
  client: RelayClient,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const { pathname } = new URL(request.url ?? '/', 'http://page');
  const [, id] = /^\/approvals\/([\w-]+)$/.exec(pathname) ?? [];
  if (request.method === 'GET' && pathname === '/') {
    response.writeHead(200, { 'content-type': 'text/html; charset=utf-8' }).end(page);
  } else if (request.method === 'GET' && pathname === '/approvals') {
    const { items } = await client.approvals.list({ status: 'pending', limit: 50 }).page();
    send(response, 200, items);
  } else if (request.method === 'GET' && pathname === '/changes') {
    await changes(client, response);
  } else if (request.method === 'POST' && id !== undefined) {
    // Another site can make a browser send a form, but not with this header.
    if (request.headers['content-type'] !== 'application/json') return send(response, 415, {});
    const { approved, reason, digest } = JSON.parse(await text(request)) as {
      approved: boolean;
      reason?: string;
      digest: string;
    };
    const said = reason === undefined || reason === '' ? {} : { reason };
    send(response, 200, await client.approvals.decide(id, { approved, digest, ...said }));
  } else send(response, 404, {});
}

/** Tells the page that approvals have changed. The browser reconnects by itself. */
async function changes(client: RelayClient, response: ServerResponse): Promise<void> {
  response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' });
  const closed = new AbortController();
  response.once('close', () => closed.abort());
  try {
    for await (const { kind } of client.feed({ signal: closed.signal })) {
      if (kind === 'approval' || kind === 'all' || kind === 'connected')
        response.write('data:\n\n');
    }
  } catch (error) {
    if (!closed.signal.aborted) throw error;
  } finally {
    response.end();
  }
}

function send(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}

if (import.meta.main) {
  const { RELAY_URL = 'http://127.0.0.1:4000', ADA_KEY, ADA_PASSWORD, PORT = '4600' } = process.env;
  if (!ADA_KEY || !ADA_PASSWORD) throw new Error('Set ADA_KEY and ADA_PASSWORD');
  const people = { ada: { password: ADA_PASSWORD, apiKey: ADA_KEY } };
  const server = createPage({ relayUrl: RELAY_URL, people }).listen(
    Number(PORT),
    '127.0.0.1',
    () => {
      const address = server.address();
      const port = typeof address === 'object' ? address?.port : PORT;
      console.log(`The page is at http://127.0.0.1:${port}; sign in as ada`);
    },
  );
}
