/** What is each provider's own: its marks, its counts, its ways to end and to fail. */
import { Agent } from 'node:http';
import { type ModelEvent, type ModelRequest, ProviderFailure } from '@relay/core';
import type { Message } from '@relay/protocol';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  createAnthropicModel,
  createGoogleModel,
  createResponsesModel,
} from '../../src/ai-sdk/providers.ts';
import {
  asking,
  eventsOf,
  type ScriptedProvider,
  startScriptedProvider,
  textIn,
} from '../support/index.ts';
import {
  anthropicFrames,
  anthropicText,
  googleFrame,
  responsesFrames,
  responsesRefusal,
  responsesText,
  streaming,
} from '../support/sdk-frames.ts';

const apiKey = 'sk-test-9fQ4mZ7xL2pR8vW1';
const create = {
  openai: createResponsesModel,
  anthropic: createAnthropicModel,
  google: createGoogleModel,
};
const names = { openai: 'gpt-5', anthropic: 'claude-sonnet-4-5', google: 'gemini-2.5-flash' };
type Name = keyof typeof create;

let provider: ScriptedProvider;
beforeEach(async () => {
  provider = await startScriptedProvider(() => undefined);
});
afterEach(() => provider.close());

function ask(name: Name, more: Partial<ModelRequest> = {}): Promise<ModelEvent[]> {
  const model = create[name]({ apiKey, baseUrl: provider.baseUrl });
  return eventsOf(model, asking('Hi', { model: names[name], ...more }));
}

async function askedAfter(name: Name, frames: readonly object[]): Promise<ModelEvent[]> {
  provider.script(streaming(frames));
  return ask(name);
}

function finishOf(events: readonly ModelEvent[]) {
  const last = events.at(-1);
  if (last?.type !== 'finish') throw new Error('It did not finish');
  return last;
}

async function failureOf(name: Name, frames: readonly object[]): Promise<ProviderFailure> {
  const error = await askedAfter(name, frames).then(
    () => new Error('It did not fail'),
    (cause: unknown) => cause,
  );
  expect(error).toBeInstanceOf(ProviderFailure);
  return error as ProviderFailure;
}

/** The body of the last request. */
function sent(): Record<string, unknown> {
  return provider.requests.at(-1)?.body ?? {};
}

describe('usage', () => {
  it('of OpenAI includes cached and reasoning tokens', async () => {
    const { usage } = finishOf(await askedAfter('openai', responsesFrames(responsesText('Yes'))));
    expect(usage).toEqual({
      inputTokens: 100,
      outputTokens: 30,
      cachedInputTokens: 60,
      reasoningTokens: 20,
    });
  });

  it('of Anthropic includes cache reads and cache writes', async () => {
    const counted = { cache_read_input_tokens: 60, cache_creation_input_tokens: 30 };
    const frames = anthropicFrames([anthropicText('Yes')], { usage: counted });
    expect(finishOf(await askedAfter('anthropic', frames)).usage).toEqual({
      inputTokens: 100,
      outputTokens: 7,
      cachedInputTokens: 60,
      cacheWriteTokens: 30,
    });
  });

  it('of Google includes cached tokens, and reasoning as output', async () => {
    const { usage } = finishOf(await askedAfter('google', [googleFrame([{ text: 'Yes' }])]));
    expect(usage).toEqual({
      inputTokens: 100,
      outputTokens: 30,
      cachedInputTokens: 60,
      reasoningTokens: 20,
    });
  });
});

it.each([
  ['openai', responsesFrames(responsesText('Yes'))],
  ['anthropic', anthropicFrames([anthropicText('Yes')])],
] as const)('the model that answered is known from %s', async (name, frames) => {
  expect(finishOf(await askedAfter(name, frames)).model).toEqual(expect.any(String));
});

describe('an answer that ended early', () => {
  it.each([
    [
      'openai',
      'length',
      responsesFrames(responsesText('Once'), {
        type: 'response.incomplete',
        response: { incomplete_details: { reason: 'max_output_tokens' } },
      }),
    ],
    ['anthropic', 'length', anthropicFrames([anthropicText('Once')], { reason: 'max_tokens' })],
    ['openai', 'refusal', responsesFrames(responsesRefusal('I cannot help with that'))],
    [
      'openai',
      'content_filter',
      responsesFrames(responsesText('x'), {
        type: 'response.incomplete',
        response: { incomplete_details: { reason: 'content_filter' } },
      }),
    ],
    ['anthropic', 'refusal', anthropicFrames([anthropicText('No')], { reason: 'refusal' })],
    [
      'anthropic',
      'context_exceeded',
      anthropicFrames([anthropicText('Once')], { reason: 'model_context_window_exceeded' }),
    ],
    ['google', 'length', [googleFrame([{ text: 'Once' }], { finishReason: 'MAX_TOKENS' })]],
    ['google', 'content_filter', [googleFrame([{ text: 'x' }], { finishReason: 'SAFETY' })]],
    ['google', 'content_filter', [{ promptFeedback: { blockReason: 'PROHIBITED_CONTENT' } }]],
    ['google', 'other', [googleFrame([], { finishReason: 'OTHER' })]],
  ] as const)('of %s says so: %s', async (name, reason, frames) => {
    expect(finishOf(await askedAfter(name, frames)).reason).toBe(reason);
  });

  it('shows the words of OpenAI’s refusal', async () => {
    const events = await askedAfter('openai', responsesFrames(responsesRefusal('I cannot')));
    expect(textIn(events)).toBe('I cannot');
  });

  it('is not whole because it called a tool first', async () => {
    const call = [
      { type: 'tool_use', id: 'call_1', name: 'look', input: {} },
      { type: 'input_json_delta', partial_json: '{"a":' },
    ];
    const cut = anthropicFrames([call], { reason: 'max_tokens' });
    expect(finishOf(await askedAfter('anthropic', cut)).reason).toBe('length');
    const whole = anthropicFrames([call], { reason: 'tool_use' });
    expect(finishOf(await askedAfter('anthropic', whole)).reason).toBe('tool_calls');
  });

  it('has the provider’s own word for the reason', async () => {
    const blocked = [{ promptFeedback: { blockReason: 'PROHIBITED_CONTENT' } }];
    expect(finishOf(await askedAfter('google', blocked)).detail).toBe('PROHIBITED_CONTENT');
    const whole = anthropicFrames([anthropicText('Yes')]);
    expect(finishOf(await askedAfter('anthropic', whole))).not.toHaveProperty('detail');
  });

  it.each([
    ['openai', responsesFrames(responsesText('Once')).slice(0, -1)],
    ['anthropic', anthropicFrames([anthropicText('Once')]).slice(0, -2)],
    ['google', [googleFrame([{ text: 'Once' }], { finishReason: undefined })]],
    ['openai', []],
    ['anthropic', []],
    ['google', []],
  ] as const)('of %s without saying so has failed', async (name, frames) => {
    expect(await failureOf(name, frames)).toMatchObject({
      message: 'The provider’s answer ended before it was finished',
      retryable: true,
    });
  });
});

describe('a connection', () => {
  it.each([
    ['openai', responsesFrames(responsesText('Yes'))],
    ['anthropic', anthropicFrames([anthropicText('Yes')])],
  ] as const)('to %s is used again', async (name, frames) => {
    const agent = new Agent({ keepAlive: true });
    provider.script(streaming(frames));
    const model = create[name]({ apiKey, baseUrl: provider.baseUrl, agent });
    for (const _ of [1, 2, 3]) await eventsOf(model, asking('Hi', { model: names[name] }));
    expect(provider.connections.made).toBe(1);
    agent.destroy();
  });

  it('that stays open after the answer does not delay it, and is closed', async () => {
    provider.script((response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      for (const frame of anthropicFrames([anthropicText('Yes')])) {
        response.write(`data: ${JSON.stringify(frame)}\n\n`);
      }
    });
    expect(textIn(await ask('anthropic'))).toBe('Yes');
    await expect.poll(() => provider.connections.open, { timeout: 5_000 }).toBe(0);
  });
});

describe('a failure within a stream', () => {
  const overloaded = {
    type: 'error',
    error: { type: 'overloaded_error', message: `Overloaded by ${apiKey}` },
  };
  const failed = {
    type: 'response.failed',
    sequence_number: 9,
    response: {
      error: { code: 'server_error', message: `Broken by ${apiKey}` },
      incomplete_details: null,
      usage: null,
    },
  };
  const exhausted = {
    error: { code: 503, status: 'UNAVAILABLE', message: `Overloaded by ${apiKey}` },
  };

  it.each([
    ['anthropic', [overloaded]],
    ['anthropic', [...anthropicFrames([anthropicText('Once')]).slice(0, 3), overloaded]],
    ['openai', [...responsesFrames(responsesText('Once')).slice(0, -1), failed]],
    ['google', [googleFrame([{ text: 'Once' }], { finishReason: undefined }), exhausted]],
  ] as const)('of %s is quoted without its key, and tried again', async (name, frames) => {
    const failure = await failureOf(name, frames);
    expect(failure.message).toMatch(/(?:Overloaded|Broken) by \[redacted\]$/);
    expect(failure.retryable).toBe(true);
  });

  it('that the request has caused is not retried', async () => {
    const error = { type: 'invalid_request_error', message: 'No such thing' };
    const frames = [...anthropicFrames([anthropicText('x')]).slice(0, 3), { type: 'error', error }];
    expect(await failureOf('anthropic', frames)).toMatchObject({ retryable: false });
  });

  it('that is not JSON does not repeat the text', async () => {
    provider.script((response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.end(`data: <html>${apiKey}</html>\n\n`);
    });
    for (const name of ['openai', 'google', 'anthropic'] as const) {
      const error = (await ask(name).catch((cause: unknown) => cause)) as ProviderFailure;
      expect(error).toBeInstanceOf(ProviderFailure);
      expect(error.retryable).toBe(true);
      expect(error.message).not.toContain(apiKey.slice(0, 8));
    }
  });
});

describe('provider metadata in the next request', () => {
  const call = {
    id: 'call_1',
    type: 'function',
    function: { name: 'look', arguments: '{}' },
  } as const;

  /** Asks, then asks again with the answer and the results of its calls. */
  async function again(name: Name, frames: readonly object[], model: string = names[name]) {
    const events = await askedAfter(name, frames);
    const { providerData } = finishOf(events);
    const calls = events.filter((event) => event.type === 'tool-call');
    const answer: Message = {
      role: 'assistant',
      content: textIn(events),
      tool_calls: calls.map(({ id }) => ({ ...call, id: id === '' ? 'call_1' : id })),
      ...(providerData === undefined ? {} : { providerData }),
    };
    const results = (answer.tool_calls ?? []).map(({ id }): Message => ({
      role: 'tool',
      tool_call_id: id,
      content: 'blue',
    }));
    provider.script((response) => response.writeHead(400).end());
    const messages: Message[] = [{ role: 'user', content: 'Hi' }, answer, ...results];
    await ask(name, { messages, model }).catch(() => undefined);
    return sent();
  }

  const thinking = anthropicFrames(
    [
      [
        { type: 'thinking', thinking: '' },
        { type: 'thinking_delta', thinking: 'Let me look.' },
        { type: 'signature_delta', signature: 'sig-1' },
      ],
      [{ type: 'redacted_thinking', data: 'secret-1' }],
      anthropicText('I look.'),
      [
        { type: 'tool_use', id: 'call_1', name: 'look', input: {} },
        { type: 'input_json_delta', partial_json: '{}' },
      ],
    ],
    { reason: 'tool_use' },
  );

  it('contains Anthropic’s thinking with its signature, before text and calls', async () => {
    const { messages } = (await again('anthropic', thinking)) as { messages: unknown[] };
    expect(messages.slice(1)).toMatchObject([
      {
        role: 'assistant',
        content: [
          { type: 'thinking', thinking: 'Let me look.', signature: 'sig-1' },
          { type: 'redacted_thinking', data: 'secret-1' },
          { type: 'text', text: 'I look.' },
          { type: 'tool_use', id: 'call_1', name: 'look' },
        ],
      },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'call_1', content: 'blue' }] },
    ]);
  });

  it('may be dropped by a Claude model that checks what stands before its thinking', async () => {
    const { thinking: sentThinking } = await again('anthropic', thinking, 'claude-opus-5-5');
    // Another model’s thinking is not sent, but the setting is: the next turns may have some.
    expect(sentThinking).toEqual({
      type: 'adaptive',
      block_binding: { prefix_mismatch_behavior: 'drop_block' },
    });
    const { headers } = provider.requests.at(-1) ?? {};
    expect(headers?.['anthropic-beta']).toContain('thinking-binding-controls-2026-08-01');
    expect(await again('anthropic', thinking, 'claude-opus-5')).not.toHaveProperty('thinking');
  });

  it.each([
    ['claude-haiku-5-5', { thinking: { type: 'disabled' } }, false],
    ['claude-sonnet-5-5', { thinking: { type: 'between_tools' } }, false],
    [
      'claude-opus-5-5',
      { thinking: { block_binding: {} }, output_config: { effort: 'low' } },
      true,
    ],
  ])('is left out, and that is reported, if %s is not to think', async (model, body, isSent) => {
    const metadata = { anthropic: { signature: 'sig-1' } };
    const parts = [{ type: 'reasoning' as const, text: 'Hm', metadata }];
    provider.script(streaming(anthropicFrames([anthropicText('Well')])));
    const events = await ask('anthropic', {
      model,
      reasoning: 'none',
      messages: [
        { role: 'user', content: 'Hi' },
        {
          role: 'assistant',
          content: 'Yes?',
          providerData: { provider: 'anthropic', model, parts },
        },
        { role: 'user', content: 'Well?' },
      ],
    });
    expect(provider.requests).toHaveLength(1);
    const sentBody = provider.requests[0]?.body;
    expect(sentBody).toMatchObject(body);
    expect(JSON.stringify(sentBody).includes('sig-1')).toBe(isSent);
    expect(finishOf(events).reasoningDropped).toBe(isSent ? undefined : true);
  });

  it('that Claude dropped is reported', async () => {
    const [start, ...rest] = anthropicFrames([anthropicText('Well')]) as [object, ...object[]];
    const dropped = [{ type: 'thinking_dropped', path: 'messages.1.content.0', reason: 'prefix' }];
    const { message } = start as { message: object };
    const told = { ...start, message: { ...message, input_transformations: dropped } };
    expect(finishOf(await askedAfter('anthropic', [told, ...rest])).reasoningDropped).toBe(true);
    const whole = finishOf(await askedAfter('anthropic', [start, ...rest]));
    expect(whole).not.toHaveProperty('reasoningDropped');
  });

  it('is sent to the same model only', async () => {
    const body = await again('anthropic', thinking, 'claude-haiku-4-5');
    expect(JSON.stringify(body)).not.toContain('sig-1');
    expect(JSON.stringify(body)).toContain('I look.');
  });

  const encrypted = responsesFrames([
    {
      type: 'response.output_item.added',
      output_index: 0,
      item: { type: 'reasoning', id: 'rs_1', summary: [], encrypted_content: 'enc-0' },
    },
    {
      type: 'response.output_item.done',
      output_index: 0,
      item: { type: 'reasoning', id: 'rs_1', summary: [], encrypted_content: 'enc-1' },
    },
    {
      type: 'response.output_item.added',
      output_index: 1,
      item: { type: 'function_call', id: 'fc_1', call_id: 'call_1', name: 'look', arguments: '' },
    },
    {
      type: 'response.output_item.done',
      output_index: 1,
      item: {
        type: 'function_call',
        id: 'fc_1',
        call_id: 'call_1',
        name: 'look',
        arguments: '{}',
        status: 'completed',
      },
    },
  ]);

  it('contains OpenAI’s encrypted reasoning', async () => {
    const body = await again('openai', encrypted);
    expect(body).toMatchObject({ store: false, include: ['reasoning.encrypted_content'] });
    expect(body['input']).toMatchObject([
      { role: 'user' },
      { type: 'reasoning', id: 'rs_1', encrypted_content: 'enc-1', summary: [] },
      { type: 'function_call', call_id: 'call_1', name: 'look', arguments: '{}' },
      { type: 'function_call_output', call_id: 'call_1', output: 'blue' },
    ]);
  });

  it('contains Google’s thought signature with its call', async () => {
    const frames = [
      googleFrame([
        { text: 'Let me look.', thought: true },
        { functionCall: { name: 'look', args: {} }, thoughtSignature: 'sig-2' },
      ]),
    ];
    const { contents } = (await again('google', frames)) as { contents: unknown[] };
    expect(contents[1]).toMatchObject({
      role: 'model',
      parts: [{ functionCall: { name: 'look', args: {} }, thoughtSignature: 'sig-2' }],
    });
  });

  it('is omitted if the provider refuses it after a change of key', async () => {
    const events = await askedAfter('openai', encrypted);
    const { providerData } = finishOf(events);
    if (providerData === undefined) throw new Error('There is nothing to hand back');
    const messages: Message[] = [
      { role: 'user', content: 'Hi' },
      { role: 'assistant', content: 'Yes', providerData },
      { role: 'user', content: 'Go on' },
    ];
    provider.script((response, { body }) => {
      if (!JSON.stringify(body).includes('enc-1')) {
        return streaming(responsesFrames(responsesText('Well')))(response, {} as never);
      }
      const message = 'The encrypted content for item rs_1 could not be verified.';
      response.writeHead(400, { 'content-type': 'application/json' });
      return response.end(
        JSON.stringify({ error: { message, code: 'invalid_encrypted_content' } }),
      );
    });
    const retried = await ask('openai', { messages });
    expect(textIn(retried)).toBe('Well');
    expect(finishOf(retried).reasoningDropped).toBe(true);
    expect(provider.requests).toHaveLength(3);
  });
});

describe('output schema and reasoning', () => {
  const schema = {
    type: 'object',
    properties: { city: { type: 'string' } },
    required: ['city'],
    additionalProperties: false,
  };
  beforeEach(() => provider.script((response) => response.writeHead(400).end()));

  it('are sent to OpenAI as a format and an effort', async () => {
    await ask('openai', { outputSchema: schema, reasoning: 'low' }).catch(() => undefined);
    expect(sent()).toMatchObject({
      text: { format: { type: 'json_schema', strict: true, schema } },
      reasoning: { effort: 'low' },
    });
    const { additionalProperties: _, ...loose } = schema;
    await ask('openai', { outputSchema: loose }).catch(() => undefined);
    expect(sent()).toMatchObject({ text: { format: { type: 'json_schema', strict: false } } });
    expect(sent()).not.toHaveProperty('reasoning');
  });

  it('are sent to Anthropic as a format and a thinking budget', async () => {
    await ask('anthropic', { outputSchema: schema, reasoning: 'low' }).catch(() => undefined);
    expect(sent()).toMatchObject({
      output_config: { format: { type: 'json_schema' } },
      thinking: { type: 'enabled' },
    });
    expect(sent()).toMatchObject({ cache_control: { type: 'ephemeral' } });
  });

  it.each([
    ['openai', 'gpt-5.4', 'minimal', { reasoning: { effort: 'low' } }],
    ['openai', 'gpt-5.4', 'max', { reasoning: { effort: 'xhigh' } }],
    ['openai', 'o3', 'none', { reasoning: { effort: 'low' } }],
    ['openai', 'o4-mini', 'max', { reasoning: { effort: 'high' } }],
    ['openai', 'gpt-5-pro', 'minimal', { reasoning: { effort: 'high' } }],
    ['anthropic', 'claude-opus-4-6', 'minimal', { output_config: { effort: 'low' } }],
    ['anthropic', 'claude-opus-4-6', 'none', { thinking: { type: 'disabled' } }],
    [
      'google',
      'gemini-3-pro-preview',
      'max',
      { generationConfig: { thinkingConfig: { thinkingLevel: 'high' } } },
    ],
  ] as const)(
    'map a level that %s’s %s does not have: %s',
    async (name, model, reasoning, body) => {
      await ask(name, { model, reasoning }).catch(() => undefined);
      expect(sent()).toMatchObject(body);
    },
  );

  it('are refused for a model that does not reason', async () => {
    provider.script(streaming(responsesFrames(responsesText('Yes'))));
    await expect(ask('openai', { model: 'gpt-4o', reasoning: 'low' })).rejects.toThrow(
      'The model gpt-4o does not reason: leave out `reasoning`',
    );
    expect(textIn(await ask('openai', { model: 'gpt-4o', reasoning: 'none' }))).toBe('Yes');
  });

  it('that a provider refuses are named with its words', async () => {
    const message = 'Thinking level MEDIUM is not supported for this model. Use LOW or HIGH.';
    provider.script((response) => {
      response.writeHead(400, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ error: { code: 400, message, status: 'INVALID_ARGUMENT' } }));
    });
    const asked = ask('google', { model: 'gemini-3-pro-preview', reasoning: 'medium' });
    await expect(asked).rejects.toThrow(
      `The model gemini-3-pro-preview does not take reasoning "medium": ${message}`,
    );
    const plain = ask('google', { model: 'gemini-3-pro-preview' });
    await expect(plain).rejects.toThrow(`The provider answered 400: ${message}`);
  });

  it('are sent to Google as a schema and a thinking budget', async () => {
    await ask('google', { outputSchema: schema, reasoning: 'low' }).catch(() => undefined);
    expect(sent()).toMatchObject({
      generationConfig: {
        responseMimeType: 'application/json',
        responseJsonSchema: schema,
        thinkingConfig: { includeThoughts: true },
      },
    });
  });
});

describe('the limit of an answer', () => {
  const sent = () => provider.requests.at(-1)?.body;
  beforeEach(() => provider.script((response) => response.writeHead(400).end()));

  it('is at least what OpenAI accepts', async () => {
    await ask('openai', { maxOutputTokens: 3 }).catch(() => undefined);
    expect(sent()).toMatchObject({ max_output_tokens: 16 });
    await ask('openai', { maxOutputTokens: 300 }).catch(() => undefined);
    expect(sent()).toMatchObject({ max_output_tokens: 300 });
  });

  it.each([
    ['claude-sonnet-4-5', 10_000, { max_tokens: 10_000, thinking: { budget_tokens: 5_000 } }],
    ['claude-opus-4-1-20250805', 4_096, { max_tokens: 4_096, thinking: { budget_tokens: 2_048 } }],
    ['claude-haiku-4-5', 2_000, { max_tokens: 2_000, thinking: { type: 'disabled' } }],
    ['claude-opus-5-5', 2_000, { max_tokens: 2_000, thinking: { type: 'adaptive' } }],
  ])('includes the thinking of %s', async (model, maxOutputTokens, body) => {
    await ask('anthropic', { model, maxOutputTokens, reasoning: 'high' }).catch(() => undefined);
    expect(sent()).toMatchObject(body);
  });
});

describe('the model that answered', () => {
  it('is reported for Google too', async () => {
    const frame = { ...googleFrame([{ text: 'Hi' }]), modelVersion: 'gemini-2.5-flash-001' };
    expect(finishOf(await askedAfter('google', [frame]))).toMatchObject({
      model: 'gemini-2.5-flash-001',
    });
  });
});
