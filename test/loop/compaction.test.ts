/** A conversation that outgrows its model: older turns give way to a summary, the journal keeps all. */
import type { ModelEvent } from '@relay/core';
import { createRecordingTool, finish, text, toolCall } from '@relay/core/testing';
import { agentTool } from '@relay/tools';
import { describe, expect, test } from 'vitest';
import { ask, until } from '../support/kernel.ts';
import { agentFor, delegate, resultOf } from './scripted-agents.ts';
import {
  createPages,
  createPageReader,
  expectWhole,
  hasSummary,
  sizeOf,
  summaryOf,
} from './page-reader.ts';
import {
  aborted,
  appendWith,
  createStreamingModel,
  endOf,
  finished,
  journal,
  lastOf,
  ofType,
  openFixture,
  stopRun,
  untilStored,
} from './fixture.ts';
import { mortal, wrapStore } from './stores.ts';

const many = { maxIterations: 100 };
const compaction = { threshold: 0.8, keep: 0.3 };

describe('a conversation that fills the window', () => {
  test('is compacted before each turn that needs it, and the run continues', async () => {
    const { boot } = await openFixture();
    const model = createPageReader({ pages: 20, contextTokens: 1_000 });
    const kernel = await boot({ model, tools: [createPages(100)] });
    const run = await ask(kernel, { ...many, system: 'Read it all.' });
    const events = await finished(kernel, run.id);
    expect(endOf(events)).toMatchObject({ status: 'completed', output: 'All read.' });
    const compactions = ofType(events, 'context.compacted');
    expect(compactions.length).toBeGreaterThan(1);
    expect(compactions.map(({ generation }) => generation)).toEqual(compactions.map((_, n) => n));
    expect(model.summaries).toHaveLength(compactions.length);
    for (const request of model.requests) {
      expect(sizeOf(request)).toBeLessThan(1_000);
      expectWhole(request.messages);
      expect(request.messages[0]).toEqual({ role: 'system', content: 'Read it all.' });
    }
    expect(hasSummary(lastOf(model.requests))).toBe(true);
    // Nothing is gone from the journal, and no page was read twice.
    const pages = ofType(events, 'tool.completed').map(({ context }) => context?.split(' ')[1]);
    expect(pages).toEqual(Array.from({ length: 20 }, (_, n) => `${n + 1}`));
  });

  test('is not compacted while it fits, or if the window is unknown', async () => {
    const { boot } = await openFixture();
    const roomy = createPageReader({ pages: 10, contextTokens: 100_000 });
    const unknown = createPageReader({ pages: 10 });
    for (const model of [roomy, unknown]) {
      const kernel = await boot({ model, tools: [createPages(100)] });
      const run = await ask(kernel, many);
      expect(ofType(await finished(kernel, run.id), 'context.compacted')).toEqual([]);
      expect(model.summaries).toEqual([]);
    }
  });

  test('is compacted by the window and the threshold that are configured', async () => {
    const { boot } = await openFixture();
    const sizes: number[] = [];
    for (const threshold of [0.4, 0.9]) {
      const model = createPageReader({ pages: 10 });
      const settings = { compaction: { ...compaction, threshold, windowTokens: 1_000 } };
      const kernel = await boot({ model, tools: [createPages(50)], settings });
      const run = await ask(kernel, many);
      await finished(kernel, run.id);
      const largest = Math.max(...model.requests.map(sizeOf));
      expect(largest).toBeLessThan(threshold * 1_000 + 150);
      sizes.push(largest);
    }
    expect(sizes[1]).toBeGreaterThan((sizes[0] ?? 0) + 200);
  });

  test('is summarized by the model that is configured, and what that used is counted', async () => {
    const { boot } = await openFixture();
    const model = createPageReader({ pages: 8, contextTokens: 600 });
    const usage = { inputTokens: 1_000, outputTokens: 50 };
    const small = createStreamingModel((request) => [
      [...summaryOf(request).slice(0, 1), finish(usage)],
    ]);
    const settings = { compaction: { ...compaction, model: 'small' } };
    const prices = { small: { inputPerMillion: 1, outputPerMillion: 2 } };
    const made = { model, models: { small }, prices, settings, tools: [createPages(100)] };
    const kernel = await boot(made);
    const run = await ask(kernel, many);
    const events = await finished(kernel, run.id);
    const compactions = ofType(events, 'context.compacted');
    expect(compactions[0]).toMatchObject({ model: 'small', usage: { ...usage, costUsd: 0.0011 } });
    expect(model.summaries).toEqual([]);
    expect(small.requests.map(({ tools }) => tools.length)).toEqual(compactions.map(() => 0));
    expect(endOf(events).usage.inputTokens).toBe(
      compactions.length * 1_000 + model.requests.length * 3,
    );
  });

  test('is summarized by its own model, where the other would make the cost uncountable', async () => {
    const { boot } = await openFixture();
    const model = createPageReader({ pages: 8, contextTokens: 600 });
    const settings = { compaction: { ...compaction, model: 'unpriced' } };
    const prices = { scripted: { inputPerMillion: 1, outputPerMillion: 1 } };
    const models = { unpriced: model };
    const kernel = await boot({ model, models, prices, settings, tools: [createPages(100)] });
    const run = await ask(kernel, { ...many, limits: { costUsd: 1 } });
    const events = await finished(kernel, run.id);
    expect(ofType(events, 'context.compacted')[0]).toMatchObject({ model: 'scripted' });
    expect(ofType(events, 'limit.reached')).toEqual([]);
    expect(endOf(events).usage.costUsd).toBeGreaterThan(0);
  });

  test('keeps the ids of its calls unique, also of those that a compaction removed', async () => {
    const { boot } = await openFixture();
    const model = createPageReader({ pages: 12, contextTokens: 600, callId: 'call' });
    const kernel = await boot({ model, tools: [createPages(100)] });
    const run = await ask(kernel, many);
    const events = await finished(kernel, run.id);
    expect(ofType(events, 'context.compacted').length).toBeGreaterThan(1);
    const ids = ofType(events, 'tool.called').map(({ toolCallId }) => toolCallId);
    expect(new Set(ids).size).toBe(12);
  });

  const failures: [string, () => AsyncIterable<readonly ModelEvent[]>][] = [
    [
      'fails',
      async function* () {
        yield [text('It has')];
        throw new Error('No summary today');
      },
    ],
    [
      'says nothing',
      async function* () {
        yield [finish()];
      },
    ],
    [
      'breaks off',
      async function* () {
        yield [text('It has read up to page 99, and')];
      },
    ],
  ];
  test.each(failures)('continues without a compaction if the summarizer %s', async (...given) => {
    const [, summarize] = given;
    const { boot } = await openFixture();
    const model = createPageReader({ pages: 9, contextTokens: 1_000, summarize });
    const kernel = await boot({ model, tools: [createPages(90)] });
    const run = await ask(kernel, many);
    const events = await finished(kernel, run.id);
    expect(model.summaries.length).toBeGreaterThan(0);
    expect(ofType(events, 'context.compacted')).toEqual([]);
    expect(ofType(events, 'tool.completed')).toHaveLength(9);
    expect(endOf(events)).toMatchObject({ status: 'completed', output: 'All read.' });
  });

  test('is not summarized in every turn, where it is the rest that fills the window', async () => {
    const { boot } = await openFixture();
    const summarize = async function* () {
      yield [text(`It has read up to page 1 ${'word'.repeat(80)}`), finish()];
    };
    const model = createPageReader({ pages: 5, contextTokens: 1_000, summarize });
    const kernel = await boot({ model, tools: [createPages((page) => (page === 1 ? 400 : 5))] });
    // The instructions alone take most of the window, and no summary can change that.
    const run = await ask(kernel, { ...many, system: 'word'.repeat(700) });
    const events = await finished(kernel, run.id);
    expect(endOf(events)).toMatchObject({ status: 'completed', output: 'All read.' });
    expect(ofType(events, 'context.compacted')).toHaveLength(1);
    expect(model.summaries).toHaveLength(1);
  });
});

describe('a prompt that the provider refuses as too long', () => {
  test('is compacted and asked once more', async () => {
    const { boot } = await openFixture();
    const model = createPageReader({ pages: 14, refusesAbove: 9_000 });
    const kernel = await boot({ model, tools: [createPages(1_000)] });
    const run = await ask(kernel, many);
    const events = await finished(kernel, run.id);
    expect(endOf(events)).toMatchObject({ status: 'completed', output: 'All read.' });
    expect(ofType(events, 'context.compacted').length).toBeGreaterThan(0);
    expect(ofType(events, 'tool.completed')).toHaveLength(14);
    for (const { messages } of model.requests) expectWhole(messages);
  });

  test('is a clear failure if it is still too long, and is not tried for ever', async () => {
    const { boot } = await openFixture();
    const model = createPageReader({ pages: 14, refusesAbove: 9_000, summarize: endlessSummary });
    const kernel = await boot({ model, tools: [createPages(1_000)] });
    const run = await ask(kernel, many);
    const events = await finished(kernel, run.id);
    expect(endOf(events)).toMatchObject({
      status: 'failed',
      error: { code: 'context_exceeded', retryable: false },
    });
    expect(model.summaries).toHaveLength(1);
  });

  test('is a clear failure if there is nothing to compact', async () => {
    const { boot } = await openFixture();
    const model = createPageReader({ pages: 1, refusesAbove: 0 });
    const kernel = await boot({ model });
    const run = await ask(kernel);
    const events = await finished(kernel, run.id);
    expect(endOf(events)).toMatchObject({ status: 'failed', error: { code: 'context_exceeded' } });
    expect(model.requests).toHaveLength(1);
  });
});

async function* endlessSummary(): AsyncGenerator<readonly ModelEvent[]> {
  yield [text(`It has read up to page 8 ${'word'.repeat(12_000)}`), finish()];
}

describe('a compaction', () => {
  test('is not made again after a crash between it and the turn', async () => {
    const { boot, bootWithoutCleanup, store } = await openFixture();
    const process = mortal(store);
    const dying = wrapStore(process.store, async (call) => {
      const value = await call.go();
      if (appendWith(call, 'context.compacted') === undefined) return value;
      process.kill();
      return new Promise(() => undefined);
    });
    const tool = createPages(100);
    const model = createPageReader({ pages: 6, contextTokens: 800 });
    const doomed = await bootWithoutCleanup({ store: dying, model, tools: [tool] });
    const run = await ask(doomed, many);
    await until(async () => model.summaries.length === 1, 'the summary');
    const next = createPageReader({ pages: 6, contextTokens: 800 });
    const kernel = await boot({ model: next, tools: [tool], restarted: true });
    const events = await finished(kernel, run.id);
    expect(hasSummary(next.requests[0] ?? lastOf([]))).toBe(true);
    expect(next.summaries).toEqual([]);
    expect(ofType(events, 'context.compacted')).toHaveLength(1);
    expect(tool.executions).toHaveLength(6);
    expect(endOf(events).output).toBe('All read.');
  });

  test('is stopped by a cancel', async () => {
    const { boot } = await openFixture();
    let signal: AbortSignal | undefined;
    const model = createPageReader({
      pages: 9,
      contextTokens: 500,
      async *summarize(_request, given) {
        signal = given;
        yield [text('It has read')];
        await aborted(given);
      },
    });
    const kernel = await boot({ model, tools: [createPages(100)] });
    const run = await ask(kernel, many);
    await until(async () => signal !== undefined, 'the summarizer');
    await stopRun(kernel, run.id);
    const events = await finished(kernel, run.id);
    expect(signal?.aborted).toBe(true);
    expect(endOf(events).status).toBe('canceled');
    expect(ofType(events, 'context.compacted')).toEqual([]);
  });

  test('of a sub-agent is its own: the others read what they read before', async () => {
    const { boot } = await openFixture();
    const reader = createPageReader({ pages: 12, contextTokens: 700 });
    const model = createStreamingModel(
      () => [[text('You read. '), delegate('call_0', 'Read', 'reader'), finish()]],
      () => [[text('Done.'), finish()]],
    );
    const kernel = await boot({
      model,
      models: { reader },
      agents: [{ name: 'reader', model: 'reader', tools: ['read'], maxIterations: 100 }],
      tools: [agentTool, createPages(100)],
    });
    const run = await ask(kernel);
    const events = await finished(kernel, run.id);
    const { agentId, parentId } = agentFor(events, 'Read');
    const compactions = ofType(events, 'context.compacted');
    expect(compactions.length).toBeGreaterThan(0);
    for (const each of compactions) {
      expect(each).toMatchObject({ agentId, parentId, model: 'reader' });
    }
    expect(resultOf(events, 'call_0')).toMatchObject({ context: 'All read.' });
    expect(lastOf(model.requests).messages.map(({ role }) => role)).toEqual([
      'user',
      'assistant',
      'tool',
    ]);
    const ids = ofType(events, 'tool.called').map(({ toolCallId }) => toolCallId);
    expect(new Set(ids).size).toBe(ids.length);
  });

  test('does not delay a sibling’s model call', async () => {
    const { boot } = await openFixture();
    const hold = Promise.withResolvers<void>();
    const reader = createPageReader({
      pages: 8,
      contextTokens: 600,
      async *summarize(request) {
        await hold.promise;
        yield summaryOf(request);
      },
    });
    const model = createStreamingModel(
      () => [[delegate('a', 'Read', 'reader'), delegate('b', 'Say', 'sayer'), finish()]],
      () => [[text('Done.'), finish()]],
    );
    const sayer = createStreamingModel(() => [[text('Said.'), finish()]]);
    const kernel = await boot({
      model,
      models: { reader, sayer },
      agents: [
        { name: 'reader', model: 'reader', maxIterations: 100 },
        { name: 'sayer', model: 'sayer' },
      ],
      tools: [agentTool, createPages(100)],
    });
    const run = await ask(kernel);
    await until(async () => reader.summaries.length === 1, 'the summarizer');
    await untilStored(kernel, run.id, { type: 'agent.ended' });
    expect(resultOf(await journal(kernel, run.id), 'b')).toMatchObject({ context: 'Said.' });
    hold.resolve();
    expect(endOf(await finished(kernel, run.id)).status).toBe('completed');
  });

  test('never comes between a call that waits for a person and its result', async () => {
    const { boot } = await openFixture();
    const pay = createRecordingTool({ name: 'pay', allowedByDefault: true });
    const model = createPageReader({ pages: 8, contextTokens: 600 });
    const both = {
      ...model,
      async *stream(...[request, signal]: Parameters<typeof model.stream>) {
        for await (const batch of model.stream(request, signal)) {
          const calls = batch.some(({ type }) => type === 'tool-call');
          const id = `pay_${request.messages.length}`;
          yield calls ? [toolCall(id, 'pay', {}), ...batch] : batch;
        }
      },
    };
    const kernel = await boot({ model: both, tools: [createPages(100), pay] });
    const run = await ask(kernel, many);
    const events = await finished(kernel, run.id);
    expect(ofType(events, 'context.compacted').length).toBeGreaterThan(0);
    for (const { messages } of model.requests) expectWhole(messages);
  });
});
