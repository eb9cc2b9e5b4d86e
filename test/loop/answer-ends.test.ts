/** How an answer ended: whole, cut, refused, filtered, or at the end of the window. */
import type { ModelEvent, TurnFinish } from '@relay/core';
import { createRecordingTool, createScriptedModel, text, toolCall } from '@relay/core/testing';
import { agentTool } from '@relay/tools';
import { describe, expect, test } from 'vitest';
import { ask } from '../support/kernel.ts';
import { createStreamingModel, endOf, finished, lastOf, ofType, openFixture } from './fixture.ts';

const usage = { inputTokens: 3, outputTokens: 2 };
const ends = (reason: TurnFinish, detail?: string): ModelEvent => ({
  type: 'finish',
  reason,
  usage,
  ...(detail === undefined ? {} : { detail }),
});

/** The journal of a run whose model plays these turns, and its row. */
async function runOf(...turns: readonly (readonly ModelEvent[])[]) {
  const { boot } = await openFixture();
  const model = createScriptedModel(turns);
  const pay = createRecordingTool({ name: 'pay', allowedByDefault: true });
  const kernel = await boot({ model, tools: [pay] });
  const run = await ask(kernel);
  const events = await finished(kernel, run.id);
  const row = await kernel.store.tenant(kernel.tenantId).readRun(run.id);
  return { events, row, pay, model };
}

describe('an answer', () => {
  test.each(['stop', 'length', 'refusal', 'content_filter'] as const)(
    'with text that ended with %s is the output, and the run says so',
    async (reason) => {
      const { events, row } = await runOf([text('Once'), ends(reason)]);
      expect(endOf(events)).toMatchObject({
        status: 'completed',
        output: 'Once',
        finishReason: reason,
      });
      expect(ofType(events, 'agent.ended')).toMatchObject([{ finishReason: reason }]);
      expect(row?.finishReason).toBe(reason);
    },
  );

  test.each([
    ['refusal', 'model_refused', 'The model refused to answer'],
    ['content_filter', 'content_filtered', 'The provider’s content filter blocked the answer'],
  ] as const)('that is an empty %s fails the run', async (reason, code, message) => {
    const { events, row } = await runOf([ends(reason, 'SAFETY')]);
    expect(endOf(events)).toMatchObject({
      status: 'failed',
      output: '',
      finishReason: reason,
      usage,
      error: { code, message: `${message} (SAFETY)`, retryable: false },
    });
    expect(row).toMatchObject({ status: 'failed', finishReason: reason });
  });

  test('whose end the provider does not explain has no finish reason', async () => {
    const { events, row } = await runOf([text('Once'), ends('other', 'OTHER')]);
    expect(endOf(events)).toMatchObject({ status: 'completed', output: 'Once' });
    expect(endOf(events)).not.toHaveProperty('finishReason');
    expect(row?.finishReason).toBeNull();
  });

  test('without output and without an explanation is tried again', async () => {
    const { boot } = await openFixture();
    const model = createStreamingModel(
      () => [[ends('other', 'OTHER')]],
      () => [[text('Well.'), ends('stop')]],
    );
    const kernel = await boot({ model });
    const run = await ask(kernel);
    expect(endOf(await finished(kernel, run.id))).toMatchObject({ output: 'Well.' });
    expect(model.requests).toHaveLength(2);
  });

  test('without the reasoning of earlier turns says so in the journal', async () => {
    const { events } = await runOf([
      text('Once'),
      { type: 'finish', reason: 'stop', usage, reasoningDropped: true },
    ]);
    expect(ofType(events, 'turn.completed')).toMatchObject([{ reasoningDropped: true }]);
  });

  test('of a sub-agent does not count for the run', async () => {
    const { boot } = await openFixture();
    const model = createStreamingModel(
      () => [[toolCall('call_1', 'agent', { prompt: 'Look' }), ends('tool_calls')]],
      () => [[text('Half'), ends('length')]],
      () => [[text('Done.'), ends('stop')]],
    );
    const kernel = await boot({ model, tools: [agentTool] });
    const run = await ask(kernel);
    const events = await finished(kernel, run.id);
    expect(endOf(events).finishReason).toBe('stop');
    expect(ofType(events, 'agent.ended').map((event) => event.finishReason)).toEqual([
      'length',
      'stop',
    ]);
  });
});

describe('a turn with calls', () => {
  test('that was cut at the token limit goes on: the gate checks each call', async () => {
    const { events, pay } = await runOf(
      [toolCall('call_1', 'pay', {}), toolCall('call_2', 'pay', '{"a":'), ends('length')],
      [text('Done.'), ends('stop')],
    );
    expect(pay.executions).toHaveLength(1);
    expect(ofType(events, 'tool.failed')).toMatchObject([{ code: 'tool_input_invalid' }]);
    expect(endOf(events)).toMatchObject({ output: 'Done.', finishReason: 'stop' });
  });

  test.each(['refusal', 'content_filter'] as const)(
    'that ended with %s runs none of them',
    async (reason) => {
      const { events, pay } = await runOf([
        text('I would'),
        toolCall('call_1', 'pay', {}),
        ends(reason),
      ]);
      expect(pay.executions).toEqual([]);
      expect(ofType(events, 'tool.called')).toEqual([]);
      expect(endOf(events)).toMatchObject({ output: 'I would', finishReason: reason });
    },
  );
});

describe('a refusal of an answer that must match a schema', () => {
  test('fails the run with its words, and is not asked for again', async () => {
    const { boot } = await openFixture();
    const model = createStreamingModel(() => [[text('I cannot'), ends('refusal')]]);
    const kernel = await boot({ model });
    const run = await ask(kernel, { outputSchema: { type: 'object' } });
    const events = await finished(kernel, run.id);
    expect(endOf(events)).toMatchObject({
      status: 'failed',
      finishReason: 'refusal',
      error: { code: 'model_refused', message: 'The model refused to answer: I cannot' },
    });
    expect(model.requests).toHaveLength(1);
  });
});

describe('a window that is full in the middle of an answer', () => {
  const full = () => [[text('Once'), ends('context_exceeded')]];

  test('is compacted, and the answer begins again', async () => {
    const { boot } = await openFixture();
    const model = createStreamingModel(
      full,
      () => [[text('They told a long story.'), ends('stop')]],
      () => [[text('Well.'), ends('stop')]],
    );
    const kernel = await boot({ model });
    const run = await ask(kernel, {
      messages: [{ role: 'user', content: 'Tell. '.repeat(8_000) }],
    });
    const events = await finished(kernel, run.id);
    expect(ofType(events, 'context.compacted')).toHaveLength(1);
    expect(ofType(events, 'turn.discarded')).toMatchObject([
      { reason: 'retry', code: 'context_exceeded', usage },
    ]);
    expect(endOf(events)).toMatchObject({ output: 'Well.', finishReason: 'stop' });
    expect(JSON.stringify(lastOf(model.requests).messages)).toContain('a long story');
  });

  test('fails the run if nothing can be compacted, and keeps what was said', async () => {
    const { boot } = await openFixture();
    const model = createStreamingModel(full);
    const kernel = await boot({ model });
    const run = await ask(kernel);
    const events = await finished(kernel, run.id);
    expect(endOf(events)).toMatchObject({
      status: 'failed',
      output: 'Once',
      finishReason: 'context_exceeded',
      error: { code: 'context_exceeded' },
    });
    expect(model.requests).toHaveLength(1);
  });

  test('is not compacted into a summary that was cut itself', async () => {
    const { boot } = await openFixture();
    const model = createStreamingModel(full, () => [[text('They told a'), ends('length')]]);
    const kernel = await boot({ model });
    const run = await ask(kernel, {
      messages: [{ role: 'user', content: 'Tell. '.repeat(8_000) }],
    });
    const events = await finished(kernel, run.id);
    expect(ofType(events, 'context.compacted')).toEqual([]);
    expect(endOf(events)).toMatchObject({ status: 'failed', error: { code: 'context_exceeded' } });
  });
});
