/** That cost follows the work done and not the length of the history. */
import type { JournalPage } from '@relay/core';
import type { StoredEvent } from '@relay/protocol';
import {
  createRecordingTool,
  createScriptedModel,
  finish,
  ManualClock,
  text,
  toolCall,
} from '@relay/core/testing';
import { describe, expect, test } from 'vitest';
import { ask, person, until } from '../support/kernel.ts';
import {
  createStreamingModel,
  decide,
  endOf,
  finished,
  openFixture,
  stopRun,
  untilAsked,
} from './fixture.ts';
import { wrapStore } from './stores.ts';

describe('waking a run', () => {
  /** How many events are read from the answer to the next question to the model. */
  async function eventsReadToWake(turnsBefore: number): Promise<number> {
    const { store: inner, boot } = await openFixture();
    let read = 0;
    let counting = false;
    const store = wrapStore(inner, async (call) => {
      const value = await call.go();
      if (counting && call.method === 'readEvents') read += (value as StoredEvent[]).length;
      if (counting && call.method === 'readPage') read += (value as JournalPage).events.length;
      return value;
    });
    const look = createRecordingTool({ name: 'look', allowedByDefault: true });
    const pay = createRecordingTool({ name: 'pay' });
    const model = createScriptedModel([
      ...Array.from({ length: turnsBefore }, (_, n) => [
        ...Array.from({ length: 20 }, () => text('word ')),
        toolCall(`look_${n}`, 'look', {}),
        finish(),
      ]),
      [toolCall('pay_1', 'pay', {}), finish()],
      () => {
        counting = false;
        return [text('Done.'), finish()];
      },
    ]);
    const kernel = await boot({ store, model, tools: [look, pay] });
    const run = await ask(kernel, { maxIterations: 1000 });
    const [approval] = await untilAsked(kernel, run.id);
    await until(async () => kernel.control.supervisor.activeRuns === 0);
    counting = true;
    await decide(kernel, approval?.approvalId ?? '');
    await finished(kernel, run.id);
    expect(pay.executions).toHaveLength(1);
    expect(counting).toBe(false);
    return read;
  }

  test('reads as little after sixty turns as after three', async () => {
    const afterFew = await eventsReadToWake(3);
    const afterMany = await eventsReadToWake(60);
    expect(afterFew).toBeGreaterThan(0);
    expect(afterMany).toBe(afterFew);
  });
});

describe('a run in a new conversation', () => {
  test('is driven from its start to its end without reading the store', async () => {
    const { store: inner, boot } = await openFixture();
    const calls: string[] = [];
    const runId = '01963a5c-7891-7abc-8ef0-123456789abc';
    const store = wrapStore(inner, (call) => {
      if (call.args.includes(runId)) calls.push(call.method);
      return call.go();
    });
    const model = createScriptedModel([[text('Hello'), finish()]]);
    const kernel = await boot({ store, model });
    await ask(kernel, { runId });
    await until(async () => kernel.published.at(-1)?.type === 'run.ended');
    expect(calls).toEqual([]);
  });
});

describe('starting an approved tool', () => {
  test('reads nothing of the conversation before the run', async () => {
    const { store: inner, boot } = await openFixture();
    const read = new Set<unknown>();
    const store = wrapStore(inner, (call) => {
      if (call.method === 'readEvents' || call.method === 'readPage') read.add(call.args[0]);
      return call.go();
    });
    const pay = createRecordingTool({ name: 'pay' });
    const model = createStreamingModel(({ messages }) =>
      messages.at(-1)?.role === 'user' && messages.length > 1
        ? [[toolCall('pay_1', 'pay', {}), finish()]]
        : [[text('Done.'), finish()]],
    );
    const first = await boot({ model, tools: [pay] });
    const earlier = await ask(first);
    await finished(first, earlier.id);
    const run = await ask(first, { conversationId: earlier.conversationId });
    const [approval] = await untilAsked(first, run.id);
    await first.stop();
    pay.hold();
    // A new process: nothing is cached.
    const kernel = await boot({ store, model, tools: [pay], restarted: true });
    await decide(kernel, approval?.approvalId);
    await until(async () => pay.executions.length === 1, 'the tool');
    expect([...read]).toEqual([run.id]);
    pay.release();
    await finished(kernel, run.id);
    expect([...read]).toEqual([run.id, earlier.id]);
  });
});

describe('the scan of the supervisor', () => {
  test('reads the inboxes of all active runs with one query', async () => {
    const { store: inner, boot } = await openFixture();
    const asked: string[] = [];
    const store = wrapStore(inner, (call) => {
      if (call.method === 'readInbox' || call.method === 'runsWithCommands')
        asked.push(call.method);
      return call.go();
    });
    const tool = createRecordingTool({ name: 'slow', allowedByDefault: true });
    tool.hold();
    const model = createStreamingModel(() => [[toolCall('call', 'slow', {}), finish()]]);
    const clock = new ManualClock();
    const kernel = await boot({ store, model, tools: [tool], clock });
    const runs = await Promise.all(Array.from({ length: 20 }, () => ask(kernel)));
    await until(async () => tool.executions.length === runs.length, 'the tools');
    asked.length = 0;
    const lookAround = async (times: number) => {
      const before = asked.length;
      await until(async () => {
        await clock.advance(1_000);
        return asked.length >= before + times;
      }, 'a look around');
    };
    await lookAround(3);
    expect(new Set(asked)).toEqual(new Set(['runsWithCommands']));

    // What another node has taken in, and did not tell of.
    const [run] = runs;
    const command = {
      kind: 'cancel',
      reason: 'enough',
      by: person,
    } as const;
    await inner.tenant(kernel.tenantId).postRunCommand(run?.id ?? '', { id: 'mail', command });
    await lookAround(1);
    const events = await finished(kernel, run?.id ?? '');
    expect(endOf(events).status).toBe('canceled');
    await Promise.all(runs.slice(1).map(({ id }) => stopRun(kernel, id)));
    for (const { id } of runs) await finished(kernel, id);
  });
});
