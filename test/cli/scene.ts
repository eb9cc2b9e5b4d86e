/** A real server, and the command as its operator would use it. */
import { createClient, type RelayClient } from '@relay/sdk';
import { afterAll, beforeAll } from 'vitest';
import { type CliOutcome, type CliInput, relay } from '../support/cli.ts';
import { TestServer } from '../support/server.ts';

export interface Scene {
  readonly server: TestServer;
  readonly client: RelayClient;
  /** With the key of the first start, unless `env` says otherwise. */
  run(...args: readonly string[]): Promise<CliOutcome>;
  runIn(world: CliInput, ...args: readonly string[]): Promise<CliOutcome>;
}

export function cliScene(env: Readonly<Record<string, string>> = {}): Scene {
  const server = new TestServer(env);
  beforeAll(() => server.start());
  afterAll(() => server.dispose());
  const runIn = (world: CliInput, ...args: readonly string[]) =>
    relay(args, {
      ...world,
      env: { RELAY_URL: server.url, RELAY_API_KEY: server.apiKey, ...world.env },
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

/** A run that waits for an approval of `send_note`, and that approval. */
export async function waitingNote({ client }: Scene, text: string) {
  const run = await client.runs.create({
    model: 'demo',
    input: `notify ${text}`,
    tools: [{ name: 'send_note', kind: 'builtin' }],
  });
  for await (const event of run) {
    if (event.type === 'approval_requested') return { runId: run.id, approvalId: event.id };
  }
  throw new Error('It was not asked');
}
