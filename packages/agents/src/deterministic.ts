/** A harness that plays a script instead of calling a model, for tests. */
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
  /** The provider fails. */
  | { readonly type: 'error'; readonly message: string; readonly retryable?: boolean };

export interface ScriptedResponse {
  readonly events: readonly ScriptedEvent[];
}

export interface DeterministicOptions {
  /**
   * How long a relay waits for its answer. A test that does not answer then continues with
   * `{status: "expired"}` instead of hanging. Default: 2 seconds; `Infinity` waits forever.
   */
  readonly relayTimeoutMs?: number;
}

const defaultRelayTimeoutMs = 2_000;

/**
 * Plays one response per turn; an array of events is one response. The transcript alone determines
 * the next response, so that several agents can share a script. After the last response the model
 * returns nothing, and the run ends.
 */
export function createDeterministicHarness(
  script: readonly ScriptedEvent[] | { readonly responses: readonly ScriptedResponse[] },
  options: DeterministicOptions = {},
): Harness {
  const responses = 'responses' in script ? script.responses : [{ events: script }];
  return {
    relayTimeoutMs: options.relayTimeoutMs ?? defaultRelayTimeoutMs,
    defaultModel: 'deterministic',
    async *stream(request) {
      let usage: Usage = noUsage;
      for (const event of responses[responseCount(request)]?.events ?? []) {
        if (event.type === 'usage') {
          const { inputTokens, outputTokens } = event;
          usage = { inputTokens, outputTokens };
        } else {
          yield [modelEvent(event)];
        }
      }
      yield [{ type: 'finish', reason: 'stop', usage }];
    },
  };
}

function modelEvent(event: Exclude<ScriptedEvent, { type: 'usage' }>): ModelEvent {
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

/** Counts the responses after the last user message; earlier ones belong to the prompt. */
function responseCount({ messages }: ModelRequest): number {
  const lastUser = messages.findLastIndex(({ role }) => role === 'user');
  return messages.slice(lastUser + 1).filter(({ role }) => role === 'assistant').length;
}
