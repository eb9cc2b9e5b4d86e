/** That cost follows the work done and not the length of the history. */
import type { StoredEvent } from '@relay/protocol';
import {
  createRecordingTool,
  createScriptedModel,
  finish,
  text,
  toolCall,
} from '@relay/core/testing';
import { describe, expect, test } from 'vitest';
import { ask, until } from '../support/kernel.ts';
import { decide, finished, openScene, untilAsked } from './scene.ts';
import { stores, wrapStore } from './stores.ts';

describe.each(stores)('waking a run on $name', (kind) => {
  /** How many events are read from the answer to the next question to the model. */
  async function eventsReadToWake(turnsBefore: number): Promise<number> {
    const { store: inner, boot } = await openScene(kind);
    let read = 0;
    let counting = false;
    const store = wrapStore(inner, async (call) => {
      const value = await call.go();
      if (counting && call.method === 'readEvents') read += (value as StoredEvent[]).length;
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
    const [relay] = await untilAsked(kernel, run.id);
    await until(async () => kernel.control.supervisor.activeRuns === 0);
    counting = true;
    await decide(kernel, relay?.relayId ?? '');
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
