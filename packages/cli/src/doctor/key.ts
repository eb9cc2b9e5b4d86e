/** Checks the API key, its scopes, and what it can read: the keys of providers and the MCP servers. */
import { createClient, RelayApiError, type RelayClient, type ToolList } from '@relay/sdk';
import { scopes as allScopes } from '@relay/protocol/wire';
import { mcpServerText } from '../commands/agents/tools.ts';
import { type Connection, rejectedKey } from '../connection.ts';
import type { CliError } from '../errors.ts';
import { isLocal } from '../local-server.ts';
import { type Finding, ok, warning, wrong } from './finding.ts';
import { relay } from '../environment.ts';

export interface CheckedConnection extends Connection {
  /** Why the key could not be read. */
  readonly keyProblem?: CliError;
}

export async function* checkKey(connection: CheckedConnection): AsyncGenerator<Finding> {
  const { keyProblem } = connection;
  if (keyProblem !== undefined) {
    yield wrong('key', keyProblem.message, keyProblem.hint ?? '');
    return;
  }
  const { url, apiKey, keyFrom = '' } = connection;
  if (apiKey === undefined) {
    const fix = `create one on the server's machine: "${relay} login"`;
    yield isLocal(url)
      ? warning('key', `No API key: only "${relay} chat" works, on this machine`, fix)
      : wrong('key', 'No API key', `sign in with "${relay} login ${url}", or set RELAY_API_KEY`);
    return;
  }
  const client = createClient({ baseUrl: url, apiKey, maxRetries: 0, timeoutMs: 10_000 });
  const key = await client.keys.current().catch((error: unknown) => {
    if (error instanceof RelayApiError) return error;
    throw error;
  });
  if (key instanceof RelayApiError) {
    const rejected = key.code === 'unauthorized' ? rejectedKey(connection) : undefined;
    yield rejected !== undefined
      ? wrong('key', `The server rejects ${rejected.key}`, rejected.hint)
      : wrong('key', `The key cannot be checked: ${key.message}`, 'see the server log');
    return;
  }
  const { scopes } = key;
  const scopeList = scopes.join(', ');
  yield scopes.length === allScopes.length
    ? ok('key', `The key from ${keyFrom} has all scopes: ${scopeList}`)
    : warning(
        'key',
        `The key from ${keyFrom} has only some scopes: ${scopeList}`,
        'use a key with more scopes for other commands',
      );
  if (scopes.includes('admin')) yield await checkProviders(client);
  if (scopes.includes('read')) yield* mcpFindings((await client.tools()).mcpServers);
}

export function* mcpFindings(servers: ToolList['mcpServers']): Generator<Finding> {
  for (const server of servers) {
    const { name, connected, warnings } = server;
    yield connected
      ? ok('mcp', mcpServerText(server))
      : wrong(
          'mcp',
          mcpServerText(server),
          `correct mcpServers.${name} in relay.config; the log of the server has the output of a program`,
        );
    for (const text of warnings) {
      yield warning('mcp', text, 'correct relay.config, or update the MCP server');
    }
  }
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
    `store one with "${relay} credentials set anthropic" (or openai, google, …)`,
  );
}
