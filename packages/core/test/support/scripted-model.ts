import {
  type Model,
  type ModelEvent,
  type ModelRequest,
  ProviderFailure,
} from '../../src/ports/index.ts';

type Events = readonly ModelEvent[];

export type ScriptedTurn = Events | ((request: ModelRequest) => Events | Promise<Events>) | Error;

export interface ScriptedModel extends Model {
  /** Every request so far; the same turn is asked for again after a crash or a failure. */
  readonly requests: readonly ModelRequest[];
}

/**
 * A model that plays a script. Which turn is next follows from the transcript alone, by the number
 * of its answers since the last user message, so that it goes on where it was after any crash.
 */
export function createScriptedModel(turns: readonly ScriptedTurn[]): ScriptedModel {
  const requests: ModelRequest[] = [];
  return {
    requests,
    async *stream(request, signal) {
      requests.push(request);
      if (signal.aborted) throw aborted();
      for (const event of await eventsOf(turns, request)) {
        yield [event];
        if (signal.aborted) throw aborted();
      }
    },
  };
}

function eventsOf(turns: readonly ScriptedTurn[], request: ModelRequest): Events | Promise<Events> {
  const taken = turnsTaken(request);
  const turn = turns[taken];
  if (turn === undefined) {
    throw new ProviderFailure(`The script has no turn ${taken + 1}`, { retryable: false });
  }
  if (turn instanceof Error) throw turn;
  return typeof turn === 'function' ? turn(request) : turn;
}

function turnsTaken({ messages }: ModelRequest): number {
  const last = messages.findLastIndex((message) => message.role === 'user');
  return messages.slice(last + 1).filter((message) => message.role === 'assistant').length;
}

function aborted(): ProviderFailure {
  return new ProviderFailure('The model call was aborted', { retryable: false });
}

export function text(content: string): ModelEvent {
  return { type: 'text', text: content };
}

/** A text stands for itself, so that arguments can be anything, also no JSON. */
export function toolCall(id: string, name: string, args: unknown = {}): ModelEvent {
  const json = typeof args === 'string' ? args : JSON.stringify(args);
  return { type: 'tool-call', id, name, arguments: json };
}

export function finish(usage = { inputTokens: 3, outputTokens: 2 }): ModelEvent {
  return { type: 'finish', reason: 'stop', usage };
}
