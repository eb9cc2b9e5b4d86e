/** How many commits and statements a run costs. A commit waits for the disk. */
import type { Append } from '@relay/core';
import {
  createRecordingTool,
  createScriptedModel,
  finish,
  text,
  toolCall,
} from '@relay/core/testing';
import { describe, expect, test } from 'vitest';
import {
  buildImage,
  openMemoryDriver,
} from '../../packages/store/src/drivers/sqlite/memory-driver.ts';
import { schemaStatements } from '../../packages/store/src/sql/schema/migrations.ts';
import { createSqlStore } from '../../packages/store/src/store.ts';
import { ask, until } from '../support/kernel.ts';
import {
  createStreamingModel,
  decide,
  finished,
  ofType,
  openFixture,
  untilAsked,
} from './fixture.ts';
import { type StoreCall, wrapStore } from './stores.ts';

const writing = new Set<string>([
  'createRun',
  'append',
  'decideApproval',
  'claimRun',
  'releaseRun',
]);

async function openRecorded() {
  const { store, boot } = await openFixture();
  const calls: StoreCall[] = [];
  const recorded = wrapStore(store, (call) => {
    calls.push(call);
    return call.go();
  });
  const writes = () => calls.filter(({ method }) => writing.has(method));
  return {
    boot: (options: Parameters<typeof boot>[0]) => boot({ ...options, store: recorded }),
    calls,
    writes,
    /** The events of each commit after the creation. */
    appended: () =>
      writes().flatMap(({ method, args }) =>
        method === 'append' ? [(args[0] as Append).events.map(({ type }) => type).join(' ')] : [],
      ),
  };
}

describe('the commits of a run', () => {
  test('are two, if the whole answer arrives at once: the creation and all that follows', async () => {
    const { boot, writes, appended } = await openRecorded();
    const model = createStreamingModel(() => [[text('Hello'), text(' there.'), finish()]]);
    const kernel = await boot({ model });
    await finished(kernel, (await ask(kernel)).id);
    expect(writes().map(({ method }) => method)).toEqual(['createRun', 'append']);
    expect(appended()).toEqual([
      'turn.started text.appended text.appended turn.completed agent.ended run.summarized run.ended',
    ]);
  });

  test('with a tool are four: the creation, the intent, the result, and the answer with the end', async () => {
    const { boot, calls, writes, appended } = await openRecorded();
    const tool = createRecordingTool({ name: 'look', allowedByDefault: true });
    const model = createStreamingModel(({ messages }) =>
      messages.at(-1)?.role === 'tool'
        ? [[text('Done.'), finish()]]
        : [[toolCall('call_1', 'look', {}), finish()]],
    );
    const kernel = await boot({ model, tools: [tool] });
    await finished(kernel, (await ask(kernel)).id);
    expect(writes().map(({ method }) => method)).toEqual([
      'createRun',
      'append',
      'append',
      'append',
    ]);
    expect(appended()).toEqual([
      'turn.started tool.called turn.completed tool.started',
      'tool.completed',
      'turn.started text.appended turn.completed agent.ended run.summarized run.ended',
    ]);
    // The evidence for the answer is known to the process that has driven the run from its beginning.
    const methods = calls.map(({ method }) => method);
    const afterIntent = methods.slice(methods.indexOf('append'), methods.lastIndexOf('append'));
    expect(afterIntent).not.toContain('readPage');
  });

  test('with an approval are five: one more for the suspension', async () => {
    const { boot, writes } = await openRecorded();
    const tool = createRecordingTool({ name: 'pay' });
    const model = createStreamingModel(({ messages }) =>
      messages.at(-1)?.role === 'tool'
        ? [[text('Done.'), finish()]]
        : [[toolCall('call_1', 'pay', {}), finish()]],
    );
    const kernel = await boot({ model, tools: [tool] });
    const run = await ask(kernel);
    const [approval] = await untilAsked(kernel, run.id);
    await until(async () => kernel.control.supervisor.activeRuns === 0, 'the suspension');
    await decide(kernel, approval?.approvalId);
    await finished(kernel, run.id);
    expect(writes().map(({ method }) => method)).toEqual([
      'createRun',
      'append',
      'append',
      'append',
      'append',
    ]);
  });
});

describe('the statements of a run', () => {
  test('are 15, if the whole answer arrives at once: 3 to create it, and 12 to end it', async () => {
    const driver = openMemoryDriver(buildImage(schemaStatements('sqlite')));
    const units: number[] = [];
    const store = createSqlStore({
      ...driver,
      transact(unit, of) {
        units.push(unit.length);
        return driver.transact(unit, of);
      },
    });
    const { boot } = await openFixture({
      name: 'counted',
      open: async () => ({ store, dispose: () => store.close() }),
    });
    const model = createStreamingModel(() => [[text('Hello'), text(' there.'), finish()]]);
    const kernel = await boot({ model });
    units.length = 0;
    await finished(kernel, (await ask(kernel)).id);
    expect(units).toEqual([3, 12]);
  });
});

describe('the evidence for an answer', () => {
  test('is the same whether the run was suspended in between or not', async () => {
    const { boot } = await openFixture();
    const tools = ['look', 'pay'].map((name) => createRecordingTool({ name }));
    const model = createScriptedModel([
      [toolCall('call_1', 'look', { at: 'first' }), finish()],
      [toolCall('call_2', 'pay', { amount: 1 }), finish()],
      [text('Done.'), finish()],
    ]);
    const kernel = await boot({ model, tools });
    const trustOf = async (runId: string) =>
      ofType(await finished(kernel, runId), 'run.summarized').map(({ trust }) => ({
        citations: trust.evidenceCitations,
        hash: trust.evidenceHash,
      }));
    const allowed = await ask(kernel, {
      permissions: { allowlist: [{ tool: 'look' }, { tool: 'pay' }] },
    });
    const suspended = await ask(kernel);
    for (let times = 0; times < 2; times += 1) {
      const [approval] = await untilAsked(kernel, suspended.id);
      await decide(kernel, approval?.approvalId);
    }
    const [atOnce] = await trustOf(allowed.id);
    expect(atOnce?.citations).toEqual([
      { toolCallId: 'call_1', tool: 'look' },
      { toolCallId: 'call_2', tool: 'pay' },
    ]);
    expect(await trustOf(suspended.id)).toEqual([atOnce]);
  });
});
