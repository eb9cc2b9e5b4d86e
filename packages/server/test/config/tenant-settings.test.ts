import { createMemoryStore } from '@relay/store';
import { uuidv7 } from 'uuidv7';
import { expect, it } from 'vitest';
import { changeSettings } from '../../src/config/tenant-settings.ts';

it('keeps concurrent changes of budgets and workspace', async () => {
  const store = createMemoryStore();
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
});

it('fails with storage_failed after too many conflicts', async () => {
  const store = createMemoryStore();
  const { id } = await store.ensureTenant({ id: uuidv7(), name: 't', at: 0 });
  const tenant = store.tenant(id);
  tenant.updateTenant = async () => false;
  await expect(changeSettings(tenant, {})).rejects.toMatchObject({ code: 'storage_failed' });
});
