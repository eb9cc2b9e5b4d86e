import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { SystemStore } from '@relay/core';
import { createMemoryStore, openPostgresStore, openSqliteStore } from '@relay/store';
import { uuidv7 } from 'uuidv7';
import { expect, it, onTestFinished } from 'vitest';
import { createDatabase } from '../../../../test/support/postgres.ts';
import { changeSettings } from '../../src/config/tenant-settings.ts';

const stores: Record<string, () => Promise<SystemStore>> = {
  memory: async () => createMemoryStore(),
  sqlite: async () => {
    const dir = mkdtempSync(join(tmpdir(), 'relay-settings-'));
    onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
    return openSqliteStore({ dir });
  },
  postgres: async () => {
    const database = await createDatabase();
    onTestFinished(() => database.drop());
    return openPostgresStore({ url: database.url });
  },
};

it.each(Object.keys(stores))(
  'on the %s store, who sets budgets and who gives a folder at once undo nothing of each other',
  async (kind) => {
    const store = await stores[kind]!();
    for (let round = 0; round < 10; round += 1) {
      const { id } = await store.ensureTenant({ id: uuidv7(), name: `tenant-${round}`, at: 0 });
      const tenant = store.tenant(id);
      const budgets = { tenant: { period: 'day', tokens: round } } as const;
      await Promise.all([
        changeSettings(tenant, { budgets }, { pausedAt: 5 }),
        changeSettings(tenant, { workspace: '/srv' }),
      ]);
      const settings = { budgets, workspace: '/srv' };
      expect(await tenant.readTenant()).toMatchObject({ settings, pausedAt: 5 });
    }
    await store.close();
  },
);

it('gives up with a clear word where others never stop', async () => {
  const store = createMemoryStore();
  const { id } = await store.ensureTenant({ id: uuidv7(), name: 't', at: 0 });
  const tenant = store.tenant(id);
  tenant.updateTenant = async () => false;
  await expect(changeSettings(tenant, {})).rejects.toMatchObject({ code: 'storage_failed' });
});
