/** Agents over ACP survive kills of the server: no message is lost, nothing runs twice, no process is left. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, expect, test } from 'vitest';
import { createDatabase, type TestDatabase } from '../support/postgres.ts';
import { TestServer } from '../support/server.ts';

const config = fileURLToPath(new URL('../support/configs/acp.config.ts', import.meta.url));

const folders: string[] = [];
let server: TestServer | undefined;
let database: TestDatabase | undefined;
afterEach(async () => {
  await server?.dispose();
  await database?.drop();
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
  [server, database] = [undefined, undefined];
});

async function until<Value>(read: () => Promise<Value | undefined>, what: string): Promise<Value> {
  const deadline = Date.now() + 60_000;
  for (;;) {
    const found = await read().catch(() => undefined);
    if (found !== undefined) return found;
    if (Date.now() > deadline) throw new Error(`Timed out waiting for ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

const script = (...steps: object[]) => `<<${JSON.stringify(steps)}>>`;

test.each(['SQLite', 'PostgreSQL'])(
  'an agent over ACP continues after kills of the server (%s)',
  async (kind) => {
    if (kind === 'PostgreSQL') database = await createDatabase();
    const running = new TestServer({
      RELAY_CONFIG: config,
      RELAY_LEASE_TTL_MS: '1000',
      RELAY_MASTER_KEY: '5e'.repeat(32),
      RELAY_SANDBOX: 'off',
    });
    server = running;
    const workspace = mkdtempSync(join(tmpdir(), 'relay-acp-'));
    folders.push(workspace);
    const env = {
      RELAY_WORKSPACE: workspace,
      ...(database === undefined ? {} : { RELAY_DATABASE_URL: database.url }),
    };
    await running.start(env);
    const key = running.apiKey;
    const ask = async (path: string, body?: unknown) => {
      const response = await fetch(`${running.url}${path}`, {
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        ...(body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) }),
      });
      if (!response.ok) throw new Error(await response.text());
      return (await response.json()) as Record<string, unknown>;
    };
    const logged = (kindOfEntry: string) =>
      readFileSync(join(workspace, 'agent.log'), 'utf8')
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line) as Record<string, unknown>)
        .filter((entry) => entry['kind'] === kindOfEntry);
    const { id } = await ask('/v1/sessions', { harness: 'scripted', handle: 'coder' });
    const send = (text: string) =>
      ask('/v1/messages', { to: '@coder', text, idempotencyKey: text });
    const pending = async () => {
      const { approvals } = await ask(`/v1/approvals?status=pending&sessionId=${String(id)}`);
      return (approvals as { id: string }[])[0];
    };
    const consumed = (count: number) =>
      until(async () => {
        const { deliveries } = await ask('/v1/deliveries?status=consumed&limit=100');
        return (deliveries as unknown[]).length === count ? true : undefined;
      }, `${count} messages to be consumed`);

    await send('hello');
    await consumed(1);
    const pids: number[] = [];

    // Killed in the middle of an answer.
    await send(script({ say: 'begun', times: 100, pauseMs: 20 }));
    await until(async () => logged('prompt')[1], 'the turn');
    pids.push(Number(logged('prompt')[1]?.['pid']));
    await running.kill();
    await running.start(env);
    await consumed(2);
    expect(String(logged('prompt')[2]?.['text'])).toContain('It is sent again');

    // Killed while an approval is open: it is closed, and the agent asks again.
    await send(script({ bash: 'echo x >> out' }));
    const first = await until(pending, 'the approval');
    pids.push(Number(logged('prompt').at(-1)?.['pid']));
    await running.kill();
    await running.start(env);
    const second = await until(async () => {
      const found = await pending();
      return found?.id === first.id ? undefined : found;
    }, 'another approval');
    expect(await ask(`/v1/approvals/${first.id}`)).toMatchObject({ status: 'closed' });
    await ask(`/v1/approvals/${second.id}`, { approved: true });
    await consumed(3);
    expect(readFileSync(join(workspace, 'out'), 'utf8')).toBe('x\n');

    await send('and now?');
    await consumed(4);
    const histories = logged('prompt').map(({ history }) => history);
    expect(histories).toEqual(histories.map((_, index) => index + 1));
    await until(
      async () => (pids.some(isRunning) ? undefined : true),
      'the end of all earlier agents',
    );
    await until(async () => {
      const { status, queue } = await ask(`/v1/sessions/${String(id)}`);
      const isEmpty = (queue as { length: number }).length === 0;
      return status === 'idle' && isEmpty ? true : undefined;
    }, 'the idle session');
  },
  120_000,
);
