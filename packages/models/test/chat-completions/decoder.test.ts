import type { ModelEvent } from '@relay/core';
import { describe, expect, it } from 'vitest';
import { ChatDecoder } from '../../src/chat-completions/decoder.ts';
import { SafeNames } from '../../src/provider-request.ts';
import {
  deltaFrame,
  doneFrame,
  finishFrame,
  frame,
  textFrame,
  textIn,
  textStream,
  usageFrame,
} from '../support/index.ts';
import fc from 'fast-check';

function decode(...pieces: readonly string[]): ModelEvent[] {
  const decoder = new ChatDecoder(undefined);
  const events = pieces.flatMap((piece) => decoder.feed(piece));
  return [...events, ...decoder.end()];
}

const finish = (reason = 'stop', inputTokens = 0, outputTokens = 0) => ({
  type: 'finish',
  reason,
  usage: { inputTokens, outputTokens },
  model: 'scripted',
});
const text = (content: string) => ({ type: 'text', text: content });

const ended = expect.objectContaining({
  message: 'The provider’s answer ended before it was finished',
  retryable: true,
});

describe('a Chat Completions stream', () => {
  it('yields text as it arrives, then finish with usage', () => {
    expect(decode(textStream(['Hello', ', ', 'world']))).toEqual([
      text('Hello'),
      text(', '),
      text('world'),
      finish('stop', 7, 3),
    ]);
  });

  it('yields the events of each chunk at once', () => {
    const decoder = new ChatDecoder(undefined);
    expect(decoder.feed(textFrame('a') + textFrame('b'))).toEqual([text('a'), text('b')]);
    expect(decoder.feed(textFrame('c').slice(0, 20))).toEqual([]);
    expect(decoder.feed(textFrame('c').slice(20))).toEqual([text('c')]);
    expect(decoder.answered).toBe(false);
    expect(decoder.feed(finishFrame())).toEqual([]);
    expect([decoder.answered, decoder.done]).toEqual([true, false]);
    expect(decoder.feed(doneFrame)).toEqual([finish()]);
    expect(decoder.done).toBe(true);
  });

  it('yields nothing for role, empty and null deltas', () => {
    expect(
      decode(
        deltaFrame({ role: 'assistant', content: '' }),
        deltaFrame({ content: null, tool_calls: null }),
        frame({ choices: [{ index: 0, delta: null }] }),
        frame({ choices: null, usage: null }),
        frame({ choices: [] }),
        frame('just text'),
        frame(null),
        finishFrame(),
        doneFrame,
      ),
    ).toEqual([finish()]);
  });

  it('yields reasoning under either of its names, once', () => {
    expect(
      decode(
        deltaFrame({ reasoning_content: 'Hm' }),
        deltaFrame({ reasoning: ', so' }),
        deltaFrame({ reasoning_content: '.', reasoning: '.' }),
        deltaFrame({ reasoning: '', content: 'Yes' }),
        finishFrame(),
      ),
    ).toEqual([
      { type: 'reasoning', text: 'Hm' },
      { type: 'reasoning', text: ', so' },
      { type: 'reasoning', text: '.' },
      text('Yes'),
      finish(),
    ]);
  });

  it('shows a refusal as text', () => {
    expect(textIn(decode(deltaFrame({ refusal: 'I will not.' }), finishFrame()))).toBe(
      'I will not.',
    );
  });

  it('counts cached and reasoning tokens if the server does', () => {
    const decoder = new ChatDecoder(undefined);
    const usage = {
      prompt_tokens: 9,
      completion_tokens: 8,
      prompt_tokens_details: { cached_tokens: 7 },
      completion_tokens_details: { reasoning_tokens: 6 },
    };
    decoder.feed(finishFrame());
    expect(decoder.feed(frame({ choices: [], usage }) + doneFrame)).toMatchObject([
      { usage: { inputTokens: 9, outputTokens: 8, cachedInputTokens: 7, reasoningTokens: 6 } },
    ]);
  });

  it('counts cached tokens under DeepSeek’s name', () => {
    const decoder = new ChatDecoder(undefined);
    const usage = { prompt_tokens: 9, completion_tokens: 8, prompt_cache_hit_tokens: 5 };
    decoder.feed(finishFrame());
    expect(decoder.feed(frame({ choices: [], usage }) + doneFrame)).toMatchObject([
      { usage: { inputTokens: 9, outputTokens: 8, cachedInputTokens: 5 } },
    ]);
  });

  it('keeps reasoning before a tool call for the same model', () => {
    const call = { index: 0, id: 'a', function: { name: 'look', arguments: '{}' } };
    const finishes = (model: string | undefined, ...frames: string[]) => {
      const decoder = new ChatDecoder(undefined, new SafeNames([]), model);
      for (const each of frames) decoder.feed(each);
      return decoder.end().at(-1);
    };
    const calls = [deltaFrame({ tool_calls: [call] }), finishFrame('tool_calls')];
    const thinks = [
      deltaFrame({ reasoning_content: 'Let me ' }),
      deltaFrame({ reasoning_content: 'look.' }),
    ];
    expect(finishes('deepseek-chat', ...thinks, ...calls)).toMatchObject({
      providerData: {
        provider: 'chat-completions',
        model: 'deepseek-chat',
        parts: [{ type: 'reasoning', text: 'Let me look.' }],
      },
    });
    const without = [
      finishes('m', ...thinks, deltaFrame({ content: 'Yes' }), finishFrame()),
      finishes('m', ...calls),
      finishes('m', deltaFrame({ reasoning: 'Hm' }), ...calls),
      finishes(undefined, ...thinks, ...calls),
    ];
    for (const each of without) expect(each).not.toHaveProperty('providerData');
  });

  it('maps tool names back', () => {
    const names = new SafeNames(['acme.look']);
    const decoder = new ChatDecoder(undefined, names);
    const call = { index: 0, id: 'a', function: { name: 'acme_look', arguments: '{}' } };
    decoder.feed(deltaFrame({ tool_calls: [call] }) + finishFrame('tool_calls'));
    expect(decoder.end()[0]).toMatchObject({ type: 'tool-call', name: 'acme.look' });
  });

  it('holds tool calls back until the answer is finished', () => {
    const decoder = new ChatDecoder(undefined);
    const first = { index: 0, id: 'call_1', function: { name: 'add', arguments: '{"a"' } };
    const second = { index: 0, function: { arguments: ':1}' } };
    expect(decoder.feed(deltaFrame({ tool_calls: [first] }))).toEqual([]);
    expect(decoder.feed(deltaFrame({ tool_calls: [second] }))).toEqual([]);
    expect(decoder.feed(finishFrame('tool_calls'))).toEqual([]);
    expect(decoder.feed(usageFrame(3, 4) + doneFrame)).toEqual([
      { type: 'tool-call', id: 'call_1', name: 'add', arguments: '{"a":1}' },
      finish('tool_calls', 3, 4),
    ]);
  });

  it.each([
    ['stop', 'stop'],
    ['tool_calls', 'tool_calls'],
    ['function_call', 'tool_calls'],
    ['length', 'length'],
    ['content_filter', 'content_filter'],
    ['eos_token', 'stop'],
    ['MAX_TOKENS', 'length'],
    ['model_length', 'context_exceeded'],
    ['constructor', 'other'],
  ])('maps the finish reason %s to %s', (given, reason) => {
    expect(decode(finishFrame(given), doneFrame)).toMatchObject([finish(reason)]);
  });

  it.each(['error', 'insufficient_system_resource'])(
    'takes the finish reason %s for a failure of the server',
    (given) => {
      expect(() => decode(textFrame('x'), finishFrame(given), doneFrame)).toThrow(ended);
    },
  );

  it('maps an answer with a refusal to refusal, with its words as text', () => {
    const refused = deltaFrame({ refusal: 'I cannot' });
    expect(decode(refused, finishFrame(), doneFrame)).toEqual([
      text('I cannot'),
      finish('refusal'),
    ]);
  });

  it('maps an answer with nothing but an empty refusal to refusal', () => {
    const refused = deltaFrame({ content: null, refusal: '' });
    expect(decode(refused, finishFrame(), doneFrame)).toEqual([finish('refusal')]);
    // Some servers send an empty one with every answer.
    expect(decode(refused, textFrame('x'), finishFrame(), doneFrame)).toEqual([
      text('x'),
      finish('stop'),
    ]);
  });

  it('ignores an empty finish reason', () => {
    const unfinished = frame({ choices: [{ delta: { content: 'x' }, finish_reason: '' }] });
    expect(() => decode(unfinished, doneFrame)).toThrow(ended);
  });

  it('uses the last usage, wherever it is', () => {
    const withUsage = (prompt: unknown, completion: unknown) =>
      frame({
        choices: [{ delta: { content: 'x' } }],
        usage: { prompt_tokens: prompt, completion_tokens: completion },
      });
    expect(decode(withUsage(5, 1), withUsage(5, 2), finishFrame())).toEqual([
      text('x'),
      text('x'),
      finish('stop', 5, 2),
    ]);
    expect(decode(withUsage(-5, 'many'), finishFrame()).at(-1)).toEqual(finish());
  });

  it('may end without [DONE] once there was a finish reason', () => {
    expect(decode(textFrame('a'), finishFrame())).toEqual([text('a'), finish()]);
  });

  it('that ends without a finish reason has failed, and may be tried again', () => {
    expect(() => decode(textFrame('a'))).toThrow(ended);
    expect(() => decode(textFrame('a'), doneFrame)).toThrow(ended);
    expect(() => decode('')).toThrow(ended);
    expect(() => decode(textStream(['a']).slice(0, 40))).toThrow(ended);
  });

  it('ignores whatever follows [DONE]', () => {
    expect(decode(textStream(['a']) + textFrame('b') + frame({ error: 'late' }))).toEqual([
      text('a'),
      finish('stop', 7, 1),
    ]);
  });

  it('reads comments, CRLF, event names and data in several lines', () => {
    const spread = textFrame('b').trimEnd().replace('"choices"', '\ndata: "choices"');
    const stream = `: OPENROUTER PROCESSING\n\nevent: chunk\nid: 1\n${textFrame('a')}${spread}\n\n`;
    expect(textIn(decode((stream + finishFrame()).replaceAll('\n', '\r\n')))).toBe('ab');
  });

  it('fails on data that is not JSON, without repeating it', () => {
    expect(() => decode('data: sk-secret {oops\n\n')).toThrow(
      expect.objectContaining({
        message: 'The provider sent invalid JSON',
        retryable: true,
      }),
    );
  });

  it('fails on an error inside the stream', () => {
    const error = { message: 'Overloaded', type: 'server_error', code: null };
    expect(() => decode(textFrame('a'), frame({ error }))).toThrow(
      expect.objectContaining({
        message: 'The provider aborted its answer: Overloaded',
        retryable: true,
      }),
    );
    expect(() => decode(frame({ object: 'error', message: 'No', code: 400 }))).toThrow(
      expect.objectContaining({ message: 'The provider aborted its answer: No', retryable: false }),
    );
  });

  it('fails on a frame without end', () => {
    const decoder = new ChatDecoder(undefined);
    const flood = () => {
      for (let n = 0; n < 20; n += 1) decoder.feed('x'.repeat(1024 * 1024));
    };
    expect(flood).toThrow(expect.objectContaining({ retryable: false }));
  });
});

/** The same rules once more, frame by frame and with no care for speed. */
function reference(deltas: readonly Readonly<Record<string, unknown>>[]): unknown[] {
  return deltas.flatMap(({ content, reasoning }) => [
    ...(typeof reasoning === 'string' && reasoning !== ''
      ? [{ type: 'reasoning', text: reasoning }]
      : []),
    ...(typeof content === 'string' && content !== '' ? [text(content)] : []),
  ]);
}

describe('a Chat Completions stream that is cut anywhere', () => {
  it('means the same', () => {
    const content = fc.oneof(
      fc.string({ maxLength: 14, unit: 'binary' }),
      fc.constantFrom('"', '\\', '\n\n', 'data: [DONE]', '"},"finish_reason":"stop"', ' the'),
    );
    const delta = fc.oneof(
      { weight: 4, arbitrary: fc.record({ content }) },
      fc.record({ reasoning: content }),
      fc.record({ role: fc.constant('assistant'), content, reasoning: content }),
    );
    const cuts = fc.array(fc.nat(), { maxLength: 12 });
    fc.assert(
      fc.property(fc.array(delta, { maxLength: 12 }), cuts, (deltas, places) => {
        const stream = deltas.map(deltaFrame).join('') + finishFrame() + doneFrame;
        const at = [0, ...places.map((place) => place % stream.length), stream.length];
        at.sort((a, b) => a - b);
        const pieces = at.slice(1).map((end, index) => stream.slice(at[index], end));
        expect(decode(...pieces)).toEqual([...reference(deltas), finish()]);
      }),
      { numRuns: 1_000 },
    );
  });
});
