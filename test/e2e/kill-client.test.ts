/** Clients and servers that are killed while a client's function runs: one result is taken, none lost. */
import { type ChildProcess, spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { defineTool } from '@relay/sdk';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { clientOf } from '../sdk/environment.ts';
import { until } from '../support/kernel.ts';
import { TestServer } from '../support/server.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));

/** A client in a process of its own. */
class Worker {
  readonly #process: ChildProcess;
  output = '';

  constructor(server: TestServer, env: Readonly<Record<string, string>>) {
    this.#process = spawn(process.execPath, ['test/sdk/clients/worker.ts'], {
      cwd: root,
      env: {
        ...process.env,
        RELAY_URL: server.url,
        RELAY_API_KEY: server.apiKey,
        LEDGER: join(server.dataDir, 'ledger'),
        ...env,
      },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    this.#process.stdout?.on('data', (chunk: Buffer) => (this.output += chunk.toString()));
  }

  async says(pattern: RegExp): Promise<string> {
    await until(async () => pattern.test(this.output));
    return pattern.exec(this.output)?.[1] ?? '';
  }

  async kill(): Promise<void> {
    const ended = new Promise((resolve) => this.#process.once('exit', resolve));
    this.#process.kill('SIGKILL');
    await ended;
  }

  get ended(): Promise<unknown> {
    return this.#process.exitCode === null
      ? new Promise((resolve) => this.#process.once('exit', resolve))
      : Promise.resolve();
  }
}

interface LedgerLine {
  readonly by: string;
  readonly idempotencyKey: string;
}

describe('a function of a client', () => {
  let server: TestServer;
  beforeEach(async () => {
    server = await new TestServer().start();
  });
  afterEach(() => server.dispose());

  const ledger = () =>
    readFileSync(join(server.dataDir, 'ledger'), 'utf8')
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as LedgerLine);

  async function settlements(runId: string): Promise<string[]> {
    const types: string[] = [];
    for await (const { type } of clientOf(server).runs.events(runId)) {
      if (/^tool\.(completed|failed|denied)$/.test(type)) types.push(type);
    }
    return types;
  }

  test('is run by another client where its own is killed in the middle of it', async () => {
    const first = new Worker(server, { NAME: 'first', HOLD: 'yes' });
    await first.says(/^(ran)$/m);
    const runId = await first.says(/^run (\S+)$/m);
    const second = new Worker(server, { NAME: 'second', RUN_ID: runId });
    await second.says(/^(run) /m);
    await first.kill();
    // The claim of the dead one holds for up to half a minute; then the other has it.
    await second.ended;
    expect(second.output).toMatch(/^done completed .*"by":"second"/m);
    const lines = ledger();
    expect(lines.map(({ by }) => by)).toEqual(['first', 'second']);
    expect(new Set(lines.map(({ idempotencyKey }) => idempotencyKey)).size).toBe(1);
    expect(await settlements(runId)).toEqual(['tool.completed']);

    // A client that comes too late has nothing to do.
    const third = new Worker(server, { NAME: 'third', RUN_ID: runId });
    await third.ended;
    expect(third.output).toMatch(/^done completed .*"by":"second"/m);
    expect(ledger()).toHaveLength(2);
  }, 120_000);

  test('delivers its result after the restart of a server that was killed meanwhile', async () => {
    const client = clientOf(server);
    let calls = 0;
    const getUser = defineTool({
      name: 'get_user',
      schema: { type: 'object' },
      execute: async () => {
        calls += 1;
        await server.kill();
        void server.start();
        return 'made while the server was down';
      },
    });
    const run = await client.runs.create({
      model: 'demo',
      input: 'use get_user {}',
      tools: [getUser],
    });
    expect(await run.text()).toContain('made while the server was down');
    expect(calls).toBe(1);
    expect(await settlements(run.id)).toEqual(['tool.completed']);
  }, 60_000);
});
