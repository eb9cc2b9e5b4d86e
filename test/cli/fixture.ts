/** A real server, and the CLI connected to it. */
import { createClient, type RelayClient } from '@relay/sdk';
import { afterAll, beforeAll } from 'vitest';
import { type CliOutcome, type CliOptions, relay } from '../support/cli.ts';
import { LocalServer, type TestServer } from '../support/server.ts';

export interface CliFixture<Server extends LocalServer | TestServer = LocalServer | TestServer> {
  readonly server: Server;
  readonly client: RelayClient;
  /** With the server's first key, unless `env` sets another. */
  run(...args: readonly string[]): Promise<CliOutcome>;
  runIn(options: CliOptions, ...args: readonly string[]): Promise<CliOutcome>;
}

export function cliFixture(env: Readonly<Record<string, string>> = {}): CliFixture<LocalServer> {
  return cliFixtureOf(new LocalServer(env));
}

export function cliFixtureOf<Server extends LocalServer | TestServer>(
  server: Server,
): CliFixture<Server> {
  beforeAll(() => server.start());
  afterAll(() => server.dispose());
  const runIn = (options: CliOptions, ...args: readonly string[]) =>
    relay(args, {
      ...options,
      env: { RELAY_URL: server.url, RELAY_API_KEY: server.apiKey, ...options.env },
    });
  return {
    server,
    get client() {
      return createClient({ baseUrl: server.url, apiKey: server.apiKey });
    },
    run: (...args) => runIn({}, ...args),
    runIn,
  };
}

/** Starts a run that waits for the approval of `send_note`. */
export async function waitingNote({ client }: CliFixture, text: string) {
  const run = await client.runs.create({
    model: 'demo',
    input: `notify ${text}`,
    tools: [{ name: 'send_note', kind: 'builtin' }],
  });
  for await (const event of run) {
    if (event.type === 'approval_requested') return { runId: run.id, approvalId: event.id };
  }
  throw new Error('No approval was requested');
}
