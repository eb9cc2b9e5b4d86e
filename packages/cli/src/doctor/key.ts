/** Checks the API key, its scopes and the keys of providers. */
import { createClient, type RelayClient } from '@relay/sdk';
import { type Connection, isLocal } from '../connection.ts';
import { type Finding, ok, warning, wrong } from './finding.ts';

export async function* checkKey(connection: Connection): AsyncGenerator<Finding> {
  const { url, apiKey, keyFrom = '' } = connection;
  if (apiKey === undefined) {
    const fix = "create one on the server's machine: export RELAY_API_KEY=$(relay bootstrap)";
    yield isLocal(url)
      ? warning('key', 'No API key: only "relay chat" works, on this machine', fix)
      : wrong('key', 'No API key', 'set RELAY_API_KEY, or use --profile');
    return;
  }
  const client = createClient({ baseUrl: url, apiKey, maxRetries: 0, timeoutMs: 10_000 });
  const runs = await probe(() => client.runs.list({ limit: 1 }).page());
  if (runs.code === 'unauthorized') {
    const fix =
      'it is mistyped, expired, revoked, or for another server; create one with "relay bootstrap"';
    yield wrong('key', `The server rejects the key from ${keyFrom}`, fix);
    return;
  }
  if (runs.code !== undefined && runs.code !== 'scope_required') {
    yield wrong('key', `The key cannot be checked: ${runs.message}`, 'see the server log');
    return;
  }
  const scopes = await scopesOf(client, runs.code === undefined);
  const scopeList = scopes.length === 0 ? 'none' : scopes.join(', ');
  yield scopes.length === 3
    ? ok('key', `The key from ${keyFrom} has all scopes: ${scopeList}`)
    : warning(
        'key',
        `The key from ${keyFrom} has only some scopes: ${scopeList}`,
        'use a key with more scopes for other commands',
      );
  if (scopes.includes('admin')) yield await checkProviders(client);
}

async function scopesOf(client: RelayClient, runs: boolean): Promise<string[]> {
  const approve = await probe(() => client.grants.list({ limit: 1 }).page());
  const admin = await probe(() => client.keys.list().page());
  return [
    ...(runs ? ['runs'] : []),
    ...(approve.code === undefined ? ['approve'] : []),
    ...(admin.code === undefined ? ['admin'] : []),
  ];
}

async function checkProviders(client: RelayClient): Promise<Finding> {
  const { items } = await client.credentials.list().page();
  if (items.length > 0) {
    return ok(
      'providers',
      `Keys are stored for ${items.map(({ provider }) => provider).join(', ')}`,
    );
  }
  return warning(
    'providers',
    'No provider has a key: only the model "demo" is available',
    'store one with "relay credentials set anthropic" (or openai, google, …)',
  );
}

interface Probe {
  readonly code?: string;
  readonly message?: string;
}

async function probe(call: () => Promise<unknown>): Promise<Probe> {
  try {
    await call();
    return {};
  } catch (error) {
    const { code = 'internal', message } = error as { code?: string; message: string };
    return { code, message };
  }
}
