/** How the runs of a node share its memory. */
import { createRecordingTool, finish, text, toolCall } from '@relay/core/testing';
import { afterAll, describe, expect, test } from 'vitest';
import { ask, until } from '../support/kernel.ts';
import {
  createStreamingModel,
  endOf,
  finished,
  openFixture,
  untilAsked,
  decide,
} from './fixture.ts';
import { dropDatabases } from '../support/postgres-stores.ts';
import { allStores } from './stores.ts';

afterAll(dropDatabases);

const kilobyte = 'x'.repeat(1024);

/** A model whose answers have 100 KB, and how much of them was read and not released yet. */
function longAnswers(count: number) {
  const seen = { read: 0, most: 0, started: 0 };
  const answer = async function* () {
    seen.started += 1;
    let own = 0;
    try {
      for (let n = 0; n < 100; n += 1) {
        own += 1;
        seen.read += 1;
        seen.most = Math.max(seen.most, seen.read);
        yield [text(kilobyte)];
        await new Promise(setImmediate);
      }
      yield [finish()];
    } finally {
      seen.read -= own;
    }
  };
  return { seen, model: createStreamingModel(...Array.from({ length: count }, () => answer)) };
}

describe('long answers', () => {
  test('leave turns of the event loop to others', async () => {
    const { boot } = await openFixture();
    const batch = kilobyte.repeat(64);
    let added = 0;
    let mostInOneTurn = 0;
    const answer = async function* () {
      for (let n = 0; n < 8; n += 1) {
        yield [text(batch)];
        added += batch.length;
      }
      yield [finish()];
    };
    const model = createStreamingModel(...Array.from({ length: 20 }, () => answer));
    const kernel = await boot({ model });
    let isOver = false;
    const count = () => {
      mostInOneTurn = Math.max(mostInOneTurn, added);
      added = 0;
      if (!isOver) setImmediate(count);
    };
    count();
    const runs = await Promise.all(Array.from({ length: 20 }, () => ask(kernel)));
    for (const { id } of runs) await finished(kernel, id);
    isOver = true;
    expect(mostInOneTurn).toBeGreaterThan(0);
    expect(mostInOneTurn).toBeLessThanOrEqual(4 * batch.length);
  });
});

describe('the memory of all runs', () => {
  test('is bounded: answers are read more slowly, and every run completes', async () => {
    const { boot } = await openFixture();
    const { model, seen } = longAnswers(40);
    // 40 answers of 100 KB take 8 MB: without a limit they are read side by side.
    const kernel = await boot({ model, memoryBytes: 4 * 1024 * 1024 });
    const runs = await Promise.all(Array.from({ length: 40 }, () => ask(kernel)));
    for (const { id } of runs) {
      expect(endOf(await finished(kernel, id)).output).toHaveLength(100 * 1024);
    }
    // In KB: half of the budget, because each character counts twice, and four overdrafts.
    expect(seen.most).toBeLessThan(2048 + 400);
    expect(kernel.control.engine.memory.used).toBe(0);
  });

  test('keeps runs queued while it is used up', async () => {
    const { boot } = await openFixture();
    const gate = Promise.withResolvers<void>();
    const model = createStreamingModel(
      async function* () {
        yield [text(kilobyte.repeat(600))];
        await gate.promise;
        yield [finish()];
      },
      () => [[text('Done.'), finish()]],
    );
    const kernel = await boot({ model, memoryBytes: 1024 * 1024 });
    const first = await ask(kernel);
    await until(async () => !kernel.control.engine.memory.hasRoom, 'the memory to be used up');
    const second = await ask(kernel);
    const tenant = kernel.store.tenant(kernel.tenantId);
    expect((await tenant.readRun(second.id))?.status).toBe('queued');
    gate.resolve();
    await finished(kernel, first.id);
    expect(endOf(await finished(kernel, second.id)).output).toBe('Done.');
  });

  test('does not keep a run that waits for memory from being canceled or stopped', async () => {
    const { boot } = await openFixture();
    const { model } = longAnswers(20);
    const kernel = await boot({ model, memoryBytes: 2 * 1024 * 1024 });
    await Promise.all(Array.from({ length: 20 }, () => ask(kernel)));
    await until(async () => !kernel.control.engine.memory.hasRoom, 'the memory to be used up');
    await kernel.stop();
    expect(kernel.control.engine.memory.used).toBe(0);
  });

  test.each([...allStores])(
    'is charged before a long run is loaded, and released when it waits ($name)',
    async (kind) => {
      const { boot } = await openFixture(kind);
      const tool = createRecordingTool({ name: 'pay' });
      const model = createStreamingModel(
        () => [[text(kilobyte.repeat(200)), toolCall('c1', 'pay', {}), finish()]],
        () => [[text('Done.'), finish()]],
      );
      const kernel = await boot({ model, tools: [tool] });
      const run = await ask(kernel);
      const [approval] = await untilAsked(kernel, run.id);
      await until(async () => kernel.control.engine.memory.used === 0, 'the memory to be free');
      const charged = Promise.withResolvers<number>();
      const { memory } = kernel.control.engine;
      const charge = memory.charge.bind(memory);
      memory.charge = (bytes) => {
        charged.resolve(bytes);
        charge(bytes);
      };
      await decide(kernel, approval?.approvalId);
      expect(await charged.promise).toBeGreaterThan(2 * 200 * 1024);
      expect(endOf(await finished(kernel, run.id)).output).toBe('Done.');
    },
  );
});
