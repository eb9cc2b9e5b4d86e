/**
 * A server with the Chat Completions API as a `Model`. This is the hottest path, so it uses `node:http`
 * and Relay's own parser directly, with one batch of events per read.
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
      streamAnswer({ target, apiKey, request, model: model ?? request.model }, signal),
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

async function* streamAnswer(call: Call, signal: AbortSignal): Answer {
  checkFiles(call.request);
  const { exchange, decoder } = await open(call, signal);
  try {
    while (!decoder.done) {
      const events = await nextEvents(exchange, decoder, signal);
      if (events.length > 0) yield events;
    }
  } catch (cause) {
    throw failureToConnect(cause, call.target.url.host, call.apiKey);
  } finally {
    exchange.close({ finished: decoder.done });
  }
}

interface OpenAnswer {
  readonly exchange: HttpExchange;
  readonly decoder: ChatDecoder;
}

/** Sends the request, and again without a field that the server refuses. */
async function open(call: Call, signal: AbortSignal): Promise<OpenAnswer> {
  const { target, apiKey, request, model } = call;
  const exchange = new HttpExchange(target, signal);
  const names = new SafeNames(request.tools.map(({ name }) => name));
  try {
    await openStream(exchange, Buffer.from(bodyOf(call, names)), apiKey, signal);
    return { exchange, decoder: new ChatDecoder(apiKey, names, model, request.maxAnswerChars) };
  } catch (cause) {
    exchange.close({ finished: false });
    const failure = failureToConnect(cause, target.url.host, apiKey);
    return open(withoutRefusedField(call, failure), signal);
  }
}

/** The call without the field that the failure names; throws the failure if it is about anything else. */
function withoutRefusedField(call: Call, failure: unknown): Call {
  const isRefusal = failure instanceof ProviderRefusal && [400, 422].includes(failure.status);
  if (!isRefusal) throw failure;
  const { reasoning } = call.request;
  if (/reasoning_effort/i.test(failure.detail) && reasoning !== undefined && reasoning !== 'none') {
    const message = `The model ${call.model} does not take reasoning "${reasoning}": ${failure.detail}`;
    throw new ProviderFailure(message, { retryable: false });
  }
  const refused = optionalFields.find(
    ([field, omit]) => field.test(failure.detail) && isNew(omit, call),
  )?.[1];
  const reduced = { ...call, omit: { ...call.omit, ...refused } };
  if (refused === undefined || bodyOf(call) === bodyOf(reduced)) throw failure;
  return reduced;
}

/** A field is changed once, even if the server then refuses the change too. */
function isNew(omit: Omit<RequestOptions, 'names'>, call: Call): boolean {
  return Object.keys(omit).every((field) => !Object.hasOwn(call.omit ?? {}, field));
}

function bodyOf({ request, model, omit }: Call, names?: SafeNames): string {
  return chatRequestBody(request, model, { ...omit, ...defined({ names }) });
}

/** A timeout or a broken connection after a complete answer is not a failure. */
async function nextEvents(
  exchange: HttpExchange,
  decoder: ChatDecoder,
  signal: AbortSignal,
): Promise<readonly ModelEvent[]> {
  let text: string | undefined;
  try {
    await exchange.arrival({ isPaced: decoder.hasOutput });
    text = exchange.takeText();
  } catch (cause) {
    if (signal.aborted || !decoder.answered) throw cause;
  }
  return text === undefined ? decoder.end() : decoder.feed(text);
}
