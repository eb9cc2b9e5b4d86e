/** A session of a harness in the server's process survives kills of that process, on both databases. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, expect, test } from 'vitest';
import { createDatabase, type TestDatabase } from '../support/postgres.ts';
import { TestServer } from '../support/server.ts';

const config = fileURLToPath(new URL('../support/configs/harness.config.ts', import.meta.url));

let server: TestServer | undefined;
let database: TestDatabase | undefined;
afterEach(async () => {
  await server?.dispose();
  await database?.drop();
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

test.each(['SQLite', 'PostgreSQL'])(
  'all messages are consumed in order, although the server is killed (%s)',
  async (kind) => {
    if (kind === 'PostgreSQL') database = await createDatabase();
    const running = new TestServer({
      RELAY_CONFIG: config,
      RELAY_LEASE_TTL_MS: '1000',
      RELAY_MASTER_KEY: '5e'.repeat(32),
    });
    server = running;
    const notes = join(running.dataDir, 'harness-notes');
    const env = {
      HARNESS_NOTES: notes,
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
    const { id } = await ask('/v1/sessions', { harness: 'echo', handle: 'echo' });

    const texts: string[] = [];
    for (let round = 0; round < 3; round += 1) {
      for (let n = 0; n < 8; n += 1) {
        const text = `m${round}-${n}`;
        texts.push(text);
        await ask('/v1/messages', { to: '@echo', text, idempotencyKey: text });
      }
      await running.kill();
      await running.start(env);
    }
    const consumed = () =>
      ask(`/v1/deliveries?status=consumed&limit=100`).then(
        ({ deliveries }) => (deliveries as unknown[]).length,
      );
    await until(async () => ((await consumed()) === texts.length ? true : undefined), 'the end');

    const received = readFileSync(notes, 'utf8')
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as { text: string; redelivered: boolean });
    // One that was handed over when the process died is handed over once more, and marked.
    const first = received.filter(({ redelivered }) => !redelivered).map(({ text }) => text);
    expect(new Set(first).size).toBe(first.length);
    const seen = [...new Set(received.map(({ text }) => text))];
    expect(seen).toEqual(texts);
    const session = await ask(`/v1/sessions/${String(id)}`);
    expect(session).toMatchObject({ status: 'idle', queue: { length: 0 } });
  },
  120_000,
);
