/** A reader whose cable is pulled sends no FIN, and the run of its chat must not wait for it. */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, describe, expect, it } from 'vitest';
import { requires } from '../support/requires.ts';
import { TwoNetworks, whyNoNetworks } from '../support/two-networks.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const closing: (() => void)[] = [];

afterEach(() => {
  for (const close of closing.splice(0).toReversed()) close();
});

/** A program on one side, and what it prints. */
class Program {
  readonly child: ChildProcess;
  output = '';

  constructor([file, args]: [string, string[]], env: Readonly<Record<string, string>> = {}) {
    this.child = spawn(file, args, { cwd: root, env: { ...process.env, ...env } });
    const listen = (chunk: Buffer) => (this.output += chunk.toString());
    this.child.stdout?.on('data', listen);
    this.child.stderr?.on('data', listen);
    closing.push(() => this.child.kill('SIGKILL'));
  }

  async says(what: RegExp, withinMs: number): Promise<string> {
    const deadline = Date.now() + withinMs;
    for (;;) {
      const found = what.exec(this.output);
      if (found !== null) return found[1] ?? found[0];
      if (Date.now() > deadline) throw new Error(`Timed out waiting for ${what}:\n${this.output}`);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
}

describe('a reader whose cable is pulled', requires('network', whyNoNetworks()), () => {
  it('is noticed within 30 seconds, and the run of its chat is canceled', async () => {
    const net = new TwoNetworks();
    closing.push(() => net.remove());
    const dataDir = mkdtempSync(join(tmpdir(), 'relay-dead-peer-'));
    closing.push(() => rmSync(dataDir, { recursive: true, force: true }));
    const { execPath } = process;
    const server = new Program(net.on(net.here, execPath, 'packages/server/src/main.ts'), {
      RELAY_HOST: net.address,
      RELAY_PORT: '4000',
      RELAY_DATA_DIR: dataDir,
      RELAY_LOG_LEVEL: 'info',
    });
    const url = await server.says(/listening on (http:\S+)/, 20_000);
    const apiKey = readFileSync(join(dataDir, 'first-key'), 'utf8').trim();
    const reader = new Program(
      net.on(net.there, execPath, 'test/support/servers/chat-reader.ts', url, apiKey),
    );
    const runId = await reader.says(/^([0-9a-f-]{36})$/m, 20_000);
    const lookAtRun = `fetch('${url}/v1/runs/${runId}', {headers: {authorization: 'Bearer ${apiKey}'}})
      .then((r) => r.json()).then((run) => console.log(run.status))`;
    const status = () => net.run(net.here, execPath, '-e', lookAtRun).trim();
    expect(status()).toBe('waiting');

    net.pullTheCable();
    const since = Date.now();
    await server.says(/"route":"\/chat".*"aborted":true/, 45_000);
    const took = Date.now() - since;
    console.info(`The dead peer was noticed after ${took} ms`);
    expect(took).toBeLessThanOrEqual(30_000);
    const deadline = Date.now() + 5_000;
    while (status() !== 'canceled') expect(Date.now()).toBeLessThan(deadline);
    expect(reader.child.exitCode, 'the reader itself has noticed nothing').toBeNull();
  }, 90_000);
});
