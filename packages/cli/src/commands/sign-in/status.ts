import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { CurrentKey, RelayClient } from '@relay/sdk';
import { type CliCommand, type Context, take } from '../../command.ts';
import { isApiError } from '../../errors.ts';
import { registeredAt } from '../../local-server.ts';
import { formatDuration } from '../../output/run-events.ts';
import { mcpServerText } from '../agents/tools.ts';
import { relay } from '../../environment.ts';
import { keyBudgetText } from '../server/usage.ts';

export function registerStatus(program: CliCommand): void {
  program
    .command('status')
    .description('show the server, your key, and what is going on')
    .examples(
      ['relay status', 'relay status --json', 'relay status --url https://relay.example.com'],
      'Exits with 6 if no server responds, and with 4 if it rejects the key.',
    )
    .handle(showStatus);
}

const maxSessions = 200;

async function showStatus(context: Context): Promise<void> {
  const { environment, print } = context;
  const client = await context.client();
  // After the client, which may have made a key of its own.
  const { url, apiKey, keyFrom, profile } = context.connection;
  const { version } = await client.health();
  const isStopping = await client.ready().then(
    () => false,
    (error: unknown) => isApiError(error) && error.code === 'shutting_down',
  );
  const process = registeredAt(environment, url);
  const key = apiKey === undefined ? undefined : await client.keys.current();
  const activity = key === undefined ? undefined : await activityOf(client, key);
  const store =
    process === undefined
      ? undefined
      : existsSync(join(process.dataDir, 'relay.db'))
        ? 'SQLite'
        : 'PostgreSQL';
  const status = {
    url,
    version,
    profile,
    isStopping,
    console: `${url}/console/`,
    process,
    store,
    key,
    activity,
  };
  print.record(status, {
    server: `${url}${profile === undefined ? '' : ` (profile ${profile})`}`,
    version,
    state: isStopping ? 'stopping: it waits for its running tools' : undefined,
    pid: process?.pid,
    up:
      process === undefined
        ? undefined
        : formatDuration(Date.now() - Date.parse(process.startedAt)),
    data: process === undefined ? undefined : `${process.dataDir} (${store})`,
    console: status.console,
    key:
      key === undefined
        ? `none; only "${relay} chat" with the model demo works: "${relay} login" creates one`
        : `${key.name}${ownerText(key)} (from ${keyFrom})`,
    scopes: key?.scopes.join(', '),
    budget: keyBudgetText(key?.budget),
    tenant: key === undefined ? undefined : tenantText(key),
    approvals: activity === undefined ? undefined : `${activity.pendingApprovals} pending`,
    runs: activity === undefined ? undefined : `${activity.openRuns} open`,
    sessions: activity === undefined ? undefined : `${activity.sessions} active`,
    'mcp servers': activity?.mcpServers
      .flatMap((server) => [mcpServerText(server), ...server.warnings])
      .join('\n'),
  });
}

/** The owner of a key that was made from another one is the id of that one, which says nothing. */
function ownerText({ owner = '' }: CurrentKey): string {
  return owner === '' || /^[0-9a-f]{8}-/.test(owner) ? '' : `, owner ${owner}`;
}

function tenantText({ tenant }: CurrentKey): string {
  return tenant.paused ? `${tenant.name}, paused: no run starts or goes on` : tenant.name;
}

/** Undefined for a key that may not read. */
async function activityOf(client: RelayClient, key: CurrentKey) {
  if (!key.scopes.includes('read')) return undefined;
  const [stats, sessions, { mcpServers }] = await Promise.all([
    client.stats.get({ bucket: 'minute' }),
    take(client.sessions.list({ status: 'active', limit: maxSessions }), maxSessions),
    client.tools(),
  ]);
  const { openRuns, pendingApprovals } = stats.totals;
  const count = sessions.length === maxSessions ? `${maxSessions} or more` : sessions.length;
  return { openRuns, pendingApprovals, sessions: count, mcpServers };
}
