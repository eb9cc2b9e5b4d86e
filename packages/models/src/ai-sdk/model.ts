/**
 * An AI SDK provider as a `Model`. Only the provider packages of the SDK are used, each loaded on
 * demand; the loop, the retries and the connections are Relay's.
 */
import type {
  LanguageModelV4,
  LanguageModelV4CallOptions,
  SharedV4ProviderOptions,
} from '@ai-sdk/provider';
import {
  defaultSettings,
  type Model,
  type ModelEvent,
  type ModelRequest,
  ProviderFailure,
} from '@relay/core';
import { defined } from '@relay/protocol';
import { PartBatches } from './part-batches.ts';
import { checkApiKey, endedEarly, ProviderRefusal } from '../http/provider-failure.ts';
import { type ProviderOptions, SafeNames } from '../provider-request.ts';
import { type AnswerOptions, SdkAnswer, failureOfSdk } from './answer.ts';
import { promptOf } from './prompt.ts';

export interface SdkProvider {
  /** The name in `providerData`. */
  readonly provider: string;
  readonly systemAnywhere: boolean;
  /** The media types that it reads in the result of a tool. */
  readonly resultMedia: RegExp;
  load(): Promise<(model: string) => LanguageModelV4>;
  keep: AnswerOptions['keep'];
  settings(request: ModelRequest): SharedV4ProviderOptions;
  /** Whether this request must go without the metadata of earlier answers. Default: no. */
  omitsMetadata?(request: ModelRequest): boolean;
  /** The limit that the package gets. Default: the one that is wanted. */
  maxOutputTokens?(wanted: number, request: ModelRequest): number;
  /** The model that answered, from a raw chunk, if the package does not report it. */
  responseModel?: AnswerOptions['responseModel'];
}

type Answer = AsyncGenerator<readonly ModelEvent[], void, undefined>;

export function createSdkModel(sdk: SdkProvider, options: ProviderOptions): Model {
  checkApiKey(options.apiKey);
  const { apiKey, contextTokens } = options;
  let loaded: ReturnType<SdkProvider['load']> | undefined;
  const load = () => (loaded ??= sdk.load());
  return {
    ...defined({ contextTokens }),
    stream: (request, signal) => streamAnswer({ sdk, apiKey, load, request, signal }),
  };
}

interface SdkCall {
  readonly sdk: SdkProvider;
  readonly apiKey: string;
  readonly load: SdkProvider['load'];
  readonly request: ModelRequest;
  readonly signal: AbortSignal;
}

/** Errors about metadata of earlier answers, which is invalid after a change of key or model. */
const refusedMetadata = /signature|encrypted|thinking block|reasoning.*item/is;

/** Errors about the level of reasoning; their words usually name the levels of the model. */
const refusedLevel = /reasoning[._ ]effort|thinking|\beffort\b/i;

function levelRefused({ model, reasoning }: ModelRequest, detail: string, cause: unknown): unknown {
  if (reasoning === undefined) return cause;
  const message = `The model ${model} does not take reasoning "${reasoning}": ${detail}`;
  return new ProviderFailure(message, { retryable: false });
}

async function* streamAnswer(call: SdkCall): Answer {
  const hasMetadata = call.request.messages.some(
    (message) => message.role === 'assistant' && message.providerData !== undefined,
  );
  const omitted = hasMetadata && call.sdk.omitsMetadata?.(call.request) === true;
  try {
    yield* attempt(call, omitted);
  } catch (cause) {
    const refusal = cause instanceof ProviderRefusal && cause.status === 400 ? cause.detail : '';
    const isRefused = refusedMetadata.test(refusal);
    if (!hasMetadata || omitted || call.signal.aborted || !isRefused) {
      throw refusedLevel.test(refusal) ? levelRefused(call.request, refusal, cause) : cause;
    }
    // The request was refused before any output, so it can be sent again without metadata.
    yield* attempt(call, true);
  }
}

async function* attempt(
  { sdk, apiKey, load, request, signal }: SdkCall,
  withoutMetadata: boolean,
): Answer {
  const { provider, keep } = sdk;
  const { model } = request;
  const names = new SafeNames(request.tools.map(({ name }) => name));
  const maxChars = request.maxAnswerChars ?? defaultSettings.maxAnswerChars;
  const answer = new SdkAnswer({
    provider,
    model,
    names,
    apiKey,
    withoutMetadata,
    maxChars,
    keep,
    responseModel: sdk.responseModel,
  });
  try {
    const language = (await load())(model);
    const { stream } = await language.doStream(
      callOptions(sdk, request, { names, signal, withoutMetadata }),
    );
    yield* new PartBatches(stream, answer).all(signal);
  } catch (cause) {
    throw failureOfSdk(cause, apiKey, signal);
  }
  if (!answer.finished) throw endedEarly();
}

function callOptions(
  sdk: SdkProvider,
  request: ModelRequest,
  options: { names: SafeNames; signal: AbortSignal; withoutMetadata: boolean },
): LanguageModelV4CallOptions {
  const { messages, tools, model, outputSchema, reasoning } = request;
  const limit = request.maxOutputTokens;
  const maxOutputTokens =
    limit === undefined ? undefined : (sdk.maxOutputTokens?.(limit, request) ?? limit);
  const { names, signal, withoutMetadata } = options;
  const { provider, systemAnywhere, resultMedia } = sdk;
  const ids = new SafeNames([]);
  return {
    prompt: promptOf(messages, {
      provider,
      model,
      names,
      ids,
      systemAnywhere,
      resultMedia,
      withoutMetadata,
    }),
    abortSignal: signal,
    providerOptions: sdk.settings(request),
    ...(sdk.responseModel === undefined ? {} : { includeRawChunks: true }),
    ...(tools.length === 0 ? {} : { tools: tools.map((tool) => functionTool(tool, names)) }),
    ...defined({ reasoning, maxOutputTokens }),
    ...(outputSchema === undefined
      ? {}
      : { responseFormat: { type: 'json' as const, schema: outputSchema, name: 'answer' } }),
  };
}

function functionTool(
  { name, description, inputSchema }: ModelRequest['tools'][number],
  names: SafeNames,
) {
  // Every provider requires an object schema.
  const schema = { properties: {}, ...inputSchema, type: 'object' as const };
  return { type: 'function' as const, name: names.safe(name), description, inputSchema: schema };
}
