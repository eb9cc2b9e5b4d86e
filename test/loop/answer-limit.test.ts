/** How long an answer may be, and what happens to one that is longer. */
import type { ModelEvent } from '@relay/core';
import { createRecordingTool, finish, text, toolCall } from '@relay/core/testing';
import { agentTool } from '@relay/tools';
import { describe, expect, test } from 'vitest';
import { ask } from '../support/kernel.ts';
import { createScriptedAgents, delegate, endFor, says } from './scripted-agents.ts';
import { createStreamingModel, endOf, finished, ofType, openFixture } from './fixture.ts';

const settings = { maxAnswerChars: 1_000 };
const hundred = 'x'.repeat(100);

/** A model that repeats a batch without end, and whether its request was ended. */
function endless(batch: readonly ModelEvent[]) {
  const seen = { batches: 0, ended: false };
  const model = createStreamingModel(async function* () {
    try {
      for (;;) {
        seen.batches += 1;
        yield batch;
      }
    } finally {
      seen.ended = true;
    }
  });
  return { model, seen };
}

describe('an answer beyond the limit', () => {
  test.each([
    ['text', [text(hundred)]],
    ['reasoning', [{ type: 'reasoning', text: hundred }]],
    ['arguments of tool calls', [toolCall('call', 'pay', hundred)]],
    ['tiny tool calls', [toolCall('c', 'p', '')]],
  ] satisfies [string, ModelEvent[]][])(
    'of %s ends the request and fails the run',
    async (_, batch) => {
      const { boot } = await openFixture();
      const { model, seen } = endless(batch);
      const kernel = await boot({ model, settings });
      const run = await ask(kernel);
      const events = await finished(kernel, run.id);
      expect(endOf(events)).toMatchObject({
        status: 'failed',
        error: { code: 'answer_too_large', retryable: false },
      });
      expect(endOf(events).error?.message).toContain('more than 1000 characters');
      expect(seen.ended).toBe(true);
      expect(seen.batches).toBeLessThan(1_000);
      expect(ofType(events, 'tool.called')).toEqual([]);
      expect(model.requests).toHaveLength(1);
    },
  );

  test('has no more than 1,024 tool calls, however long it may be', async () => {
    const { boot } = await openFixture();
    const { model, seen } = endless([toolCall('c', 'p', '')]);
    const kernel = await boot({ model });
    const run = await ask(kernel);
    const events = await finished(kernel, run.id);
    expect(endOf(events).error).toMatchObject({ code: 'answer_too_large' });
    expect(seen.batches).toBe(1_025);
  });

  test('leaves what was streamed before the limit in the journal', async () => {
    const { boot } = await openFixture();
    const { model } = endless([text(hundred)]);
    const kernel = await boot({ model, settings });
    const run = await ask(kernel);
    const events = await finished(kernel, run.id);
    expect(ofType(events, 'text.appended').map((event) => event.text)).toEqual(
      Array.from({ length: 10 }, () => hundred),
    );
  });

  test('ends a sub-agent, and its parent continues', async () => {
    const { boot } = await openFixture();
    const model = createScriptedAgents({
      Begin: [[delegate('call_1', 'Be long'), finish()], says('Done.')],
      'Be long': [[text(hundred.repeat(11)), finish()]],
    });
    const kernel = await boot({ model, tools: [agentTool], settings });
    const run = await ask(kernel);
    const events = await finished(kernel, run.id);
    expect(endFor(events, 'Be long')?.error).toMatchObject({ code: 'answer_too_large' });
    expect(endOf(events)).toMatchObject({ status: 'completed', output: 'Done.' });
  });
});

describe('an answer within the limit', () => {
  test('counts for one turn, not for the whole run', async () => {
    const { boot } = await openFixture();
    const tool = createRecordingTool({ name: 'pay', allowedByDefault: true });
    const turn = (n: number) => () => [
      [text(hundred.repeat(9)), toolCall(`c${n}`, 'pay', {}), finish()],
    ];
    const last = () => [[text(hundred.repeat(10)), finish()]];
    const model = createStreamingModel(turn(1), turn(2), turn(3), last);
    const kernel = await boot({ model, tools: [tool], settings });
    const run = await ask(kernel);
    const events = await finished(kernel, run.id);
    expect(endOf(events)).toMatchObject({ status: 'completed', output: hundred.repeat(10) });
  });
});
