/**
 * Decodes a Chat Completions stream to model events.
 *
 * Tool calls arrive in fragments and are held back until the answer is finished. `finish_reason` ends
 * the answer; only usage may follow.
 */
import {
  AnswerTooLarge,
  defaultSettings,
  type ModelEvent,
  ProviderFailure,
  type TurnFinish,
} from '@relay/core';
import { defined, noUsage, SseParser, type Usage } from '@relay/protocol';
import { endedEarly, failureInStream } from '../http/provider-failure.ts';
import { reasoningData } from './request.ts';
import { SafeNames } from '../provider-request.ts';
import { TextFrame } from './text-frame.ts';
import { ToolCallFragments } from './tool-call-fragments.ts';

/** A whole answer in one frame, with its escape sequences and other fields. */
const frameCharsPerChar = 2;
const minFrameChars = 1024 * 1024;

/** The fields of a chunk. It is untrusted: every field may be missing or have another type. */
interface Chunk {
  readonly object?: unknown;
  readonly error?: unknown;
  readonly model?: unknown;
  readonly usage?: ChunkUsage | null;
  readonly choices?: readonly (Choice | null)[] | null;
}

interface ChunkUsage {
  readonly prompt_tokens?: unknown;
  readonly completion_tokens?: unknown;
  readonly prompt_tokens_details?: { readonly cached_tokens?: unknown } | null;
  /** DeepSeek's name for cached tokens. */
  readonly prompt_cache_hit_tokens?: unknown;
  readonly completion_tokens_details?: { readonly reasoning_tokens?: unknown } | null;
}

interface Choice {
  readonly delta?: Delta | null;
  readonly finish_reason?: unknown;
}

interface Delta {
  readonly content?: unknown;
  readonly refusal?: unknown;
  readonly reasoning_content?: unknown;
  readonly reasoning?: unknown;
  readonly tool_calls?: unknown;
}

/** OpenAI's reasons, and those of servers that have their own. */
const finishReasons = new Map<string, TurnFinish>([
  ['stop', 'stop'],
  ['end_turn', 'stop'],
  ['eos', 'stop'],
  ['eos_token', 'stop'],
  ['stop_sequence', 'stop'],
  ['tool_calls', 'tool_calls'],
  ['function_call', 'tool_calls'],
  ['tool_use', 'tool_calls'],
  ['length', 'length'],
  ['max_tokens', 'length'],
  ['content_filter', 'content_filter'],
  ['safety', 'content_filter'],
  ['refusal', 'refusal'],
  // Mistral.
  ['model_length', 'context_exceeded'],
  ['model_context_window_exceeded', 'context_exceeded'],
]);
/** The server failed in the middle of its answer: OpenRouter and Mistral, DeepSeek, vLLM. */
const failedReasons = new Set(['error', 'insufficient_system_resource', 'abort']);

const maxModelChars = 128;

export class ChatDecoder {
  readonly #secret: string | undefined;
  readonly #names: SafeNames;
  readonly #model: string | undefined;
  readonly #parser: SseParser;
  readonly #textFrame = new TextFrame();
  readonly #calls: ToolCallFragments;
  readonly #maxChars: number;
  #events: ModelEvent[] = [];
  #reason: TurnFinish | undefined;
  #detail: string | undefined;
  #hasRefusal = false;
  /** A refusal without words. Some servers send an empty one with every answer. */
  #hasEmptyRefusal = false;
  #hasText = false;
  #hasOutput = false;
  #usage: Usage = noUsage;
  #responseModel: string | undefined;
  /** The `reasoning_content`: servers that send it require it in the next request. */
  #reasoningContent = '';
  #done = false;

  /** `model` is stored with the reasoning; without it, no reasoning is kept. */
  constructor(
    secret: string | undefined,
    names: SafeNames = new SafeNames([]),
    model?: string,
    maxChars = defaultSettings.maxAnswerChars,
  ) {
    this.#secret = secret;
    this.#names = names;
    this.#model = model;
    this.#maxChars = maxChars;
    this.#calls = new ToolCallFragments(maxChars);
    const maxFrameChars = Math.max(minFrameChars, frameCharsPerChar * maxChars);
    this.#parser = new SseParser((frame) => this.#frame(frame.data), { maxFrameChars });
  }

  /** True once there was text or reasoning. */
  get hasOutput(): boolean {
    return this.#hasOutput;
  }

  /** True once the answer is complete; its usage may still follow. */
  get answered(): boolean {
    return this.#reason !== undefined;
  }

  /** True once `finish` was emitted; the rest of the stream is ignored. */
  get done(): boolean {
    return this.#done;
  }

  /** The events of this chunk, which may end anywhere. */
  feed(text: string): readonly ModelEvent[] {
    try {
      this.#parser.feed(text);
    } catch (cause) {
      if (cause instanceof ProviderFailure) throw cause;
      throw new AnswerTooLarge(this.#maxChars);
    }
    return this.#take();
  }

  /** The stream has ended, normally or not. */
  end(): readonly ModelEvent[] {
    if (!this.#done) this.#complete();
    return this.#take();
  }

  #take(): readonly ModelEvent[] {
    const events = this.#events;
    this.#events = [];
    this.#hasOutput ||= events.length > 0;
    return events;
  }

  #frame(data: string): void {
    if (this.#done) return;
    const known = this.#textFrame.read(data);
    if (known !== undefined) {
      this.#events.push({ type: 'text', text: known });
      return;
    }
    if (data === '[DONE]') return this.#complete();
    const chunk = parseChunk(data);
    const error = chunk.error ?? (chunk.object === 'error' ? chunk : undefined);
    if (error !== undefined) throw failureInStream(error, this.#secret);
    if (isText(chunk.model)) this.#responseModel = chunk.model.slice(0, maxModelChars);
    const choice = chunk.choices?.[0];
    if (choice !== undefined && choice !== null) this.#choice(choice);
    if (typeof chunk.usage === 'object' && chunk.usage !== null) {
      this.#usage = usageOf(chunk.usage);
    }
    const text = onlyText(chunk);
    if (text !== undefined) this.#textFrame.record(data, text);
  }

  #choice({ delta, finish_reason: reason }: Choice): void {
    if (typeof delta === 'object' && delta !== null) this.#delta(delta);
    // Some servers send "" instead of null.
    if (typeof reason === 'string' && reason !== '') {
      const name = reason.toLowerCase();
      if (failedReasons.has(name)) throw endedEarly();
      this.#reason = finishReasons.get(name) ?? 'other';
      if (this.#reason !== 'stop' && this.#reason !== name) this.#detail = reason.slice(0, 64);
    }
  }

  #delta(delta: Delta): void {
    const reasoning = delta.reasoning_content ?? delta.reasoning;
    if (isText(reasoning)) this.#events.push({ type: 'reasoning', text: reasoning });
    if (isText(delta.reasoning_content)) this.#reasoningContent += delta.reasoning_content;
    if (isText(delta.content)) {
      this.#hasText = true;
      this.#events.push({ type: 'text', text: delta.content });
    }
    if (delta.refusal === '') this.#hasEmptyRefusal = true;
    if (isText(delta.refusal)) {
      this.#hasRefusal = true;
      this.#events.push({ type: 'text', text: delta.refusal });
    }
    if (Array.isArray(delta.tool_calls)) this.#calls.add(delta.tool_calls);
  }

  #complete(): void {
    if (this.#reason === undefined) {
      throw endedEarly();
    }
    this.#done = true;
    const calls = this.#calls.complete();
    const model = this.#model;
    const isEmptyRefusal = this.#hasEmptyRefusal && !this.#hasText && calls.length === 0;
    const isRefusal = this.#hasRefusal || isEmptyRefusal;
    const keepsReasoning = calls.length > 0 && this.#reasoningContent !== '' && model !== undefined;
    this.#events.push(
      ...calls.map((call) => ({ ...call, name: this.#names.original(call.name) })),
      {
        type: 'finish',
        reason: isRefusal && this.#reason === 'stop' ? 'refusal' : this.#reason,
        ...defined({ detail: this.#detail, model: this.#responseModel }),
        usage: this.#usage,
        ...(keepsReasoning ? { providerData: reasoningData(model, this.#reasoningContent) } : {}),
      },
    );
  }
}

function parseChunk(data: string): Chunk {
  let value: unknown;
  try {
    value = JSON.parse(data);
  } catch {
    // Without the text, which may contain anything.
    throw new ProviderFailure('The provider sent invalid JSON', { retryable: true });
  }
  return typeof value === 'object' && value !== null ? value : {};
}

function onlyText({ choices, usage }: Chunk): string | undefined {
  const choice = choices?.[0];
  const delta = choice?.delta;
  if (typeof delta !== 'object' || delta === null || !isText(delta.content)) return undefined;
  const others = [delta.reasoning_content, delta.reasoning, delta.refusal, choice?.finish_reason];
  if (others.some(isText) || Array.isArray(delta.tool_calls)) return undefined;
  return typeof usage === 'object' && usage !== null ? undefined : delta.content;
}

function usageOf(usage: ChunkUsage): Usage {
  const cached =
    count(usage.prompt_tokens_details?.cached_tokens) || count(usage.prompt_cache_hit_tokens);
  const reasoning = count(usage.completion_tokens_details?.reasoning_tokens);
  return {
    inputTokens: count(usage.prompt_tokens),
    outputTokens: count(usage.completion_tokens),
    ...(cached === 0 ? {} : { cachedInputTokens: cached }),
    ...(reasoning === 0 ? {} : { reasoningTokens: reasoning }),
  };
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== '';
}

function count(value: unknown): number {
  return Number.isSafeInteger(value) && (value as number) > 0 ? (value as number) : 0;
}
