/** A node drives so many runs at once; the others wait their turn, and tenants take turns. */
import { RelayError, textOf } from '@relay/protocol';
import { finish, ManualClock, text } from '@relay/core/testing';
import { uuidv7 } from 'uuidv7';
import { describe, expect, test } from 'vitest';
import { ask, type Kernel, until } from '../support/kernel.ts';
import {
  createStreamingModel,
  endOf,
  finished,
  journal,
  ofType,
  openFixture,
  stopRun,
} from './fixture.ts';
import { wrapStore } from './stores.ts';

/** A model whose calls wait for their turn to go on, and that knows how many are under way. */
function createCountedModel() {
  const order: string[] = [];
  const waiting: (() => void)[] = [];
  const count = { now: 0, most: 0 };
  const model = createStreamingModel(async function* ({ messages }) {
    order.push(textOf(messages.at(-1)?.content ?? ''));
    count.now += 1;
    count.most = Math.max(count.most, count.now);
    await new Promise<void>((resolve) => waiting.push(resolve));
    yield [text('Done.')];
    count.now -= 1;
    yield [finish()];
  });
  return { model, order, count, waiting };
}

const named = (name: string) => ({ messages: [{ role: 'user', content: name } as const] });

async function twoTenants(maxActiveRuns: number) {
  const { boot, store } = await openFixture();
  const counted = createCountedModel();
  const clock = new ManualClock();
  const kernel = await boot({ model: counted.model, clock, settings: { maxActiveRuns } });
  const other = await store.ensureTenant({ id: uuidv7(), name: 'other', at: 0 });
  const guest: Kernel = { ...kernel, tenantId: other.id };
  return { ...counted, kernel, guest, clock };
}

describe('with fewer slots than runs', () => {
  test('never more runs are active than there are slots, and all end', async () => {
    const { kernel, guest, order, count, waiting, model } = await twoTenants(2);
    const hosts = await Promise.all(
      Array.from({ length: 6 }, (_, n) => ask(kernel, named(`host ${n}`))),
    );
    const guests = await Promise.all(
      Array.from({ length: 4 }, (_, n) => ask(guest, named(`guest ${n}`))),
    );
    const { supervisor } = kernel.control;
    for (let done = 0; done < 10; done += 1) {
      await until(async () => waiting.length > 0, 'the next one');
      expect(supervisor.activeRuns).toBeLessThanOrEqual(2);
      waiting.shift()?.();
    }
    for (const { id } of hosts) expect(endOf(await finished(kernel, id)).output).toBe('Done.');
    for (const { id } of guests) expect(endOf(await finished(guest, id)).output).toBe('Done.');
    expect(count.most).toBe(2);
    expect(model.requests).toHaveLength(10);
    expect(new Set(order).size).toBe(10);
  });

  test('tenants take turns, so that one with many runs does not hold up the other', async () => {
    const { kernel, guest, order, waiting } = await twoTenants(1);
    const runs = [];
    for (let n = 0; n < 8; n += 1) runs.push(await ask(kernel, named(`host ${n}`)));
    for (let n = 0; n < 3; n += 1) await ask(guest, named(`guest ${n}`));
    for (let done = 0; done < 11; done += 1) {
      await until(async () => waiting.length > 0, 'the next one');
      waiting.shift()?.();
    }
    for (const { id } of runs) await finished(kernel, id);
    expect(order).toEqual([
      'host 0',
      'host 1',
      'guest 0',
      'host 2',
      'guest 1',
      'host 3',
      'guest 2',
      ...[4, 5, 6, 7].map((n) => `host ${n}`),
    ]);
  });

  test('a run without a slot is queued and not started', async () => {
    const { kernel, waiting, model, clock } = await twoTenants(1);
    const [first, second] = [await ask(kernel), await ask(kernel)];
    await until(async () => waiting.length === 1, 'the first');
    // Looking around finds it again and again, and does not make it more than one.
    await clock.advance(5_000);
    const record = await kernel.store.tenant(kernel.tenantId).readRun(second.id);
    expect(record?.status).toBe('queued');
    expect((await journal(kernel, second.id)).map(({ type }) => type)).toEqual(['run.created']);
    waiting.shift()?.();
    await until(async () => waiting.length === 1, 'the second');
    waiting.shift()?.();
    await finished(kernel, first.id);
    const events = await finished(kernel, second.id);
    expect(ofType(events, 'run.started')).toHaveLength(1);
    expect(model.requests).toHaveLength(2);
  });

  test('a slot is free again after a cancel and after a failure', async () => {
    const { boot } = await openFixture();
    const never = new Promise<never>(() => undefined);
    const model = createStreamingModel(
      async function* (_request, signal) {
        yield [text('Hm')];
        await Promise.race([never, new Promise((done) => signal.addEventListener('abort', done))]);
      },
      () => {
        throw new Error('Broken');
      },
      () => [[text('Mine.'), finish()]],
    );
    const clock = new ManualClock();
    const kernel = await boot({ model, clock, settings: { maxActiveRuns: 1 } });
    const runs = [await ask(kernel), await ask(kernel), await ask(kernel)];
    await until(async () => model.requests.length === 1, 'the first');
    await stopRun(kernel, runs[0]?.id ?? '');
    const ends = [];
    for (const { id } of runs) ends.push(endOf(await finished(kernel, id)).status);
    expect(ends).toEqual(['canceled', 'failed', 'completed']);
  });

  test('a run that could not be stored uses no slot', async () => {
    const fixture = await openFixture();
    let full = true;
    const store = wrapStore(fixture.store, async (call) => {
      if (call.method === 'createRun' && full) throw new RelayError('storage_full', 'Full');
      return call.go();
    });
    const model = createStreamingModel(() => [[text('Mine.'), finish()]]);
    const clock = new ManualClock();
    const kernel = await fixture.boot({ store, model, clock, settings: { maxActiveRuns: 1 } });
    for (let n = 0; n < 3; n += 1) {
      await expect(ask(kernel)).rejects.toMatchObject({ code: 'storage_full' });
    }
    full = false;
    const run = await ask(kernel);
    expect(endOf(await finished(kernel, run.id)).output).toBe('Mine.');
  });
});
