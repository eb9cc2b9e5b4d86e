/**
 * Default prices and context sizes of well-known models. Prices in `relay.config.ts` override them.
 *
 * US dollars per million tokens: the providers' list prices as of January 2026, for ordinary requests
 * (no batches, no priority, no surcharge for long prompts).
 */
import type { Price } from '@relay/core';
import { parseModelName } from './registry.ts';

export interface KnownModel {
  readonly price: Price;
  readonly contextTokens: number;
}

type Row = readonly [input: number, output: number, cached: number, contextTokens: number];

const openai: Readonly<Record<string, Row>> = {
  'gpt-4o': [2.5, 10, 1.25, 128_000],
  'gpt-4o-mini': [0.15, 0.6, 0.075, 128_000],
  'gpt-4.1': [2, 8, 0.5, 1_047_576],
  'gpt-4.1-mini': [0.4, 1.6, 0.1, 1_047_576],
  'gpt-4.1-nano': [0.1, 0.4, 0.025, 1_047_576],
  o3: [2, 8, 0.5, 200_000],
  'o3-mini': [1.1, 4.4, 0.55, 200_000],
  'o4-mini': [1.1, 4.4, 0.275, 200_000],
  'gpt-5': [1.25, 10, 0.125, 400_000],
  'gpt-5-mini': [0.25, 2, 0.025, 400_000],
  'gpt-5-nano': [0.05, 0.4, 0.005, 400_000],
  'gpt-5.1': [1.25, 10, 0.125, 400_000],
  'gpt-5.2': [1.75, 14, 0.175, 400_000],
};
const anthropic: Readonly<Record<string, Row>> = {
  'claude-3-5-haiku': [0.8, 4, 0.08, 200_000],
  'claude-3-7-sonnet': [3, 15, 0.3, 200_000],
  'claude-sonnet-4': [3, 15, 0.3, 200_000],
  'claude-sonnet-4-0': [3, 15, 0.3, 200_000],
  'claude-sonnet-4-5': [3, 15, 0.3, 200_000],
  'claude-haiku-4-5': [1, 5, 0.1, 200_000],
  'claude-opus-4': [15, 75, 1.5, 200_000],
  'claude-opus-4-0': [15, 75, 1.5, 200_000],
  'claude-opus-4-1': [15, 75, 1.5, 200_000],
  'claude-opus-4-5': [5, 25, 0.5, 200_000],
};
const google: Readonly<Record<string, Row>> = {
  'gemini-2.0-flash': [0.1, 0.4, 0.025, 1_048_576],
  'gemini-2.5-pro': [1.25, 10, 0.125, 1_048_576],
  'gemini-2.5-flash': [0.3, 2.5, 0.03, 1_048_576],
  'gemini-2.5-flash-lite': [0.1, 0.4, 0.01, 1_048_576],
  'gemini-3-pro-preview': [2, 12, 0.2, 1_048_576],
  'gemini-3-flash-preview': [0.5, 3, 0.05, 1_048_576],
};
const providers = new Map([
  ['openai', openai],
  ['anthropic', anthropic],
  ['google', google],
]);

export function knownModelsOf(provider: string): string[] {
  return Object.keys(providers.get(provider) ?? {});
}

/** A version of a model has the price of the model. */
const version = /-(?:\d{8}|\d{4}-\d{2}-\d{2}|latest)$/;
/** Anthropic's price of cache writes, relative to the price of input. */
const anthropicCacheWrite = 1.25;

/** By any of its names, for example `gpt-4o`, `openai:gpt-4o` or `gpt-4o-2024-08-06`. */
export function knownModel(name: string): KnownModel | undefined {
  const named = parseModelName(name);
  const rows = providers.get(named?.provider ?? '');
  if (named === undefined || rows === undefined) return undefined;
  const model = [named.model, named.model.replace(version, '')].find((id) =>
    Object.hasOwn(rows, id),
  );
  const row = model === undefined ? undefined : rows[model];
  if (row === undefined) return undefined;
  const [inputPerMillion, outputPerMillion, cachedInputPerMillion, contextTokens] = row;
  const writes = named.provider === 'anthropic';
  return {
    contextTokens,
    price: {
      inputPerMillion,
      outputPerMillion,
      cachedInputPerMillion,
      ...(writes ? { cacheWritePerMillion: inputPerMillion * anthropicCacheWrite } : {}),
    },
  };
}
