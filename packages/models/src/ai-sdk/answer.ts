/**
 * Converts an AI SDK stream to model events, and its errors to `ProviderFailure`. It also collects the
 * `providerData` that the provider requires in the next request: the parts and their metadata.
 */
import type {
  LanguageModelV4StreamPart,
  LanguageModelV4Usage,
  SharedV4ProviderMetadata,
} from '@ai-sdk/provider';
import {
  AnswerTooLarge,
  maxCallsInAnswer,
  type ModelEvent,
  ProviderFailure,
  type TurnFinish,
} from '@relay/core';
import { defined, type ProviderData, type Usage } from '@relay/protocol';
import type { SafeNames } from '../provider-request.ts';
import {
  callAborted,
  endedEarly,
  failureInStream,
  failureOfResponse,
  redact,
} from '../http/provider-failure.ts';

type Part = ProviderData['parts'][number];
type Metadata = NonNullable<Part['metadata']>;
type Finish = Extract<LanguageModelV4StreamPart, { type: 'finish' }>;

export interface AnswerOptions {
  readonly provider: string;
  readonly model: string;
  readonly names: SafeNames;
  readonly apiKey: string;
  /** The reasoning of earlier answers was left out of the request. */
  readonly withoutMetadata: boolean;
  readonly maxChars: number;
  /** The metadata of a part that the next request needs. */
  keep(metadata: Readonly<Record<string, unknown>>, part: Part['type']): Record<string, unknown>;
  responseModel?: ((chunk: Readonly<Record<string, unknown>>) => unknown) | undefined;
}

const maxModelChars = 128;

/** Every part is recorded, even an empty one. */
const charsPerPart = 64;

export class SdkAnswer {
  readonly #options: AnswerOptions;
  readonly #parts: Part[] = [];
  readonly #open = new Map<string, Part>();
  #calls = 0;
  /** What is held until the answer is finished: by this class and, of tool calls, by the package. */
  #heldChars = 0;
  #hasReasoning = false;
  #finished = false;
  #responseModel: string | undefined;

  constructor(options: AnswerOptions) {
    this.#options = options;
  }

  get finished(): boolean {
    return this.#finished;
  }

  take(part: LanguageModelV4StreamPart): readonly ModelEvent[] {
    switch (part.type) {
      case 'text-start':
      case 'reasoning-start':
        return this.#begin(part);
      case 'text-delta':
        this.#append(`text ${part.id}`, part);
        return part.delta === '' ? [] : [{ type: 'text', text: part.delta }];
      case 'reasoning-delta':
        this.#append(`reasoning ${part.id}`, part);
        if (part.delta === '') return [];
        this.#hasReasoning = true;
        return [{ type: 'reasoning', text: part.delta }];
      case 'text-end':
      case 'reasoning-end':
        this.#addMetadata(
          this.#open.get(`${part.type.slice(0, -4)} ${part.id}`),
          part.providerMetadata,
        );
        return [];
      case 'tool-input-delta':
        this.#hold(part.delta.length);
        return [];
      case 'tool-call':
        return part.providerExecuted === true ? [] : [this.#call(part)];
      case 'error':
        throw failureOfPart(part.error, this.#options.apiKey);
      case 'response-metadata':
        this.#responseModel = part.modelId?.slice(0, maxModelChars) ?? this.#responseModel;
        return [];
      case 'raw':
        this.#readModel(part.rawValue);
        return [];
      case 'finish':
        return [this.#finish(part)];
      default:
        return [];
    }
  }

  /** The chunk is untrusted. */
  #readModel(chunk: unknown): void {
    if (typeof chunk !== 'object' || chunk === null || this.#responseModel !== undefined) return;
    const model = this.#options.responseModel?.(chunk as Record<string, unknown>);
    if (typeof model === 'string') this.#responseModel = model.slice(0, maxModelChars);
  }

  #begin(part: Extract<LanguageModelV4StreamPart, { type: 'text-start' | 'reasoning-start' }>) {
    const recorded: Part =
      part.type === 'text-start' ? { type: 'text', chars: 0 } : { type: 'reasoning', text: '' };
    this.#record(recorded);
    this.#open.set(`${recorded.type} ${part.id}`, recorded);
    this.#addMetadata(recorded, part.providerMetadata);
    const needsBreak = recorded.type === 'reasoning' && this.#hasReasoning;
    return needsBreak ? [{ type: 'reasoning' as const, text: '\n\n' }] : [];
  }

  #append(
    key: string,
    part: { delta: string; providerMetadata?: SharedV4ProviderMetadata | undefined },
  ): void {
    const recorded = this.#open.get(key);
    if (recorded?.type === 'text') recorded.chars += part.delta.length;
    if (recorded?.type === 'reasoning') {
      this.#hold(part.delta.length);
      recorded.text += part.delta;
    }
    this.#addMetadata(recorded, part.providerMetadata);
  }

  #record(part: Part): void {
    this.#hold(charsPerPart);
    this.#parts.push(part);
  }

  #hold(chars: number): void {
    this.#heldChars += chars;
    const { maxChars } = this.#options;
    // A package reports the arguments of a call twice: as they arrive, and with the call.
    if (this.#heldChars > 2 * maxChars) throw new AnswerTooLarge(maxChars);
  }

  #addMetadata(recorded: Part | undefined, metadata: SharedV4ProviderMetadata | undefined): void {
    if (recorded === undefined || metadata === undefined) return;
    const kept: Metadata = { ...recorded.metadata };
    for (const [provider, values] of Object.entries(metadata)) {
      const added = Object.entries(this.#options.keep(values, recorded.type)).filter(
        ([, value]) => value !== undefined && value !== null,
      );
      if (added.length === 0) continue;
      // Encrypted reasoning can be longer than the text.
      for (const [, value] of added) if (typeof value === 'string') this.#hold(value.length);
      kept[provider] = { ...kept[provider], ...(Object.fromEntries(added) as Metadata[string]) };
    }
    if (Object.keys(kept).length > 0) recorded.metadata = kept;
  }

  #call(part: Extract<LanguageModelV4StreamPart, { type: 'tool-call' }>): ModelEvent {
    const { toolCallId: id, toolName, input } = part;
    const recorded: Part = { type: 'call', nth: this.#calls };
    this.#record(recorded);
    this.#addMetadata(recorded, part.providerMetadata);
    this.#calls += 1;
    if (this.#calls > maxCallsInAnswer) throw new AnswerTooLarge(this.#options.maxChars);
    this.#hold(input.length);
    const name = this.#options.names.original(toolName);
    return { type: 'tool-call', id, name, arguments: input };
  }

  #finish({ finishReason, usage, providerMetadata }: Finish): ModelEvent {
    const { unified, raw } = finishReason;
    if (unified === 'interrupted' || unified === 'error') throw endedEarly();
    this.#finished = true;
    const ended = reasonOf(finishReason);
    const isWhole = ended === 'stop' || ended === 'other';
    const reason: TurnFinish = this.#calls > 0 && isWhole ? 'tool_calls' : ended;
    const detail = isWhole && ended !== 'other' ? undefined : raw?.slice(0, 64);
    const providerData = this.#providerData();
    const reasoningDropped =
      this.#options.withoutMetadata || hasDropped(providerMetadata) ? (true as const) : undefined;
    const model = this.#responseModel;
    const more = defined({ detail, model, providerData, reasoningDropped });
    return { type: 'finish', reason, usage: usageOf(usage), ...more };
  }

  /** Without metadata the transcript holds everything. */
  #providerData(): ProviderData | undefined {
    if (this.#parts.every(({ metadata }) => metadata === undefined)) return undefined;
    const { provider, model } = this.#options;
    const parts = this.#parts.filter(
      (part) => part.type !== 'reasoning' || part.metadata !== undefined,
    );
    return { provider, model, parts };
  }
}

/** Anthropic names the thinking blocks that it dropped. */
function hasDropped(metadata: SharedV4ProviderMetadata | undefined): boolean {
  const transformed = metadata?.['anthropic']?.['inputTransformations'];
  return Array.isArray(transformed) && transformed.length > 0;
}

/** The packages use one word for several reasons; `raw` is the provider's own. */
function reasonOf({ unified, raw }: Finish['finishReason']): TurnFinish {
  if (raw === 'model_context_window_exceeded') return 'context_exceeded';
  switch (unified) {
    case 'content-filter':
      // OpenAI has no word for the refusal of a model: it sends its text instead.
      return raw === 'refusal' || raw === undefined ? 'refusal' : 'content_filter';
    case 'tool-calls':
      return 'tool_calls';
    case 'stop':
    case 'length':
      return unified;
    default:
      return 'other';
  }
}

function usageOf({ inputTokens, outputTokens }: LanguageModelV4Usage): Usage {
  const [read, written] = [count(inputTokens.cacheRead), count(inputTokens.cacheWrite)];
  const reasoning = count(outputTokens.reasoning);
  const parts = count(inputTokens.noCache) + read + written;
  return {
    inputTokens: inputTokens.total === undefined ? parts : count(inputTokens.total),
    outputTokens: count(outputTokens.total),
    ...(read === 0 ? {} : { cachedInputTokens: read }),
    ...(written === 0 ? {} : { cacheWriteTokens: written }),
    ...(reasoning === 0 ? {} : { reasoningTokens: reasoning }),
  };
}

function count(value: number | undefined): number {
  return value !== undefined && Number.isSafeInteger(value) && value > 0 ? value : 0;
}

export function failureOfSdk(cause: unknown, apiKey: string, signal: AbortSignal): ProviderFailure {
  if (signal.aborted) return callAborted();
  const own = ownFailureIn(cause);
  if (own !== undefined) return own;
  const { name, statusCode, responseBody, message } = cause as Record<string, unknown>;
  if (typeof statusCode === 'number') {
    const body = typeof responseBody === 'string' ? responseBody : String(message);
    return failureOfResponse({ status: statusCode, headers: {}, body }, apiKey);
  }
  if (isUnreadable(name)) return unreadable();
  const why = redact(cause instanceof Error ? cause.message : String(cause), apiKey);
  return new ProviderFailure(`The request cannot be sent to this provider: ${why.slice(0, 500)}`, {
    retryable: false,
  });
}

/** An error part in a stream that had begun normally. */
function failureOfPart(error: unknown, apiKey: string): ProviderFailure {
  const own = ownFailureIn(error);
  if (own !== undefined) return own;
  if (typeof error !== 'object' || error === null) return failureInStream(error, apiKey);
  const { name, statusCode, message, type, code, details } = error as Record<string, unknown>;
  if (isUnreadable(name)) return unreadable();
  return failureInStream({ message, type, code, details, status: statusCode }, apiKey);
}

/** The `ProviderFailure` of our own connection, which the packages may have wrapped. */
function ownFailureIn(cause: unknown): ProviderFailure | undefined {
  let inner = cause;
  for (let depth = 0; depth < 5 && inner instanceof Error; depth += 1) {
    if (inner instanceof ProviderFailure) return inner;
    inner = inner.cause;
  }
  return undefined;
}

/** The packages name errors in requests; for an invalid response they often throw a bare `Error`. */
function isUnreadable(name: unknown): boolean {
  return name === 'AI_JSONParseError' || name === 'AI_TypeValidationError' || name === 'Error';
}

/** Without its text, which may contain anything. */
function unreadable(): ProviderFailure {
  return new ProviderFailure('The provider sent an invalid response', { retryable: true });
}
