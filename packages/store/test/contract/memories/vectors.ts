import {
  claimMs,
  type MemoryRecord,
  type NearestSearch,
  modelChangeDelayMs,
  type TenantStore,
} from '@relay/core';
import { uuidv7 } from 'uuidv7';
import { expect, test } from 'vitest';
import { ending, newRun, noon, useStore, withStore } from '../fixtures.ts';
import type { Open } from '../fixtures.ts';
import { newMemory } from './memories.ts';

const model = 'test:a';
const day = 24 * 60 * 60_000;

async function add(tenant: TenantStore, over: Partial<MemoryRecord> = {}): Promise<MemoryRecord> {
  return tenant.addMemory(newMemory(over));
}

interface Meant {
  readonly numbers: readonly number[];
  readonly model?: string;
  readonly at?: number;
}

function mean(tenant: TenantStore, { id }: { id: string }, of: Meant): Promise<boolean> {
  const vector = Float32Array.from(of.numbers);
  return tenant.vectors.put({ memoryId: id, model: of.model ?? model, vector, at: of.at ?? noon });
}

/** A memory that means these numbers. */
async function meant(tenant: TenantStore, numbers: readonly number[], over = {}) {
  const memory = await add(tenant, over);
  expect(await mean(tenant, memory, { numbers })).toBe(true);
  return memory;
}

async function near(
  tenant: TenantStore,
  numbers: readonly number[],
  over: Partial<NearestSearch> = {},
) {
  return tenant.vectors.nearest({
    namespace: 'user:42',
    model,
    vector: Float32Array.from(numbers),
    limit: 10,
    floor: 0.1,
    now: noon,
    ...over,
  });
}

async function idsNear(...asked: Parameters<typeof near>): Promise<string[]> {
  return (await near(...asked)).map(({ id }) => id);
}

async function claimIds(tenant: TenantStore, over: object = {}): Promise<string[]> {
  const claimed = await tenant.vectors.claim({ model, now: noon, limit: 10, ...over });
  return claimed.map(({ id }) => id).toSorted();
}

export function vectorTests(open: Open): void {
  const { system, tenant: newTenant } = useStore(open);

  test('every memory waits for a vector, however it was stored', async () => {
    const tenant = newTenant();
    const added = await add(tenant, { text: 'odd \u0000 \ud800 text' });
    const left = newMemory({ source: 'run' });
    const run = await newRun(tenant);
    await tenant.append(ending(run, { memories: [left] }));
    const claimed = await tenant.vectors.claim({ model, now: noon, limit: 10 });
    const texts = new Map(claimed.map(({ id, text }) => [id, text]));
    expect(texts).toEqual(
      new Map([
        [added.id, added.text],
        [left.id, left.text],
      ]),
    );
  });

  test('a claim excludes others for a while, longer each time, until the memory has a vector', async () => {
    const tenant = newTenant();
    const { id } = await add(tenant);
    let now = noon;
    for (let attempt = 0; attempt < 9; attempt += 1) {
      expect(await claimIds(tenant, { now })).toEqual([id]);
      expect(await claimIds(tenant, { now: now + claimMs(attempt) - 1 })).toEqual([]);
      now += claimMs(attempt);
    }
    expect(claimMs(99)).toBeLessThan(3_600_000);
    await mean(tenant, { id }, { numbers: [1, 0] });
    expect(await claimIds(tenant, { now: now + 365 * day })).toEqual([]);
  });

  test('a released memory can be claimed at once, without a longer wait', async () => {
    const tenant = newTenant();
    const [a, b, done] = [await add(tenant), await add(tenant), await add(tenant)];
    const other = newTenant();
    for (let n = 0; n < 3; n += 1) {
      expect(await claimIds(tenant)).toEqual([a.id, b.id, done.id].toSorted());
      await other.vectors.release([a.id]);
      expect(await claimIds(tenant)).toEqual([]);
      await tenant.vectors.release([a.id, b.id, done.id, uuidv7()]);
    }
    await tenant.vectors.release([]);
    await claimIds(tenant);
    await mean(tenant, done, { numbers: [1, 0] });
    await tenant.vectors.release([a.id, done.id]);
    expect(await claimIds(tenant)).toEqual([a.id]);
    const next = noon + claimMs(0);
    expect(await claimIds(tenant, { now: next })).toEqual([a.id, b.id].toSorted());
    expect(await claimIds(tenant, { now: next, model: 'other' })).toEqual([]);
  });

  test('a new vector is not claimed for another model', async () => {
    for (const other of ['a', 'z']) {
      const tenant = newTenant();
      const { id } = await meant(tenant, [1, 0]);
      expect(await claimIds(tenant, { model: other, now: noon + modelChangeDelayMs - 1 })).toEqual(
        [],
      );
      expect(await claimIds(tenant, { model: other, now: noon + modelChangeDelayMs })).toEqual([
        id,
      ]);
    }
  });

  test('several who claim at once get different ones, at most so many', async () => {
    const tenant = newTenant();
    const made = [];
    for (let n = 0; n < 12; n += 1) made.push((await add(tenant)).id);
    const claims = await Promise.all(
      Array.from({ length: 6 }, () => claimIds(system().tenant(tenant.tenantId), { limit: 3 })),
    );
    for (const claim of claims) expect(claim.length).toBeLessThanOrEqual(3);
    const rest = await claimIds(tenant, { limit: 12 });
    expect([...claims.flat(), ...rest].toSorted()).toEqual(made.toSorted());
  });

  test('a change of model makes all of them due, above and below it', async () => {
    const tenant = newTenant();
    const [a, c, none] = [await add(tenant), await add(tenant), await add(tenant)];
    await mean(tenant, a, { numbers: [1, 0], model: 'a' });
    await mean(tenant, c, { numbers: [1, 0], model: 'c' });
    const all = [a.id, c.id, none.id].toSorted();
    expect(
      await claimIds(tenant, { model: 'b', now: noon + modelChangeDelayMs, limit: 1 }),
    ).toHaveLength(1);
    const later = { model: 'b', now: noon + modelChangeDelayMs + claimMs(0) };
    expect(await claimIds(tenant, later)).toEqual(all);
    await mean(tenant, a, { numbers: [1, 0], model: 'b' });
    expect(await idsNear(tenant, [1, 0], { model: 'b' })).toEqual([a.id]);
    expect(await idsNear(tenant, [1, 0], { model: 'a' })).toEqual([]);
  });

  test('the most alike come first, of equals the newest, and none below the floor', async () => {
    const tenant = newTenant();
    const far = await meant(tenant, [-1, 0, 0]);
    const same = await meant(tenant, [5, 0, 0]);
    const similar = await meant(tenant, [1, 1, 0], { createdAt: noon - 5 });
    const newer = await meant(tenant, [1, 0, 1], { createdAt: noon - 4 });
    const found = await near(tenant, [2, 0, 0]);
    expect(found.map(({ id }) => id)).toEqual([same.id, newer.id, similar.id]);
    expect(found[0]).toEqual({ ...same, similarity: 1 });
    expect(found[1]?.similarity).toBeCloseTo(Math.SQRT1_2, 3);
    expect(await idsNear(tenant, [2, 0, 0], { floor: 0.8 })).toEqual([same.id]);
    expect(await idsNear(tenant, [2, 0, 0], { limit: 2 })).toEqual([same.id, newer.id]);
    expect(await idsNear(tenant, [-1, 0, 0])).toEqual([far.id]);
  });

  test('what is added, deleted, cleared and expires counts at once, also if it was searched before', async () => {
    const tenant = newTenant();
    const other = system().tenant(tenant.tenantId);
    const first = await meant(tenant, [1, 0]);
    expect(await idsNear(tenant, [1, 0])).toEqual([first.id]);
    const second = await meant(other, [1, 0.1], { expiresAt: noon + 10 });
    expect(await idsNear(tenant, [1, 0])).toEqual([first.id, second.id]);
    // One comes and one goes: their number stays.
    await other.deleteMemory(first.id);
    const third = await meant(other, [1, 0.2]);
    expect(await idsNear(tenant, [1, 0])).toEqual([second.id, third.id]);
    expect(await idsNear(tenant, [1, 0], { now: noon + 10 })).toEqual([third.id]);
    expect(await tenant.vectors.has({ namespace: 'user:42', model })).toBe(true);
    await other.clearMemories('user:42', 100);
    expect(await idsNear(tenant, [1, 0])).toEqual([]);
    expect(await tenant.vectors.has({ namespace: 'user:42', model })).toBe(false);
    expect(await claimIds(tenant, { model: 'other', now: noon + day })).toEqual([]);
  });

  test('expired ones that are swept take their vectors with them', () =>
    withStore(open, async ({ store }) => {
      const tenant = store.tenant(uuidv7());
      await meant(tenant, [1, 0], { expiresAt: noon + 1 });
      expect(await store.deleteExpiredMemories(noon + 1, 10)).toBe(1);
      expect(await tenant.vectors.has({ namespace: 'user:42', model })).toBe(false);
      expect(await claimIds(tenant, { model: 'other', now: noon + day })).toEqual([]);
    }));

  test('nothing of another tenant or namespace comes in, or is touched', async () => {
    const [tenant, stranger] = [newTenant(), newTenant()];
    const mine = await meant(tenant, [1, 0]);
    const theirs = await meant(stranger, [1, 0]);
    const elsewhere = await meant(tenant, [1, 0], { namespace: 'user:43' });
    expect(await idsNear(tenant, [1, 0])).toEqual([mine.id]);
    expect(await idsNear(stranger, [1, 0])).toEqual([theirs.id]);
    expect(await idsNear(tenant, [1, 0], { namespace: 'user:43' })).toEqual([elsewhere.id]);
    expect(await mean(stranger, mine, { numbers: [0, 1] })).toBe(false);
    expect(await idsNear(tenant, [0, 1])).toEqual([]);
    expect(await claimIds(stranger, { model: 'other', now: noon + day })).toEqual([theirs.id]);
  });

  test('a vector for a memory that is gone is refused', async () => {
    const tenant = newTenant();
    const memory = await add(tenant);
    await tenant.deleteMemory(memory.id);
    expect(await mean(tenant, memory, { numbers: [1, 0] })).toBe(false);
    expect(await mean(tenant, { id: uuidv7() }, { numbers: [1, 0] })).toBe(false);
  });

  test('as many are found as are asked for, also of long vectors', async () => {
    const tenant = newTenant();
    const numbers = Array<number>(1_536).fill(1);
    await Promise.all(Array.from({ length: 70 }, () => meant(tenant, numbers)));
    expect(new Set(await idsNear(tenant, numbers, { limit: 400 })).size).toBe(70);
  });

  test('vectors of another length are not compared', async () => {
    const tenant = newTenant();
    await meant(tenant, Array<number>(40).fill(1));
    const short = await meant(tenant, [1, 1, 1]);
    expect(await idsNear(tenant, [1, 1, 1], { floor: -1 })).toEqual([short.id]);
    expect(await idsNear(tenant, [1, 1], { floor: -1 })).toEqual([]);
  });

  test('of many, the nearest are found as if all had been compared', async () => {
    const tenant = newTenant();
    const chance = chances();
    const clusters = Array.from({ length: 20 }, () => Array.from({ length: 256 }, chance));
    const made = new Map<string, number[]>();
    for (let n = 0; n < 600; n += 1) {
      const numbers = (clusters[n % 20] ?? []).map((value) => value + 0.8 * chance());
      made.set((await meant(tenant, numbers)).id, numbers);
    }
    for (const cluster of clusters.slice(0, 5)) {
      const asked = cluster.map((value) => value + 0.8 * chance());
      const exact = [...made]
        .map(([id, numbers]) => ({ id, similarity: cosineOf(asked, numbers) }))
        .toSorted((a, b) => b.similarity - a.similarity)
        .slice(0, 5);
      const found = await near(tenant, asked, { limit: 5 });
      expect(found.map(({ id }) => id)).toEqual(exact.map(({ id }) => id));
    }
  });
}

/** Numbers from -1 to 1, the same every time. */
function chances(): () => number {
  let state = 7;
  return () => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fffffff;
    return (2 * state) / 0x80000000 - 1;
  };
}

function cosineOf(one: readonly number[], other: readonly number[]): number {
  const product = (a: readonly number[], b: readonly number[]) =>
    a.reduce((sum, value, index) => sum + value * (b[index] ?? 0), 0);
  return product(one, other) / Math.sqrt(product(one, one) * product(other, other));
}
