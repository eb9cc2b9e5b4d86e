/** Which provider a model's name means, and what the model is called there. */
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

/** `provider:model` says it; otherwise it is known by the family of the name, or not at all. */
export function parseModelName(name: string): ModelName | undefined {
  const [, provider, model] = qualified.exec(name) ?? [];
  if (provider !== undefined && model !== undefined) return { provider, model };
  const family = families.find(([, names]) => names.test(name));
  return family === undefined ? undefined : { provider: family[0], model: name };
}
