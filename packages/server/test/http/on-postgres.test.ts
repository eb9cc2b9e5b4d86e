/** What matters most of the HTTP surface, on PostgreSQL: the same suites as on the other stores. */
import type { SystemStore } from '@relay/core';
import { openPostgresStore } from '@relay/store';
import { afterAll, describe, vi } from 'vitest';
import { createDatabase, type TestDatabase } from '../../../../test/support/postgres.ts';
import type { BootOptions, TestRelay } from '../support/relay.ts';

const databases = vi.hoisted((): TestDatabase[] => []);
const free = vi.hoisted((): TestDatabase[] => []);

/** Emptied and used again: a new one each time would cost more than what is tested. */
async function openEmpty(): Promise<{ store: SystemStore; leave(): Promise<void> }> {
  const database = free.pop() ?? (await createDatabase());
  if (!databases.includes(database)) databases.push(database);
  const store = await openPostgresStore({ url: database.url });
  return {
    store,
    leave: async () => {
      await store.close();
      await database.empty();
      free.push(database);
    },
  };
}

vi.mock('../support/relay.ts', async (original) => {
  const relay = await original<typeof import('../support/relay.ts')>();
  return {
    ...relay,
    storeKinds: ['postgres'],
    bootRelay: async (options: BootOptions = {}): Promise<TestRelay> => {
      if (options.store !== undefined) return relay.bootRelay(options);
      const { store, leave } = await openEmpty();
      const booted = await relay.bootRelay({ ...options, store });
      return {
        ...booted,
        stop: async () => {
          await booted.stop();
          await leave();
        },
      };
    },
  };
});

afterAll(() => Promise.all(databases.map((database) => database.drop())));

// Each in a suite of its own, to which its hooks belong.
describe('runs', async () => {
  await import('./runs.test.ts');
});
describe('approvals', async () => {
  await import('./approvals.test.ts');
});
describe('idempotency', async () => {
  await import('./idempotency.test.ts');
});
describe('grants', async () => {
  await import('./grants.test.ts');
});
describe('policy', async () => {
  await import('./policy.test.ts');
});
describe('audit', async () => {
  await import('./audit.test.ts');
});
describe('webhooks', async () => {
  await import('./webhooks.test.ts');
});
describe('tool-results', async () => {
  await import('./tool-results.test.ts');
});
describe('memories', async () => {
  await import('./memories.test.ts');
});
