/**
 * A server with the Chat Completions API as a `Model`. This is the hottest path, so it uses `node:http`
 * and Relay's own parser directly, with one batch of events per network chunk.
 */
import { type Model, type ModelEvent, type ModelRequest, ProviderFailure } from '@relay/core';
import { defined } from '@relay/protocol';
import { ChatDecoder } from './decoder.ts';
import { chatRequestBody, checkFiles, type RequestOptions } from './request.ts';
import { openStream } from '../http/response.ts';
import { defaultTimeouts, HttpExchange, type Target } from '../http/exchange.ts';
import { checkApiKey, failureToConnect, ProviderRefusal } from '../http/provider-failure.ts';
import { endpoint, type ProviderOptions, SafeNames } from '../provider-request.ts';

export interface ChatCompletionsOptions extends Omit<ProviderOptions, 'apiKey'> {
  readonly baseUrl: string;
  readonly apiKey?: string;
  /** The server's name of the model. Default: the name in the request. */
  readonly model?: string;
}

export function createChatCompletionsModel(options: ChatCompletionsOptions): Model {
  const { apiKey, model } = options;
  checkApiKey(apiKey);
  const target: Target = {
    url: endpoint(options.baseUrl, 'chat/completions'),
    headers: {
      'content-type': 'application/json',
      accept: 'text/event-stream',
      ...(apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }),
    },
    agent: options.agent,
    timeouts: { ...defaultTimeouts, ...options.timeouts },
  };
  return {
    ...defined({ contextTokens: options.contextTokens }),
    stream: (request, signal) =>
      streamWithFallback({ target, apiKey, request, model: model ?? request.model }, signal),
  };
}

interface Call {
  readonly target: Target;
  readonly apiKey: string | undefined;
  readonly request: ModelRequest;
  readonly model: string;
  readonly omit?: Omit<RequestOptions, 'names'>;
}

type Answer = AsyncGenerator<readonly ModelEvent[], void, undefined>;

/** Fields that some servers do not know, by how their error messages name them. */
const optionalFields: readonly (readonly [field: RegExp, omit: Omit<RequestOptions, 'names'>])[] = [
  [/response_format/i, { omitResponseFormat: true }],
  [/reasoning_content/i, { omitReasoning: true }],
  // "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens'".
  [/max_tokens.*max_completion_tokens/is, { limitCompletion: true }],
  [
    /(?:unknown|unrecogni[sz]ed|unsupported|unexpected|extra|not (?:permitted|supported|allowed)).*max_completion_tokens|max_completion_tokens.*(?:extra|not (?:permitted|supported|allowed))/is,
    { limitCompletion: false },
  ],
  [/reasoning_effort/i, { omitNoReasoning: true }],
];

/** Retries without a field that the server refuses. */
async function* streamWithFallback(call: Call, signal: AbortSignal): Answer {
  checkFiles(call.request);
  try {
    yield* streamAnswer(call, signal);
  } catch (cause) {
    const isRefusal = cause instanceof ProviderRefusal && [400, 422].includes(cause.status);
    const refused = isRefusal
      ? optionalFields.find(([field, omit]) => field.test(cause.detail) && isNew(omit, call))?.[1]
      : undefined;
    const reduced = { ...call, omit: { ...call.omit, ...refused } };
    const { reasoning } = call.request;
    const isLevelRefused = isRefusal && /reasoning_effort/i.test(cause.detail);
    if (isLevelRefused && reasoning !== undefined && reasoning !== 'none') {
      const message = `The model ${call.model} does not take reasoning "${reasoning}": ${cause.detail}`;
      throw new ProviderFailure(message, { retryable: false });
    }
    if (refused === undefined || bodyOf(call) === bodyOf(reduced)) throw cause;
    yield* streamWithFallback(reduced, signal);
  }
}

/** A field is changed once, even if the server then refuses the change too. */
function isNew(omit: Omit<RequestOptions, 'names'>, call: Call): boolean {
  return Object.keys(omit).every((field) => !Object.hasOwn(call.omit ?? {}, field));
}

function bodyOf({ request, model, omit }: Call, names?: SafeNames): string {
  return chatRequestBody(request, model, { ...omit, ...defined({ names }) });
}

async function* streamAnswer(call: Call, signal: AbortSignal): Answer {
  const { target, apiKey, request, model } = call;
  const exchange = new HttpExchange(target, signal);
  const names = new SafeNames(request.tools.map(({ name }) => name));
  const decoder = new ChatDecoder(apiKey, names, model, request.maxAnswerChars);
  try {
    await openStream(exchange, Buffer.from(bodyOf(call, names)), apiKey, signal);
    while (!decoder.done) {
      const text = await nextChunk(exchange, decoder, signal);
      const events = text === undefined ? decoder.end() : decoder.feed(text);
      if (events.length > 0) yield events;
    }
  } catch (cause) {
    throw failureToConnect(cause, target.url.host, apiKey);
  } finally {
    exchange.close({ finished: decoder.done });
  }
}

/** A timeout or a broken connection after a complete answer is not a failure. */
async function nextChunk(
  exchange: HttpExchange,
  decoder: ChatDecoder,
  signal: AbortSignal,
): Promise<string | undefined> {
  try {
    return await exchange.read();
  } catch (cause) {
    if (signal.aborted || !decoder.answered) throw cause;
    return undefined;
  }
}
