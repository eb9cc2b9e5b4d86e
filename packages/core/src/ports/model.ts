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
  /** What the last answer has to be; a model that can be held to it should be. */
  readonly outputSchema?: JsonSchema;
  /** How much to think, for models that can; left out, as the provider likes. */
  readonly reasoning?: ReasoningEffort;
}

export type FinishReason = EventOf<'turn.completed'>['finishReason'];

export type ModelEvent =
  | { readonly type: 'text'; readonly text: string }
  | { readonly type: 'reasoning'; readonly text: string }
  /** `arguments` is the raw text that the provider sent: it may not even be JSON. */
  | {
      readonly type: 'tool-call';
      readonly id: string;
      readonly name: string;
      readonly arguments: string;
    }
  | {
      readonly type: 'finish';
      readonly reason: FinishReason;
      readonly usage: Usage;
      /** What the provider wants to see again with this answer. */
      readonly providerData?: ProviderData;
    };

/**
 * A model streams batches: one for each piece that came over the wire, however many events it held.
 * The last event is `finish`. A failure is a thrown `ProviderFailure`; nothing else is expected.
 */
export interface Model {
  /** How many tokens fit into its window, if that is known. */
  readonly contextTokens?: number;
  stream(request: ModelRequest, signal: AbortSignal): AsyncIterable<readonly ModelEvent[]>;
}

/** How a provider fails: whether to try again, and when. */
export class ProviderFailure extends Error {
  override readonly name = 'ProviderFailure';
  readonly retryable: boolean;
  readonly retryAfterMs: number | undefined;
  /** The prompt does not fit into the model's window. */
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

/** US dollars for a million tokens. */
export interface Price {
  readonly inputPerMillion: number;
  readonly outputPerMillion: number;
  /** Of input that was read from the provider's cache, or written there; left out: as other input. */
  readonly cachedInputPerMillion?: number;
  readonly cacheWritePerMillion?: number;
}

export interface ModelRegistry {
  /** The model behind a name for this tenant, or undefined if no provider offers it. */
  resolve(name: string): Model | undefined;
  list(): { id: string; provider: string }[];
  /** The provider whose credential the tenant would need for it, if it has none. */
  missing?(name: string): Promise<string | undefined>;
  /** What it costs, if anyone said so. */
  price?(name: string): Price | undefined;
}
