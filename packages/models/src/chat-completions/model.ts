/**
 * Any server that speaks the Chat Completions API, as a model. It is the hottest path of all, so it
 * is `node:http` and a parser of our own: no layer in between, one batch for each piece of network.
 */
import type { Agent } from 'node:http';
import type { Model, ModelEvent, ModelRequest } from '@relay/core';
import { ChatDecoder } from './decoder.ts';
import { chatRequestBody, type RequestOptions } from './request.ts';
import { openAnswer } from '../http/response.ts';
import { defaultTimeouts, HttpExchange, type Target, type Timeouts } from '../http/exchange.ts';
import { checkApiKey, failureToConnect, ProviderRefusal } from '../http/provider-failure.ts';
import { SafeNames } from '../provider-request.ts';

export interface ChatCompletionsOptions {
  /** Up to and including the version: `https://api.openai.com/v1`. */
  readonly baseUrl: string;
  readonly apiKey?: string;
  /** What the server calls the model; left out, the name in the request. */
  readonly model?: string;
  /** How many tokens fit into its window, if that is known. */
  readonly contextTokens?: number | undefined;
  readonly timeouts?: Partial<Timeouts> | undefined;
  /** Where connections come from; left out, a pool for all models of the process. */
  readonly agent?: Agent | undefined;
}

export function createChatCompletionsModel(options: ChatCompletionsOptions): Model {
  const { apiKey, model } = options;
  checkApiKey(apiKey);
  const target: Target = {
    url: endpoint(options.baseUrl),
    headers: {
      'content-type': 'application/json',
      accept: 'text/event-stream',
      ...(apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }),
    },
    agent: options.agent,
    timeouts: { ...defaultTimeouts, ...options.timeouts },
  };
  return {
    ...(options.contextTokens === undefined ? {} : { contextTokens: options.contextTokens }),
    stream(request, signal) {
      const call = { target, apiKey, request, model: model ?? request.model };
      return streamAccepted(call, signal);
    },
  };
}

function endpoint(baseUrl: string): URL {
  const url = new URL(baseUrl);
  if (url.protocol !== 'https:' && url.protocol !== 'http:') {
    throw new TypeError('The base URL of a provider begins with https:// or http://');
  }
  url.pathname = `${url.pathname.replace(/\/+$/, '')}/chat/completions`;
  return url;
}

interface Call {
  readonly target: Target;
  readonly apiKey: string | undefined;
  readonly request: ModelRequest;
  readonly model: string;
  readonly leftOut?: Omit<RequestOptions, 'names'>;
}

type Answer = AsyncGenerator<readonly ModelEvent[], void, undefined>;

/** Fields that a server may not know and names when it refuses them, and what is left out then. */
const unknown: readonly (readonly [field: RegExp, leftOut: Omit<RequestOptions, 'names'>])[] = [
  [/response_format/i, { toldOnly: true }],
  [/reasoning_content/i, { thoughtless: true }],
];

/** A server that refuses a field that others need is asked again without it. */
async function* streamAccepted(call: Call, signal: AbortSignal): Answer {
  try {
    yield* streamAnswer(call, signal);
  } catch (cause) {
    const isRefusal = cause instanceof ProviderRefusal && [400, 422].includes(cause.status);
    const refused = isRefusal ? unknown.find(([field]) => field.test(cause.said))?.[1] : undefined;
    const less = { ...call, leftOut: { ...call.leftOut, ...refused } };
    if (refused === undefined || bodyOf(call) === bodyOf(less)) throw cause;
    yield* streamAccepted(less, signal);
  }
}

function bodyOf({ request, model, leftOut = {} }: Call, names?: SafeNames): string {
  return chatRequestBody(request, model, names === undefined ? leftOut : { ...leftOut, names });
}

async function* streamAnswer(call: Call, signal: AbortSignal): Answer {
  const { target, apiKey, request, model } = call;
  const exchange = new HttpExchange(target, signal);
  const names = new SafeNames(request.tools.map(({ name }) => name));
  const decoder = new ChatDecoder(apiKey, names, model);
  try {
    const body = Buffer.from(bodyOf(call, names));
    await openAnswer(exchange, { body, secret: apiKey, signal });
    while (!decoder.done) {
      const text = await nextPiece(exchange, decoder, signal);
      const events = text === undefined ? decoder.end() : decoder.feed(text);
      if (events.length > 0) yield events;
    }
  } catch (cause) {
    throw failureToConnect(cause, { host: target.url.host, secret: apiKey });
  } finally {
    exchange.close({ finished: decoder.done });
  }
}

/** A provider that falls silent or breaks off after its answer was complete has not failed. */
async function nextPiece(
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
