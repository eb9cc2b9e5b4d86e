/** All providers alike, over real HTTP against a mock of their APIs. */
import { LLMock } from '@copilotkit/aimock';
import { type Model, type ModelEvent, type ModelRequest, ProviderFailure } from '@relay/core';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { asking, eventsOf, textIn } from './support/index.ts';
import { baseUrlOf, mockedProviders } from './support/mock-providers.ts';

const apiKey = 'sk-test-9fQ4mZ7xL2pR8vW1';
const tools = ['look', 'pay'].map((name) => ({
  name,
  description: `Does ${name}`,
  inputSchema: { type: 'object', properties: { at: { type: 'string' } } },
}));

let mock: LLMock;
beforeAll(async () => {
  mock = await LLMock.create({ port: 0 });
});
afterAll(() => mock.stop());
beforeEach(() => {
  mock.clearFixtures();
  mock.clearRequests();
  mock.resetMatchCounts();
});

describe.each(mockedProviders)('$name', (provider) => {
  const create = (timeouts = {}): Model =>
    provider.create({ apiKey, baseUrl: baseUrlOf(mock, provider), timeouts });
  const ask = (text: string, more: Partial<ModelRequest> = {}): Promise<ModelEvent[]> =>
    eventsOf(create(), asking(text, { model: provider.model, ...more }));
  const failure = async (text: string, timeouts = {}): Promise<ProviderFailure> => {
    const events = eventsOf(create(timeouts), asking(text, { model: provider.model }));
    const error = await events.then(
      () => new Error('It did not fail'),
      (cause: unknown) => cause,
    );
    expect(error).toBeInstanceOf(ProviderFailure);
    return error as ProviderFailure;
  };
  const reasoningOf = (events: readonly ModelEvent[]) =>
    events.map((event) => (event.type === 'reasoning' ? event.text : '')).join('');
  const finishOf = (events: readonly ModelEvent[]) =>
    events.at(-1) as Extract<ModelEvent, { type: 'finish' }>;

  it('streams text with a finish reason', async () => {
    mock.onMessage('hello', { content: 'Hello there, how are you?', finishReason: 'stop' });
    const events = await ask('hello');
    expect(textIn(events)).toBe('Hello there, how are you?');
    expect(events.filter(({ type }) => type === 'text').length).toBeGreaterThan(1);
    expect(finishOf(events)).toMatchObject({ type: 'finish', reason: 'stop' });
  });

  it('counts tokens', async () => {
    const usage = {
      prompt_tokens: 100,
      completion_tokens: 7,
      input_tokens: 100,
      output_tokens: 7,
      promptTokenCount: 100,
      candidatesTokenCount: 7,
    };
    mock.onMessage('count', { content: 'One', finishReason: 'stop', usage });
    expect(finishOf(await ask('count')).usage).toEqual({ inputTokens: 100, outputTokens: 7 });
  });

  it('calls a tool', async () => {
    mock.onMessage('use', { toolCalls: [{ name: 'look', arguments: '{"at":"x"}', id: 'call_1' }] });
    const events = await ask('use', { tools });
    expect(events.filter(({ type }) => type === 'tool-call')).toEqual([
      { type: 'tool-call', id: 'call_1', name: 'look', arguments: '{"at":"x"}' },
    ]);
    expect(finishOf(events).reason).toBe('tool_calls');
  });

  it('calls several tools at once, in order, after its text', async () => {
    mock.onMessage('both', {
      content: 'I look and pay.',
      toolCalls: [
        { name: 'look', arguments: '{"at":"a"}', id: 'call_1' },
        { name: 'pay', arguments: '{"at":"b"}', id: 'call_2' },
        { name: 'look', arguments: '{}', id: 'call_3' },
      ],
    });
    const events = await ask('both', { tools });
    expect(textIn(events)).toBe('I look and pay.');
    const calls = events.filter(({ type }) => type === 'tool-call');
    expect(calls).toMatchObject([
      { id: 'call_1', name: 'look', arguments: '{"at":"a"}' },
      { id: 'call_2', name: 'pay', arguments: '{"at":"b"}' },
      { id: 'call_3', name: 'look', arguments: '{}' },
    ]);
  });

  it('streams reasoning separately from the answer', async () => {
    mock.onMessage('think', {
      content: 'Yes.',
      reasoning: 'Let me think about it.',
      reasoningSignature: 'sig-1',
      finishReason: 'stop',
    });
    const events = await ask('think');
    expect(textIn(events)).toBe('Yes.');
    expect(reasoningOf(events)).toBe('Let me think about it.');
  });

  it('continues after the results of its tools', async () => {
    mock.on({ hasToolResult: true }, { content: 'It is blue.', finishReason: 'stop' });
    const messages: ModelRequest['messages'] = [
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: 'Which colour?' },
      {
        role: 'assistant',
        content: null,
        tool_calls: [
          { id: 'call_1~2', type: 'function', function: { name: 'look', arguments: '{"at":"x"}' } },
          { id: 'call_2', type: 'function', function: { name: 'pay', arguments: 'not json' } },
        ],
      },
      { role: 'tool', tool_call_id: 'call_1~2', content: 'blue' },
      { role: 'tool', tool_call_id: 'call_2', content: '' },
    ];
    expect(textIn(await ask('', { messages, tools }))).toBe('It is blue.');
  });

  it.each([
    [400, 'invalid_request_error', false],
    [401, 'authentication_error', false],
    [404, 'not_found_error', false],
    [429, 'rate_limit_error', true],
    [500, 'api_error', true],
    [503, 'api_error', true],
    [529, 'overloaded_error', true],
  ])('that answers %i is quoted, without its key', async (status, type, retryable) => {
    mock.onMessage('fail', { error: { message: `It is ${apiKey} again`, type }, status });
    const failed = await failure('fail');
    expect(failed.message).toBe(`The provider answered ${status}: It is [redacted] again`);
    expect(failed).toMatchObject({ retryable, contextExceeded: false });
  });

  it('may set Retry-After', async () => {
    mock.onMessage('busy', { error: { message: 'Slow down' }, status: 429, retryAfter: 7 });
    expect(await failure('busy')).toMatchObject({ retryable: true, retryAfterMs: 7_000 });
  });

  it('may report that the prompt is too long', async () => {
    const message = 'prompt is too long: 250000 tokens > 200000 maximum';
    mock.onMessage('long', { error: { message, type: 'invalid_request_error' }, status: 400 });
    expect(await failure('long')).toMatchObject({ contextExceeded: true, retryable: false });
  });

  it('is read to the end, however slow it is', async () => {
    mock.onMessage(
      'slow',
      { content: 'a b c d e', finishReason: 'stop' },
      {
        chunkSize: 2,
        latency: 60,
      },
    );
    const events = await eventsOf(
      create({ firstByteMs: 2_000, idleMs: 2_000 }),
      asking('slow', { model: provider.model }),
    );
    expect(textIn(events)).toBe('a b c d e');
  });

  it('that stalls fails with a retryable timeout', async () => {
    mock.onMessage('silent', { content: 'a b c d e', finishReason: 'stop' }, { latency: 5_000 });
    const failed = await failure('silent', { firstByteMs: 150, idleMs: 150 });
    expect(failed).toMatchObject({
      message: 'The provider sent nothing for 0.15 s',
      retryable: true,
    });
  });

  it('that breaks off fails retryably', async () => {
    const opts = { truncateAfterChunks: 3, chunkSize: 2 };
    mock.onMessage('cut', { content: 'a b c d e f g h', finishReason: 'stop' }, opts);
    expect(await failure('cut')).toMatchObject({ retryable: true });
  });

  it('that sends invalid data fails', async () => {
    mock.onMessage(
      'odd',
      { content: 'a', finishReason: 'stop' },
      {
        chaos: { malformedRate: 1 },
      },
    );
    expect((await failure('odd')).message).toContain('The provider');
  });

  it('is disconnected when the consumer stops', async () => {
    mock.onMessage(
      'endless',
      { content: 'x '.repeat(500), finishReason: 'stop' },
      {
        chunkSize: 2,
        latency: 20,
      },
    );
    const controller = new AbortController();
    const received: ModelEvent[] = [];
    const listening = (async () => {
      const request = asking('endless', { model: provider.model });
      for await (const batch of create().stream(request, controller.signal)) {
        received.push(...batch);
        controller.abort();
      }
    })();
    await expect(listening).rejects.toThrow('The model call was aborted');
    expect(received.length).toBeLessThan(50);
  });
});
