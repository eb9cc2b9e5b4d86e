import type { LanguageModelV4StreamPart } from '@ai-sdk/provider';
import { AnswerTooLarge, type ModelEvent } from '@relay/core';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { PartBatches } from '../../src/ai-sdk/part-batches.ts';
import { answerPacer } from '../../src/pacer.ts';
import { SafeNames } from '../../src/provider-request.ts';
import { SdkAnswer } from '../../src/ai-sdk/answer.ts';

const never = new AbortController().signal;
const textPart = (delta: string): LanguageModelV4StreamPart => ({
  type: 'text-delta',
  id: '1',
  delta,
});
const answer = () =>
  new SdkAnswer({
    withoutMetadata: false,
    provider: 'acme',
    model: 'm',
    names: new SafeNames([]),
    apiKey: 'sk-x',
    maxChars: 1_000_000,
    keep: () => ({}),
  });

/** A stream that is fed by hand, and how often it was asked for more. */
function source() {
  let controller: ReadableStreamDefaultController<LanguageModelV4StreamPart> | undefined;
  const seen = { pulls: 0, canceled: false };
  const stream = new ReadableStream<LanguageModelV4StreamPart>(
    {
      start(given) {
        controller = given;
      },
      pull() {
        seen.pulls += 1;
      },
      cancel() {
        seen.canceled = true;
      },
    },
    { highWaterMark: 0 },
  );
  if (controller === undefined) throw new Error('The stream has not begun');
  return { stream, seen, controller };
}

describe('PartBatches', () => {
  afterEach(() => void vi.restoreAllMocks());

  it('yields its first events at once, then all until its turn, and the last at once', async () => {
    const starts: (() => void)[] = [];
    vi.spyOn(answerPacer, 'add').mockImplementation((start) => void starts.push(start));
    const { stream, controller } = source();
    const batches = new PartBatches(stream, answer()).all(never);
    const first = batches.next();
    controller.enqueue(textPart('a'));
    expect((await first).value).toEqual([{ type: 'text', text: 'a' }]);
    const second = batches.next();
    for (const word of ['b', 'c']) controller.enqueue(textPart(word));
    await expect.poll(() => starts.length).toBe(2);
    for (const start of starts) start();
    expect((await second).value).toEqual([
      { type: 'text', text: 'b' },
      { type: 'text', text: 'c' },
    ]);
    const third = batches.next();
    controller.enqueue(textPart('d'));
    controller.close();
    expect((await third).value).toEqual([{ type: 'text', text: 'd' }]);
    expect((await batches.next()).done).toBe(true);
  });

  it('yields all events since the last batch', async () => {
    const { stream, controller } = source();
    const batches = new PartBatches(stream, answer()).all(never);
    for (const word of ['a', 'b', 'c']) controller.enqueue(textPart(word));
    const first = (await batches.next()).value as readonly ModelEvent[];
    await new Promise((resolve) => setImmediate(resolve));
    controller.enqueue(textPart('d'));
    controller.close();
    const rest: (readonly ModelEvent[])[] = [];
    for await (const batch of batches) rest.push(batch);
    const all = [first, ...rest].flat().map((event) => ('text' in event ? event.text : ''));
    expect(all.join('')).toBe('abcd');
    expect(rest.length).toBeLessThan(3);
  });

  it('throws a failure after the events before it', async () => {
    const { stream, controller } = source();
    const batches = new PartBatches(stream, answer()).all(never);
    const first = batches.next();
    controller.enqueue(textPart('a'));
    expect((await first).value).toEqual([{ type: 'text', text: 'a' }]);
    controller.error(new Error('Broken'));
    await expect(batches.next()).rejects.toThrow('Broken');
  });

  it('cancels the stream when the consumer stops', async () => {
    const { stream, controller, seen } = source();
    const batches = new PartBatches(stream, answer()).all(never);
    const first = batches.next();
    controller.enqueue(textPart('a'));
    await first;
    await batches.return();
    await expect.poll(() => seen.canceled).toBe(true);
  });

  it('applies backpressure to a fast provider', async () => {
    const { stream, controller, seen } = source();
    const batches = new PartBatches(stream, answer()).all(never);
    const first = batches.next();
    controller.enqueue(textPart('a'));
    await first;
    for (let n = 0; n < 2_000; n += 1) controller.enqueue(textPart('x'));
    await expect.poll(() => seen.pulls).toBeGreaterThan(0);
    await new Promise((resolve) => setTimeout(resolve, 20));
    const { value } = await batches.next();
    expect((value as readonly ModelEvent[]).length).toBeLessThanOrEqual(513);
    await batches.return();
  });

  it('stops at once when aborted', async () => {
    const { stream, controller } = source();
    const aborting = new AbortController();
    const batches = new PartBatches(stream, answer()).all(aborting.signal);
    const first = batches.next();
    controller.enqueue(textPart('a'));
    await first;
    aborting.abort();
    await expect(batches.next()).rejects.toThrow('The model call was aborted');
  });
});

describe('an answer that is held until it is finished', () => {
  const limited = () => {
    const maxChars = 10_000;
    const keep = (metadata: Readonly<Record<string, unknown>>) => metadata;
    return new SdkAnswer({
      withoutMetadata: false,
      provider: 'acme',
      model: 'm',
      names: new SafeNames([]),
      apiKey: 'sk-x',
      maxChars,
      keep,
    });
  };

  it.each<[string, readonly LanguageModelV4StreamPart[]]>([
    ['arguments of a call', [{ type: 'tool-input-delta', id: '1', delta: 'x'.repeat(100) }]],
    ['calls', [{ type: 'tool-call', toolCallId: 'c', toolName: 'pay', input: 'x'.repeat(100) }]],
    [
      'empty parts',
      [
        { type: 'text-start', id: '1' },
        { type: 'text-end', id: '1' },
      ],
    ],
    [
      'metadata',
      [
        {
          type: 'reasoning-start',
          id: '1',
          providerMetadata: { acme: { signature: 'x'.repeat(100) } },
        },
      ],
    ],
  ])('is refused when %s have no end', (_, parts) => {
    const endless = limited();
    const feed = () => {
      for (let n = 0; n < 1_000; n += 1) for (const part of parts) endless.take(part);
    };
    expect(feed).toThrow(AnswerTooLarge);
  });
});
