import { createScriptedModel, finish, text } from '@relay/core/testing';
import { createModelRegistry } from '@relay/models';
import { afterEach, describe, expect, test } from 'vitest';
import {
  createAgentHarness,
  createDefaultHarness,
  createDeterministicHarness,
  createModelHarness,
  type Harness,
  type Model,
  RelayError,
  registerModel,
  unregisterModel,
} from '../src/index.ts';
import { messages, only, readAll, says, textOf } from './support/fixtures.ts';

const names = ['acme', 'acme-*', 'acme-large*', 'demo', 'gpt-own'];
afterEach(() => names.forEach(unregisterModel));

const noKeys = {};

function saying(content: string): Harness {
  return createDeterministicHarness([says(content)]);
}

function answerOf(harness: Harness, model: string): Promise<string> {
  return readAll(createAgentHarness({ harness }).invoke({ model, messages })).then(textOf);
}

describe('createDefaultHarness', () => {
  test('has the model demo, and needs no key for it', async () => {
    expect(await answerOf(createDefaultHarness(noKeys), 'demo')).toContain('I am the demo model');
  });

  test('has registered models: the exact name first, then the longest prefix', async () => {
    registerModel('acme-*', saying('some'));
    registerModel('acme-large*', saying('large'));
    registerModel('acme', saying('exact'));
    const harness = createDefaultHarness(noKeys);
    expect(await answerOf(harness, 'acme')).toBe('exact');
    expect(await answerOf(harness, 'acme-1')).toBe('some');
    expect(await answerOf(harness, 'acme-large-2')).toBe('large');
    registerModel('acme-large-2', saying('newer'));
    expect(await answerOf(harness, 'acme-large-2')).toBe('newer');
    expect(unregisterModel('acme-large-2')).toBe(true);
    expect(unregisterModel('acme-large-2')).toBe(false);
    expect(await answerOf(harness, 'acme-large-2')).toBe('large');
  });

  test('can replace the model demo', async () => {
    registerModel('demo', saying('mine'));
    expect(await answerOf(createDefaultHarness(noKeys), 'demo')).toBe('mine');
  });

  test.each(['gpt-4o', 'chatgpt-4o-latest', 'o1', 'o3-mini', 'o4-mini'])(
    'has %s only where there is a key for it',
    (model) => {
      expect(createDefaultHarness(noKeys).resolve?.(model)).toBeUndefined();
      expect(createDefaultHarness({ OPENAI_API_KEY: '' }).resolve?.(model)).toBeUndefined();
      expect(createDefaultHarness({ OPENAI_API_KEY: 'sk-x' }).resolve?.(model)).toBeDefined();
    },
  );

  test.each([
    ['claude-sonnet-4-5', 'ANTHROPIC_API_KEY'],
    ['gemini-2.5-flash', 'GEMINI_API_KEY'],
    ['gemini-2.5-flash', 'GOOGLE_GENERATIVE_AI_API_KEY'],
    ['anthropic:some-model', 'ANTHROPIC_API_KEY'],
  ])('offers %s where there is a %s, at its list price', (model, key) => {
    expect(createDefaultHarness(noKeys).resolve?.(model)).toBeUndefined();
    const harness = createDefaultHarness({ [key]: 'sk-x' });
    expect(harness.resolve?.(model)).toBeDefined();
    expect(harness.price?.('claude-sonnet-4-5')).toMatchObject({ inputPerMillion: 3 });
  });

  test('rejects an unknown model before anything runs', () => {
    const agent = createAgentHarness({ harness: createDefaultHarness(noKeys) });
    for (const model of ['glm-4.7', 'toString', '__proto__', 'acme-1']) {
      const invoke = () => agent.invoke({ model, messages });
      expect(invoke).toThrow(RelayError);
      expect(invoke).toThrow(expect.objectContaining({ code: 'model_unresolved' }));
      expect(invoke).toThrow(model);
    }
    expect(() => agent.invoke({ messages })).toThrow('No model was requested');
  });

  test('rejects a stream of an unknown model', () => {
    const request = { model: 'nobody', messages: [], tools: [] };
    const stream = () => createDefaultHarness(noKeys).stream(request, AbortSignal.abort());
    expect(stream).toThrow('No harness offers the model nobody');
  });
});

describe('registerModel', () => {
  test('rejects an empty name', () => {
    for (const name of ['', '*']) expect(() => registerModel(name, saying('x'))).toThrow(TypeError);
  });
});

describe('createModelHarness', () => {
  const price = { inputPerMillion: 1, outputPerMillion: 2 };
  const large: Model = {
    contextTokens: 1_000,
    ...createScriptedModel([[text('Large'), finish()]]),
  };
  const registry = createModelRegistry([
    { id: 'large', provider: 'acme', model: large, price },
    { id: 'free', provider: 'acme', model: createScriptedModel([[text('Free'), finish()]]) },
  ]);

  test('offers its models, and no others', async () => {
    const harness = createModelHarness(registry);
    expect(await answerOf(harness, 'large')).toBe('Large');
    expect(await answerOf(harness, 'free')).toBe('Free');
    expect(() => createAgentHarness({ harness }).invoke({ model: 'none', messages })).toThrow(
      'No harness offers the model none',
    );
  });

  test('resolves the model itself, with its window and price', () => {
    const harness = createModelHarness(registry);
    expect(harness.resolve?.('large')?.contextTokens).toBe(1_000);
    expect(harness.price?.('large')).toEqual(price);
    expect(harness.price?.('free')).toBeUndefined();
  });

  test('can be registered, with its prices', async () => {
    registerModel('acme-*', {
      ...createModelHarness(registry),
      resolve: () => large,
      price: () => price,
    });
    const harness = createDefaultHarness(noKeys);
    expect(await answerOf(harness, 'acme-1')).toBe('Large');
    expect(harness.price?.('acme-1')).toEqual(price);
    expect(harness.price?.('demo')).toBeUndefined();
    expect(harness.resolve?.('acme-1')?.contextTokens).toBe(1_000);
  });

  test('lets a program limit the cost', async () => {
    const agent = createAgentHarness({ harness: createModelHarness(registry) });
    const limits = { costUsd: 1 };
    const events = await readAll(agent.invoke({ model: 'large', messages, limits }));
    expect(only(events, 'harness_end')[0]?.totalUsage.costUsd).toBeGreaterThan(0);
    expect(() => agent.invoke({ model: 'free', messages, limits })).toThrow(
      'limits.costUsd: The model free has no price: give its harness one',
    );
  });
});

describe('a model', () => {
  test('is a harness that accepts any name', async () => {
    const model = createScriptedModel([[text('Me'), finish()]]);
    expect(await answerOf(model, 'whatever')).toBe('Me');
    const agent = createAgentHarness({ harness: model });
    expect(textOf(await readAll(agent.invoke({ messages })))).toBe('Me');
    expect(model.requests.map((request) => request.model)).toEqual(['whatever', 'default']);
  });
});

describe('the requested model', () => {
  test('comes from the invocation, the agent, the options or the default of the harness', async () => {
    const asked: string[] = [];
    const harness: Harness = {
      defaultModel: 'of-the-harness',
      async *stream({ model }) {
        asked.push(model);
        yield [finish()];
      },
    };
    const agents = [{ name: 'named', model: 'of-the-agent' }, { name: 'plain' }];
    const loop = createAgentHarness({ harness, agents, model: 'of-the-loop' });
    await readAll(loop.invoke({ messages, agent: 'named', model: 'of-the-call' }));
    await readAll(loop.invoke({ messages, agent: 'named' }));
    await readAll(loop.invoke({ messages, agent: 'plain' }));
    await readAll(createAgentHarness({ harness }).invoke({ messages }));
    expect(asked).toEqual(['of-the-call', 'of-the-agent', 'of-the-loop', 'of-the-harness']);
  });
});
