import type { Model, ModelRegistry, Price } from '@relay/core';

export interface ModelEntry {
  readonly id: string;
  readonly provider: string;
  readonly model: Model;
  readonly price?: Price;
}

/** Models by their exact ids. */
export function createModelRegistry(entries: readonly ModelEntry[]): ModelRegistry {
  const byId = new Map<string, ModelEntry>();
  for (const entry of entries) {
    if (entry.id === '') throw new TypeError('A model needs an id');
    if (byId.has(entry.id)) throw new TypeError(`There are two models with the id ${entry.id}`);
    byId.set(entry.id, entry);
  }
  return {
    resolve: (name) => byId.get(name)?.model,
    price: (name) => byId.get(name)?.price,
    list: () => Array.from(byId.values(), ({ id, provider }) => ({ id, provider })),
  };
}

/** The same models, with what they cost by name. */
export function withPrices(
  models: ModelRegistry,
  prices: Readonly<Record<string, Price>>,
): ModelRegistry {
  const byName = new Map(Object.entries(prices));
  return { ...models, price: (name) => byName.get(name) ?? models.price?.(name) };
}
