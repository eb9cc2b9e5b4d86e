import type { Model, ModelEvent, ModelRequest } from '../ports.ts';

export type ScriptedTurn =
  | readonly ModelEvent[]
  | ((request: ModelRequest) => readonly ModelEvent[] | Promise<readonly ModelEvent[]>)
  | Error;

export interface ScriptedModel extends Model {
  readonly requests: readonly ModelRequest[];
}

/**
 * A model that plays a script. Which turn comes next follows from the transcript alone, so it goes
 * on where it was after any crash. After the script it says nothing more.
 */
export function createScriptedModel(turns: readonly ScriptedTurn[]): ScriptedModel {
  const requests: ModelRequest[] = [];
  return {
    requests,
    async *stream(request, signal) {
      requests.push(request);
      const turn = turns[turnsTaken(request)] ?? [finish()];
      if (turn instanceof Error) throw turn;
      const events = typeof turn === 'function' ? await turn(request) : turn;
      for (const event of events) {
        if (signal.aborted) return;
        yield [event];
      }
    },
  };
}

function turnsTaken({ messages }: ModelRequest): number {
  const last = messages.findLastIndex((message) => message.role === 'user');
  return messages.slice(last + 1).filter((message) => message.role === 'assistant').length;
}

export function text(content: string): ModelEvent {
  return { type: 'text', text: content };
}

export function toolCall(id: string, name: string, input: unknown): ModelEvent {
  const json = typeof input === 'string' ? input : JSON.stringify(input);
  return { type: 'tool-call', id, name, arguments: json };
}

export function finish(usage = { inputTokens: 3, outputTokens: 2 }): ModelEvent {
  return { type: 'finish', reason: 'stop', usage };
}
