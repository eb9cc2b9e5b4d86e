import type { Model, ModelRegistry, Price } from '@relay/core';

export interface ModelEntry {
  readonly id: string;
  readonly provider: string;
  readonly model: Model;
  readonly price?: Price;
}

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

export function withPrices(
  models: ModelRegistry,
  prices: Readonly<Record<string, Price>>,
): ModelRegistry {
  const byName = new Map(Object.entries(prices));
  return { ...models, price: (name) => byName.get(name) ?? models.price?.(name) };
}

export interface ModelName {
  readonly provider: string;
  readonly model: string;
}

const qualified = /^([a-z0-9-]{1,32}):(.+)$/s;
const families: readonly (readonly [provider: string, names: RegExp])[] = [
  ['openai', /^(?:gpt-|chatgpt-|o1|o3|o4)/],
  ['anthropic', /^claude-/],
  ['google', /^gemini-/],
];

/** From `provider:model`, or from a known name prefix such as `gpt-`. */
export function parseModelName(name: string): ModelName | undefined {
  const [, provider, model] = qualified.exec(name) ?? [];
  if (provider !== undefined && model !== undefined) return { provider, model };
  const family = families.find(([, names]) => names.test(name));
  return family === undefined ? undefined : { provider: family[0], model: name };
}
