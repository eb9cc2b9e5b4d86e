/** Harnesses that resolve models by name. */
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

/** A source of models. Every model is a harness that accepts any model name. */
export interface Harness extends Model {
  /** The model with this name. Without it, the harness itself is the model for every name. */
  resolve?(model: string): Model | undefined;
  /** The model if none is requested. */
  readonly defaultModel?: string;
  /** US dollars per million tokens; required for a cost limit. */
  readonly price?: (model: string) => Price | undefined;
  /** How long a relay waits for an answer. Default: forever. */
  readonly relayTimeoutMs?: number;
  /** The most characters of text, reasoning and tool calls in one answer. Default: 4 Mi. */
  readonly maxAnswerChars?: number;
}

export function modelOf(harness: Harness, name: string): Model | undefined {
  return harness.resolve === undefined ? harness : harness.resolve(name);
}

const registered = new Map<string, Harness>();

/**
 * Registers a model for the default harness. A name that ends in `*` is a prefix. An exact name takes
 * precedence, then the longest prefix.
 */
export function registerModel(name: string, harness: Harness): void {
  if (name === '' || name === '*')
    throw new TypeError('The name of a model must not be empty or "*"');
  registered.set(name, harness);
}

export function unregisterModel(name: string): boolean {
  return registered.delete(name);
}

export function unresolved(model: string): RelayError {
  const message =
    model === ''
      ? 'No model was requested, and the harness has no default model'
      : `No harness offers the model ${model}`;
  return new RelayError('model_unresolved', message, {
    details: [{ path: 'model', message: 'Unknown model' }],
  });
}

/** Registered models, the model `demo`, and providers whose key is in the environment. */
export function createDefaultHarness(
  env: Readonly<Record<string, string | undefined>> = process.env,
): Harness {
  const demo = createDemoModel();
  const providers = new Map([
    ['openai', openaiFrom(env)],
    ['anthropic', withKey(env['ANTHROPIC_API_KEY'], createAnthropicModel)],
    [
      'google',
      withKey(env['GOOGLE_GENERATIVE_AI_API_KEY'] ?? env['GEMINI_API_KEY'], createGoogleModel),
    ],
  ]);
  return resolvingHarness({
    resolve(name) {
      const harness = findRegistered(name);
      if (harness !== undefined) return modelOf(harness, name);
      if (name === 'demo') return demo;
      const named = parseModelName(name);
      return named === undefined ? undefined : withName(providers.get(named.provider), named.model);
    },
    price(name) {
      const harness = findRegistered(name);
      return harness === undefined ? knownModel(name)?.price : harness.price?.(name);
    },
  });
}

/** The model, called by the name that its provider uses. */
function withName(model: Model | undefined, name: string): Model | undefined {
  if (model === undefined) return undefined;
  return {
    ...model,
    stream: (request, signal) => model.stream({ ...request, model: name }, signal),
  };
}

function openaiFrom(env: Readonly<Record<string, string | undefined>>): Model | undefined {
  const apiKey = env['OPENAI_API_KEY'];
  const baseUrl = env['OPENAI_BASE_URL'];
  if (baseUrl === undefined || baseUrl === '') return withKey(apiKey, createResponsesModel);
  return withKey(apiKey, (options) => createChatCompletionsModel({ ...options, baseUrl }));
}

function withKey(
  apiKey: string | undefined,
  create: (options: { apiKey: string }) => Model,
): Model | undefined {
  return apiKey === undefined || apiKey === '' ? undefined : create({ apiKey });
}

function findRegistered(name: string): Harness | undefined {
  const exact = registered.get(name);
  if (exact !== undefined) return exact;
  const [prefix] = [...registered.keys()]
    .filter((key) => key.endsWith('*') && name.startsWith(key.slice(0, -1)))
    .toSorted((a, b) => b.length - a.length);
  return prefix === undefined ? undefined : registered.get(prefix);
}

/** A harness with the models of a registry. */
export function createModelHarness(models: ModelRegistry): Harness {
  return resolvingHarness({
    resolve: (name) => models.resolve(name),
    price: (name) => models.price?.(name),
  });
}

function resolvingHarness(models: Required<Pick<Harness, 'resolve' | 'price'>>): Harness {
  return {
    ...models,
    stream(request, signal) {
      const model = models.resolve(request.model);
      if (model === undefined) throw unresolved(request.model);
      return model.stream(request, signal);
    },
  };
}
