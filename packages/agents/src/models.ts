/** Models by name, for programs that do not hand in a harness of their own. */
import type { Model, ModelRegistry, Price } from '@relay/core';
import {
  createAnthropicModel,
  createChatCompletionsModel,
  createDemoModel,
  createGoogleModel,
  createResponsesModel,
  knownModel,
  parseModelName,
} from '@relay/models';
import { RelayError } from '@relay/protocol';

/** What offers models. Every model is a harness: it answers, whatever it is called. */
export interface Harness extends Model {
  /** The model behind a name, if there is one; left out: this one, for every name. */
  resolve?(model: string): Model | undefined;
  /** What to ask for where nobody says. */
  readonly defaultModel?: string;
  /** US dollars for a million tokens, by model; needed where the cost is limited. */
  readonly price?: (model: string) => Price | undefined;
  /** How long a relay waits for an answer; left out, or `Infinity`: for ever. */
  readonly relayTimeoutMs?: number;
}

export function modelOf(harness: Harness, name: string): Model | undefined {
  return harness.resolve === undefined ? harness : harness.resolve(name);
}

const registered = new Map<string, Harness>();

/**
 * Lets a model be asked for by its name anywhere in this program. A name that ends in `*` stands for
 * all that begin so; an exact name goes before, then the longest beginning.
 */
export function registerModel(name: string, harness: Harness): void {
  if (name === '' || name === '*') throw new TypeError('A model needs a name');
  registered.set(name, harness);
}

export function unregisterModel(name: string): boolean {
  return registered.delete(name);
}

export function unresolved(model: string): RelayError {
  const message =
    model === ''
      ? 'No model was named, and the harness has no default'
      : `No harness offers the model ${model}`;
  return new RelayError('model_unresolved', message, {
    details: [{ path: 'model', message: 'Unknown model' }],
  });
}

/** All that is registered, the model `demo`, and those of providers whose key is in the environment. */
export function createDefaultHarness(
  env: Readonly<Record<string, string | undefined>> = process.env,
): Harness {
  const demo = createDemoModel();
  const providers = new Map([
    ['openai', openaiFrom(env)],
    ['anthropic', keyed(env['ANTHROPIC_API_KEY'], createAnthropicModel)],
    [
      'google',
      keyed(env['GOOGLE_GENERATIVE_AI_API_KEY'] ?? env['GEMINI_API_KEY'], createGoogleModel),
    ],
  ]);
  return byName({
    resolve(name) {
      const own = findRegistered(name);
      if (own !== undefined) return modelOf(own, name);
      if (name === 'demo') return demo;
      const named = parseModelName(name);
      return named === undefined ? undefined : called(providers.get(named.provider), named.model);
    },
    price(name) {
      const own = findRegistered(name);
      return own === undefined ? knownModel(name)?.price : own.price?.(name);
    },
  });
}

/** The same model, by the name that its provider knows. */
function called(model: Model | undefined, name: string): Model | undefined {
  if (model === undefined) return undefined;
  return {
    ...model,
    stream: (request, signal) => model.stream({ ...request, model: name }, signal),
  };
}

function openaiFrom(env: Readonly<Record<string, string | undefined>>): Model | undefined {
  const apiKey = env['OPENAI_API_KEY'];
  const baseUrl = env['OPENAI_BASE_URL'];
  if (baseUrl === undefined || baseUrl === '') return keyed(apiKey, createResponsesModel);
  return keyed(apiKey, (options) => createChatCompletionsModel({ ...options, baseUrl }));
}

function keyed(
  apiKey: string | undefined,
  create: (options: { apiKey: string }) => Model,
): Model | undefined {
  return apiKey === undefined || apiKey === '' ? undefined : create({ apiKey });
}

function findRegistered(name: string): Harness | undefined {
  const exact = registered.get(name);
  if (exact !== undefined) return exact;
  const [beginning] = [...registered.keys()]
    .filter((key) => key.endsWith('*') && name.startsWith(key.slice(0, -1)))
    .toSorted((a, b) => b.length - a.length);
  return beginning === undefined ? undefined : registered.get(beginning);
}

/** The models of a registry, as a harness. */
export function createModelHarness(models: ModelRegistry): Harness {
  return byName({
    resolve: (name) => models.resolve(name),
    price: (name) => models.price?.(name),
  });
}

function byName(found: Required<Pick<Harness, 'resolve' | 'price'>>): Harness {
  return {
    ...found,
    stream(request, signal) {
      const model = found.resolve(request.model);
      if (model === undefined) throw unresolved(request.model);
      return model.stream(request, signal);
    },
  };
}
