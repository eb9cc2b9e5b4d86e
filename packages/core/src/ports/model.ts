import type {
  EventOf,
  JsonSchema,
  Message,
  ProviderData,
  ReasoningEffort,
  RunError,
  Usage,
} from '@relay/protocol';

export interface ToolSpec {
  readonly name: string;
  readonly description: string;
  readonly inputSchema: Readonly<Record<string, unknown>>;
}

export interface ModelRequest {
  readonly model: string;
  readonly messages: readonly Message[];
  readonly tools: readonly ToolSpec[];
  /** The JSON Schema of the final answer, for models that can enforce one. */
  readonly outputSchema?: JsonSchema;
  /** The most tokens of an answer, reasoning included. Default: the provider's own. */
  readonly maxOutputTokens?: number;
  /** Default: the provider's own. */
  readonly reasoning?: ReasoningEffort;
  /** The most characters of an answer. An adapter that holds parts of it back holds no more. */
  readonly maxAnswerChars?: number;
}

export type TurnFinish = EventOf<'turn.completed'>['finishReason'];

export type ModelEvent =
  | { readonly type: 'text'; readonly text: string }
  | { readonly type: 'reasoning'; readonly text: string }
  /** `arguments` is the provider's raw text, which may be invalid JSON. */
  | {
      readonly type: 'tool-call';
      readonly id: string;
      readonly name: string;
      readonly arguments: string;
    }
  | {
      readonly type: 'finish';
      readonly reason: TurnFinish;
      /** The provider's own word for the reason, if it says more. */
      readonly detail?: string;
      /** Reasoning of earlier answers was not used: something before it had changed. */
      readonly reasoningDropped?: true;
      readonly usage: Usage;
      /** The model that answered, as the provider names it: often a dated version. */
      readonly model?: string;
      /** Opaque data that the provider expects back together with this answer. */
      readonly providerData?: ProviderData;
    };

/**
 * A model streams batches of events, one per chunk that it receives. The last event is `finish`. It
 * fails by throwing a `ProviderFailure`.
 */
export interface Model {
  /** The size of the context window, if known. */
  readonly contextTokens?: number;
  stream(request: ModelRequest, signal: AbortSignal): AsyncIterable<readonly ModelEvent[]>;
}

export class ProviderFailure extends Error {
  override readonly name = 'ProviderFailure';
  readonly retryable: boolean;
  readonly retryAfterMs: number | undefined;
  /** The prompt does not fit into the context window. */
  readonly contextExceeded: boolean;

  constructor(
    message: string,
    options: { retryable: boolean; retryAfterMs?: number; contextExceeded?: boolean },
  ) {
    super(message);
    this.retryable = options.retryable;
    this.retryAfterMs = options.retryAfterMs;
    this.contextExceeded = options.contextExceeded ?? false;
  }

  toRunError(): RunError {
    const failed = this.retryable ? 'provider_failed' : 'provider_rejected';
    const code = this.contextExceeded ? 'context_exceeded' : failed;
    return { code, message: this.message, retryable: this.retryable };
  }
}

/** The most tool calls of one answer. */
export const maxCallsInAnswer = 1024;

/** The answer is longer than `maxAnswerChars`, or has more tool calls than an answer may have. */
export class AnswerTooLarge extends ProviderFailure {
  /** A single frame of the answer is too long if no number of characters is given. */
  constructor(maxChars?: number) {
    const excess =
      maxChars === undefined
        ? 'contains a frame that is too long'
        : `has more than ${maxChars} characters of text, reasoning and tool calls ` +
          '(RELAY_MAX_ANSWER_CHARS of a server, maxAnswerChars of a harness), ' +
          `or more than ${maxCallsInAnswer} tool calls`;
    super(`The model’s answer ${excess}`, { retryable: false });
  }

  override toRunError(): RunError {
    return { code: 'answer_too_large', message: this.message, retryable: false };
  }
}

/** US dollars per million tokens. */
export interface Price {
  readonly inputPerMillion: number;
  readonly outputPerMillion: number;
  /** Input tokens that the provider read from or wrote to its cache. Default: `inputPerMillion`. */
  readonly cachedInputPerMillion?: number | undefined;
  readonly cacheWritePerMillion?: number | undefined;
}

export interface ModelRegistry {
  /** `undefined` if no provider offers the model to this tenant. */
  resolve(name: string): Model | undefined;
  list(): { id: string; provider: string }[];
  /** The provider whose credential the tenant lacks for this model. */
  missing?(name: string): Promise<string | undefined>;
  price?(name: string): Price | undefined;
}
