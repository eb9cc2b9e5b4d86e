/** Whether the key counts, what it may do, and which providers can be asked. */
import { createClient, type RelayClient } from '@relay/sdk';
import { type Connection, isLocal } from '../connection.ts';
import { type Finding, ok, warning, wrong } from './finding.ts';

export async function* examineKey(connection: Connection): AsyncGenerator<Finding> {
  const { url, apiKey, keyFrom = '' } = connection;
  if (apiKey === undefined) {
    const mend =
      'make one on the machine of the data folder: export RELAY_API_KEY=$(relay bootstrap)';
    yield isLocal(url)
      ? warning('key', 'There is no key: only "relay chat" works, on this machine', mend)
      : wrong('key', 'There is no key', 'set RELAY_API_KEY, or name a --profile');
    return;
  }
  const client = createClient({ baseUrl: url, apiKey, maxRetries: 0, timeoutMs: 10_000 });
  const runs = await probe(() => client.runs.list({ limit: 1 }).page());
  if (runs.code === 'unauthorized') {
    const mend =
      'it is mistyped, expired, revoked, or of another server; make one with "relay bootstrap"';
    yield wrong('key', `The key from ${keyFrom} does not count here`, mend);
    return;
  }
  if (runs.code !== undefined && runs.code !== 'scope_required') {
    yield wrong('key', `The key cannot be checked: ${runs.message}`, 'see the log of the server');
    return;
  }
  const scopes = await scopesOf(client, runs.code === undefined);
  const may = scopes.length === 0 ? 'nothing' : scopes.join(', ');
  yield scopes.length === 3
    ? ok('key', `The key from ${keyFrom} may do everything: ${may}`)
    : warning(
        'key',
        `The key from ${keyFrom} may do: ${may}`,
        'for the rest, use a key with more scopes',
      );
  if (scopes.includes('admin')) yield await providers(client);
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

async function providers(client: RelayClient): Promise<Finding> {
  const { items } = await client.credentials.list().page();
  if (items.length > 0) {
    return ok(
      'providers',
      `There are keys for ${items.map(({ provider }) => provider).join(', ')}`,
    );
  }
  return warning(
    'providers',
    'No provider has a key: only the model "demo" can be asked',
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
