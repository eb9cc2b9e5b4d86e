import { describe, expect, it } from 'vitest';
import { createDemoModel } from './demo.ts';
import { createModelRegistry } from './registry.ts';

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
