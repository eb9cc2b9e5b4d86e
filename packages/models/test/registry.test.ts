import { describe, expect, it } from 'vitest';
import { createDemoModel } from '../src/demo/demo.ts';
import { createModelRegistry, withPrices, parseModelName } from '../src/registry.ts';
import { knownModel } from '../src/known-models.ts';

const entry = (id: string, provider = 'p') => ({ id, provider, model: createDemoModel() });

describe('the model registry', () => {
  it('finds a model by its exact id', () => {
    const demo = entry('demo');
    const registry = createModelRegistry([demo, entry('openai:gpt-x')]);
    expect(registry.resolve('demo')).toBe(demo.model);
    for (const name of ['Demo', 'demo ', 'gpt-x', '', 'constructor', '__proto__', 'toString']) {
      expect(registry.resolve(name)).toBeUndefined();
    }
  });

  it('lists only ids and providers, in order', () => {
    const registry = createModelRegistry([entry('b', 'two'), entry('a', 'one')]);
    expect(registry.list()).toEqual([
      { id: 'b', provider: 'two' },
      { id: 'a', provider: 'one' },
    ]);
  });

  it('may be empty', () => {
    expect(createModelRegistry([]).list()).toEqual([]);
  });

  it('refuses duplicate and empty ids', () => {
    expect(() => createModelRegistry([entry('a', 'x'), entry('a', 'y')])).toThrow(
      'There are two models with the id a',
    );
    expect(() => createModelRegistry([entry('')])).toThrow('A model needs an id');
  });
});

describe('prices', () => {
  const price = { inputPerMillion: 1, outputPerMillion: 2 };

  it('are found for models that have one', () => {
    const registry = createModelRegistry([{ ...entry('a'), price }, entry('b')]);
    expect(registry.price?.('a')).toEqual(price);
    expect(registry.price?.('b')).toBeUndefined();
    expect(registry.price?.('constructor')).toBeUndefined();
  });

  it('can be overridden by name', () => {
    const own = { inputPerMillion: 5, outputPerMillion: 6 };
    const models = withPrices(createModelRegistry([{ ...entry('a'), price }, entry('b')]), {
      a: own,
    });
    expect(models.price?.('a')).toEqual(own);
    expect(models.price?.('b')).toBeUndefined();
    expect(models.price?.('toString')).toBeUndefined();
    expect(models.resolve('b')).toBeDefined();
  });
});

describe('parseModelName', () => {
  it.each([
    ['gpt-4o-mini', 'openai', 'gpt-4o-mini'],
    ['chatgpt-4o-latest', 'openai', 'chatgpt-4o-latest'],
    ['o1-preview', 'openai', 'o1-preview'],
    ['o3', 'openai', 'o3'],
    ['o4-mini', 'openai', 'o4-mini'],
    ['claude-sonnet-4', 'anthropic', 'claude-sonnet-4'],
    ['gemini-2.5-pro', 'google', 'gemini-2.5-pro'],
    ['zhipu:glm-4.7', 'zhipu', 'glm-4.7'],
    ['openai:my-tune:v2', 'openai', 'my-tune:v2'],
    ['local:claude-like', 'local', 'claude-like'],
  ])('%s means %s', (name, provider, model) => {
    expect(parseModelName(name)).toEqual({ provider, model });
  });

  it.each([
    '',
    'demo',
    'glm-4.7',
    'o2',
    'GPT-4',
    ':x',
    'x:',
    'A:b',
    `${'a'.repeat(33)}:m`,
    'mygpt-4',
  ])('%j means none', (name) => {
    expect(parseModelName(name)).toBeUndefined();
  });
});

describe('a well-known model', () => {
  it.each(['gpt-4o', 'openai:gpt-4o', 'gpt-4o-2024-08-06'])('is found as %s', (name) => {
    expect(knownModel(name)).toEqual({
      contextTokens: 128_000,
      price: { inputPerMillion: 2.5, outputPerMillion: 10, cachedInputPerMillion: 1.25 },
    });
  });

  it('has a price of cache writes if its provider charges for them', () => {
    for (const name of ['claude-sonnet-4-5', 'claude-sonnet-4-5-20250929']) {
      expect(knownModel(name)?.price).toMatchObject({
        inputPerMillion: 3,
        cachedInputPerMillion: 0.3,
        cacheWritePerMillion: 3.75,
      });
    }
  });

  it.each([
    ['claude-opus-6', 1_000_000],
    ['claude-sonnet-5-9-20270101', 1_000_000],
    ['gpt-7-sol', 922_000],
    ['gpt-6.2', 922_000],
    ['gpt-5.7-mini', 272_000],
    ['gpt-5-codex', 272_000],
    ['gemini-4-flash', 1_048_576],
    ['gemini-flash-latest', 1_048_576],
    ['o3-pro', 200_000],
  ])('that is newer than the table has the window of its family: %s', (name, contextTokens) => {
    expect(knownModel(name)).toEqual({ contextTokens });
  });

  it('has the window and the price of the operator’s own table first', () => {
    const price = { inputPerMillion: 7, outputPerMillion: 9 };
    const own = { 'gpt-6-sol': { price }, 'ollama:qwen3': { contextTokens: 32_000 } };
    expect(knownModel('gpt-6-sol', own)).toEqual({ contextTokens: 922_000, price });
    expect(knownModel('openai:gpt-6-sol-2026-09-22', own)).toMatchObject({ price });
    expect(knownModel('ollama:qwen3', own)).toEqual({ contextTokens: 32_000 });
    expect(knownModel('acme:gpt-6-sol', own)).toBeUndefined();
  });

  it.each(['demo', 'acme:gpt-4o', 'openai:constructor', 'anthropic:gpt-4o', ''])(
    'is not %s',
    (name) => {
      expect(knownModel(name)).toBeUndefined();
    },
  );
});
