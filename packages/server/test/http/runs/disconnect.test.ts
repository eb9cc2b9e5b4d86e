/** Chats whose connection or server is lost. */
import type { SystemStore, TenantStore } from '@relay/core';
import { RelayError } from '@relay/protocol';
import { createMemoryStore } from '@relay/store';
import { createFaultyStore } from '../../../../store/test/faulty-store.ts';
import { describe, expect, it, onTestFinished } from 'vitest';
import { type BootOptions, bootServer, type TestServer, until } from '../../support/server.ts';
import {
  answerApproval,
  eventsOf,
  startChat,
  startRun,
  statusOf,
  untilStatus,
} from '../../support/requests.ts';

async function boot(options: BootOptions = {}): Promise<TestServer> {
  const server = await bootServer(options);
  onTestFinished(() => server.stop());
  return server;
}

/** The store, with some methods of the tenant stores replaced. */
function withTenantCalls(
  inner: SystemStore,
  change: (tenant: TenantStore) => Partial<TenantStore>,
): SystemStore {
  return new Proxy(inner, {
    get(target, name) {
      if (name === 'tenant') {
        return (id: string) => {
          const tenant = target.tenant(id);
          const changed = change(tenant);
          return new Proxy(tenant, {
            get: (of, method) => Reflect.get(changed, method) ?? bound(of, method),
          });
        };
      }
      return bound(target, name);
    },
  });
}

function bound(target: object, name: PropertyKey): unknown {
  const value: unknown = Reflect.get(target, name);
  return typeof value === 'function' ? (value.bind(target) as unknown) : value;
}

describe('a chat whose client disconnects', () => {
  it('is canceled while it waits: its relay is closed and its session is gone', async () => {
    const server = await boot();
    const chat = await startChat(server, 'notify left alone');
    const relay = await chat.reader.until('relay');
    await chat.reader.disconnect();
    await untilStatus(server, chat.runId, 'canceled');
    const response = await answerApproval(server, chat, {
      approvalId: relay.data['id'],
      response: { approved: true },
    });
    expect(response.status).toBe(404);
    expect(await response.json()).toMatchObject({ error: 'Session not found' });
    const types = (await eventsOf(server, chat.runId)).events.map(({ type }) => type);
    expect(types).toContain('approval.closed');
    expect(types.at(-1)).toBe('run.ended');
    expect(server.notes()).toEqual([]);
    await until(() => server.relay.hub.size === 0, 'the stream to be forgotten');
  });

  it('is canceled in the middle of an answer', async () => {
    const server = await boot();
    const chat = await startChat(server, 'slow 60000');
    await chat.reader.until('text');
    await chat.reader.disconnect();
    await untilStatus(server, chat.runId, 'canceled');
  });

  it('continues with RELAY_DISCONNECT=detach, and its session ends', async () => {
    const server = await boot({ env: { RELAY_DISCONNECT: 'detach' } });
    const waiting = await startChat(server, 'notify detached');
    const relay = await waiting.reader.until('relay');
    const answering = await startChat(server, 'slow 200');
    await answering.reader.until('text');
    await waiting.reader.disconnect();
    await answering.reader.disconnect();
    await untilStatus(server, answering.runId, 'completed');
    const tenant = server.store.tenant(server.tenantId);
    await until(
      async () => (await tenant.findConnection(waiting.sessionId)) === undefined,
      'the session to be gone',
    );
    const response = await answerApproval(server, waiting, {
      approvalId: relay.data['id'],
      response: { approved: true },
    });
    expect(response.status).toBe(404);
    expect(await response.json()).toMatchObject({ error: 'Session not found' });
    expect(await statusOf(server, waiting.runId)).toBe('waiting');
  });
});

describe('a client that disconnects very early', () => {
  it('cancels its chat even if the run was not stored yet', async () => {
    const store = createMemoryStore();
    const hold = Promise.withResolvers<void>();
    const asked = Promise.withResolvers<string>();
    const slow = withTenantCalls(store, (tenant) => ({
      createRun: async (creation) => {
        asked.resolve(creation.identity.id);
        await hold.promise;
        return tenant.createRun(creation);
      },
    }));
    const server = await boot({ store: slow });
    const connection = new AbortController();
    const sending = startChat(server, 'notify too late', { signal: connection.signal });
    const runId = await asked.promise;
    connection.abort();
    await expect(sending).rejects.toThrow();
    const connections = () =>
      new Promise<number>((resolve, reject) => {
        server.relay.app.server.getConnections((error, count) =>
          error === null ? resolve(count) : reject(error),
        );
      });
    await until(async () => (await connections()) === 0, 'the connection to be closed');
    hold.resolve();
    await untilStatus(server, runId, 'canceled');
    await until(() => server.relay.hub.size === 0, 'the stream to be forgotten');
  });
});

describe('a chat whose server crashes', () => {
  it.each([
    ['cancel', 'canceled'],
    ['detach', 'waiting'],
  ])('is found by the next server: %s makes it %s', async (disconnect, status) => {
    const first = await bootServer({ env: { RELAY_DISCONNECT: disconnect } });
    const chat = await startChat(first, 'notify orphaned');
    await chat.reader.until('relay');
    await untilStatus(first, chat.runId, 'waiting');
    await first.relay.stop();
    const second = await bootServer({
      store: first.store,
      env: { RELAY_DISCONNECT: disconnect },
    });
    await untilStatus(second, chat.runId, status);
    const tenant = first.store.tenant(first.tenantId);
    expect(await tenant.findConnection(chat.sessionId)).toBeUndefined();
    await second.stop();
    await first.stop();
  });
});

describe('a crash while a chat session is being closed', () => {
  /** Disconnects from a waiting chat, on a store that may fail meanwhile. */
  async function leaveChat(server: TestServer): Promise<string> {
    const chat = await startChat(server, 'notify rehearsed');
    await chat.reader.until('relay');
    await untilStatus(server, chat.runId, 'waiting');
    await chat.reader.disconnect();
    return chat.runId;
  }

  it('does not prevent the next server from canceling the run', async () => {
    const rehearsed = createFaultyStore(createMemoryStore());
    const rehearsal = await bootServer({ store: rehearsed });
    await untilStatus(rehearsal, await leaveChat(rehearsal), 'canceled');
    await rehearsal.stop();
    const hangingUp = (write: string) => write === 'closeConnection' || write === 'postRunCommand';
    const first = rehearsed.writes.findIndex(hangingUp);

    const store = createMemoryStore();
    const dying = createFaultyStore(store, { crashAt: first + 1, when: 'after' });
    const server = await bootServer({ store: dying });
    const runId = await leaveChat(server);
    await dying.crashed;
    expect(dying.writes[first]).toBe(rehearsed.writes[first]);
    const closed = server.relay.app.close();
    server.relay.app.server.closeAllConnections();
    await closed;

    const next = await boot({ store });
    await untilStatus(next, runId, 'canceled');
  });
});

describe('a store that fails while a chat session is being closed', () => {
  it('only delays it: the run is canceled', async () => {
    const inner = createMemoryStore();
    let failures = 0;
    const shaky = withTenantCalls(inner, (tenant) => ({
      postRunCommand: (runId, queued) => {
        failures += 1;
        if (failures > 1) return tenant.postRunCommand(runId, queued);
        return Promise.reject(new RelayError('storage_failed', 'The store did not answer'));
      },
    }));
    const server = await boot({ store: shaky });
    const chat = await startChat(server, 'notify shaky');
    await chat.reader.until('relay');
    await chat.reader.disconnect();
    await untilStatus(server, chat.runId, 'canceled');
  });
});

describe('a commit whose reply is lost', () => {
  it('does not keep the stream open if it was the last one', async () => {
    const inner = createMemoryStore();
    const lossy = withTenantCalls(inner, (tenant) => ({
      append: async (step) => {
        const outcome = await tenant.append(step);
        if (step.events.some(({ type }) => type === 'run.ended')) {
          throw new RelayError('storage_failed', 'The reply was lost');
        }
        return outcome;
      },
    }));
    const server = await boot({ store: lossy });
    const { runId, reader } = await startRun(server, { input: 'say 3' });
    await untilStatus(server, runId, 'completed');
    const frames = await Promise.race([
      reader.rest(),
      new Promise<undefined>((resolve) => {
        setTimeout(() => resolve(undefined), 4_000);
      }),
    ]);
    expect(frames?.at(-1)?.data.type ?? 'the stream hangs').toBe('done');
  });
});
