/** Connections that break anywhere, and a server that is killed while a client follows a run. */
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { RunHandle, RunStreamEvent } from '@relay/sdk';
import { TestServer } from '../support/server.ts';
import { builtin, clientOf, cutAfter } from './environment.ts';

let server: TestServer;
beforeEach(async () => {
  server = await new TestServer().start();
});
afterEach(() => server.dispose());

/** The client received the whole journal, without gaps or duplicates. */
async function expectWhole(run: RunHandle, seen: readonly RunStreamEvent[]): Promise<void> {
  const whole: RunStreamEvent[] = [];
  for await (const event of clientOf(server).runs.stream(run.id)) whole.push(event);
  expect(seen).toEqual(whole);
}

describe('stream over a broken connection', () => {
  test('yields every event exactly once, wherever it breaks', async () => {
    let cut = 0;
    const client = clientOf(server, (response) => cutAfter(response, 200 + 97 * (cut += 1)));
    const run = await client.runs.create({ model: 'demo', input: 'say 120' });
    const seen: RunStreamEvent[] = [];
    for await (const event of run) seen.push(event);
    expect(cut).toBeGreaterThan(5);
    expect(seen.filter(({ type }) => type === 'token')).toHaveLength(120);
    await expectWhole(run, seen);
  }, 60_000);
});

describe('client of a server that is killed', () => {
  test('reconnects in the middle of an answer and gets all of it', async () => {
    const client = clientOf(server);
    let disconnects = 0;
    const run = await client.runs.create(
      { model: 'demo', input: 'slow 2000' },
      { onDisconnect: () => (disconnects += 1) },
    );
    const seen: RunStreamEvent[] = [];
    for await (const event of run) {
      seen.push(event);
      const tokens = seen.filter(({ type }) => type === 'token').length;
      if (event.type === 'token' && tokens === 2) {
        await server.kill();
        void server.start();
      }
    }
    expect(disconnects).toBeGreaterThan(0);
    expect(seen.map(({ type }) => type)).toContain('reset');
    const { output, status } = await run.result();
    expect(status).toBe('completed');
    expect(run.textSoFar).toBe(output);
    await expectWhole(run, seen);
  }, 60_000);

  test('is asked once about a pending approval, and decides it after the restart', async () => {
    const client = clientOf(server);
    let asked = 0;
    const run = await client.runs.create(
      { model: 'demo', input: 'notify I survived', tools: [builtin('send_note')] },
      {
        async onApproval() {
          asked += 1;
          await server.kill();
          await server.start();
          return { approved: true };
        },
      },
    );
    expect(await run.result()).toMatchObject({ status: 'completed' });
    expect(asked).toBe(1);
    expect(server.notes.map(({ text }) => text)).toEqual(['I survived']);
  }, 60_000);
});

describe('a program that serves a session', () => {
  test('serves on after the server was killed', async () => {
    const client = clientOf(server);
    const seen: string[] = [];
    const session = await client.sessions.serve({
      handle: 'survivor',
      onMessage: ({ text }) => void seen.push(text),
    });
    await client.messages.send({ to: '@survivor', text: 'one' });
    await expect.poll(() => seen, { timeout: 10_000 }).toEqual(['one']);
    await server.kill();
    await server.start();
    const { id } = await client.messages.send({ to: '@survivor', text: 'two' });
    const [delivery] = await client.messages.deliveries(id, { wait: 'consumed' });
    expect(delivery?.status).toBe('consumed');
    expect(seen).toEqual(['one', 'two']);
    await session.close();
  }, 60_000);
});
