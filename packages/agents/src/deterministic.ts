/** A harness that plays a script instead of asking a model, for tests. */
import { type ModelEvent, type ModelRequest, ProviderFailure } from '@relay/core';
import { noUsage, type Usage } from '@relay/protocol';
import type { Harness } from './models.ts';

export type ScriptedEvent =
  | { readonly type: 'text' | 'reasoning'; readonly content: string }
  | {
      readonly type: 'tool_call';
      readonly id: string;
      readonly name: string;
      readonly input: Readonly<Record<string, unknown>>;
    }
  | { readonly type: 'usage'; readonly inputTokens: number; readonly outputTokens: number }
  /** The provider fails here. */
  | { readonly type: 'error'; readonly message: string; readonly retryable?: boolean };

export interface ScriptedResponse {
  readonly events: readonly ScriptedEvent[];
}

export interface DeterministicOptions {
  /**
   * How long a relay waits for its answer. A test that forgets to answer then goes on with
   * `{status: "expired"}` instead of hanging. Default: 2 seconds; `Infinity` waits for ever.
   */
  readonly relayTimeoutMs?: number;
}

const deliveryTimeoutMs = 2_000;

/**
 * Plays one response after another: all events of an array are one response. Which one is next
 * follows from the transcript alone, so that agents can share a script, each at its own place. When
 * the script is over, the model says nothing more, and the run ends.
 */
export function createDeterministicHarness(
  script: readonly ScriptedEvent[] | { readonly responses: readonly ScriptedResponse[] },
  options: DeterministicOptions = {},
): Harness {
  const responses = 'responses' in script ? script.responses : [{ events: script }];
  return {
    relayTimeoutMs: options.relayTimeoutMs ?? deliveryTimeoutMs,
    defaultModel: 'deterministic',
    async *stream(request) {
      let usage: Usage = noUsage;
      for (const event of responses[answersSoFar(request)]?.events ?? []) {
        if (event.type === 'usage') {
          const { inputTokens, outputTokens } = event;
          usage = { inputTokens, outputTokens };
        } else {
          yield [played(event)];
        }
      }
      yield [{ type: 'finish', reason: 'stop', usage }];
    },
  };
}

function played(event: Exclude<ScriptedEvent, { type: 'usage' }>): ModelEvent {
  switch (event.type) {
    case 'text':
    case 'reasoning':
      return { type: event.type, text: event.content };
    case 'tool_call': {
      const { id, name, input } = event;
      return { type: 'tool-call', id, name, arguments: JSON.stringify(input) };
    }
    case 'error':
      throw new ProviderFailure(event.message, { retryable: event.retryable ?? false });
  }
}

/** What the prompt itself holds of earlier answers lies before its last user message. */
function answersSoFar({ messages }: ModelRequest): number {
  const asked = messages.findLastIndex(({ role }) => role === 'user');
  return messages.slice(asked + 1).filter(({ role }) => role === 'assistant').length;
}
