/**
 * Any server that speaks the Chat Completions API, as a model. It is the hottest path of all, so it
 * is `node:http` and a parser of our own: no layer in between, one batch for each piece of network.
 */
import type { Agent } from 'node:http';
import type { Model, ModelEvent, ModelRequest } from '@relay/core';
import { ChatDecoder } from './chat-decoder.ts';
import { chatRequestBody } from './chat-request.ts';
import { HttpExchange, type Target } from './http-exchange.ts';
import { failureOfPlainAnswer, failureOfResponse, failureToConnect } from './provider-failure.ts';

export interface ChatCompletionsOptions {
  /** Up to and including the version: `https://api.openai.com/v1`. */
  readonly baseUrl: string;
  readonly apiKey?: string;
  /** What the server calls the model; left out, the name in the request. */
  readonly model?: string;
  /** How many tokens fit into its window, if that is known. */
  readonly contextTokens?: number;
  /** How long the provider may be silent before it is given up. Default: 5 minutes. */
  readonly idleTimeoutMs?: number;
  /** Where connections come from; left out, a pool for all models of the process. */
  readonly agent?: Agent;
}

const maxErrorChars = 16 * 1024;

export function createChatCompletionsModel(options: ChatCompletionsOptions): Model {
  const { apiKey, model } = options;
  if (apiKey !== undefined && !/^[\x21-\x7e]+$/.test(apiKey)) {
    throw new TypeError(
      'The API key of a provider is empty or holds a character that no header can carry',
    );
  }
  const target: Target = {
    url: endpoint(options.baseUrl),
    headers: {
      'content-type': 'application/json',
      accept: 'text/event-stream',
      ...(apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }),
    },
    agent: options.agent,
    idleTimeoutMs: options.idleTimeoutMs ?? 300_000,
  };
  return {
    ...(options.contextTokens === undefined ? {} : { contextTokens: options.contextTokens }),
    stream(request, signal) {
      return streamAnswer({ target, apiKey, request, model: model ?? request.model }, signal);
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
}

async function* streamAnswer(
  { target, apiKey, request, model }: Call,
  signal: AbortSignal,
): AsyncGenerator<readonly ModelEvent[], void, undefined> {
  const exchange = new HttpExchange(target, signal);
  const decoder = new ChatDecoder(apiKey);
  try {
    const { status, headers } = await exchange.send(Buffer.from(chatRequestBody(request, model)));
    if (status < 200 || status > 299) {
      throw failureOfResponse({ status, headers, body: await bodyOf(exchange, signal) }, apiKey);
    }
    if (headers['content-type']?.startsWith('application/json') === true) {
      throw failureOfPlainAnswer(await bodyOf(exchange, signal), apiKey);
    }
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

/** As much of an error's body as can matter; what cannot be read of it does not. */
async function bodyOf(exchange: HttpExchange, signal: AbortSignal): Promise<string> {
  let body = '';
  try {
    while (body.length < maxErrorChars) {
      const text = await exchange.read();
      if (text === undefined) break;
      body += text;
    }
  } catch (cause) {
    if (signal.aborted) throw cause;
  }
  return body;
}
