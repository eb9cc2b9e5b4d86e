import type { EventOf, Message, RunError, Usage } from '@relay/protocol';

export interface ToolSpec {
  readonly name: string;
  readonly description: string;
  readonly inputSchema: Readonly<Record<string, unknown>>;
}

export interface ModelRequest {
  readonly model: string;
  readonly messages: readonly Message[];
  readonly tools: readonly ToolSpec[];
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
  | { readonly type: 'finish'; readonly reason: FinishReason; readonly usage: Usage };

/**
 * A model streams batches: one for each piece that came over the wire, however many events it held.
 * The last event is `finish`. A failure is a thrown `ProviderFailure`; nothing else is expected.
 */
export interface Model {
  stream(request: ModelRequest, signal: AbortSignal): AsyncIterable<readonly ModelEvent[]>;
}

/** How a provider fails: whether to try again, and when. */
export class ProviderFailure extends Error {
  override readonly name = 'ProviderFailure';
  readonly retryable: boolean;
  readonly retryAfterMs: number | undefined;

  constructor(message: string, options: { retryable: boolean; retryAfterMs?: number }) {
    super(message);
    this.retryable = options.retryable;
    this.retryAfterMs = options.retryAfterMs;
  }

  toRunError(): RunError {
    const code = this.retryable ? 'provider_failed' : 'provider_rejected';
    return { code, message: this.message, retryable: this.retryable };
  }
}

export interface ModelRegistry {
  /** The model behind a name for this tenant, or undefined if no provider offers it. */
  resolve(name: string): Model | undefined;
  list(): { id: string; provider: string }[];
}
