/** A credential, and a provider that shows whether a server can decrypt it. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createClient } from '@relay/sdk';
import { afterAll, beforeAll } from 'vitest';
import type { ServerFixture } from './server.ts';

/** A provider that rejects every request and records the keys. */
const receivedKeys: string[] = [];
const provider = createServer((request, response) => {
  receivedKeys.push(String(request.headers.authorization));
  response.writeHead(401, { 'content-type': 'application/json' }).end('{}');
});
/** To be called once in a file. */
export function useRecordingProvider(): void {
  beforeAll(() => new Promise<void>((resolve) => provider.listen(0, '127.0.0.1', resolve)));
  afterAll(() => new Promise((resolve) => provider.close(resolve)));
}

const secret = 'sk-canary-of-the-vault';

export async function withCredential(server: ServerFixture): Promise<void> {
  const client = createClient({ baseUrl: server.url, apiKey: server.apiKey });
  const { port } = provider.address() as AddressInfo;
  await client.credentials.put('mine', {
    apiKey: secret,
    baseUrl: `http://127.0.0.1:${port}/v1`,
  });
}

/** Whether the server can decrypt the credential: then the provider receives it. */
export async function decryptsCredential({ url, apiKey }: Pick<ServerFixture, 'url' | 'apiKey'>) {
  receivedKeys.length = 0;
  const client = createClient({ baseUrl: url, apiKey });
  await client.runs.create({ model: 'mine:any', input: 'Hi' }).catch(() => undefined);
  return receivedKeys.includes(`Bearer ${secret}`);
}
