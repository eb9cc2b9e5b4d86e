import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemClock, type SystemStore } from '@relay/core';
import { createMemoryStore } from '@relay/store';
import { calculator, createToolRegistry, defineTool } from '@relay/tools';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { ids } from '../../src/compose.ts';
import { readConfig } from '../../src/config/config.ts';
import { until } from '../support/server.ts';
import { setWorkspace, Workspaces } from '../../src/workspaces/workspaces.ts';

let base = '';
let store: SystemStore;
const logged: string[] = [];
const log = { warn: () => undefined, error: (message: string) => void logged.push(message) };
const bash = { sandbox: undefined, environment: [], summary: '' };

beforeEach(() => {
  base = realpathSync(mkdtempSync(join(tmpdir(), 'relay-workspaces-')));
  for (const name of ['data', 'one', 'two', 'one/inner', 'data/inner']) mkdirSync(join(base, name));
  writeFileSync(join(base, 'file'), '');
  store = createMemoryStore();
  logged.length = 0;
});
afterEach(() => rmSync(base, { recursive: true, force: true }));

const configOf = (workspace?: string) =>
  readConfig(
    {
      RELAY_DATA_DIR: join(base, 'data'),
      ...(workspace === undefined ? {} : { RELAY_WORKSPACE: workspace }),
    },
    base,
  );
const give = (tenant: string, folder: string, workspace?: string) =>
  setWorkspace(store, {
    config: configOf(workspace),
    ids,
    tenant,
    folder,
    cwd: base,
    audit: undefined,
  });

async function opened(workspace?: string, tools = createToolRegistry([calculator])) {
  const { id } = await store.ensureTenant({ id: ids.next(), name: 'default', at: 0 });
  const config = configOf(workspace);
  const options = { store, config, defaultTenantId: id, tools, bash, clock: systemClock, log };
  const workspaces = new Workspaces(options);
  await workspaces.open();
  const namesOf = (tenantId: string) =>
    workspaces
      .tools(tenantId)
      .list()
      .map(({ name }) => name);
  return { workspaces, namesOf, defaultTenantId: id };
}

const tenantId = async (name: string) => (await store.findTenant(name))?.id ?? '';

describe('workspaces', () => {
  it('give bash, read and patch to their tenant only', async () => {
    await give('acme', 'two');
    await store.ensureTenant({ id: ids.next(), name: 'bare', at: 0 });
    const { namesOf, defaultTenantId } = await opened('one');
    const all = ['calculator', 'bash', 'read', 'patch'];
    expect(namesOf(defaultTenantId)).toEqual(all);
    expect(namesOf(await tenantId('acme'))).toEqual(all);
    expect(namesOf(await tenantId('bare'))).toEqual(['calculator']);
    expect((await opened()).namesOf(defaultTenantId)).toEqual(['calculator']);
  });

  it.each([
    ['there is no folder', 'none'],
    ['there is no folder', 'file'],
    ['RELAY_WORKSPACE', 'data'],
    ['overlap: choose separate folders', 'data/inner'],
    ['overlap: choose separate folders', '.'],
    ['overlap: choose separate folders', '/'],
  ])('stop the start: %s (%s)', async (message, workspace) => {
    await expect(opened(workspace)).rejects.toThrow(message);
  });

  it('are compared by their real paths', async () => {
    symlinkSync(join(base, 'data'), join(base, 'link'));
    await expect(opened('link')).rejects.toThrow('overlap: choose separate folders');
    symlinkSync(join(base, 'one'), join(base, 'again'));
    await give('acme', 'again');
    await expect(opened('one')).rejects.toThrow(
      `the workspace of acme (${base}/one) and RELAY_WORKSPACE (${base}/one) overlap: choose separate folders`,
    );
  });

  it('with a common name prefix do not overlap', async () => {
    mkdirSync(join(base, 'one-more'));
    await give('acme', 'one-more');
    await expect(opened('one')).resolves.toBeDefined();
  });

  it.each([
    ['there is no folder', 'none', undefined],
    ['there is no folder', 'file', undefined],
    ['the data folder', 'data/inner', undefined],
    ['the workspace of other', 'one/inner', undefined],
    ['the data folder', '.', undefined],
    ['RELAY_WORKSPACE', 'two', 'two'],
  ])('cannot be given: %s (%s)', async (message, folder, workspace) => {
    await give('other', 'one');
    await expect(give('acme', folder, workspace)).rejects.toThrow(message);
    expect(await store.workspaces()).toHaveLength(1);
    expect(await store.findTenant('acme')).toBeUndefined();
  });

  it('can be replaced without changing other settings', async () => {
    await give('acme', 'one');
    const own = store.tenant(await tenantId('acme'));
    await own.updateTenant({
      settings: { ...((await own.readTenant()).settings as object), budgets: {} },
    });
    await give('acme', 'one/inner');
    expect((await own.readTenant()).settings).toEqual({
      workspace: join(base, 'one/inner'),
      budgets: {},
    });
  });

  it('of the tenant default come from RELAY_WORKSPACE only', async () => {
    await expect(give('default', 'one')).rejects.toThrow('RELAY_WORKSPACE');
  });

  it('without their folder disable the tools of that tenant only', async () => {
    await give('acme', 'two');
    rmSync(join(base, 'two'), { recursive: true });
    const { namesOf, defaultTenantId } = await opened('one');
    expect(namesOf(await tenantId('acme'))).toEqual(['calculator']);
    expect(namesOf(defaultTenantId)).toContain('bash');
    expect(logged).toEqual(['The tenant acme has no workspace tools']);
  });

  it('are reloaded by a running server', async () => {
    const { workspaces, namesOf } = await opened('one');
    workspaces.start();
    try {
      await give('acme', 'two');
      const id = await tenantId('acme');
      await until(() => namesOf(id).includes('bash'), 'the tools of acme');
    } finally {
      await workspaces.stop();
    }
  });

  it('are loaded before the first request with a newer key', async () => {
    const { workspaces, namesOf } = await opened('one');
    await give('acme', 'two');
    const id = await tenantId('acme');
    expect(namesOf(id)).not.toContain('bash');
    await workspaces.refreshFor('key-1');
    expect(namesOf(id)).toContain('bash');
  });

  it('that overlap do not reject the requests of other tenants', async () => {
    const { workspaces, namesOf, defaultTenantId } = await opened('one');
    await give('acme', 'one/inner');
    await workspaces.refreshFor('key-1');
    expect(logged).toHaveLength(1);
    expect(namesOf(defaultTenantId)).toContain('bash');
  });

  it('that overlap are ignored by a running server', async () => {
    const { workspaces, namesOf, defaultTenantId } = await opened('one');
    workspaces.start();
    try {
      // `bootstrap` did not know the server's environment.
      await give('acme', 'one/inner');
      await until(() => logged.length > 0, 'a word about it');
      expect(namesOf(await tenantId('acme'))).toEqual(['calculator']);
      expect(namesOf(defaultTenantId)).toContain('bash');
    } finally {
      await workspaces.stop();
    }
  });

  it('refuse a configured tool with the name of a workspace tool', async () => {
    const own = defineTool({
      name: 'bash',
      description: '',
      schema: z.object({}),
      execute: () => ({}),
    });
    await expect(opened('one', createToolRegistry([own]))).rejects.toThrow(
      'Two tools are named bash',
    );
    await expect(opened(undefined, createToolRegistry([own]))).resolves.toBeDefined();
  });
});
