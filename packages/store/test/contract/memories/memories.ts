import type { MemoryRecord, TenantStore } from '@relay/core';
import { uuidv7 } from 'uuidv7';
import { expect, test } from 'vitest';
import {
  allPages,
  ending,
  hostileText,
  newRun,
  noon,
  step,
  useStore,
  withStore,
} from '../fixtures.ts';
import type { Open } from '../fixtures.ts';

export function newMemory(over: Partial<MemoryRecord> = {}): MemoryRecord {
  return {
    id: uuidv7(),
    namespace: 'user:42',
    text: 'Ada likes green tea',
    runId: null,
    source: 'api',
    createdAt: noon,
    expiresAt: null,
    ...over,
  };
}

const here = { namespace: 'user:42', now: noon };
const page = { limit: 100 };

async function add(tenant: TenantStore, over: Partial<MemoryRecord> = {}): Promise<MemoryRecord> {
  return tenant.addMemory(newMemory(over));
}

async function idsIn(tenant: TenantStore, filter: Parameters<TenantStore['listMemories']>[0]) {
  return (await tenant.listMemories(filter, page)).map(({ id }) => id);
}

export function memoryTests(open: Open): void {
  const { system, tenant: newTenant } = useStore(open);

  test('what is added is listed as it was given, the newest first', async () => {
    const tenant = newTenant();
    const records = [
      newMemory({ createdAt: noon, runId: uuidv7(), source: 'run' }),
      newMemory({ createdAt: noon + 2, expiresAt: noon + 60_000 }),
      newMemory({ createdAt: noon + 1, source: 'tool' }),
    ];
    for (const record of records) expect(await tenant.addMemory(record)).toEqual(record);
    const [oldest, newest, middle] = records;
    expect(await tenant.listMemories(here, page)).toEqual([newest, middle, oldest]);
  });

  test('a list goes on where its page ended, also among memories of one moment', async () => {
    const tenant = newTenant();
    const made = [];
    for (let n = 0; n < 7; n += 1) {
      made.push(await add(tenant, { createdAt: noon + Math.floor(n / 3) }));
    }
    const expected = made
      .toSorted((a, b) => b.createdAt - a.createdAt || (a.id < b.id ? 1 : -1))
      .map(({ id }) => id);
    for (const limit of [1, 2, 3, 7]) {
      const read = (part: typeof page) => tenant.listMemories(here, part);
      expect(await allPages(limit, read, ({ createdAt }) => createdAt)).toEqual(expected);
    }
  });

  test('a namespace has its own, and without one there are all of the tenant’s', async () => {
    const tenant = newTenant();
    const mine = await add(tenant);
    const other = await add(tenant, { namespace: 'user:43', createdAt: noon + 1 });
    expect(await idsIn(tenant, here)).toEqual([mine.id]);
    expect(await idsIn(tenant, { ...here, namespace: 'user:43' })).toEqual([other.id]);
    expect(await idsIn(tenant, { ...here, namespace: 'user:4' })).toEqual([]);
    expect(await idsIn(tenant, { now: noon })).toEqual([other.id, mine.id]);
  });

  test('what is added under one key is kept once, and the first one stays', async () => {
    const [tenant, stranger] = [newTenant(), newTenant()];
    const first = newMemory();
    expect(await tenant.addMemory(first, 'run:call_1')).toEqual(first);
    const again = newMemory({ text: 'Something else', createdAt: noon + 5 });
    expect(await tenant.addMemory(again, 'run:call_1')).toEqual(first);
    expect(await tenant.listMemories(here, page)).toEqual([first]);
    const others = newMemory();
    expect(await tenant.addMemory(others, 'run:call_2')).toEqual(others);
    const theirs = newMemory();
    expect(await stranger.addMemory(theirs, 'run:call_1')).toEqual(theirs);
    const unkeyed = [await add(tenant), await add(tenant)];
    expect(await idsIn(tenant, here)).toHaveLength(2 + unkeyed.length);
  });

  test('an id is taken once', async () => {
    const tenant = newTenant();
    const record = await add(tenant);
    const again = tenant.addMemory({ ...record, text: 'Another' });
    await expect(again).rejects.toMatchObject({ code: 'storage_failed' });
    expect(await tenant.listMemories(here, page)).toEqual([record]);
  });

  test('deleting one leaves the others, and says whether there was one', async () => {
    const tenant = newTenant();
    const [kept, gone] = [await add(tenant), await add(tenant)];
    expect(await tenant.deleteMemory(gone.id)).toBe(true);
    expect(await tenant.deleteMemory(gone.id)).toBe(false);
    expect(await tenant.listMemories(here, page)).toEqual([kept]);
    const found = await tenant.searchMemories({ ...here, query: 'green tea', limit: 9 });
    expect(found.map(({ id }) => id)).toEqual([kept.id]);
  });

  test('deleting within a namespace spares what is in another', async () => {
    const tenant = newTenant();
    const record = await add(tenant);
    expect(await tenant.deleteMemory(record.id, { namespace: 'user:43' })).toBe(false);
    expect(await tenant.deleteMemory(record.id, { namespace: 'user:42' })).toBe(true);
    expect(await tenant.listMemories(here, page)).toEqual([]);
  });

  test('a namespace is cleared in batches, and others do not change', async () => {
    const tenant = newTenant();
    for (let n = 0; n < 5; n += 1) await add(tenant);
    const other = await add(tenant, { namespace: 'user:43' });
    const counts = [];
    for (let n = 0; n < 4; n += 1) counts.push(await tenant.clearMemories('user:42', 2));
    expect(counts).toEqual([2, 2, 1, 0]);
    expect(await tenant.listMemories({ now: noon }, page)).toEqual([other]);
    expect(await tenant.searchMemories({ ...here, query: 'green tea', limit: 9 })).toEqual([]);
  });

  test('what has expired is neither listed nor found', async () => {
    const tenant = newTenant();
    const lasting = await add(tenant);
    const short = await add(tenant, { expiresAt: noon + 10 });
    const at = async (now: number) => [
      (await idsIn(tenant, { ...here, now })).toSorted(),
      (await tenant.searchMemories({ ...here, now, query: 'tea', limit: 9 }))
        .map(({ id }) => id)
        .toSorted(),
    ];
    const both = [lasting.id, short.id].toSorted();
    expect(await at(noon + 9)).toEqual([both, both]);
    expect(await at(noon + 10)).toEqual([[lasting.id], [lasting.id]]);
  });

  test('what has expired is swept in bounded pieces, of all tenants, and nothing else', () =>
    withStore(open, async ({ store }) => {
      const tenants = [store.tenant(uuidv7()), store.tenant(uuidv7())];
      for (const tenant of tenants) {
        for (const expiresAt of [noon + 1, noon + 2, noon + 50, null]) {
          await add(tenant, { expiresAt });
        }
      }
      const counts = [];
      for (let n = 0; n < 3; n += 1) counts.push(await store.deleteExpiredMemories(noon + 10, 3));
      expect(counts).toEqual([3, 1, 0]);
      for (const tenant of tenants) {
        expect((await idsIn(tenant, { now: 0 })).length).toBe(2);
        expect(
          await tenant.searchMemories({ ...here, now: 0, query: 'tea', limit: 9 }),
        ).toHaveLength(2);
      }
    }));

  test('a run leaves its memory in the commit that ends it', async () => {
    const tenant = newTenant();
    const run = await newRun(tenant);
    const record = newMemory({ runId: run.id, source: 'run' });
    expect(await tenant.append(ending(run, { memories: [record] }))).toBe('committed');
    expect(await tenant.listMemories(here, page)).toEqual([record]);
    expect(await tenant.searchMemories({ ...here, query: 'tea', limit: 1 })).toMatchObject([
      record,
    ]);
  });

  test('a step that is fenced out leaves no memory, nor does one that cannot be stored', async () => {
    const tenant = newTenant();
    const run = await newRun(tenant);
    const record = newMemory();
    expect(await tenant.append(step(run, { epoch: 9, memories: [record] }))).toBe('fenced');
    expect(await tenant.listMemories(here, page)).toEqual([]);
    const taken = await add(tenant);
    const refused = tenant.append(ending(run, { memories: [record, { ...taken, text: 'x' }] }));
    await expect(refused).rejects.toMatchObject({ code: 'storage_failed' });
    expect(await tenant.listMemories(here, page)).toEqual([taken]);
    expect(await tenant.readRun(run.id)).toMatchObject({ lastSeq: 1, endedAt: null });
    // The index was undone with the rest.
    const found = await tenant.searchMemories({ ...here, query: 'green tea', limit: 9 });
    expect(found.map(({ id }) => id)).toEqual([taken.id]);
  });

  for (const [name, text] of Object.entries(hostileText)) {
    test(`${name} survives in a memory, its namespace and its key, and harms no search`, async () => {
      const tenant = newTenant();
      const namespace = `n${text}`;
      const record = newMemory({ text: `${text} tea ${text}`, namespace });
      expect(await tenant.addMemory(record, text)).toEqual(record);
      expect(await tenant.addMemory(newMemory({ namespace }), text)).toEqual(record);
      expect(await tenant.listMemories({ namespace, now: noon }, page)).toEqual([record]);
      const search = { namespace, now: noon, limit: 9 };
      expect(await tenant.searchMemories({ ...search, query: `tea ${text}` })).toMatchObject([
        record,
      ]);
      await tenant.searchMemories({ ...search, query: text });
      expect(await tenant.clearMemories(namespace, 9)).toBe(1);
    });
  }

  test('another tenant neither lists, finds, clears nor deletes them', async () => {
    const [owner, stranger] = [newTenant(), newTenant()];
    const record = await add(owner);
    expect(await stranger.listMemories(here, page)).toEqual([]);
    expect(await stranger.listMemories({ now: noon }, page)).toEqual([]);
    expect(await stranger.searchMemories({ ...here, query: record.text, limit: 9 })).toEqual([]);
    expect(await stranger.deleteMemory(record.id)).toBe(false);
    expect(await stranger.clearMemories('user:42', 9)).toBe(0);
    expect(await owner.listMemories(here, page)).toEqual([record]);
    const theirs = await add(stranger, { text: 'Bob likes green tea' });
    const found = await owner.searchMemories({ ...here, query: 'who likes green tea', limit: 9 });
    expect(found.map(({ id }) => id)).toEqual([record.id]);
    expect(found.map(({ id }) => id)).not.toContain(theirs.id);
  });

  test('memories are there after the store is opened again, and found', () =>
    withStore(open, async ({ store, reopen }) => {
      const tenantId = uuidv7();
      const record = await add(store.tenant(tenantId));
      const again = (await reopen()).tenant(tenantId);
      expect(await again.listMemories(here, page)).toEqual([record]);
      const found = await again.searchMemories({ ...here, query: 'tea', limit: 9 });
      expect(found).toMatchObject([record]);
      expect(await again.deleteMemory(record.id)).toBe(true);
      expect(await again.searchMemories({ ...here, query: 'tea', limit: 9 })).toEqual([]);
    }));

  test('the system’s side is of the same store', async () => {
    expect(await system().deleteExpiredMemories(0, 10)).toBe(0);
  });
}
