/**
 * Default context windows and prices of well-known models. Those in `relay.config.ts` and in the
 * operator's own table (`relay models update`) override them.
 *
 * US dollars per million tokens: list prices for ordinary requests (no batches, no priority, no
 * surcharge for long prompts). A window is what a prompt may fill: without the tokens that OpenAI reserves
 * for the answer (128,000 of 1,050,000 since GPT-5.4). A model whose price was found neither on the
 * provider's own pages nor in a copy of its price list has none.
 */
import type { Price } from '@relay/core';
import { defined } from '@relay/protocol';
import { parseModelName } from './registry.ts';

export interface KnownModel {
  readonly contextTokens?: number | undefined;
  readonly price?: Price | undefined;
}

/** Models by name, such as `gpt-6-sol`, `openai:gpt-6-sol` or `ollama:qwen3`. */
export type ModelTable = Readonly<Record<string, KnownModel>>;

type Prices = readonly [input: number, output: number, cached?: number, cacheWrite?: number];
type Row = readonly [contextTokens: number, prices?: Prices];

/** A page without a date has the month in which the newest model that it names was released. */
interface PriceList {
  readonly date?: string;
  readonly rows: Readonly<Record<string, Row>>;
}

const million = 1_000_000;
const openai: readonly PriceList[] = [
  // Copies of OpenAI's list, of July and August.
  {
    date: '2026-07',
    rows: {
      'gpt-4o': [128_000, [2.5, 10, 1.25]],
      'gpt-4o-mini': [128_000, [0.15, 0.6, 0.075]],
      'gpt-4.1': [1_047_576, [2, 8, 0.5]],
      'gpt-4.1-mini': [1_047_576, [0.4, 1.6, 0.1]],
      'gpt-4.1-nano': [1_047_576, [0.1, 0.4, 0.025]],
      o3: [200_000, [2, 8, 0.5]],
      'o3-mini': [200_000, [1.1, 4.4, 0.55]],
      'o4-mini': [200_000, [1.1, 4.4, 0.275]],
      'gpt-5': [272_000, [1.25, 10, 0.125]],
      'gpt-5-mini': [272_000, [0.25, 2, 0.025]],
      'gpt-5-nano': [272_000, [0.05, 0.4, 0.005]],
      'gpt-5.1': [272_000, [1.25, 10, 0.125]],
      'gpt-5.2': [272_000, [1.75, 14, 0.175]],
      'gpt-5.4': [922_000, [2.5, 15, 0.25]],
      'gpt-5.4-mini': [272_000, [0.75, 4.5, 0.075]],
      'gpt-5.4-nano': [272_000, [0.2, 1.25, 0.02]],
      'gpt-5.5': [922_000, [5, 30, 0.5]],
    },
  },
  // Lowered (GPT-5.6) or released after these copies. Only release notes of other projects name prices.
  {
    rows: {
      'gpt-5.6': [922_000],
      'gpt-5.6-sol': [922_000],
      'gpt-5.6-terra': [922_000],
      'gpt-5.6-luna': [922_000],
      'gpt-6-astra': [922_000],
      'gpt-6-sol': [922_000],
      'gpt-6-luna': [922_000],
      'gpt-6.1-sol': [922_000],
    },
  },
];
const anthropic: readonly PriceList[] = [
  // Anthropic's list.
  {
    date: '2026-02',
    rows: {
      'claude-3-7-sonnet': [200_000, [3, 15, 0.3, 3.75]],
      'claude-sonnet-4': [200_000, [3, 15, 0.3, 3.75]],
      'claude-sonnet-4-0': [200_000, [3, 15, 0.3, 3.75]],
      'claude-sonnet-4-5': [200_000, [3, 15, 0.3, 3.75]],
      'claude-sonnet-4-6': [million, [3, 15, 0.3, 3.75]],
      'claude-haiku-4-5': [200_000, [1, 5, 0.1, 1.25]],
    },
  },
  // Anthropic's list and its pages of the models.
  {
    date: '2026-09',
    rows: {
      'claude-sonnet-5': [million, [2, 10, 0.2, 2.5]],
      'claude-sonnet-5-5': [million, [2, 10, 0.2, 2.5]],
      'claude-opus-4': [200_000, [15, 75, 1.5, 18.75]],
      'claude-opus-4-0': [200_000, [15, 75, 1.5, 18.75]],
      'claude-opus-4-1': [200_000, [15, 75, 1.5, 18.75]],
      'claude-opus-4-5': [200_000, [5, 25, 0.5, 6.25]],
      'claude-opus-4-6': [million, [5, 25, 0.5, 6.25]],
      'claude-opus-4-7': [million, [5, 25, 0.5, 6.25]],
      'claude-opus-4-8': [million, [5, 25, 0.5, 6.25]],
      'claude-opus-5': [million, [5, 25, 0.5, 6.25]],
      'claude-opus-5-5': [million, [4, 20, 0.2, 5]],
      'claude-fable-5': [million, [10, 50, 1, 12.5]],
      'claude-fable-5-1': [million, [10, 50, 0.25, 12.5]],
    },
  },
  // The page of Haiku 5.5 says "From $0.10 / $0.50": there is no single price.
  {
    rows: {
      'claude-haiku-5-5': [million],
      'claude-fable-5-2': [million],
    },
  },
];
const google: readonly PriceList[] = [
  // Copies of Google's list. That of October confirms one price of each of these models.
  {
    date: '2026-01',
    rows: {
      'gemini-2.5-pro': [1_048_576, [1.25, 10, 0.125]],
      'gemini-2.5-flash': [1_048_576, [0.3, 2.5, 0.03]],
      'gemini-2.5-flash-lite': [1_048_576, [0.1, 0.4, 0.01]],
    },
  },
  // A copy of Google's list. Cached input costs a tenth.
  {
    date: '2026-10',
    rows: {
      'gemini-3.1-pro-preview': [1_048_576, [2, 12, 0.2]],
      'gemini-3.5-flash': [1_048_576, [1.5, 9, 0.15]],
      'gemini-3.5-flash-lite': [1_048_576, [0.3, 2.5, 0.03]],
    },
  },
  // Not in that copy, or at half the price until the end of 2026 (since 3.6).
  {
    rows: {
      'gemini-3-pro-preview': [1_048_576],
      'gemini-3-flash-preview': [1_048_576],
      'gemini-3.1-flash-lite': [1_048_576],
      'gemini-3.6-flash': [1_048_576],
      'gemini-3.7-flash': [1_048_576],
      'gemini-3.8-flash': [1_048_576],
    },
  },
];
const providers = new Map([
  ['openai', openai],
  ['anthropic', anthropic],
  ['google', google],
]);

/** The windows of models that are newer than the table, by family. Their prices are unknown. */
const families: readonly (readonly [provider: string, names: RegExp, contextTokens: number])[] = [
  ['openai', /^gpt-5(?:\.[0-3])?(?![.\d])/, 272_000],
  ['openai', /^gpt-5\.\d+-(?:mini|nano)/, 272_000],
  ['openai', /^gpt-(?:5\.\d+|[6-9]|[1-9]\d)(?![.\d]*o)/, 922_000],
  ['openai', /^gpt-4\.1/, 1_047_576],
  ['openai', /^(?:gpt-4o|chatgpt-4o)/, 128_000],
  ['openai', /^o[134](?!\d)/, 200_000],
  ['anthropic', /^claude-[a-z]+-(?:[5-9]|[1-9]\d)(?!\d)/, million],
  ['anthropic', /^claude-/, 200_000],
  ['google', /^gemini-(?:[3-9]|[1-9]\d|2\.5)(?!\d)/, 1_048_576],
  ['google', /^gemini-(?:pro|flash|flash-lite)-latest$/, 1_048_576],
];

export function knownModelsOf(provider: string): string[] {
  return (providers.get(provider) ?? []).flatMap(({ rows }) => Object.keys(rows));
}

/** The month of the list that the built-in price of a model is from. */
export function knownPriceDate(provider: string, model: string): string | undefined {
  return listOf(provider, model)?.date;
}

function listOf(provider: string, model: string): PriceList | undefined {
  return providers.get(provider)?.find(({ rows }) => Object.hasOwn(rows, model));
}

/** A version of a model has the price of the model. */
const version = /-(?:\d{8}|\d{4}-\d{2}-\d{2}|latest)$/;

/** By any of its names, for example `gpt-4o`, `openai:gpt-4o` or `gpt-4o-2024-08-06`. */
export function knownModel(name: string, own: ModelTable = {}): KnownModel | undefined {
  const named = parseModelName(name);
  if (named === undefined) return undefined;
  const { provider, model } = named;
  const ids = [model, model.replace(version, '')];
  const isShort = parseModelName(model)?.provider === provider;
  const configured = ids
    .flatMap((id) => [`${provider}:${id}`, ...(isShort ? [id] : [])])
    .find((id) => Object.hasOwn(own, id));
  const found = { ...builtIn(provider, ids), ...(configured === undefined ? {} : own[configured]) };
  return Object.keys(found).length === 0 ? undefined : found;
}

function builtIn(provider: string, ids: readonly string[]): KnownModel | undefined {
  const row = ids.map((id) => listOf(provider, id)?.rows[id]).find((each) => each !== undefined);
  if (row !== undefined) {
    const [contextTokens, prices] = row;
    return defined({ contextTokens, price: prices === undefined ? undefined : priceOf(prices) });
  }
  const family = families.find(([of, names]) => of === provider && names.test(ids[0] ?? ''));
  return family === undefined ? undefined : { contextTokens: family[2] };
}

function priceOf([inputPerMillion, outputPerMillion, cachedInputPerMillion, write]: Prices): Price {
  return defined({
    inputPerMillion,
    outputPerMillion,
    cachedInputPerMillion,
    cacheWritePerMillion: write,
  });
}
