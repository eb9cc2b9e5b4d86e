import type { Page, Position, RunFilter, RunListing, TenantStore } from '@relay/core';
import type { EventOf } from '@relay/protocol';
import { uuidv7 } from 'uuidv7';
import { describe, expect, test } from 'vitest';
import { allListed, delta, newRun, noon, started, step, useStore } from '../fixtures.ts';
import type { Open, TestRun } from '../fixtures.ts';

const all = { limit: 100 };

export function created(content: string): EventOf<'run.created'> {
  return {
    type: 'run.created',
    surface: 'runs',
    agent: 'assistant',
    model: 'demo',
    conversationId: '01900000-0000-7000-8000-000000000001',
    correlationId: 'request-1',
    messages: [{ role: 'user', content }],
    history: null,
    tools: [],
    permissions: {},
    maxIterations: 1,
    labels: {},
  };
}

export async function idsOf(tenant: TenantStore, filter: RunFilter, page = all): Promise<string[]> {
  return (await tenant.listRuns(filter, page)).items.map(({ id }) => id);
}

export const ids = (...runs: (TestRun | undefined)[]) => runs.map((run) => run?.id);

/** A run created so many milliseconds after noon. */
export function at(tenant: TenantStore, ms: number, over: Parameters<typeof newRun>[1] = {}) {
  return newRun(tenant, { ...over, identity: { createdAt: noon + ms, ...over.identity } });
}

export function runListTests(open: Open): void {
  const { tenant: newTenant } = useStore(open);

  describe('what is shown', () => {
    test('a run is listed as it is read, without checkpoint and snapshot', async () => {
      const tenant = newTenant();
      const opening = created('hello');
      const run = await newRun(tenant, {
        identity: { keyId: uuidv7(), workflowId: 'nightly', labels: { team: 'blue' } },
        events: [opening, started],
        progress: { status: 'running', startedAt: noon, checkpoint: 'c' },
      });
      const usage = { inputTokens: 3, outputTokens: 4, costUsd: 0.25 };
      const error = { code: 'internal', message: 'm', retryable: false };
      const finishReason = 'refusal';
      const ended = { endedAt: noon + 5, usage, error, finishReason } as const;
      const progress = { status: 'failed', ...ended } as const;
      await tenant.append(step(run, { afterSeq: 2, progress: { ...progress, outputJson: '{}' } }));
      const record = await tenant.readRun(run.id);
      if (record === undefined) throw new Error('The run is not there');
      const { checkpoint: _c, snapshot: _s, snapshotSeq: _q, wakeAt: _w, ...head } = record;
      const { epoch: _epoch, journalSize: _size, firstTokenMs: _t, ...shown } = head;
      const listing: RunListing = {
        ...shown,
        opening,
        answer: null,
        isOpeningOmitted: false,
        isOutputOmitted: false,
      };
      expect((await tenant.listRuns({}, all)).items).toEqual([listing]);
      expect(listing).toMatchObject({ startedAt: noon, ...ended });
    });

    test('a run that is neither started nor over says so', async () => {
      const tenant = newTenant();
      await newRun(tenant, { lease: null, events: [] });
      const [listing] = (await tenant.listRuns({}, all)).items;
      const nothing = { startedAt: null, endedAt: null, error: null, outputJson: null };
      expect(listing).toMatchObject({ status: 'queued', opening: null, ...nothing });
    });

    test('the opening is there up to 8 KiB of its row, counted in bytes', async () => {
      const tenant = newTenant();
      const overhead = JSON.stringify([created('')]).length;
      const cases = [
        { content: 'x'.repeat(8192 - overhead), isShown: true },
        { content: 'x'.repeat(8193 - overhead), isShown: false },
        { content: '€'.repeat(Math.ceil((8193 - overhead) / 3)), isShown: false },
      ];
      for (const { content, isShown } of cases) {
        const opening = created(content);
        const run = await newRun(tenant, { events: [opening] });
        const listed = (await tenant.listRuns({ conversationId: run.conversationId }, all)).items;
        expect(listed.map((listing) => listing.opening)).toEqual([isShown ? opening : null]);
        expect(listed.map((listing) => listing.isOpeningOmitted)).toEqual([!isShown]);
      }
    });

    test('the output is there up to 8 KiB, and what is longer is left out and marked', async () => {
      const tenant = newTenant();
      for (const [bytes, isOmitted] of [
        [8192, false],
        [8193, true],
      ] as const) {
        const outputJson = JSON.stringify({ output: '' }).replace(
          '""',
          `"${'x'.repeat(bytes - 13)}"`,
        );
        const run = await newRun(tenant, { progress: { outputJson } });
        expect(outputJson).toHaveLength(bytes);
        const [listing] = (await tenant.listRuns({ conversationId: run.conversationId }, all))
          .items;
        expect(listing?.isOutputOmitted).toBe(isOmitted);
        expect(listing?.outputJson).toBe(isOmitted ? null : outputJson);
      }
    });

    test('later rows do not count, and what is no opening is none', async () => {
      const tenant = newTenant();
      const opening = created('hello');
      const long = await newRun(tenant, { events: [opening] });
      await tenant.append(step(long, { events: [delta('x'.repeat(20_000))] }));
      const odd = await newRun(tenant, { events: [started, opening] });
      const openings = (await tenant.listRuns({}, all)).items.map((listing) => [
        listing.id,
        listing.opening,
      ]);
      expect(Object.fromEntries(openings)).toEqual({ [long.id]: opening, [odd.id]: null });
    });

    test('what is listed cannot be used to change what is stored', async () => {
      const tenant = newTenant();
      await newRun(tenant, { identity: { labels: { a: '1' } } });
      const [first] = (await tenant.listRuns({}, all)).items;
      Object.assign(first?.labels ?? {}, { a: 'changed' });
      expect((await tenant.listRuns({}, all)).items[0]?.labels).toEqual({ a: '1' });
    });
  });

  describe('pages', () => {
    test('runs come newest first, those of one moment by their ids', async () => {
      const tenant = newTenant();
      const made = [];
      for (const ms of [2, 0, 1, 1, 1]) made.push(await at(tenant, ms));
      const [newest, oldest, ...together] = made.map(({ id }) => id);
      const byId = together.toSorted((a, b) => (a < b ? 1 : -1));
      expect(await idsOf(tenant, {})).toEqual([newest, ...byId, oldest]);
    });

    test('pages of any size put together are the whole list', async () => {
      const tenant = newTenant();
      const statuses = ['queued', 'running', 'waiting', 'completed', 'failed', 'canceled'] as const;
      for (let n = 0; n < 24; n += 1) {
        const status = statuses[n % 6] ?? 'queued';
        const identity = { agent: n % 2 === 0 ? 'even' : 'odd', labels: { all: 'yes' } };
        await at(tenant, Math.floor(n / 5), { identity, progress: { status } });
      }
      const filters: RunFilter[] = [
        {},
        { agent: 'even' },
        { label: { name: 'all', value: 'yes' } },
        { label: { name: 'all', value: 'yes' }, agent: 'odd' },
        { label: { name: 'all', value: 'yes' }, status: ['queued', 'completed', 'failed'] },
        { status: ['queued', 'completed', 'failed'] },
        { since: noon + 1, until: noon + 4 },
      ];
      for (const filter of filters) {
        const whole = await idsOf(tenant, filter);
        expect(whole.length).toBeGreaterThan(10);
        for (const limit of [1, 3, 7, 100]) {
          const read = (page: Page) => tenant.listRuns(filter, page);
          expect(await allListed(limit, read)).toEqual(whole);
        }
      }
    });

    test('what is created meanwhile neither shifts nor repeats what follows', async () => {
      const tenant = newTenant();
      const made = [];
      for (let ms = 0; ms < 4; ms += 1) made.push(await at(tenant, ms));
      const [one, two, three, four] = made;
      expect(await idsOf(tenant, {}, { limit: 2 })).toEqual(ids(four, three));
      await at(tenant, 9);
      const before = { at: noon + 2, id: three?.id ?? '' };
      expect((await tenant.listRuns({}, { limit: 9, before })).items).toMatchObject([
        { id: two?.id },
        { id: one?.id },
      ]);
    });

    test('a position need not be that of a run', async () => {
      const tenant = newTenant();
      const run = await at(tenant, 5);
      const from = async (before: Position) =>
        (await tenant.listRuns({}, { limit: 9, before })).items;
      expect(await from({ at: noon + 5, id: '' })).toEqual([]);
      expect(await from({ at: noon + 5, id: 'zzzz' })).toMatchObject([{ id: run.id }]);
      expect(await from({ at: noon + 6, id: '' })).toMatchObject([{ id: run.id }]);
      expect(await from({ at: 0, id: 'zzzz' })).toEqual([]);
    });

    test('a page says how many runs match, up to a number', async () => {
      const tenant = newTenant();
      for (let ms = 0; ms < 5; ms += 1)
        await at(tenant, ms, { identity: { labels: { team: 'blue' } } });
      await at(tenant, 9);
      const total = async (filter: RunFilter, limit: number, countUpTo: number) =>
        (await tenant.listRuns(filter, { limit, countUpTo })).total;
      expect(await total({}, 2, 100)).toEqual({ count: 6, isMinimum: false });
      expect(await total({}, 9, 100)).toEqual({ count: 6, isMinimum: false });
      expect(await total({}, 2, 4)).toEqual({ count: 4, isMinimum: true });
      const blue = { label: { name: 'team', value: 'blue' } };
      expect(await total(blue, 2, 100)).toEqual({ count: 5, isMinimum: false });
      expect((await tenant.listRuns({}, all)).total).toBeUndefined();
    });

    test('a page of nothing is empty', async () => {
      const tenant = newTenant();
      await newRun(tenant);
      expect(await idsOf(tenant, {}, { limit: 0 })).toEqual([]);
    });
  });
}
