import { describe, expect, it } from 'vitest';
import { createDemoModel } from '../src/demo.ts';
import { createModelRegistry, withPrices } from '../src/registry.ts';

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

  it('lists ids and providers in their order, and nothing else', () => {
    const registry = createModelRegistry([entry('b', 'two'), entry('a', 'one')]);
    expect(registry.list()).toEqual([
      { id: 'b', provider: 'two' },
      { id: 'a', provider: 'one' },
    ]);
  });

  it('may be empty', () => {
    expect(createModelRegistry([]).list()).toEqual([]);
  });

  it('refuses two models with one id, and a model without', () => {
    expect(() => createModelRegistry([entry('a', 'x'), entry('a', 'y')])).toThrow(
      'There are two models with the id a',
    );
    expect(() => createModelRegistry([entry('')])).toThrow('A model needs an id');
  });
});

describe('prices', () => {
  const price = { inputPerMillion: 1, outputPerMillion: 2 };

  it('are known of models that have one', () => {
    const registry = createModelRegistry([{ ...entry('a'), price }, entry('b')]);
    expect(registry.price?.('a')).toEqual(price);
    expect(registry.price?.('b')).toBeUndefined();
    expect(registry.price?.('constructor')).toBeUndefined();
  });

  it('can be set by name, above those that a model brings', () => {
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
