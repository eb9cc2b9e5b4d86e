/** What later runs of a conversation read, when earlier ones were compacted. */
import type { ModelRequest } from '@relay/core';
import { createScriptedModel, type ScriptedModel } from '@relay/core/testing';
import { type Message, textOf } from '@relay/protocol';
import { uuidv7 } from 'uuidv7';
import { describe, expect, test } from 'vitest';
import { ask, type Kernel, until } from '../support/kernel.ts';
import { says } from './scripted-agents.ts';
import {
  createPages,
  createPageReader,
  expectWhole,
  hasSummary,
  summaryOf,
} from './page-reader.ts';
import { endOf, finished, lastOf, ofType, openFixture } from './fixture.ts';

const many = { maxIterations: 100 };

function said(words: string): Message[] {
  return [{ role: 'user', content: words }];
}

function createListener() {
  return createScriptedModel([says('Well.')]);
}

/** What a further run of the conversation reads. */
async function readNow(
  kernel: Kernel,
  listener: ScriptedModel,
  conversationId: string,
): Promise<ModelRequest> {
  const messages = said('And now?');
  const run = await ask(kernel, { conversationId, messages, model: 'listener', tools: [] });
  await finished(kernel, run.id);
  return lastOf(listener.requests);
}

interface Reading {
  readonly words: string;
  readonly pages: number;
  /** How many tokens a page has: with long ones there is more than one compaction. */
  readonly tokens: number;
}

/**
 * Two runs of one conversation at once, each of which reads pages. They end in the order in which
 * they are given; the conversation before them has one run.
 */
async function twoAtOnce(readings: readonly [Reading, Reading]) {
  const { boot } = await openFixture();
  const conversationId = uuidv7();
  const quiet = await boot({ model: createScriptedModel([says(`Before. ${'word'.repeat(150)}`)]) });
  const before = await ask(quiet, { conversationId, messages: said('Hello') });
  await finished(quiet, before.id);
  const listener = createListener();
  const holds = readings.map(() => Promise.withResolvers<void>());
  const runs: { kernel: Kernel; runId: string }[] = [];
  const fresh = await boot({ model: listener });
  for (const [n, { words, pages, tokens }] of readings.entries()) {
    const model = createPageReader({ pages, contextTokens: 700 });
    const held = {
      ...model,
      async *stream(...[request, signal]: Parameters<typeof model.stream>) {
        await holds[n]?.promise;
        yield* model.stream(request, signal);
      },
    };
    const kernel = await boot({ model: held, models: { listener }, tools: [createPages(tokens)] });
    const run = await ask(kernel, { ...many, conversationId, messages: said(words) });
    runs.push({ kernel, runId: run.id });
  }
  const compactions: number[] = [];
  for (const [n, { kernel, runId }] of runs.entries()) {
    holds[n]?.resolve();
    const events = await finished(kernel, runId);
    expect(endOf(events).output).toBe('All read.');
    compactions.push(ofType(events, 'context.compacted').length);
  }
  const cached = await readNow(runs.at(-1)?.kernel ?? fresh, listener, conversationId);
  const uncached = await readNow(fresh, listener, conversationId);
  return { compactions, cached, uncached };
}

function textsOf({ messages }: ModelRequest): string {
  return messages.map(({ content }) => textOf(content)).join('\n');
}

describe('a conversation that was compacted', () => {
  test('is read as its summary and what came after, by later runs', async () => {
    const { boot } = await openFixture();
    const conversationId = uuidv7();
    const model = createPageReader({ pages: 10, contextTokens: 700 });
    const kernel = await boot({ model, tools: [createPages(100)] });
    const first = await ask(kernel, { ...many, conversationId, messages: said('Read it all') });
    await finished(kernel, first.id);
    const shown = lastOf(model.requests).messages;
    const next = await ask(kernel, { ...many, conversationId, messages: said('And then?') });
    await finished(kernel, next.id);
    const request = lastOf(model.requests);
    expect(hasSummary(request)).toBe(true);
    expect(textsOf(request)).not.toContain('Read it all');
    expect(request.messages).toEqual([
      ...shown,
      { role: 'assistant', content: 'All read.' },
      { role: 'user', content: 'And then?' },
    ]);
  });

  test('is compacted by the run that finds it too long, as far as it goes back', async () => {
    const { boot } = await openFixture();
    const conversationId = uuidv7();
    const talk = createScriptedModel([says(`Long. ${'word'.repeat(400)}`)]);
    const first = await boot({ model: talk });
    for (const words of ['One', 'Two']) {
      await finished(first, (await ask(first, { conversationId, messages: said(words) })).id);
    }
    const model = createPageReader({ pages: 1, contextTokens: 1_000 });
    const listener = createListener();
    const kernel = await boot({ model, models: { listener }, tools: [createPages(10)] });
    const run = await ask(kernel, { conversationId, messages: said('Now read') });
    const events = await finished(kernel, run.id);
    const [compaction] = ofType(events, 'context.compacted');
    expect(compaction).toMatchObject({ ofHistory: 4, ofRun: 0 });
    expect(model.requests[0]?.messages).toMatchObject([
      { role: 'user', content: expect.stringContaining('Summary of') as unknown },
      { role: 'user', content: 'Now read' },
    ]);
    const request = await readNow(kernel, listener, conversationId);
    expect(textsOf(request)).not.toContain('Long.');
  });

  test('keeps the summary, where only the instructions of the next run differ', async () => {
    const { boot } = await openFixture();
    const conversationId = uuidv7();
    const model = createPageReader({ pages: 10, contextTokens: 700 });
    const kernel = await boot({ model, tools: [createPages(100)] });
    const first = await ask(kernel, { ...many, conversationId, system: 'Be brief.' });
    await finished(kernel, first.id);
    const next = await ask(kernel, { ...many, conversationId, system: 'Be long.' });
    await finished(kernel, next.id);
    const request = lastOf(model.requests);
    expect(hasSummary(request)).toBe(true);
    expect(request.messages.filter(({ role }) => role === 'system')).toEqual([
      { role: 'system', content: 'Be long.' },
    ]);
  });

  test('is complete again for a run that sends the complete prompt', async () => {
    const { boot } = await openFixture();
    const conversationId = uuidv7();
    const model = createPageReader({ pages: 10, contextTokens: 700 });
    const kernel = await boot({ model, tools: [createPages(100)] });
    await finished(kernel, (await ask(kernel, { ...many, conversationId })).id);
    const messages = said('Everything anew, page 10');
    const run = await ask(kernel, { conversationId, messages, prompt: 'complete' });
    await finished(kernel, run.id);
    expect(lastOf(model.requests).messages).toEqual(messages);
  });
});

describe('two runs of one conversation at once', () => {
  const short = { pages: 1, tokens: 10 };
  const long = { pages: 4, tokens: 100 };
  const longer = { pages: 14, tokens: 100 };
  const cases: [string, [Reading, Reading], (made: readonly number[]) => boolean][] = [
    [
      'of which the first is compacted',
      [
        { words: 'First', ...long },
        { words: 'Second', ...short },
      ],
      ([a, b]) => a === 1 && b === 0,
    ],
    [
      'of which the second is compacted',
      [
        { words: 'First', ...short },
        { words: 'Second', ...long },
      ],
      ([a, b]) => a === 0 && b === 1,
    ],
    [
      'of which the second is compacted more than once',
      [
        { words: 'First', ...long },
        { words: 'Second', ...longer },
      ],
      ([a, b]) => a === 1 && (b ?? 0) > 1,
    ],
    [
      'that are both compacted more than once',
      [
        { words: 'First', ...longer },
        { words: 'Second', ...longer },
      ],
      ([a, b]) => (a ?? 0) > 1 && (b ?? 0) > 1,
    ],
  ];

  test.each(cases)('%s are read by the next one as something whole', async (...given) => {
    const [, readings, expected] = given;
    const { compactions, cached, uncached } = await twoAtOnce(readings);
    expect(expected(compactions), compactions.join()).toBe(true);
    expectWhole(cached.messages);
    // What is cached is what the journals say, but for the run that asked first.
    expect(uncached.messages.slice(0, cached.messages.length)).toEqual(cached.messages);
    expectWhole(uncached.messages);
    // Whatever was said by either of them is there, or in a summary that covers it.
    for (const { words, pages } of readings) {
      const covered = textsOf(cached).includes(words) || hasSummary(cached);
      expect(covered).toBe(true);
      expect(textsOf(cached)).toContain(`page ${pages}`);
    }
  });

  test('do not disturb each other while both run', async () => {
    const { boot } = await openFixture();
    const conversationId = uuidv7();
    const model = createPageReader({
      pages: 8,
      contextTokens: 700,
      async *summarize(request) {
        await new Promise((resolve) => setTimeout(resolve, 1));
        yield summaryOf(request);
      },
    });
    const kernel = await boot({ model, tools: [createPages(100)] });
    const runs = await Promise.all(
      ['a', 'b', 'c'].map((words) =>
        ask(kernel, { ...many, conversationId, messages: said(words) }),
      ),
    );
    for (const { id } of runs) {
      expect(endOf(await finished(kernel, id)).output).toBe('All read.');
    }
    for (const { messages } of model.requests) expectWhole(messages);
    await until(async () => kernel.control.supervisor.activeRuns === 0, 'rest');
  });
});
