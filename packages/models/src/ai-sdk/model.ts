/**
 * A provider of the AI SDK behind our port. Of the SDK only the providers' packages are used, each
 * loaded when it is first needed; the loop, the retries and the connections are ours.
 */
import type {
  LanguageModelV4,
  LanguageModelV4CallOptions,
  SharedV4ProviderOptions,
} from '@ai-sdk/provider';
import { type Model, type ModelEvent, type ModelRequest, ProviderFailure } from '@relay/core';
import { PartBatches } from './part-batches.ts';
import type { Connecting } from '../http/provider-fetch.ts';
import { checkApiKey, ProviderRefusal } from '../http/provider-failure.ts';
import { SafeNames } from '../provider-request.ts';
import { type AnswerOptions, SdkAnswer, failureOfSdk } from './answer.ts';
import { promptOf } from './prompt.ts';

/** What all models of the providers below can be told. */
export interface ProviderOptions extends Connecting {
  /** Up to and including the version; left out, the provider's own. */
  readonly baseUrl?: string | undefined;
  /** How many tokens fit into its window, if that is known. */
  readonly contextTokens?: number | undefined;
}

export interface SdkProvider {
  /** By what name its marks are kept. */
  readonly provider: string;
  readonly systemAnywhere: boolean;
  /** The package's model; the package is loaded with the first. */
  load(): Promise<(model: string) => LanguageModelV4>;
  keep: AnswerOptions['keep'];
  /** What this provider is asked for besides. */
  settings(request: ModelRequest): SharedV4ProviderOptions;
}

type Answer = AsyncGenerator<readonly ModelEvent[], void, undefined>;

export function createSdkModel(sdk: SdkProvider, options: ProviderOptions): Model {
  checkApiKey(options.apiKey);
  const { apiKey, contextTokens } = options;
  const asked = { sdk, apiKey, loaded: once(() => sdk.load()) };
  return {
    ...(contextTokens === undefined ? {} : { contextTokens }),
    stream: (request, signal) => streamAnswer({ ...asked, request, signal }),
  };
}

interface Asking {
  readonly sdk: SdkProvider;
  readonly apiKey: string;
  readonly loaded: () => Promise<(model: string) => LanguageModelV4>;
  readonly request: ModelRequest;
  readonly signal: AbortSignal;
}

/** Marks that a provider does not take back, because the key or the model has changed since. */
const refusedMarks = /signature|encrypted|thinking block|reasoning.*item/is;

async function* streamAnswer(asking: Asking): Answer {
  const marked = asking.request.messages.some(
    (message) => message.role === 'assistant' && message.providerData !== undefined,
  );
  try {
    yield* attempt(asking, { plain: false });
  } catch (cause) {
    const areRefused =
      cause instanceof ProviderRefusal && cause.status === 400 && refusedMarks.test(cause.said);
    if (!marked || asking.signal.aborted || !areRefused) throw cause;
    // It was refused before a word was said.
    yield* attempt(asking, { plain: true });
  }
}

async function* attempt(
  { sdk, apiKey, loaded, request, signal }: Asking,
  how: { plain: boolean },
): Answer {
  const { provider, keep } = sdk;
  const { model } = request;
  const names = new SafeNames(request.tools.map(({ name }) => name));
  const answer = new SdkAnswer({ provider, model, names, apiKey, keep });
  try {
    const language = (await loaded())(model);
    const { stream } = await language.doStream(
      callOptions(sdk, request, { names, signal, ...how }),
    );
    yield* new PartBatches(stream, answer).all(signal);
  } catch (cause) {
    throw failureOfSdk(cause, { apiKey, signal });
  }
  if (!answer.finished) {
    throw new ProviderFailure('The provider’s answer ended before it was finished', {
      retryable: true,
    });
  }
}

function callOptions(
  sdk: SdkProvider,
  request: ModelRequest,
  made: { names: SafeNames; signal: AbortSignal; plain: boolean },
): LanguageModelV4CallOptions {
  const { messages, tools, model, outputSchema, reasoning } = request;
  const { names, signal, plain } = made;
  const { provider, systemAnywhere } = sdk;
  const ids = new SafeNames([]);
  return {
    prompt: promptOf(messages, { provider, model, names, ids, systemAnywhere, plain }),
    abortSignal: signal,
    providerOptions: sdk.settings(request),
    ...(tools.length === 0 ? {} : { tools: tools.map((tool) => functionTool(tool, names)) }),
    ...(reasoning === undefined ? {} : { reasoning }),
    ...(outputSchema === undefined
      ? {}
      : { responseFormat: { type: 'json' as const, schema: outputSchema, name: 'answer' } }),
  };
}

function functionTool(
  { name, description, inputSchema }: ModelRequest['tools'][number],
  names: SafeNames,
) {
  // Every provider wants to hear that arguments are an object.
  const schema = { properties: {}, ...inputSchema, type: 'object' as const };
  return { type: 'function' as const, name: names.safe(name), description, inputSchema: schema };
}

function once<Value>(load: () => Promise<Value>): () => Promise<Value> {
  let loaded: Promise<Value> | undefined;
  return () => (loaded ??= load());
}
