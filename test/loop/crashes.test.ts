/** Runs that the process dies of, and those that only happened to be driven when it died. */
import type { SystemStore } from '@relay/core';
import { finish, ManualClock, text } from '@relay/core/testing';
import { RelayError, textOf } from '@relay/protocol';
import { afterAll, describe, expect, onTestFinished, test } from 'vitest';
import { ask, type Kernel, until } from '../support/kernel.ts';
import { createStreamingModel, endOf, finished, type LoopFixture, openFixture } from './fixture.ts';
import { dropDatabases } from '../support/postgres-stores.ts';
import { allStores, mortal, wrapStore } from './stores.ts';

afterAll(dropDatabases);

const never = new Promise<never>(() => undefined);
const poison = { messages: [{ role: 'user', content: 'Poison' }] } as const;

interface Life {
  readonly kernel: Kernel;
  /** Resolves with 'died' when the poisoned run killed the process. */
  readonly died: Promise<'died'>;
  /** The runs whose model was called, by their message. */
  readonly driven: string[];
}

/** A process that dies as soon as the model is called for the poisoned run. */
async function live(
  { store, boot, bootWithoutCleanup }: LoopFixture,
  options: { answers: boolean; dies: boolean },
): Promise<Life> {
  const died = Promise.withResolvers<'died'>();
  const doomed = mortal(store);
  const driven: string[] = [];
  const answer = async function* (request: { messages: readonly { content: unknown }[] }) {
    const message = textOf(request.messages.at(-1)?.content as string);
    driven.push(message);
    if (message === 'Poison' && options.dies) {
      doomed.kill();
      died.resolve('died');
      yield await never;
    }
    if (!options.answers) yield await never;
    yield [text('Fine.'), finish()];
  };
  const model = createStreamingModel(...Array.from({ length: 100 }, () => answer));
  const start = options.dies ? bootWithoutCleanup : boot;
  const kernel = await start({ store: doomed.store, model, restarted: true });
  onTestFinished(() => kernel.control.engine.memory.close());
  return { kernel, died: died.promise, driven };
}

async function statuses(store: SystemStore, kernel: Kernel, ids: readonly string[]) {
  const tenant = store.tenant(kernel.tenantId);
  return Promise.all(ids.map(async (id) => (await tenant.readRun(id))?.status));
}

describe('a run that the process dies of', () => {
  test.each([...allStores])(
    'fails after a bounded number of restarts, and the others complete ($name)',
    async (kind) => {
      const fixture = await openFixture(kind);
      const { store } = fixture;
      let current = await live(fixture, { answers: false, dies: true });
      const innocent = await Promise.all(Array.from({ length: 5 }, () => ask(current.kernel)));
      const poisoned = await ask(current.kernel, poison);
      const isOver = async () => {
        const found = await statuses(store, current.kernel, [poisoned.id]);
        return found[0] === 'failed';
      };
      let deaths = 0;
      for (;;) {
        const over = until(isOver, 'the poisoned run to fail').then(() => 'over' as const);
        if ((await Promise.race([current.died, over])) === 'over') break;
        over.catch(() => undefined);
        deaths += 1;
        // Three times all die together. From then on the others can show that they are innocent.
        current = await live(fixture, { answers: deaths >= 3, dies: true });
      }
      expect(deaths).toBe(6);
      for (const { id } of innocent) {
        expect(endOf(await finished(current.kernel, id)).output).toBe('Fine.');
      }
      const failed = await store.tenant(current.kernel.tenantId).readRun(poisoned.id);
      expect(failed?.error).toMatchObject({ code: 'resume_crashed', retryable: false });
      await current.kernel.stop();
    },
  );

  test('is tried without other suspects', async () => {
    const fixture = await openFixture();
    let current = await live(fixture, { answers: false, dies: true });
    await Promise.all(Array.from({ length: 3 }, () => ask(current.kernel)));
    await ask(current.kernel, poison);
    await current.died;
    for (const _ of [2, 3]) {
      current = await live(fixture, { answers: false, dies: true });
      await current.died;
    }
    // All four are suspects now, and none of them makes progress.
    current = await live(fixture, { answers: false, dies: false });
    await until(async () => current.driven.length > 0, 'the first suspect');
    await new Promise(setImmediate);
    expect(current.driven).toHaveLength(1);
    expect(current.kernel.control.supervisor.activeRuns).toBe(1);
  });

  test('is tried only after the new process has run for a while', async () => {
    const fixture = await openFixture();
    let current = await live(fixture, { answers: false, dies: true });
    const poisoned = await ask(current.kernel, poison);
    await current.died;
    for (const _ of [2, 3]) {
      current = await live(fixture, { answers: false, dies: true });
      await current.died;
    }
    const clock = new ManualClock();
    const model = createStreamingModel(async function* () {
      yield [text('Fine.'), finish()];
    });
    const settings = { suspectDelayMs: 5_000 };
    const kernel = await fixture.boot({ model, clock, settings, restarted: true });
    for (let second = 1; second < 5; second += 1) {
      await until(async () => clock.sleepers >= 2, 'the scan');
      await clock.advance(1_000);
    }
    expect(model.requests).toEqual([]);
    await until(async () => clock.sleepers >= 2, 'the scan');
    await clock.advance(1_000);
    expect(endOf(await finished(kernel, poisoned.id)).output).toBe('Fine.');
  });

  test('is innocent as soon as it makes progress', async () => {
    const fixture = await openFixture();
    let current = await live(fixture, { answers: false, dies: true });
    const poisoned = await ask(current.kernel, poison);
    await current.died;
    for (const _ of [2, 3, 4, 5]) {
      current = await live(fixture, { answers: false, dies: true });
      await current.died;
    }
    current = await live(fixture, { answers: true, dies: false });
    expect(endOf(await finished(current.kernel, poisoned.id)).output).toBe('Fine.');
  });

  test('can be canceled while it is a suspect', async () => {
    const fixture = await openFixture();
    let current = await live(fixture, { answers: false, dies: true });
    const poisoned = await ask(current.kernel, poison);
    await current.died;
    for (const _ of [2, 3]) {
      current = await live(fixture, { answers: false, dies: true });
      await current.died;
    }
    const idle = await fixture.boot({
      model: createStreamingModel(),
      clock: new ManualClock(),
      settings: { maxActiveRuns: 0 },
    });
    await idle.control.engine.store.tenant(idle.tenantId).postRunCommand(poisoned.id, {
      id: idle.control.engine.ids.next(),
      command: { kind: 'cancel', reason: 'Enough', by: { type: 'system', id: 'x', name: 'x' } },
    });
    current = await live(fixture, { answers: false, dies: true });
    expect(endOf(await finished(current.kernel, poisoned.id)).status).toBe('canceled');
  });
});

describe('an outage of the store that is longer than the lease', () => {
  const leaseTtlMs = 15_000;
  const outages = 8;

  test.each(allStores.flatMap((kind) => [1, 2].map((count) => ({ ...kind, count }))))(
    'is no crash of the process, however often it happens without progress ($name, $count nodes)',
    async ({ count, ...kind }) => {
      const { store: inner, boot } = await openFixture(kind);
      let isDown = false;
      const store = wrapStore(inner, async (call) => {
        if (isDown) throw new RelayError('storage_failed', 'The database is down');
        return call.go();
      });
      const clock = new ManualClock();
      const model = createStreamingModel(async function* (_, signal) {
        if (model.requests.length > outages) {
          yield [text('Fine.'), finish()];
          return;
        }
        isDown = true;
        while (!signal.aborted) {
          yield [text('Lost.')];
          await new Promise(setImmediate);
        }
      });
      const kernels: Kernel[] = [];
      const settings = { leaseTtlMs };
      while (kernels.length < count) kernels.push(await boot({ store, model, clock, settings }));
      const [kernel] = kernels as [Kernel];
      const run = await ask(kernel);
      const beat = () =>
        Promise.all(
          kernels.map(({ control }) => {
            const [owner, now] = [control.engine.settings.node, clock.now()];
            return inner.heartbeatNode({ owner, now, until: now + leaseTtlMs });
          }),
        );
      for (let n = 1; n <= outages; n += 1) {
        await until(async () => model.requests.length === n && isDown, `outage ${n}`);
        await until(async () => {
          await clock.advance(1_000);
          return kernels.every(({ control }) => control.supervisor.activeRuns === 0);
        }, 'the nodes to give the run up');
        await clock.advance(2 * leaseTtlMs);
        isDown = false;
        await until(async () => {
          await clock.advance(1_000);
          return model.requests.length > n;
        }, 'a node to take the run over');
        if (count > 1) await beat();
      }
      expect(endOf(await finished(kernel, run.id))).toMatchObject({
        status: 'completed',
        output: 'Fine.',
      });
    },
  );
});
