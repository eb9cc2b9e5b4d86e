/**
 * What a provider of the AI SDK says, in our words. Besides text, reasoning and calls it notes what
 * the provider wants to see again (`providerData`): which parts there were, and their marks.
 */
import type {
  LanguageModelV4StreamPart,
  LanguageModelV4Usage,
  SharedV4ProviderMetadata,
} from '@ai-sdk/provider';
import { type FinishReason, type ModelEvent, ProviderFailure } from '@relay/core';
import type { ProviderData, Usage } from '@relay/protocol';
import type { SafeNames } from '../provider-request.ts';
import {
  callAborted,
  failureInStream,
  failureOfResponse,
  redact,
} from '../http/provider-failure.ts';

type Noted = ProviderData['parts'][number];
type Metadata = NonNullable<Noted['metadata']>;
type Finish = Extract<LanguageModelV4StreamPart, { type: 'finish' }>;

export interface AnswerOptions {
  readonly provider: string;
  readonly model: string;
  readonly names: SafeNames;
  readonly apiKey: string;
  /** What is worth keeping of the marks of a part. */
  keep(mark: Readonly<Record<string, unknown>>, part: Noted['type']): Record<string, unknown>;
}

/** They are held in memory until the answer is finished. */
const maxCallChars = 16 * 1024 * 1024;
const maxCalls = 1024;

export class SdkAnswer {
  readonly #options: AnswerOptions;
  readonly #noted: Noted[] = [];
  readonly #open = new Map<string, Noted>();
  #calls = 0;
  #callChars = 0;
  #hasReasoned = false;
  #finished = false;

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
        this.#add(`text ${part.id}`, part);
        return part.delta === '' ? [] : [{ type: 'text', text: part.delta }];
      case 'reasoning-delta':
        this.#add(`reasoning ${part.id}`, part);
        if (part.delta === '') return [];
        this.#hasReasoned = true;
        return [{ type: 'reasoning', text: part.delta }];
      case 'text-end':
      case 'reasoning-end':
        this.#mark(this.#open.get(`${part.type.slice(0, -4)} ${part.id}`), part.providerMetadata);
        return [];
      case 'tool-call':
        return part.providerExecuted === true ? [] : [this.#call(part)];
      case 'error':
        throw failureOfPart(part.error, this.#options.apiKey);
      case 'finish':
        return [this.#finish(part)];
      default:
        return [];
    }
  }

  #begin(part: Extract<LanguageModelV4StreamPart, { type: 'text-start' | 'reasoning-start' }>) {
    const noted: Noted =
      part.type === 'text-start' ? { type: 'text', chars: 0 } : { type: 'reasoning', text: '' };
    this.#noted.push(noted);
    this.#open.set(`${noted.type} ${part.id}`, noted);
    this.#mark(noted, part.providerMetadata);
    // Blocks of reasoning are thoughts of their own; without a break they would run together.
    const again = noted.type === 'reasoning' && this.#hasReasoned;
    return again ? [{ type: 'reasoning' as const, text: '\n\n' }] : [];
  }

  #add(
    place: string,
    part: { delta: string; providerMetadata?: SharedV4ProviderMetadata | undefined },
  ): void {
    const noted = this.#open.get(place);
    if (noted?.type === 'text') noted.chars += part.delta.length;
    if (noted?.type === 'reasoning') noted.text += part.delta;
    this.#mark(noted, part.providerMetadata);
  }

  #mark(noted: Noted | undefined, metadata: SharedV4ProviderMetadata | undefined): void {
    if (noted === undefined || metadata === undefined) return;
    const kept: Metadata = { ...noted.metadata };
    for (const [provider, mark] of Object.entries(metadata)) {
      const worth = Object.entries(this.#options.keep(mark, noted.type)).filter(
        ([, value]) => value !== undefined && value !== null,
      );
      if (worth.length === 0) continue;
      kept[provider] = { ...kept[provider], ...(Object.fromEntries(worth) as Metadata[string]) };
    }
    if (Object.keys(kept).length > 0) noted.metadata = kept;
  }

  #call(part: Extract<LanguageModelV4StreamPart, { type: 'tool-call' }>): ModelEvent {
    const { toolCallId: id, toolName, input } = part;
    const noted: Noted = { type: 'call', nth: this.#calls };
    this.#noted.push(noted);
    this.#mark(noted, part.providerMetadata);
    this.#calls += 1;
    this.#callChars += input.length;
    if (this.#calls > maxCalls || this.#callChars > maxCallChars) {
      throw new ProviderFailure('The provider sent tool calls that are too long', {
        retryable: false,
      });
    }
    const name = this.#options.names.original(toolName);
    return { type: 'tool-call', id, name, arguments: input };
  }

  #finish({ finishReason, usage }: Finish): ModelEvent {
    const { unified } = finishReason;
    if (unified === 'interrupted' || unified === 'error') {
      throw new ProviderFailure('The provider’s answer ended before it was finished', {
        retryable: true,
      });
    }
    this.#finished = true;
    const reason: FinishReason = this.#calls > 0 ? 'tool-calls' : unified;
    const providerData = this.#providerData();
    return {
      type: 'finish',
      reason,
      usage: usageOf(usage),
      ...(providerData === undefined ? {} : { providerData }),
    };
  }

  /** Without a single mark there is nothing that the words do not say. */
  #providerData(): ProviderData | undefined {
    if (this.#noted.every(({ metadata }) => metadata === undefined)) return undefined;
    const { provider, model } = this.#options;
    const parts = this.#noted.filter(
      (part) => part.type !== 'reasoning' || part.metadata !== undefined,
    );
    return { provider, model, parts };
  }
}

/** What a provider counts apart is told where there was any. */
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

/** What the AI SDK's packages throw or report, as our one kind of failure. */

interface EventBuffer {
  readonly apiKey: string;
  readonly signal: AbortSignal;
}

/** What was thrown while a provider was asked or heard. */
export function failureOfSdk(cause: unknown, { apiKey, signal }: EventBuffer): ProviderFailure {
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
  return new ProviderFailure(`The request cannot be put to this provider: ${why.slice(0, 500)}`, {
    retryable: false,
  });
}

/** What came as a part of a stream which had begun well. */
export function failureOfPart(error: unknown, apiKey: string): ProviderFailure {
  const own = ownFailureIn(error);
  if (own !== undefined) return own;
  if (typeof error !== 'object' || error === null) return failureInStream(error, apiKey);
  const { name, statusCode, message, type, code } = error as Record<string, unknown>;
  if (isUnreadable(name)) return unreadable();
  return failureInStream({ message, type, code, status: statusCode }, apiKey);
}

/** A failure of our own connection keeps its words, however often it was wrapped. */
function ownFailureIn(cause: unknown): ProviderFailure | undefined {
  let inner = cause;
  for (let depth = 0; depth < 5 && inner instanceof Error; depth += 1) {
    if (inner instanceof ProviderFailure) return inner;
    inner = inner.cause;
  }
  return undefined;
}

/** The packages have names for what they cannot ask; what they cannot read is often a bare `Error`. */
function isUnreadable(name: unknown): boolean {
  return name === 'AI_JSONParseError' || name === 'AI_TypeValidationError' || name === 'Error';
}

/** Its text is not repeated: nobody knows what it holds. */
function unreadable(): ProviderFailure {
  return new ProviderFailure('The provider sent something that cannot be read', {
    retryable: true,
  });
}
