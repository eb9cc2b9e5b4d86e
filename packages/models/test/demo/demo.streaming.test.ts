import type { ModelEvent } from '@relay/core';
import { ManualClock } from '@relay/core/testing';
import { describe, expect, it } from 'vitest';
import { createDemoModel } from '../../src/demo/demo.ts';
import { asking, batchesOf, eventsOf, textIn } from '../support/index.ts';

const model = createDemoModel();

describe('demo: say', () => {
  it('streams n tokens, one per event and a few per batch', async () => {
    const batches = await batchesOf(model, asking('say 10'));
    const events = batches.flat();
    expect(textIn(events)).toBe('1 2 3 4 5 6 7 8 9 10');
    expect(events).toHaveLength(11);
    expect(batches.map(({ length }) => length)).toEqual([4, 4, 2, 1]);
    expect(events.at(-1)).toMatchObject({ usage: { outputTokens: 10 } });
  });

  it('says at most 100,000 tokens', async () => {
    const events = await eventsOf(model, asking('say 99999999999999999999'));
    expect(events).toHaveLength(100_001);
  });

  it('can say nothing', async () => {
    const events = await eventsOf(model, asking('say 0'));
    expect(events.map(({ type }) => type)).toEqual(['finish']);
  });

  it('yields to the event loop, and stops when aborted', async () => {
    const controller = new AbortController();
    setTimeout(() => controller.abort(), 1);
    let tokens = 0;
    const read = async () => {
      for await (const batch of model.stream(asking('say 100000'), controller.signal)) {
        tokens += batch.length;
      }
    };
    await expect(read()).rejects.toThrow('The model call was aborted');
    expect(tokens).toBeLessThan(100_000);
  });
});

describe('demo: slow', () => {
  it('waits between tokens', async () => {
    const clock = new ManualClock();
    const began = clock.now();
    const events: ModelEvent[] = [];
    const reading = (async () => {
      const slow = createDemoModel({ clock });
      const { signal } = new AbortController();
      for await (const batch of slow.stream(asking('slow 1500'), signal)) events.push(...batch);
    })();
    await expect.poll(() => clock.sleepers).toBe(1);
    expect(textIn(events)).toBe('I wait for 1500 ms');
    await clock.advance(1499);
    expect(textIn(events)).toBe('I wait for 1500 ms');
    await clock.advance(1);
    await reading;
    expect(textIn(events)).toBe('I wait for 1500 ms and go on.');
    expect(clock.now() - began).toBe(1500);
  });

  it('waits at most 10 minutes', async () => {
    const waits: number[] = [];
    const clock = {
      sleep: async (ms: number) => {
        waits.push(ms);
      },
    };
    await eventsOf(createDemoModel({ clock }), asking('slow 99999999999'));
    expect(waits).toEqual([600_000]);
  });

  it('waits, and stops at once when aborted', async () => {
    const began = performance.now();
    await eventsOf(model, asking('slow 40'));
    expect(performance.now() - began).toBeGreaterThan(35);
    const controller = new AbortController();
    const call = eventsOf(model, asking('slow 600000'), controller.signal);
    setTimeout(() => controller.abort(), 10);
    await expect(call).rejects.toMatchObject({
      message: 'The model call was aborted',
      retryable: false,
    });
    expect(performance.now() - began).toBeLessThan(5_000);
  });
});

describe('demo: fail', () => {
  it.each([
    [400, false],
    [401, false],
    [404, false],
    [429, true],
    [500, true],
    [503, true],
    [599, true],
  ])('%i', async (status, retryable) => {
    await expect(eventsOf(model, asking(`fail ${status}`))).rejects.toMatchObject({
      name: 'ProviderFailure',
      message: `The demo provider answered ${status}`,
      retryable,
    });
  });

  it.each(['fail', 'fail 200', 'fail 600', 'fail miserably'])(
    '%s is no failure',
    async (message) => {
      expect(textIn(await eventsOf(model, asking(message)))).toContain('fail <status>');
    },
  );
});

describe('demo: anything else', () => {
  it.each(['Hi', '', 'What is it?', 'constructor', 'saying 5', 'say it', 'slow down'])(
    'gets a friendly answer with the commands: %s',
    async (message) => {
      const answer = textIn(await eventsOf(model, asking(message)));
      for (const command of ['calculate', 'notify', 'use', 'say', 'slow', 'fail', 'hand off to']) {
        expect(answer).toContain(`\n- ${command}`);
      }
    },
  );

  it('streams word by word', async () => {
    const events = await eventsOf(model, asking('Hi'));
    const words = events.flatMap((event) => (event.type === 'text' ? [event.text] : []));
    expect(words.length).toBeGreaterThan(30);
    expect(words.every((word) => /^\s*\S+$/.test(word))).toBe(true);
  });
});
